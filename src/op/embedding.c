// SPDX-License-Identifier: Apache-2.0
// embedding: shape rule, reference and table row.
#include "op/embedding.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "ids", 1));
    LT_TRY(lt_need_rank(a, 1, "w", 2));
    const lt_tensor *w = a->in[1];
    if (!(LT_FLOATS & LT_DTYPE_BIT(w->dtype)))
        return LT_FAIL(LT_ERR_DTYPE, "embedding needs w as f64, f32 or bf16, got %s",
                       lt_shape_print(w).s);
    *a->out[0] = lt_tensor_2d(w->dtype, a->in[0]->dim[0], w->dim[1]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const int32_t *ids = lt_index(a->in[0]);
    LT_TRY(lt_need_indices(a, 0, "ids", a->in[1]->dim[0]));
    for (int64_t t = 0; t < a->in[0]->dim[0]; t++)
        lt_copy_row(a->out[0], t, a->in[1], ids[t]);
    return LT_OK;
}

static bool seen_before(const int32_t *ids, int64_t t)
{
    for (int64_t s = 0; s < t; s++)
        if (ids[s] == ids[t])
            return true;
    return false;
}

// Each row of the table is summed in double at its first token, so that it is rounded once.
static lt_status backward_ref(const lt_op_args *a)
{
    if (!a->din[1])
        return LT_OK;
    const int32_t *ids = lt_index(a->in[0]);
    const int64_t n = a->in[0]->dim[0], width = a->din[1]->dim[1];
    LT_TRY(lt_need_indices(a, 0, "ids", a->din[1]->dim[0]));
    lt_zero_grad(a, 1);
    for (int64_t t = 0; t < n; t++) {
        if (seen_before(ids, t))
            continue;
        for (int64_t j = 0; j < width; j++) {
            double sum = 0.0;
            for (int64_t s = t; s < n; s++)
                if (ids[s] == ids[t])
                    sum += lt_dout(a, 0, s * width + j);
            lt_add_grad(a, 1, ids[t] * width + j, sum);
        }
    }
    return LT_OK;
}

const lt_op_def lt_op_embedding = {
    .name = "embedding",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_INDEX,
    .index_in = LT_IN(0),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_embedding_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_embedding_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_embedding_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_embedding_bwd_cuda)},
    .backward_reads = LT_IN(0),
    .flags = LT_OP_CHEAP,
};

lt_val lt_embedding(lt_builder *b, lt_val ids, lt_val w)
{
    return lt_op_apply(b, &lt_op_embedding, (const lt_val[]){ids, w}, 2, NULL, 0, NULL);
}
