// SPDX-License-Identifier: Apache-2.0
// conv_silu, gdn_gates, gated_rms_norm, sigmoid_gate, split_heads and join: numbers by hand, and
// what is refused.
#include "op/conv_silu.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include "op/split.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <string.h>

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

// The last tap meets the row itself; rows 3 and 4 begin a segment and see nothing before it.
static void a_convolution_looks_back_inside_its_segment(void **state)
{
    const lt_tensor in[] = {lt_test_f64(*state, "5x1", (double[]){1, 2, 3, 4, 5}),
                            lt_test_f64(*state, "1x1x3", (double[]){100, 10, 1}),
                            lt_test_i32(*state, "3", (int32_t[]){0, 3, 5})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_conv_silu, in, NULL, out));
    assert_floats(&out[0], 1e-12, silu(1), silu(12), silu(123), silu(4), silu(45));
}

// BR-14, BR-15: the first rows of a sample are those where a leak would show.
static void a_convolution_leaks_nothing_over_a_border(void **state)
{
    lt_tensor x = lt_test_random(*state, "40x70", 1), first[1], second[1];
    const lt_tensor in[] = {x, lt_test_random(*state, "70x1x4", 2),
                            lt_test_i32(*state, "4", (int32_t[]){0, 17, 17, 40})};
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        const lt_test_column column = {.backend = (lt_backend)backend};
        assert_ok(lt_test_forward_on(*state, column, &lt_op_conv_silu, in, NULL, first));
        for (int64_t k = 0; k < (int64_t)17 * 70; k++)
            ((float *)x.data)[k] += 1.0F;
        assert_ok(lt_test_forward_on(*state, column, &lt_op_conv_silu, in, NULL, second));
        const size_t row = 70 * sizeof(float);
        assert_memory_equal((const char *)first[0].data + 17 * row,
                            (const char *)second[0].data + 17 * row, 23 * row);
        assert_true(memcmp(first[0].data, second[0].data, 17 * row) != 0);
    }
}

static void convolutions_that_do_not_fit_are_refused(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "4x3", 1), lt_test_random(*state, "3x1x17", 2),
                      lt_test_i32(*state, "2", (int32_t[]){0, 4})},
              out[1];
    assert_fails(lt_test_forward(*state, &lt_op_conv_silu, in, NULL, out), LT_ERR_SHAPE,
                 "w as [3, 1, 1 to 16]");
    in[1] = lt_test_random(*state, "2x1x4", 2);
    assert_fails(lt_test_forward(*state, &lt_op_conv_silu, in, NULL, out), LT_ERR_SHAPE, "[2,1,4]");
    in[1] = lt_test_random(*state, "3x1x4", 2);
    in[2] = lt_test_i32(*state, "2", (int32_t[]){0, 5});
    assert_fails(lt_test_forward(*state, &lt_op_conv_silu, in, NULL, out), LT_ERR_DATA,
                 "segments[1] is 5, not in 0 to 4");
}

// softplus(0) = ln 2; beyond 20 it is its argument; what overflows is held at LT_LOWEST_DECAY.
static void gates_come_out_and_their_ends_are_finite(void **state)
{
    const double ln2 = 0.69314718055994530942, ln3 = 1.09861228866810969140;
    const lt_tensor a = lt_test_f64(*state, "4x1", (double[]){-1, 29, 1e300, -1e5});
    const lt_tensor in[] = {a, lt_test_f64(*state, "4x1", (double[]){0, ln3, 800, -800}),
                            lt_test_f64(*state, "1", (double[]){ln3}),
                            lt_test_f64(*state, "1", (double[]){1})};
    lt_tensor out[2], din[4];
    assert_ok(lt_test_forward(*state, &lt_op_gdn_gates, in, NULL, out));
    assert_floats(&out[0], 1e-12, -3 * ln2, -90, LT_LOWEST_DECAY, 0);
    assert_floats(&out[1], 1e-12, 0.5, 0.75, 1, 0);
    for (int i = 0; i < 4; i++)
        din[i] = lt_test_garbage(*state, &in[i]);
    const lt_tensor dout[] = {lt_test_f64(*state, "4x1", (double[]){1, 1, 0, 1}),
                              lt_test_f64(*state, "4x1", (double[]){1, 1, 1, 1})};
    assert_ok(lt_test_backward_on(*state, (lt_test_column){.backend = LT_REF}, &lt_op_gdn_gates, in,
                                  NULL, out, dout, din, 0));
    for (int i = 0; i < 4; i++)
        for (int64_t k = 0; k < lt_n_elems(&din[i]); k++)
            assert_true(isfinite(lt_load(&din[i], k)));
}

// spec/models.md 13.3
static void a_gated_norm_normalises_scales_and_then_gates(void **state)
{
    const lt_rms_norm_attr attr = {.eps = 1e-6};
    const lt_tensor in[] = {lt_test_f64(*state, "1x2", (double[]){0.001, -0.001}),
                            lt_test_f64(*state, "1x2", (double[]){1, 2}),
                            lt_test_f64(*state, "2", (double[]){1, 0.5})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_gated_rms_norm, in, &attr, out));
    assert_floats(&out[0], 1e-6, 0.516936, -0.622818);
}

static void gates_are_one_for_a_row_or_one_for_a_number(void **state)
{
    const double ln3 = 1.09861228866810969140;
    lt_tensor in[] = {lt_test_f64(*state, "2x2", (double[]){4, 8, 4, 8}),
                      lt_test_f64(*state, "2x1", (double[]){ln3, -ln3})},
              out[1];
    assert_ok(lt_test_forward(*state, &lt_op_sigmoid_gate, in, NULL, out));
    assert_floats(&out[0], 1e-12, 3, 6, 1, 2);
    in[1] = lt_test_f64(*state, "2x2", (double[]){ln3, -ln3, 0, 0});
    assert_ok(lt_test_forward(*state, &lt_op_sigmoid_gate, in, NULL, out));
    assert_floats(&out[0], 1e-12, 3, 2, 2, 4);
    in[1] = lt_test_f64(*state, "1x2", (double[]){0, 0});
    assert_fails(lt_test_forward(*state, &lt_op_sigmoid_gate, in, NULL, out), LT_ERR_SHAPE, "gate");
}

static void heads_are_split_in_two_and_rows_joined(void **state)
{
    const lt_split_heads_attr attr = {.heads = 2};
    const lt_tensor x = lt_test_f32(*state, "1x8", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
    lt_tensor out[2], joined[1];
    assert_ok(lt_test_forward(*state, &lt_op_split_heads, &x, &attr, out));
    assert_floats(&out[0], 0, 1, 2, 5, 6);
    assert_floats(&out[1], 0, 3, 4, 7, 8);
    assert_ok(lt_test_forward(*state, &lt_op_join, out, NULL, joined));
    assert_floats(&joined[0], 0, 1, 2, 5, 6, 3, 4, 7, 8);
    const lt_split_heads_attr three = {.heads = 3};
    assert_fails(lt_test_forward(*state, &lt_op_split_heads, &x, &three, out), LT_ERR_SHAPE,
                 "3 heads of two equal parts");
}

LT_TEST_MAIN(LT_TEST(a_convolution_looks_back_inside_its_segment),
             LT_TEST(a_convolution_leaks_nothing_over_a_border),
             LT_TEST(convolutions_that_do_not_fit_are_refused),
             LT_TEST(gates_come_out_and_their_ends_are_finite),
             LT_TEST(a_gated_norm_normalises_scales_and_then_gates),
             LT_TEST(gates_are_one_for_a_row_or_one_for_a_number),
             LT_TEST(heads_are_split_in_two_and_rows_joined))
