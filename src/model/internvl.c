// SPDX-License-Identifier: Apache-2.0
// InternVL3.5, dense: InternViT, projector and a Qwen3 decoder, under the names of the remote code
// (internvl_chat) or of the library (internvl, in its older and its newer spelling).
#include "model/attention.h"
#include "model/family.h"
#include "model/intern_config.h"
#include "model/intern_vit.h"
#include "model/mlp.h"
#include "op/add.h"
#include "op/embedding.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

static const lt_intern_names library_names = {.tower = "model.vision_tower",
                                              .old_tower = "vision_tower",
                                              .projector = "model.multi_modal_projector",
                                              .old_projector = "multi_modal_projector",
                                              .text = "model.language_model",
                                              .old_text = "language_model.model",
                                              .head = "lm_head",
                                              .old_head = "language_model.lm_head"};
static const lt_intern_names remote_names = {.tower = "vision_model",
                                             .projector = "mlp1",
                                             .text = "language_model.model",
                                             .head = "language_model.lm_head"};

// ---- what the blocks compute ----

static lt_status build_rope(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)in;
    const lt_text_config *c = config;
    const int32_t width = (int32_t)c->head_dim;
    out[0] = lt_rope_table(
        b, lt_batch_of(b, LT_BATCH_POSITIONS),
        (lt_rope_table_attr){.theta = c->rope_theta, .width = width, .section = {width / 2, 0, 0}});
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
    const lt_block_kind *rope, *embed, *layer, *norm, *loss, *logits;
} text_kinds;

static const lt_block_kind *layer_kind(lt_assembly *a, const lt_text_config *c)
{
    const lt_param_spec params[] = {
        LT_ATTENTION_PARAMS(c),
        LT_SWIGLU_PARAMS(c->hidden, c->intermediate),
        LT_SCALE("input_layernorm.weight", c->hidden),
        LT_SCALE("post_attention_layernorm.weight", c->hidden),
    };
    const lt_block_kind kind = {"decoder_layer", COUNT(params), 2, 1, params, c, build_layer};
    const lt_kind_cost cost = {.part = LT_PART_TEXT,
                               .rows = LT_EXT_TOKENS,
                               .attention_width = c->heads * c->head_dim,
                               .causal = true};
    return lt_assemble_kind(a, &kind, &cost);
}

static text_kinds make_kinds(lt_assembly *a, const lt_text_config *c)
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
    return (text_kinds){.rope = lt_assemble_kind(a, &rope, &free_of_products),
                        .embed = lt_assemble_kind(a, &embed, &free_of_products),
                        .layer = layer_kind(a, c),
                        .norm = lt_assemble_kind(a, &norm, &free_of_products),
                        .loss = lt_assemble_kind(a, &loss, &head),
                        .logits = lt_assemble_kind(a, &logits, &head)};
}

// Parameters at text.SUFFIX, and at old_text.SUFFIX where there is one.
static void add(lt_assembly *a, const lt_intern_names *n, const char *suffix,
                const lt_block_kind *kind)
{
    const lt_path_text old = lt_path_of("%s.%s", n->old_text ? n->old_text : "", suffix);
    lt_intern_params(a, lt_path_of("%s.%s", n->text, suffix).s, n->old_text ? old.s : NULL, kind,
                     a->model->config.text.initializer_range);
}

static void tie_head(lt_assembly *a, const lt_intern_names *n)
{
    const lt_path_text embed = lt_path_of("%s.embed_tokens.weight", n->text);
    lt_assemble_alias(a, embed.s, lt_path_of("%s.weight", n->head).s);
    if (n->old_head)
        lt_assemble_alias(a, embed.s, lt_path_of("%s.weight", n->old_head).s);
}

static void add_text_params(lt_assembly *a, const lt_intern_names *n, const text_kinds *k)
{
    const lt_text_config *c = &a->model->config.text;
    add(a, n, "embed_tokens", k->embed);
    for (int i = 0; i < (int)c->layers; i++)
        add(a, n, lt_path_of("layers.%d", i).s, k->layer);
    add(a, n, "norm", k->norm);
    if (a->model->tied)
        tie_head(a, n);
    else
        lt_intern_params(a, n->head, n->old_head, k->loss, c->initializer_range);
}

// ---- the model ----

static lt_edge add_block(lt_assembly *a, lt_path_text name, const lt_block_kind *kind,
                         const lt_edge *inputs)
{
    return lt_assemble_block(a, name.s, name.s, kind, inputs, LT_BLOCK_BODY);
}

static lt_edge add_layers(lt_assembly *a, const lt_intern_names *n, const text_kinds *k,
                          const lt_edge *pictures)
{
    const lt_edge table = add_block(a, lt_path_of("%s.rotary_emb", n->text), k->rope, NULL);
    lt_edge x = add_block(a, lt_path_of("%s.embed_tokens", n->text), k->embed, pictures);
    for (int i = 0; i < (int)a->model->config.text.layers; i++)
        x = add_block(a, lt_path_of("%s.layers.%d", n->text, i), k->layer, (lt_edge[]){x, table});
    return add_block(a, lt_path_of("%s.norm", n->text), k->norm, &x);
}

static void build(lt_assembly *a)
{
    lt_model *m = a->model;
    const lt_vision_config *v = &m->config.vision;
    const bool remote = v->intern.remote_names;
    const lt_intern_names *n = remote ? &remote_names : &library_names;
    const lt_intern_tower tower = lt_intern_tower_kinds(a, v);
    const text_kinds k = make_kinds(a, &m->config.text);
    lt_intern_tower_params(a, v, n, &tower);
    if (!remote)
        lt_intern_projector_params(a, v, n, &tower);
    add_text_params(a, n, &k);
    if (remote)
        lt_intern_projector_params(a, v, n, &tower);
    const lt_edge pictures = lt_intern_tower_blocks(a, v, n, &tower);
    const lt_edge h = add_layers(a, n, &k, &pictures);
    m->loss_block = lt_assemble_block(a, n->head, n->head, k.loss, &h, LT_BLOCK_LOSS).block;
    m->logits_block = lt_assemble_block(a, lt_path_of("%s.logits", n->head).s, n->head, k.logits,
                                        &h, LT_BLOCK_LOGITS)
                          .block;
    m->embed_param = lt_assemble_find(a, lt_path_of("%s.embed_tokens.weight", n->text).s);
    m->head_param = lt_assemble_find(a, lt_path_of("%s.weight", n->head).s);
}

static lt_status read_library(const lt_json_scope *root, lt_model_config *out)
{
    return lt_intern_read_config(root, false, out);
}

static lt_status read_remote(const lt_json_scope *root, lt_model_config *out)
{
    return lt_intern_read_config(root, true, out);
}

const lt_family lt_family_internvl = {.model_type = "internvl",
                                      .read = read_library,
                                      .build = build,
                                      .head_name = "lm_head.weight",
                                      .old_head_name = "language_model.lm_head.weight"};
const lt_family lt_family_internvl_chat = {.model_type = "internvl_chat",
                                           .read = read_remote,
                                           .build = build,
                                           .head_name = "language_model.lm_head.weight"};
