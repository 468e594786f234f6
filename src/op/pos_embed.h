// SPDX-License-Identifier: Apache-2.0
// pos_embed_add: the vision tower's learned positions, blended from four rows of a table.
#ifndef LT_OP_POS_EMBED_H
#define LT_OP_POS_EMBED_H

#include "op/op.h"

/**
 * y[n] = z[n] + (((w0 p[c0] + w1 p[c1]) + w2 p[c2]) + w3 p[c3]),  c = corners[n], w = weights[n]
 *
 * source   models.md 5.1 step 2; form B of 9.3: fp32 weights, sum from left to right, one narrowing
 * in       z float[N, C]; p like z [G2, C]; corners i32[N, 4] (index); weights f32[N, 4] (no
 *          gradient)
 * out      y like z
 * grads    dz = dy; dp[r] = sum over patches n and corners k with corners[n][k] = r of
 *          weights[n][k] dy[n], in the order of (n, k), without atomics; corners of one patch may
 *          be equal
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE; LT_ERR_DATA for a corner outside the table
 */
extern const lt_op_def lt_op_pos_embed_add;
lt_val lt_pos_embed_add(lt_builder *b, lt_val z, lt_val p, lt_val corners, lt_val weights);
#endif
