// SPDX-License-Identifier: Apache-2.0
#include "op/layer_norm.h"
#include "op/rms_norm.h"
#include "tests/kit/cpu_kit.h"

// A row of one number is all rounding in its gradient, so the least width is 2.
static const char *const shapes[][2] = {{"1x2", "2"},    {"3x31", "31"}, {"33x33", "33"},
                                        {"70x64", "64"}, {"0x8", "8"},   {"5x1000", "1000"}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void rms_norm_agrees_with_its_reference(void **state)
{
    const lt_rms_norm_attr attr = {.eps = 1e-6};
    for (uint64_t i = 0; i < N_SHAPES; i++) {
        const lt_tensor in[] = {lt_test_random(*state, shapes[i][0], 10 + i),
                                lt_test_random(*state, shapes[i][1], 20 + i)};
        lt_test_cpu_agrees(
            *state,
            &(lt_cpu_check){.def = &lt_op_rms_norm, .attr = &attr, .in = in, .params = LT_IN(1)});
    }
}

static void add_rms_norm_agrees_with_its_reference(void **state)
{
    const lt_rms_norm_attr attr = {.eps = 1e-5};
    for (uint64_t i = 0; i < N_SHAPES; i++) {
        const lt_tensor in[] = {lt_test_random(*state, shapes[i][0], 10 + i),
                                lt_test_random(*state, shapes[i][0], 30 + i),
                                lt_test_random(*state, shapes[i][1], 20 + i)};
        lt_test_cpu_agrees(
            *state, &(lt_cpu_check){
                        .def = &lt_op_add_rms_norm, .attr = &attr, .in = in, .params = LT_IN(2)});
    }
}

static void layer_norm_agrees_with_its_reference(void **state)
{
    const lt_layer_norm_attr attr = {.eps = 1e-6};
    for (uint64_t i = 1; i < N_SHAPES;
         i++) { // a row of one number has no spread: its gradient is all rounding
        const lt_tensor in[] = {lt_test_random(*state, shapes[i][0], 10 + i),
                                lt_test_random(*state, shapes[i][1], 20 + i),
                                lt_test_random(*state, shapes[i][1], 30 + i)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_layer_norm,
                                                   .attr = &attr,
                                                   .in = in,
                                                   .params = LT_IN(1) | LT_IN(2)});
    }
}

// A row with a large mean: the variance comes from differences, not from squares.
static void layer_norm_keeps_its_digits_beside_a_large_mean(void **state)
{
    const lt_layer_norm_attr attr = {.eps = 1e-6};
    lt_tensor in[] = {lt_test_random(*state, "4x200", 1), lt_test_random(*state, "200", 2),
                      lt_test_random(*state, "200", 3)},
              want[1], got[1];
    for (int64_t i = 0; i < 800; i++)
        ((float *)in[0].data)[i] = ((float *)in[0].data)[i] + 1000.0F;
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &attr, want));
    assert_ok(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU}, &lt_op_layer_norm, in,
                                 &attr, got));
    assert_true(lt_test_difference(&got[0], &want[0]) <
                1e-4); // the mean itself is known to 6e-5 of the spread
}

LT_TEST_MAIN(LT_TEST(rms_norm_agrees_with_its_reference),
             LT_TEST(add_rms_norm_agrees_with_its_reference),
             LT_TEST(layer_norm_agrees_with_its_reference),
             LT_TEST(layer_norm_keeps_its_digits_beside_a_large_mean))
