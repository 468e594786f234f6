// SPDX-License-Identifier: Apache-2.0
#include "op/qk_norm_rope.h"
#include "op/rope.h"
#include "tests/kit/cpu_kit.h"

static void qk_norm_rope_agrees_with_its_reference(void **state)
{
    static const struct {
        const char *x, *w, *table;
        int32_t heads;
    } cases[] = {{"5x64", "16", "5x16", 4},   {"37x36", "36", "37x36", 1}, {"3x6", "2", "3x2", 3},
                 {"34x80", "40", "34x10", 2}, {"0x8", "4", "0x4", 2},      {"2x10", "5", "2x2", 2}};
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = cases[i].heads};
        const lt_tensor in[] = {lt_test_random(*state, cases[i].x, 1 + i),
                                lt_test_random(*state, cases[i].w, 11 + i),
                                lt_test_random_of(*state, LT_F32, cases[i].table, 21 + i, 0.5)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_qk_norm_rope,
                                                   .attr = &attr,
                                                   .in = in,
                                                   .wide = LT_IN(2),
                                                   .no_grad = LT_IN(2),
                                                   .params = LT_IN(1)});
    }
}

static void split_qkv_rope_agrees_with_its_reference(void **state)
{
    static const struct {
        const char *qkv, *table;
        int32_t heads;
    } cases[] = {
        {"5x192", "5x16", 4}, {"33x108", "33x36", 1}, {"2x18", "2x2", 3}, {"0x12", "0x4", 1}};
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lt_split_qkv_rope_attr attr = {.heads = cases[i].heads};
        const lt_tensor in[] = {lt_test_random(*state, cases[i].qkv, 1 + i),
                                lt_test_random_of(*state, LT_F32, cases[i].table, 21 + i, 0.5)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_split_qkv_rope,
                                                   .attr = &attr,
                                                   .in = in,
                                                   .wide = LT_IN(1),
                                                   .no_grad = LT_IN(1)});
    }
}

LT_TEST_MAIN(LT_TEST(qk_norm_rope_agrees_with_its_reference),
             LT_TEST(split_qkv_rope_agrees_with_its_reference))
