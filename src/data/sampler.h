// SPDX-License-Identifier: Apache-2.0
// The order of samples: BaseRandomBatchSampler, resumable from a count of consumed samples.
#ifndef LT_DATA_SAMPLER_H
#define LT_DATA_SAMPLER_H

#include "base/log.h"
#include "base/memory.h"

typedef struct lt_sampler_opts {
    int64_t n_samples;   // N: rows of the data set
    int64_t micro_batch; // m
    int64_t dp_size;     // D: data-parallel ranks
    int64_t dp_rank;     // r
    bool shuffle;
    bool data_sharding; // every rank shuffles a contiguous share of its own
    bool even; // lathe's own: without rows that fill no global micro-batch, so ranks never part
    int64_t consumed; // c: samples consumed by all ranks so far
} lt_sampler_opts;
/** shuffle, one rank. */
lt_sampler_opts lt_sampler_opts_default(void);

typedef struct lt_sampler lt_sampler;
/**
 * source   MindSpeed-MM's BaseRandomBatchSampler; spec data-pipeline 13.1. The seed of a pass is
 *          its epoch number: training.seed plays no part
 * errors   LT_ERR_CONFIG: a size below 1, a rank out of range, a data set smaller than one global
 *          micro-batch, a cursor that the epoch can never be finished from. Warns once on `log`
 *          when N isn't a multiple of m*D, since ranks then part.
 */
LT_NODISCARD lt_status lt_sampler_create(const lt_sampler_opts *opts, const lt_log *log,
                                         lt_sampler **out);
void lt_sampler_destroy(lt_sampler *sampler);
/**
 * The next micro-batch: rows [micro_batch]. Goes on from epoch to epoch for ever. errors:
 * LT_ERR_MEMORY, LT_ERR_CONFIG
 */
LT_NODISCARD lt_status lt_sampler_next(lt_sampler *sampler, int64_t *rows);
/** m, as created. */
int64_t lt_sampler_micro_batch(const lt_sampler *sampler);
/**
 * c, after what lt_sampler_next has given out. Restoring it (opts.consumed) is all that a resume
 * needs.
 */
int64_t lt_sampler_consumed(const lt_sampler *sampler);
/** Epoch that the next micro-batch's cursor lies in: c div A. */
int64_t lt_sampler_epoch(const lt_sampler *sampler);
#endif
