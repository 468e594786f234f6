// SPDX-License-Identifier: Apache-2.0
// conv_silu: a short causal convolution of each column by itself, inside samples, and its
// activation.
#ifndef LT_OP_CONV_SILU_H
#define LT_OP_CONV_SILU_H

#include "op/op.h"

enum { LT_MAX_TAPS = 16 };

/**
 * y_t[c] = silu(u_t[c]),   u_t[c] = sum over j of w[c, j] x_{t - K + 1 + j}[c]
 *
 * Rows before the start of t's segment count as zeros: nothing of one sample reaches another.
 *
 * source   models.md 6.1, 8.9; fp32 inside, narrowed once (9.7)
 * in       x float[T, C]; w like x [C, 1, K], K at most LT_MAX_TAPS; segments i32[S + 1] (index)
 * out      y like x; zeros in rows that no segment holds
 * grads    dx; dw [C, 1, K]. u is computed again
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE, LT_ERR_DATA for a bad segment table
 */
extern const lt_op_def lt_op_conv_silu;
/** Takes the samples' segment table. */
lt_val lt_conv_silu(lt_builder *b, lt_val x, lt_val w);
#endif
