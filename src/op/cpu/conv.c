// SPDX-License-Identifier: Apache-2.0
// conv_silu on the CPU: blocks of columns in parallel.
#include "op/conv_silu.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <string.h>

_Static_assert((int)LT_CONV_TAPS >= (int)LT_MAX_TAPS, "a block's taps have room");

typedef struct conv {
    lt_conv_args args;
    void (*block)(const lt_conv_args *a, int64_t from, int64_t to);
} conv;

static lt_status run_block(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const conv *c = ctx;
    c->block(&c->args, from, to);
    return LT_OK;
}

static lt_status open_conv(const lt_op_args *a, conv *c)
{
    LT_TRY(lt_need_segments(a, 2, a->in[0]->dim[0]));
    *c = (conv){.args = {.bf16 = a->in[0]->dtype == LT_BF16,
                         .columns = a->in[0]->dim[1],
                         .taps = a->in[1]->dim[2],
                         .x = a->in[0]->data,
                         .w = a->in[1]->data,
                         .segments = lt_index(a->in[2]),
                         .n_segments = lt_max_i64(lt_n_elems(a->in[2]) - 1, 0)}};
    return LT_OK;
}

// Zeros in the rows before the first segment and behind the last.
static void clear_outside(const conv *c, const lt_tensor *t)
{
    const size_t bytes = (size_t)c->args.columns * lt_dtype_bytes(t->dtype);
    const int64_t rows = t->dim[0], n = c->args.n_segments;
    const int64_t first = n > 0 ? c->args.segments[0] : rows,
                  last = n > 0 ? c->args.segments[n] : rows;
    if (first > 0)
        memset(t->data, 0, (size_t)first * bytes);
    if (last < rows)
        memset(lt_at(t, last * c->args.columns), 0, (size_t)(rows - last) * bytes);
}

lt_status lt_conv_silu_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    conv c;
    LT_TRY(open_conv(a, &c));
    c.args.y = a->out[0]->data;
    c.block = lt_cpu_rows(a)->conv_fwd;
    clear_outside(&c, a->out[0]);
    return lt_cpu_pieces(a, c.args.columns, LT_CONV_COLUMNS, run_block, &c);
}

lt_status lt_conv_silu_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    conv c;
    LT_TRY(open_conv(a, &c));
    c.args.dy = a->dout[0]->data;
    c.args.dx = lt_cpu_sink(a, 0);
    c.args.dw = lt_cpu_sink(a, 1);
    c.block = lt_cpu_rows(a)->conv_bwd;
    if (a->din[0] && !c.args.dx.add)
        clear_outside(&c, a->din[0]);
    return lt_cpu_pieces(a, c.args.columns, LT_CONV_COLUMNS, run_block, &c);
}
