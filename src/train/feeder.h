// SPDX-License-Identifier: Apache-2.0
// The micro-batches of a step: from the loader, with loss weights that all ranks agree on.
#ifndef LT_TRAIN_FEEDER_H
#define LT_TRAIN_FEEDER_H

#include "data/loader.h"
#include "model/model.h"
#include "train/feed.h"
#include "train/team.h"

typedef struct lt_feeder {
    const lt_ranks *ranks; /* NULL: one */
    const lt_model *model;
    const lt_log *log;
    lt_loss_type loss;
    float balance;             /* weight of the experts' balance loss in a micro-batch */
    lt_loader *const *loaders; /* [n_loaders] borrowed; micro-batch i comes from i % n_loaders */
    int32_t n_loaders;
    int64_t n;              /* micro-batches of a step on this rank */
    const lt_batch **batch; /* [n] held until lt_feeder_release */
    lt_batch_view *view;    /* [n] what the executor takes */
    double next_scale;      /* weight of the token after next (mtp_loss_scaling_factor) */
    float **kappa;          /* [n] weights of a batch's targets, then those of its next tokens */
    int64_t *room;          /* [n] targets that kappa has room for */
    lt_team_counts counts;  /* of the present step, on all ranks */
    int64_t own_tokens;     /* of this rank */
    bool warned_silent;
} lt_feeder;

/** For `n` micro-batches a step; its loaders are still to be set. */
lt_feeder lt_feeder_of(const lt_config *cfg, const lt_model *model, const lt_ranks *ranks,
                       const lt_log *log, int64_t n);
/** Takes the tables of a feeder whose first members are set; they live in `arena`. */
LT_NODISCARD lt_status lt_feeder_open(lt_feeder *f, lt_arena *arena);
/**
 * The batches of step `number`: view and counts.
 * errors   the loader's; on all ranks when it fails on one, LT_ERR_CANCELLED on the others
 */
LT_NODISCARD lt_status lt_feeder_fetch(lt_feeder *f, int64_t number);
/** Give the batches back. Accepts a feeder that was never opened. */
void lt_feeder_release(lt_feeder *f);
void lt_feeder_close(lt_feeder *f);
#endif
