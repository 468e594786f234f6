// SPDX-License-Identifier: Apache-2.0
// Settings of the parts of a run, read off the configuration: learning rate, sample order, loss.
#ifndef LT_TRAIN_FROM_CONFIG_H
#define LT_TRAIN_FROM_CONFIG_H

#include "data/sampler.h"
#include "optim/schedule.h"
#include "train/config/config.h"
#include "train/feed.h"

lt_loss_type lt_config_loss(const lt_config *cfg);
/** Samples of one step on all ranks. */
int64_t lt_config_global_batch(const lt_config *cfg, int64_t streams);
/** Steps and rates for a data set of so many rows. errors: LT_ERR_CONFIG: train_epochs of none */
LT_NODISCARD lt_status lt_config_schedule(const lt_config *cfg, int64_t rows, int64_t streams,
                                          lt_schedule *out);
/** The order of so many rows; the caller says whose rank and from where on. */
lt_sampler_opts lt_config_sampler(const lt_config *cfg, int64_t rows);
#endif
