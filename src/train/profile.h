// SPDX-License-Identifier: Apache-2.0
// tools.profile: a window of steps is recorded and written as a trace.
#ifndef LT_TRAIN_PROFILE_H
#define LT_TRAIN_PROFILE_H

#include "exec/trace.h"
#include "train/config/config.h"

typedef struct lt_profile lt_profile;
/**
 * *out is NULL when nothing is to be recorded on this rank.
 * keeps    cfg, device and log
 */
LT_NODISCARD lt_status lt_profile_open(const lt_config *cfg, int rank, lt_device *device,
                                       const lt_log *log, lt_profile **out);
/** Accepts NULL. */
void lt_profile_close(lt_profile *p);
/** For the executor's options. Accepts NULL. */
lt_watch lt_profile_watch(const lt_profile *p);
/**
 * Whether step number `index` of this run (from 0) is the window's first, so that recording begins
 * with it; whether it is the last. All steps before have ended then. Accept NULL.
 */
bool lt_profile_begins(const lt_profile *p, int64_t index);
bool lt_profile_ends(const lt_profile *p, int64_t index);
void lt_profile_start(lt_profile *p);
/** Recording, and not yet written. Accepts NULL. */
bool lt_profile_is_on(const lt_profile *p);
/**
 * All steps have ended: write SAVE_PATH/rank_R_steps_A-B.json (iterations, from 1) for Perfetto,
 * the tables beside it as .txt, and a line to the log: how much of the time was computing.
 * errors   LT_ERR_IO
 */
LT_NODISCARD lt_status lt_profile_write(lt_profile *p, int64_t first_iteration,
                                        int64_t last_iteration);
#endif
