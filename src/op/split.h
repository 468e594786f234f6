// SPDX-License-Identifier: Apache-2.0
// split_thirds: a fused q, k and v, taken apart.
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
#endif
