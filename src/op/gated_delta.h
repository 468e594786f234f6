// SPDX-License-Identifier: Apache-2.0
// gated_delta: the gated delta rule, a recurrence with a matrix as its state, inside samples.
#ifndef LT_OP_GATED_DELTA_H
#define LT_OP_GATED_DELTA_H

#include "op/op.h"

enum { LT_DELTA_CHUNK = 64 };
#define LT_UNIT_EPS 1e-6 /* below the root of q's and k's lengths */

typedef struct lt_gated_delta_attr {
    int32_t key_heads,
        value_heads; /* value head h reads q and k of h / (value_heads / key_heads) */
    int32_t key_dim, value_dim;
    int32_t chunk; /* tokens that are worked on together, 1 to LT_DELTA_CHUNK; 0: so many */
} lt_gated_delta_attr;

/**
 * For each value head, from S = 0 at the start of each segment:
 *   S~ = e^g S,   nu = beta (v - S~^T k),   S = S~ + k nu^T,   o = Dk^-1/2 S^T q
 * with q and k divided by their length, (sum x^2 + 1e-6)^1/2.
 *
 * source   Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464; models.md 6.1, and 6.2 and 8.9 for
 *          the form in chunks. The state and all that is inside is fp32, o is narrowed (9.7)
 * in       qkv float[T, 2 Hk Dk + Hv Dv]: all q, all k, all v, head by head; g wide [T, Hv], at
 *          most 0; beta wide [T, Hv]; segments i32[S + 1] (index)
 * out      o like qkv [T, Hv Dv]; zeros in rows that no segment holds
 * grads    dqkv, dg, dbeta; the states are computed again
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE, LT_ERR_CONFIG, LT_ERR_DATA for a bad segment table
 */
extern const lt_op_def lt_op_gated_delta;
/** Takes the samples' segment table. */
lt_val lt_gated_delta(lt_builder *b, lt_val qkv, lt_val g, lt_val beta, lt_gated_delta_attr attr);

/** Forward FLOPs of a token: chunks of LT_DELTA_CHUNK. source: models.md 10.1, the simple count */
int64_t lt_gated_delta_flops(const lt_gated_delta_attr *attr);
#endif
