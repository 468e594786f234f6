// SPDX-License-Identifier: Apache-2.0
// embedding: rows of a table by token id.
#ifndef LT_OP_EMBEDDING_H
#define LT_OP_EMBEDDING_H

#include "op/op.h"

/**
 * x[t] = w[ids[t]]
 *
 * source   models.md 5.3, 8.7
 * in       ids i32[T] (index); w float[V, H]
 * out      x like w [T, H]
 * grads    dw [V, H]: rows are summed in the order of tokens, without atomics; rows not seen become
 *          zero (or keep, with the add bit)
 * errors   LT_ERR_SHAPE; LT_ERR_DATA for an id outside the table
 */
extern const lt_op_def lt_op_embedding;
lt_val lt_embedding(lt_builder *b, lt_val ids, lt_val w);
#endif
