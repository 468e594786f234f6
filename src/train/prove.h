// SPDX-License-Identifier: Apache-2.0
// Proving a layout: the step of several ranks beside the step of one rank that does all the work.
#ifndef LT_TRAIN_PROVE_H
#define LT_TRAIN_PROVE_H

#include "train/config/config.h"

typedef struct lt_proof_sinks {
    void *ctx;
    void (*line)(void *ctx, const char *text); /* what was found, as it is found */
    const lt_log *log;
    /* Tests: before step `spoil_step` (0: never) the first element of parameter `spoil_param` is
       set to `spoil_value` on the ranks. */
    int64_t spoil_step;
    int32_t spoil_param;
    float spoil_value;
} lt_proof_sinks;

typedef struct lt_proof {
    int64_t compared, same_bits; /* losses, norms, gradients, weights */
    int64_t differ;              /* of them, by more than rounding */
    char first[600];             /* the first one that does, as a sentence; "" for none */
} lt_proof;

/**
 * Two optimizer steps from the same weights and the same rows: over the ranks that cfg was loaded
 * for, and on one rank that takes the micro-batches of all of them one after another. Compared
 * are loss, gradient norm and every gradient of both steps, and the weights at the end. Nothing is
 * saved.
 *
 * What may be apart is what sums in another order are: 5e-6 of a gradient's norm in f32, 1e-2 in
 * bf16, 1e-6 and 1e-3 of the loss; a hundred times that in the second step, whose weights differ
 * already; of the weights 3 % of what two steps can move them in f32, a half in bf16.
 * source   spec/parallelism-memory.md 7.1, rows F1 and F15 of 7.3
 * errors   LT_ERR_CONFIG for one rank; those of a run
 */
LT_NODISCARD lt_status lt_prove(const lt_config *cfg, const lt_proof_sinks *sinks, lt_proof *out);
#endif
