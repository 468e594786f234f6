// SPDX-License-Identifier: Apache-2.0
// Qwen3-VL-MoE: the decoder's MLPs are routed experts, in all layers or in some.
#include "model/family.h"
#include "model/qwen_config.h"
#include "model/qwen_decoder.h"

static lt_status read_config(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(lt_qwen_read_config(root, &lt_qwen3_vl_form, out));
    if (out->text.moe.experts == 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: text_config.num_experts (or num_local_experts) is missing or 0; "
                       "without experts the model_type is qwen3_vl",
                       root->where);
    }
    return LT_OK;
}

// The published files hold experts as [E, in, out] (spec/models.md 3.2).
const lt_family lt_family_qwen3_vl_moe = {.model_type = "qwen3_vl_moe",
                                          .read = read_config,
                                          .build = lt_qwen_vl_build,
                                          .head_name = "lm_head.weight",
                                          .experts_transposed = true};
