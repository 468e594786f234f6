// SPDX-License-Identifier: Apache-2.0
// conv_silu: shape rule, reference and table row.
#include "op/conv_silu.h"
#include "op/cpu/kernels.h"
#include <math.h>

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "w", 3));
    LT_TRY(lt_need_dtype(a, 1, "w", a->in[0]->dtype));
    LT_TRY(lt_need_rank(a, 2, "segments", 1));
    LT_TRY(lt_need_dtype(a, 2, "segments", LT_I32));
    const lt_tensor *x = a->in[0], *w = a->in[1];
    if (w->dim[0] != x->dim[1] || w->dim[1] != 1 || w->dim[2] < 1 || w->dim[2] > LT_MAX_TAPS) {
        return LT_FAIL(LT_ERR_SHAPE, "conv_silu needs w as [%lld, 1, 1 to %d] for x %s, got %s",
                       (long long)x->dim[1], LT_MAX_TAPS, lt_shape_print(x).s, lt_shape_print(w).s);
    }
    *a->out[0] = lt_tensor_like(x);
    return LT_OK;
}

// u_t[c]; start: where t's segment begins
static double pre_activation(const lt_op_args *a, int64_t start, int64_t t, int64_t c)
{
    const int64_t width = a->in[0]->dim[1], taps = a->in[1]->dim[2];
    double u = 0.0;
    for (int64_t j = 0; j < taps; j++) {
        const int64_t from = t - taps + 1 + j;
        if (from >= start)
            u += lt_load(a->in[1], c * taps + j) * lt_load(a->in[0], from * width + c);
    }
    return u;
}

// Calls fn for each row: with the bounds of its segment, or with end = start where none holds it.
static void each_row(const lt_op_args *a,
                     void (*fn)(const lt_op_args *a, int64_t start, int64_t end, int64_t t))
{
    const int32_t *segments = lt_index(a->in[2]);
    const int64_t n = lt_n_elems(a->in[2]) - 1;
    for (int64_t t = 0, s = 0; t < a->in[0]->dim[0]; t++) {
        while (s < n && segments[s + 1] <= t)
            s++;
        const bool inside = s < n && segments[s] <= t;
        fn(a, inside ? segments[s] : t, inside ? segments[s + 1] : t, t);
    }
}

static void forward_row(const lt_op_args *a, int64_t start, int64_t end, int64_t t)
{
    const int64_t width = a->in[0]->dim[1];
    for (int64_t c = 0; c < width; c++) {
        const double u = pre_activation(a, start, t, c);
        lt_store(a->out[0], t * width + c, t < end ? u / (1.0 + exp(-u)) : 0.0);
    }
}

static lt_status forward_ref(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 2, a->in[0]->dim[0]));
    each_row(a, forward_row);
    return LT_OK;
}

// du_t[c] = dy silu'(u)
static double slope(const lt_op_args *a, int64_t start, int64_t t, int64_t c)
{
    const double u = pre_activation(a, start, t, c), s = 1.0 / (1.0 + exp(-u));
    return lt_dout(a, 0, t * a->in[0]->dim[1] + c) * s * (1.0 + u * (1.0 - s));
}

static void input_row(const lt_op_args *a, int64_t start, int64_t end, int64_t t)
{
    const int64_t width = a->in[0]->dim[1], taps = a->in[1]->dim[2];
    for (int64_t c = 0; c < width; c++) {
        double d = 0.0;
        for (int64_t later = 0; later < taps && t + later < end; later++)
            d += lt_load(a->in[1], c * taps + taps - 1 - later) * slope(a, start, t + later, c);
        lt_put_grad(a, 0, t * width + c, d);
    }
}

static void weight_gradient(const lt_op_args *a, int64_t c, int64_t j)
{
    const int32_t *segments = lt_index(a->in[2]);
    const int64_t width = a->in[0]->dim[1], taps = a->in[1]->dim[2];
    double sum = 0.0;
    for (int64_t s = 0; s + 1 < lt_n_elems(a->in[2]); s++) {
        for (int64_t t = segments[s] + taps - 1 - j; t < segments[s + 1]; t++)
            sum += slope(a, segments[s], t, c) * lt_load(a->in[0], (t - taps + 1 + j) * width + c);
    }
    lt_put_grad(a, 1, c * taps + j, sum);
}

static lt_status backward_ref(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 2, a->in[0]->dim[0]));
    if (a->din[0])
        each_row(a, input_row);
    for (int64_t c = 0; a->din[1] && c < a->in[1]->dim[0]; c++)
        for (int64_t j = 0; j < a->in[1]->dim[2]; j++)
            weight_gradient(a, c, j);
    return LT_OK;
}

const lt_op_def lt_op_conv_silu = {
    .name = "conv_silu",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CPU] = lt_conv_silu_fwd_cpu},
    .backward = {[LT_REF] = backward_ref, [LT_CPU] = lt_conv_silu_bwd_cpu},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2),
    .flags = LT_OP_CHEAP,
};

lt_val lt_conv_silu(lt_builder *b, lt_val x, lt_val w)
{
    const lt_val in[] = {x, w, lt_batch_of(b, LT_BATCH_SEGMENTS)};
    return lt_op_apply(b, &lt_op_conv_silu, in, 3, NULL, 0, NULL);
}
