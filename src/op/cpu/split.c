// SPDX-License-Identifier: Apache-2.0
// split_thirds, split_heads and join on the CPU: pieces dealt out to parts, or gathered from them;
// shift_rows, one piece moved.
#include "op/split.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/rows.h"
#include <string.h>

// `whole` is parts' pieces in turn: whole[n * n_parts + i] is part[i][n].
typedef struct deal {
    const lt_row_kernels *rows;
    const lt_tensor *whole, *part[LT_MAX_OUT];
    lt_sink to[LT_MAX_OUT]; // of parts; data NULL: nobody asks
    lt_sink to_whole;
    int64_t n_parts, piece;
} deal;

static lt_status to_parts(void *ctx, int64_t number, int64_t from, int64_t to)
{
    (void)number;
    const deal *d = ctx;
    for (int64_t n = from; n < to; n++) {
        for (int64_t i = 0; i < d->n_parts; i++) {
            if (d->to[i].data) {
                d->rows->convert(lt_sink_at(d->to[i], n * d->piece),
                                 lt_at(d->whole, (n * d->n_parts + i) * d->piece),
                                 d->whole->dtype == LT_BF16, d->piece);
            }
        }
    }
    return LT_OK;
}

// A part that is not there counts as zeros.
static lt_status to_whole(void *ctx, int64_t number, int64_t from, int64_t to)
{
    (void)number;
    const deal *d = ctx;
    for (int64_t n = from; n < to; n++) {
        for (int64_t i = 0; i < d->n_parts; i++) {
            const lt_sink y = lt_sink_at(d->to_whole, (n * d->n_parts + i) * d->piece);
            if (d->part[i]) {
                d->rows->convert(y, lt_at(d->part[i], n * d->piece), d->part[i]->dtype == LT_BF16,
                                 d->piece);
            } else if (!y.add) {
                memset(y.data, 0, (size_t)d->piece * (y.bf16 ? sizeof(uint16_t) : sizeof(float)));
            }
        }
    }
    return LT_OK;
}

static lt_sink written(const lt_tensor *t)
{
    return (lt_sink){.data = t->data, .bf16 = t->dtype == LT_BF16};
}

static lt_status run(const lt_op_args *a, const lt_tensor *whole, lt_piece_fn fn, deal *d)
{
    const int64_t n = d->piece > 0 ? lt_n_elems(whole) / (d->n_parts * d->piece) : 0;
    d->rows = lt_cpu_rows(a);
    return lt_cpu_pieces(a, n, lt_cpu_rows_step(d->n_parts * d->piece), fn, d);
}

lt_status lt_split_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    deal d = {.whole = a->in[0], .n_parts = a->def->n_out, .piece = lt_split_piece(a, a->in[0])};
    for (int i = 0; i < a->def->n_out; i++)
        d.to[i] = written(a->out[i]);
    return run(a, a->in[0], to_parts, &d);
}

lt_status lt_split_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0])
        return LT_OK;
    deal d = {.to_whole = lt_cpu_sink(a, 0),
              .n_parts = a->def->n_out,
              .piece = lt_split_piece(a, a->din[0])};
    for (int i = 0; i < a->def->n_out; i++)
        d.part[i] = a->dout[i];
    return run(a, a->din[0], to_whole, &d);
}

lt_status lt_join_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    deal d = {.to_whole = written(a->out[0]),
              .part = {a->in[0], a->in[1]},
              .n_parts = a->def->n_in,
              .piece = a->in[0]->dim[1]};
    return run(a, a->out[0], to_whole, &d);
}

lt_status lt_join_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    deal d = {.whole = a->dout[0],
              .to = {lt_cpu_sink(a, 0), lt_cpu_sink(a, 1)},
              .n_parts = a->def->n_in,
              .piece = a->dout[0]->dim[1] / a->def->n_in};
    return run(a, a->dout[0], to_parts, &d);
}

/* ---- shift_rows: two stretches, what is moved and what is cleared ---- */

typedef struct shift {
    const lt_row_kernels *rows;
    const lt_tensor *from;
    lt_sink to;
    int64_t by, n, width;
} shift;

static lt_status shift_piece(void *ctx, int64_t number, int64_t first, int64_t last)
{
    (void)number;
    const shift *s = ctx;
    for (int64_t t = first; t < last; t++) {
        const lt_sink y = lt_sink_at(s->to, t * s->width);
        if (t + s->by >= 0 && t + s->by < s->n) {
            s->rows->convert(y, lt_at(s->from, (t + s->by) * s->width), s->from->dtype == LT_BF16,
                             s->width);
        } else if (!y.add) {
            memset(y.data, 0, (size_t)s->width * (y.bf16 ? sizeof(uint16_t) : sizeof(float)));
        }
    }
    return LT_OK;
}

static lt_status shift_rows(const lt_op_args *a, const lt_tensor *from, lt_sink to, int64_t by)
{
    shift s = {.rows = lt_cpu_rows(a),
               .from = from,
               .to = to,
               .by = by,
               .n = from->dim[0],
               .width = from->dim[1]};
    return lt_cpu_pieces(a, s.n, lt_cpu_rows_step(s.width), shift_piece, &s);
}

lt_status lt_shift_rows_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    return shift_rows(a, a->in[0], written(a->out[0]), ((const lt_shift_rows_attr *)a->attr)->by);
}

lt_status lt_shift_rows_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    return shift_rows(a, a->dout[0], lt_cpu_sink(a, 0), -((const lt_shift_rows_attr *)a->attr)->by);
}
