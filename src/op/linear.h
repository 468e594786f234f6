// SPDX-License-Identifier: Apache-2.0
// linear: y = x W^T + b, the only way in which a graph multiplies by a weight.
#ifndef LT_OP_LINEAR_H
#define LT_OP_LINEAR_H

#include "op/op.h"

/**
 * y = x W^T + bias
 *
 * source   models.md 8.1; sums in fp32, the bias added before the one narrowing (9.2)
 * in       x float[R, K]; w like x [O, K], or [O, rest...] with rest multiplying to K (a
 *          convolution over whole patches, BR-34); bias like x [O], optional
 * out      y like x [R, O]
 * grads    dx, dw and dbias each alone or together; dw has w's shape
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_linear;

/** linear with the parameters path.weight and, where the block kind has it, path.bias. */
lt_val lt_linear(lt_builder *b, lt_val x, const char *path);
/** The same with given values; bias may be LT_NONE. */
lt_val lt_linear_of(lt_builder *b, lt_val x, lt_val w, lt_val bias);
#endif
