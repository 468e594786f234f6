// SPDX-License-Identifier: Apache-2.0
// The ops of routed experts on the CPU, rows there and back; their products are in grouped.c.
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <string.h>

/* ---- moe_permute ---- */

typedef struct rows_call {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    const int32_t *place;
    int64_t k, width;
    bool bf16;
} rows_call;

static rows_call call_of(const lt_op_args *a, const lt_tensor *place, const lt_tensor *x)
{
    return (rows_call){.a = a,
                       .rows = lt_cpu_rows(a),
                       .place = place->data,
                       .k = place->dim[1],
                       .width = x->dim[1],
                       .bf16 = x->dtype == LT_BF16};
}

static lt_status permute_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const rows_call *c = ctx;
    const size_t bytes = (size_t)c->width * lt_dtype_bytes(c->a->in[0]->dtype);
    for (int64_t i = from * c->k; i < to * c->k; i++)
        memcpy(lt_at(c->a->out[0], c->place[i] * c->width), lt_at(c->a->in[0], i / c->k * c->width),
               bytes);
    return LT_OK;
}

lt_status lt_moe_permute_fwd_cpu(const lt_op_args *a)
{
    if (lt_n_elems(a->out[0]) == 0)
        return LT_OK;
    rows_call c = call_of(a, a->in[1], a->in[0]);
    return lt_cpu_pieces(a, a->in[1]->dim[0], lt_cpu_rows_step(c.width), permute_piece, &c);
}

// Columns of a row that are summed together, in float: as the products of a linear layer are.
enum { COLUMNS = 256 };

// y = sum over j of w_j x_j over a stretch of columns; w NULL: ones.
static void weighted_sum(const rows_call *c, const lt_tensor *x, const float *w, int64_t token,
                         int64_t from, int64_t n, lt_sink y)
{
    float sum[COLUMNS] = {0.0F}, row[COLUMNS];
    for (int64_t j = 0; j < c->k; j++) {
        const int64_t at = c->place[token * c->k + j] * c->width + from;
        const float by = w ? w[j] : 1.0F;
        lt_convert(row, LT_F32, lt_at(x, at), x->dtype, n);
        for (int64_t i = 0; i < n; i++)
            sum[i] += by * row[i];
    }
    c->rows->convert(lt_sink_at(y, token * c->width + from), sum, false, n);
}

static lt_status permute_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const rows_call *c = ctx;
    for (int64_t t = from; t < to; t++) {
        for (int64_t i = 0; i < c->width; i += COLUMNS)
            weighted_sum(c, c->a->dout[0], NULL, t, i, lt_min_i64(COLUMNS, c->width - i),
                         lt_cpu_sink(c->a, 0));
    }
    return LT_OK;
}

lt_status lt_moe_permute_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    rows_call c = call_of(a, a->in[1], a->din[0]);
    return lt_cpu_pieces(a, a->in[1]->dim[0], lt_cpu_rows_step(c.width), permute_back_piece, &c);
}

/* ---- moe_combine ---- */

static lt_status combine_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    enum { SLOTS = 64 };
    const rows_call *c = ctx;
    const lt_op_args *a = c->a;
    const lt_sink y = {.data = a->out[0]->data, .bf16 = c->bf16};
    float w[SLOTS];
    LT_ASSERT(c->k <= SLOTS);
    for (int64_t t = from; t < to; t++) {
        lt_convert(w, LT_F32, lt_at(a->in[1], t * c->k), a->in[1]->dtype, c->k);
        for (int64_t i = 0; i < c->width; i += COLUMNS)
            weighted_sum(c, a->in[0], w, t, i, lt_min_i64(COLUMNS, c->width - i), y);
    }
    return LT_OK;
}

static bool takes_combine(const lt_op_args *a)
{
    enum { SLOTS = 64 };
    return lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)) && a->in[1]->dim[1] <= SLOTS;
}

lt_status lt_moe_combine_fwd_cpu(const lt_op_args *a)
{
    if (!takes_combine(a))
        return lt_cpu_reference(a, LT_FORWARD);
    rows_call c = call_of(a, a->in[2], a->in[0]);
    return lt_cpu_pieces(a, a->in[2]->dim[0], lt_cpu_rows_step(c.width), combine_piece, &c);
}

// A copy's row of dx = w dy, in stretches.
static void scaled_row(const rows_call *c, int64_t copy, lt_sink dx)
{
    const lt_op_args *a = c->a;
    const float w = (float)lt_load(a->in[1], copy);
    float row[COLUMNS];
    for (int64_t i = 0; i < c->width; i += COLUMNS) {
        const int64_t n = lt_min_i64(COLUMNS, c->width - i);
        lt_convert(row, LT_F32, lt_at(a->dout[0], copy / c->k * c->width + i), a->dout[0]->dtype,
                   n);
        for (int64_t v = 0; v < n; v++)
            row[v] *= w;
        c->rows->convert(lt_sink_at(dx, c->place[copy] * c->width + i), row, false, n);
    }
}

static lt_status combine_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const rows_call *c = ctx;
    const lt_op_args *a = c->a;
    for (int64_t i = from * c->k; i < to * c->k; i++) {
        if (a->din[0])
            scaled_row(c, i, lt_cpu_sink(a, 0));
        if (a->din[1]) {
            const double dot =
                c->rows->dot(lt_at(a->dout[0], i / c->k * c->width),
                             lt_at(a->in[0], c->place[i] * c->width), c->bf16, c->width);
            lt_store(a->din[1], i, dot + (a->add & LT_IN(1) ? lt_load(a->din[1], i) : 0.0));
        }
    }
    return LT_OK;
}

lt_status lt_moe_combine_bwd_cpu(const lt_op_args *a)
{
    if (!takes_combine(a))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    rows_call c = call_of(a, a->in[2], a->in[0]);
    return lt_cpu_pieces(a, a->in[2]->dim[0], lt_cpu_rows_step(c.width), combine_back_piece, &c);
}

/* ---- swiglu_halves ---- */

static lt_status halves_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const rows_call *c = ctx;
    for (int64_t r = from; r < to; r++)
        c->rows->swiglu_fwd(lt_at(c->a->out[0], r * c->width), lt_at(c->a->in[0], 2 * r * c->width),
                            lt_at(c->a->in[0], (2 * r + 1) * c->width), c->bf16, c->width);
    return LT_OK;
}

static rows_call halves_of(const lt_op_args *a)
{
    return (rows_call){.a = a,
                       .rows = lt_cpu_rows(a),
                       .width = a->in[0]->dim[1] / 2,
                       .bf16 = a->in[0]->dtype == LT_BF16};
}

lt_status lt_swiglu_halves_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    rows_call c = halves_of(a);
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(c.width), halves_piece, &c);
}

static lt_status halves_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const rows_call *c = ctx;
    const lt_op_args *a = c->a;
    for (int64_t r = from; r < to; r++) {
        const int64_t gate = 2 * r * c->width, up = gate + c->width;
        c->rows->swiglu_bwd(lt_sink_at(lt_cpu_sink(a, 0), gate), lt_sink_at(lt_cpu_sink(a, 0), up),
                            lt_at(a->in[0], gate), lt_at(a->in[0], up),
                            lt_at(a->dout[0], r * c->width), c->bf16, c->width);
    }
    return LT_OK;
}

lt_status lt_swiglu_halves_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    rows_call c = halves_of(a);
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(c.width), halves_back_piece, &c);
}
