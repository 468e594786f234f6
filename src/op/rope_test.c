// SPDX-License-Identifier: Apache-2.0
#include "op/rope.h"
#include "tests/kit/op_kit.h"
#include <math.h>

static const lt_test_column ref = {.backend = LT_REF};

// Position a of token 0 on each axis: the angle then tells which axis frequency i took.
static void expect_axes(void **state, lt_rope_table_attr attr, const char *axes)
{
    const lt_tensor in[] = {lt_test_i32(*state, "3x1", (int32_t[]){1, 2, 3})};
    lt_tensor out[1];
    attr.theta = 1.0; // all frequencies 1
    attr.dtype = LT_F64;
    assert_ok(lt_test_forward(*state, &lt_op_rope_table, in, &attr, out));
    for (int i = 0; i < attr.width / 2; i++) {
        assert_near(lt_load(&out[0], i), cos(axes[i] - '0'), 1e-15);
        assert_near(lt_load(&out[0], attr.width / 2 + i), sin(axes[i] - '0'), 1e-15);
    }
}

static void interleaved_sections_take_height_and_width_in_turn(void **state)
{
    expect_axes(state, (lt_rope_table_attr){.width = 16, .section = {4, 2, 2}, .interleaved = true},
                "12312311");
    // [24,20,20]: height on 1,4,..,58; width on 2,5,..,59; time on 0,3,..,57 and 60..63
    expect_axes(state,
                (lt_rope_table_attr){.width = 128, .section = {24, 20, 20}, .interleaved = true},
                "1231231231231231231231231231231231231231231231231231231231231111");
    // [11,11,10]: height on 1,..,31; width on 2,..,29; time on 0,..,30
    expect_axes(state,
                (lt_rope_table_attr){.width = 64, .section = {11, 11, 10}, .interleaved = true},
                "12312312312312312312312312312312");
}

static void plain_sections_follow_one_another(void **state)
{
    expect_axes(state, (lt_rope_table_attr){.width = 12, .section = {3, 2, 1}}, "111223");
    expect_axes(state, (lt_rope_table_attr){.width = 8, .section = {4, 0, 0}}, "1111");
}

static void frequencies_are_rounded_to_fp32(void **state)
{
    const lt_tensor in[] = {
        lt_test_i32(*state, "3x2", (int32_t[]){0, 262143, 0, 262143, 0, 262143})};
    lt_rope_table_attr attr = {.theta = 5e6, .width = 128, .section = {64, 0, 0}, .dtype = LT_F32};
    lt_tensor narrow[1], wide[1];
    assert_ok(lt_test_forward(*state, &lt_op_rope_table, in, &attr, narrow));
    attr.dtype = LT_F64;
    assert_ok(lt_test_forward(*state, &lt_op_rope_table, in, &attr, wide));
    for (int i = 0; i < 64; i++) {
        const float power = (float)pow(5e6, i / 64.0);
        const double f = (double)(1.0F / power), angle = (double)(262143.0F * (float)f);
        assert_near(lt_load(&narrow[0], i), 1.0, 0);
        assert_near(lt_load(&narrow[0], 64 + i), 0.0, 0);
        assert_near(lt_load(&narrow[0], 128 + i), cos(angle), 6e-8);
        assert_near(lt_load(&narrow[0], 192 + i), sin(angle), 6e-8);
        assert_near(lt_load(&wide[0], 128 + i), cos(262143.0 * f), 1e-15);
        assert_near(f, pow(5e6, -i / 64.0), 1.2e-7 * f);
    }
}

static void patches_turn_by_row_and_then_by_column(void **state)
{
    const lt_tensor in[] = {lt_test_i32(*state, "2x2", (int32_t[]){3, 0, 0, 2})};
    const lt_vision_rope_table_attr attr = {.theta = 10000, .width = 8, .dtype = LT_F64};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_vision_rope_table, in, &attr, out));
    // f = 1, 10000^(-1/2) = 0.01; patch 0 is at row 3, column 0, patch 1 at row 0, column 2
    assert_floats(&out[0], 1e-9, cos(3.0), cos(0.03), 1, 1, sin(3.0), sin(0.03), 0, 0, //
                  1, 1, cos(2.0), cos(0.02), 0, 0, sin(2.0), sin(0.02));
}

static void qkv_is_split_and_its_queries_and_keys_turn(void **state)
{
    // one head of 4: the angle of pair (0, 2) is 90 degrees, of pair (1, 3) 0
    const lt_tensor in[] = {
        lt_test_f32(*state, "1x12", (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
        lt_test_f32(*state, "1x4", (float[]){0, 1, 1, 0})};
    const lt_split_qkv_rope_attr attr = {.heads = 1};
    lt_tensor out[3];
    assert_ok(lt_test_forward(*state, &lt_op_split_qkv_rope, in, &attr, out));
    assert_floats(&out[0], 0, -3, 2, 1, 4);
    assert_floats(&out[1], 0, -7, 6, 5, 8);
    assert_floats(&out[2], 0, 9, 10, 11, 12);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_split_qkv_rope_attr attr = {.heads = 2};
    const lt_tensor in[] = {lt_test_random_f64(*state, "3x24", 1),
                            lt_test_random_f64(*state, "3x4", 2)};
    assert_ok(lt_gradcheck(*state, &lt_op_split_qkv_rope, in, &attr,
                           (lt_gradcheck_opts){.seed = 3, .no_grad = LT_IN(1)}));
    const lt_tensor none[] = {lt_test_tensor(*state, LT_F64, "0x24"),
                              lt_test_tensor(*state, LT_F64, "0x4")};
    assert_ok(lt_gradcheck(*state, &lt_op_split_qkv_rope, none, &attr,
                           (lt_gradcheck_opts){.seed = 3, .no_grad = LT_IN(1)}));
}

static void bf16_is_rounded_once_and_the_table_stays_wide(void **state)
{
    const lt_split_qkv_rope_attr attr = {.heads = 3};
    const lt_tensor qkv = lt_test_random_of(*state, LT_BF16, "5x36", 1, 1.0),
                    table = lt_test_random(*state, "5x4", 2);
    const lt_tensor wide[] = {lt_test_converted(*state, &qkv, LT_F64),
                              lt_test_converted(*state, &table, LT_F64)};
    lt_tensor out[3], exact[3];
    assert_ok(
        lt_test_forward(*state, &lt_op_split_qkv_rope, (lt_tensor[]){qkv, table}, &attr, out));
    assert_ok(lt_test_forward(*state, &lt_op_split_qkv_rope, wide, &attr, exact));
    for (int i = 0; i < 3; i++) {
        const lt_tensor want = lt_test_converted(*state, &exact[i], LT_BF16);
        assert_memory_equal(out[i].data, want.data, lt_tensor_bytes(&want));
    }
}

static void turning_back_by_the_gradient_gives_the_input(void **state)
{
    const lt_split_qkv_rope_attr attr = {.heads = 2};
    const lt_vision_rope_table_attr table = {.theta = 10000, .width = 8, .dtype = LT_F64};
    const lt_tensor pos = lt_test_i32(*state, "2x3", (int32_t[]){0, 5, 63, 7, 1, 0});
    lt_tensor in[2] = {lt_test_random_f64(*state, "3x48", 1)}, out[3], none[3] = {{0}},
              din[2] = {{0}};
    assert_ok(lt_test_forward(*state, &lt_op_vision_rope_table, &pos, &table, &in[1]));
    assert_ok(lt_test_forward(*state, &lt_op_split_qkv_rope, in, &attr, out));
    din[0] = lt_test_garbage(*state, &in[0]);
    assert_ok(
        lt_test_backward_on(*state, ref, &lt_op_split_qkv_rope, in, &attr, none, out, din, 0));
    assert_true(lt_test_difference(&din[0], &in[0]) < 1e-14);
}

static void what_does_not_fit_is_named(void **state)
{
    const lt_tensor pos[] = {lt_test_i32(*state, "3x1", (int32_t[]){1, 2, 3})};
    const lt_rope_table_attr bad = {
        .theta = 1e4, .width = 16, .section = {4, 2, 1}, .dtype = LT_F32};
    const lt_split_qkv_rope_attr heads = {.heads = 2};
    const lt_tensor in[] = {lt_test_random(*state, "3x24", 1), lt_test_random(*state, "3x6", 2)};
    lt_tensor out[3];
    assert_fails(lt_test_forward(*state, &lt_op_rope_table, pos, &bad, out), LT_ERR_CONFIG,
                 "[4, 2, 1] must sum to half the rotary width 16");
    const lt_vision_rope_table_attr vision = {.theta = 1e4, .width = 8, .dtype = LT_F32};
    assert_fails(lt_test_forward(*state, &lt_op_vision_rope_table, pos, &vision, out), LT_ERR_SHAPE,
                 "patch_pos with 2 rows, got i32[3,1]");
    assert_fails(lt_test_forward(*state, &lt_op_split_qkv_rope, in, &heads, out), LT_ERR_SHAPE,
                 "table as f32[3,4], got f32[3,6]");
}

LT_TEST_MAIN(LT_TEST(interleaved_sections_take_height_and_width_in_turn),
             LT_TEST(plain_sections_follow_one_another), LT_TEST(frequencies_are_rounded_to_fp32),
             LT_TEST(patches_turn_by_row_and_then_by_column),
             LT_TEST(qkv_is_split_and_its_queries_and_keys_turn),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(bf16_is_rounded_once_and_the_table_stays_wide),
             LT_TEST(turning_back_by_the_gradient_gives_the_input),
             LT_TEST(what_does_not_fit_is_named))
