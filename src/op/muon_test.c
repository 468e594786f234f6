// SPDX-License-Identifier: Apache-2.0
#include "op/adamw.h"
#include "op/muon.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <string.h>

static const lt_muon_attr usual = {
    .momentum = 0.5, .weight_decay = 0.5, .lr_scale = 2.0, .rms = 0.2, .steps = 5, .longer = 4};

static lt_tensor scalars(void *state, double lr, double clip)
{
    return lt_test_f64(state, "4",
                       (double[LT_N_SCALARS]){[LT_SCALAR_LR] = lr, [LT_SCALAR_CLIP] = clip});
}

// In its own scratch, on the reference and on the CPU.
static lt_status orthogonalize(void *state, lt_backend backend, int32_t steps, lt_tensor *u)
{
    lt_muon_attr attr = usual;
    lt_device device = {.backend = backend};
    const size_t bytes = lt_orthogonalize_bytes(u->dim[0], u->dim[1]);
    const lt_run run = {
        .device = &device, .scratch = lt_test_take(state, bytes), .scratch_bytes = bytes};
    lt_op_args a = {.def = &lt_op_orthogonalize, .attr = &attr, .out = {u}, .run = &run};
    attr.steps = steps;
    LT_TRY(lt_op_orthogonalize.infer(&a));
    LT_TRY(lt_op_orthogonalize.forward[backend](&a));
    assert_guards(u);
    return LT_OK;
}

static void momentum_looks_ahead_of_what_it_keeps(void **state)
{
    // g' = 2 g; buf = 0.5 buf + g'; u = g' + 0.5 buf
    lt_tensor g = lt_test_f32(*state, "2", (float[]){1, -0.5F}), s = scalars(*state, 0.0, 2.0),
              buf = lt_test_f32(*state, "2", (float[]){1, 0.5F}),
              u = lt_test_tensor(*state, LT_BF16, "2");
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        lt_tensor b = lt_test_converted(*state, &buf, LT_F32);
        lt_device device = {.backend = (lt_backend)backend};
        const lt_run run = {.device = &device};
        lt_op_args a = {.def = &lt_op_muon_momentum,
                        .attr = &usual,
                        .in = {&g, &s},
                        .out = {&b, &u},
                        .run = &run};
        assert_ok(lt_op_muon_momentum.infer(&a));
        assert_ok(lt_op_muon_momentum.forward[backend](&a));
        assert_floats(&b, 0, 2.5, -0.75);
        assert_floats(&u, 0, 3.25, -1.375);
    }
}

// Of [3]: x = 1; A = 1; -4.7750 + 2.0315 = -2.7435 is -2.75 in bf16; 3.4445 - 2.75 = 0.6945 is
// 0.6953125. Of [0]: nothing.
static void one_number_goes_the_way_that_one_can_follow_by_hand(void **state)
{
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        const lt_tensor three = lt_test_f32(*state, "1x1", (float[]){3}),
                        none = lt_test_f32(*state, "2x3", (float[]){0, 0, 0, 0, 0, 0});
        lt_tensor u = lt_test_converted(*state, &three, LT_BF16),
                  z = lt_test_converted(*state, &none, LT_BF16);
        assert_ok(orthogonalize(*state, (lt_backend)backend, 1, &u));
        assert_floats(&u, 0, 0.6953125);
        assert_ok(orthogonalize(*state, (lt_backend)backend, 5, &z));
        assert_floats(&z, 0, 0, 0, 0, 0, 0, 0);
    }
}

// All singular values come near 1: between 0.68 and 1.13 by the polynomial, a little more by bf16.
static void rows_come_out_nearly_orthonormal(void **state)
{
    enum { R = 6 };
    const int64_t c = 40;
    const lt_tensor start = lt_test_random(*state, "6x40", 3);
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        lt_tensor u = lt_test_converted(*state, &start, LT_BF16);
        assert_ok(orthogonalize(*state, (lt_backend)backend, 5, &u));
        for (int i = 0; i < R; i++) {
            for (int j = 0; j < R; j++) {
                const double dot = lt_dot(&u, i * c, 1, &u, j * c, 1, c);
                assert_true(i == j ? dot > 0.4 && dot < 1.4 : fabs(dot) < 0.45);
            }
        }
    }
}

static void a_tall_matrix_is_the_wide_one_turned(void **state)
{
    enum { R = 3, C = 7 };
    lt_tensor start = lt_test_random(*state, "3x7", 5), turned = lt_test_random(*state, "7x3", 5);
    for (int i = 0; i < R * C; i++)
        lt_store(&turned, i % C * R + i / C, lt_load(&start, i));
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        lt_tensor wide = lt_test_converted(*state, &start, LT_BF16),
                  tall = lt_test_converted(*state, &turned, LT_BF16);
        assert_ok(orthogonalize(*state, (lt_backend)backend, 5, &wide));
        assert_ok(orthogonalize(*state, (lt_backend)backend, 5, &tall));
        for (int i = 0; i < R * C; i++)
            assert_near(lt_load(&tall, i % C * R + i / C), lt_load(&wide, i), 0);
    }
}

// bf16 carries three digits, and each of five steps can stretch an error three times.
static void the_cpu_agrees_with_the_reference(void **state)
{
    const char *shapes[] = {"33x70", "130x31", "1x9"};
    for (int k = 0; k < 3; k++) {
        const lt_tensor start = lt_test_random(*state, shapes[k], 7);
        lt_tensor want = lt_test_converted(*state, &start, LT_BF16),
                  got = lt_test_converted(*state, &start, LT_BF16);
        assert_ok(orthogonalize(*state, LT_REF, 5, &want));
        assert_ok(orthogonalize(*state, LT_CPU, 5, &got));
        double worst = 0.0;
        for (int64_t i = 0; i < lt_n_elems(&want); i++)
            worst = fmax(worst, fabs(lt_load(&want, i) - lt_load(&got, i)));
        assert_true(worst < 0.02);
    }
}

static void a_step_is_as_long_as_the_longer_side_says(void **state)
{
    // lr = 0.05 * 2; p (1 - 0.1 * 0.5) - 0.1 * 0.2 * sqrt(4) * u = 0.95 p - 0.04 u
    const lt_tensor half = lt_test_f32(*state, "2", (float[]){0.5F, -1}),
                    s = scalars(*state, 0.05, 1.0), u = lt_test_converted(*state, &half, LT_BF16);
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        lt_tensor p = lt_test_f32(*state, "2", (float[]){1, 2}),
                  hi = lt_test_tensor(*state, LT_BF16, "2"),
                  lo = lt_test_tensor(*state, LT_I16, "2");
        for (int i = 0; i < 2; i++)
            lt_split_f32(((float *)p.data)[i], &((uint16_t *)hi.data)[i], &((int16_t *)lo.data)[i]);
        lt_device device = {.backend = (lt_backend)backend};
        const lt_run run = {.device = &device};
        lt_op_args a = {.def = &lt_op_muon_apply, .attr = &usual, .in = {&u, &s}, .run = &run};
        a.out[0] = &p;
        assert_ok(lt_op_muon_apply.infer(&a));
        assert_ok(lt_op_muon_apply.forward[backend](&a));
        assert_floats(&p, 1e-6, 0.93, 1.94);
        a.out[0] = &hi;
        a.out[1] = &lo;
        assert_ok(lt_op_muon_apply.infer(&a));
        assert_ok(lt_op_muon_apply.forward[backend](&a));
        for (int i = 0; i < 2; i++) // the split master has the very bits
            assert_true(lt_join_f32(((uint16_t *)hi.data)[i], ((int16_t *)lo.data)[i]) ==
                        ((float *)p.data)[i]);
    }
}

static void what_does_not_fit_is_named(void **state)
{
    lt_tensor g = lt_test_f32(*state, "2", (float[]){1, 2}), s = scalars(*state, 0.1, 1.0),
              short_one = lt_test_f32(*state, "1", (float[]){1}),
              u = lt_test_tensor(*state, LT_BF16, "2");
    lt_op_args a = {.def = &lt_op_muon_momentum, .attr = &usual, .in = {&g, &s}};
    a.out[0] = &short_one;
    a.out[1] = &u;
    assert_fails(lt_op_muon_momentum.infer(&a), LT_ERR_SHAPE, "muon_momentum needs buf as f32");
    lt_op_args b = {.def = &lt_op_orthogonalize, .attr = &usual, .out = {&g}};
    assert_fails(lt_op_orthogonalize.infer(&b), LT_ERR_SHAPE,
                 "orthogonalize needs u as bf16[r, c]");
}

LT_TEST_MAIN(LT_TEST(momentum_looks_ahead_of_what_it_keeps),
             LT_TEST(one_number_goes_the_way_that_one_can_follow_by_hand),
             LT_TEST(rows_come_out_nearly_orthonormal),
             LT_TEST(a_tall_matrix_is_the_wide_one_turned),
             LT_TEST(the_cpu_agrees_with_the_reference),
             LT_TEST(a_step_is_as_long_as_the_longer_side_says),
             LT_TEST(what_does_not_fit_is_named))
