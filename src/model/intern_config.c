// SPDX-License-Identifier: Apache-2.0
// The fields of an InternVL config.json and the rules between them.
#include "model/intern_config.h"
#include "model/qwen_config.h"
#include "op/attention.h"
#include <math.h>
#include <string.h>

// Limits as of the other towers: below them no product of dims overflows 64 bits.
#define LAYERS_MAX 1024
#define WIDTH_MAX 131072
#define HEADS_MAX 1024
#define IMAGE_MAX 16384
#define PATCH_MAX 128
#define FEW 16 // channels, merge
#define GRID_MAX 1024
#define TILES_MAX 256
#define USUAL_IMAGE_TOKEN 151671
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define AT(member) .offset = offsetof(lt_vision_config, member)
#define SIZE(key, member, most)                                                                    \
    {                                                                                              \
        (key), NULL, LT_FIELD_INT, AT(member), .required = true, .min = 1, .max = (most)           \
    }

static const lt_json_field vision_fields[] = {
    SIZE("hidden_size", hidden, WIDTH_MAX),
    SIZE("num_hidden_layers", depth, LAYERS_MAX),
    SIZE("num_attention_heads", heads, HEADS_MAX),
    SIZE("intermediate_size", intermediate, WIDTH_MAX),
    {"num_channels", NULL, LT_FIELD_INT, AT(channels), .fallback = 3, .min = 1, .max = FEW},
    {"layer_norm_eps", NULL, LT_FIELD_REAL, AT(eps), .fallback = 1e-6, .max = 1},
    {"initializer_range", NULL, LT_FIELD_REAL, AT(initializer_range), .fallback = 0.02, .max = 10},
    {"layer_scale_init_value", "initializer_factor", LT_FIELD_REAL, AT(intern.layer_scale),
     .fallback = 0.1, .max = 10},
    {"attention_bias", "qkv_bias", LT_FIELD_BOOL, AT(intern.qkv_bias), .fallback = 0},
    {"use_qk_norm", "qk_normalization", LT_FIELD_BOOL, AT(intern.qk_norm), .fallback = 0},
};

static const lt_json_field tile_fields[] = {
    {"dynamic_image_size", NULL, LT_FIELD_BOOL, AT(intern.dynamic_tiles), .fallback = 0},
    {"use_thumbnail", NULL, LT_FIELD_BOOL, AT(intern.thumbnail), .fallback = 0},
    {"pad2square", NULL, LT_FIELD_BOOL, AT(intern.pad_square), .fallback = 0},
    {"min_dynamic_patch", NULL, LT_FIELD_INT, AT(intern.min_tiles), .fallback = 1, .min = 1,
     .max = TILES_MAX},
    {"max_dynamic_patch", NULL, LT_FIELD_INT, AT(intern.max_tiles), .fallback = 1, .min = 1,
     .max = TILES_MAX},
};

static const lt_json_rule vision_rules[] = {
    {"hidden_act", "gelu"},       {"attention_dropout", NULL}, {"hidden_dropout_prob", NULL},
    {"projection_dropout", NULL}, {"dropout", NULL},           {"use_mask_token", NULL}};
static const lt_json_rule root_rules[] = {
    {"quantization_config", NULL},    {"vision_feature_select_strategy", "default"},
    {"projector_hidden_act", "gelu"}, {"ps_version", "v2"},
    {"use_backbone_lora", NULL},      {"use_llm_lora", NULL}};

// A side in pixels: a number, or a list of two equal ones.
static lt_status read_side(const lt_json_scope *scope, const char *key, int64_t most, int64_t *out)
{
    const lt_json_field number = {
        key, NULL, LT_FIELD_INT, 0, .required = true, .min = 1, .max = (double)most};
    if (!json_is_array(json_object_get(scope->object, key)))
        return lt_json_read(scope, &number, 1, out);
    int32_t sides[2] = {0}, n = 0;
    LT_TRY(lt_json_ints(scope, key, 1, most, sides, 2, &n));
    if (n != 2 || sides[0] != sides[1]) {
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s%s is %s; it must be a number or two equal ones",
                       scope->where, scope->path, key,
                       lt_json_print(json_object_get(scope->object, key)).s);
    }
    *out = sides[0];
    return LT_OK;
}

static lt_status read_norm_type(const lt_json_scope *vision, lt_vision_config *c)
{
    json_t *v = json_object_get(vision->object, "norm_type");
    const char *name = json_is_string(v) ? json_string_value(v) : v ? "" : "layer_norm";
    c->intern.rms_norm = strcmp(name, "rms_norm") == 0;
    if (!c->intern.rms_norm && strcmp(name, "layer_norm") != 0) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: %snorm_type is %s; only layer_norm and rms_norm are supported",
                       vision->where, vision->path, lt_json_print(v).s);
    }
    return LT_OK;
}

static lt_status check_heads(const lt_json_scope *vision, lt_vision_config *c)
{
    c->head_dim = c->hidden / c->heads;
    if (c->hidden % c->heads != 0 || c->head_dim > LT_MAX_HEAD_DIM) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %shidden_size is %lld; it must be num_attention_heads, %lld, times "
                       "a head's width of at most %d",
                       vision->where, vision->path, (long long)c->hidden, (long long)c->heads,
                       LT_MAX_HEAD_DIM);
    }
    return LT_OK;
}

// image_size and patch_size give the grid; downsample_ratio how many patches become one token.
static lt_status read_grid(const lt_json_scope *root, const lt_json_scope *vision,
                           lt_vision_config *c)
{
    int64_t image = 0;
    double ratio = 0;
    static const lt_json_field down = {
        "downsample_ratio", NULL, LT_FIELD_REAL, 0, .fallback = 0.5, .min = 1.0 / FEW, .max = 1};
    LT_TRY(read_side(vision, "image_size", IMAGE_MAX, &image));
    LT_TRY(read_side(vision, "patch_size", PATCH_MAX, &c->patch));
    LT_TRY(lt_json_read(root, &down, 1, &ratio));
    c->merge = llround(1 / ratio);
    c->grid = image / c->patch;
    if (fabs((double)c->merge * ratio - 1) > 1e-9 || image % c->patch != 0 ||
        c->grid % c->merge != 0 || c->grid > GRID_MAX) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %simage_size is %lld, patch_size %lld and downsample_ratio %g; the "
                       "image must be a whole number of patches (at most %d on a side), and that "
                       "number times the ratio a whole number",
                       vision->where, vision->path, (long long)image, (long long)c->patch, ratio,
                       GRID_MAX);
    }
    const lt_json_field forced = {
        "force_image_size",  NULL, LT_FIELD_INT, 0, .fallback = (double)image, .min = (double)image,
        .max = (double)image};
    LT_TRY(lt_json_read(root, &forced, 1, &image)); // another size would resize the position table
    c->position_rows = c->grid * c->grid + 1;
    c->temporal_patch = 1;
    return LT_OK;
}

static lt_status read_vision(const lt_json_scope *root, const lt_json_scope *vision, bool remote,
                             lt_vision_config *c)
{
    bool pooling = true, positions = true;
    static const lt_json_field pool = {"use_mean_pooling", NULL, LT_FIELD_BOOL, 0, .fallback = 1},
                               places = {"use_absolute_position_embeddings", NULL, LT_FIELD_BOOL, 0,
                                         .fallback = 1};
    LT_TRY(lt_json_read(vision, vision_fields, COUNT(vision_fields), c));
    LT_TRY(lt_json_hold(vision, vision_rules, COUNT(vision_rules)));
    LT_TRY(lt_json_read(vision, &pool, 1, &pooling));
    LT_TRY(lt_json_read(vision, &places, 1, &positions));
    if (!positions) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: %suse_absolute_position_embeddings is false; only a tower with a "
                       "position table is supported",
                       vision->where, vision->path);
    }
    LT_TRY(read_norm_type(vision, c));
    LT_TRY(check_heads(vision, c));
    c->intern.class_token = true;
    c->intern.remote_names = remote;
    c->intern.final_norm = !remote && !pooling;
    return read_grid(root, vision, c);
}

// Which layer's output is taken: the last one.
static lt_status check_layer(const lt_json_scope *root)
{
    static const lt_json_field layer = {
        "vision_feature_layer", "select_layer",     LT_FIELD_INT,     0,
        .fallback = -1,         .min = -LAYERS_MAX, .max = LAYERS_MAX};
    lt_json_path path;
    int64_t taken = 0;
    json_t *v = lt_json_find(root, &layer, &path);
    LT_TRY(lt_json_read(root, &layer, 1, &taken));
    if (taken != -1) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: %s is %s; only -1, the last layer's output, is supported", root->where,
                       path.s, lt_json_print(v).s);
    }
    return LT_OK;
}

// Remote-code files leave the id of <IMG_CONTEXT> to the tokenizer; a small vocabulary has none.
static lt_status read_tokens(const lt_json_scope *root, const lt_json_scope *text, bool remote,
                             lt_model_config *out)
{
    const int64_t vocab = out->text.vocab, any = (int64_t)INT32_MAX + 1;
    const int32_t usual = remote && vocab <= USUAL_IMAGE_TOKEN ? LT_NO_TOKEN : USUAL_IMAGE_TOKEN;
    LT_TRY(lt_qwen_read_token(root, remote ? "img_context_token_id" : "image_token_id", usual,
                              vocab, &out->image_token));
    LT_TRY(lt_qwen_read_token(text, "bos_token_id", LT_NO_TOKEN, any, &out->bos));
    LT_TRY(lt_qwen_read_token(text, "pad_token_id", LT_NO_TOKEN, any, &out->pad));
    out->video_token = out->vision_start = out->vision_end = LT_NO_TOKEN;
    return lt_qwen_read_eos(text, out);
}

// The published wrapper never adds the balance loss, whatever output_router_logits says.
static lt_status check_decoder(const lt_json_scope *text, lt_text_config *c)
{
    const lt_json_rule rule = {"model_type", c->moe.experts > 0 ? "qwen3_moe" : "qwen3"};
    c->moe.router_logits = false;
    return lt_json_hold(text, &rule, 1);
}

lt_status lt_intern_read_config(const lt_json_scope *root, bool remote, lt_model_config *out)
{
    lt_json_scope text = {.where = root->where, .outer = root->object, .outer_path = ""};
    lt_json_scope vision = {.where = root->where, .path = "vision_config."};
    text.path = remote ? "llm_config." : "text_config.";
    LT_TRY(lt_json_object(root, remote ? "llm_config" : "text_config", &text.object));
    LT_TRY(lt_json_object(root, "vision_config", &vision.object));
    LT_TRY(lt_json_hold(root, root_rules, COUNT(root_rules)));
    LT_TRY(check_layer(root));
    LT_TRY(lt_qwen_read_text(&text, &lt_qwen3_form, &out->text));
    LT_TRY(check_decoder(&text, &out->text));
    LT_TRY(read_vision(root, &vision, remote, &out->vision));
    LT_TRY(lt_json_read(root, tile_fields, COUNT(tile_fields), &out->vision));
    out->vision.out_hidden = out->text.hidden;
    LT_TRY(lt_qwen_read_tied(
        root, &text, remote ? "llm_config.tie_word_embeddings" : "text_config.tie_word_embeddings",
        out));
    LT_TRY(read_tokens(root, &text, remote, out));
    lt_qwen_read_dtype(&text, out);
    return LT_OK;
}
