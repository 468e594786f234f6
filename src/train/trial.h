// SPDX-License-Identifier: Apache-2.0
// What a step of an engine with its present settings needs, without running it: bytes and seconds.
#ifndef LT_TRAIN_TRIAL_H
#define LT_TRAIN_TRIAL_H

#include "plan/cost.h"
#include "train/engine.h"

/** Layout of the state as the run will have it. */
LT_NODISCARD lt_status lt_trial_state(const lt_engine *e, lt_state_layout **out);
/** The program of a batch of that capacity. */
LT_NODISCARD lt_status lt_trial_program(const lt_engine *e, const lt_state_layout *state,
                                        lt_program_mode mode, const lt_extents *capacity,
                                        lt_program **out);
/** What its steps are timed with. */
lt_cost_opts lt_trial_cost_opts(const lt_engine *e, const lt_extents *batch, const lt_rates *rates);
/** Rates of the device that the engine computes on. */
const lt_rates *lt_trial_rates(const lt_engine *e);

typedef struct lt_trial {
    int64_t device, host; /* bytes */
    double step_s;
} lt_trial;
/** in       batch: counts of a micro-batch */
LT_NODISCARD lt_status lt_trial_run(const lt_engine *e, const lt_extents *batch,
                                    const lt_rates *rates, lt_trial *out);

/**
 * lathe.policy auto: what layers keep, so that a step is as fast as `limit` bytes of the device
 * allow. Layers at the front give up first: what the others keep is gone before the backward comes
 * to them. Inputs of layers that keep nothing else wait on the host where that helps.
 * Sets e->policy and e->offload; nothing fits: the settings with the least memory.
 */
LT_NODISCARD lt_status lt_trial_choose(lt_engine *e, const lt_extents *batch, int64_t limit,
                                       const lt_rates *rates);
/** The policies of layers as lathe.policy takes them: "full:14,lean". */
LT_NODISCARD lt_status lt_trial_policy_text(const lt_engine *e, lt_buf *out);
#endif
