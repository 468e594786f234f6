// SPDX-License-Identifier: Apache-2.0
// clip: from the sum of squared gradients to the norm and the factor that every gradient is
// multiplied by.
#ifndef LT_OP_CLIP_H
#define LT_OP_CLIP_H

#include "op/op.h"

typedef struct lt_clip_attr {
    double clip; /* 0: measure only */
} lt_clip_attr;

/**
 * norm = sqrt(sum);  scalars[LT_SCALAR_CLIP] = clip > 0 ? min(1, clip / (norm + 1e-6)) : 1
 *
 * source   config-trainer-checkpoint.md 2.6.5
 * in, out  out[0] f64[1]: the sum of squares, replaced by the norm; out[1] scalars
 *          f64[LT_N_SCALARS]
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_clip;
#endif
