// SPDX-License-Identifier: Apache-2.0
// qk_norm_rope: the norm of each head of q or k, and its rotation.
#ifndef LT_OP_QK_NORM_ROPE_H
#define LT_OP_QK_NORM_ROPE_H

#include "op/op.h"

typedef struct lt_qk_norm_rope_attr {
    double eps;
    int32_t heads;
    bool plus_one; /* the scale is 1 + w */
} lt_qk_norm_rope_attr;

/**
 * For each head: n = rms_norm(x, w) over its D numbers, then the first Dr of them rotated (pairs i,
 * i + Dr/2), the rest as they are.
 *
 * source   models.md 5.5, 8.2, 8.3. In bf16: n narrowed as in rms_norm (9.2), the table
 *          narrowed, the rotation fp32 and narrowed once (9.4, fused form)
 * in       x float[T, heads D]; w like x [D]; table wide dtype [T, Dr], Dr even and at most D (no
 *          gradient)
 * out      y like x
 * grads    dx; dw [D], summed over rows and heads
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_qk_norm_rope;
lt_val lt_qk_norm_rope(lt_builder *b, lt_val x, lt_val w, lt_val table, lt_qk_norm_rope_attr attr);
#endif
