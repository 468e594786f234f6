// SPDX-License-Identifier: Apache-2.0
// add and copy: the sum of two values (also the node in which gradients meet), and the same value
// in memory of its own.
#ifndef LT_OP_ADD_H
#define LT_OP_ADD_H

#include "op/op.h"

/**
 * y = a + b
 *
 * source   models.md 9.2, residual add: one narrowing
 * in       a float[any shape]; b like a
 * out      y like a
 * grads    da and db are dy itself (`grad`)
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_add;
lt_val lt_add(lt_builder *b, lt_val x, lt_val y);

/**
 * y = x; what the compiler puts where a gradient has to end in given memory
 *
 * in       x float[any shape]
 * out      y like x
 * grads    dx is dy itself (`grad`)
 */
extern const lt_op_def lt_op_copy;
lt_val lt_copy(lt_builder *b, lt_val x);
#endif
