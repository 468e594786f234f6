// SPDX-License-Identifier: Apache-2.0
// A golden model folder: config, weights, and cases as micro-batches.
#ifndef LT_TESTS_GOLDEN_CASE_H
#define LT_TESTS_GOLDEN_CASE_H

#include "ckpt/hf_experts.h"
#include "data/collate.h"
#include "exec/exec.h"
#include "model/model.h"

/** The model of a folder, its weights in an executor. */
typedef struct golden_model {
    char dir[1024];
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
    lt_hf *weights;
    const lt_ranks *ranks;
} golden_model;

/** Weight of the token after next in the files (make_mtp_golden.py). */
#define GOLDEN_NEXT_SCALE 0.1

typedef struct golden_opts {
    lt_device *device;
    lt_dtype compute;
    lt_policy policy;
    int chunk; /* of linear attention; 0: as usual */
    bool poison;
    uint64_t order_seed;
    lt_adamw_attr adamw;
    const lt_ranks *ranks; /* NULL: one. Units are layers then, and given up after the forward */
} golden_opts;

lt_status golden_open(const char *dir, const golden_opts *opts, golden_model *out);
/** Read the weights again (after steps). */
lt_status golden_reset(golden_model *g);
void golden_close(golden_model *g);

/**
 * One case file as a micro-batch of lathe's: unpadded rows, media in token order. Of several ranks
 * each takes every n-th row; one that finds none takes a row of others, without loss.
 */
typedef struct golden_case {
    char name[128];
    lt_st *file;
    lt_batch *batch;
    lt_arena *arena;
    int64_t rows, padded; /* [rows, padded] of the case's own tensors */
    int64_t *lengths;     /* [rows] */
    bool *taken;          /* [rows] in the micro-batch of this rank */
    bool idle;            /* its row is another rank's */
    bool positions_equal; /* lathe's positions are the file's */
    float *kappa;         /* raw loss: 1 / targets of all ranks */
    float *next_kappa;    /* GOLDEN_NEXT_SCALE / those that count as the token after next */
    float balance;        /* router_aux_loss_coef where the file has an aux_loss, else 0 */
} golden_case;

lt_status golden_case_open(const golden_model *g, const char *path, golden_case *out);
void golden_case_close(golden_case *c);
#endif
