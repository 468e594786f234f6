// SPDX-License-Identifier: Apache-2.0
// gdn_gates, gated_rms_norm and sigmoid_gate on the CPU.
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include <math.h>

// ---- gdn_gates: one number a head and token, so in double, one by one ----

typedef struct gates {
    const lt_op_args *a;
    float *parts; // backward: each piece's sums [pieces, 2 heads]
} gates;

static lt_status gates_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const lt_op_args *a = ((const gates *)ctx)->a;
    const int64_t heads = a->in[0]->dim[1];
    float *g = a->out[0]->data, *beta = a->out[1]->data;
    for (int64_t k = from * heads; k < to * heads; k++) {
        g[k] = (float)lt_gdn_decay(lt_load(a->in[0], k), lt_load(a->in[2], k % heads),
                                   lt_load(a->in[3], k % heads));
        beta[k] = (float)(1.0 / (1.0 + exp(-lt_load(a->in[1], k))));
    }
    return LT_OK;
}

lt_status lt_gdn_gates_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_IN(3)))
        return lt_cpu_reference(a, LT_FORWARD);
    gates g = {.a = a};
    return lt_cpu_pieces(a, a->in[0]->dim[0], LT_CPU_PART_ROWS, gates_piece, &g);
}

static lt_status gates_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    const gates *c = ctx;
    const lt_op_args *a = c->a;
    const int64_t heads = a->in[0]->dim[1];
    float *sum_log = c->parts + piece * 2 * heads, *sum_dt = sum_log + heads;
    for (int64_t h = 0; h < heads; h++) {
        const double a_log = lt_load(a->in[2], h), dt = lt_load(a->in[3], h);
        double log_sum = 0.0, dt_sum = 0.0;
        for (int64_t k = from * heads + h; k < to * heads; k += heads) {
            const double x = lt_load(a->in[0], k), dg = lt_dout(a, 0, k),
                         da = dg * lt_gdn_decay_slope(x, a_log, dt),
                         s = 1.0 / (1.0 + exp(-lt_load(a->in[1], k)));
            log_sum += dg * lt_gdn_decay(x, a_log, dt);
            dt_sum += da;
            lt_put_grad(a, 0, k, da);
            lt_put_grad(a, 1, k, lt_dout(a, 1, k) * s * (1.0 - s));
        }
        sum_log[h] = (float)log_sum;
        sum_dt[h] = (float)dt_sum;
    }
    return LT_OK;
}

lt_status lt_gdn_gates_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_IN(3)))
        return lt_cpu_reference(a, LT_BACKWARD);
    const int64_t rows = a->in[0]->dim[0], heads = a->in[0]->dim[1];
    const int64_t n_parts = lt_ceil_div(rows, LT_CPU_PART_ROWS);
    LT_ASSERT(a->run->scratch_bytes >= lt_cpu_part_bytes(rows, 2 * heads));
    gates g = {.a = a, .parts = a->run->scratch};
    LT_TRY(lt_cpu_pieces(a, rows, LT_CPU_PART_ROWS, gates_back_piece, &g));
    LT_TRY(lt_cpu_sum_parts(a, 2, g.parts, 2 * heads, n_parts, heads));
    return lt_cpu_sum_parts(a, 3, n_parts > 0 ? g.parts + heads : NULL, 2 * heads, n_parts, heads);
}

// ---- gated_rms_norm ----

typedef struct norm {
    lt_norm_args args;
    const lt_row_kernels *rows;
    float *parts; // backward: each piece's sums [pieces, width]; NULL: w wants no gradient
} norm;

static norm norm_of(const lt_op_args *a)
{
    return (norm){.args = {.bf16 = a->in[0]->dtype == LT_BF16,
                           .width = a->in[2]->dim[0],
                           .eps = ((const lt_rms_norm_attr *)a->attr)->eps,
                           .x = a->in[0]->data,
                           .gate = a->in[1]->data,
                           .w = a->in[2]->data},
                  .rows = lt_cpu_rows(a)};
}

static lt_status norm_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const norm *n = ctx;
    n->rows->gated_fwd(&n->args, from, to);
    return LT_OK;
}

lt_status lt_gated_rms_norm_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    norm n = norm_of(a);
    n.args.y = a->out[0]->data;
    return lt_cpu_pieces(a, lt_n_elems(a->in[0]) / n.args.width, lt_cpu_rows_step(n.args.width),
                         norm_piece, &n);
}

static lt_status norm_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    const norm *n = ctx;
    lt_norm_args args = n->args;
    args.dw = n->parts ? n->parts + piece * args.width : NULL;
    n->rows->gated_bwd(&args, from, to);
    return LT_OK;
}

lt_status lt_gated_rms_norm_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = 0; i < a->def->n_in && !a->dout[0]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[0])
        return LT_OK;
    norm n = norm_of(a);
    const int64_t width = n.args.width, heads = lt_n_elems(a->in[0]) / width;
    n.args.dy = a->dout[0]->data;
    n.args.dx[0] = lt_cpu_sink(a, 0);
    n.args.dgate = lt_cpu_sink(a, 1);
    LT_ASSERT(!a->din[2] || a->run->scratch_bytes >= lt_cpu_part_bytes(heads, width));
    n.parts = a->din[2] ? a->run->scratch : NULL;
    LT_TRY(lt_cpu_pieces(a, heads, LT_CPU_PART_ROWS, norm_back_piece, &n));
    return lt_cpu_sum_parts(a, 2, n.parts, width, lt_ceil_div(heads, LT_CPU_PART_ROWS), width);
}

// ---- sigmoid_gate: rows of one gate, or rows of their own gates ----

typedef struct gate_call {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    int64_t width;
    bool bf16, one; // one: a gate for the whole row
} gate_call;

static gate_call gate_call_of(const lt_op_args *a)
{
    return (gate_call){.a = a,
                       .rows = lt_cpu_rows(a),
                       .width = a->in[0]->dim[1],
                       .bf16 = a->in[0]->dtype == LT_BF16,
                       .one = a->in[1]->dim[1] == 1};
}

static lt_status gate_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const gate_call *c = ctx;
    for (int64_t row = from; row < to; row++) {
        const int64_t at = row * c->width;
        c->rows->gate_fwd(lt_at(c->a->out[0], at), lt_at(c->a->in[0], at),
                          lt_at(c->a->in[1], c->one ? row : at), c->one, c->bf16, c->width);
    }
    return LT_OK;
}

lt_status lt_sigmoid_gate_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    gate_call c = gate_call_of(a);
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(c.width), gate_piece, &c);
}

static lt_status gate_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const gate_call *c = ctx;
    const lt_op_args *a = c->a;
    for (int64_t row = from; row < to; row++) {
        const int64_t at = row * c->width, gate = c->one ? row : at;
        c->rows->gate_bwd(lt_sink_at(lt_cpu_sink(a, 0), at), lt_sink_at(lt_cpu_sink(a, 1), gate),
                          lt_at(a->in[0], at), lt_at(a->in[1], gate), lt_at(a->dout[0], at), c->one,
                          c->bf16, c->width);
    }
    return LT_OK;
}

lt_status lt_sigmoid_gate_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    gate_call c = gate_call_of(a);
    return lt_cpu_pieces(a, a->in[0]->dim[0], lt_cpu_rows_step(c.width), gate_back_piece, &c);
}
