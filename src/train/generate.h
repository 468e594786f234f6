// SPDX-License-Identifier: Apache-2.0
// Greedy generation. The prefix is computed again for every token; several prompts go through at
// once.
#ifndef LT_TRAIN_GENERATE_H
#define LT_TRAIN_GENERATE_H

#include "data/collate.h"
#include "exec/exec.h"

typedef struct lt_generate_opts {
    const lt_collate_opts *collate;
    const int32_t *stops; /* [n_stops] ids that end an answer; they are not part of it */
    int64_t n_stops, max_tokens;
    /* called with each new token; false ends that prompt. May be NULL */
    bool (*token)(void *ctx, int64_t prompt, int32_t id);
    void *ctx;
} lt_generate_opts;

/**
 * prompts [n]: ids and media as encoded (labels are not looked at); answers [n]: vectors of
 * int32_t, appended.
 * errors   those of collating and of the executor
 */
LT_NODISCARD lt_status lt_generate(lt_exec *exec, const lt_sample *prompts, int64_t n,
                                   const lt_generate_opts *opts, lt_vec *answers);

/**
 * Where the last answer of an encoded sample begins: its first token with a label after the last
 * one without. -1: none
 */
int64_t lt_last_answer(const lt_sample *s);
#endif
