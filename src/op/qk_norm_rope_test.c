// SPDX-License-Identifier: Apache-2.0
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "tests/kit/op_kit.h"

static void known_values_come_out(void **state)
{
    // head (3, 4, 0, 0): r = 2/5, w doubles the second number: (1.2, 3.2, 0, 0);
    // pair (0, 2) turns by 90 degrees
    const lt_tensor in[] = {lt_test_f32(*state, "1x4", (float[]){3, 4, 0, 0}),
                            lt_test_f32(*state, "4", (float[]){1, 2, 1, 1}),
                            lt_test_f32(*state, "1x4", (float[]){0, 1, 1, 0})};
    const lt_qk_norm_rope_attr attr = {.eps = 0, .heads = 1};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out));
    assert_floats(&out[0], 1e-6, 0, 3.2, 1.2, 0);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_gradcheck_opts opts = {.seed = 4, .no_grad = LT_IN(2)};
    lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = 2};
    lt_tensor in[] = {lt_test_random_f64(*state, "3x16", 1), lt_test_random_f64(*state, "8", 2),
                      lt_test_random_f64(*state, "3x8", 3)};
    assert_ok(lt_gradcheck(*state, &lt_op_qk_norm_rope, in, &attr, opts));
    in[2] = lt_test_random_f64(*state, "3x4", 3); // half of each head passes through
    assert_ok(lt_gradcheck(*state, &lt_op_qk_norm_rope, in, &attr, opts));
    attr.heads = 1;
    in[0] = lt_test_random_f64(*state, "3x5", 1);
    in[1] = lt_test_random_f64(*state, "5", 2);
    assert_ok(lt_gradcheck(*state, &lt_op_qk_norm_rope, in, &attr, opts));
    in[0] = lt_test_tensor(*state, LT_F64, "0x5");
    in[2] = lt_test_tensor(*state, LT_F64, "0x4");
    assert_ok(lt_gradcheck(*state, &lt_op_qk_norm_rope, in, &attr, opts));
}

static void an_angle_of_zero_leaves_the_norm_of_each_head(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const lt_dtype dtype = bf16 ? LT_BF16 : LT_F32;
        lt_tensor in[] = {lt_test_random_of(*state, dtype, "5x24", 1, 1.0),
                          lt_test_random_of(*state, dtype, "8", 2, 1.0),
                          lt_test_tensor(*state, LT_F32, "5x8")};
        for (int t = 0; t < 5; t++)
            for (int i = 0; i < 4; i++)
                lt_store(&in[2], t * 8 + i, 1.0);
        const lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = 3};
        const lt_rms_norm_attr norm = {.eps = 1e-6};
        lt_tensor out[1], want[1], rows[] = {in[0], in[1]};
        assert_ok(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out));
        rows[0].dim[0] = 15;
        rows[0].dim[1] = 8;
        assert_ok(lt_test_forward(*state, &lt_op_rms_norm, rows, &norm, want));
        assert_memory_equal(out[0].data, want[0].data, lt_tensor_bytes(&out[0]));
    }
}

// 9.4, fused form: norm narrowed twice, table narrowed, rotation narrowed once
static void bf16_narrows_the_norm_the_table_and_the_result(void **state)
{
    const lt_tensor in[] = {lt_test_random_of(*state, LT_BF16, "6x8", 1, 1.0),
                            lt_test_random_of(*state, LT_BF16, "8", 2, 1.0),
                            lt_test_random(*state, "6x8", 3)};
    const lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = 1};
    const lt_rms_norm_attr norm = {.eps = 1e-6};
    lt_tensor out[1], n[1];
    assert_ok(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out));
    assert_ok(lt_test_forward(*state, &lt_op_rms_norm, in, &norm, n));
    int differ = 0; // from an fp32 table
    for (int t = 0; t < 6; t++) {
        for (int i = 0; i < 4; i++) {
            const double a = lt_load(&n[0], t * 8 + i), b = lt_load(&n[0], t * 8 + i + 4);
            const double c0 = lt_load(&in[2], t * 8 + i), s0 = lt_load(&in[2], t * 8 + i + 4);
            const double c = lt_narrowed(LT_BF16, c0), s = lt_narrowed(LT_BF16, s0);
            assert_near(lt_load(&out[0], t * 8 + i), lt_narrowed(LT_BF16, a * c - b * s), 0);
            assert_near(lt_load(&out[0], t * 8 + i + 4), lt_narrowed(LT_BF16, b * c + a * s), 0);
            differ += lt_narrowed(LT_BF16, a * c - b * s) != lt_narrowed(LT_BF16, a * c0 - b * s0);
        }
    }
    assert_true(differ > 0);
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "8", 2),
                      lt_test_random(*state, "4x8", 2)};
    lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = 3};
    lt_tensor out[1];
    assert_fails(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out), LT_ERR_SHAPE,
                 "x as 3 heads of one width, got f32[4,8]");
    attr.heads = 2;
    assert_fails(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out), LT_ERR_SHAPE,
                 "w as f32[4], got f32[8]");
    in[1] = lt_test_random(*state, "4", 2);
    assert_fails(lt_test_forward(*state, &lt_op_qk_norm_rope, in, &attr, out), LT_ERR_SHAPE,
                 "even width of at most 4, got f32[4,8]");
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(an_angle_of_zero_leaves_the_norm_of_each_head),
             LT_TEST(bf16_narrows_the_norm_the_table_and_the_result),
             LT_TEST(shapes_that_do_not_fit_are_named))
