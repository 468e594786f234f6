// SPDX-License-Identifier: Apache-2.0
// config.json of the Qwen3-VL families: text_config, vision_config and the ids at the top. Internal
// to src/model.
#ifndef LT_MODEL_QWEN_CONFIG_H
#define LT_MODEL_QWEN_CONFIG_H

#include "model/config.h"
#include "model/json_field.h"

/**
 * All of a Qwen3-VL config.json, experts included (0 of them in a dense model). source:
 * spec/models.md 2.1
 */
LT_NODISCARD lt_status lt_qwen_read_config(const lt_json_scope *root, lt_model_config *out);

/* ---- its parts, for other families around a Qwen3 decoder ---- */

/**
 * The decoder's fields. one_axis: plain rotary positions, else Qwen3-VL's three axes. text: its
 * path and outer object are set, `outer` may have fields that were written one level up.
 */
LT_NODISCARD lt_status lt_qwen_read_text(const lt_json_scope *text, bool one_axis,
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
