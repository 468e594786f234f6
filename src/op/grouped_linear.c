// SPDX-License-Identifier: Apache-2.0
// grouped_linear and swiglu_halves: shape rules, references and table rows.
#include "op/grouped_linear.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

/* ---- grouped_linear ---- */

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "w", 3));
    const lt_tensor *x = a->in[0], *w = a->in[1];
    LT_TRY(lt_need_dtype(a, 1, "w", x->dtype));
    LT_TRY(lt_need_1d(a, 2, "offsets", LT_I32, w->dim[0] + 1));
    if (w->dim[2] != x->dim[1]) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "grouped_linear needs x [R, K] and w [E, O, K] of one K, got %s and %s",
                       lt_shape_print(x).s, lt_shape_print(w).s);
    }
    *a->out[0] = lt_tensor_2d(x->dtype, x->dim[0], w->dim[1]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0], *w = a->in[1];
    const int32_t *offsets = a->in[2]->data;
    const int64_t k = w->dim[2], m = w->dim[1];
    for (int64_t e = 0; e < w->dim[0]; e++) {
        for (int64_t r = offsets[e]; r < offsets[e + 1]; r++)
            for (int64_t o = 0; o < m; o++)
                lt_store(a->out[0], r * m + o, lt_dot(x, r * k, 1, w, (e * m + o) * k, 1, k));
    }
    return LT_OK;
}

// dx = dy W_e
static void input_gradient(const lt_op_args *a, int64_t e, int64_t from, int64_t to)
{
    const int64_t k = a->in[1]->dim[2], m = a->in[1]->dim[1];
    for (int64_t r = from; r < to; r++) {
        for (int64_t c = 0; c < k; c++) {
            lt_put_grad(a, 0, r * k + c,
                        a->dout[0] ? lt_dot(a->dout[0], r * m, 1, a->in[1], e * m * k + c, k, m)
                                   : 0.0);
        }
    }
}

// dW_e = dy^T x over the rows of e
static void weight_gradient(const lt_op_args *a, int64_t e, int64_t from, int64_t to)
{
    const int64_t k = a->in[1]->dim[2], m = a->in[1]->dim[1];
    for (int64_t o = 0; o < m; o++) {
        for (int64_t c = 0; c < k; c++) {
            lt_put_grad(a, 1, (e * m + o) * k + c,
                        a->dout[0] ? lt_dot(a->dout[0], from * m + o, m, a->in[0], from * k + c, k,
                                            to - from)
                                   : 0.0);
        }
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    const int32_t *offsets = a->in[2]->data;
    for (int64_t e = 0; e < a->in[1]->dim[0]; e++) {
        if (a->din[0])
            input_gradient(a, e, offsets[e], offsets[e + 1]);
        if (a->din[1])
            weight_gradient(a, e, offsets[e], offsets[e + 1]);
    }
    return LT_OK;
}

static int64_t flops(const lt_op_args *a)
{
    return 2 * lt_n_elems(a->in[0]) * a->in[1]->dim[1];
}

const lt_op_def lt_op_grouped_linear = {
    .name = "grouped_linear",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_grouped_linear_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_grouped_linear_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_grouped_linear_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_grouped_linear_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2),
    .flops = flops,
};

lt_val lt_grouped_linear(lt_builder *b, lt_val x, lt_val w, lt_val offsets)
{
    return lt_op_apply(b, &lt_op_grouped_linear, (const lt_val[]){x, w, offsets}, 3, NULL, 0, NULL);
}

/* ---- swiglu_halves ---- */

static lt_status infer_halves(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0];
    if (x->dim[1] % 2 != 0)
        return LT_FAIL(LT_ERR_SHAPE, "swiglu_halves needs x [R, 2 I], got %s", lt_shape_print(x).s);
    *a->out[0] = lt_tensor_2d(x->dtype, x->dim[0], x->dim[1] / 2);
    return LT_OK;
}

static lt_status halves_ref(const lt_op_args *a)
{
    const int64_t width = a->out[0]->dim[1];
    for (int64_t i = 0, n = lt_n_elems(a->out[0]); i < n; i++) {
        const int64_t at = i + i / width * width;
        const double g = lt_load(a->in[0], at), u = lt_load(a->in[0], at + width);
        lt_store(a->out[0], i, g / (1.0 + exp(-g)) * u);
    }
    return LT_OK;
}

// as swiglu's: d silu(g)/dg = s + g s (1 - s), where s = sigmoid(g)
static lt_status halves_backward_ref(const lt_op_args *a)
{
    const int64_t width = a->in[0]->dim[1] / 2;
    for (int64_t i = 0, n = lt_n_elems(a->in[0]) / 2; i < n; i++) {
        const int64_t at = i + i / width * width;
        const double g = lt_load(a->in[0], at), u = lt_load(a->in[0], at + width);
        const double s = 1.0 / (1.0 + exp(-g)), d = lt_dout(a, 0, i);
        lt_put_grad(a, 0, at, d * u * (s + g * s * (1.0 - s)));
        lt_put_grad(a, 0, at + width, d * g * s);
    }
    return LT_OK;
}

const lt_op_def lt_op_swiglu_halves = {
    .name = "swiglu_halves",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_halves,
    .forward = {[LT_REF] = halves_ref,
                [LT_CPU] = lt_swiglu_halves_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_swiglu_halves_fwd_cuda)},
    .backward = {[LT_REF] = halves_backward_ref,
                 [LT_CPU] = lt_swiglu_halves_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_swiglu_halves_bwd_cuda)},
    .backward_reads = LT_IN(0),
    .flags = LT_OP_CHEAP,
};

lt_val lt_swiglu_halves(lt_builder *b, lt_val x)
{
    return lt_op_apply(b, &lt_op_swiglu_halves, &x, 1, NULL, 0, NULL);
}
