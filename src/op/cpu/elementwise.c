// SPDX-License-Identifier: Apache-2.0
// add, copy, cast, swiglu and gelu on the CPU.
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/gelu.h"
#include <string.h>

enum { PIECE = 16384 }; // elements

typedef struct call {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    bool bf16;
} call;

static lt_status over_elements(const lt_op_args *a, const lt_tensor *t, lt_piece_fn fn)
{
    call c = {.a = a, .rows = lt_cpu_rows(a), .bf16 = t->dtype == LT_BF16};
    return lt_cpu_pieces(a, lt_n_elems(t), PIECE, fn, &c);
}

static lt_status add_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    c->rows->add(lt_at(c->a->out[0], from), lt_at(c->a->in[0], from), lt_at(c->a->in[1], from),
                 c->bf16, to - from);
    return LT_OK;
}

lt_status lt_add_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    return over_elements(a, a->in[0], add_piece);
}

static lt_status cast_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_tensor *y = c->a->out[0];
    c->rows->convert((lt_sink){.data = lt_at(y, from), .bf16 = y->dtype == LT_BF16},
                     lt_at(c->a->in[0], from), c->bf16, to - from);
    return LT_OK;
}

lt_status lt_cast_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_FORWARD);
    return over_elements(a, a->in[0], cast_piece);
}

static lt_status cast_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    c->rows->convert(lt_sink_at(lt_cpu_sink(c->a, 0), from), lt_at(c->a->dout[0], from), c->bf16,
                     to - from);
    return LT_OK;
}

lt_status lt_cast_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    return over_elements(a, a->dout[0], cast_back_piece);
}

static lt_status copy_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    memcpy(lt_at(c->a->out[0], from), lt_at(c->a->in[0], from),
           (size_t)(to - from) * lt_dtype_bytes(c->a->in[0]->dtype));
    return LT_OK;
}

lt_status lt_copy_fwd_cpu(const lt_op_args *a)
{
    return over_elements(a, a->in[0], copy_piece);
}

static lt_status swiglu_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    c->rows->swiglu_fwd(lt_at(c->a->out[0], from), lt_at(c->a->in[0], from),
                        lt_at(c->a->in[1], from), c->bf16, to - from);
    return LT_OK;
}

lt_status lt_swiglu_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    return over_elements(a, a->in[0], swiglu_piece);
}

static lt_status swiglu_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_op_args *a = c->a;
    c->rows->swiglu_bwd(lt_sink_at(lt_cpu_sink(a, 0), from), lt_sink_at(lt_cpu_sink(a, 1), from),
                        lt_at(a->in[0], from), lt_at(a->in[1], from), lt_at(a->dout[0], from),
                        c->bf16, to - from);
    return LT_OK;
}

lt_status lt_swiglu_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    return over_elements(a, a->in[0], swiglu_back_piece);
}

static bool by_tanh(const lt_op_args *a)
{
    return ((const lt_gelu_attr *)a->attr)->kind == LT_GELU_TANH;
}

static lt_status gelu_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    c->rows->gelu_fwd(lt_at(c->a->out[0], from), lt_at(c->a->in[0], from), c->bf16, by_tanh(c->a),
                      to - from);
    return LT_OK;
}

lt_status lt_gelu_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    return over_elements(a, a->in[0], gelu_piece);
}

static lt_status gelu_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_op_args *a = c->a;
    c->rows->gelu_bwd(lt_sink_at(lt_cpu_sink(a, 0), from), lt_at(a->in[0], from),
                      lt_at(a->dout[0], from), c->bf16, by_tanh(a), to - from);
    return LT_OK;
}

lt_status lt_gelu_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    return over_elements(a, a->in[0], gelu_back_piece);
}
