// SPDX-License-Identifier: Apache-2.0
// moe_permute and moe_combine: shape rules, references and table rows.
#include "op/moe_rows.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"

/* ---- moe_permute ---- */

static lt_status infer_permute(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "place", 2));
    LT_TRY(lt_need_dtype(a, 1, "place", LT_I32));
    const lt_tensor *x = a->in[0], *place = a->in[1];
    if (place->dim[0] != x->dim[0])
        return LT_FAIL(LT_ERR_SHAPE, "moe_permute needs x [T, H] and place [T, k], got %s and %s",
                       lt_shape_print(x).s, lt_shape_print(place).s);
    *a->out[0] = lt_tensor_2d(x->dtype, lt_n_elems(place), x->dim[1]);
    return LT_OK;
}

static lt_status permute_ref(const lt_op_args *a)
{
    const int32_t *place = a->in[1]->data;
    const int64_t tokens = a->in[1]->dim[0], k = a->in[1]->dim[1];
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < k; j++)
            lt_copy_row(a->out[0], place[t * k + j], a->in[0], t);
    return LT_OK;
}

static lt_status permute_backward_ref(const lt_op_args *a)
{
    const int32_t *place = a->in[1]->data;
    const int64_t tokens = a->in[1]->dim[0], k = a->in[1]->dim[1];
    const int64_t width = a->din[0] ? a->din[0]->dim[1] : 0;
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t c = 0; c < width; c++) {
            double sum = 0.0;
            for (int64_t j = 0; j < k; j++)
                sum += lt_dout(a, 0, place[t * k + j] * width + c);
            lt_put_grad(a, 0, t * width + c, sum);
        }
    }
    return LT_OK;
}

const lt_op_def lt_op_moe_permute = {
    .name = "moe_permute",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(1),
    .infer = infer_permute,
    .forward = {[LT_REF] = permute_ref,
                [LT_CPU] = lt_moe_permute_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_permute_fwd_cuda)},
    .backward = {[LT_REF] = permute_backward_ref,
                 [LT_CPU] = lt_moe_permute_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_permute_bwd_cuda)},
    .backward_reads = LT_IN(1),
    .flags = LT_OP_CHEAP,
};

lt_val lt_moe_permute(lt_builder *b, lt_val x, lt_val place)
{
    return lt_op_apply(b, &lt_op_moe_permute, (const lt_val[]){x, place}, 2, NULL, 0, NULL);
}

/* ---- moe_combine ---- */

static lt_status infer_combine(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "weights", 2));
    const lt_tensor *x = a->in[0], *w = a->in[1];
    LT_TRY(lt_need_dtype(a, 1, "weights", x->dtype));
    LT_TRY(lt_need_2d(a, 2, "place", LT_I32, w->dim[0], w->dim[1]));
    if (x->dim[0] != lt_n_elems(w)) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "moe_combine needs x [T k, H] and weights [T, k], got %s and %s",
                       lt_shape_print(x).s, lt_shape_print(w).s);
    }
    *a->out[0] = lt_tensor_2d(x->dtype, w->dim[0], x->dim[1]);
    return LT_OK;
}

static lt_status combine_ref(const lt_op_args *a)
{
    const int32_t *place = a->in[2]->data;
    const int64_t tokens = a->in[1]->dim[0], k = a->in[1]->dim[1], width = a->in[0]->dim[1];
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t c = 0; c < width; c++) {
            double sum = 0.0;
            for (int64_t j = 0; j < k; j++)
                sum +=
                    lt_load(a->in[1], t * k + j) * lt_load(a->in[0], place[t * k + j] * width + c);
            lt_store(a->out[0], t * width + c, sum);
        }
    }
    return LT_OK;
}

static lt_status combine_backward_ref(const lt_op_args *a)
{
    const int32_t *place = a->in[2]->data;
    const int64_t copies = lt_n_elems(a->in[1]), k = a->in[1]->dim[1], width = a->in[0]->dim[1];
    for (int64_t i = 0; i < copies; i++) {
        const int64_t row = place[i] * width, token = i / k * width;
        const double w = lt_load(a->in[1], i);
        for (int64_t c = 0; c < width; c++)
            lt_put_grad(a, 0, row + c, w * lt_dout(a, 0, token + c));
        if (a->din[1])
            lt_put_grad(a, 1, i,
                        a->dout[0] ? lt_dot(a->dout[0], token, 1, a->in[0], row, 1, width) : 0.0);
    }
    return LT_OK;
}

const lt_op_def lt_op_moe_combine = {
    .name = "moe_combine",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer_combine,
    .forward = {[LT_REF] = combine_ref,
                [LT_CPU] = lt_moe_combine_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_combine_fwd_cuda)},
    .backward = {[LT_REF] = combine_backward_ref,
                 [LT_CPU] = lt_moe_combine_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_combine_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2),
};

lt_val lt_moe_combine(lt_builder *b, lt_val x, lt_val weights, lt_val place)
{
    return lt_op_apply(b, &lt_op_moe_combine, (const lt_val[]){x, weights, place}, 3, NULL, 0,
                       NULL);
}
