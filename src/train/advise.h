// SPDX-License-Identifier: Apache-2.0
// Which changes make a run fit, and what each costs in time.
#ifndef LT_TRAIN_ADVISE_H
#define LT_TRAIN_ADVISE_H

#include "train/trial.h"

/**
 * Append the cheapest changes under which a batch fits into `limit` bytes, one a line, cheapest
 * first; where none does, what comes nearest, and how many ranks would do.
 * in       now: the run as it is
 * The engine's settings are those of before when this returns.
 */
LT_NODISCARD lt_status lt_advise(lt_engine *e, const lt_extents *batch, int64_t limit,
                                 const lt_rates *rates, const lt_trial *now, lt_buf *out);
#endif
