// SPDX-License-Identifier: Apache-2.0
// A micro-batch made up from a seed, for tests and benchmarks that need no data set: samples of
// text with pictures in them.
#ifndef LT_TESTS_MADE_BATCH_H
#define LT_TESTS_MADE_BATCH_H

#include "base/memory.h"
#include "graph/batch.h"
#include "model/config.h"

typedef struct made_sample {
    int64_t text;   /* text tokens after the pictures */
    int64_t images; /* each rows x cols patches */
    int64_t rows, cols;
} made_sample;

typedef struct made_batch {
    lt_arena *arena;
    lt_batch_view view;
} made_batch;

/**
 * Tokens of the text are random; every text token but the first of a sample is a target; kappa = 1
 * / targets.
 * pixels are standard normal. rows and cols must be multiples of the merge size.
 */
LT_NODISCARD lt_status made_batch_create(const lt_model_config *config, const made_sample *samples,
                                         int64_t n, uint64_t seed, made_batch *out);
void made_batch_destroy(made_batch *b);
#endif
