// SPDX-License-Identifier: Apache-2.0
// rms_norm, alone and fused with the residual addition before it.
#ifndef LT_OP_RMS_NORM_H
#define LT_OP_RMS_NORM_H

#include "op/op.h"

typedef struct lt_rms_norm_attr {
    double eps;    /* inside the root */
    bool plus_one; /* the scale is 1 + w (Qwen3.5): then nothing is narrowed before the output */
} lt_rms_norm_attr;

/**
 * y = w * (x r),   r = (mean x^2 + eps)^-1/2 over a row
 *
 * or 1 + w in place of w
 *
 * source   Zhang and Sennrich 2019, arXiv:1910.07467; models.md 8.2, and 9.2 for bf16: x r
 *          narrowed, then its product with w; with 1 + w an fp32 island, narrowed once
 * in       x float[R, W]; w like x [W]
 * out      y like x
 * grads    dx; dw [W], summed over rows. r is computed again from x. In bf16 the gradient is an
 *          fp32 island, narrowed once
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_rms_norm;
lt_val lt_rms_norm(lt_builder *b, lt_val x, lt_val w, lt_rms_norm_attr attr);

/**
 * x2 = x + a, narrowed to x's dtype;  y = rms_norm(x2, w)
 *
 * source   models.md 5.5: the residual stream and the norm that reads it
 * in       x float[R, W]; a like x; w like x [W]
 * out      x2 like x; y like x
 * grads    dx and da are equal: dx2 plus the norm's gradient of dy (either may be missing), each
 *          written where asked for; dw [W]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_add_rms_norm;
/** *x becomes x + a; the result is its norm. */
lt_val lt_add_rms_norm(lt_builder *b, lt_val *x, lt_val a, lt_val w, lt_rms_norm_attr attr);
#endif
