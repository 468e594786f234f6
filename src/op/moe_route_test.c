// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "op/moe_route.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <string.h>

enum { WEIGHTS, EXPERTS, PLACE, OFFSETS, N_OUT };

static void route(void *state, const lt_tensor *logits, int64_t k, bool renormalise, lt_tensor *out)
{
    const lt_moe_route_attr attr = {.k = k, .renormalise = renormalise};
    assert_ok(lt_test_forward(state, &lt_op_moe_route, logits, &attr, out));
}

static void assert_ints(const lt_tensor *t, const int32_t *want)
{
    assert_memory_equal(t->data, want, lt_tensor_bytes(t));
}

static void the_two_largest_of_four_are_picked(void **state)
{
    const lt_tensor z = lt_test_f32(*state, "1x4", (float[]){2, 1, 0, -1});
    lt_tensor out[N_OUT];
    route(*state, &z, 2, true, out);
    assert_floats(&out[WEIGHTS], 1e-6, 0.731059, 0.268941); // models.md 13.3
    assert_ints(&out[EXPERTS], (const int32_t[]){0, 1});
    route(*state, &z, 2, false, out);
    assert_floats(&out[WEIGHTS], 1e-6, 0.643914, 0.236883); // softmax over all four
}

static void of_equal_scores_the_lower_expert_wins(void **state)
{
    const lt_tensor z = lt_test_f32(*state, "3x4", (float[]){0, 0, 0, 0, 1, 3, 3, 1, 2, 5, 2, 2});
    lt_tensor out[N_OUT];
    route(*state, &z, 2, true, out);
    assert_ints(&out[EXPERTS], (const int32_t[]){0, 1, 1, 2, 1, 0});
}

static void copies_are_sorted_by_expert_and_keep_their_order(void **state)
{
    const lt_tensor z =
        lt_test_f32(*state, "3x4", (float[]){0, 9, 0, 8, 9, 8, 0, 0, 0, 9, 0, 8}); // 1,3  0,1  1,3
    lt_tensor out[N_OUT];
    route(*state, &z, 2, true, out);
    assert_ints(&out[EXPERTS], (const int32_t[]){1, 3, 0, 1, 1, 3});
    assert_ints(&out[PLACE], (const int32_t[]){1, 4, 0, 2, 3, 5});
    assert_ints(&out[OFFSETS], (const int32_t[]){0, 1, 4, 4, 6}); // expert 2 has none
}

static void all_tokens_may_go_to_one_expert(void **state)
{
    lt_tensor z = lt_test_random(*state, "50x5", 1), out[N_OUT];
    for (int64_t t = 0; t < 50; t++)
        lt_store(&z, t * 5 + 4, 100.0);
    route(*state, &z, 1, true, out);
    assert_ints(&out[OFFSETS], (const int32_t[]){0, 0, 0, 0, 0, 50});
    for (int64_t t = 0; t < 50; t++) {
        assert_int_equal(((int32_t *)out[PLACE].data)[t], t);
        assert_near(lt_load(&out[WEIGHTS], t), 1.0, 0.0);
    }
}

static void scores_that_are_no_numbers_still_name_experts(void **state)
{
    const lt_tensor z = lt_test_f32(*state, "2x3", (float[]){NAN, NAN, NAN, -INFINITY, 1, NAN});
    lt_tensor out[N_OUT];
    route(*state, &z, 3, true, out);
    int seen[2][3] = {{0}};
    for (int i = 0; i < 6; i++)
        seen[i / 3][((int32_t *)out[EXPERTS].data)[i]]++;
    for (int i = 0; i < 6; i++)
        assert_int_equal(seen[i / 3][i % 3], 1);
}

static void no_tokens_give_no_rows(void **state)
{
    const lt_tensor z = lt_test_tensor(*state, LT_F32, "0x3");
    lt_tensor out[N_OUT];
    route(*state, &z, 2, true, out);
    assert_ints(&out[OFFSETS], (const int32_t[]){0, 0, 0, 0});
}

static void more_experts_than_there_are_is_refused(void **state)
{
    const lt_moe_route_attr attr = {.k = 4};
    const lt_tensor z = lt_test_random(*state, "2x3", 1);
    lt_tensor out[N_OUT];
    assert_fails(lt_test_forward(*state, &lt_op_moe_route, &z, &attr, out), LT_ERR_SHAPE,
                 "k from 1");
}

// With renormalised weights an expert that was not picked gets nothing, to the bit.
static void only_picked_scores_get_a_gradient(void **state)
{
    const lt_tensor z = lt_test_random_f64(*state, "4x6", 3);
    const lt_moe_route_attr attr = {.k = 2, .renormalise = true};
    lt_tensor out[N_OUT], dout[N_OUT] = {0}, din = lt_test_garbage(*state, &z);
    assert_ok(lt_test_forward(*state, &lt_op_moe_route, &z, &attr, out));
    dout[WEIGHTS] = lt_test_random_f64(*state, "4x2", 4);
    assert_ok(lt_test_backward_on(*state, (lt_test_column){.backend = LT_REF}, &lt_op_moe_route, &z,
                                  &attr, out, dout, &din, 0));
    for (int64_t i = 0; i < 24; i++) {
        const int32_t *picked = (const int32_t *)out[EXPERTS].data + i / 6 * 2;
        const bool mine = picked[0] == i % 6 || picked[1] == i % 6;
        assert_int_equal(lt_load(&din, i) != 0.0, mine);
    }
}

/* ---- the statistic and its loss ---- */

// Two tokens, both to expert 0 with p = (.7, .1, .1, .1): aux = 2.8 (models.md 13.3).
// BR-50: one softmax, not one of another; a router that sends all to one expert, by hand.
static void the_auxiliary_loss_of_a_known_case_comes_out(void **state)
{
    const float a = logf(0.7F), b = logf(0.1F);
    const lt_tensor stats_in[] = {lt_test_f32(*state, "2x4", (float[]){a, b, b, b, a, b, b, b}),
                                  lt_test_i32(*state, "2x1", (const int32_t[]){0, 0}),
                                  lt_test_none()};
    lt_tensor table, out[3];
    assert_ok(lt_test_forward(*state, &lt_op_moe_stats, stats_in, &(lt_moe_stats_attr){.layers = 1},
                              &table));
    assert_floats(&table, 1e-6, 2, 0, 0, 0, 1.4, 0.2, 0.2, 0.2);
    const lt_tensor in[] = {table, lt_test_f32(*state, "1", (float[]){0.5F})};
    assert_ok(lt_test_forward(*state, &lt_op_moe_balance, in, &(lt_moe_balance_attr){.k = 1}, out));
    assert_floats(&out[0], 1e-6, 1.4);
    assert_floats(&out[1], 1e-6, 2.8);
}

// Each layer puts its row in front; the rows before it move on.
static void layers_come_one_behind_the_other(void **state)
{
    const lt_tensor in[] = {
        lt_test_f32(*state, "1x2", (float[]){0, 0}),
        lt_test_i32(*state, "1x1", (const int32_t[]){1}),
        lt_test_f32(*state, "3x2x2", (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})};
    lt_tensor table;
    assert_ok(
        lt_test_forward(*state, &lt_op_moe_stats, in, &(lt_moe_stats_attr){.layers = 3}, &table));
    assert_floats(&table, 1e-6, 0, 1, 0.5, 0.5, 1, 2, 3, 4, 5, 6, 7, 8);
}

static void no_tokens_cost_nothing(void **state)
{
    const lt_tensor in[] = {lt_test_tensor(*state, LT_F32, "2x2x3"),
                            lt_test_f32(*state, "1", (float[]){1})};
    lt_tensor out[3], dout[3] = {0}, din[2] = {lt_test_garbage(*state, &in[0])};
    const lt_moe_balance_attr attr = {.k = 2};
    assert_ok(lt_test_forward(*state, &lt_op_moe_balance, in, &attr, out));
    assert_floats(&out[0], 0, 0);
    assert_ok(lt_test_backward_on(*state, (lt_test_column){.backend = LT_REF}, &lt_op_moe_balance,
                                  in, &attr, out, dout, din, 0));
    assert_floats(&din[0], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

LT_TEST_MAIN(LT_TEST(the_two_largest_of_four_are_picked),
             LT_TEST(of_equal_scores_the_lower_expert_wins),
             LT_TEST(copies_are_sorted_by_expert_and_keep_their_order),
             LT_TEST(all_tokens_may_go_to_one_expert),
             LT_TEST(scores_that_are_no_numbers_still_name_experts),
             LT_TEST(no_tokens_give_no_rows), LT_TEST(more_experts_than_there_are_is_refused),
             LT_TEST(only_picked_scores_get_a_gradient),
             LT_TEST(the_auxiliary_loss_of_a_known_case_comes_out),
             LT_TEST(layers_come_one_behind_the_other), LT_TEST(no_tokens_cost_nothing))
