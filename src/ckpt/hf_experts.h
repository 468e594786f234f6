// SPDX-License-Identifier: Apache-2.0
// Weights in the layouts that checkpoints have them in: as lathe has them, experts as transposed
// matrices, or a tensor for each expert.
#ifndef LT_CKPT_HF_EXPERTS_H
#define LT_CKPT_HF_EXPERTS_H

#include "ckpt/hf_folder.h"

typedef enum lt_hf_form {
    LT_HF_AS_IS,      /* one tensor of the same shape */
    LT_HF_TRANSPOSED, /* [E, in, out] for [E, out, in] */
    LT_HF_PER_EXPERT  /* PATH.experts.{e}.{gate_proj,up_proj,down_proj}.weight */
} lt_hf_form;

/**
 * How a weight stands in a folder. Its parts are the folder's tensors: one, or those of expert 0
 * (gate, up), of expert 1, ...
 */
typedef struct lt_hf_weight {
    lt_hf_form form;
    bool by_family; /* the shape fits both orientations: the family decided */
    int32_t rank;
    int64_t dim[LT_MAX_DIMS]; /* as lathe has it: [E, out, in] of an expert weight */
    int32_t n_parts;
    const lt_st_tensor *const *parts;
} lt_hf_weight;

/** Whether a parameter is a fused expert matrix: "....experts.gate_up_proj" or ".down_proj". */
bool lt_hf_is_experts(const char *name);

/** Whether a folder has a weight by that name, experts one by one included. */
bool lt_hf_has_weight(const lt_hf *hf, const char *name);

/**
 * Find a weight, check its shape, and mark its tensors as used. Of the two matrices of a layer
 * gate_up_proj decides the orientation of both; where it fits two ways (2I = H) down_proj does, and
 * where that is missing `transposed`, which the family says.
 *
 * source   spec/models.md 3.2
 * out      parts live in the arena
 * errors   those of lt_hf_need
 */
LT_NODISCARD lt_status lt_hf_find_weight(lt_hf *hf, lt_arena *arena, const char *name, int32_t rank,
                                         const int64_t *dim, bool transposed, lt_hf_weight *out);
/** Elements [first, first + n) in lathe's order. threads: any */
LT_NODISCARD lt_status lt_hf_weight_read(const lt_hf_weight *w, int64_t first, int64_t n,
                                         lt_dtype as, void *dst);

/** PER_EXPERT: the element in lathe's order with which a part begins; its own follow it. */
int64_t lt_hf_part_first(const lt_hf_weight *w, int32_t part);
#endif
