// SPDX-License-Identifier: Apache-2.0
// Qwen3.5 and Qwen3.6, dense and with experts: linear attention in most layers of the decoder,
// gated attention in the others, norms that scale by 1 + w, the Qwen tower without deepstack.
#include "model/family.h"
#include "model/gdn.h"
#include "model/qwen_config.h"
#include "model/qwen_decoder.h"
#include "op/conv_silu.h"
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HEADS_MAX 1024
#define HEAD_MAX 1024 // numbers of a head
#define WIDTH_MAX 131072

#define FIELD(k, member, otherwise, most)                                                          \
    {                                                                                              \
        (k), NULL, LT_FIELD_INT, .offset = offsetof(lt_text_config, member),                       \
                                 .fallback = (otherwise), .min = 1, .max = (most)                  \
    }

// Published values where a file leaves them out; the number of value heads must be there.
static const lt_json_field fields[] = {
    FIELD("linear_num_key_heads", gdn.key_heads, 16, HEADS_MAX),
    FIELD("linear_num_value_heads", gdn.value_heads, 0, HEADS_MAX),
    FIELD("linear_key_head_dim", gdn.key_dim, 128, HEAD_MAX),
    FIELD("linear_value_head_dim", gdn.value_dim, 128, HEAD_MAX),
    FIELD("linear_conv_kernel_dim", gdn.taps, 4, LT_MAX_TAPS),
    FIELD("shared_expert_intermediate_size", moe.shared, 0, WIDTH_MAX),
    {"attn_output_gate", NULL, LT_FIELD_BOOL, .offset = offsetof(lt_text_config, output_gate),
     .fallback = 1},
};
static const lt_json_rule rules[] = {{"mtp_use_dedicated_embeddings", NULL}};

// layer_types, one word a layer. Whatever is not full_attention is linear.
static lt_status read_layer_types(const lt_json_scope *text, json_t *list, lt_text_config *c)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)c->layers) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "%s: %slayer_types is %s; it must be a list of num_hidden_layers, %lld, words",
            text->where, text->path, lt_json_print(list).s, (long long)c->layers);
    }
    for (int64_t i = 0; i < c->layers; i++) {
        json_t *word = json_array_get(list, (size_t)i);
        if (!json_is_string(word))
            return LT_FAIL(LT_ERR_CONFIG, "%s: %slayer_types[%lld] is %s; it must be a word",
                           text->where, text->path, (long long)i, lt_json_print(word).s);
        c->gdn.linear[i] = strcmp(json_string_value(word), "full_attention") != 0;
    }
    return LT_OK;
}

static lt_status read_layers(const lt_json_scope *text, lt_text_config *c)
{
    static const lt_json_field every = {
        "full_attention_interval", NULL, LT_FIELD_INT, 0, .fallback = 4, .min = 1,
        .max = LT_MAX_LAYERS};
    int64_t interval = 0;
    LT_TRY(lt_json_read(text, &every, 1, &interval));
    json_t *list = json_object_get(text->object, "layer_types");
    if (list && !json_is_null(list))
        return read_layer_types(text, list, c);
    for (int64_t i = 0; i < c->layers; i++)
        c->gdn.linear[i] = (i + 1) % interval != 0;
    return LT_OK;
}

// output_gate_type names the activation of linear attention's gate.
static lt_status check_gate(const lt_json_scope *text)
{
    json_t *v = json_object_get(text->object, "output_gate_type");
    const char *word = json_is_string(v) ? json_string_value(v) : NULL;
    if (!v || json_is_null(v) ||
        (word && (strcmp(word, "swish") == 0 || strcmp(word, "silu") == 0)))
        return LT_OK;
    return LT_FAIL(LT_ERR_UNSUPPORTED,
                   "%s: %soutput_gate_type is %s; lathe knows \"swish\" and \"silu\"", text->where,
                   text->path, lt_json_print(v).s);
}

static lt_status check_heads(const lt_json_scope *text, const lt_text_config *c)
{
    const lt_gdn_config *g = &c->gdn;
    if (g->value_heads == 0)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %slinear_num_value_heads is missing", text->where,
                       text->path);
    if (g->value_heads % g->key_heads != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %slinear_num_value_heads is %lld; it must be a multiple of "
                       "linear_num_key_heads, %lld",
                       text->where, text->path, (long long)g->value_heads, (long long)g->key_heads);
    }
    if (LT_GDN_MIXED(c) > WIDTH_MAX) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %slinear_num_value_heads and its heads make rows of %lld numbers; at "
                       "most %d are possible",
                       text->where, text->path, (long long)LT_GDN_MIXED(c), WIDTH_MAX);
    }
    return LT_OK;
}

static lt_status read_config(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(lt_qwen_read_config(root, &lt_qwen3_5_form, out));
    lt_json_scope text = {.where = root->where, .path = "text_config."};
    LT_TRY(lt_json_object(root, "text_config", &text.object));
    lt_text_config *c = &out->text;
    c->plus_one = true;
    LT_TRY(lt_json_read(&text, fields, COUNT(fields), c));
    LT_TRY(lt_json_hold(&text, rules, COUNT(rules)));
    LT_TRY(check_gate(&text));
    LT_TRY(read_layers(&text, c));
    return check_heads(&text, c);
}

static lt_status read_dense(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(read_config(root, out));
    if (out->text.moe.experts > 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: text_config.num_experts is %lld, but model_type qwen3_5 has none; with "
                       "experts it is qwen3_5_moe",
                       root->where, (long long)out->text.moe.experts);
    }
    out->text.moe.shared = 0;
    return LT_OK;
}

static lt_status read_sparse(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(read_config(root, out));
    lt_moe_config *moe = &out->text.moe;
    if (moe->experts == 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: text_config.num_experts (or num_local_experts) is missing or 0; "
                       "without experts the model_type is qwen3_5",
                       root->where);
    }
    if (moe->shared == 0)
        return LT_FAIL(LT_ERR_CONFIG, "%s: text_config.shared_expert_intermediate_size is missing",
                       root->where);
    moe->renormalise = true; // whatever the file says: the published model has no other form
    return LT_OK;
}

const lt_family lt_family_qwen3_5 = {.model_type = "qwen3_5",
                                     .read = read_dense,
                                     .build = lt_qwen_vl_build,
                                     .head_name = "lm_head.weight"};
const lt_family lt_family_qwen3_5_moe = {.model_type = "qwen3_5_moe",
                                         .read = read_sparse,
                                         .build = lt_qwen_vl_build,
                                         .head_name = "lm_head.weight"};
