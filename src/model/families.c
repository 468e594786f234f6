// SPDX-License-Identifier: Apache-2.0
// The families that config.json may name.
#include "model/family.h"

const lt_family *const lt_families[] = {
    &lt_family_qwen3_vl,    &lt_family_qwen3_vl_moe, &lt_family_qwen3_5,
    &lt_family_qwen3_5_moe, &lt_family_internvl,     &lt_family_internvl_chat,
};
const int lt_n_families = (int)(sizeof lt_families / sizeof lt_families[0]);
