// SPDX-License-Identifier: Apache-2.0
// Qwen3-VL, dense. The tower's features replace embedding rows; deepstack's join the first layers.
#include "model/attention.h"
#include "model/family.h"
#include "model/mlp.h"
#include "model/qwen_config.h"
#include "model/vision.h"
#include "op/add.h"
#include "op/embedding.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))
#define TEXT "model.language_model"

// ---- what the blocks compute ----

static lt_status build_rope(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)in;
    const lt_text_config *c = config;
    const int32_t *s = c->mrope_section;
    out[0] = lt_rope_table(b, lt_batch_of(b, LT_BATCH_POSITIONS),
                           (lt_rope_table_attr){.theta = c->rope_theta,
                                                .width = (int32_t)c->head_dim,
                                                .section = {s[0], s[1], s[2]},
                                                .interleaved = c->mrope_interleaved});
    return lt_builder_status(b);
}

static lt_status build_embed(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)config;
    lt_val x = lt_embedding(b, lt_batch_of(b, LT_BATCH_IDS), lt_param_of(b, "weight"));
    out[0] = lt_scatter_rows(b, x, in[0], lt_batch_of(b, LT_BATCH_VIS_ROWS));
    return lt_builder_status(b);
}

static lt_status build_layer(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    lt_val x = in[0], table = in[1];
    lt_val norm1 = lt_param_of(b, "input_layernorm.weight");
    lt_val norm2 = lt_param_of(b, "post_attention_layernorm.weight");
    lt_val h = lt_rms_norm(b, x, norm1, c->eps);
    lt_val a = lt_decoder_attention(b, h, table, c);
    h = lt_add_rms_norm(b, &x, a, norm2, c->eps); // x += a; h = norm(x)
    out[0] = lt_add(b, x, lt_swiglu_mlp(b, h, "mlp"));
    return lt_builder_status(b);
}

static lt_status build_deepstack_layer(lt_builder *b, const void *config, const lt_val *in,
                                       lt_val *out)
{
    LT_TRY(build_layer(b, config, in, out));
    out[0] = lt_scatter_add_rows(b, out[0], in[2], lt_batch_of(b, LT_BATCH_VIS_ROWS));
    return lt_builder_status(b);
}

static lt_status build_norm(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    out[0] = lt_rms_norm(b, in[0], lt_param_of(b, "weight"), c->eps);
    return lt_builder_status(b);
}

// Only rows that carry loss reach the head.
static lt_status build_loss(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    lt_val h = lt_gather_rows(b, in[0], lt_batch_of(b, LT_BATCH_TARGET_ROWS));
    out[0] =
        lt_linear_cross_entropy(b, h, lt_param_of(b, "weight"), lt_batch_of(b, LT_BATCH_TARGETS),
                                lt_batch_of(b, LT_BATCH_KAPPA), c->loss_rows);
    return lt_builder_status(b);
}

static lt_status build_logits(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)config;
    lt_val h = lt_gather_rows(b, in[0], lt_batch_of(b, LT_BATCH_TARGET_ROWS));
    out[0] = lt_name(b, lt_linear_of(b, h, lt_param_of(b, "weight"), LT_NONE), "logits");
    return lt_builder_status(b);
}

// ---- their parameters ----

typedef struct text_kinds {
    const lt_block_kind *rope, *embed, *layer, *deepstack_layer, *norm, *loss, *logits;
} text_kinds;

static const lt_block_kind *layer_kind(lt_assembly *a, const lt_text_config *c, bool deepstack)
{
    const lt_param_spec params[] = {
        LT_ATTENTION_PARAMS(c),
        LT_SWIGLU_PARAMS(c->hidden, c->intermediate),
        LT_SCALE("input_layernorm.weight", c->hidden),
        LT_SCALE("post_attention_layernorm.weight", c->hidden),
    };
    const lt_block_kind plain = {"decoder_layer", COUNT(params), 2, 1, params, c, build_layer};
    const lt_block_kind deep = {"decoder_layer_deepstack", COUNT(params), 3, 1, params, c,
                                build_deepstack_layer};
    const lt_kind_cost cost = {.part = LT_PART_TEXT,
                               .rows = LT_EXT_TOKENS,
                               .attention_width = c->heads * c->head_dim,
                               .causal = true};
    return lt_assemble_kind(a, deepstack ? &deep : &plain, &cost);
}

static text_kinds make_kinds(lt_assembly *a, const lt_text_config *c, bool deepstack)
{
    const lt_param_spec table[] = {LT_MATRIX("weight", c->vocab, c->hidden)},
                        scale[] = {LT_SCALE("weight", c->hidden)};
    const lt_kind_cost free_of_products = {.part = LT_PART_NONE},
                       head = {.part = LT_PART_HEAD, .rows = LT_EXT_TOKENS};
    const lt_block_kind rope = {"rope", 0, 0, 1, NULL, c, build_rope};
    const lt_block_kind embed = {"embedding", 1, 1, 1, table, c, build_embed};
    const lt_block_kind norm = {"final_norm", 1, 1, 1, scale, c, build_norm};
    const lt_block_kind loss = {"loss", 1, 1, 1, table, c, build_loss};
    const lt_block_kind logits = {"logits", 1, 1, 1, table, c, build_logits};
    return (text_kinds){
        .rope = lt_assemble_kind(a, &rope, &free_of_products),
        .embed = lt_assemble_kind(a, &embed, &free_of_products),
        .layer = layer_kind(a, c, false),
        .deepstack_layer = deepstack ? layer_kind(a, c, true) : NULL,
        .norm = lt_assemble_kind(a, &norm, &free_of_products),
        .loss = lt_assemble_kind(a, &loss, &head),
        .logits = lt_assemble_kind(a, &logits, &head),
    };
}

static void add_params(lt_assembly *a, const lt_text_config *c, const text_kinds *k)
{
    const double std = c->initializer_range;
    lt_assemble_params(a, TEXT ".embed_tokens", k->embed, std);
    for (int i = 0; i < (int)c->layers; i++)
        lt_assemble_params(a, lt_path_of(TEXT ".layers.%d", i).s, k->layer, std);
    lt_assemble_params(a, TEXT ".norm", k->norm, std);
    if (a->model->tied)
        lt_assemble_alias(a, TEXT ".embed_tokens.weight", "lm_head.weight");
    else
        lt_assemble_params(a, "lm_head", k->loss, std);
}

// ---- the model ----

static lt_edge add_block(lt_assembly *a, const char *name, const lt_block_kind *kind,
                         const lt_edge *inputs)
{
    return lt_assemble_block(a, name, name, kind, inputs, LT_BLOCK_BODY);
}

static lt_edge add_layers(lt_assembly *a, const lt_text_config *c, const text_kinds *k,
                          const lt_tower *tower)
{
    const lt_edge table = add_block(a, TEXT ".rotary_emb", k->rope, NULL);
    lt_edge x = add_block(a, TEXT ".embed_tokens", k->embed, &tower->merged);
    for (int i = 0; i < (int)c->layers; i++) {
        const bool deep = i < tower->n_deepstack;
        const lt_edge inputs[] = {x, table, deep ? tower->deepstack[i] : table};
        x = add_block(a, lt_path_of(TEXT ".layers.%d", i).s, deep ? k->deepstack_layer : k->layer,
                      inputs);
    }
    return add_block(a, TEXT ".norm", k->norm, &x);
}

static void build(lt_assembly *a)
{
    lt_model *m = a->model;
    const lt_text_config *c = &m->config.text;
    const lt_tower tower = lt_assemble_tower(a, &m->config.vision, "model.visual",
                                             (int32_t)lt_min_i64(c->layers, LT_MAX_DEEPSTACK));
    const text_kinds k = make_kinds(a, c, tower.n_deepstack > 0);
    add_params(a, c, &k);
    const lt_edge h = add_layers(a, c, &k, &tower);
    m->loss_block = lt_assemble_block(a, "lm_head", "lm_head", k.loss, &h, LT_BLOCK_LOSS).block;
    m->logits_block =
        lt_assemble_block(a, "lm_head.logits", "lm_head", k.logits, &h, LT_BLOCK_LOGITS).block;
    m->embed_param = lt_assemble_find(a, TEXT ".embed_tokens.weight");
    m->head_param = lt_assemble_find(a, "lm_head.weight");
}

static lt_status read_config(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(lt_qwen_read_config(root, out));
    if (out->text.moe.experts > 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: text_config.num_experts is %lld, but model_type qwen3_vl has none; "
                       "with experts it is qwen3_vl_moe",
                       root->where, (long long)out->text.moe.experts);
    }
    return LT_OK;
}

const lt_family lt_family_qwen3_vl = {
    .model_type = "qwen3_vl", .read = read_config, .build = build, .head_name = "lm_head.weight"};
