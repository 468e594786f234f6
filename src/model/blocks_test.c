// SPDX-License-Identifier: Apache-2.0
// Every block's graph builds: shapes fit from block to block, for all dtypes and for batches
// without pictures or targets.
#include "model/model.h"
#include "op/layer_norm.h"
#include "op/rms_norm.h"
#include "tests/kit/lt_qwen.h"
#include <string.h>

typedef struct chain {
    lt_model *model;
    lt_dtype compute;
    lt_extents extents;
    lt_tensor out[LT_MAX_BLOCKS]; // output 0 of each block
    bool needs[LT_MAX_BLOCKS];    // as the graphs say
    double eps[LT_MAX_BLOCKS];    // of a block's first norm, 0: it has none
} chain;

static lt_model *open_text(const char *text)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
    return m;
}

static bool is_read(const lt_graph *g, lt_val v)
{
    for (int64_t i = 0; i < g->nodes.n; i++) {
        const lt_node *node = &LT_AT(&g->nodes, lt_node, i);
        for (int k = 0; k < node->def->n_in; k++)
            if (node->in[k] == v)
                return true;
    }
    return false;
}

static void check_params_are_read(const lt_graph *g, const lt_block_kind *kind)
{
    int32_t n = 0;
    for (int64_t v = 0; v < g->values.n; v++)
        if (LT_AT(&g->values, lt_value, v).kind == LT_VALUE_PARAM)
            n += is_read(g, (lt_val)v);
    assert_int_equal(n, kind->n_params);
}

static double first_eps(const lt_graph *g)
{
    for (int64_t i = 0; i < g->nodes.n; i++) {
        const lt_node *node = &LT_AT(&g->nodes, lt_node, i);
        if (node->def == &lt_op_layer_norm)
            return ((const lt_layer_norm_attr *)(const void *)node->attr)->eps;
        if (node->def == &lt_op_rms_norm)
            return ((const lt_rms_norm_attr *)(const void *)node->attr)->eps;
    }
    return 0;
}

static void build_block(chain *c, int32_t i)
{
    const lt_block *block = &c->model->blocks[i];
    lt_tensor edges[LT_MAX_IN];
    bool edge_needs[LT_MAX_IN], trainable[32];
    assert_true(block->kind->n_in <= LT_MAX_IN && block->kind->n_params <= 32);
    for (int32_t k = 0; k < block->kind->n_in; k++) {
        edges[k] = c->out[block->inputs[k].block];
        edge_needs[k] = c->needs[block->inputs[k].block];
    }
    for (int32_t k = 0; k < block->kind->n_params; k++)
        trainable[k] = c->model->params[block->params[k]].trainable;
    const lt_builder_opts opts = {.kind = block->kind,
                                  .block_name = block->name,
                                  .compute = c->compute,
                                  .capacity = c->extents,
                                  .pixel_width = c->model->pixel_width,
                                  .edge_in = edges,
                                  .edge_needs_grad = edge_needs,
                                  .param_trainable = trainable};
    lt_graph g = {0};
    assert_ok(lt_graph_build(&opts, &g));
    check_params_are_read(&g, block->kind);
    const lt_value *out = &LT_AT(&g.values, lt_value, g.edge_out[0]);
    c->out[i] = out->tensor;
    c->needs[i] = out->needs_grad;
    c->eps[i] = first_eps(&g);
    lt_graph_deinit(&g);
}

static void build_all(chain *c)
{
    for (int32_t i = 0; i < c->model->n_blocks; i++)
        build_block(c, i);
}

static void assert_shape(const chain *c, const char *block, lt_dtype dtype, int64_t rows,
                         int64_t width)
{
    for (int32_t i = 0; i < c->model->n_blocks; i++) {
        if (strcmp(c->model->blocks[i].name, block) != 0)
            continue;
        const lt_tensor want = lt_tensor_2d(dtype, rows, width);
        assert_string_equal(lt_shape_print(&c->out[i]).s, lt_shape_print(&want).s);
        return;
    }
    fail_msg("the model has no block %s", block);
}

static const lt_extents batches[] = {
    {.n = {[LT_EXT_TOKENS] = 37,
           [LT_EXT_SAMPLES] = 3,
           [LT_EXT_PATCHES] = 60,
           [LT_EXT_MERGED] = 15,
           [LT_EXT_FRAMES] = 2,
           [LT_EXT_TARGETS] = 11}},
    {.n = {[LT_EXT_TOKENS] = 37, [LT_EXT_SAMPLES] = 1, [LT_EXT_TARGETS] = 37}}, // text alone
    {.n = {[LT_EXT_TOKENS] = 16,
           [LT_EXT_SAMPLES] = 1,
           [LT_EXT_PATCHES] = 4,
           [LT_EXT_MERGED] = 1,
           [LT_EXT_FRAMES] = 1}}, // nothing to learn
    {.n = {0}},                   // nothing at all
};

static void every_block_builds_in_every_dtype_and_batch(void **state)
{
    (void)state;
    static const lt_dtype dtypes[] = {LT_F32, LT_BF16, LT_F64};
    chain c = {.model = open_text(lt_qwen_odd_config)};
    for (size_t d = 0; d < 3; d++) {
        for (size_t e = 0; e < sizeof batches / sizeof batches[0]; e++) {
            const lt_dtype dtype = c.compute = dtypes[d], wide = dtype == LT_F64 ? LT_F64 : LT_F32;
            c.extents = batches[e];
            build_all(&c);
            const int64_t *n = batches[e].n, tokens = n[LT_EXT_TOKENS];
            assert_shape(&c, "model.visual.rotary_pos_emb", wide, n[LT_EXT_PATCHES], 8);
            assert_shape(&c, "model.visual.patch_embed", dtype, n[LT_EXT_PATCHES], 40);
            assert_shape(&c, "model.visual.deepstack_merger_list.1", dtype, n[LT_EXT_MERGED], 64);
            assert_shape(&c, "model.language_model.rotary_emb", wide, tokens, 32);
            assert_shape(&c, "model.language_model.layers.0", dtype, tokens, 64);
            assert_shape(&c, "model.language_model.layers.4", dtype, tokens, 64);
            assert_shape(&c, "lm_head.logits", dtype, n[LT_EXT_TARGETS], 320);
            assert_int_equal(c.out[c.model->loss_block].dtype, wide);
            assert_int_equal(lt_n_elems(&c.out[c.model->loss_block]), 1);
        }
    }
    lt_model_destroy(c.model);
}

// Both towers of InternVL, in both sets of names: %s is the tower's own.
static const char intern_config[] =
    "{\"model_type\": \"internvl%s\", \"downsample_ratio\": 0.5, \"%s_config\": "
    "{\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, "
    "\"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 40, "
    "\"vocab_size\": 320, \"rope_theta\": 10000}, %s \"vision_config\": {\"hidden_size\": 30, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"intermediate_size\": 50, "
    "\"image_size\": 20, \"patch_size\": 5, \"use_mean_pooling\": false, %s}}";
static const struct {
    bool remote;
    const char *tower;
} interns[] = {
    {false, "\"attention_bias\": true"},
    {false, "\"norm_type\": \"rms_norm\", \"use_qk_norm\": true"},
    {true, "\"qkv_bias\": true"},
    {true, "\"norm_type\": \"rms_norm\", \"qk_normalization\": true"},
};

static double eps_of(const chain *c, const char *block)
{
    for (int32_t i = 0; i < c->model->n_blocks; i++)
        if (strcmp(c->model->blocks[i].name, block) == 0)
            return c->eps[i];
    fail_msg("the model has no block %s", block);
    return 0;
}

// A class token leads each tile in the tower and is gone behind the projector, whose norm has
// another eps than the tower's.
static void towers_with_class_tokens_build(void **state)
{
    static const lt_dtype dtypes[] = {LT_F32, LT_BF16, LT_F64};
    for (int k = 0; k < 12; k++) {
        const bool remote = interns[k % 4].remote;
        char *text = NULL;
        assert_ok(lt_arena_printf(*state, &text, intern_config, remote ? "_chat" : "",
                                  remote ? "llm" : "text", remote ? "" : "\"image_token_id\": 300,",
                                  interns[k % 4].tower));
        chain c = {.model = open_text(text), .compute = dtypes[k / 4]};
        const char *layer = remote ? "vision_model.encoder.layers.1"
                                   : "model.vision_tower.encoder.layer.1",
                   *projector = remote ? "mlp1" : "model.multi_modal_projector";
        for (size_t e = 0; e < sizeof batches / sizeof batches[0]; e++) {
            const int64_t *n = batches[e].n;
            c.extents = batches[e];
            build_all(&c);
            assert_shape(&c, layer, c.compute, n[LT_EXT_PATCHES] + n[LT_EXT_FRAMES], 30);
            assert_shape(&c, projector, c.compute, n[LT_EXT_MERGED], 24);
            assert_int_equal(lt_n_elems(&c.out[c.model->loss_block]), 1);
        }
        assert_near(eps_of(&c, layer), 1e-6, 0);
        assert_near(eps_of(&c, projector), 1e-5, 0);
        if (!remote)
            assert_near(eps_of(&c, "model.vision_tower.layernorm"), 1e-6, 0);
        lt_model_destroy(c.model);
    }
}

static void published_sizes_build(void **state)
{
    for (int i = 0; i < lt_n_qwen_sizes; i++) {
        chain c = {.model = open_text(lt_qwen_config_text(*state, &lt_qwen_sizes[i], true)),
                   .compute = LT_BF16,
                   .extents = batches[0]};
        build_all(&c);
        assert_shape(&c, "lm_head.logits", LT_BF16, 11, 151936);
        lt_model_destroy(c.model);
    }
}

// What the model says of blocks is what their graphs find, whatever is frozen.
static void graphs_and_model_agree_on_who_needs_gradients(void **state)
{
    (void)state;
    const char *frozen[] = {"nothing",
                            "model.visual",
                            "model.visual.blocks*",
                            "model.language_model",
                            "model.language_model.layers.{0-2}",
                            "lm_head",
                            "*"};
    for (size_t f = 0; f < sizeof frozen / sizeof frozen[0]; f++) {
        chain c = {
            .model = open_text(lt_qwen_odd_config), .compute = LT_F32, .extents = batches[0]};
        assert_ok(lt_model_freeze(c.model, &frozen[f], 1, NULL));
        build_all(&c);
        bool needs[LT_MAX_BLOCKS];
        lt_model_needs_grad(c.model, needs);
        for (int32_t i = 0; i < c.model->n_blocks; i++)
            assert_int_equal(needs[i], c.needs[i]);
        lt_model_destroy(c.model);
    }
}

// A bucket's capacity is no batch, but its graphs have to fit together all the same.
static void capacities_of_buckets_build(void **state)
{
    (void)state;
    chain c = {.model = open_text(lt_qwen_odd_config), .compute = LT_F32};
    for (int64_t merged = 1; merged < 100; merged += 3) {
        const lt_extents real = {.n = {[LT_EXT_TOKENS] = merged + 9,
                                       [LT_EXT_SAMPLES] = 1,
                                       [LT_EXT_PATCHES] = 4 * merged,
                                       [LT_EXT_MERGED] = merged,
                                       [LT_EXT_FRAMES] = 1,
                                       [LT_EXT_TARGETS] = 3}};
        c.extents = lt_extents_bucket(&real);
        build_all(&c);
    }
    lt_model_destroy(c.model);
}

LT_TEST_MAIN(LT_TEST(capacities_of_buckets_build), LT_TEST(towers_with_class_tokens_build),
             LT_TEST(every_block_builds_in_every_dtype_and_batch), LT_TEST(published_sizes_build),
             LT_TEST(graphs_and_model_agree_on_who_needs_gradients))
