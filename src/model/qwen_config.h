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
#endif
