// SPDX-License-Identifier: Apache-2.0
// How a tensor is made of others while a model is converted: stacked, turned, cut.
#ifndef LT_CKPT_CONVERT_RECIPE_H
#define LT_CKPT_CONVERT_RECIPE_H

#include "ckpt/convert.h"

/** The one matrix that is held at a time while a file is written. */
typedef struct lt_matrix {
    const void *owner;
    int64_t index;
    uint8_t *plain, *turned;
    size_t room;
} lt_matrix;
void lt_matrix_deinit(lt_matrix *m);

/**
 * A list of matrices [rows, cols], of which the tensor is elements from `from` on: each matrix is
 * `stack` parts one below the other, or lies in the only part behind those before it.
 */
typedef struct lt_recipe {
    const lt_st_tensor *const *parts;
    int32_t n_parts, stack;
    int64_t rows, cols;
    bool turned; /* the matrices are wanted as [cols, rows] */
    int64_t from;
    size_t size; /* bytes of an element */
    lt_matrix *matrix;
} lt_recipe;

/** A fetch: ctx is an lt_recipe. Gives the parts' own dtype. */
LT_NODISCARD lt_status lt_recipe_fetch(void *ctx, int64_t first, int64_t n, void *dst);
/** A fetch of a tensor as it is: ctx is an lt_st_tensor. */
LT_NODISCARD lt_status lt_raw_fetch(void *ctx, int64_t first, int64_t n, void *dst);

/** "PATH.experts.7.up_proj.weight" */
typedef struct lt_expert_name {
    size_t path; /* length of "PATH.experts" */
    int64_t expert;
    int which; /* 0 gate, 1 up, 2 down */
} lt_expert_name;
bool lt_expert_name_of(const char *name, lt_expert_name *out);
/** "PATH.experts.gate_up_proj" or "....down_proj" */
LT_NODISCARD lt_status lt_merged_name(lt_arena *arena, const char *name, const lt_expert_name *e,
                                      char **out);
/** Qwen3.5's experts that lie the other way in its checkpoints: spec 3.7.4 */
bool lt_is_swapped(const char *name);

/** Where a conversion looks for experts that stand one by one, and what becomes of their names. */
typedef struct lt_expert_rule {
    const char *path;  /* names begin so; NULL: no experts are merged */
    const char *strip; /* left out of the front of every name in the checkpoint */
    bool flat;         /* (E, a, b) is stored as (E a, b) */
} lt_expert_rule;
/** errors  LT_ERR_UNSUPPORTED: EXPERT_MERGE of another family; LT_ERR_FORMAT: no config.json */
LT_NODISCARD lt_status lt_expert_rule_of(const lt_convert_opts *o, const lt_hf *hf,
                                         lt_expert_rule *out);
/** The key of a tensor in the checkpoint, without its "model.". */
LT_NODISCARD lt_status lt_dcp_name(const lt_convert_opts *o, const lt_expert_rule *rule,
                                   lt_arena *arena, const char *name, char **out);
bool lt_is_fused(const lt_convert_opts *o, const char *name);
#endif
