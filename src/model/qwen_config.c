// SPDX-License-Identifier: Apache-2.0
// The fields of a Qwen3-VL config.json and the rules between them.
#include "model/qwen_config.h"
#include "model/moe.h"
#include "op/attention.h"
#include <stdio.h>
#include <string.h>

// Limits: what no published model comes near, and below which no product of dims overflows 64 bits.
#define LAYERS_MAX LT_MAX_LAYERS
#define WIDTH_MAX 131072
#define HEADS_MAX 1024
#define VOCAB_MAX 16777216
#define PATCH_MAX 128
#define FEW 16 // channels, temporal patch, merge
#define POSITION_ROWS_MAX 4194304
#define EXPERTS_MAX 65536
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define AT(type, member) .offset = offsetof(type, member)

// Rows: a whole number from 1 that must be there; one with a fallback; a real one with a fallback.
#define NEED(k, of, member, most)                                                                  \
    {                                                                                              \
        (k), NULL, LT_FIELD_INT, AT(of, member), .required = true, .min = 1, .max = (most)         \
    }
#define INT(k, of, member, otherwise, most)                                                        \
    {                                                                                              \
        (k), NULL, LT_FIELD_INT, AT(of, member), .fallback = (otherwise), .min = 1, .max = (most)  \
    }
#define REAL(k, of, member, otherwise, most)                                                       \
    {                                                                                              \
        (k), NULL, LT_FIELD_REAL, AT(of, member), .fallback = (otherwise), .max = (most)           \
    }

// Sizes must be there; the rest may be left out, and is then as in every published file.
static const lt_json_field text_fields[] = {
    NEED("hidden_size", lt_text_config, hidden, WIDTH_MAX),
    NEED("num_hidden_layers", lt_text_config, layers, LAYERS_MAX),
    NEED("num_attention_heads", lt_text_config, heads, HEADS_MAX),
    INT("num_key_value_heads", lt_text_config, kv_heads, 0, HEADS_MAX), // 0: as many as heads
    INT("head_dim", lt_text_config, head_dim, 0, LT_MAX_HEAD_DIM),      // 0: as usual in the family
    INT("intermediate_size", lt_text_config, intermediate, 0, WIDTH_MAX), // of dense layers
    NEED("vocab_size", lt_text_config, vocab, VOCAB_MAX),
    INT("max_position_embeddings", lt_text_config, max_position, 0, 1e9),
    REAL("rms_norm_eps", lt_text_config, eps, 1e-6, 1),
    REAL("initializer_range", lt_text_config, initializer_range, 0.02, 10),
};

// The last two have been written on both levels (BR-53): text_config's word counts first.
static const lt_json_field moe_fields[] = {
    {"num_experts", "num_local_experts", LT_FIELD_INT, AT(lt_moe_config, experts),
     .max = EXPERTS_MAX},
    INT("num_experts_per_tok", lt_moe_config, experts_per_token, 0, EXPERTS_MAX),
    INT("moe_intermediate_size", lt_moe_config, intermediate, 0, WIDTH_MAX),
    INT("decoder_sparse_step", lt_moe_config, sparse_step, 1, LAYERS_MAX),
    {"norm_topk_prob", NULL, LT_FIELD_BOOL, AT(lt_moe_config, renormalise), .fallback = 1},
    {"output_router_logits", NULL, LT_FIELD_BOOL, AT(lt_moe_config, router_logits),
     .in_outer = true},
    {"router_aux_loss_coef", NULL, LT_FIELD_REAL, AT(lt_moe_config, aux_coef), .in_outer = true,
     .fallback = 0.001, .max = 1e6},
};

static const lt_json_field vision_fields[] = {
    NEED("hidden_size", lt_vision_config, hidden, WIDTH_MAX),
    NEED("depth", lt_vision_config, depth, LAYERS_MAX),
    NEED("num_heads", lt_vision_config, heads, HEADS_MAX),
    NEED("intermediate_size", lt_vision_config, intermediate, WIDTH_MAX),
    NEED("out_hidden_size", lt_vision_config, out_hidden, WIDTH_MAX),
    INT("patch_size", lt_vision_config, patch, 16, PATCH_MAX),
    INT("temporal_patch_size", lt_vision_config, temporal_patch, 2, FEW),
    INT("spatial_merge_size", lt_vision_config, merge, 2, FEW),
    INT("in_channels", lt_vision_config, channels, 3, FEW),
    INT("num_position_embeddings", lt_vision_config, position_rows, 2304, POSITION_ROWS_MAX),
    REAL("initializer_range", lt_vision_config, initializer_range, 0.02, 10),
};

static const lt_json_rule text_rules[] = {{"hidden_act", "silu"},
                                          {"attention_bias", NULL},
                                          {"attention_dropout", NULL},
                                          {"use_sliding_window", NULL}};
static const lt_json_rule vision_rules[] = {{"hidden_act", "gelu_pytorch_tanh"}};
static const lt_json_rule text_rope_rules[] = {{"rope_type", "default"}};
static const lt_json_rule vision_rope_rules[] = {{"rope_type", "axial"}};

const lt_qwen_form lt_qwen3_vl_form = {.section = {24, 20, 20},
                                       .head_dim = 128,
                                       .rotary_share = 1.0,
                                       .deepstack = true,
                                       .image_token = 151655,
                                       .video_token = 151656,
                                       .vision_start = 151652,
                                       .vision_end = 151653};
const lt_qwen_form lt_qwen3_5_form = {.section = {11, 11, 10},
                                      .head_dim = 256,
                                      .rotary_share = 0.25,
                                      .image_token = 248056,
                                      .video_token = 248057,
                                      .vision_start = 248053,
                                      .vision_end = 248054};
const lt_qwen_form lt_qwen3_form = {.one_axis = true, .head_dim = 128, .rotary_share = 1.0};

// A record of the rotary settings; an absent one is empty, so that every look-up in it finds
// nothing.
static lt_status rope_record(const lt_json_scope *scope, const char *key, json_t **out)
{
    json_t *v = json_object_get(scope->object, key);
    if (v && !json_is_null(v) && !json_is_object(v))
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s%s is %s; it must be an object", scope->where,
                       scope->path, key, lt_json_print(v).s);
    *out = json_is_object(v) ? v : NULL;
    return LT_OK;
}

// Where a text config keeps its rotary settings: rope_parameters, the config itself, rope_scaling.
typedef struct rope_places {
    lt_json_scope at[3];
    lt_json_path newer, older;
} rope_places;

static lt_status find_rope(const lt_json_scope *text, rope_places *out)
{
    json_t *newer = NULL, *older = NULL;
    snprintf(out->newer.s, sizeof out->newer.s, "%srope_parameters.", text->path);
    snprintf(out->older.s, sizeof out->older.s, "%srope_scaling.", text->path);
    LT_TRY(rope_record(text, "rope_parameters", &newer));
    LT_TRY(rope_record(text, "rope_scaling", &older));
    out->at[0] = (lt_json_scope){.where = text->where, .object = newer, .path = out->newer.s};
    out->at[1] = *text;
    out->at[2] = (lt_json_scope){.where = text->where, .object = older, .path = out->older.s};
    return LT_OK;
}

// Everything but theta comes from one record.
static const lt_json_scope *rope_rest(const rope_places *p)
{
    return p->at[0].object ? &p->at[0] : &p->at[2];
}

static lt_status read_theta(const rope_places *p, double *out)
{
    static const lt_json_field theta = {"rope_theta", NULL,       LT_FIELD_REAL, 0,
                                        .min = 1,     .max = 1e15};
    for (size_t i = 0; i < COUNT(p->at) && *out < 1; i++)
        LT_TRY(lt_json_read(&p->at[i], &theta, 1, out));
    if (*out < 1) {
        return LT_FAIL(
            LT_ERR_CONFIG, "%s: rope_theta is missing; it stands in %srope_parameters or in %.*s",
            p->at[1].where, p->at[1].path, (int)strlen(p->at[1].path) - 1, p->at[1].path);
    }
    return LT_OK;
}

// Three axes, each with its part of the frequencies.
static lt_status read_sections(const lt_json_scope *record, const lt_qwen_form *form,
                               lt_text_config *c)
{
    static const lt_json_field interleaved = {"mrope_interleaved", NULL, LT_FIELD_BOOL,
                                              AT(lt_text_config, mrope_interleaved), .fallback = 1};
    LT_TRY(lt_json_read(record, &interleaved, 1, c));
    if (!c->mrope_interleaved) {
        return LT_FAIL(
            LT_ERR_UNSUPPORTED,
            "%s: %smrope_interleaved is false, but the rotary sections of %s are interleaved",
            record->where, record->path, form->deepstack ? "Qwen3-VL" : "Qwen3.5");
    }
    memcpy(c->mrope_section, form->section, sizeof form->section);
    int32_t n = 3;
    LT_TRY(lt_json_ints(record, "mrope_section", 0, LT_MAX_HEAD_DIM, c->mrope_section, 3, &n));
    const int64_t sum = (int64_t)c->mrope_section[0] + c->mrope_section[1] + c->mrope_section[2];
    if (n != 3 || 2 * sum != c->rotary) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %smrope_section has %d entries and the sum %lld; it must have 3, of "
                       "sum %s / 2 = %lld",
                       record->where, record->path, (int)n, (long long)sum,
                       c->rotary == c->head_dim ? "head_dim" : "head_dim x partial_rotary_factor",
                       (long long)(c->rotary / 2));
    }
    return LT_OK;
}

// How much of a head is turned: partial_rotary_factor stands in either record or beside them.
static lt_status read_rotary(const rope_places *p, const lt_qwen_form *form, lt_text_config *c)
{
    static const lt_json_field share = {
        "partial_rotary_factor", NULL, LT_FIELD_REAL, 0, .min = 0, .max = 1};
    double factor = 0;
    for (size_t i = 0; i < COUNT(p->at) && factor <= 0; i++)
        LT_TRY(lt_json_read(&p->at[i], &share, 1, &factor));
    if (factor <= 0)
        factor = form->rotary_share;
    c->rotary = (int64_t)((double)c->head_dim * factor);
    if (c->rotary < 2 || c->rotary % 2 != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %shead_dim is %lld, of which rotary turns %lld numbers; it must be an "
                       "even number of them, since halves are paired",
                       p->at[1].where, p->at[1].path, (long long)c->head_dim, (long long)c->rotary);
    }
    return LT_OK;
}

static lt_status read_text_rope(const lt_json_scope *text, const lt_qwen_form *form,
                                lt_text_config *c)
{
    rope_places places;
    double theta = 0;
    LT_TRY(find_rope(text, &places));
    LT_TRY(read_theta(&places, &theta));
    LT_TRY(lt_json_hold(rope_rest(&places), text_rope_rules, COUNT(text_rope_rules)));
    c->rope_theta = theta;
    LT_TRY(read_rotary(&places, form, c));
    c->mrope_section[0] = (int32_t)(c->rotary / 2);
    return form->one_axis ? LT_OK : read_sections(rope_rest(&places), form, c);
}

static lt_status read_moe(const lt_json_scope *text, lt_text_config *c)
{
    lt_moe_config m = {0};
    LT_TRY(lt_json_read(text, moe_fields, COUNT(moe_fields), &m));
    LT_TRY(lt_json_ints(text, "mlp_only_layers", 0, LAYERS_MAX - 1, m.dense, LT_MAX_DENSE,
                        &m.n_dense));
    if (m.experts == 0)
        return LT_OK;
    if (m.experts_per_token < 1 || m.experts_per_token > m.experts) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %snum_experts_per_tok is %lld; it must be from 1 to the "
                       "number of experts, %lld",
                       text->where, text->path, (long long)m.experts_per_token,
                       (long long)m.experts);
    }
    if (m.intermediate < 1)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %smoe_intermediate_size is missing", text->where,
                       text->path);
    c->moe = m;
    return LT_OK;
}

// Dense layers need a width, which a file without any may leave out.
static lt_status check_dense(const lt_json_scope *text, const lt_text_config *c)
{
    for (int64_t i = 0; i < c->layers && c->intermediate == 0; i++) {
        if (!lt_moe_is_sparse(c, i))
            return LT_FAIL(LT_ERR_CONFIG, "%s: %sintermediate_size is missing", text->where,
                           text->path);
    }
    return LT_OK;
}

lt_status lt_qwen_read_text(const lt_json_scope *text, const lt_qwen_form *form, lt_text_config *c)
{
    LT_TRY(lt_json_read(text, text_fields, COUNT(text_fields), c));
    LT_TRY(lt_json_hold(text, text_rules, COUNT(text_rules)));
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->head_dim == 0)
        c->head_dim = form->head_dim;
    if (c->heads % c->kv_heads != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %snum_attention_heads is %lld; it must be a multiple of "
                       "num_key_value_heads, %lld",
                       text->where, text->path, (long long)c->heads, (long long)c->kv_heads);
    }
    if (c->heads * c->head_dim > WIDTH_MAX) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %snum_attention_heads x head_dim is %lld; it must be at most %d",
                       text->where, text->path, (long long)(c->heads * c->head_dim), WIDTH_MAX);
    }
    LT_TRY(read_text_rope(text, form, c));
    LT_TRY(read_moe(text, c));
    return check_dense(text, c);
}

static lt_status check_deepstack(const lt_json_scope *vision, const lt_vision_config *c)
{
    for (int32_t i = 0; i < c->n_deepstack; i++) {
        if (c->deepstack[i] >= c->depth) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "%s: vision_config.deepstack_visual_indexes[%d] is %d; it must be below "
                           "depth, %lld",
                           vision->where, (int)i, (int)c->deepstack[i], (long long)c->depth);
        }
        if (i > 0 && c->deepstack[i] <= c->deepstack[i - 1]) {
            return LT_FAIL(
                LT_ERR_CONFIG,
                "%s: vision_config.deepstack_visual_indexes[%d] is %d; the indexes must ascend",
                vision->where, (int)i, (int)c->deepstack[i]);
        }
    }
    return LT_OK;
}

static lt_status read_vision(const lt_json_scope *vision, const lt_qwen_form *form,
                             lt_vision_config *c)
{
    static const lt_json_field theta = {
        "rope_theta",      NULL,     LT_FIELD_REAL, AT(lt_vision_config, rope_theta),
        .fallback = 10000, .min = 1, .max = 1e15};
    LT_TRY(lt_json_read(vision, vision_fields, COUNT(vision_fields), c));
    LT_TRY(lt_json_hold(vision, vision_rules, COUNT(vision_rules)));
    c->eps = 1e-6; // in no file: the tower's definition has it
    c->head_dim = c->hidden / c->heads;
    if (c->hidden % c->heads != 0 || c->head_dim % 4 != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: vision_config.hidden_size is %lld; it must be num_heads, %lld, times a "
                       "multiple of 4 (rotary has two axes)",
                       vision->where, (long long)c->hidden, (long long)c->heads);
    }
    if (c->head_dim > LT_MAX_HEAD_DIM) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: vision_config.hidden_size is %lld, so heads have %lld numbers; at most "
                       "%d are possible",
                       vision->where, (long long)c->hidden, (long long)c->head_dim,
                       LT_MAX_HEAD_DIM);
    }
    while (c->grid * c->grid < c->position_rows)
        c->grid++;
    if (c->grid * c->grid != c->position_rows) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: vision_config.num_position_embeddings is %lld; it must be a square",
                       vision->where, (long long)c->position_rows);
    }
    lt_json_scope rope = {.where = vision->where, .path = "vision_config.rope_parameters."};
    LT_TRY(rope_record(vision, "rope_parameters", &rope.object));
    LT_TRY(lt_json_read(&rope, &theta, 1, c));
    LT_TRY(lt_json_hold(&rope, vision_rope_rules, COUNT(vision_rope_rules)));
    static const int32_t published[3] = {8, 16, 24};
    memcpy(c->deepstack, published, sizeof published);
    c->n_deepstack = form->deepstack ? 3 : 0;
    LT_TRY(lt_json_ints(vision, "deepstack_visual_indexes", 0, LAYERS_MAX - 1, c->deepstack,
                        LT_MAX_DEEPSTACK, &c->n_deepstack));
    if (c->n_deepstack > 0 && !form->deepstack) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: vision_config.deepstack_visual_indexes has %d entries, but Qwen3.5 has "
                       "no deepstack",
                       vision->where, (int)c->n_deepstack);
    }
    return check_deepstack(vision, c);
}

// tie_word_embeddings: the top level's word counts first, then text_config's; else the head has its
// own weight.
lt_status lt_qwen_read_tied(const lt_json_scope *root, const lt_json_scope *text,
                            const char *text_key, lt_model_config *out)
{
    const struct {
        const lt_json_scope *scope;
        const char *key;
    } places[] = {{root, "tie_word_embeddings"}, {text, text_key}};
    static const lt_json_field tied = {"tie_word_embeddings", NULL, LT_FIELD_BOOL,
                                       AT(lt_model_config, tied), .fallback = 0};
    out->tied_key = "";
    for (size_t i = 0; i < COUNT(places) && out->tied_key[0] == '\0'; i++) {
        lt_json_path path;
        if (!lt_json_find(places[i].scope, &tied, &path))
            continue;
        LT_TRY(lt_json_read(places[i].scope, &tied, 1, out));
        out->tied_key = places[i].key;
    }
    return LT_OK;
}

lt_status lt_qwen_read_token(const lt_json_scope *scope, const char *key, int32_t fallback,
                             int64_t below, int32_t *out)
{
    const lt_json_field f = {key,
                             NULL,
                             LT_FIELD_INT,
                             0,
                             .in_outer = true,
                             .fallback = fallback,
                             .min = fallback == LT_NO_TOKEN ? LT_NO_TOKEN : 0,
                             .max = (double)(below - 1)};
    int64_t id = 0;
    LT_TRY(lt_json_read(scope, &f, 1, &id));
    if (id >= below) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "%s: %s%s is missing, and the usual %lld is not below text_config.vocab_size, %lld",
            scope->where, scope->path, key, (long long)id, (long long)below);
    }
    *out = (int32_t)id;
    return LT_OK;
}

// eos_token_id is a number or a list of them.
lt_status lt_qwen_read_eos(const lt_json_scope *text, lt_model_config *out)
{
    const lt_json_scope places[] = {*text,
                                    {.where = text->where, .object = text->outer, .path = ""}};
    for (size_t i = 0; i < COUNT(places) && out->n_eos == 0; i++) {
        if (json_is_array(json_object_get(places[i].object, "eos_token_id"))) {
            LT_TRY(lt_json_ints(&places[i], "eos_token_id", 0, INT32_MAX, out->eos, LT_MAX_EOS,
                                &out->n_eos));
            continue;
        }
        LT_TRY(lt_qwen_read_token(&places[i], "eos_token_id", LT_NO_TOKEN, (int64_t)INT32_MAX + 1,
                                  &out->eos[0]));
        out->n_eos = out->eos[0] != LT_NO_TOKEN;
    }
    return LT_OK;
}

static lt_status read_tokens(const lt_json_scope *root, const lt_json_scope *text,
                             const lt_qwen_form *form, lt_model_config *out)
{
    const int64_t vocab = out->text.vocab, any = (int64_t)INT32_MAX + 1;
    const struct {
        const lt_json_scope *scope;
        const char *key;
        int32_t fallback, *to;
        int64_t below;
    } rows[] = {
        {root, "image_token_id", form->image_token, &out->image_token, vocab},
        {root, "video_token_id", form->video_token, &out->video_token, vocab},
        {root, "vision_start_token_id", form->vision_start, &out->vision_start, vocab},
        {root, "vision_end_token_id", form->vision_end, &out->vision_end, vocab},
        {text, "bos_token_id", LT_NO_TOKEN, &out->bos, any},
        {text, "pad_token_id", LT_NO_TOKEN, &out->pad, any},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        LT_TRY(lt_qwen_read_token(rows[i].scope, rows[i].key, rows[i].fallback, rows[i].below,
                                  rows[i].to));
    if (out->image_token == out->video_token) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: image_token_id and video_token_id are both %d; they must differ",
                       root->where, (int)out->image_token);
    }
    return lt_qwen_read_eos(text, out);
}

// dtype (older: torch_dtype) of the stored weights, as text_config says or else the top level.
void lt_qwen_read_dtype(const lt_json_scope *text, lt_model_config *out)
{
    static const lt_json_field f = {"dtype", "torch_dtype", .in_outer = true};
    lt_json_path path;
    json_t *v = lt_json_find(text, &f, &path);
    snprintf(out->dtype, sizeof out->dtype, "%s", json_is_string(v) ? json_string_value(v) : "");
}

lt_status lt_qwen_read_config(const lt_json_scope *root, const lt_qwen_form *form,
                              lt_model_config *out)
{
    static const lt_json_rule root_rules[] = {{"quantization_config", NULL}};
    lt_json_scope text = {
        .where = root->where, .outer = root->object, .path = "text_config.", .outer_path = ""};
    lt_json_scope vision = {.where = root->where, .path = "vision_config."};
    LT_TRY(lt_json_object(root, "text_config", &text.object));
    LT_TRY(lt_json_object(root, "vision_config", &vision.object));
    LT_TRY(lt_json_hold(root, root_rules, COUNT(root_rules)));
    LT_TRY(lt_qwen_read_text(&text, form, &out->text));
    LT_TRY(read_vision(&vision, form, &out->vision));
    if (out->vision.out_hidden != out->text.hidden) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "%s: vision_config.out_hidden_size is %lld; it must be text_config.hidden_size, %lld",
            root->where, (long long)out->vision.out_hidden, (long long)out->text.hidden);
    }
    LT_TRY(lt_qwen_read_tied(root, &text, "text_config.tie_word_embeddings", out));
    LT_TRY(read_tokens(root, &text, form, out));
    lt_qwen_read_dtype(&text, out);
    return LT_OK;
}
