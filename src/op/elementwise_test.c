// SPDX-License-Identifier: Apache-2.0
// The small ops: add, copy, gelu, cast, fold_rows, unfold_rows, top1.
#include "op/add.h"
#include "op/cast.h"
#include "op/fold.h"
#include "op/gelu.h"
#include "op/top1.h"
#include "tests/kit/op_kit.h"
#include <math.h>

static void sums_come_out_and_are_narrowed_once(void **state)
{
    const lt_tensor a = lt_test_f32(*state, "1x3", (float[]){1, -2, 1}),
                    b = lt_test_f32(*state, "1x3", (float[]){3, 2, 0x1p-8F});
    const lt_tensor in[] = {a, b};
    const lt_tensor narrow[] = {lt_test_converted(*state, &a, LT_BF16),
                                lt_test_converted(*state, &b, LT_BF16)};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_add, in, NULL, out));
    assert_floats(&out[0], 0, 4, 0, 1 + 0x1p-8);
    assert_ok(lt_test_forward(*state, &lt_op_add, narrow, NULL, out));
    assert_floats(&out[0], 0, 4, 0, 1); // a tie goes to even
}

static void a_sum_may_be_written_over_its_first_input(void **state)
{
    const lt_tensor a = lt_test_f32(*state, "3", (float[]){1, 2, 3}),
                    b = lt_test_f32(*state, "3", (float[]){10, 20, 30});
    lt_tensor out = a;
    const lt_op_args args = {.def = &lt_op_add, .in = {&a, &b}, .out = {&out}};
    assert_true(lt_op_add.flags & LT_OP_IN_PLACE);
    assert_ok(lt_op_add.forward[LT_REF](&args));
    assert_floats(&out, 0, 11, 22, 33);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_tensor pair[] = {lt_test_random_f64(*state, "5x7", 1),
                              lt_test_random_f64(*state, "5x7", 2)};
    lt_gradcheck_opts opts = {.seed = 3};
    assert_ok(lt_gradcheck(*state, &lt_op_add, pair, NULL, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_copy, pair, NULL, opts));
    for (int kind = LT_GELU_ERF; kind <= LT_GELU_TANH; kind++) {
        const lt_gelu_attr attr = {.kind = (lt_gelu_kind)kind};
        assert_ok(lt_gradcheck(*state, &lt_op_gelu, pair, &attr, opts));
    }
    const lt_cast_attr cast = {.dtype = LT_F64};
    assert_ok(lt_gradcheck(*state, &lt_op_cast, pair, &cast, opts));
    const lt_fold_attr fold = {.group = 2};
    const lt_tensor even[] = {lt_test_random_f64(*state, "4x6", 4)};
    opts.attr_bytes = sizeof fold;
    assert_ok(lt_gradcheck(*state, &lt_op_fold_rows, even, &fold, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_unfold_rows, even, &fold, opts));
}

static void the_two_gelus_are_told_apart(void **state)
{
    const lt_tensor in[] = {lt_test_f64(*state, "5", (double[]){0, 1, -1, 3, -30})};
    const lt_gelu_attr by_erf = {.kind = LT_GELU_ERF}, by_tanh = {.kind = LT_GELU_TANH};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_gelu, in, &by_erf, out)); // x Phi(x), Phi from a table
    assert_floats(&out[0], 1e-9, 0, 0.841344746, -0.158655254, 2.995950306, 0);
    assert_ok(lt_test_forward(*state, &lt_op_gelu, in, &by_tanh, out));
    assert_floats(&out[0], 1e-9, 0, 0.841191991, -0.158808009, 2.996362607, 0);
}

static void casts_round_to_nearest_even(void **state)
{
    const lt_tensor in[] = {
        lt_test_f32(*state, "1x4", (float[]){1, 1 + 0x1p-8F, 1 + 0x1.8p-7F, -1e30F})};
    lt_cast_attr attr = {.dtype = LT_BF16};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_cast, in, &attr, out));
    assert_int_equal(out[0].dtype, LT_BF16);
    assert_floats(&out[0], 0, 1, 1, 1 + 0x1p-6, lt_load(&out[0], 3));
    assert_near(lt_load(&out[0], 3), -1e30, 4e27);
    attr.dtype = LT_I32;
    assert_fails(lt_test_forward(*state, &lt_op_cast, in, &attr, out), LT_ERR_DTYPE, "not to i32");
}

static void folding_puts_neighbours_side_by_side(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "4x2", (float[]){1, 2, 3, 4, 5, 6, 7, 8})};
    lt_fold_attr attr = {.group = 4};
    lt_tensor out[1], back[1];
    assert_ok(lt_test_forward(*state, &lt_op_fold_rows, in, &attr, out));
    assert_string_equal(lt_shape_print(&out[0]).s, "f32[1,8]");
    assert_floats(&out[0], 0, 1, 2, 3, 4, 5, 6, 7, 8);
    assert_ok(lt_test_forward(*state, &lt_op_unfold_rows, out, &attr, back));
    assert_string_equal(lt_shape_print(&back[0]).s, "f32[4,2]");
    attr.group = 3;
    assert_fails(lt_test_forward(*state, &lt_op_fold_rows, in, &attr, out), LT_ERR_SHAPE,
                 "rows in groups of 3, got f32[4,2]");
    const lt_tensor none[] = {lt_test_tensor(*state, LT_BF16, "0x2")};
    assert_ok(lt_test_forward(*state, &lt_op_fold_rows, none, &attr, out));
    assert_string_equal(lt_shape_print(&out[0]).s, "bf16[0,6]");
}

static void the_lowest_of_equal_tops_wins(void **state)
{
    const lt_tensor in[] = {lt_test_f32(
        *state, "4x3", (float[]){1, 3, 3, -5, -6, -5, 0, 1, NAN, -INFINITY, -INFINITY, -INFINITY})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_top1, in, NULL, out));
    assert_int_equal(out[0].dtype, LT_I32);
    assert_floats(&out[0], 0, 1, 0, 2, 0);
    const lt_tensor none[] = {lt_test_tensor(*state, LT_F32, "2x0")};
    assert_fails(lt_test_forward(*state, &lt_op_top1, none, NULL, out), LT_ERR_SHAPE,
                 "at least one column");
}

static void unequal_dtypes_are_named_in_the_error(void **state)
{
    const lt_tensor in[] = {lt_test_random(*state, "2x3", 1), lt_test_random_f64(*state, "2x3", 1)};
    lt_tensor out[1];
    assert_fails(lt_test_forward(*state, &lt_op_add, in, NULL, out), LT_ERR_DTYPE,
                 "got f32[2,3] and f64[2,3]");
}

LT_TEST_MAIN(LT_TEST(sums_come_out_and_are_narrowed_once),
             LT_TEST(a_sum_may_be_written_over_its_first_input),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(the_two_gelus_are_told_apart), LT_TEST(casts_round_to_nearest_even),
             LT_TEST(folding_puts_neighbours_side_by_side), LT_TEST(the_lowest_of_equal_tops_wins),
             LT_TEST(unequal_dtypes_are_named_in_the_error))
