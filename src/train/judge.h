// SPDX-License-Identifier: Apache-2.0
// Judging a model on a data set: its loss, and how often its greedy answer is the expected one.
#ifndef LT_TRAIN_JUDGE_H
#define LT_TRAIN_JUDGE_H

#include "exec/exec.h"
#include "train/source.h"

/**
 * The mean over micro-batches, in the order of the rows, of each one's mean loss. Ranks (NULL: one)
 * deal micro-batches out among themselves, and all get the mean that one of them would.
 * source   spec/config-trainer-checkpoint.md 2.9
 */
LT_NODISCARD lt_status lt_source_loss(lt_source *s, lt_exec *exec, const lt_ranks *ranks,
                                      int64_t micro_batch, double *loss, int64_t *n_batches);

/**
 * One question, its expected and its given answer, white space at the ends gone. Called in the
 * order of the rows.
 */
typedef struct lt_answer {
    int64_t row;
    const char *question, *expected, *given;
    bool match;
} lt_answer;
typedef struct lt_judge_opts {
    int64_t first, n; /* rows [first, first + n) of the source */
    int64_t batch;    /* questions answered at once */
    int64_t max_tokens;
    void (*answer)(void *ctx, const lt_answer *a); /* may be NULL */
    void *ctx;
} lt_judge_opts;
typedef struct lt_judge_result {
    int64_t n, matches;
    int64_t
        /* how many expected answers are the commonest one: what always giving it would get */
        commonest;
} lt_judge_result;
/**
 * Greedy answers to the last question of each row. errors: LT_ERR_DATA for a row without an answer
 */
LT_NODISCARD lt_status lt_judge(lt_source *s, lt_exec *exec, const lt_model *model,
                                const lt_judge_opts *opts, lt_judge_result *out);
#endif
