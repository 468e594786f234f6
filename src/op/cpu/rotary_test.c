// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/isa.h"
#include "op/qk_norm_rope.h"
#include "op/rope.h"
#include "tests/kit/cpu_kit.h"
#include <stdio.h>
#include <string.h>

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

// Positions of samples in one row, each from 0; the third has a picture of 2 x 2 tokens.
static const int32_t packed[3][12] = {{0, 1, 2, 3, 4, 0, 1, 0, 1, 1, 1, 1},
                                      {0, 1, 2, 3, 4, 0, 1, 0, 1, 1, 2, 2},
                                      {0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 1, 2}};
static const int starts[] = {0, 5, 7, 12};

/** Tables from positions packed[..][from .. to). */
static lt_tensor table_of(void *state, int from, int to)
{
    const int n = to - from;
    int32_t *flat = lt_test_take(state, (size_t)(3 * n) * sizeof *flat);
    for (int axis = 0; axis < 3; axis++)
        for (int i = 0; i < n; i++)
            flat[axis * n + i] = packed[axis][from + i];
    char shape[16];
    (void)snprintf(shape, sizeof shape, "3x%d", n);
    const lt_tensor in[] = {lt_test_i32(state, shape, flat)};
    const lt_rope_table_attr attr = {
        .theta = 10000, .width = 16, .section = {4, 2, 2}, .interleaved = true, .dtype = LT_F32};
    lt_tensor out[1];
    assert_ok(lt_test_forward(state, &lt_op_rope_table, in, &attr, out));
    return out[0];
}

// The kernel and its reference agree on a packed row, and each sample turns as it does alone.
static void br_07_packed_samples_turn_by_their_own_positions(void **state)
{
    const lt_qk_norm_rope_attr attr = {.eps = 1e-6, .heads = 2};
    lt_cpu_state cpu = {.isa = lt_cpu_isa()};
    const lt_test_column fast = {.backend = LT_CPU, .impl = &cpu};
    const lt_tensor in[] = {lt_test_random(*state, "12x32", 1), lt_test_random(*state, "16", 2),
                            table_of(*state, 0, 12)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_qk_norm_rope,
                                               .attr = &attr,
                                               .in = in,
                                               .wide = LT_IN(2),
                                               .no_grad = LT_IN(2),
                                               .params = LT_IN(1)});
    lt_tensor all[1], one[1];
    assert_ok(lt_test_forward_on(*state, fast, &lt_op_qk_norm_rope, in, &attr, all));
    for (int s = 0; s < 3; s++) {
        const int n = starts[s + 1] - starts[s];
        const size_t skip = (size_t)starts[s] * 32 * sizeof(float);
        char shape[16];
        (void)snprintf(shape, sizeof shape, "%dx32", n);
        const lt_tensor alone[] = {lt_test_tensor(*state, LT_F32, shape), in[1],
                                   table_of(*state, starts[s], starts[s + 1])};
        memcpy(alone[0].data, (const char *)in[0].data + skip, lt_tensor_bytes(&alone[0]));
        assert_ok(lt_test_forward_on(*state, fast, &lt_op_qk_norm_rope, alone, &attr, one));
        assert_memory_equal((char *)all[0].data + skip, one[0].data, lt_tensor_bytes(&one[0]));
    }
}

LT_TEST_MAIN(LT_TEST(qk_norm_rope_agrees_with_its_reference),
             LT_TEST(split_qkv_rope_agrees_with_its_reference),
             LT_TEST(br_07_packed_samples_turn_by_their_own_positions))
