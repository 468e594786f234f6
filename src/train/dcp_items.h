// SPDX-License-Identifier: Apache-2.0
// What a run's distributed checkpoint consists of: the keys that the reference has, cut over ranks
// as parameters are.
#ifndef LT_TRAIN_DCP_ITEMS_H
#define LT_TRAIN_DCP_ITEMS_H

#include "ckpt/dcp_write.h"
#include "train/weights.h"

/** One part of a parameter that this rank writes: straight from the executor, or from a copy. */
typedef struct lt_dcp_source {
    lt_exec *exec;
    int32_t param;
    lt_state_part part;
    int64_t first, n;
    float *copy; /* [n]; NULL: not copied */
    /* experts that checkpoints have as [E, in, out]: one matrix at a time is turned */
    int64_t out, in; /* 0: as it lies */
    struct lt_dcp_matrix *matrix;
} lt_dcp_source;

typedef struct lt_dcp_items {
    lt_arena *arena;
    lt_dcp_plan plan;
    lt_vec sources; /* lt_dcp_source *, of this rank */
    int32_t own;    /* this rank's file */
    int64_t bytes;
    struct lt_dcp_matrix *matrix;
} lt_dcp_items;

/** lr: of the next step. The plan is the same on every rank, but for what is fetched. */
LT_NODISCARD lt_status lt_dcp_items_init(lt_engine *e, const lt_progress *progress, double lr,
                                         lt_dcp_items *out);
void lt_dcp_items_deinit(lt_dcp_items *items);
/** From here on nothing is read from the executor. errors: LT_ERR_MEMORY */
LT_NODISCARD lt_status lt_dcp_items_copy(lt_dcp_items *items);

/** Groups of parameters of one learning rate. */
typedef struct lt_dcp_groups {
    double *scale; /* [n] */
    int32_t *of;   /* [n_params], -1: frozen */
    int64_t n;
} lt_dcp_groups;
LT_NODISCARD lt_status lt_dcp_groups_of(const lt_engine *e, lt_arena *arena, lt_dcp_groups *out);
/** DIR/extra_state/extra_state_rank_R.pt as the reference lays it out. */
LT_NODISCARD lt_status lt_dcp_write_extra(const lt_engine *e, const lt_progress *progress,
                                          double lr, const char *dir);
#endif
