// SPDX-License-Identifier: Apache-2.0
// qk_norm_rope: shape rule, reference and table row.
#include "op/qk_norm_rope.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/cuda/kernels.h"
#include <math.h>

static int64_t heads_of(const lt_op_args *a)
{
    return ((const lt_qk_norm_rope_attr *)a->attr)->heads;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 2, "table", 2));
    const lt_tensor *x = a->in[0], *table = a->in[2];
    const int64_t heads = heads_of(a);
    if (heads < 1 || x->dim[1] % heads != 0)
        return LT_FAIL(LT_ERR_SHAPE, "qk_norm_rope needs x as %lld heads of one width, got %s",
                       (long long)heads, lt_shape_print(x).s);
    const int64_t d = x->dim[1] / heads;
    LT_TRY(lt_need_1d(a, 1, "w", x->dtype, d));
    LT_TRY(lt_need_2d(a, 2, "table", lt_wide_dtype(x->dtype), x->dim[0], table->dim[1]));
    if (table->dim[1] % 2 != 0 || table->dim[1] > d) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "qk_norm_rope needs a table of an even width of at most %lld, got %s",
                       (long long)d, lt_shape_print(table).s);
    }
    *a->out[0] = lt_tensor_like(x);
    return LT_OK;
}

// (mean x^2 + eps)^-1/2 of a head; `head` counts through all rows
static double root(const lt_op_args *a, int64_t head, int64_t d)
{
    const lt_tensor *x = a->in[0];
    return 1.0 / sqrt(lt_dot(x, head * d, 1, x, head * d, 1, d) / (double)d +
                      ((const lt_qk_norm_rope_attr *)a->attr)->eps);
}

static double scale_of(const lt_op_args *a, int64_t j)
{
    return lt_load(a->in[1], j) + (((const lt_qk_norm_rope_attr *)a->attr)->plus_one ? 1.0 : 0.0);
}

// Number j of a normalised head, with the narrowings of a bf16 rms_norm.
static double normed(const lt_op_args *a, int64_t head, int64_t j, int64_t d, double r)
{
    const lt_tensor *x = a->in[0];
    const bool once = ((const lt_qk_norm_rope_attr *)a->attr)->plus_one;
    return lt_narrowed(x->dtype, scale_of(a, j) * lt_narrowed(once ? LT_F64 : x->dtype,
                                                              lt_load(x, head * d + j) * r));
}

// Cosine and sine for number j of a head of token t; false for those that are not rotated.
static bool angle(const lt_op_args *a, lt_dtype dtype, int64_t t, int64_t j, double *c, double *s)
{
    const lt_tensor *table = a->in[2];
    const int64_t width = table->dim[1], m = width / 2;
    if (j >= width)
        return false;
    *c = lt_narrowed(dtype, lt_load(table, t * width + j % m));
    *s = lt_narrowed(dtype, lt_load(table, t * width + m + j % m));
    return true;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_tensor *x = a->in[0];
    const int64_t heads = heads_of(a), d = x->dim[1] / heads, m = a->in[2]->dim[1] / 2;
    for (int64_t head = 0; head < x->dim[0] * heads; head++) {
        const double r = root(a, head, d);
        for (int64_t j = 0; j < d; j++) {
            double y = normed(a, head, j, d, r), c, s;
            if (angle(a, x->dtype, head / heads, j, &c, &s))
                y = y * c +
                    (j < m ? -normed(a, head, j + m, d, r) : normed(a, head, j - m, d, r)) * s;
            lt_store(a->out[0], head * d + j, y);
        }
    }
    return LT_OK;
}

// Gradient of the normalised number j: dy turned back by the angle.
static double turned_back(const lt_op_args *a, int64_t head, int64_t j, int64_t d, int64_t m)
{
    const double g = lt_dout(a, 0, head * d + j);
    double c, s;
    if (!angle(a, a->in[0]->dtype, head / heads_of(a), j, &c, &s))
        return g;
    return g * c + (j < m ? lt_dout(a, 0, head * d + j + m) : -lt_dout(a, 0, head * d + j - m)) * s;
}

static void input_gradient(const lt_op_args *a, int64_t d, int64_t m, int64_t n_heads)
{
    const lt_tensor *x = a->in[0];
    for (int64_t head = 0; head < n_heads; head++) {
        const double r = root(a, head, d);
        double mean = 0.0;
        for (int64_t j = 0; j < d; j++)
            mean += turned_back(a, head, j, d, m) * scale_of(a, j) * lt_load(x, head * d + j) * r /
                    (double)d;
        for (int64_t j = 0; j < d; j++) {
            const double g = turned_back(a, head, j, d, m) * scale_of(a, j);
            lt_put_grad(a, 0, head * d + j, r * (g - lt_load(x, head * d + j) * r * mean));
        }
    }
}

static void weight_gradient(const lt_op_args *a, int64_t d, int64_t m, int64_t n_heads)
{
    double *r = lt_scratch_f64(a, n_heads);
    for (int64_t head = 0; head < n_heads; head++)
        r[head] = root(a, head, d);
    for (int64_t j = 0; j < d; j++) {
        double sum = 0.0;
        for (int64_t head = 0; head < n_heads; head++)
            sum += turned_back(a, head, j, d, m) * lt_load(a->in[0], head * d + j) * r[head];
        lt_put_grad(a, 1, j, sum);
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    const int64_t heads = heads_of(a), d = a->in[0]->dim[1] / heads, m = a->in[2]->dim[1] / 2;
    if (a->din[0])
        input_gradient(a, d, m, a->in[0]->dim[0] * heads);
    if (a->din[1])
        weight_gradient(a, d, m, a->in[0]->dim[0] * heads);
    return LT_OK;
}

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    const int64_t rows = a->in[0]->dim[0];
    const size_t roots = (size_t)(rows * heads_of(a)) * sizeof(double),
                 parts = lt_cpu_part_bytes(rows, a->in[0]->dim[1] / heads_of(a));
    return pass == LT_FORWARD ? 0 : roots > parts ? roots : parts;
}

const lt_op_def lt_op_qk_norm_rope = {
    .name = "qk_norm_rope",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_qk_norm_rope_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_qk_norm_rope_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_qk_norm_rope_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_qk_norm_rope_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2),
    .scratch = scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_qk_norm_rope(lt_builder *b, lt_val x, lt_val w, lt_val table, lt_qk_norm_rope_attr attr)
{
    return lt_op_apply(b, &lt_op_qk_norm_rope, (const lt_val[]){x, w, table}, 3, &attr, sizeof attr,
                       NULL);
}
