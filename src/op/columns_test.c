// SPDX-License-Identifier: Apache-2.0
// Walks the CPU column of the op table: every kernel agrees with the reference, on 1, 2 and 4
// threads with the same bits.
#include "op/adamw.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/ops.h"
#include "op/pos_embed.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"
#include "op/scale_add.h"
#include "op/split.h"
#include "op/swiglu.h"
#include "op/tiles.h"
#include "op/top1.h"
#include "tests/kit/op_case.h"
#include <string.h>

// Awkward sizes: 0, 1, 31, 33, 1000. An op with a CPU kernel and without a case here fails the
// walk.
static const lt_op_case cases[] = {
    {.def = &lt_op_linear, .in = {VALUE("33x31"), PARAM("65x31"), PARAM("65")}},
    {.def = &lt_op_linear, .in = {VALUE("300x40"), PARAM("1x40")}},
    {.def = &lt_op_linear, .in = {VALUE("1x1000"), PARAM("33x1000")}},
    {.def = &lt_op_linear, .in = {VALUE("31x48"), PARAM("16x3x1x4x4"), PARAM("16")}},
    {.def = &lt_op_linear, .in = {VALUE("0x31"), PARAM("5x31"), PARAM("5")}},
    {.def = &lt_op_tile_embed,
     .in = {VALUE("13x301"), PARAM("1x5x301"), PARAM("1x1x301"), EVERY("2x13", 1, 2),
            LIST("4", 0, 5, 10, 16)}},
    {.def = &lt_op_tile_embed,
     .in = {VALUE("0x3"), PARAM("1x5x3"), PARAM("1x1x3"), EVERY("2x0", 1, 2), LIST("1", 0)}},
    {.def = &lt_op_tile_patches, .in = {VALUE("16x33"), LIST("4", 0, 5, 10, 16)}},
    {.def = &lt_op_tile_patches, .in = {VALUE("0x33"), LIST("1", 0)}},
    {.def = &lt_op_scale_add, .in = {VALUE("301x33"), PARAM("33"), VALUE("301x33")}},
    {.def = &lt_op_scale_add, .in = {VALUE("3x1000"), PARAM("1000"), VALUE("3x1000")}},
    {.def = &lt_op_scale_add, .in = {VALUE("0x5"), PARAM("5"), VALUE("0x5")}},
    {.def = &lt_op_split_thirds, .in = {VALUE("301x33")}},
    {.def = &lt_op_rms_norm,
     .in = {VALUE("301x33"), PARAM("33")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_rms_norm,
     .in = {VALUE("3x1000"), PARAM("1000")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_rms_norm, .in = {VALUE("5x1"), PARAM("1")}, ATTR(lt_rms_norm_attr, .eps = 0.5)},
    {.def = &lt_op_rms_norm,
     .in = {VALUE("0x16"), PARAM("16")},
     ATTR(lt_rms_norm_attr, .eps = 0.5)},
    {.def = &lt_op_add_rms_norm,
     .in = {VALUE("301x33"), VALUE("301x33"), PARAM("33")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_add_rms_norm,
     .in = {VALUE("0x8"), VALUE("0x8"), PARAM("8")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_layer_norm,
     .in = {VALUE("301x33"), PARAM("33"), PARAM("33")},
     ATTR(lt_layer_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_layer_norm,
     .in = {VALUE("2x1000"), PARAM("1000"), PARAM("1000")},
     ATTR(lt_layer_norm_attr, .eps = 1e-5)},
    {.def = &lt_op_layer_norm,
     .in = {VALUE("0x31"), PARAM("31"), PARAM("31")},
     ATTR(lt_layer_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_qk_norm_rope,
     .in = {VALUE("67x160"), PARAM("32"), SIDE("67x32")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 5)},
    {.def = &lt_op_qk_norm_rope,
     .in = {VALUE("33x62"), PARAM("31"), SIDE("33x10")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 2)},
    {.def = &lt_op_qk_norm_rope,
     .in = {VALUE("0x16"), PARAM("8"), SIDE("0x8")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 2)},
    {.def = &lt_op_rope_table,
     .in = {EVERY("3x301", 271, 262144)},
     ATTR(lt_rope_table_attr, .theta = 5e6, .width = 128, .section = {24, 20, 20},
          .interleaved = true, .dtype = LT_F32)},
    {.def = &lt_op_rope_table,
     .in = {EVERY("3x33", 7, 1000)},
     ATTR(lt_rope_table_attr, .theta = 1e4, .width = 10, .section = {3, 1, 1}, .dtype = LT_F32)},
    {.def = &lt_op_vision_rope_table,
     .in = {EVERY("2x301", 13, 48)},
     ATTR(lt_vision_rope_table_attr, .theta = 1e4, .width = 72, .dtype = LT_F32)},
    {.def = &lt_op_split_qkv_rope,
     .in = {VALUE("67x432"), SIDE("67x72")},
     ATTR(lt_split_qkv_rope_attr, .heads = 2)},
    {.def = &lt_op_split_qkv_rope,
     .in = {VALUE("33x18"), SIDE("33x2")},
     ATTR(lt_split_qkv_rope_attr, .heads = 3)},
    {.def = &lt_op_split_qkv_rope,
     .in = {VALUE("0x24"), SIDE("0x4")},
     ATTR(lt_split_qkv_rope_attr, .heads = 2)},
    {.def = &lt_op_attention,
     .in = {VALUE("101x128"), VALUE("101x32"), VALUE("101x32"), LIST("5", 0, 1, 34, 34, 101)},
     ATTR(lt_attention_attr, .heads = 4, .kv_heads = 1, .causal = true),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_attention,
     .in = {VALUE("80x144"), VALUE("80x144"), VALUE("80x144"), LIST("4", 0, 31, 72, 78)},
     ATTR(lt_attention_attr, .heads = 2, .kv_heads = 2, .vision = true),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_attention,
     .in = {VALUE("33x15"), VALUE("33x5"), VALUE("33x5"), LIST("3", 2, 17, 33)},
     ATTR(lt_attention_attr, .heads = 3, .kv_heads = 1, .causal = true, .scale = 0.3),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_attention,
     .in = {VALUE("0x16"), VALUE("0x8"), VALUE("0x8"), LIST("1", 0)},
     ATTR(lt_attention_attr, .heads = 2, .kv_heads = 1),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_add, .in = {VALUE("33x1000"), VALUE("33x1000")}},
    {.def = &lt_op_add, .in = {VALUE("1x1"), VALUE("1x1")}},
    {.def = &lt_op_copy, .in = {VALUE("33x1000")}},
    {.def = &lt_op_swiglu, .in = {VALUE("33x1000"), VALUE("33x1000")}},
    {.def = &lt_op_swiglu, .in = {VALUE("1x31"), VALUE("1x31")}},
    {.def = &lt_op_swiglu, .in = {VALUE("0x31"), VALUE("0x31")}},
    {.def = &lt_op_gelu, .in = {VALUE("33x1000")}, ATTR(lt_gelu_attr, .kind = LT_GELU_ERF)},
    {.def = &lt_op_gelu, .in = {VALUE("31x33")}, ATTR(lt_gelu_attr, .kind = LT_GELU_TANH)},
    {.def = &lt_op_gelu, .in = {VALUE("0x33")}, ATTR(lt_gelu_attr, .kind = LT_GELU_TANH)},
    {.def = &lt_op_embedding, .in = {EVERY("301", 7, 40), PARAM("50x33")}},
    {.def = &lt_op_embedding, .in = {EVERY("0", 1, 1), PARAM("5x33")}},
    {.def = &lt_op_scatter_rows, .in = {VALUE("100x33"), VALUE("50x33"), EVERY("50", 2, 100)}},
    {.def = &lt_op_scatter_rows, .in = {VALUE("3x1000"), VALUE("0x1000"), EVERY("0", 1, 1)}},
    {.def = &lt_op_scatter_add_rows, .in = {VALUE("100x33"), VALUE("34x33"), EVERY("34", 3, 100)}},
    {.def = &lt_op_gather_rows, .in = {VALUE("100x33"), EVERY("20", 5, 100)}},
    {.def = &lt_op_gather_rows, .in = {VALUE("10x3"), EVERY("0", 1, 1)}},
    {.def = &lt_op_pos_embed_add,
     .in = {VALUE("100x33"), PARAM("81x33"), EVERY("100x4", 7, 75), F32("100x4")}},
    {.def = &lt_op_pos_embed_add,
     .in = {VALUE("0x33"), PARAM("9x33"), EVERY("0x4", 1, 1), F32("0x4")}},
    {.def = &lt_op_cast, .in = {F32("33x1000")}, ATTR(lt_cast_attr, .dtype = LT_BF16)},
    {.def = &lt_op_cast, .in = {VALUE("31x33")}, ATTR(lt_cast_attr, .dtype = LT_F32)},
    {.def = &lt_op_linear_cross_entropy,
     .in = {VALUE("67x33"), PARAM("500x33"), EVERY("67", 71, 500), F32("67")},
     ATTR(lt_linear_cross_entropy_attr, .chunk = 32)},
    {.def = &lt_op_linear_cross_entropy,
     .in = {VALUE("5x16"), PARAM("1000x16"), EVERY("5", 999, 1000), F32("5")},
     ATTR(lt_linear_cross_entropy_attr, .chunk = 1024)},
    {.def = &lt_op_linear_cross_entropy,
     .in = {VALUE("0x16"), PARAM("100x16"), EVERY("0", 1, 1), F32("0")},
     ATTR(lt_linear_cross_entropy_attr, .chunk = 8)},
    {.def = &lt_op_top1, .in = {VALUE("33x1000")}},
    {.def = &lt_op_sum_squares, .in = {VALUE("33x1000")}},
    {.def = &lt_op_sum_squares, .in = {VALUE("0x7")}},
};

// Their kernels work on what they are given, in place: tested by themselves.
static bool works_on_state(const lt_op_def *def)
{
    static const char *const names[] = {"adamw", "clip", "muon_momentum", "orthogonalize",
                                        "muon_apply"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(def->name, names[i]) == 0)
            return true;
    return false;
}

static bool has_kernel(const lt_op_def *def)
{
    return def->forward[LT_CPU] || def->backward[LT_CPU];
}

// Routed experts and linear attention have inputs that hang together: cpu/moe_test.c and
// cpu/delta_test.c make and compare them.
static bool compared_elsewhere(const lt_op_def *def)
{
    static const char *const names[] = {"moe_permute",   "moe_combine",    "grouped_linear",
                                        "swiglu_halves", "conv_silu",      "gdn_gates",
                                        "gated_delta",   "gated_rms_norm", "sigmoid_gate",
                                        "split_heads",   "join",           "shift_rows"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(def->name, names[i]) == 0)
            return true;
    return false;
}

static void every_cpu_kernel_agrees_with_the_reference(void **state)
{
    // fp32: sums of up to 1000 products; bf16: two units in the last place of the largest number
    const struct {
        lt_dtype dtype;
        double rel_tol;
    } runs[] = {{LT_F32, 1e-5}, {LT_BF16, 0x1p-7}};
    lt_pool *pools[3] = {NULL};
    int n;
    const lt_op_def *const *rows = lt_ops_all(&n);
    assert_ok(lt_pool_create(2, &pools[1]));
    assert_ok(lt_pool_create(4, &pools[2]));
    for (int i = 0; i < n; i++) {
        bool seen = works_on_state(rows[i]) || compared_elsewhere(rows[i]) || !has_kernel(rows[i]);
        for (size_t c = 0; c < sizeof cases / sizeof cases[0] && !seen; c++)
            seen = cases[c].def == rows[i];
        if (!seen)
            fail_msg("op %s has a CPU kernel that nothing compares: give it a case in this file",
                     rows[i]->name);
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (int r = 0; r < 2 && has_kernel(cases[c].def); r++)
            assert_ok(lt_column_agrees(*state, &cases[c], runs[r].dtype, LT_CPU, pools, 3,
                                       runs[r].rel_tol));
    }
    lt_pool_destroy(pools[1]);
    lt_pool_destroy(pools[2]);
}

LT_TEST_MAIN(LT_TEST(every_cpu_kernel_agrees_with_the_reference))
