// SPDX-License-Identifier: Apache-2.0
// The families that config.json may name. Rows with nothing but a name are known, and not built
// yet.
#include "model/family.h"

static const lt_family qwen3_5 = {.model_type = "qwen3_5"};
static const lt_family qwen3_5_moe = {.model_type = "qwen3_5_moe"};

const lt_family *const lt_families[] = {
    &lt_family_qwen3_vl, &lt_family_qwen3_vl_moe, &qwen3_5,
    &qwen3_5_moe,        &lt_family_internvl,     &lt_family_internvl_chat,
};
const int lt_n_families = (int)(sizeof lt_families / sizeof lt_families[0]);
