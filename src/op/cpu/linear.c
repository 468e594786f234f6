// SPDX-License-Identifier: Apache-2.0
// linear on the CPU: three matrix products, and column sums for the bias.
#include "device/gemm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"

typedef struct sizes {
    int64_t rows, in, out;
} sizes;

static sizes sizes_of(const lt_op_args *a)
{
    return (sizes){.rows = a->in[0]->dim[0], .in = a->in[0]->dim[1], .out = a->in[1]->dim[0]};
}

lt_status lt_linear_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    const sizes s = sizes_of(a);
    const lt_tensor *bias = a->in[2];
    const lt_gemm g = {.m = s.rows,
                       .n = s.out,
                       .k = s.in,
                       .lda = s.in,
                       .ldb = s.in,
                       .ldc = s.out,
                       .trans_b = true,
                       .ab_dtype = a->in[0]->dtype,
                       .c_dtype = a->out[0]->dtype,
                       .bias_dtype = bias ? bias->dtype : LT_F32,
                       .a = a->in[0]->data,
                       .b = a->in[1]->data,
                       .bias = bias ? bias->data : NULL,
                       .c = a->out[0]->data};
    return lt_cpu_gemm(lt_cpu_pool(a), &g);
}

// dx = dy W
static lt_status input_gradient(const lt_op_args *a, sizes s)
{
    const lt_gemm g = {.m = s.rows,
                       .n = s.in,
                       .k = s.out,
                       .lda = s.out,
                       .ldb = s.in,
                       .ldc = s.in,
                       .accumulate = a->add & LT_IN(0),
                       .ab_dtype = a->dout[0]->dtype,
                       .c_dtype = a->din[0]->dtype,
                       .a = a->dout[0]->data,
                       .b = a->in[1]->data,
                       .c = a->din[0]->data};
    return lt_cpu_gemm(lt_cpu_pool(a), &g);
}

// dW = dy^T x
static lt_status weight_gradient(const lt_op_args *a, sizes s)
{
    const lt_gemm g = {.m = s.out,
                       .n = s.in,
                       .k = s.rows,
                       .lda = s.out,
                       .ldb = s.in,
                       .ldc = s.in,
                       .trans_a = true,
                       .stream = s.out * s.in >= LT_CPU_STREAM_FROM,
                       .accumulate = a->add & LT_IN(1),
                       .ab_dtype = a->dout[0]->dtype,
                       .c_dtype = a->din[1]->dtype,
                       .a = a->dout[0]->data,
                       .b = a->in[0]->data,
                       .c = a->din[1]->data};
    return lt_cpu_gemm(lt_cpu_pool(a), &g);
}

// Columns [from, to) of dy, added up row by row in double.
static lt_status bias_columns(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    enum { COLUMNS = 64 };
    (void)piece;
    const lt_op_args *a = ctx;
    const sizes s = sizes_of(a);
    const int64_t n = to - from;
    double sum[COLUMNS] = {0.0};
    float row[COLUMNS];
    for (int64_t r = 0; r < s.rows; r++) {
        lt_convert(row, LT_F32, lt_at(a->dout[0], r * s.out + from), a->dout[0]->dtype, n);
        for (int64_t j = 0; j < n; j++)
            sum[j] += (double)row[j];
    }
    for (int64_t j = 0; j < n; j++) {
        const double before = a->add & LT_IN(2) ? lt_load(a->din[2], from + j) : 0.0;
        lt_store(a->din[2], from + j, before + sum[j]);
    }
    return LT_OK;
}

lt_status lt_linear_bwd_cpu(const lt_op_args *a)
{
    enum { COLUMNS = 64 };
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = 0; i < a->def->n_in && !a->dout[0]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[0])
        return LT_OK;
    const sizes s = sizes_of(a);
    lt_op_args args = *a;
    if (a->din[0])
        LT_TRY(input_gradient(a, s));
    if (a->din[1])
        LT_TRY(weight_gradient(a, s));
    if (a->din[2])
        LT_TRY(lt_cpu_pieces(a, s.out, COLUMNS, bias_columns, &args));
    return LT_OK;
}
