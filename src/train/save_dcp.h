// SPDX-License-Identifier: Apache-2.0
// Saving a run as a distributed checkpoint: every rank writes its own file, at once or from a copy
// while training goes on.
#ifndef LT_TRAIN_SAVE_DCP_H
#define LT_TRAIN_SAVE_DCP_H

#include "train/weights.h"

/** A save that is under way. */
typedef struct lt_dcp_save lt_dcp_save;

/** Whether checkpoints of this run are distributed ones: save_format, or what was loaded. */
bool lt_saves_dcp(const lt_engine *e);
/**
 * All ranks call it after the same step. With save_async it returns when this rank's state is
 * copied, and a thread writes; else when this rank's file is written.
 * in       lr: of the next step, before lr_scaling_plan
 * errors   LT_ERR_NUMERIC when a weight is not finite; LT_ERR_MEMORY: no room for the copy;
 *          LT_ERR_IO
 */
LT_NODISCARD lt_status lt_dcp_save_begin(lt_engine *e, const lt_progress *progress, double lr,
                                         lt_dcp_save **out);
/**
 * All ranks call it alike. When all have written, or `wait`: the first rank adds .metadata and the
 * small files, and swaps the folder in. *done: it is in place, and the save is gone (*save NULL).
 */
LT_NODISCARD lt_status lt_dcp_save_end(lt_dcp_save **save, bool wait, bool *done);
const char *lt_dcp_save_dir(const lt_dcp_save *save);
/** Give up: waits for the thread, and leaves nothing. Accepts NULL. */
void lt_dcp_save_abandon(lt_dcp_save *save);
#endif
