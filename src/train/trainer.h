// SPDX-License-Identifier: Apache-2.0
// The training loop: batches, steps, log lines, metrics, checkpoints.
#ifndef LT_TRAIN_TRAINER_H
#define LT_TRAIN_TRAINER_H

#include "comm/comm.h"
#include "train/config/config.h"

#include <stdatomic.h>

/** Where a run stands, for a progress bar. */
typedef struct lt_train_status {
    int64_t iteration, n_iterations, first_iteration;
    double seconds; /* since the first step of this run began */
    double loss, tokens_per_s, mfu,
        wait_share; /* of the last step; mfu NaN when no rate was measured */
} lt_train_status;

/** The run's surroundings. Functions may be NULL. */
typedef struct lt_train_sinks {
    void *ctx;
    void (*line)(void *ctx, const char *text);                /* a line for standard output */
    void (*status)(void *ctx, const lt_train_status *status); /* after every step */
    const lt_log *log;
    /* set by Ctrl-C: the step is finished, a checkpoint saved, the run ends */
    const atomic_bool *stop;
    lt_group *world; /* this process is one of these ranks; NULL: all ranks are threads of it */
} lt_train_sinks;

typedef struct lt_train_summary {
    int64_t iterations; /* done in all */
    bool stopped;       /* by sinks.stop */
    double first_loss, last_loss;
    char run_dir[1024]; /* metrics.jsonl and loss.svg */
    char saved[1024];   /* the last checkpoint; "" for none */
} lt_train_summary;

/**
 * Train as the configuration says, on as many ranks as it was loaded for. The first rank speaks and
 * writes for all.
 * errors   LT_ERR_NUMERIC when loss or gradient norm is not finite (nothing is saved then); those
 *          of all parts
 */
LT_NODISCARD lt_status lt_train(const lt_config *cfg, const lt_train_sinks *sinks,
                                lt_train_summary *out);
#endif
