// SPDX-License-Identifier: Apache-2.0
// The Qwen decoders, dense and with experts, with attention and linear attention. A tower's
// features replace embedding rows; deepstack's join the first layers.
#include "model/qwen_decoder.h"
#include "model/attention.h"
#include "model/gdn.h"
#include "model/mlp.h"
#include "model/moe.h"
#include "model/mtp.h"
#include "op/add.h"
#include "op/embedding.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"
#include <string.h>

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

// ---- what the blocks compute ----

static lt_status build_rope(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)in;
    const lt_text_config *c = config;
    const int32_t *s = c->mrope_section;
    out[0] = lt_rope_table(b, lt_batch_of(b, LT_BATCH_POSITIONS),
                           (lt_rope_table_attr){.theta = c->rope_theta,
                                                .width = (int32_t)c->rotary,
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

// What a decoder layer may have besides attention and an MLP.
enum {
    SPARSE = 1, // routed experts instead of the MLP: one output more, the table of their use
    LATER = 2,  // sparse, and not the first that is: one input more, the table so far
    DEEP = 4,   // deepstack: one input more, features that join the visual rows
    LINEAR = 8, // linear attention, which needs no rotary table
    N_LAYER_KINDS = LT_DECODER_LAYER_KINDS
};

// in: x, the rotary table unless LINEAR, features where DEEP, the table of experts where LATER
static lt_status layer(lt_builder *b, const lt_text_config *c, const lt_val *in, lt_val *out,
                       int has)
{
    int n = 0;
    lt_val x = in[n++];
    const lt_val table = has & LINEAR ? LT_NONE : in[n++];
    const lt_val features = has & DEEP ? in[n++] : LT_NONE;
    lt_val norm1 = lt_param_of(b, "input_layernorm.weight");
    lt_val norm2 = lt_param_of(b, "post_attention_layernorm.weight");
    lt_val h = lt_rms_norm(b, x, norm1, lt_norm_of(c));
    lt_val a = has & LINEAR ? lt_gdn(b, h, c) : lt_decoder_attention(b, h, table, c);
    h = lt_add_rms_norm(b, &x, a, norm2, lt_norm_of(c)); // x += a; h = norm(x)
    if (has & SPARSE) {
        out[1] = has & LATER ? in[n] : LT_NONE;
        h = lt_moe_mlp(b, h, "mlp", c, &out[1]);
    } else {
        h = lt_swiglu_mlp(b, h, "mlp");
    }
    out[0] = lt_add(b, x, h);
    if (has & DEEP)
        out[0] = lt_scatter_add_rows(b, out[0], features, lt_batch_of(b, LT_BATCH_VIS_ROWS));
    return lt_builder_status(b);
}

#define LAYER(name, has)                                                                           \
    static lt_status name(lt_builder *b, const void *config, const lt_val *in, lt_val *out)        \
    {                                                                                              \
        return layer(b, config, in, out, (has));                                                   \
    }
LAYER(build_dense, 0)
LAYER(build_dense_deep, DEEP)
LAYER(build_first_sparse, SPARSE)
LAYER(build_first_sparse_deep, SPARSE | DEEP)
LAYER(build_sparse, SPARSE | LATER)
LAYER(build_sparse_deep, SPARSE | LATER | DEEP)
LAYER(build_linear, LINEAR)
LAYER(build_first_sparse_linear, LINEAR | SPARSE)
LAYER(build_sparse_linear, LINEAR | SPARSE | LATER)
#undef LAYER

static lt_status build_norm(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    out[0] = lt_rms_norm(b, in[0], lt_param_of(b, "weight"), lt_norm_of(c));
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

static const struct layer_kind {
    const char *name;
    lt_status (*build)(lt_builder *b, const void *config, const lt_val *in, lt_val *out);
} layer_kinds[N_LAYER_KINDS] = {
    [0] = {"decoder_layer", build_dense},
    [DEEP] = {"decoder_layer_deepstack", build_dense_deep},
    [SPARSE] = {"first_sparse_layer", build_first_sparse},
    [SPARSE | DEEP] = {"first_sparse_layer_deepstack", build_first_sparse_deep},
    [SPARSE | LATER] = {"sparse_layer", build_sparse},
    [SPARSE | LATER | DEEP] = {"sparse_layer_deepstack", build_sparse_deep},
    [LINEAR] = {"linear_layer", build_linear},
    [LINEAR | SPARSE] = {"first_sparse_linear_layer", build_first_sparse_linear},
    [LINEAR | SPARSE | LATER] = {"sparse_linear_layer", build_sparse_linear},
};

enum { LAYER_PARAMS = 24 };

static int32_t put(lt_param_spec *list, int32_t n, const lt_param_spec *more, int32_t n_more)
{
    LT_ASSERT(n + n_more <= LAYER_PARAMS);
    memcpy(list + n, more, (size_t)n_more * sizeof *more);
    return n + n_more;
}

// A layer's parameters in published order: attention, MLP, norms.
static int32_t layer_params(const lt_text_config *c, int has, lt_param_spec *list)
{
    const lt_param_spec attention[] = {LT_ATTENTION_PARAMS(c)}, linear[] = {LT_GDN_PARAMS(c)};
    const lt_param_spec dense[] = {LT_SWIGLU_PARAMS(c->hidden, c->intermediate)};
    const lt_param_spec sparse[] = {LT_MOE_PARAMS(c)}, shared[] = {LT_SHARED_MOE_PARAMS(c)};
    const lt_param_spec norms[] = {LT_NORM("input_layernorm.weight", c, c->hidden),
                                   LT_NORM("post_attention_layernorm.weight", c, c->hidden)};
    int32_t n = has & LINEAR ? put(list, 0, linear, COUNT(linear))
                             : put(list, 0, attention, COUNT(attention));
    if (!(has & SPARSE))
        n = put(list, n, dense, COUNT(dense));
    else if (c->moe.shared > 0)
        n = put(list, n, shared, COUNT(shared));
    else
        n = put(list, n, sparse, COUNT(sparse));
    return put(list, n, norms, COUNT(norms));
}

static const lt_block_kind *layer_kind(lt_decoder *d, int has)
{
    const lt_text_config *c = d->c;
    const bool moe = has & SPARSE, linear = has & LINEAR;
    lt_param_spec params[LAYER_PARAMS];
    const lt_block_kind kind = {layer_kinds[has].name,
                                layer_params(c, has, params),
                                1 + !linear + ((has & DEEP) != 0) + ((has & LATER) != 0),
                                moe ? 2 : 1,
                                params,
                                c,
                                layer_kinds[has].build};
    const lt_kind_cost cost = {.part = LT_PART_TEXT,
                               .rows = LT_EXT_TOKENS,
                               .attention_width = linear ? 0 : c->heads * c->head_dim,
                               .causal = true,
                               .scan = linear ? lt_gdn_flops(c) : 0,
                               .table = linear ? LT_GDN_CONV : NULL,
                               .experts = moe ? c->moe.experts : 0,
                               .picked = moe ? c->moe.experts_per_token : 0};
    if (!d->layer[has])
        d->layer[has] = lt_assemble_kind(d->a, &kind, &cost);
    return d->layer[has];
}

const lt_block_kind *lt_decoder_full_layer(lt_decoder *d)
{
    return layer_kind(d, d->c->moe.experts > 0 ? SPARSE : 0);
}

static void make_kinds(lt_decoder *d)
{
    const lt_text_config *c = d->c;
    const lt_param_spec table[] = {LT_MATRIX("weight", c->vocab, c->hidden)},
                        scale[] = {LT_NORM("weight", c, c->hidden)};
    const lt_kind_cost free_of_products = {.part = LT_PART_NONE},
                       head = {.part = LT_PART_HEAD, .rows = LT_EXT_TOKENS};
    const lt_block_kind rope = {"rope", 0, 0, 1, NULL, c, build_rope};
    const lt_block_kind embed = {"embedding", 1, 1, 1, table, c, build_embed};
    const lt_block_kind norm = {"final_norm", 1, 1, 1, scale, c, build_norm};
    const lt_block_kind loss = {"loss", 1, 1, 1, table, c, build_loss};
    const lt_block_kind logits = {"logits", 1, 1, 1, table, c, build_logits};
    d->rope = lt_assemble_kind(d->a, &rope, &free_of_products);
    d->embed = lt_assemble_kind(d->a, &embed, &free_of_products);
    d->norm = lt_assemble_kind(d->a, &norm, &free_of_products);
    d->loss = lt_assemble_kind(d->a, &loss, &head);
    d->logits = lt_assemble_kind(d->a, &logits, &head);
}

void lt_assemble_known_as(lt_assembly *a, const char *prefix, const char *old_prefix,
                          const lt_block_kind *kind, double std)
{
    lt_assemble_params(a, prefix, kind, std);
    for (int32_t i = 0; old_prefix && a->status == LT_OK && i < kind->n_params; i++)
        lt_assemble_alias(a, lt_path_of("%s.%s", prefix, kind->params[i].name).s,
                          lt_path_of("%s.%s", old_prefix, kind->params[i].name).s);
}

// Parameters at text.SUFFIX, and at old_text.SUFFIX where there is one.
static void add(lt_decoder *d, const char *suffix, const lt_block_kind *kind)
{
    const lt_decoder_names *n = d->names;
    const lt_path_text old = lt_path_of("%s.%s", n->old_text ? n->old_text : "", suffix);
    lt_assemble_known_as(d->a, lt_path_of("%s.%s", n->text, suffix).s, n->old_text ? old.s : NULL,
                         kind, d->c->initializer_range);
}

static void tie_head(lt_decoder *d)
{
    const lt_decoder_names *n = d->names;
    const lt_path_text embed = lt_path_of("%s.embed_tokens.weight", n->text);
    lt_assemble_alias(d->a, embed.s, lt_path_of("%s.weight", n->head).s);
    if (n->old_head)
        lt_assemble_alias(d->a, embed.s, lt_path_of("%s.weight", n->old_head).s);
}

// Of its parameters alone.
static int kind_of_layer(const lt_text_config *c, int i)
{
    return (c->gdn.linear[i] ? LINEAR : 0) | (lt_moe_is_sparse(c, i) ? SPARSE : 0);
}

void lt_decoder_params(lt_decoder *d)
{
    add(d, "embed_tokens", d->embed);
    for (int i = 0; i < (int)d->c->layers; i++) {
        add(d, lt_path_of("layers.%d", i).s, layer_kind(d, kind_of_layer(d->c, i)));
    }
    add(d, "norm", d->norm);
    if (d->a->model->tied)
        tie_head(d);
    else
        lt_assemble_known_as(d->a, d->names->head, d->names->old_head, d->loss,
                             d->c->initializer_range);
}

// ---- the model ----

static lt_edge add_block(lt_decoder *d, const char *suffix, const lt_block_kind *kind,
                         const lt_edge *inputs)
{
    const lt_path_text name = lt_path_of("%s.%s", d->names->text, suffix);
    return lt_assemble_block(d->a, name.s, name.s, kind, inputs, LT_BLOCK_BODY);
}

// The layers; stats: the table of experts behind the last sparse one, block -1 when none is.
static lt_edge add_layers(lt_decoder *d, const lt_tower *tower, lt_edge *stats)
{
    const lt_edge table = d->table = add_block(d, "rotary_emb", d->rope, NULL);
    lt_edge x = add_block(d, "embed_tokens", d->embed, &tower->merged);
    for (int i = 0; i < (int)d->c->layers; i++) {
        int has = kind_of_layer(d->c, i) | (i < tower->n_deepstack ? DEEP : 0), n = 1;
        if ((has & SPARSE) && stats->block >= 0)
            has |= LATER;
        lt_edge inputs[4] = {x};
        if (!(has & LINEAR))
            inputs[n++] = table;
        if (has & DEEP)
            inputs[n++] = tower->deepstack[i];
        if (has & LATER)
            inputs[n++] = *stats;
        x = add_block(d, lt_path_of("layers.%d", i).s, layer_kind(d, has), inputs);
        if (has & SPARSE)
            *stats = (lt_edge){.block = x.block, .output = 1};
    }
    return add_block(d, "norm", d->norm, &x);
}

void lt_decoder_blocks(lt_decoder *d, const lt_tower *tower)
{
    lt_assembly *a = d->a;
    lt_model *m = a->model;
    const lt_decoder_names *n = d->names;
    lt_edge stats = {.block = -1};
    const lt_edge h = d->last = add_layers(d, tower, &stats);
    const lt_path_text balance = lt_path_of("%s.router_balance", n->text);
    if (stats.block >= 0) {
        m->balance_block = lt_assemble_block(a, balance.s, balance.s, lt_moe_balance_kind(a, d->c),
                                             &stats, LT_BLOCK_LOSS)
                               .block;
    }
    m->loss_block = lt_assemble_block(a, n->head, n->head, d->loss, &h, LT_BLOCK_LOSS).block;
    m->logits_block = lt_assemble_block(a, lt_path_of("%s.logits", n->head).s, n->head, d->logits,
                                        &h, LT_BLOCK_LOGITS)
                          .block;
    m->embed_param = lt_assemble_find(a, lt_path_of("%s.embed_tokens.weight", n->text).s);
    m->head_param = lt_assemble_find(a, lt_path_of("%s.weight", n->head).s);
}

lt_decoder lt_decoder_begin(lt_assembly *a, const lt_decoder_names *names)
{
    lt_decoder d = {.a = a, .c = &a->model->config.text, .names = names};
    make_kinds(&d);
    return d;
}

void lt_qwen_vl_build(lt_assembly *a)
{
    static const lt_decoder_names names = {.text = "model.language_model", .head = "lm_head"};
    const lt_model_config *c = &a->model->config;
    const lt_tower tower = lt_assemble_tower(a, &c->vision, "model.visual",
                                             (int32_t)lt_min_i64(c->text.layers, LT_MAX_DEEPSTACK));
    lt_decoder d = lt_decoder_begin(a, &names);
    lt_decoder_params(&d);
    if (c->text.mtp)
        lt_mtp_params(&d);
    lt_decoder_blocks(&d, &tower);
    if (c->text.mtp)
        lt_mtp_blocks(&d);
}
