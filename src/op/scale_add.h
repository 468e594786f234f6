// SPDX-License-Identifier: Apache-2.0
// scale_add: a branch with a learned scale for each column (layer scale), joined to the residual.
#ifndef LT_OP_SCALE_ADD_H
#define LT_OP_SCALE_ADD_H

#include "op/op.h"

/**
 * y = x + s * f
 *
 * source   Touvron et al. 2021, arXiv:2103.17239; models.md 5.2, 8.7; fp32 inside, narrowed once
 * in       x float[R, W]; s like x [W]; f like x [R, W]
 * out      y like x
 * grads    dx = dy; df = s * dy; ds [W] = sum over rows of dy * f
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_scale_add;
lt_val lt_scale_add(lt_builder *b, lt_val x, lt_val s, lt_val f);
#endif
