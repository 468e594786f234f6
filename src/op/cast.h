// SPDX-License-Identifier: Apache-2.0
// cast: the same numbers in another dtype (pixels into the compute dtype).
#ifndef LT_OP_CAST_H
#define LT_OP_CAST_H

#include "op/op.h"

typedef struct lt_cast_attr {
    lt_dtype dtype;
} lt_cast_attr;

/**
 * y = x in attr.dtype, to nearest even
 *
 * in       x float[any shape]
 * out      y attr.dtype, x's shape
 * grads    dx = dy in the dtype of din
 * errors   LT_ERR_DTYPE when attr.dtype is not a float
 */
extern const lt_op_def lt_op_cast;
/** x itself when it has the dtype already. */
lt_val lt_cast(lt_builder *b, lt_val x, lt_dtype dtype);
#endif
