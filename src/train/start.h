// SPDX-License-Identifier: Apache-2.0
// What a run says of itself before its first step, and where it writes.
#ifndef LT_TRAIN_START_H
#define LT_TRAIN_START_H

#include "optim/schedule.h"
#include "train/forecast.h"

/** Device, parameters by module, rates, data, loss, memory: one fact a line. */
LT_NODISCARD lt_status lt_start_text(const lt_engine *e, const lt_source *source,
                                     const lt_schedule *schedule, const lt_progress *progress,
                                     const lt_forecast *ahead, double matmul_rate, lt_buf *out);
/**
 * Make training.save, if it is set, before any work is done for it.
 * errors   LT_ERR_IO: it cannot be made, or not be written to
 */
LT_NODISCARD lt_status lt_make_save_folder(const lt_config *cfg);
/**
 * lathe.run_dir, else training.save, else runs/. errors: LT_ERR_CONFIG when it does not fit `bytes`
 */
LT_NODISCARD lt_status lt_run_directory(const lt_config *cfg, char *out, size_t bytes);
#endif
