// SPDX-License-Identifier: Apache-2.0
// attention: softmax attention inside segments, causal or not, with grouped key and value heads.
#ifndef LT_OP_ATTENTION_H
#define LT_OP_ATTENTION_H

#include "op/op.h"

enum { LT_MAX_HEAD_DIM = 512 };

typedef struct lt_attention_attr {
    double scale;            /* of the scores; 0 stands for D^-1/2 */
    int32_t heads, kv_heads; /* query head h reads key head h / (heads / kv_heads) */
    bool causal;             /* row i sees rows j <= i of its segment; else the whole segment */
    bool vision;             /* lt_attention takes the frames' segment table, not the samples' */
    bool tiles;              /* the frames' with class tokens */
    bool deterministic;      /* gradients have the same bits each time even where that costs time */
} lt_attention_attr;

/**
 * o = softmax(scale q k^T) v inside each segment;  lse = log of the sum of exp of the scaled scores
 * (natural)
 *
 * source   models.md 5.5, 8.5; Dao 2023, arXiv:2307.08691 for the tiled form. No S x S matrix is
 *          ever made
 * in       q float[T, heads D]; k, v like q [T, kv_heads D]; segments i32[S + 1] (index): 0 <= s_0
 *          <= s_1 <= ... <= s_S <= T
 * out      o like q; lse wide dtype [heads, T]
 * grads    dq, dk, dv from do (a gradient of lse is not supported: nothing reads it)
 * notes    a row in no segment sees no key: it gets o = 0, lse = -inf and zero gradients
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE, LT_ERR_DATA for a bad segment table
 */
extern const lt_op_def lt_op_attention;
/** Takes the batch's segment table: of samples, or of frames where attr.vision. Returns o. */
lt_val lt_attention(lt_builder *b, lt_val q, lt_val k, lt_val v, lt_attention_attr attr);
#endif
