// SPDX-License-Identifier: Apache-2.0
// The table of model families. A new family is a new file with a row of its own, and one line in
// families.c.
#ifndef LT_MODEL_FAMILY_H
#define LT_MODEL_FAMILY_H

#include "model/assemble.h"
#include "model/json_field.h"

struct lt_family {
    const char *model_type; /* what config.json says */
    /*
     * the whole config.json, model_type already known; fills all of `out` but family and
     * model_type
     */
    lt_status (*read)(const lt_json_scope *root, lt_model_config *out);
    /*
     * parameters in published order, then blocks in forward order; sets loss_block, logits_block,
     * embed_param, head_param
     */
    void (*build)(lt_assembly *a);
    const char *head_name;   /* the head's name in checkpoints: "lm_head.weight" */
    bool experts_transposed; /* published files hold experts as [E, in, out]: decides where a shape
                                fits both */
    const char *old_head_name; /* in older ones; NULL: the same */
    bool on_gpu;               /* its golden models have passed on one */
};

/** The table, and how many rows it has. */
extern const lt_family *const lt_families[];
extern const int lt_n_families;

extern const lt_family lt_family_qwen3_vl, lt_family_qwen3_vl_moe, lt_family_internvl,
    lt_family_internvl_chat, lt_family_qwen3_5, lt_family_qwen3_5_moe;
#endif
