// SPDX-License-Identifier: Apache-2.0
// gated_rms_norm and sigmoid_gate: outputs let through by gates.
#ifndef LT_OP_GATED_NORM_H
#define LT_OP_GATED_NORM_H

#include "op/rms_norm.h"

/**
 * For each head of W numbers: y = (w * x r) * silu(z),   r = (mean x^2 + eps)^-1/2
 *
 * source   models.md 6.1, 8.2; the fused form, all fp32 and narrowed once (9.2)
 * in       x float[T, heads W]; z like x; w like x [W], shared by the heads
 * out      y like x
 * grads    dx, dz; dw [W], summed over rows and heads
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_gated_rms_norm;
lt_val lt_gated_rms_norm(lt_builder *b, lt_val x, lt_val z, lt_val w, double eps);

/**
 * y = x * sigmoid(gate), a number for each of x or one for each row
 *
 * source   models.md 5.5, output gate, 5.6, shared expert, 8.4. bf16: the sigmoid narrowed, then
 *          the product (9.2)
 * in       x float[T, W]; gate like x, or [T, 1]
 * out      y like x
 * grads    dx; dgate, summed over a row where it has one number
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_sigmoid_gate;
lt_val lt_sigmoid_gate(lt_builder *b, lt_val x, lt_val gate);
#endif
