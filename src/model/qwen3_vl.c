// SPDX-License-Identifier: Apache-2.0
// Qwen3-VL, dense.
#include "model/family.h"
#include "model/qwen_config.h"
#include "model/qwen_decoder.h"

static lt_status read_config(const lt_json_scope *root, lt_model_config *out)
{
    LT_TRY(lt_qwen_read_config(root, &lt_qwen3_vl_form, out));
    if (out->text.moe.experts > 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: text_config.num_experts is %lld, but model_type qwen3_vl has none; "
                       "with experts it is qwen3_vl_moe",
                       root->where, (long long)out->text.moe.experts);
    }
    return LT_OK;
}

const lt_family lt_family_qwen3_vl = {.model_type = "qwen3_vl",
                                      .read = read_config,
                                      .build = lt_qwen_vl_build,
                                      .head_name = "lm_head.weight",
                                      .on_gpu = true};
