// SPDX-License-Identifier: Apache-2.0
// gelu in its two forms: by tanh (blocks of the Qwen tower) and by erf (mergers).
#ifndef LT_OP_GELU_H
#define LT_OP_GELU_H

#include "op/op.h"

typedef enum lt_gelu_kind { LT_GELU_ERF, LT_GELU_TANH } lt_gelu_kind;
typedef struct lt_gelu_attr {
    lt_gelu_kind kind;
} lt_gelu_attr;

/**
 * erf: y = x Phi(x);   tanh: y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
 *
 * source   Hendrycks and Gimpel 2016, arXiv:1606.08415; models.md 8.4; fp32 inside, narrowed once
 * in       x float[any shape]
 * out      y like x
 * grads    dx
 */
extern const lt_op_def lt_op_gelu;
lt_val lt_gelu(lt_builder *b, lt_val x, lt_gelu_kind kind);
#endif
