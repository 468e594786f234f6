// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy: the head and the loss in one, in chunks of rows, so that the logits of a
// sequence never exist.
#ifndef LT_OP_LINEAR_CROSS_ENTROPY_H
#define LT_OP_LINEAR_CROSS_ENTROPY_H

#include "op/op.h"

/* Rows of a chunk where nobody says. On a GPU every chunk reads and writes all of dw in fp32, which
   weighs less the longer chunks are. */
enum { LT_LOSS_CHUNK = 1024, LT_LOSS_CHUNK_CUDA = 4096 };

typedef struct lt_linear_cross_entropy_attr {
    /* rows whose logits are alive together, 0: as the backend likes; bits of loss and dh do not
       depend on it */
    int64_t chunk;
} lt_linear_cross_entropy_attr;

/** The rows of a chunk on that backend. */
static inline int64_t lt_loss_chunk(const lt_linear_cross_entropy_attr *attr, lt_backend backend)
{
    if (attr->chunk > 0)
        return attr->chunk;
    return backend == LT_CUDA ? LT_LOSS_CHUNK_CUDA : LT_LOSS_CHUNK;
}

/**
 * loss = sum_t kappa_t (LSE(z_t) - z_t[target_t]),   z = h W^T
 *
 * source   models.md 7.1 to 7.3, 8.6. bf16: z narrowed, then fp32; delta = kappa (softmax(z) -
 *          onehot) narrowed before both products
 * in       h float[n, H]; w like h [V, H]; targets i32[n] (index); kappa f32[n]
 * out      loss wide dtype [1], summed in double in the order of rows
 * grads    the backward yields the loss too: it writes out[0], dh = delta W and dw = delta^T h,
 *          fp32 sums across chunks (the first chunk overwrites unless the add bit is set). The
 *          upstream gradient is taken to be 1 and not read: weights belong in kappa. A frozen w
 *          (din[1] NULL) costs nothing
 * notes    n = 0: loss 0, dh empty, dw zeros (unless added to)
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE; LT_ERR_DATA for a target outside the vocabulary
 */
extern const lt_op_def lt_op_linear_cross_entropy;
/** chunk 0: as the backend likes */
lt_val lt_linear_cross_entropy(lt_builder *b, lt_val h, lt_val w, lt_val targets, lt_val kappa,
                               int64_t chunk);
#endif
