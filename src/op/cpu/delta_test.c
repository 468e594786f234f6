// SPDX-License-Identifier: Apache-2.0
// The kernels of linear attention against their references.
#include "op/conv_silu.h"
#include "op/gated_delta.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include "op/qk_norm_rope.h"
#include "op/rows.h"
#include "op/split.h"
#include "tests/kit/cpu_kit.h"
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void convolutions_agree_with_their_reference(void **state)
{
    static const struct {
        const char *x, *w, *n;
        int32_t segments[5];
    } cases[] = {{"1x1", "1x1x1", "2", {0, 1}},
                 {"33x70", "70x1x4", "4", {0, 2, 2, 33}},
                 {"90x130", "130x1x3", "3", {5, 70, 88}}, // rows outside
                 {"20x64", "64x1x16", "5", {0, 1, 3, 19, 20}},
                 {"0x8", "8x1x4", "1", {0}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const lt_tensor in[] = {lt_test_random(*state, cases[i].x, 1),
                                lt_test_random(*state, cases[i].w, 2),
                                lt_test_i32(*state, cases[i].n, cases[i].segments)};
        lt_test_cpu_agrees(*state,
                           &(lt_cpu_check){.def = &lt_op_conv_silu, .in = in, .params = LT_IN(1)});
    }
}

static lt_tensor mapped(void *state, const char *dims, uint64_t seed, double (*fn)(double x))
{
    lt_tensor t = lt_test_random(state, dims, seed);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        lt_store(&t, i, fn(lt_load(&t, i)));
    return t;
}

static double decay(double x)
{
    return -0.3 * x * x;
}

static double share(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void the_delta_rule_agrees_with_its_recurrence(void **state)
{
    static const struct {
        const char *qkv, *gates, *n;
        int32_t segments[5];
        lt_gated_delta_attr attr;
    } cases[] = {{"70x28", "70x2", "3", {0, 3, 70}, {1, 2, 8, 6, 0}},
                 {"40x33", "40x3", "4", {0, 17, 17, 40}, {3, 3, 2, 7, 16}},
                 {"12x3", "12x1", "3", {2, 7, 9}, {1, 1, 1, 1, 64}},
                 {"140x96", "140x2", "2", {0, 140}, {1, 2, 16, 32, 32}},
                 {"0x28", "0x2", "1", {0}, {1, 2, 8, 6, 0}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const lt_tensor in[] = {lt_test_random(*state, cases[i].qkv, 1),
                                mapped(*state, cases[i].gates, 2, decay),
                                mapped(*state, cases[i].gates, 3, share),
                                lt_test_i32(*state, cases[i].n, cases[i].segments)};
        // sums run over a chunk, and the state over all of them
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_gated_delta,
                                                   .attr = &cases[i].attr,
                                                   .in = in,
                                                   .wide = LT_IN(1) | LT_IN(2),
                                                   .nan_spreads = true,
                                                   .tol = 1e-5});
    }
}

static void gates_agree_with_their_references(void **state)
{
    static const char *const shapes[][3] = {
        {"1x2", "2", "2"}, {"33x14", "14", "7"}, {"0x6", "6", "6"}, {"70x130", "130", "65"}};
    const lt_rms_norm_attr eps = {.eps = 1e-6};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const lt_tensor x = lt_test_random(*state, shapes[i][0], 1),
                        y = lt_test_random_of(*state, LT_F32, shapes[i][0], 2, 3.0);
        const lt_tensor gates[] = {x, y, lt_test_random(*state, shapes[i][1], 3),
                                   lt_test_random(*state, shapes[i][1], 4)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_gdn_gates,
                                                   .in = gates,
                                                   .params = LT_IN(2) | LT_IN(3),
                                                   .wide_out = LT_OUT(0) | LT_OUT(1)});
        const lt_tensor norm[] = {x, y, lt_test_random(*state, shapes[i][2], 3)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_gated_rms_norm,
                                                   .attr = &eps,
                                                   .in = norm,
                                                   .params = LT_IN(2)});
        const lt_tensor each[] = {x, y};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_sigmoid_gate, .in = each});
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_join, .in = each});
        const lt_shift_rows_attr down = {.by = -1};
        lt_test_cpu_agrees(*state,
                           &(lt_cpu_check){.def = &lt_op_shift_rows, .attr = &down, .in = each});
        const lt_split_heads_attr one = {.heads = 1};
        lt_test_cpu_agrees(*state,
                           &(lt_cpu_check){.def = &lt_op_split_heads, .attr = &one, .in = each});
    }
    const lt_tensor row[] = {lt_test_random(*state, "9x37", 1), lt_test_random(*state, "9x1", 2)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_sigmoid_gate, .in = row});
}

static void scales_of_one_plus_w_agree_with_their_references(void **state)
{
    const lt_rms_norm_attr norm = {.eps = 1e-6, .plus_one = true};
    const lt_qk_norm_rope_attr qk = {.eps = 1e-6, .heads = 3, .plus_one = true};
    const lt_tensor x = lt_test_random(*state, "33x30", 1), w = lt_test_random(*state, "30", 2);
    const lt_tensor in[] = {x, w}, sum[] = {x, lt_test_random(*state, "33x30", 3), w};
    lt_test_cpu_agrees(
        *state,
        &(lt_cpu_check){.def = &lt_op_rms_norm, .attr = &norm, .in = in, .params = LT_IN(1)});
    lt_test_cpu_agrees(
        *state,
        &(lt_cpu_check){.def = &lt_op_add_rms_norm, .attr = &norm, .in = sum, .params = LT_IN(2)});
    const lt_tensor heads[] = {x, lt_test_random(*state, "10", 4),
                               lt_test_random(*state, "33x4", 5)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_qk_norm_rope,
                                               .attr = &qk,
                                               .in = heads,
                                               .wide = LT_IN(2),
                                               .params = LT_IN(1),
                                               .no_grad = LT_IN(2)});
}

LT_TEST_MAIN(LT_TEST(convolutions_agree_with_their_reference),
             LT_TEST(the_delta_rule_agrees_with_its_recurrence),
             LT_TEST(gates_agree_with_their_references),
             LT_TEST(scales_of_one_plus_w_agree_with_their_references))
