// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face checkpoint as plain numbers, held to the rules that models rely on.
#ifndef LT_MODEL_CONFIG_H
#define LT_MODEL_CONFIG_H

#include "base/status.h"

enum { LT_MAX_DEEPSTACK = 16, LT_MAX_EOS = 8, LT_MAX_DENSE = 128, LT_MAX_LAYERS = 1024 };
enum { LT_NO_TOKEN = -1 };

/**
 * A family of models: which model_type values it answers to, how to read their config.json and how
 * to build them.
 */
typedef struct lt_family lt_family;

/** Routed experts; all zero in a dense model. */
typedef struct lt_moe_config {
    int64_t experts, experts_per_token, intermediate; /* E, k, Ie */
    int64_t sparse_step; /* layer i may be sparse when (i + 1) mod sparse_step = 0 */
    bool renormalise;    /* norm_topk_prob */
    bool router_logits;  /* output_router_logits: the balance loss is added */
    double aux_coef;     /* router_aux_loss_coef */
    int64_t shared;      /* width of the shared expert, Is; 0: there is none */
    int32_t n_dense, dense[LT_MAX_DENSE]; /* mlp_only_layers */
} lt_moe_config;

/** Linear attention (gated DeltaNet); all zero in a decoder without. Hk, Hv, Dk, Dv, taps. */
typedef struct lt_gdn_config {
    int64_t key_heads, value_heads, key_dim, value_dim, taps;
    int32_t chunk;              /* tokens worked on together; no field of the file. 0: a default */
    bool linear[LT_MAX_LAYERS]; /* which layers have it instead of attention */
} lt_gdn_config;

/** The decoder. Letters of spec/models.md, section 0: H, L, nH, nK, D, I, V. */
typedef struct lt_text_config {
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
    int64_t max_position; /* 0: the file does not say */
    double eps, rope_theta, initializer_range;
    int64_t rotary;           /* numbers of a head that are turned: head_dim, or a part of it */
    int32_t mrope_section[3]; /* frequencies on each axis, temporal first; sum rotary / 2 */
    bool mrope_interleaved;
    /* rows whose logits are alive together; no field of the file. 0: a default */
    int64_t loss_rows;
    bool deterministic; /* gradients repeat bit for bit on every device; no field of the file */
    lt_moe_config moe;
    lt_gdn_config gdn;
    bool plus_one;    /* norms scale by 1 + w */
    bool output_gate; /* q_proj has a gate beside each query */
    bool mtp; /* the module that predicts the token after next is trained; no field of the file */
} lt_text_config;

/** What InternViT has and the Qwen tower lacks; all zero there. source: spec/models.md 2.3 */
typedef struct lt_intern_config {
    bool class_token;  /* a row in front of the patches of each tile; positions are learned */
    bool remote_names; /* weights are named as the remote code does, with q, k, v as one */
    bool rms_norm;     /* rms_norm instead of layer_norm in the blocks */
    bool qkv_bias, qk_norm;
    bool final_norm;    /* use_mean_pooling false: one more norm behind the last block */
    double layer_scale; /* its first values */
    /* how pictures are cut into tiles, where a run does not say otherwise */
    bool dynamic_tiles, thumbnail, pad_square;
    int64_t min_tiles, max_tiles;
} lt_intern_config;

/** The vision tower. C, Lv, nV, d = C / nV, Iv. */
typedef struct lt_vision_config {
    int64_t hidden, depth, heads, head_dim, intermediate, out_hidden;
    int64_t patch, temporal_patch, merge, channels;
    int64_t position_rows, grid; /* num_position_embeddings = grid * grid */
    double rope_theta, eps, initializer_range;
    bool deterministic; /* as in the decoder */
    lt_intern_config intern;
    int32_t n_deepstack;
    int32_t deepstack[LT_MAX_DEEPSTACK]; /* the vision block before each merger; ascending */
} lt_vision_config;

typedef struct lt_model_config {
    const lt_family *family;
    char model_type[48];
    lt_text_config text;
    lt_vision_config vision;
    bool tied; /* tie_word_embeddings: the top level's word, else text_config's, else false */
    const char *tied_key; /* the key path of that word; "" when the file has none */
    /* below text.vocab, or LT_NO_TOKEN where the family has none */
    int32_t image_token, video_token, vision_start, vision_end;
    int32_t bos, pad; /* or LT_NO_TOKEN */
    int32_t eos[LT_MAX_EOS], n_eos;
    char dtype[16]; /* of the stored weights, "bfloat16"; "" when the file does not say */
} lt_model_config;

/** What a run cuts off. 0: as the file says. */
typedef struct lt_model_cut {
    int64_t text_layers;  /* keep the first so many decoder layers */
    int64_t vision_depth; /* keep the first so many vision blocks, and the mergers among them */
} lt_model_cut;

/**
 * Read the text of a config.json. A config keeps no pointer into `text`.
 * source   spec/models.md 2.1; both rope_theta + rope_scaling and rope_parameters;
 *          num_local_experts for num_experts
 * in       where: what messages call the file (its path); cut may be NULL
 * errors   LT_ERR_FORMAT (not JSON), LT_ERR_CONFIG (a field is missing, of a wrong type or against
 *          a rule: the message gives the file, the key path, the value and the rule),
 *          LT_ERR_UNSUPPORTED (unknown model_type: lists those that are known)
 */
LT_NODISCARD lt_status lt_model_config_parse(const char *text, size_t len, const char *where,
                                             const lt_model_cut *cut, lt_model_config *out);
/** The same for FOLDER/config.json. errors also LT_ERR_NOT_FOUND, LT_ERR_IO */
LT_NODISCARD lt_status lt_model_config_load(const char *folder, const lt_model_cut *cut,
                                            lt_model_config *out);
/** Whether its golden models have passed on a GPU; others stay on the CPU. */
bool lt_model_on_gpu(const lt_model_config *config);
/** Older checkpoints of the family store the head under this name; NULL: there are none. */
const char *lt_model_old_head_name(const lt_model_config *config);
/** Values in one patch row: channels * temporal_patch * patch * patch. */
int64_t lt_model_config_pixel_width(const lt_model_config *c);
#endif
