// SPDX-License-Identifier: Apache-2.0
// linear: shape rule, reference and table row.
#include "op/linear.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <stdio.h>

// A weight of more dims is a matrix of its first and the product of the rest.
static int64_t weight_cols(const lt_tensor *w)
{
    int64_t cols = 1;
    for (int i = 1; i < w->rank; i++)
        cols *= w->dim[i];
    return cols;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0], *w = a->in[1];
    LT_TRY(lt_need_dtype(a, 1, "w", x->dtype));
    if (w->rank < 2 || weight_cols(w) != x->dim[1])
        return LT_FAIL(LT_ERR_SHAPE, "linear needs x [R, K] and w [O, K] of one K, got %s and %s",
                       lt_shape_print(x).s, lt_shape_print(w).s);
    if (a->in[2])
        LT_TRY(lt_need_1d(a, 2, "bias", x->dtype, w->dim[0]));
    *a->out[0] = lt_tensor_2d(x->dtype, x->dim[0], w->dim[0]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0], *w = a->in[1], *bias = a->in[2];
    const int64_t n = x->dim[0], k = x->dim[1], m = w->dim[0];
    for (int64_t r = 0; r < n; r++) {
        for (int64_t o = 0; o < m; o++)
            lt_store(a->out[0], r * m + o,
                     lt_dot(x, r * k, 1, w, o * k, 1, k) + (bias ? lt_load(bias, o) : 0.0));
    }
    return LT_OK;
}

// dx = dy W
static void input_gradient(const lt_op_args *a, int64_t n, int64_t k, int64_t m)
{
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < k; c++)
            lt_put_grad(a, 0, r * k + c,
                        a->dout[0] ? lt_dot(a->dout[0], r * m, 1, a->in[1], c, k, m) : 0.0);
    }
}

// dW = dy^T x
static void weight_gradient(const lt_op_args *a, int64_t n, int64_t k, int64_t m)
{
    for (int64_t o = 0; o < m; o++) {
        for (int64_t c = 0; c < k; c++)
            lt_put_grad(a, 1, o * k + c,
                        a->dout[0] ? lt_dot(a->dout[0], o, m, a->in[0], c, k, n) : 0.0);
    }
}

static void bias_gradient(const lt_op_args *a, int64_t n, int64_t m)
{
    for (int64_t o = 0; o < m; o++) {
        double sum = 0.0;
        for (int64_t r = 0; r < n; r++)
            sum += lt_dout(a, 0, r * m + o);
        lt_put_grad(a, 2, o, sum);
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    const int64_t n = a->in[0]->dim[0], k = a->in[0]->dim[1], m = a->in[1]->dim[0];
    if (a->din[0])
        input_gradient(a, n, k, m);
    if (a->din[1])
        weight_gradient(a, n, k, m);
    if (a->din[2])
        bias_gradient(a, n, m);
    return LT_OK;
}

static int64_t flops(const lt_op_args *a)
{
    return 2 * lt_n_elems(a->in[0]) * a->in[1]->dim[0];
}

const lt_op_def lt_op_linear = {
    .name = "linear",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_linear_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_linear_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_linear_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_linear_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .flops = flops,
};

lt_val lt_linear_of(lt_builder *b, lt_val x, lt_val w, lt_val bias)
{
    return lt_op_apply(b, &lt_op_linear, (const lt_val[]){x, w, bias}, 3, NULL, 0, NULL);
}

lt_val lt_linear(lt_builder *b, lt_val x, const char *path)
{
    const lt_val w = lt_param_if(b, path, ".weight");
    if (w == LT_NONE)
        return lt_builder_fail(b, LT_ERR_INTERNAL,
                               "linear %s: the block kind has no parameter %s.weight", path, path);
    return lt_linear_of(b, x, w, lt_param_if(b, path, ".bias"));
}
