// SPDX-License-Identifier: Apache-2.0
// config.json of InternVL, in the form of the published remote code and in the library's own.
// Internal to src/model.
#ifndef LT_MODEL_INTERN_CONFIG_H
#define LT_MODEL_INTERN_CONFIG_H

#include "model/config.h"
#include "model/json_field.h"

/**
 * All of a config.json. remote: model_type internvl_chat (llm_config), else internvl (text_config).
 * source   spec/models.md 2.3. drop_path_rate is not looked at: lathe trains without drop path
 * errors   LT_ERR_CONFIG, LT_ERR_UNSUPPORTED: file, key path, value, rule
 */
LT_NODISCARD lt_status lt_intern_read_config(const lt_json_scope *root, bool remote,
                                             lt_model_config *out);
#endif
