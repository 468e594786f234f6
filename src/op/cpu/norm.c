// SPDX-License-Identifier: Apache-2.0
// rms_norm, add_rms_norm and layer_norm on the CPU: rows in parallel, parameter gradients by pieces
// of rows.
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/layer_norm.h"
#include "op/rms_norm.h"

// A call, and which row kernel a piece of it goes to.
typedef struct norm {
    lt_norm_args args;
    void (*rows)(const lt_norm_args *a, int64_t from, int64_t to);
    // backward: each piece's sums, [pieces, width or 2 width]; NULL: no parameter wants a gradient
    float *parts;
    bool has_bias;
} norm;

static lt_status forward_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const norm *n = ctx;
    n->rows(&n->args, from, to);
    return LT_OK;
}

static lt_status backward_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    const norm *n = ctx;
    lt_norm_args args = n->args;
    if (n->parts) {
        args.dw = n->parts + piece * args.width * (n->has_bias ? 2 : 1);
        args.dbias = n->has_bias ? args.dw + args.width : NULL;
    }
    n->rows(&args, from, to);
    return LT_OK;
}

static norm norm_of(const lt_tensor *x, const lt_tensor *w, double eps)
{
    return (norm){.args = {.bf16 = x->dtype == LT_BF16,
                           .width = lt_width(x),
                           .eps = eps,
                           .x = x->data,
                           .w = w->data}};
}

static norm rms_of(const lt_op_args *a, const lt_tensor *x, const lt_tensor *w)
{
    const lt_rms_norm_attr *attr = a->attr;
    norm n = norm_of(x, w, attr->eps);
    n.args.plus_one = attr->plus_one;
    return n;
}

static lt_status forward(const lt_op_args *a, norm *n)
{
    return lt_cpu_pieces(a, lt_rows(a->in[0]), lt_cpu_rows_step(n->args.width), forward_piece, n);
}

// w and bias: numbers of those inputs; bias -1: none
static lt_status backward(const lt_op_args *a, norm *n, int64_t n_rows, int w, int bias)
{
    const int64_t width = n->args.width, sums = bias >= 0 ? 2 * width : width;
    n->has_bias = bias >= 0;
    if (a->din[w] || (n->has_bias && a->din[bias])) {
        LT_ASSERT(a->run->scratch_bytes >= lt_cpu_part_bytes(n_rows, sums));
        n->parts = a->run->scratch;
    }
    LT_TRY(lt_cpu_pieces(a, n_rows, LT_CPU_PART_ROWS, backward_piece, n));
    const int64_t n_parts = lt_ceil_div(n_rows, LT_CPU_PART_ROWS);
    LT_TRY(lt_cpu_sum_parts(a, w, n->parts, sums, n_parts, width));
    return n->has_bias
               ? lt_cpu_sum_parts(a, bias, n->parts ? n->parts + width : NULL, sums, n_parts, width)
               : LT_OK;
}

lt_status lt_rms_norm_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    norm n = rms_of(a, a->in[0], a->in[1]);
    n.args.y = a->out[0]->data;
    n.rows = lt_cpu_rows(a)->rms_fwd;
    return forward(a, &n);
}

lt_status lt_rms_norm_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    norm n = rms_of(a, a->in[0], a->in[1]);
    n.args.dy = lt_cpu_data(a->dout[0]);
    n.args.dx[0] = lt_cpu_sink(a, 0);
    n.rows = lt_cpu_rows(a)->rms_bwd;
    return backward(a, &n, lt_rows(a->in[0]), 1, -1);
}

lt_status lt_add_rms_norm_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0) | LT_OUT(1)))
        return lt_cpu_reference(a, LT_FORWARD);
    norm n = rms_of(a, a->in[0], a->in[2]);
    n.args.plus = a->in[1]->data;
    n.args.sum = a->out[0]->data;
    n.args.y = a->out[1]->data;
    n.rows = lt_cpu_rows(a)->rms_fwd;
    return forward(a, &n);
}

lt_status lt_add_rms_norm_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(2) | LT_OUT(0) | LT_OUT(1)))
        return lt_cpu_reference(a, LT_BACKWARD);
    norm n = rms_of(a, a->out[0], a->in[2]);
    n.args.dy = lt_cpu_data(a->dout[1]);
    n.args.through = lt_cpu_data(a->dout[0]);
    n.args.dx[0] = lt_cpu_sink(a, 0);
    n.args.dx[1] = lt_cpu_sink(a, 1);
    n.rows = lt_cpu_rows(a)->rms_bwd;
    return backward(a, &n, lt_rows(a->out[0]), 2, -1);
}

lt_status lt_layer_norm_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    norm n = norm_of(a->in[0], a->in[1], ((const lt_layer_norm_attr *)a->attr)->eps);
    n.args.bias = a->in[2]->data;
    n.args.y = a->out[0]->data;
    n.rows = lt_cpu_rows(a)->layer_fwd;
    return forward(a, &n);
}

lt_status lt_layer_norm_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    norm n = norm_of(a->in[0], a->in[1], ((const lt_layer_norm_attr *)a->attr)->eps);
    n.args.dy = lt_cpu_data(a->dout[0]);
    n.args.dx[0] = lt_cpu_sink(a, 0);
    n.rows = lt_cpu_rows(a)->layer_bwd;
    return backward(a, &n, lt_rows(a->in[0]), 1, 2);
}
