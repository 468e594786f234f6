// SPDX-License-Identifier: Apache-2.0
// Ops that pick rows by index: scatter_rows, scatter_add_rows, gather_rows, embedding,
// pos_embed_add.
#include "op/embedding.h"
#include "op/pos_embed.h"
#include "op/rows.h"
#include "tests/kit/op_kit.h"

static const lt_test_column ref = {.backend = LT_REF};

static void scattered_rows_replace_or_add(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "3x2", (float[]){1, 2, 3, 4, 5, 6}),
                            lt_test_f32(*state, "2x2", (float[]){10, 20, 30, 40}),
                            lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_scatter_rows, in, NULL, out));
    assert_floats(&out[0], 0, 10, 20, 3, 4, 30, 40);
    assert_ok(lt_test_forward(*state, &lt_op_scatter_add_rows, in, NULL, out));
    assert_floats(&out[0], 0, 11, 22, 3, 4, 35, 46);
    assert_ok(lt_test_forward(*state, &lt_op_gather_rows, (lt_tensor[]){in[0], in[2]}, NULL, out));
    assert_floats(&out[0], 0, 1, 2, 5, 6);
}

static void features_take_the_dtype_of_the_rows(void **state)
{
    const lt_tensor x = lt_test_random(*state, "2x1", 1);
    const lt_tensor in[] = {lt_test_converted(*state, &x, LT_BF16),
                            lt_test_f32(*state, "1x1", (float[]){1 + 0x1p-9F}),
                            lt_test_i32(*state, "1", (int32_t[]){1})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_scatter_rows, in, NULL, out));
    assert_int_equal(out[0].dtype, LT_BF16);
    assert_near(lt_load(&out[0], 1), 1, 0);
}

static void both_scatters_work_over_their_own_input(void **state)
{
    const lt_op_def *const defs[] = {&lt_op_scatter_rows, &lt_op_scatter_add_rows};
    for (int i = 0; i < 2; i++) {
        const lt_tensor x = lt_test_random(*state, "5x3", 1), f = lt_test_random(*state, "2x3", 2),
                        rows = lt_test_i32(*state, "2", (int32_t[]){1, 4});
        lt_tensor want[1], over = x;
        assert_ok(lt_test_forward(*state, defs[i], (lt_tensor[]){x, f, rows}, NULL, want));
        const lt_op_args args = {.def = defs[i], .in = {&x, &f, &rows}, .out = {&over}};
        assert_true(defs[i]->flags & LT_OP_IN_PLACE);
        assert_ok(defs[i]->forward[LT_REF](&args));
        assert_memory_equal(over.data, want[0].data, lt_tensor_bytes(&over));
    }
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_gradcheck_opts opts = {.seed = 3};
    const lt_tensor x = lt_test_random_f64(*state, "5x3", 1);
    const lt_tensor in[] = {x, lt_test_random_f64(*state, "2x3", 2),
                            lt_test_i32(*state, "2", (int32_t[]){0, 3})};
    assert_ok(lt_gradcheck(*state, &lt_op_scatter_rows, in, NULL, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_scatter_add_rows, in, NULL, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_gather_rows, (lt_tensor[]){x, in[2]}, NULL, opts));
    const lt_tensor none[] = {x, lt_test_tensor(*state, LT_F64, "0x3"),
                              lt_test_i32(*state, "0", NULL)};
    assert_ok(lt_gradcheck(*state, &lt_op_scatter_rows, none, NULL, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_scatter_add_rows, none, NULL, opts));
    assert_ok(lt_gradcheck(*state, &lt_op_gather_rows, (lt_tensor[]){x, none[2]}, NULL, opts));
    const lt_tensor words[] = {lt_test_i32(*state, "6", (int32_t[]){2, 0, 2, 4, 2, 0}), x};
    assert_ok(lt_gradcheck(*state, &lt_op_embedding, words, NULL, opts));
}

static void rows_out_of_order_or_bounds_are_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "3x2", 1), lt_test_random(*state, "2x2", 2),
                      lt_test_i32(*state, "2", (int32_t[]){2, 1})},
              out[1];
    assert_fails(lt_test_forward(*state, &lt_op_scatter_rows, in, NULL, out), LT_ERR_DATA,
                 "rows[1] is 1 after 2");
    in[2] = lt_test_i32(*state, "2", (int32_t[]){1, 3});
    assert_fails(lt_test_forward(*state, &lt_op_scatter_add_rows, in, NULL, out), LT_ERR_DATA,
                 "rows[1] is 3, not in 0 to 2");
    assert_fails(
        lt_test_forward(*state, &lt_op_gather_rows, (lt_tensor[]){in[0], in[2]}, NULL, out),
        LT_ERR_DATA, "rows[1] is 3, not in 0 to 2");
    in[2] = lt_test_i32(*state, "3", (int32_t[]){0, 1, 2});
    assert_fails(lt_test_forward(*state, &lt_op_scatter_rows, in, NULL, out), LT_ERR_SHAPE,
                 "got f32[3,2], f32[2,2] and i32[3]");
    const lt_tensor words[] = {lt_test_i32(*state, "2", (int32_t[]){1, -1}), in[0]};
    assert_fails(lt_test_forward(*state, &lt_op_embedding, words, NULL, out), LT_ERR_DATA,
                 "ids[1] is -1, not in 0 to 2");
}

static void embeddings_are_rows_and_their_gradient_sums_repeated_ids(void **state)
{
    const lt_tensor in[] = {lt_test_i32(*state, "3", (int32_t[]){2, 0, 2}),
                            lt_test_f32(*state, "4x2", (float[]){1, 2, 3, 4, 5, 6, 7, 8})};
    const lt_tensor dout[] = {lt_test_f32(*state, "3x2", (float[]){1, 2, 10, 20, 100, 200})};
    lt_tensor out[1], din[2] = {{0}};
    assert_ok(lt_test_forward(*state, &lt_op_embedding, in, NULL, out));
    assert_floats(&out[0], 0, 5, 6, 1, 2, 5, 6);
    din[1] = lt_test_garbage(*state, &in[1]);
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_embedding, in, NULL, out, dout, din, 0));
    assert_floats(&din[1], 0, 10, 20, 0, 0, 101, 202, 0, 0);
    assert_ok(
        lt_test_backward_on(*state, ref, &lt_op_embedding, in, NULL, out, dout, din, LT_IN(1)));
    assert_floats(&din[1], 0, 20, 40, 0, 0, 202, 404, 0, 0);
}

static void positions_are_blended_from_four_rows(void **state)
{
    // models.md 13.3, h = 4: coordinate 15.6667 lies 2/3 of the way from row 15 to row 16
    const lt_tensor in[] = {lt_test_f32(*state, "2x1", (float[]){1000, 2000}),
                            lt_test_f32(*state, "3x1", (float[]){15, 16, 47}),
                            lt_test_i32(*state, "2x4", (int32_t[]){0, 0, 1, 1, 2, 2, 2, 2}),
                            lt_test_f32(*state, "2x4",
                                        (float[]){0.25F * 0.333333F, 0.75F * 0.333333F,
                                                  0.25F * 0.666667F, 0.75F * 0.666667F, //
                                                  1, 0, 0, 0})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_pos_embed_add, in, NULL, out));
    assert_floats(&out[0], 1e-4, 1015.6667, 2047);
}

static void position_gradients_agree_with_finite_differences(void **state)
{
    const lt_gradcheck_opts opts = {.seed = 3, .no_grad = LT_IN(3)};
    lt_tensor in[] = {lt_test_random_f64(*state, "3x2", 1), lt_test_random_f64(*state, "5x2", 2),
                      lt_test_i32(*state, "3x4", (int32_t[]){0, 1, 3, 4, 3, 3, 3, 3, 4, 1, 4, 1}),
                      lt_test_random(*state, "3x4", 4)};
    assert_ok(lt_gradcheck(*state, &lt_op_pos_embed_add, in, NULL, opts));
    in[0] = lt_test_tensor(*state, LT_F64, "0x2");
    in[2] = lt_test_i32(*state, "0x4", NULL);
    in[3] = lt_test_tensor(*state, LT_F32, "0x4");
    assert_ok(lt_gradcheck(*state, &lt_op_pos_embed_add, in, NULL, opts));
}

static void bf16_positions_are_narrowed_once(void **state)
{
    // form B: 1 + (2^-8 * 1 + 2^-8 * 1) = 1 + 2^-7; narrowing after every sum would lose both terms
    const lt_tensor z = lt_test_f32(*state, "1x1", (float[]){1}),
                    p = lt_test_f32(*state, "2x1", (float[]){1, 1});
    const lt_tensor in[] = {lt_test_converted(*state, &z, LT_BF16),
                            lt_test_converted(*state, &p, LT_BF16),
                            lt_test_i32(*state, "1x4", (int32_t[]){0, 1, 0, 0}),
                            lt_test_f32(*state, "1x4", (float[]){0x1p-8F, 0x1p-8F, 0, 0})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_pos_embed_add, in, NULL, out));
    assert_floats(&out[0], 0, 1 + 0x1p-7);
}

static void a_corner_outside_the_table_is_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "1x2", 1), lt_test_random(*state, "5x2", 2),
                      lt_test_i32(*state, "1x4", (int32_t[]){0, 1, 5, 4}),
                      lt_test_random(*state, "1x4", 4)},
              out[1];
    assert_fails(lt_test_forward(*state, &lt_op_pos_embed_add, in, NULL, out), LT_ERR_DATA,
                 "corners[2] is 5, not in 0 to 4");
    in[2] = lt_test_i32(*state, "2x2", (int32_t[]){0, 1, 2, 4});
    assert_fails(lt_test_forward(*state, &lt_op_pos_embed_add, in, NULL, out), LT_ERR_SHAPE,
                 "corners as i32[1,4], got i32[2,2]");
}

LT_TEST_MAIN(LT_TEST(scattered_rows_replace_or_add), LT_TEST(features_take_the_dtype_of_the_rows),
             LT_TEST(both_scatters_work_over_their_own_input),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(rows_out_of_order_or_bounds_are_named),
             LT_TEST(embeddings_are_rows_and_their_gradient_sums_repeated_ids),
             LT_TEST(positions_are_blended_from_four_rows),
             LT_TEST(position_gradients_agree_with_finite_differences),
             LT_TEST(bf16_positions_are_narrowed_once),
             LT_TEST(a_corner_outside_the_table_is_named))
