// SPDX-License-Identifier: Apache-2.0
// qk_norm_rope and split_qkv_rope on the CPU.
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/qk_norm_rope.h"
#include "op/rope.h"
#include <string.h>

typedef struct qk {
    lt_qk_args args;
    const lt_row_kernels *rows;
    float *parts; // each piece's sums [pieces, d]; NULL: w wants no gradient
} qk;

static lt_qk_args qk_args_of(const lt_op_args *a)
{
    const lt_qk_norm_rope_attr *attr = a->attr;
    return (lt_qk_args){.bf16 = a->in[0]->dtype == LT_BF16,
                        .plus_one = attr->plus_one,
                        .heads = attr->heads,
                        .d = a->in[0]->dim[1] / attr->heads,
                        .turned = a->in[2]->dim[1],
                        .eps = attr->eps,
                        .x = a->in[0]->data,
                        .w = a->in[1]->data,
                        .table = a->in[2]->data};
}

static lt_status qk_forward_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const qk *q = ctx;
    q->rows->qk_fwd(&q->args, from, to);
    return LT_OK;
}

lt_status lt_qk_norm_rope_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    qk q = {.args = qk_args_of(a), .rows = lt_cpu_rows(a)};
    q.args.y = a->out[0]->data;
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(a->in[0]->dim[1]), qk_forward_piece,
                         &q);
}

static lt_status qk_backward_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    const qk *q = ctx;
    lt_qk_args args = q->args;
    args.dw = q->parts ? q->parts + piece * args.d : NULL;
    q->rows->qk_bwd(&args, from, to);
    return LT_OK;
}

lt_status lt_qk_norm_rope_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    const int64_t n = a->in[0]->dim[0];
    qk q = {.args = qk_args_of(a), .rows = lt_cpu_rows(a)};
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    q.args.dy = a->dout[0]->data;
    q.args.dx = lt_cpu_sink(a, 0);
    if (a->din[1]) {
        LT_ASSERT(a->run->scratch_bytes >= lt_cpu_part_bytes(n, q.args.d));
        q.parts = a->run->scratch;
    }
    LT_TRY(lt_cpu_pieces(a, n, LT_CPU_PART_ROWS, qk_backward_piece, &q));
    return lt_cpu_sum_parts(a, 1, q.parts, q.args.d, lt_ceil_div(n, LT_CPU_PART_ROWS), q.args.d);
}

typedef struct split {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    int64_t width, heads;
} split;

static split split_of(const lt_op_args *a, int64_t qkv_width)
{
    return (split){.a = a,
                   .rows = lt_cpu_rows(a),
                   .width = qkv_width / 3,
                   .heads = ((const lt_split_qkv_rope_attr *)a->attr)->heads};
}

static lt_rotate_args rotation(const split *s, const lt_tensor *like)
{
    return (lt_rotate_args){.bf16 = like->dtype == LT_BF16,
                            .heads = s->heads,
                            .d = s->width / s->heads,
                            .table = s->a->in[1]->data};
}

static lt_status split_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const split *s = ctx;
    const lt_tensor *qkv = s->a->in[0];
    lt_rotate_args r = rotation(s, qkv);
    r.ld_in = 3 * s->width;
    r.ld_out = s->width;
    for (int part = 0; part < 2; part++) {
        r.in = lt_at(qkv, part * s->width);
        r.out = (lt_sink){.data = s->a->out[part]->data, .bf16 = r.bf16};
        s->rows->rotate(&r, from, to);
    }
    for (int64_t row = from; row < to; row++)
        s->rows->convert((lt_sink){.data = lt_at(s->a->out[2], row * s->width), .bf16 = r.bf16},
                         lt_at(qkv, row * 3 * s->width + 2 * s->width), r.bf16, s->width);
    return LT_OK;
}

lt_status lt_split_qkv_rope_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0) | LT_OUT(1) | LT_OUT(2)))
        return lt_cpu_reference(a, LT_FORWARD);
    split s = split_of(a, a->in[0]->dim[1]);
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(3 * s.width), split_piece, &s);
}

// A part of dqkv that has no upstream gradient.
static void zero_part(const split *s, int part, int64_t from, int64_t to)
{
    const lt_tensor *dqkv = s->a->din[0];
    const size_t elem = lt_dtype_bytes(dqkv->dtype);
    if (s->a->add & LT_IN(0))
        return;
    for (int64_t row = from; row < to; row++)
        memset(lt_at(dqkv, row * 3 * s->width + part * s->width), 0, (size_t)s->width * elem);
}

static lt_status join_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const split *s = ctx;
    const lt_op_args *a = s->a;
    lt_rotate_args r = rotation(s, a->din[0]);
    r.back = true;
    r.ld_in = s->width;
    r.ld_out = 3 * s->width;
    const lt_sink dqkv = lt_cpu_sink(a, 0);
    for (int part = 0; part < 3; part++) {
        if (!a->dout[part]) {
            zero_part(s, part, from, to);
            continue;
        }
        r.in = a->dout[part]->data;
        r.out = lt_sink_at(dqkv, part * s->width);
        if (part < 2)
            s->rows->rotate(&r, from, to);
        for (int64_t row = from; part == 2 && row < to; row++)
            s->rows->convert(lt_sink_at(r.out, row * r.ld_out), lt_at(a->dout[2], row * s->width),
                             r.bf16, s->width);
    }
    return LT_OK;
}

lt_status lt_split_qkv_rope_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0])
        return LT_OK;
    split s = split_of(a, a->din[0]->dim[1]);
    return lt_cpu_pieces(a, a->din[0]->dim[0], lt_cpu_rows_step(3 * s.width), join_piece, &s);
}
