// SPDX-License-Identifier: Apache-2.0
#include "op/attention.h"
#include "tests/kit/cpu_kit.h"
#include <stdio.h>

typedef struct shape {
    int tokens, heads, kv_heads, d;
    bool causal;
    const char *n_segments;
    const int32_t *segments;
} shape;

static void agree(void **state, const shape *s)
{
    const lt_attention_attr attr = {.heads = s->heads,
                                    .kv_heads = s->kv_heads,
                                    .causal = s->causal,
                                    .scale = s->d == 7 ? 0.3 : 0};
    char q[32], kv[32];
    (void)snprintf(q, sizeof q, "%dx%d", s->tokens, s->heads * s->d);
    (void)snprintf(kv, sizeof kv, "%dx%d", s->tokens, s->kv_heads * s->d);
    const lt_tensor in[] = {lt_test_random(*state, q, 1), lt_test_random(*state, kv, 2),
                            lt_test_random(*state, kv, 3),
                            lt_test_i32(*state, s->n_segments, s->segments)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_attention,
                                               .attr = &attr,
                                               .in = in,
                                               .no_upstream = LT_OUT(1),
                                               .nan_spreads = true,
                                               .tol = 5e-6});
}

static void causal_attention_agrees_with_its_reference(void **state)
{
    agree(state, &(shape){1, 1, 1, 1, true, "2", (int32_t[]){0, 1}});
    agree(state, &(shape){33, 4, 2, 8, true, "2", (int32_t[]){0, 33}});
    agree(state, &(shape){31, 3, 1, 7, true, "4", (int32_t[]){0, 10, 10, 31}});
    agree(state,
          &(shape){205, 2, 1, 12, true, "3", (int32_t[]){0, 5, 205}}); // several blocks of both
}

static void packed_segments_without_a_mask_agree(void **state)
{
    agree(state, &(shape){40, 2, 2, 72, false, "4", (int32_t[]){0, 16, 17, 40}});
    agree(state, &(shape){160, 1, 1, 12, false, "3", (int32_t[]){0, 20, 160}});
    agree(state, &(shape){9, 2, 1, 100, false, "2", (int32_t[]){0, 9}});
}

static void rows_outside_of_all_segments_see_nothing(void **state)
{
    agree(state, &(shape){20, 2, 1, 8, true, "3", (int32_t[]){3, 9, 15}});
    agree(state, &(shape){20, 2, 1, 8, false, "1", (int32_t[]){4}});
    agree(state, &(shape){0, 2, 1, 8, false, "1", (int32_t[]){0}});
}

static void a_row_does_not_depend_on_what_comes_after_it(void **state)
{
    const lt_attention_attr attr = {.heads = 2, .kv_heads = 1, .causal = true};
    const lt_test_column cpu = {.backend = LT_CPU};
    const lt_tensor q = lt_test_random(*state, "200x16", 1), k = lt_test_random(*state, "200x8", 2),
                    v = lt_test_random(*state, "200x8", 3);
    // the other rows are in no segment
    const lt_tensor few[] = {q, k, v, lt_test_i32(*state, "2", (int32_t[]){0, 131})},
                    all[] = {q, k, v, lt_test_i32(*state, "2", (int32_t[]){0, 200})};
    lt_tensor out_few[2], out_all[2];
    assert_ok(lt_test_forward_on(*state, cpu, &lt_op_attention, all, &attr, out_all));
    assert_ok(lt_test_forward_on(*state, cpu, &lt_op_attention, few, &attr, out_few));
    assert_memory_equal(out_few[0].data, out_all[0].data, sizeof(float) * 131 * 16);
}

static void large_scores_neither_overflow_nor_vanish(void **state)
{
    const lt_attention_attr attr = {.heads = 1, .kv_heads = 1, .causal = true};
    const lt_tensor in[] = {lt_test_random_of(*state, LT_F32, "50x8", 1, 30.0),
                            lt_test_random_of(*state, LT_F32, "50x8", 2, 30.0),
                            lt_test_random(*state, "50x8", 3),
                            lt_test_i32(*state, "2", (int32_t[]){0, 50})};
    lt_tensor want[2], got[2];
    assert_ok(lt_test_forward(*state, &lt_op_attention, in, &attr, want));
    assert_ok(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU}, &lt_op_attention, in,
                                 &attr, got));
    assert_true(lt_test_difference(&got[0], &want[0]) <
                1e-3); // scores of some thousands are known to 2e-4
    assert_true(lt_test_difference(&got[1], &want[1]) < 1e-6);
}

static void a_bad_segment_table_is_refused(void **state)
{
    const lt_attention_attr attr = {.heads = 1, .kv_heads = 1};
    const lt_tensor x = lt_test_random(*state, "5x4", 1),
                    in[] = {x, x, x, lt_test_i32(*state, "3", (int32_t[]){0, 3, 2})};
    lt_tensor out[2];
    assert_fails(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU}, &lt_op_attention,
                                    in, &attr, out),
                 LT_ERR_DATA, "segments[2] is 2, not in 3 to 5");
}

LT_TEST_MAIN(LT_TEST(causal_attention_agrees_with_its_reference),
             LT_TEST(packed_segments_without_a_mask_agree),
             LT_TEST(rows_outside_of_all_segments_see_nothing),
             LT_TEST(a_row_does_not_depend_on_what_comes_after_it),
             LT_TEST(large_scores_neither_overflow_nor_vanish),
             LT_TEST(a_bad_segment_table_is_refused))
