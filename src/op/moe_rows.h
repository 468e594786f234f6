// SPDX-License-Identifier: Apache-2.0
// moe_permute and moe_combine: tokens to the rows of their experts, and back with their weights.
#ifndef LT_OP_MOE_ROWS_H
#define LT_OP_MOE_ROWS_H

#include "op/op.h"

/**
 * y[place[t, j]] = x[t]: a row for each expert of each token, sorted by expert.
 *
 * source   models.md 5.6
 * in       x float[T, H]; place i32[T, k] of moe_route: every number below T k once
 * out      y like x [T k, H]
 * grads    dx[t] = sum over j, in order, of dy[place[t, j]], narrowed once
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_moe_permute;
lt_val lt_moe_permute(lt_builder *b, lt_val x, lt_val place);

/**
 * y[t] = sum over j, in order, of weights[t, j] x[place[t, j]]
 *
 * source   models.md 5.6, 9.6: summed in fp32 in the order of slots, narrowed once
 * in       x float[T k, H]; weights like x [T, k]; place i32[T, k] of moe_route
 * out      y like x [T, H]
 * grads    dx[place[t, j]] = weights[t, j] dy[t]; dweights[t, j] = dy[t] . x[place[t, j]]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_moe_combine;
lt_val lt_moe_combine(lt_builder *b, lt_val x, lt_val weights, lt_val place);
#endif
