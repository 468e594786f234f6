// SPDX-License-Identifier: Apache-2.0
#include "op/attention.h"
#include "tests/kit/op_kit.h"
#include <math.h>

static const lt_test_column ref = {.backend = LT_REF};

static void known_values_come_out(void **state)
{
    // scores of the second query: scale (0, ln 3) with scale 1: weights 1/4 and 3/4
    const float ln3 = 1.0986123F;
    const lt_tensor in[] = {
        lt_test_f32(*state, "2x1", (float[]){2, 1}), lt_test_f32(*state, "2x1", (float[]){0, ln3}),
        lt_test_f32(*state, "2x1", (float[]){4, 8}), lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    lt_attention_attr attr = {.heads = 1, .kv_heads = 1, .causal = true};
    lt_tensor out[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_floats(&out[0], 1e-6, 4, 7);
    assert_floats(&out[1], 1e-6, 0, log(4));
    attr.causal = false; // the first query sees both: scores (0, ln 9)
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_floats(&out[0], 1e-6, 7.6, 7);
    assert_floats(&out[1], 1e-6, log(10), log(4));
}

static void the_scale_is_by_default_one_over_the_root_of_the_head_width(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "2x4", (float[]){1, 1, 1, 1, 1, 1, 1, 1}),
                            lt_test_f32(*state, "2x4", (float[]){0, 0, 0, 0, 1, 1, 1, 1}),
                            lt_test_random(*state, "2x4", 1),
                            lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    lt_attention_attr attr = {.heads = 1, .kv_heads = 1};
    lt_tensor out[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_floats(&out[1], 1e-6, log(1 + exp(2.0)), log(1 + exp(2.0)));
    attr.scale = 0.25;
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_floats(&out[1], 1e-6, log(1 + exp(1.0)), log(1 + exp(1.0)));
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_gradcheck_opts opts = {.seed = 5, .no_upstream = LT_OUT(1)};
    lt_tensor in[] = {lt_test_random_f64(*state, "6x12", 1), lt_test_random_f64(*state, "6x6", 2),
                      lt_test_random_f64(*state, "6x6", 3),
                      lt_test_i32(*state, "4", (int32_t[]){0, 2, 2, 6})};
    lt_attention_attr attr = {.heads = 4, .kv_heads = 2, .causal = true};
    assert_ok(lt_gradcheck(*state, &lt_op_attention, in, &attr, opts));
    attr.causal = false;
    assert_ok(lt_gradcheck(*state, &lt_op_attention, in, &attr, opts));
    attr.scale = 0.7;
    in[3] = lt_test_i32(*state, "3", (int32_t[]){1, 3, 5}); // rows 0 and 5 are in no segment
    assert_ok(lt_gradcheck(*state, &lt_op_attention, in, &attr, opts));
    attr.causal = true;
    assert_ok(lt_gradcheck(*state, &lt_op_attention, in, &attr, opts));
}

static void segments_do_not_see_each_other(void **state)
{
    const lt_attention_attr attr = {.heads = 2, .kv_heads = 1, .causal = true};
    lt_tensor in[] = {lt_test_random(*state, "7x8", 1), lt_test_random(*state, "7x4", 2),
                      lt_test_random(*state, "7x4", 3),
                      lt_test_i32(*state, "3", (int32_t[]){0, 3, 7})};
    lt_tensor both[2], one[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, both));
    lt_tensor tail[] = {
        lt_test_tensor(*state, LT_F32, "4x8"), lt_test_tensor(*state, LT_F32, "4x4"),
        lt_test_tensor(*state, LT_F32, "4x4"), lt_test_i32(*state, "2", (int32_t[]){0, 4})};
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0, n = lt_n_elems(&tail[i]); k < n; k++)
            lt_store(&tail[i], k, lt_load(&in[i], 3 * lt_width(&tail[i]) + k));
    assert_ok(lt_test_forward(*state, &lt_op_attention, tail, &attr, one));
    assert_memory_equal(&((float *)both[0].data)[24], one[0].data, lt_tensor_bytes(&one[0]));
}

static void a_row_in_no_segment_gives_zeros_and_minus_infinity(void **state)
{
    const lt_attention_attr attr = {.heads = 1, .kv_heads = 1};
    const lt_tensor in[] = {lt_test_random(*state, "3x2", 1), lt_test_random(*state, "3x2", 2),
                            lt_test_random(*state, "3x2", 3),
                            lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    lt_tensor out[2], dout[2] = {lt_test_random(*state, "3x2", 4)}, din[4] = {{0}};
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_near(lt_load(&out[0], 4), 0, 0);
    assert_near(lt_load(&out[1], 2), -(double)INFINITY, 0);
    for (int i = 0; i < 3; i++)
        din[i] = lt_test_garbage(*state, &in[i]);
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_attention, in, &attr, out, dout, din, 0));
    for (int i = 0; i < 3; i++)
        assert_near(lt_load(&din[i], 5), 0, 0);
}

static void large_scores_stay_finite(void **state)
{
    const lt_attention_attr attr = {.heads = 1, .kv_heads = 1, .scale = 1.0};
    const lt_tensor in[] = {lt_test_f32(*state, "2x1", (float[]){100, -100}),
                            lt_test_f32(*state, "2x1", (float[]){100, -100}),
                            lt_test_f32(*state, "2x1", (float[]){1, 2}),
                            lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    lt_tensor out[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_floats(&out[0], 0, 1, 2);
    assert_floats(&out[1], 0, 10000, 10000);
}

static void no_rows_are_fine(void **state)
{
    const lt_attention_attr attr = {.heads = 2, .kv_heads = 1};
    const lt_tensor in[] = {
        lt_test_tensor(*state, LT_F32, "0x4"), lt_test_tensor(*state, LT_F32, "0x2"),
        lt_test_tensor(*state, LT_F32, "0x2"), lt_test_i32(*state, "1", (int32_t[]){0})};
    lt_tensor out[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, out));
    assert_int_equal(out[1].dim[0], 2);
    assert_int_equal(out[1].dim[1], 0);
}

static void what_does_not_fit_is_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "4x4", 2),
                      lt_test_random(*state, "4x8", 3),
                      lt_test_i32(*state, "2", (int32_t[]){0, 5})};
    lt_attention_attr attr = {.heads = 4, .kv_heads = 3};
    lt_tensor out[2];
    assert_fails(lt_test_forward(*state, &lt_op_attention, in, &attr, out), LT_ERR_CONFIG,
                 "heads as a multiple of kv_heads, got 4 and 3");
    attr.kv_heads = 2;
    assert_fails(lt_test_forward(*state, &lt_op_attention, in, &attr, out), LT_ERR_SHAPE,
                 "v as f32[4,4], got f32[4,8]");
    in[2] = in[1];
    assert_fails(lt_test_forward(*state, &lt_op_attention, in, &attr, out), LT_ERR_DATA,
                 "segments[1] is 5, not in 0 to 4");
    in[3] = lt_test_i32(*state, "3", (int32_t[]){0, 3, 2});
    assert_fails(lt_test_forward(*state, &lt_op_attention, in, &attr, out), LT_ERR_DATA,
                 "segments[2] is 2, not in 3 to 4");
}

static void flops_follow_the_segments(void **state)
{
    lt_attention_attr attr = {.heads = 2, .kv_heads = 1, .causal = true};
    lt_tensor q = lt_test_random(*state, "7x8", 1),
              segments = lt_test_i32(*state, "3", (int32_t[]){0, 3, 7});
    const lt_op_args a = {.def = &lt_op_attention, .attr = &attr, .in = {&q, &q, &q, &segments}};
    assert_int_equal(lt_op_attention.flops(&a), 4 * (6 + 10) * 8);
    attr.causal = false;
    assert_int_equal(lt_op_attention.flops(&a), 4 * (9 + 16) * 8);
    segments.host = NULL; // while planning
    assert_int_equal(lt_op_attention.flops(&a), 4 * 49 * 8);
}

LT_TEST_MAIN(LT_TEST(known_values_come_out),
             LT_TEST(the_scale_is_by_default_one_over_the_root_of_the_head_width),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(segments_do_not_see_each_other),
             LT_TEST(a_row_in_no_segment_gives_zeros_and_minus_infinity),
             LT_TEST(large_scores_stay_finite), LT_TEST(no_rows_are_fine),
             LT_TEST(what_does_not_fit_is_named), LT_TEST(flops_follow_the_segments))
