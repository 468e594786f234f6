// SPDX-License-Identifier: Apache-2.0
// top1: the place of the largest number of each row, for greedy generation.
#ifndef LT_OP_TOP1_H
#define LT_OP_TOP1_H

#include "op/op.h"

/**
 * y[r] = the lowest v with x[r, v] = max of the row; a NaN counts as larger than all numbers
 *
 * in       x float[R, V], V at least 1
 * out      y i32[R]
 * grads    none
 */
extern const lt_op_def lt_op_top1;
lt_val lt_top1(lt_builder *b, lt_val x);
#endif
