// SPDX-License-Identifier: Apache-2.0
// muon: an update for matrices, in three parts, since the middle one wants the matrix whole.
#ifndef LT_OP_MUON_H
#define LT_OP_MUON_H

#include "op/op.h"

typedef struct lt_muon_attr {
    double momentum, weight_decay, lr_scale;
    double rms;     /* matched_adamw_rms: size of an update */
    int32_t steps;  /* of the iteration */
    int64_t longer; /* the longer side of the whole matrix */
} lt_muon_attr;

/**
 * g' = clip g;  buf = momentum buf + g';  u = g' + momentum buf, rounded to bf16
 *
 * source   spec/config-trainer-checkpoint.md 2.6.4
 * in       grad f32[n] or f64[n]; scalars f64[LT_N_SCALARS] (op/adamw.h)
 * in, out  out[0] buf like grad; out[1] u bf16[n]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_muon_momentum;

/**
 * x = u / (|u| + 1e-7), transposed where it has more rows than columns; then `steps` times
 * A = x x^T, x = 3.4445 x + (-4.7750 A + 2.0315 A A) x. A, what is in the brackets, and x are
 * rounded to bf16 each time, sums are wider.
 *
 * source   Jordan 2024, Muon; spec/config-trainer-checkpoint.md 2.6.4
 * in, out  out[0] u bf16[r, c]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_orthogonalize;

/**
 * p = p (1 - lr wd) - lr rms sqrt(longer) u, with lr = LT_SCALAR_LR * lr_scale
 *
 * in       u bf16[n]; scalars
 * in, out  out[0] p f32[n] or f64[n], or the bf16 half of an fp32 master with out[1] `lo` i16[n]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_muon_apply;

/** Bytes of scratch that lt_op_orthogonalize wants for [rows, columns]. */
size_t lt_orthogonalize_bytes(int64_t rows, int64_t columns);
/** Operations of its products. */
int64_t lt_orthogonalize_flops(int64_t rows, int64_t columns, int32_t steps);
#endif
