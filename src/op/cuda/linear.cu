// SPDX-License-Identifier: Apache-2.0
// linear: three products by cuBLASLt, and the bias's gradient as a sum of columns.
#include "op/cuda/columns.cuh"

static int64_t rows_of(const lt_op_args *a)
{
    return a->in[0]->dim[0];
}

static lt_gemm product(int64_t m, int64_t n, int64_t k, const lt_tensor *x, const lt_tensor *y,
                       const lt_tensor *out)
{
    lt_gemm g = {};
    g.m = m, g.n = n, g.k = k;
    g.a = x->data, g.b = y->data, g.c = out->data;
    g.ab_dtype = x->dtype, g.c_dtype = out->dtype;
    g.ldc = n;
    return g;
}

// y = x W^T + bias
lt_status lt_linear_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t k = a->in[0]->dim[1], o = a->in[1]->dim[0];
    lt_gemm g = product(rows_of(a), o, k, a->in[0], a->in[1], a->out[0]);
    g.lda = k, g.ldb = k, g.trans_b = true;
    if (a->in[2]) {
        g.bias = a->in[2]->data;
        g.bias_dtype = a->in[2]->dtype;
    }
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

// dx = dy W
static lt_status input_gradient(const lt_op_args *a, int64_t k, int64_t o)
{
    if (!a->dout[0])
        return lt_zero_grad_cuda(a, 0);
    lt_gemm g = product(rows_of(a), k, o, a->dout[0], a->in[1], a->din[0]);
    g.lda = o, g.ldb = k, g.accumulate = (a->add & LT_IN(0)) != 0;
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

// dW = dy^T x
static lt_status weight_gradient(const lt_op_args *a, int64_t k, int64_t o)
{
    if (!a->dout[0])
        return lt_zero_grad_cuda(a, 1);
    lt_gemm g = product(o, k, rows_of(a), a->dout[0], a->in[0], a->din[1]);
    g.lda = o, g.ldb = k, g.trans_a = true, g.accumulate = (a->add & LT_IN(1)) != 0;
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

lt_status lt_linear_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t k = a->in[0]->dim[1], o = a->in[1]->dim[0];
    if (a->din[0])
        LT_TRY(input_gradient(a, k, o));
    if (a->din[1])
        LT_TRY(weight_gradient(a, k, o));
    return lt_sum_columns(a, lt_plain_term{lt_read(a->dout[0]), o}, rows_of(a), o,
                          lt_write_grad(a, 2));
}
