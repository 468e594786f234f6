// SPDX-License-Identifier: Apache-2.0
// Threads that prepare micro-batches ahead of the step, in the sampler's order.
#ifndef LT_DATA_LOADER_H
#define LT_DATA_LOADER_H

#include "base/log.h"
#include "data/collate.h"
#include "data/sampler.h"

/**
 * Encode row `row` of the data set: its samples (several when it is a packed one), lt_sample, are
 * appended to `samples`. Memory comes from `arena` (it lives until the micro-batch is collated) or
 * lives longer than the loader.
 * threads  called by several workers at once
 */
typedef lt_status (*lt_encode_fn)(void *ctx, int64_t row, lt_arena *arena, lt_vec *samples);

typedef struct lt_loader_opts {
    int n_workers;    // threads; 0: work is done inside lt_loader_acquire
    int64_t prefetch; // micro-batches made ahead of the one handed out; at least 1
    int64_t max_held; // micro-batches held between acquire and release (an accumulation group)
    lt_encode_fn encode;
    void *encode_ctx;
    lt_collate_opts collate;
    int64_t n_rows; // above 0: a row that turns out bad is replaced by the next good one of so many
    const lt_log *log; // says which; may be NULL
} lt_loader_opts;
/** 2 workers, prefetch 2, one batch held. */
lt_loader_opts lt_loader_opts_default(void);

typedef struct lt_loader lt_loader;
/** keeps `sampler` until destroyed: nobody else may use it. */
LT_NODISCARD lt_status lt_loader_create(const lt_loader_opts *opts, lt_sampler *sampler,
                                        lt_loader **out);
/** Stops the workers after the micro-batch that each is at. Accepts NULL. */
void lt_loader_destroy(lt_loader *loader);
/**
 * The next micro-batch in the sampler's order; waits for it. Ours until lt_loader_release; at most
 * max_held at a time.
 * errors   the failure of that micro-batch (file, record, path in its message); it stays: later
 *          calls fail with it too
 * threads  one consumer
 */
LT_NODISCARD lt_status lt_loader_acquire(lt_loader *loader, const lt_batch **out);
void lt_loader_release(lt_loader *loader, const lt_batch *batch);
/**
 * The sampler's cursor after the last micro-batch handed out: what a checkpoint stores. Prefetched
 * ones don't count.
 */
int64_t lt_loader_consumed(const lt_loader *loader);
/** Rows that were replaced since the loader was made. */
int64_t lt_loader_replaced(const lt_loader *loader);
/** Seconds that acquire has waited since the loader was made. */
double lt_loader_waited_s(const lt_loader *loader);
#endif
