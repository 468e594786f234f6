// SPDX-License-Identifier: Apache-2.0
// A training run's folder: each ROOT/iter_0001000 is a model folder with the training state in it.
#ifndef LT_CKPT_RUN_FOLDER_H
#define LT_CKPT_RUN_FOLDER_H

#include "ckpt/hf_save.h"

/** Names the iteration to resume from: decimal, no newline (or "release"); written last. */
#define LT_RUN_TRACKER "latest_checkpointed_iteration.txt"
/** Beside a distributed checkpoint: what each rank adds, and what says that lathe wrote it. */
#define LT_RUN_EXTRA_DIR "extra_state"
#define LT_RUN_MARK "lathe_checkpoint.json"
/** master.NAME, exp_avg.NAME, exp_avg_sq.NAME in fp32; counters, generators as metadata. */
#define LT_RUN_STATE "lathe_state.safetensors"

typedef enum lt_run_kind {
    LT_RUN_MODEL, /* weights alone */
    LT_RUN_SAVED, /* weights and LT_RUN_STATE */
    LT_RUN_DCP    /* a PyTorch distributed checkpoint: .metadata */
} lt_run_kind;

typedef struct lt_run_found {
    lt_run_kind kind;
    char *dir;         /* where the weights are */
    int64_t iteration; /* by the tracker; -1: it says "release", or there is none */
} lt_run_found;

/**
 * What `training.load` leads to: with a tracker, the folder that it names; else the folder itself.
 * errors   LT_ERR_NOT_FOUND: nothing of the kind there (says what was looked for), or the tracker's
 *          folder is missing; LT_ERR_FORMAT: a tracker with neither a number nor "release"
 */
LT_NODISCARD lt_status lt_run_resolve(const char *load, const lt_log *log, lt_arena *arena,
                                      lt_run_found *out);

/** A checkpoint that is open for reading. */
typedef struct lt_checkpoint {
    lt_run_kind kind;
    const char *dir;
    int64_t iteration; /* as found; without a tracker as the state says; 0 for weights alone */
    lt_hf *weights;
    lt_st *state;           /* of LT_RUN_SAVED */
    lt_torch_mapped *extra; /* of LT_RUN_DCP: EXTRA_DIR/extra_state_rank_0.pt, or another rank's */
    lt_arena *arena;
} lt_checkpoint;
/** Whether there is more to go on from than weights. */
bool lt_run_resumes(const lt_checkpoint *run);
/**
 * errors   as lt_run_resolve, lt_hf_open, lt_dcp_open and lt_st_open; LT_ERR_UNSUPPORTED for the
 *          state of a newer lathe
 */
LT_NODISCARD lt_status lt_run_open(const char *load, const lt_log *log, lt_checkpoint **out);
void lt_run_close(lt_checkpoint *run);

/**
 * The state tensor PART.NAME of that shape, in fp32 (of a distributed checkpoint in any float
 * dtype: model.NAME for "master", else optimizer.state.NAME.PART).
 * errors   LT_ERR_NOT_FOUND, LT_ERR_SHAPE, LT_ERR_DTYPE: names tensor and file
 */
LT_NODISCARD lt_status lt_run_state(const lt_checkpoint *run, const char *part, const char *name,
                                    int32_t rank, const int64_t *dim, const lt_st_tensor **out);
/** A value of the state's metadata. errors: LT_ERR_NOT_FOUND names key and file */
LT_NODISCARD lt_status lt_run_text(const lt_checkpoint *run, const char *key, const char **out);
/**
 * A whole number of the state's metadata, or of the extra state.
 * errors   LT_ERR_NOT_FOUND names key and file; LT_ERR_FORMAT when it isn't a whole number
 */
LT_NODISCARD lt_status lt_run_number(const lt_checkpoint *run, const char *key, int64_t *out);

typedef struct lt_run_plan {
    const char *root;
    int64_t iteration;
    lt_hf_plan weights;      /* its `replace` is not looked at */
    const lt_st_item *state; /* [n_state], named PART.NAME; see lt_run_state_item */
    int64_t n_state;
    const lt_st_pair *meta; /* [n_meta] step, samples, generators, ...; "iteration" is added */
    int64_t n_meta;
    bool no_state;     /* weights alone: nothing to resume from */
    int64_t keep_last; /* older iterations are removed after the save; 0: all are kept */
} lt_run_plan;

/** The state tensor PART.NAME in fp32, its name in the arena. errors: LT_ERR_SHAPE */
LT_NODISCARD lt_status lt_run_state_item(lt_arena *arena, const char *part, const char *name,
                                         int32_t rank, const int64_t *dim, lt_st_fetch fetch,
                                         void *ctx, lt_st_item *out);

/**
 * Save ROOT/iter_N beside and swap it in, then point the tracker at it, then remove what
 * `keep_last` lets go. Until the tracker is written a resume takes the checkpoint before. What
 * killed saves left is removed first. An iteration that exists is replaced.
 *
 * errors   as lt_hf_save: nothing has changed then, unless the tracker itself could not be written
 */
LT_NODISCARD lt_status lt_run_save(const lt_run_plan *plan, const lt_log *log);

/** An iteration's folder while it is written: complete in `tmp`, then in `dir`. */
typedef struct lt_run_place {
    const char *root;
    int64_t iteration;
    char *dir, *tmp;
} lt_run_place;
/**
 * Clean up behind killed saves, see that there is room, and make the empty folder place->tmp. The
 * parts of lt_run_save for those who fill the folder themselves; lt_publish_abort gives it up.
 */
LT_NODISCARD lt_status lt_run_begin(const char *root, int64_t iteration, int64_t bytes,
                                    const lt_log *log, lt_arena *arena, lt_run_place *out);
/** Swap it in, then point the tracker at it, then remove what `keep_last` lets go. */
LT_NODISCARD lt_status lt_run_commit(const lt_run_place *place, int64_t keep_last, lt_arena *arena,
                                     const lt_log *log);

/**
 * Remove iterations that are older than the `keep` newest up to `current`, which stays in any case,
 * as do later ones and folders that lathe did not write. What can't be removed is a warning.
 */
LT_NODISCARD lt_status lt_run_prune(const char *root, int64_t keep, int64_t current,
                                    const lt_log *log);
/** "ROOT/iter_0001000" */
LT_NODISCARD lt_status lt_run_dir(lt_arena *arena, const char *root, int64_t iteration, char **out);
#endif
