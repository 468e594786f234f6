// SPDX-License-Identifier: Apache-2.0
// Writing distributed checkpoints: a plan that every rank makes alike, each writes its own file of
// it, and one writes .metadata.
#ifndef LT_CKPT_DCP_WRITE_H
#define LT_CKPT_DCP_WRITE_H

#include "ckpt/dcp.h"
#include "ckpt/pickle_write.h"
#include "ckpt/safetensors_write.h"

/** One step of the way to a value: a name, or (name NULL) a place in a list. */
typedef struct lt_dcp_step {
    const char *name;
    int64_t index;
} lt_dcp_step;
enum { LT_DCP_MAX_STEPS = 4 };

/** What is added next, and where it belongs: {"optimizer", "state", "lm_head.weight", "exp_avg"}. */
typedef struct lt_dcp_path {
    lt_dcp_step step[LT_DCP_MAX_STEPS];
    int32_t n;
} lt_dcp_path;
lt_dcp_path lt_dcp_path_of(const char *a, const char *b);

/** Rows of a tensor that one file has. */
typedef struct lt_dcp_rows {
    int32_t file;
    int64_t first, n;  /* of dim 0; a tensor without dims has one row */
    lt_dtype from;     /* what `fetch` gives; LT_N_DTYPES: the tensor's own, without conversion */
    lt_st_fetch fetch; /* elements of the whole tensor; NULL where another rank writes */
    void *ctx;
} lt_dcp_rows;

typedef struct lt_dcp_plan {
    lt_arena *arena;
    lt_vec files;       /* const char * */
    lt_vec keys, boxes; /* dcp_plan.h */
    lt_map *by_key;
    int64_t *file_bytes; /* [files.n], once it is placed */
} lt_dcp_plan;

LT_NODISCARD lt_status lt_dcp_plan_init(lt_dcp_plan *plan);
void lt_dcp_plan_deinit(lt_dcp_plan *plan);
/** A file by name ("__0_0.distcp"). Files without content are not written. */
LT_NODISCARD lt_status lt_dcp_plan_file(lt_dcp_plan *plan, const char *name, int32_t *file);
/** A tensor, to be followed by its rows. dtype_text: "BF16" */
LT_NODISCARD lt_status lt_dcp_plan_tensor(lt_dcp_plan *plan, const lt_dcp_path *path,
                                          const char *dtype_text, int32_t rank, const int64_t *dim);
/** Rows of the last tensor, in rising order; cut where they would be too much for one archive. */
LT_NODISCARD lt_status lt_dcp_plan_rows(lt_dcp_plan *plan, const lt_dcp_rows *rows);
/** A plain value: a pickle, whose bytes are copied. */
LT_NODISCARD lt_status lt_dcp_plan_value(lt_dcp_plan *plan, const lt_dcp_path *path, int32_t file,
                                         const lt_buf *pickle);
/** All is added: find a place for everything. *bytes: of all files. */
LT_NODISCARD lt_status lt_dcp_plan_place(lt_dcp_plan *plan, int64_t *bytes);

/** Called after every piece that was written; threads: the writer's. */
typedef struct lt_dcp_progress {
    void (*fn)(void *ctx, int64_t bytes);
    void *ctx;
} lt_dcp_progress;

/**
 * Write a file of the plan into `dir`, fsync it, read it back and compare checksums.
 * errors   LT_ERR_IO; what a fetch returns
 */
LT_NODISCARD lt_status lt_dcp_write_file(const lt_dcp_plan *plan, const char *dir, int32_t file,
                                         const lt_dcp_progress *progress);
/** Write .metadata: the last of a folder's files. */
LT_NODISCARD lt_status lt_dcp_write_metadata(const lt_dcp_plan *plan, const char *dir);
#endif
