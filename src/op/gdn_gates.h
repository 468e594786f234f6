// SPDX-License-Identifier: Apache-2.0
// gdn_gates: how fast a gated delta rule forgets, and how much it writes.
#ifndef LT_OP_GDN_GATES_H
#define LT_OP_GDN_GATES_H

#include "op/op.h"

/* Logarithms of a decay below this are this: e^g is 0 either way, and sums stay finite. */
#define LT_LOWEST_DECAY (-1e30)

/**
 * g = -exp(A_log) softplus(a + dt_bias),   beta = sigmoid(b)
 *
 * source   models.md 6.1, 8.9; fp32 inside, and both stay wide (9.7)
 * in       a float[T, Hv]; b like a; A_log like a [Hv]; dt_bias like a [Hv]
 * out      g wide [T, Hv], at most 0; beta wide [T, Hv]
 * grads    da, db; dA_log [Hv] and ddt_bias [Hv], summed over rows
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_gdn_gates;
/** out[2]: g, beta */
void lt_gdn_gates(lt_builder *b, lt_val a, lt_val beta_logits, lt_val a_log, lt_val dt_bias,
                  lt_val *out);

/** One number of each: what both kernels compute, in double. */
double lt_gdn_decay(double a, double a_log, double dt_bias);
/** d g / d a, which is also d g / d dt_bias. */
double lt_gdn_decay_slope(double a, double a_log, double dt_bias);
#endif
