// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: starting them, and what they tell one another between steps.
#ifndef LT_TRAIN_TEAM_H
#define LT_TRAIN_TEAM_H

#include "base/log.h"
#include "parallel/mesh.h"
#include "train/config/config.h"

/** A rank's work. ranks: NULL where there is but one. */
typedef lt_status (*lt_team_fn)(void *ctx, const lt_ranks *ranks);
/**
 * As many ranks as the configuration was loaded for, in the mesh of its section `parallel`: threads
 * of this process, or, where `world` is not NULL, processes that this one is one of.
 * errors   threads: that of the first rank to fail, with its number; processes: this rank's own;
 *          LT_ERR_CONFIG when a rank has another configuration than the first one
 */
LT_NODISCARD lt_status lt_team_run(const lt_config *cfg, lt_group *world, lt_team_fn fn, void *ctx);

/** The first rank's place, without the others: for those who only plan. */
lt_ranks lt_team_first(const lt_config *cfg);

static inline bool lt_is_first(const lt_ranks *r)
{
    return !r || r->rank == 0;
}
static inline int64_t lt_streams(const lt_ranks *r)
{
    return r ? r->dp_size : 1;
}

/** A log whose lines begin with the rank's name, unless it is the first one's. */
typedef struct lt_rank_log {
    lt_log log;
    const lt_log *to;
    const char *name;
} lt_rank_log;
/** keeps   ranks' world and `to`; *out stays where it is */
void lt_rank_log_init(lt_rank_log *out, const lt_ranks *r, const lt_log *to);

/** What a step's micro-batches hold: of this rank, and then of all. */
typedef struct lt_team_counts {
    double failed; /* ranks without a batch, whose data are bad */
    double targets, labels, tokens, patches, flops;
} lt_team_counts;
/** Sums over ranks. */
LT_NODISCARD lt_status lt_team_sum(const lt_ranks *r, lt_team_counts *counts);
/** *yes becomes true on all ranks when it is on one. */
LT_NODISCARD lt_status lt_team_any(const lt_ranks *r, bool *yes);
/** *value becomes the largest of all ranks. */
LT_NODISCARD lt_status lt_team_most(const lt_ranks *r, double *value);
/** *value becomes its sum over ranks. */
LT_NODISCARD lt_status lt_team_add(const lt_ranks *r, double *value);
#endif
