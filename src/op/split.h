// SPDX-License-Identifier: Apache-2.0
// Columns taken apart and put side by side: split_thirds, split_heads, join.
#ifndef LT_OP_SPLIT_H
#define LT_OP_SPLIT_H

#include "op/op.h"

/**
 * [a | b | c] = x
 *
 * source   models.md 3.4: q, k, v are thirds of a fused product
 * in       x float[R, 3W]
 * out      a, b, c like x [R, W]
 * grads    dx; a missing gradient of a, b or c counts as zeros
 * errors   LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_split_thirds;
/** out[3] */
void lt_split_thirds(lt_builder *b, lt_val x, lt_val *out);

typedef struct lt_split_heads_attr {
    int32_t heads;
} lt_split_heads_attr;

/**
 * [a_0 | b_0 | a_1 | b_1 | ..] = x: each head of x is one of a beside one of b
 *
 * source   models.md 3.3: rows of q_proj are a query and its gate, head by head
 * in       x float[R, heads 2W]
 * out      a, b like x [R, heads W]
 * grads    dx; a missing gradient of a or b counts as zeros
 * errors   LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_split_heads;
/** out[2] */
void lt_split_heads(lt_builder *b, lt_val x, int32_t heads, lt_val *out);

/**
 * y = [a | b]
 *
 * source   models.md 6.3: the input of the prediction module
 * in       a float[R, W]; b like a
 * out      y like a [R, 2W]
 * grads    da, db: the parts of dy
 * errors   LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_join;
lt_val lt_join(lt_builder *b, lt_val left, lt_val right);

/** Numbers that lie together in x, in and out: what the kernels of both splits move at a time. */
int64_t lt_split_piece(const lt_op_args *a, const lt_tensor *x);
#endif
