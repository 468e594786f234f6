// SPDX-License-Identifier: Apache-2.0
// grouped_linear: rows that are sorted by expert, each group times its expert's matrix.
#ifndef LT_OP_GROUPED_LINEAR_H
#define LT_OP_GROUPED_LINEAR_H

#include "op/op.h"

/**
 * y[r] = x[r] W_e^T for the rows offsets[e] <= r < offsets[e + 1] of each expert e
 *
 * source   models.md 5.6, 9.6; sums in fp32; a row does not depend on how many others its expert
 *          has
 * in       x float[R, K]; w like x [E, O, K]; offsets i32[E + 1] of moe_route, from 0 to R
 * out      y like x [R, O]
 * grads    dx, dw; dw of an expert without rows is exactly 0
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_grouped_linear;
lt_val lt_grouped_linear(lt_builder *b, lt_val x, lt_val w, lt_val offsets);

/**
 * y[r, i] = silu(x[r, i]) x[r, I + i]: swiglu of a product whose first half of columns is the gate.
 *
 * source   as swiglu, one narrowing
 * in       x float[R, 2 I]
 * out      y like x [R, I]
 * grads    dx
 * errors   LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_swiglu_halves;
lt_val lt_swiglu_halves(lt_builder *b, lt_val x);
#endif
