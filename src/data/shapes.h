// SPDX-License-Identifier: Apache-2.0
// The built-in demo: pictures of coloured shapes with questions and answers, and the files of a
// small model for them.
#ifndef LT_DATA_SHAPES_H
#define LT_DATA_SHAPES_H

#include "base/log.h"
#include "base/memory.h"

typedef struct lt_shapes_opts {
    const char *dir;
    int64_t n_train;    // pictures to learn from
    int64_t n_held_out; // pictures kept apart, one question each
    int turns;          // short questions about a picture to learn from, at most 5
    uint64_t seed;
    const char *family; // of the model: "qwen3_vl", "qwen3_vl_moe", "internvl3_5"
} lt_shapes_opts;
/** 10000 and 200 pictures, up to 4 questions a picture, seed 1, qwen3_vl; dir NULL */
lt_shapes_opts lt_shapes_opts_default(void);

typedef struct lt_shapes_report {
    int64_t n_questions;          // to learn from
    int64_t n_held_out_questions; // kept apart
    double commonest;             // share of the commonest answer among those kept apart
    char commonest_answer[32];
} lt_shapes_report;

/**
 * Write DIR/images/train_00000.png ... (every fourth a JPEG), DIR/images/held_out_00000.png ...,
 * DIR/train.json and DIR/held_out.json (a list of {"messages": [{"role", "content"}], "images":
 * ["images/..."]}), and DIR/model (lt_shapes_write_model).
 * The same options give the same bytes. No layout of shapes is in both sets.
 * errors   LT_ERR_CONFIG, LT_ERR_IO, LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_shapes_write(const lt_shapes_opts *opts, const lt_log *log,
                                       lt_shapes_report *out);

/**
 * The files of a small model of a family, without weights: config.json, tokenizer.json (byte-level
 * BPE of Qwen's form, its merges learned from the questions), tokenizer_config.json,
 * generation_config.json, preprocessor_config.json, video_preprocessor_config.json.
 * errors   LT_ERR_CONFIG for a family that has none, with those there are
 */
LT_NODISCARD lt_status lt_shapes_write_model(const char *dir, const char *family);
#endif
