// SPDX-License-Identifier: Apache-2.0
// What a run writes about itself: metrics.jsonl, one object a step; tensorboard/, the same for
// TensorBoard; and loss.svg at the end.
#ifndef LT_TRAIN_METRICS_H
#define LT_TRAIN_METRICS_H

#include "base/log.h"
#include "base/text.h"
#include "exec/exec.h"

/** One step, all of this rank. */
typedef struct lt_step_metrics {
    int64_t iteration, consumed_samples, tokens, targets, patches;
    double loss, grad_norm, lr;
    double step_s, wait_s, update_s; /* whole step; waiting for data; the optimizer */
    double tokens_per_s, model_flops,
        mfu;              /* mfu: share of the measured matrix-product rate; NaN: not measured */
    int64_t memory_bytes; /* device pool */
    int64_t host_bytes;   /* the pool in host memory */
    int32_t ranks;        /* more than 1: the next two are written, too */
    double comm_s;        /* gathers and sums that nothing hides, on the first rank */
    int64_t most_bytes;   /* memory_bytes of the rank that has most */
    int64_t own_tokens;   /* of the first rank: those that `use` counts */
    bool predicts_next;   /* the token after next has a loss, too */
    double mtp_loss;      /* that, before its weight */
    double aux_loss;      /* the balance loss, before its weight */
    lt_expert_use use;    /* 0 layers without experts: then neither is written */
} lt_step_metrics;

/** The balance loss of a sparse layer by itself: E sum_e F_e P_e, over the first rank's tokens. */
double lt_layer_balance(const lt_step_metrics *s, int64_t layer);

typedef struct lt_metrics lt_metrics;
/** Appends to DIR/metrics.jsonl (made if need be). A resumed run drops lines past `iteration`. */
LT_NODISCARD lt_status lt_metrics_open(const char *dir, int64_t iteration, lt_metrics **out);
LT_NODISCARD lt_status lt_metrics_step(lt_metrics *m, const lt_step_metrics *s);
LT_NODISCARD lt_status lt_metrics_validation(lt_metrics *m, int64_t iteration, double loss);
/** Draws DIR/loss.svg from all steps seen, flushes, closes. Accepts NULL. */
LT_NODISCARD lt_status lt_metrics_close(lt_metrics *m);
#endif
