// SPDX-License-Identifier: Apache-2.0
#include "op/add.h"
#include "op/cast.h"
#include "op/gelu.h"
#include "op/swiglu.h"
#include "tests/kit/cpu_kit.h"
#include <math.h>

static const char *const shapes[] = {"1", "31", "33x7", "0x5", "1000", "3x7000"};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_SMALL = N_SHAPES - 1 };

static void add_and_copy_agree_with_their_references(void **state)
{
    for (uint64_t i = 0; i < N_SHAPES; i++) {
        const lt_tensor in[] = {lt_test_random(*state, shapes[i], 1 + i),
                                lt_test_random(*state, shapes[i], 11 + i)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_add,
                                                   .in = in,
                                                   .tol = 1e-9,
                                                   .tol_bf16 = 1e-9}); // the same roundings
        lt_test_cpu_agrees(
            *state, &(lt_cpu_check){.def = &lt_op_copy, .in = in, .tol = 1e-9, .tol_bf16 = 1e-9});
    }
}

static void cast_agrees_with_its_reference(void **state)
{
    for (uint64_t i = 0; i < N_SMALL; i++) {
        for (int to = 0; to < 2; to++) {
            const lt_cast_attr attr = {.dtype = to ? LT_BF16 : LT_F32};
            const lt_tensor in[] = {lt_test_random(*state, shapes[i], 1 + i)};
            lt_test_cpu_agrees(
                *state,
                &(lt_cpu_check){
                    .def = &lt_op_cast, .attr = &attr, .in = in, .tol = 1e-9, .tol_bf16 = 0.004});
        }
    }
}

static void swiglu_agrees_with_its_reference(void **state)
{
    for (uint64_t i = 0; i < N_SHAPES; i++) {
        const lt_tensor in[] = {lt_test_random_of(*state, LT_F32, shapes[i], 1 + i, 4.0),
                                lt_test_random(*state, shapes[i], 11 + i)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_swiglu, .in = in});
    }
}

static void gelu_agrees_with_its_reference(void **state)
{
    for (uint64_t i = 0; i < N_SMALL; i++) {
        for (int kind = 0; kind < 2; kind++) {
            const lt_gelu_attr attr = {.kind = kind ? LT_GELU_TANH : LT_GELU_ERF};
            const lt_tensor in[] = {lt_test_random_of(*state, LT_F32, shapes[i], 1 + i, 3.0)};
            lt_test_cpu_agrees(*state,
                               &(lt_cpu_check){.def = &lt_op_gelu, .attr = &attr, .in = in});
        }
    }
}

// Each result on its own scale, far into both tails: relative to the whole vector nothing would
// show there.
static void the_tails_are_finite_and_keep_their_digits(void **state)
{
    static const float x[] = {-1e30F, -200,   -100, -90, -20, -9,  -5,    -1e-20F,
                              0,      1e-20F, 5,    30,  88,  100, 1e18F, 3e30F};
    enum { N = sizeof x / sizeof *x };
    const lt_test_column cpu = {.backend = LT_CPU};
    for (int kind = 0; kind < 3; kind++) {
        const lt_gelu_attr attr = {.kind = kind == 1 ? LT_GELU_TANH : LT_GELU_ERF};
        const lt_op_def *def = kind < 2 ? &lt_op_gelu : &lt_op_swiglu;
        const lt_tensor v = lt_test_f32(*state, "16", x),
                        one = lt_test_converted(*state, &v, LT_F32), in[] = {v, one};
        for (int i = 0; i < N; i++)
            ((float *)one.data)[i] = 1.0F;
        lt_tensor want[1], got[1], dwant[2] = {0}, dgot[2] = {0};
        assert_ok(lt_test_forward(*state, def, in, &attr, want));
        assert_ok(lt_test_forward_on(*state, cpu, def, in, &attr, got));
        dwant[0] = lt_test_garbage(*state, &v);
        dgot[0] = lt_test_garbage(*state, &v);
        assert_ok(lt_test_backward_on(*state, (lt_test_column){.backend = LT_REF}, def, in, &attr,
                                      want, &one, dwant, 0));
        assert_ok(lt_test_backward_on(*state, cpu, def, in, &attr, got, &one, dgot, 0));
        for (int i = 0; i < N; i++) {
            const double y = lt_load(&want[0], i), d = lt_load(&dwant[0], i);
            assert_near(lt_load(&got[0], i), y,
                        fabs(y) * 3e-5 + 1e-15); // exp of -90 loses a few digits in its argument
            assert_near(lt_load(&dgot[0], i), d, fabs(d) * 3e-5 + 1e-14);
        }
    }
}

LT_TEST_MAIN(LT_TEST(add_and_copy_agree_with_their_references),
             LT_TEST(cast_agrees_with_its_reference), LT_TEST(swiglu_agrees_with_its_reference),
             LT_TEST(gelu_agrees_with_its_reference),
             LT_TEST(the_tails_are_finite_and_keep_their_digits))
