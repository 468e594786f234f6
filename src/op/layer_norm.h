// SPDX-License-Identifier: Apache-2.0
// layer_norm: the norm of the vision towers.
#ifndef LT_OP_LAYER_NORM_H
#define LT_OP_LAYER_NORM_H

#include "op/op.h"

typedef struct lt_layer_norm_attr {
    double eps; /* inside the root */
} lt_layer_norm_attr;

/**
 * y = (x - mean) r * w + bias,   r = (var + eps)^-1/2 with the biased variance of a row
 *
 * source   Ba et al. 2016, arXiv:1607.06450; models.md 8.2; in bf16 an fp32 island, narrowed once
 *          (9.2)
 * in       x float[R, W]; w and bias like x [W]
 * out      y like x
 * grads    dx; dw and dbias [W], summed over rows
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_layer_norm;
lt_val lt_layer_norm(lt_builder *b, lt_val x, lt_val w, lt_val bias, double eps);
#endif
