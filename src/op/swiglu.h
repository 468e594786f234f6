// SPDX-License-Identifier: Apache-2.0
// swiglu: the gated activation between the two halves of a transformer's MLP.
#ifndef LT_OP_SWIGLU_H
#define LT_OP_SWIGLU_H

#include "op/op.h"

/**
 * y[i] = silu(gate[i]) * up[i],   silu(g) = g / (1 + exp(-g))
 *
 * source   Shazeer 2020, arXiv:2002.05202, section 2, with beta = 1 and without the matmuls; bf16:
 *          the fused form of models.md 9.2, one narrowing
 * in       gate float[any shape]; up like gate
 * out      y like gate
 * grads    dgate and dup are overwritten, or added to where their bit in a->add is set; NULL where
 *          nobody asks for one
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_swiglu;
lt_val lt_swiglu(lt_builder *b, lt_val gate, lt_val up);
#endif
