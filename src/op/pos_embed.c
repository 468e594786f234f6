// SPDX-License-Identifier: Apache-2.0
// pos_embed_add: shape rule, reference and table row.
#include "op/pos_embed.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"

enum { CORNERS = 4 };

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "z", 2));
    LT_TRY(lt_need_rank(a, 1, "p", 2));
    const lt_tensor *z = a->in[0], *p = a->in[1];
    LT_TRY(lt_need_2d(a, 1, "p", z->dtype, p->dim[0], z->dim[1]));
    LT_TRY(lt_need_2d(a, 2, "corners", LT_I32, z->dim[0], CORNERS));
    LT_TRY(lt_need_2d(a, 3, "weights", LT_F32, z->dim[0], CORNERS));
    *a->out[0] = lt_tensor_like(z);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_tensor *z = a->in[0], *p = a->in[1], *weights = a->in[3];
    const int32_t *corners = lt_index(a->in[2]);
    const int64_t width = z->dim[1];
    LT_TRY(lt_need_indices(a, 2, "corners", p->dim[0]));
    for (int64_t n = 0; n < z->dim[0]; n++) {
        for (int64_t j = 0; j < width; j++) {
            double pos = 0.0;
            for (int64_t k = n * CORNERS; k < (n + 1) * CORNERS; k++)
                pos += lt_load(weights, k) * lt_load(p, corners[k] * width + j);
            lt_store(a->out[0], n * width + j, lt_load(z, n * width + j) + pos);
        }
    }
    return LT_OK;
}

// Row by row of the table, so that every sum is in double and rounded once.
static void table_gradient(const lt_op_args *a)
{
    const int32_t *corners = lt_index(a->in[2]);
    const int64_t width = a->din[1]->dim[1], n_corners = lt_n_elems(a->in[2]);
    for (int64_t row = 0; row < a->din[1]->dim[0]; row++) {
        for (int64_t j = 0; j < width; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < n_corners; k++)
                if (corners[k] == row)
                    sum += lt_load(a->in[3], k) * lt_dout(a, 0, k / CORNERS * width + j);
            lt_put_grad(a, 1, row * width + j, sum);
        }
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    for (int64_t k = 0, n = a->din[0] ? lt_n_elems(a->din[0]) : 0; k < n; k++)
        lt_put_grad(a, 0, k, lt_dout(a, 0, k));
    if (a->din[1])
        table_gradient(a);
    return LT_OK;
}

const lt_op_def lt_op_pos_embed_add = {
    .name = "pos_embed_add",
    .n_in = 4,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_pos_embed_add_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_pos_embed_add_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_pos_embed_add_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_pos_embed_add_bwd_cuda)},
    .backward_reads = LT_IN(2) | LT_IN(3),
    .flags = LT_OP_CHEAP | LT_OP_IN_PLACE,
};

lt_val lt_pos_embed_add(lt_builder *b, lt_val z, lt_val p, lt_val corners, lt_val weights)
{
    return lt_op_apply(b, &lt_op_pos_embed_add, (const lt_val[]){z, p, corners, weights}, 4, NULL,
                       0, NULL);
}
