// SPDX-License-Identifier: Apache-2.0
// Expert matrices on their way back into a checkpoint, in the layout that it had.
#ifndef LT_TRAIN_EXPERT_ITEMS_H
#define LT_TRAIN_EXPERT_ITEMS_H

#include "ckpt/hf_experts.h"
#include "ckpt/hf_save.h"
#include "train/engine.h"

/**
 * One matrix of one expert, shared by all items of a save: files are written from front to back, so
 * each is fetched once. Starts as {0}; its memory is the arena's.
 */
typedef struct lt_expert_matrix {
    float *values;
    int64_t room, expert;
    int32_t param;
} lt_expert_matrix;

/**
 * Push the lt_hf_items of an expert parameter: the tensors of the checkpoint that the run came
 * from, or without one the published layout of the family. A frozen parameter is written from that
 * file.
 * in       like: name, dtypes and so on of the parameter as it is in memory
 */
LT_NODISCARD lt_status lt_expert_items(lt_engine *e, lt_arena *arena, int32_t param,
                                       const lt_hf_item *like, lt_expert_matrix *matrix,
                                       lt_vec *items);
#endif
