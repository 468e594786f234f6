// SPDX-License-Identifier: Apache-2.0
// The files of the demo's model, a Qwen3-VL of three million parameters without weights, and of its
// like of other families.
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "data/shapes.h"
#include "data/shapes_parts.h"

/** Sizes of the model; all else is as published. */
enum {
    PATCH = 16,
    MERGE = 2,
    VISION_WIDTH = 128,
    VISION_DEPTH = 4,
    VISION_HEADS = 4,
    VISION_MLP = 256,
    POSITIONS = 64, // an 8 x 8 table
    WIDTH = 192,
    DEPTH = 4,
    HEADS = 6,
    KV_HEADS = 2,
    HEAD = 32,
    MLP = 512,
    EXPERTS = 8,
    EXPERTS_OF_A_TOKEN = 2,
    VOCAB_STEP = 64, // rows of the embedding come in multiples of it
    FLOOR_PIXELS = 4096,
    MOST_PIXELS = 65536,
};

// About 1/sqrt(width): with the published 0.02 so narrow a model answers from habit for a long
// time.
static const double init_std = 0.06;

static json_t *text_config(int64_t rows)
{
    return json_pack("{s:b, s:f, s:i, s:s, s:i, s:f, s:i, s:i, s:s, s:i, s:i, s:i, s:f, s:{s:b, "
                     "s:[i, i, i], s:s}, s:f, s:b, s:b, s:I}",
                     "attention_bias", 0, "attention_dropout", 0.0, "head_dim", HEAD, "hidden_act",
                     "silu", "hidden_size", WIDTH, "initializer_range", init_std,
                     "intermediate_size", MLP, "max_position_embeddings", 4096, "model_type",
                     "qwen3_vl_text", "num_attention_heads", HEADS, "num_hidden_layers", DEPTH,
                     "num_key_value_heads", KV_HEADS, "rms_norm_eps", 1e-6, "rope_scaling",
                     "mrope_interleaved", 1, "mrope_section", 6, 5, 5, "rope_type", "default",
                     "rope_theta", 5000000.0, "tie_word_embeddings", 1, "use_cache", 1,
                     "vocab_size", (json_int_t)rows);
}

static json_t *vision_config(void)
{
    return json_pack("{s:[i, i], s:i, s:s, s:i, s:i, s:f, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i}",
                     "deepstack_visual_indexes", 1, 2, "depth", VISION_DEPTH, "hidden_act",
                     "gelu_pytorch_tanh", "hidden_size", VISION_WIDTH, "in_channels", 3,
                     "initializer_range", init_std, "intermediate_size", VISION_MLP, "model_type",
                     "qwen3_vl", "num_heads", VISION_HEADS, "num_position_embeddings", POSITIONS,
                     "out_hidden_size", WIDTH, "patch_size", PATCH, "spatial_merge_size", MERGE,
                     "temporal_patch_size", 2);
}

static json_t *qwen_config(const lt_shapes_ids *ids, const char *architecture, const char *type,
                           json_t *text)
{
    return json_pack("{s:[s], s:I, s:s, s:o, s:b, s:I, s:o, s:I, s:I}", "architectures",
                     architecture, "image_token_id", (json_int_t)ids->image_pad, "model_type", type,
                     "text_config", text, "tie_word_embeddings", 1, "video_token_id",
                     (json_int_t)ids->video_pad, "vision_config", vision_config(),
                     "vision_end_token_id", (json_int_t)ids->vision_end, "vision_start_token_id",
                     (json_int_t)ids->vision_start);
}

static int64_t rows_of(const lt_shapes_ids *ids)
{
    return lt_round_up(ids->vocab, VOCAB_STEP);
}

static json_t *dense_config(const lt_shapes_ids *ids)
{
    return qwen_config(ids, "Qwen3VLForConditionalGeneration", "qwen3_vl",
                       text_config(rows_of(ids)));
}

// Two of eight experts of half the dense width: as much work for a token.
static json_t *experts_config(const lt_shapes_ids *ids)
{
    json_t *text = text_config(rows_of(ids)),
           *experts = json_pack(
               "{s:s, s:i, s:i, s:i, s:b, s:i, s:[], s:f}", "model_type", "qwen3_vl_moe_text",
               "num_experts", EXPERTS, "num_experts_per_tok", EXPERTS_OF_A_TOKEN,
               "moe_intermediate_size", MLP / EXPERTS_OF_A_TOKEN, "norm_topk_prob", 1,
               "decoder_sparse_step", 1, "mlp_only_layers", "router_aux_loss_coef", 0.001);
    json_object_update(text, experts);
    json_decref(experts);
    return qwen_config(ids, "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", text);
}

// A picture is one tile of 4 x 4 patches: a token for each cell.
static json_t *intern_config(const lt_shapes_ids *ids)
{
    json_t *text = text_config(rows_of(ids));
    json_object_set_new(text, "model_type", json_string("qwen3"));
    json_object_del(text, "rope_scaling");
    json_t *vision = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:[i, i], s:[i, i], s:b, s:b, s:s, s:f, s:s, s:f, s:b, s:f}",
        "model_type", "internvl_vision", "hidden_size", VISION_WIDTH, "num_hidden_layers",
        VISION_DEPTH, "num_attention_heads", VISION_HEADS, "intermediate_size", VISION_MLP,
        "image_size", LT_SHAPES_SIDE, LT_SHAPES_SIDE, "patch_size", PATCH, PATCH, "attention_bias",
        1, "use_qk_norm", 0, "norm_type", "layer_norm", "layer_norm_eps", 1e-6, "hidden_act",
        "gelu", "layer_scale_init_value", 0.1, "use_mean_pooling", 1, "initializer_range",
        init_std);
    return json_pack("{s:[s], s:s, s:I, s:f, s:i, s:s, s:b, s:o, s:o}", "architectures",
                     "InternVLForConditionalGeneration", "model_type", "internvl", "image_token_id",
                     (json_int_t)ids->tile_token, "downsample_ratio", 1.0 / MERGE,
                     "vision_feature_layer", -1, "projector_hidden_act", "gelu",
                     "tie_word_embeddings", 1, "text_config", text, "vision_config", vision);
}

static const struct {
    const char *name;
    json_t *(*config)(const lt_shapes_ids *ids);
} families[] = {
    {"qwen3_vl", dense_config}, {"qwen3_vl_moe", experts_config}, {"internvl3_5", intern_config}};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static lt_status find_family(const char *name, int *out)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        if (strcmp(families[i].name, name) == 0) {
            *out = i;
            return LT_OK;
        }
    }
    return LT_FAIL(
        LT_ERR_CONFIG,
        "there is no small model of a family %.60s; there are qwen3_vl, qwen3_vl_moe and "
        "internvl3_5",
        name);
}

static json_t *processor_config(const char *kind, const char *type)
{
    return json_pack("{s:{s:i, s:i}, s:i, s:i, s:i, s:[f, f, f], s:[f, f, f], s:s, s:s}", "size",
                     "longest_edge", MOST_PIXELS, "shortest_edge", FLOOR_PIXELS, "patch_size",
                     PATCH, "temporal_patch_size", 2, "merge_size", MERGE, "image_mean", 0.5, 0.5,
                     0.5, "image_std", 0.5, 0.5, 0.5, "processor_class", "Qwen3VLProcessor", kind,
                     type);
}

static json_t *generation_config(const lt_shapes_ids *ids)
{
    return json_pack("{s:b, s:[I, I], s:I}", "do_sample", 0, "eos_token_id",
                     (json_int_t)ids->im_end, (json_int_t)ids->end_of_text, "pad_token_id",
                     (json_int_t)ids->end_of_text);
}

static int put_text(const char *text, size_t n, void *ctx)
{
    return lt_buf_append(ctx, text, n) == LT_OK ? 0 : -1;
}

static lt_status write_bytes(const char *dir, const char *name, const lt_buf *bytes)
{
    lt_arena *arena = NULL;
    char *path = NULL;
    LT_TRY(lt_arena_create(&arena, "shapes"));
    lt_status st = lt_path_join(arena, dir, name, &path);
    if (st == LT_OK)
        st = lt_file_replace(path, bytes->data, bytes->len);
    lt_arena_destroy(arena);
    return st;
}

/** Takes the value. */
static lt_status write_value(const char *dir, const char *name, json_t *value)
{
    lt_buf bytes = {0};
    const int rc = value != NULL ? json_dump_callback(value, put_text, &bytes, JSON_INDENT(2)) : -1;
    json_decref(value);
    lt_status st = rc == 0 ? lt_buf_text(&bytes, "\n")
                           : LT_FAIL(LT_ERR_MEMORY, "out of memory: writing %s/%s", dir, name);
    if (st == LT_OK)
        st = write_bytes(dir, name, &bytes);
    lt_buf_deinit(&bytes);
    return st;
}

lt_status lt_shapes_write_model(const char *dir, const char *family)
{
    int f = 0;
    lt_buf tokenizer = {0}, config = {0};
    lt_shapes_ids ids;
    lt_status st;
    LT_TRY_GOTO(st, find_family(family, &f), done);
    LT_TRY_GOTO(st, lt_dir_make(dir), done);
    LT_TRY_GOTO(st, lt_shapes_tokenizer(&tokenizer, &config, &ids), done);
    LT_TRY_GOTO(st, write_bytes(dir, "tokenizer.json", &tokenizer), done);
    LT_TRY_GOTO(st, write_bytes(dir, "tokenizer_config.json", &config), done);
    LT_TRY_GOTO(st, write_value(dir, "config.json", families[f].config(&ids)), done);
    LT_TRY_GOTO(st, write_value(dir, "generation_config.json", generation_config(&ids)), done);
    LT_TRY_GOTO(st,
                write_value(dir, "preprocessor_config.json",
                            processor_config("image_processor_type", "Qwen2VLImageProcessorFast")),
                done);
    LT_TRY_GOTO(st,
                write_value(dir, "video_preprocessor_config.json",
                            processor_config("video_processor_type", "Qwen3VLVideoProcessor")),
                done);
done:
    lt_buf_deinit(&tokenizer);
    lt_buf_deinit(&config);
    return st;
}
