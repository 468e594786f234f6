// SPDX-License-Identifier: Apache-2.0
// Parameters between checkpoints and the executor: reading, random values, resuming, saving.
#ifndef LT_TRAIN_WEIGHTS_H
#define LT_TRAIN_WEIGHTS_H

#include "train/engine.h"

/**
 * The name by which a folder knows a parameter: its own, or an alias; its own where it knows none.
 */
const char *lt_weight_name(const lt_hf *hf, const lt_param *p);
/**
 * Read every parameter from the engine's checkpoint. Tensors that no parameter takes are listed
 * once; an error with load_strict.
 * errors   LT_ERR_NOT_FOUND, LT_ERR_SHAPE, LT_ERR_DTYPE: name tensor and file
 */
LT_NODISCARD lt_status lt_weights_load(lt_engine *e);
/** Initial values from the seed. source: spec/models.md 11 */
LT_NODISCARD lt_status lt_weights_random(lt_engine *e, uint64_t seed);

/** Counters of a run that a checkpoint holds. */
typedef struct lt_progress {
    int64_t iteration; /* optimizer steps done */
    int64_t updates;   /* steps that the moments have seen: fewer after no_load_optim */
    int64_t consumed;  /* samples: iteration * global batch */
    int64_t cursor;    /* the sampler's */
} lt_progress;
/** The counters alone. errors: LT_ERR_NOT_FOUND, LT_ERR_FORMAT */
LT_NODISCARD lt_status lt_progress_read(const lt_checkpoint *run, lt_progress *out);
/**
 * Masters, moments and counters of a saved run; all 0, and nothing done, when the checkpoint holds
 * weights alone.
 * in       optimizer: false leaves the moments at zero (no_load_optim)
 */
LT_NODISCARD lt_status lt_weights_resume(lt_engine *e, bool optimizer, lt_progress *out);
/**
 * That every trained weight is a finite number. own: only those that this rank has, which asks no
 * other; else as lt_exec_read.
 * errors   LT_ERR_NUMERIC names the first
 */
LT_NODISCARD lt_status lt_weights_check(lt_engine *e, bool own);
/** save_ckpt_dtype; LT_N_DTYPES: not set. */
lt_dtype lt_save_dtype(const lt_config *cfg);
/** Push the lt_hf_edits of small files: layers of a cut model, tiles that it was trained with. */
LT_NODISCARD lt_status lt_config_edits(const lt_engine *e, lt_arena *arena, lt_vec *edits);
/**
 * Save training.save/iter_N as a Hugging Face folder: weights in the dtype of the file that they
 * came from (or save_ckpt_dtype), state beside them.
 * errors   LT_ERR_NUMERIC when a weight is not finite: nothing is written then; those of
 *          lt_run_save
 */
LT_NODISCARD lt_status lt_weights_save(lt_engine *e, const lt_progress *progress);
#endif
