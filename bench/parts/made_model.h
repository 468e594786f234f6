// SPDX-License-Identifier: Apache-2.0
// The models and the micro-batch of shared/bench/peer_hf_step.py: published sizes, random weights,
// pictures and text.
#ifndef LT_BENCH_MADE_MODEL_H
#define LT_BENCH_MADE_MODEL_H

#include "data/collate.h"
#include "exec/exec.h"
#include "model/model.h"

/**
 * A row of the peer's table of sizes. What is not listed is equal in all: heads of 128, patches of
 * 16, 2304 positions.
 */
typedef struct bench_size {
    const char *name;
    int hidden, layers, heads, kv_heads, intermediate, vocab;
    bool tied;
    int depth, vision_hidden, vision_intermediate, vision_heads;
    int deepstack[3];
} bench_size;
/** The row of that name ("4b" or "qwen3vl-4b"); NULL when there is none. */
const bench_size *bench_size_of(const char *name);
/** "small, 2b, ...": all names, for messages. */
const char *bench_size_names(void);

/**
 * What a batch is made of: one sample of n_tokens, the pictures first, each grid x grid patches.
 */
typedef struct bench_shape {
    int64_t n_tokens, images, grid;
} bench_shape;

/** layers, depth: 0 as in the row. out: the model, its tower frozen. End with lt_model_destroy. */
LT_NODISCARD lt_status bench_model_create(const bench_size *size, int64_t layers, int64_t depth,
                                          lt_model **out);
/** Random weights by the model's own rules; the pool's threads draw them. */
LT_NODISCARD lt_status bench_weights(const lt_model *model, lt_exec *exec, lt_pool *pool);

/**
 * One micro-batch: every text token is a label, as in the peer (the first is predicted by the end
 * of the last picture).
 */
typedef struct bench_batch {
    lt_batch *batch;
    lt_arena *arena;
    lt_batch_view view;
} bench_batch;
LT_NODISCARD lt_status bench_batch_create(const lt_model *model, bench_shape shape,
                                          bench_batch *out);
void bench_batch_destroy(bench_batch *b);

/**
 * The peer's count: 3 x (text + head over all tokens) + the vision blocks once, since they are
 * frozen.
 */
double bench_flops(const lt_model *model, bench_shape shape);
#endif
