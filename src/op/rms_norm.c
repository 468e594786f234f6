// SPDX-License-Identifier: Apache-2.0
// rms_norm and add_rms_norm: shape rules, references and table rows.
#include "op/rms_norm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/cuda/kernels.h"
#include <math.h>

static double root(const lt_op_args *a, const lt_tensor *x, int64_t row)
{
    const double eps = ((const lt_rms_norm_attr *)a->attr)->eps;
    const int64_t width = lt_width(x);
    return 1.0 / sqrt(lt_dot(x, row * width, 1, x, row * width, 1, width) / (double)width + eps);
}

static double scale_of(const lt_op_args *a, const lt_tensor *w, int64_t j)
{
    return lt_load(w, j) + (((const lt_rms_norm_attr *)a->attr)->plus_one ? 1.0 : 0.0);
}

// y = w * (x r): in bf16 both products are narrowed, unless the scale is 1 + w
static void normalise(const lt_op_args *a, const lt_tensor *x, const lt_tensor *w, lt_tensor *y)
{
    const int64_t width = lt_width(x);
    const bool once = ((const lt_rms_norm_attr *)a->attr)->plus_one;
    for (int64_t row = 0, n = lt_rows(x); row < n; row++) {
        const double r = root(a, x, row);
        for (int64_t k = row * width, j = 0; j < width; j++, k++)
            lt_store(y, k,
                     scale_of(a, w, j) * lt_narrowed(once ? LT_F64 : x->dtype, lt_load(x, k) * r));
    }
}

// d y / d x: r (g - xhat mean(g xhat)) with g = dy w; on top of it what `through` gives (the
// residual's gradient)
static void input_gradient(const lt_op_args *a, const lt_tensor *x, const lt_tensor *w,
                           const lt_tensor *dy, const lt_tensor *through)
{
    const int64_t width = lt_width(x);
    for (int64_t row = 0, n = lt_rows(x); row < n; row++) {
        const int64_t from = row * width;
        const double r = root(a, x, row);
        double mean = 0.0;
        for (int64_t j = 0; dy && j < width; j++)
            mean += lt_load(dy, from + j) * scale_of(a, w, j) * lt_load(x, from + j) * r /
                    (double)width;
        for (int64_t j = 0; j < width; j++) {
            double d = through ? lt_load(through, from + j) : 0.0;
            if (dy)
                d += r *
                     (lt_load(dy, from + j) * scale_of(a, w, j) - lt_load(x, from + j) * r * mean);
            lt_put_grad(a, 0, from + j, d);
            if (a->def->n_out == 2)
                lt_put_grad(a, 1, from + j, d);
        }
    }
}

// dw = sum over rows of dy xhat
static void weight_gradient(const lt_op_args *a, const lt_tensor *x, const lt_tensor *dy, int i)
{
    const int64_t width = lt_width(x), n = lt_rows(x);
    double *r = lt_scratch_f64(a, n);
    for (int64_t row = 0; row < n; row++)
        r[row] = root(a, x, row);
    for (int64_t j = 0; j < width; j++) {
        double sum = 0.0;
        for (int64_t row = 0; dy && row < n; row++)
            sum += lt_load(dy, row * width + j) * lt_load(x, row * width + j) * r[row];
        lt_put_grad(a, i, j, sum);
    }
}

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    const int64_t rows = lt_rows(a->in[0]);
    const size_t roots = (size_t)rows * sizeof(double),
                 parts = lt_cpu_part_bytes(rows, lt_width(a->in[0]));
    return pass == LT_FORWARD ? 0 : roots > parts ? roots : parts;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_1d(a, 1, "w", a->in[0]->dtype, a->in[0]->dim[1]));
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    normalise(a, a->in[0], a->in[1], a->out[0]);
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    if (a->din[0])
        input_gradient(a, a->in[0], a->in[1], a->dout[0], NULL);
    if (a->din[1])
        weight_gradient(a, a->in[0], a->dout[0], 1);
    return LT_OK;
}

const lt_op_def lt_op_rms_norm = {
    .name = "rms_norm",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_rms_norm_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_rms_norm_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_rms_norm_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_rms_norm_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .scratch = scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_rms_norm(lt_builder *b, lt_val x, lt_val w, lt_rms_norm_attr attr)
{
    return lt_op_apply(b, &lt_op_rms_norm, (const lt_val[]){x, w}, 2, &attr, sizeof attr, NULL);
}

static lt_status infer_add(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_alike(a, 0, "x", 1, "a"));
    LT_TRY(lt_need_1d(a, 2, "w", a->in[0]->dtype, a->in[0]->dim[1]));
    *a->out[0] = lt_tensor_like(a->in[0]);
    *a->out[1] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static lt_status forward_add_ref(const lt_op_args *a)
{
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++)
        lt_store(a->out[0], k, lt_load(a->in[0], k) + lt_load(a->in[1], k));
    normalise(a, a->out[0], a->in[2], a->out[1]); // of x2 as it was narrowed
    return LT_OK;
}

static lt_status backward_add_ref(const lt_op_args *a)
{
    if (a->din[0] || a->din[1])
        input_gradient(a, a->out[0], a->in[2], a->dout[1], a->dout[0]);
    if (a->din[2])
        weight_gradient(a, a->out[0], a->dout[1], 2);
    return LT_OK;
}

const lt_op_def lt_op_add_rms_norm = {
    .name = "add_rms_norm",
    .n_in = 3,
    .n_out = 2,
    .dtypes = LT_FLOATS,
    .infer = infer_add,
    .forward = {[LT_REF] = forward_add_ref,
                [LT_CPU] = lt_add_rms_norm_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_add_rms_norm_fwd_cuda)},
    .backward = {[LT_REF] = backward_add_ref,
                 [LT_CPU] = lt_add_rms_norm_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_add_rms_norm_bwd_cuda)},
    .backward_reads = LT_OUT(0) | LT_IN(2),
    .scratch = scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_add_rms_norm(lt_builder *b, lt_val *x, lt_val a, lt_val w, lt_rms_norm_attr attr)
{
    lt_val out[2] = {LT_NONE, LT_NONE};
    (void)lt_op_apply(b, &lt_op_add_rms_norm, (const lt_val[]){*x, a, w}, 3, &attr, sizeof attr,
                      out);
    *x = out[0];
    return out[1];
}
