// SPDX-License-Identifier: Apache-2.0
// The builder's constructors: each gives a value of the shape that its op says, from the inputs in
// the right places.
#include "op/add.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/embedding.h"
#include "op/fold.h"
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
#include "op/swiglu.h"
#include "op/top1.h"
#include "tests/kit/op_kit.h"

// T tokens, M visual ones, N patches; text of 2 heads of 4 over 1, vision of 2 heads of 4
enum { T = 6, M = 2, N = 8, TARGETS = 3, PIXELS = 12 };

static const lt_param_spec params[] = {
    {"embed.weight", 2, {10, 8}, .init = LT_INIT_NORMAL},
    {"norm.weight", 1, {8}, .init = LT_INIT_ONE},
    {"q.weight", 2, {8, 8}, .init = LT_INIT_NORMAL},
    {"k.weight", 2, {4, 8}, .init = LT_INIT_NORMAL},
    {"q_norm.weight", 1, {4}, .init = LT_INIT_ONE},
    {"patch.weight", 5, {8, 3, 1, 2, 2}, .init = LT_INIT_NORMAL},
    {"patch.bias", 1, {8}, .init = LT_INIT_ZERO},
    {"pos.weight", 2, {9, 8}, .init = LT_INIT_NORMAL},
    {"ln.weight", 1, {8}, .init = LT_INIT_ONE},
    {"ln.bias", 1, {8}, .init = LT_INIT_ZERO},
    {"qkv.weight", 2, {24, 8}, .init = LT_INIT_NORMAL},
    {"merge.weight", 2, {8, 32}, .init = LT_INIT_NORMAL},
};

static void expect(lt_builder *b, lt_val v, const char *shape)
{
    const lt_tensor t = lt_value_tensor(b, v);
    assert_ok(lt_builder_status(b));
    assert_string_equal(lt_shape_print(&t).s, shape);
}

static lt_val vision(lt_builder *b)
{
    lt_val x = lt_cast(b, lt_batch_of(b, LT_BATCH_PIXELS), lt_builder_compute(b)), qkv[3];
    x = lt_linear(b, x, "patch");
    expect(b, x, "bf16[8,8]");
    x = lt_pos_embed_add(b, x, lt_param_of(b, "pos.weight"), lt_batch_of(b, LT_BATCH_CORNERS),
                         lt_batch_of(b, LT_BATCH_CORNER_WEIGHTS));
    const lt_val table = lt_vision_rope_table(b, lt_batch_of(b, LT_BATCH_PATCH_POS), 1e4, 4);
    expect(b, table, "f32[8,4]");
    const lt_val n =
        lt_layer_norm(b, x, lt_param_of(b, "ln.weight"), lt_param_of(b, "ln.bias"), 1e-6);
    lt_split_qkv_rope(b, lt_linear(b, n, "qkv"), table, 2, qkv);
    expect(b, qkv[2], "bf16[8,8]");
    x = lt_add(b, x,
               lt_attention(b, qkv[0], qkv[1], qkv[2],
                            (lt_attention_attr){.heads = 2, .kv_heads = 2, .vision = true}));
    expect(b, x, "bf16[8,8]");
    const lt_val folded = lt_fold_rows(b, lt_gelu(b, x, LT_GELU_TANH), 4);
    expect(b, folded, "bf16[2,32]");
    expect(b, lt_unfold_rows(b, folded, 2), "bf16[4,16]");
    return lt_linear(b, folded, "merge");
}

static const lt_rms_norm_attr norm = {.eps = 1e-6};

static lt_status build(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)config;
    (void)in;
    const lt_val rows = lt_batch_of(b, LT_BATCH_VIS_ROWS), features = vision(b);
    lt_val x = lt_embedding(b, lt_batch_of(b, LT_BATCH_IDS), lt_param_of(b, "embed.weight"));
    expect(b, x, "bf16[6,8]");
    x = lt_scatter_add_rows(b, lt_scatter_rows(b, x, features, rows), features, rows);
    const lt_val table = lt_rope_table(
        b, lt_batch_of(b, LT_BATCH_POSITIONS),
        (lt_rope_table_attr){.theta = 5e6, .width = 4, .section = {1, 1, 0}, .interleaved = true});
    expect(b, table, "f32[6,4]");
    lt_val h = lt_rms_norm(b, x, lt_param_of(b, "norm.weight"), norm);
    const lt_val q = lt_qk_norm_rope(b, lt_linear(b, h, "q"), lt_param_of(b, "q_norm.weight"),
                                     table, (lt_qk_norm_rope_attr){.eps = 1e-6, .heads = 2});
    const lt_val k = lt_qk_norm_rope(b, lt_linear(b, h, "k"), lt_param_of(b, "q_norm.weight"),
                                     table, (lt_qk_norm_rope_attr){.eps = 1e-6, .heads = 1});
    const lt_val o = lt_attention(b, q, k, lt_linear(b, h, "k"),
                                  (lt_attention_attr){.heads = 2, .kv_heads = 1, .causal = true});
    const lt_val before = x;
    h = lt_add_rms_norm(b, &x, o, lt_param_of(b, "norm.weight"), norm);
    assert_int_not_equal(x, before);
    assert_int_not_equal(x, h);
    x = lt_copy(b, lt_add(b, x, lt_swiglu(b, h, h)));
    const lt_val kept = lt_gather_rows(b, x, lt_batch_of(b, LT_BATCH_TARGET_ROWS));
    expect(b, kept, "bf16[3,8]");
    expect(b, lt_top1(b, kept), "i32[3]");
    out[0] = lt_linear_cross_entropy(b, kept, lt_param_of(b, "embed.weight"),
                                     lt_batch_of(b, LT_BATCH_TARGETS),
                                     lt_batch_of(b, LT_BATCH_KAPPA), 0);
    expect(b, out[0], "f32[1]");
    return lt_builder_status(b);
}

static lt_status graph_of(lt_status (*fn)(lt_builder *, const void *, const lt_val *, lt_val *),
                          lt_graph *graph)
{
    enum { N_PARAMS = sizeof params / sizeof params[0] };
    const bool trainable[N_PARAMS] = {false};
    const lt_block_kind kind = {
        .name = "all", .n_params = N_PARAMS, .n_out = 1, .params = params, .build = fn};
    const lt_builder_opts opts = {.kind = &kind,
                                  .block_name = "model.all",
                                  .compute = LT_BF16,
                                  .capacity = {.n = {[LT_EXT_TOKENS] = T,
                                                     [LT_EXT_SAMPLES] = 1,
                                                     [LT_EXT_PATCHES] = N,
                                                     [LT_EXT_MERGED] = M,
                                                     [LT_EXT_FRAMES] = 1,
                                                     [LT_EXT_TARGETS] = TARGETS}},
                                  .pixel_width = PIXELS,
                                  .param_trainable = trainable};
    return lt_graph_build(&opts, graph);
}

static void constructors_give_the_shapes_of_their_ops(void **state)
{
    (void)state;
    lt_graph graph = {0};
    assert_ok(graph_of(build, &graph));
    bool fold = false, tables[2] = {false};
    for (int64_t i = 0; i < graph.nodes.n; i++) {
        const lt_node *node = &LT_AT(&graph.nodes, lt_node, i);
        if (node->def == &lt_op_attention) { // each takes its own segment table
            const lt_value *segments = &LT_AT(&graph.values, lt_value, node->in[3]);
            const lt_attention_attr *attr = (const void *)node->attr;
            assert_int_equal(segments->index,
                             attr->vision ? LT_BATCH_FRAME_SEGMENTS : LT_BATCH_SEGMENTS);
            tables[attr->vision] = true;
        }
        if (node->def == &lt_op_linear_cross_entropy) {
            const lt_linear_cross_entropy_attr *attr = (const void *)node->attr;
            assert_int_equal(lt_loss_chunk(attr, LT_CPU), LT_LOSS_CHUNK);
            assert_int_equal(lt_loss_chunk(attr, LT_CUDA), LT_LOSS_CHUNK_CUDA);
        }
        fold = fold || node->def == &lt_op_fold_rows;
    }
    assert_true(fold && tables[0] && tables[1]);
    lt_graph_deinit(&graph);
}

static lt_status build_without_weight(lt_builder *b, const void *config, const lt_val *in,
                                      lt_val *out)
{
    (void)config;
    (void)in;
    out[0] = lt_linear(
        b, lt_embedding(b, lt_batch_of(b, LT_BATCH_IDS), lt_param_of(b, "embed.weight")), "q_proj");
    return lt_builder_status(b);
}

static void a_linear_without_its_weight_is_an_error_that_names_it(void **state)
{
    (void)state;
    lt_graph graph = {0};
    assert_fails(graph_of(build_without_weight, &graph), LT_ERR_INTERNAL,
                 "no parameter q_proj.weight");
    lt_graph_deinit(&graph);
}

static lt_status build_wrong_shapes(lt_builder *b, const void *config, const lt_val *in,
                                    lt_val *out)
{
    (void)config;
    (void)in;
    lt_val x = lt_embedding(b, lt_batch_of(b, LT_BATCH_IDS), lt_param_of(b, "embed.weight")),
           qkv[3] = {0};
    lt_val y = lt_linear(b, x, "k");
    out[0] = lt_swiglu(b, x, y);
    out[0] = lt_add_rms_norm(b, &x, y, lt_param_of(b, "norm.weight"),
                             norm); // nothing after the first error runs
    lt_split_qkv_rope(b, x, y, 2, qkv);
    assert_int_equal(qkv[0], LT_NONE);
    assert_int_equal(out[0], LT_NONE);
    return lt_builder_status(b);
}

static void the_first_error_sticks_with_block_op_and_shapes(void **state)
{
    (void)state;
    lt_graph graph = {0};
    assert_fails(graph_of(build_wrong_shapes, &graph), LT_ERR_SHAPE, "bf16[6,8] and bf16[6,4]");
    lt_test_text_contains(lt_error_message(), "model.all", __FILE__, __LINE__);
    lt_test_text_contains(lt_error_message(), "swiglu", __FILE__, __LINE__);
    lt_graph_deinit(&graph);
}

LT_TEST_MAIN(LT_TEST(constructors_give_the_shapes_of_their_ops),
             LT_TEST(a_linear_without_its_weight_is_an_error_that_names_it),
             LT_TEST(the_first_error_sticks_with_block_op_and_shapes))
