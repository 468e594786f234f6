// SPDX-License-Identifier: Apache-2.0
// layer_norm: shape rule, reference and table row.
#include "op/layer_norm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/cuda/kernels.h"
#include <math.h>

typedef struct moments {
    double mean, r; /* r = (var + eps)^-1/2 */
} moments;

static moments row_moments(const lt_op_args *a, int64_t row)
{
    const lt_tensor *x = a->in[0];
    const int64_t width = x->dim[1], from = row * width;
    moments m = {0.0, 0.0};
    for (int64_t j = 0; j < width; j++)
        m.mean += lt_load(x, from + j) / (double)width;
    double var = 0.0;
    for (int64_t j = 0; j < width; j++) {
        const double d = lt_load(x, from + j) - m.mean;
        var += d * d / (double)width;
    }
    m.r = 1.0 / sqrt(var + ((const lt_layer_norm_attr *)a->attr)->eps);
    return m;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_1d(a, 1, "w", a->in[0]->dtype, a->in[0]->dim[1]));
    LT_TRY(lt_need_1d(a, 2, "bias", a->in[0]->dtype, a->in[0]->dim[1]));
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0];
    const int64_t width = x->dim[1];
    for (int64_t row = 0; row < x->dim[0]; row++) {
        const moments m = row_moments(a, row);
        for (int64_t j = 0, k = row * width; j < width; j++, k++)
            lt_store(a->out[0], k,
                     (lt_load(x, k) - m.mean) * m.r * lt_load(a->in[1], j) + lt_load(a->in[2], j));
    }
    return LT_OK;
}

// dx = r (g - mean g - xhat mean(g xhat)), g = dy w
static void input_gradient(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0], *w = a->in[1];
    const int64_t width = x->dim[1];
    for (int64_t row = 0; row < x->dim[0]; row++) {
        const moments m = row_moments(a, row);
        const int64_t from = row * width;
        double mean_g = 0.0, mean_gx = 0.0;
        for (int64_t j = 0; j < width; j++) {
            const double g = lt_dout(a, 0, from + j) * lt_load(w, j) / (double)width;
            mean_g += g;
            mean_gx += g * (lt_load(x, from + j) - m.mean) * m.r;
        }
        for (int64_t j = 0; j < width; j++) {
            const double g = lt_dout(a, 0, from + j) * lt_load(w, j),
                         xhat = (lt_load(x, from + j) - m.mean) * m.r;
            lt_put_grad(a, 0, from + j, m.r * (g - mean_g - xhat * mean_gx));
        }
    }
}

// dw = sum over rows of dy xhat; dbias = sum of dy
static void affine_gradient(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0];
    const int64_t width = x->dim[1], n = x->dim[0];
    double *mean = lt_scratch_f64(a, 2 * n), *r = n > 0 ? mean + n : NULL;
    for (int64_t row = 0; row < n; row++) {
        const moments m = row_moments(a, row);
        mean[row] = m.mean;
        r[row] = m.r;
    }
    for (int64_t j = 0; j < width; j++) {
        double dw = 0.0, dbias = 0.0;
        for (int64_t row = 0; row < n; row++) {
            const double dy = lt_dout(a, 0, row * width + j);
            dw += dy * (lt_load(x, row * width + j) - mean[row]) * r[row];
            dbias += dy;
        }
        lt_put_grad(a, 1, j, dw);
        lt_put_grad(a, 2, j, dbias);
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    if (a->din[0])
        input_gradient(a);
    if (a->din[1] || a->din[2])
        affine_gradient(a);
    return LT_OK;
}

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    const int64_t rows = a->in[0]->dim[0];
    const size_t moments_bytes = (size_t)(2 * rows) * sizeof(double),
                 parts = lt_cpu_part_bytes(rows, 2 * a->in[0]->dim[1]);
    return pass == LT_FORWARD ? 0 : moments_bytes > parts ? moments_bytes : parts;
}

const lt_op_def lt_op_layer_norm = {
    .name = "layer_norm",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_layer_norm_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_layer_norm_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_layer_norm_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_layer_norm_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .scratch = scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_layer_norm(lt_builder *b, lt_val x, lt_val w, lt_val bias, double eps)
{
    const lt_layer_norm_attr attr = {.eps = eps};
    return lt_op_apply(b, &lt_op_layer_norm, (const lt_val[]){x, w, bias}, 3, &attr, sizeof attr,
                       NULL);
}
