// SPDX-License-Identifier: Apache-2.0
// What a run computes with: device, model, executor, and the checkpoint that its weights come from.
#ifndef LT_TRAIN_ENGINE_H
#define LT_TRAIN_ENGINE_H

#include "ckpt/run_folder.h"
#include "exec/exec.h"
#include "plan/rates.h"
#include "train/config/config.h"

typedef struct lt_engine_opts {
    bool training; /* gradients and moments */
    bool weights;  /* there must be weights to read (or lathe.init: random); false for plan */
    bool whole_gradients;  /* no early updates: lt_exec_gradients is wanted */
    const lt_tap *tap;     /* may be NULL */
    lt_watch watch;        /* its functions may be NULL */
    const lt_ranks *ranks; /* kept; NULL: one */
    const lt_rates *paper; /* only plan, for a device that is not here; NULL: this machine's */
    const char *folder; /* generate: the model folder, whatever the configuration says; else NULL */
} lt_engine_opts;

typedef struct lt_engine {
    const lt_config *cfg; /* NULL when opened for a folder alone */
    const lt_log *log;
    const lt_ranks *ranks; /* NULL: one */
    lt_pool *pool;
    lt_device *device;
    lt_checkpoint *run; /* the checkpoint; NULL for random weights or none */
    lt_hf *assets;      /* small files of model_name_or_path for random weights; else NULL */
    lt_arena *arena;    /* texts and tables that live as long as the engine */
    lt_model *model;
    lt_units *units;
    lt_exec *exec;      /* NULL before lt_engine_start */
    lt_policy *policy;  /* [n_blocks] */
    bool *offload;      /* [n_blocks] first inputs wait on the host; NULL: none */
    lt_state_home home; /* what of the state waits on the host */
    bool auto_policy;   /* lathe.policy is auto: a forecast chooses */
    double *lr_scale;   /* [n_params] */
    lt_dtype compute;
    const char *source; /* where config.json was read */
    bool cut;           /* fewer layers than the file has */
} lt_engine;

/**
 * Open all but the executor: quick, so that mistakes in the data show before weights are read.
 * Weights will come from training.load, else from model.model_name_or_path, else (lathe.init:
 * random) from the seed.
 * keeps    cfg (may be NULL with opts->folder) and log
 * errors   those of the parts; LT_ERR_CONFIG for patterns that match nothing; LT_ERR_NOT_FOUND when
 *          there are no weights
 */
LT_NODISCARD lt_status lt_engine_open(const lt_config *cfg, const lt_engine_opts *opts,
                                      const lt_log *log, lt_engine **out);
/** Make the executor and fill its weights. opts as for lt_engine_open. */
LT_NODISCARD lt_status lt_engine_start(lt_engine *e, const lt_engine_opts *opts);
void lt_engine_close(lt_engine *e);
/** Nothing is clipped and a step is one micro-batch: each unit is updated in the backward. */
bool lt_engine_updates_early(const lt_engine *e);
/** The pieces of parameters that this rank keeps. */
lt_shard lt_engine_shard(const lt_engine *e);
/** The executor's options for this engine, for those who only plan. */
lt_exec_opts lt_engine_exec_opts(const lt_engine *e, const lt_engine_opts *opts);
#endif
