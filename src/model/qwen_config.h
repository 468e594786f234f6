// SPDX-License-Identifier: Apache-2.0
// config.json of the Qwen3-VL families: text_config, vision_config and the ids at the top. Internal
// to src/model.
#ifndef LT_MODEL_QWEN_CONFIG_H
#define LT_MODEL_QWEN_CONFIG_H

#include "model/config.h"
#include "model/json_field.h"

/** What a family's files leave out, and how its decoder turns positions. */
typedef struct lt_qwen_form {
    bool one_axis;      /* plain rotary positions; else three axes, interleaved */
    int32_t section[3]; /* of three axes */
    int64_t head_dim;
    double rotary_share; /* partial_rotary_factor */
    bool deepstack;      /* the tower may have deepstack mergers; without a list it has three */
    int32_t image_token, video_token, vision_start, vision_end;
} lt_qwen_form;
extern const lt_qwen_form lt_qwen3_vl_form, lt_qwen3_5_form, lt_qwen3_form;

/**
 * All of a config.json with a Qwen tower, experts included (0 of them in a dense model). source:
 * spec/models.md 2.1
 */
LT_NODISCARD lt_status lt_qwen_read_config(const lt_json_scope *root, const lt_qwen_form *form,
                                           lt_model_config *out);

/* ---- its parts, for other families around a Qwen3 decoder ---- */

/**
 * The decoder's fields. text: its path and outer object are set, `outer` may have fields that were
 * written one level up.
 */
LT_NODISCARD lt_status lt_qwen_read_text(const lt_json_scope *text, const lt_qwen_form *form,
                                         lt_text_config *c);
/** tied and tied_key. text_key: the key path of the text config's own word; a literal */
LT_NODISCARD lt_status lt_qwen_read_tied(const lt_json_scope *root, const lt_json_scope *text,
                                         const char *text_key, lt_model_config *out);
/** An id below `below`; `fallback` when the key is absent, which may be LT_NO_TOKEN. */
LT_NODISCARD lt_status lt_qwen_read_token(const lt_json_scope *scope, const char *key,
                                          int32_t fallback, int64_t below, int32_t *out);
LT_NODISCARD lt_status lt_qwen_read_eos(const lt_json_scope *text, lt_model_config *out);
void lt_qwen_read_dtype(const lt_json_scope *text, lt_model_config *out);
#endif
