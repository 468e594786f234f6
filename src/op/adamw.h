// SPDX-License-Identifier: Apache-2.0
// adamw and sum_squares: what a step does with gradients after the backward, outside graphs.
#ifndef LT_OP_ADAMW_H
#define LT_OP_ADAMW_H

#include "op/op.h"

/** The numbers that change every step, in one f64 tensor [LT_N_SCALARS] in device memory. */
typedef enum lt_scalar {
    LT_SCALAR_LR,           /* learning rate, before a group's scale */
    LT_SCALAR_M_CORRECTION, /* 1 / (1 - beta1^t), t = 1 in the first step */
    LT_SCALAR_V_CORRECTION, /* 1 / (1 - beta2^t) */
    LT_SCALAR_CLIP,         /* multiplies every gradient: 1, or clip / (norm + 1e-6) */
    LT_N_SCALARS
} lt_scalar;

typedef struct lt_adamw_attr {
    double beta1, beta2, eps, weight_decay, lr_scale;
} lt_adamw_attr;

/**
 * g' = clip g;  m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
 * p = p (1 - lr wd) - lr m_correction m / (sqrt(v v_correction) + eps)
 * with lr = LT_SCALAR_LR * lr_scale
 *
 * source   Loshchilov and Hutter 2019, arXiv:1711.05101; config-trainer-checkpoint.md 2.6.1. In
 *          fp32; in double where p is f64
 * in       grad f32[n] (f64 where p is f64); scalars f64[LT_N_SCALARS]
 * in, out  out[0] p f32[n] or f64[n], or the bf16 half `hi` of an fp32 master; out[1] m and out[2]
 *          v like grad; out[3] `lo` i16[n], the other half (lt_split_f32), only with a bf16 p
 * notes    infer checks the in-out tensors, and sets none. n = 0 is fine
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_adamw;

/**
 * out = sum of g^2, in double: blocks of LT_SUM_BLOCK elements, then the blocks in order. Adds to
 * out where bit 0 of a->add is set.
 *
 * in       g float[any shape]
 * out      f64[1]
 */
extern const lt_op_def lt_op_sum_squares;
enum { LT_SUM_BLOCK = 4096 };
#endif
