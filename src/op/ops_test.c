// SPDX-License-Identifier: Apache-2.0
// Walks the op table: every row is complete, every float op has a gradient that differences
// confirm.
#include "op/add.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/conv_silu.h"
#include "op/embedding.h"
#include "op/fold.h"
#include "op/gated_delta.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include "op/gelu.h"
#include "op/grouped_linear.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/moe_route.h"
#include "op/moe_rows.h"
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
#include "tests/kit/op_case.h"
#include <string.h>

// Small and awkward sizes: 1, odd, a prime. A float op without a case here fails the walk.
static const lt_op_case cases[] = {
    {.def = &lt_op_linear, .in = {VALUE("3x31"), PARAM("5x31"), PARAM("5")}},
    {.def = &lt_op_linear, .in = {VALUE("1x1"), PARAM("1x1")}},
    {.def = &lt_op_rms_norm,
     .in = {VALUE("3x33"), PARAM("33")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_rms_norm, .in = {VALUE("5x1"), PARAM("1")}, ATTR(lt_rms_norm_attr, .eps = 0.5)},
    {.def = &lt_op_rms_norm,
     .in = {VALUE("3x7"), PARAM("7")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6, .plus_one = true)},
    {.def = &lt_op_add_rms_norm,
     .in = {VALUE("3x7"), VALUE("3x7"), PARAM("7")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_layer_norm,
     .in = {VALUE("3x31"), PARAM("31"), PARAM("31")},
     ATTR(lt_layer_norm_attr, .eps = 1e-5)},
    {.def = &lt_op_qk_norm_rope,
     .in = {VALUE("3x12"), PARAM("4"), SIDE("3x2")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 3)},
    {.def = &lt_op_qk_norm_rope,
     .in = {VALUE("3x15"), PARAM("5"), SIDE("3x2")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 3, .plus_one = true)},
    {.def = &lt_op_split_qkv_rope,
     .in = {VALUE("5x12"), SIDE("5x2")},
     ATTR(lt_split_qkv_rope_attr, .heads = 2)},
    {.def = &lt_op_attention,
     .in = {VALUE("7x6"), VALUE("7x3"), VALUE("7x3"), LIST("4", 0, 1, 4, 7)},
     ATTR(lt_attention_attr, .heads = 2, .kv_heads = 1, .causal = true),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_attention,
     .in = {VALUE("7x1"), VALUE("7x1"), VALUE("7x1"), LIST("2", 0, 7)},
     ATTR(lt_attention_attr, .heads = 1, .kv_heads = 1),
     .no_upstream = LT_OUT(1)},
    {.def = &lt_op_add, .in = {VALUE("3x31"), VALUE("3x31")}},
    {.def = &lt_op_copy, .in = {VALUE("3x31")}},
    {.def = &lt_op_swiglu, .in = {VALUE("3x31"), VALUE("3x31")}},
    {.def = &lt_op_gelu, .in = {VALUE("3x31")}, ATTR(lt_gelu_attr, .kind = LT_GELU_ERF)},
    {.def = &lt_op_gelu, .in = {VALUE("3x31")}, ATTR(lt_gelu_attr, .kind = LT_GELU_TANH)},
    {.def = &lt_op_moe_route,
     .in = {VALUE("5x7")},
     ATTR(lt_moe_route_attr, .k = 3, .renormalise = true),
     .no_upstream = LT_OUT(1) | LT_OUT(2) | LT_OUT(3)},
    {.def = &lt_op_moe_route,
     .in = {VALUE("5x7")},
     ATTR(lt_moe_route_attr, .k = 2),
     .no_upstream = LT_OUT(1) | LT_OUT(2) | LT_OUT(3)},
    {.def = &lt_op_moe_stats,
     .in = {VALUE("5x3"), LIST("5x2", 0, 1, 2, 1, 1, 0, 2, 0, 1, 2), VALUE("2x2x3")},
     ATTR(lt_moe_stats_attr, .layers = 2)},
    {.def = &lt_op_moe_balance,
     .in = {VALUE("2x2x3"), F32("1")},
     ATTR(lt_moe_balance_attr, .k = 2),
     .no_upstream = LT_OUT(1) | LT_OUT(2)},
    {.def = &lt_op_moe_permute, .in = {VALUE("3x5"), LIST("3x2", 4, 0, 1, 3, 2, 5)}},
    {.def = &lt_op_grouped_linear, .in = {VALUE("7x5"), PARAM("4x3x5"), LIST("5", 0, 2, 2, 6, 7)}},
    {.def = &lt_op_swiglu_halves, .in = {VALUE("3x14")}},
    {.def = &lt_op_moe_combine, .in = {VALUE("6x5"), VALUE("3x2"), LIST("3x2", 4, 0, 1, 3, 2, 5)}},
    {.def = &lt_op_embedding, .in = {LIST("5", 3, 0, 3, 3, 1), PARAM("4x3")}},
    {.def = &lt_op_scatter_rows, .in = {VALUE("5x3"), VALUE("2x3"), LIST("2", 1, 4)}},
    {.def = &lt_op_scatter_add_rows, .in = {VALUE("5x3"), VALUE("2x3"), LIST("2", 0, 1)}},
    {.def = &lt_op_shift_rows, .in = {VALUE("5x3")}, ATTR(lt_shift_rows_attr, .by = 1)},
    {.def = &lt_op_shift_rows, .in = {VALUE("5x3")}, ATTR(lt_shift_rows_attr, .by = -2)},
    {.def = &lt_op_gather_rows, .in = {VALUE("5x3"), LIST("3", 0, 2, 4)}},
    {.def = &lt_op_pos_embed_add,
     .in = {VALUE("2x3"), PARAM("5x3"), LIST("2x4", 0, 4, 1, 4, 2, 2, 2, 0), F32("2x4")}},
    {.def = &lt_op_tile_embed,
     .in = {VALUE("6x3"), PARAM("1x5x3"), PARAM("1x1x3"),
            LIST("2x6", 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1), LIST("3", 0, 5, 8)}},
    {.def = &lt_op_tile_patches, .in = {VALUE("8x3"), LIST("3", 0, 5, 8)}},
    {.def = &lt_op_scale_add, .in = {VALUE("5x7"), PARAM("7"), VALUE("5x7")}},
    {.def = &lt_op_split_thirds, .in = {VALUE("5x9")}},
    {.def = &lt_op_split_heads, .in = {VALUE("5x12")}, ATTR(lt_split_heads_attr, .heads = 2)},
    {.def = &lt_op_join, .in = {VALUE("5x7"), VALUE("5x7")}},
    {.def = &lt_op_conv_silu, .in = {VALUE("9x3"), PARAM("3x1x4"), LIST("5", 0, 2, 2, 3, 9)}},
    {.def = &lt_op_conv_silu, .in = {VALUE("5x1"), PARAM("1x1x1"), LIST("2", 1, 4)}},
    {.def = &lt_op_gdn_gates, .in = {VALUE("5x3"), VALUE("5x3"), PARAM("3"), PARAM("3")}},
    {.def = &lt_op_gated_delta,
     .in = {VALUE("9x20"), VALUE("9x4"), VALUE("9x4"), LIST("5", 0, 1, 1, 3, 9)},
     ATTR(lt_gated_delta_attr, .key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 2)},
    {.def = &lt_op_gated_delta,
     .in = {VALUE("5x3"), VALUE("5x1"), VALUE("5x1"), LIST("2", 1, 4)},
     ATTR(lt_gated_delta_attr, .key_heads = 1, .value_heads = 1, .key_dim = 1, .value_dim = 1)},
    {.def = &lt_op_gated_rms_norm,
     .in = {VALUE("3x14"), VALUE("3x14"), PARAM("7")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.def = &lt_op_sigmoid_gate, .in = {VALUE("5x7"), VALUE("5x7")}},
    {.def = &lt_op_sigmoid_gate, .in = {VALUE("5x7"), VALUE("5x1")}},
    {.def = &lt_op_fold_rows, .in = {VALUE("6x3")}, ATTR(lt_fold_attr, .group = 3)},
    {.def = &lt_op_unfold_rows, .in = {VALUE("2x6")}, ATTR(lt_fold_attr, .group = 3)},
    {.def = &lt_op_cast, .in = {VALUE("3x31")}, ATTR(lt_cast_attr, .dtype = LT_F64)},
    {.def = &lt_op_linear_cross_entropy,
     .in = {VALUE("3x5"), PARAM("31x5"), LIST("3", 30, 0, 7), F32("3")},
     ATTR(lt_linear_cross_entropy_attr, .chunk = 2)},
};

// Rows that take floats and have no gradient, and why.
static const char *const without_gradient[] = {
    "adamw",                       // changes state, outside graphs
    "sum_squares",                 // reads gradients, outside graphs
    "muon_momentum", "muon_apply", // change state, outside graphs
    "top1",                        // gives integers
};

static bool listed(const char *name)
{
    for (size_t i = 0; i < sizeof without_gradient / sizeof without_gradient[0]; i++)
        if (strcmp(without_gradient[i], name) == 0)
            return true;
    return false;
}

static bool takes_floats(const lt_op_def *def)
{
    return (def->dtypes & LT_FLOATS) || def->backward[LT_REF] || def->grad;
}

static void check_gradients(void *state, const lt_op_case *c, uint64_t seed)
{
    lt_tensor in[LT_MAX_IN];
    lt_case_inputs(state, c, LT_F64, in);
    assert_ok(lt_gradcheck(state, c->def, in, c->attr,
                           (lt_gradcheck_opts){.seed = seed,
                                               .no_grad = lt_case_no_grad(c),
                                               .no_upstream = c->no_upstream,
                                               .attr_bytes = c->attr_bytes}));
}

static void every_float_op_has_a_gradient_that_differences_confirm(void **state)
{
    int n;
    const lt_op_def *const *rows = lt_ops_all(&n);
    for (int i = 0; i < n; i++) {
        const int64_t before = lt_gradcheck_count();
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            if (cases[c].def == rows[i])
                check_gradients(*state, &cases[c], c);
        if (takes_floats(rows[i]) && !listed(rows[i]->name) && lt_gradcheck_count() == before)
            fail_msg("op %s has no gradient check: give it a case in this file", rows[i]->name);
    }
}

static void every_exception_is_a_row_without_a_gradient(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof without_gradient / sizeof without_gradient[0]; i++) {
        const lt_op_def *def = lt_op_find(without_gradient[i]);
        assert_non_null(def);
        assert_true(!def->grad && !def->backward[LT_REF]);
    }
    assert_null(lt_op_find("no such op"));
}

static void every_row_is_complete(void **state)
{
    (void)state;
    int n;
    const lt_op_def *const *rows = lt_ops_all(&n);
    for (int i = 0; i < n; i++) {
        const lt_op_def *r = rows[i];
        assert_ptr_equal(lt_op_find(r->name), r); // names differ
        assert_in_range(r->n_in, 0, LT_MAX_IN);
        assert_in_range(r->n_out, 1, LT_MAX_OUT);
        assert_non_null(r->infer);
        assert_int_equal(r->dtypes == 0, r->n_in == 0); // clip works on its outputs alone
        assert_int_equal(r->forward[LT_REF] == NULL, (r->flags & LT_OP_VIEW) != 0);
        assert_false(r->grad && r->backward[LT_REF]);
        for (int backend = LT_CPU; backend < LT_N_BACKENDS;
             backend++) { // every kernel has its judge
            assert_true(!r->forward[backend] || r->forward[LT_REF]);
            assert_true(!r->backward[backend] || r->backward[LT_REF]);
        }
        assert_true(r->backward_reads == 0 || r->backward[LT_REF]);
        assert_int_equal(r->index_in >> r->n_in, 0);
        assert_int_equal((r->backward_reads & 0xffffU) >> r->n_in, 0);
        assert_int_equal(r->backward_reads >> 16 >> r->n_out, 0);
    }
}

static void the_table_prints_a_line_per_row(void **state)
{
    (void)state;
    lt_buf text = {0};
    int n;
    (void)lt_ops_all(&n);
    assert_ok(lt_ops_print(&text));
    int lines = 0;
    for (const char *p = text.data; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, n + 1);
    assert_text_contains(text.data,
                         "op                    in out  ref  cpu  cuda gradient flags\n");
    assert_text_contains(text.data,
                         "fold_rows              1   1  view view view nodes    cheap view\n");
    assert_text_contains(text.data, "top1                   1   1  f    ");
    lt_buf_deinit(&text);
}

LT_TEST_MAIN(LT_TEST(every_float_op_has_a_gradient_that_differences_confirm),
             LT_TEST(every_exception_is_a_row_without_a_gradient), LT_TEST(every_row_is_complete),
             LT_TEST(the_table_prints_a_line_per_row))
