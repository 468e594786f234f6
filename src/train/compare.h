// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: the first step at which their figures part, the first weight that differs.
#ifndef LT_TRAIN_COMPARE_H
#define LT_TRAIN_COMPARE_H

#include "base/log.h"
#include "base/text.h"

typedef struct lt_comparison {
    int64_t n_steps, n_apart; /* steps that both runs logged; those with a figure apart */
    int64_t first_apart;      /* the first of them; 0: none */
    int64_t n_tensors,
        n_differ;     /* tensors of both checkpoints; those that differ, or are missing */
    char first[1024]; /* the first of these, as a sentence; "" for none */
    bool have_steps, have_weights; /* which of the two could be compared */
} lt_comparison;

/**
 * Logs (metrics.jsonl) aligned by step, and the weights of the last checkpoints by name. Tensors
 * are looked at in the order in which a forward pass meets them: vision, embeddings, layers by
 * their numbers, the rest.
 *
 * in       a, b: folders of runs or checkpoints, or files of metrics
 *          within: figures and weights that differ by no more than that, relative to the larger
 *          (of a tensor: to its largest element), count as equal; 0: the same bits
 * out      *out; text: what was found, line by line
 * errors   LT_ERR_NOT_FOUND when the two have neither logs nor weights in common; LT_ERR_FORMAT,
 *          LT_ERR_IO of their files
 */
LT_NODISCARD lt_status lt_compare_runs(const char *a, const char *b, double within,
                                       const lt_log *log, lt_comparison *out, lt_buf *text);
#endif
