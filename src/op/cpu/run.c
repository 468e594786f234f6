// SPDX-License-Identifier: Apache-2.0
// Checks and loops that the CPU's kernels share.
#include "op/cpu/run.h"

static bool is_fast(const lt_tensor *t)
{
    return !t || !lt_dtype_is_float(t->dtype) || t->dtype == LT_F32 || t->dtype == LT_BF16;
}

bool lt_cpu_takes(const lt_op_args *a, uint32_t same_as_in0)
{
    for (int i = 0; i < LT_MAX_IN; i++) {
        if (!is_fast(a->in[i]) || !is_fast(a->din[i]))
            return false;
        if ((same_as_in0 & LT_IN(i)) && a->in[i] && a->in[i]->dtype != a->in[0]->dtype)
            return false;
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        if (!is_fast(a->out[i]) || !is_fast(a->dout[i]))
            return false;
        if ((same_as_in0 & LT_OUT(i)) && a->out[i] && a->out[i]->dtype != a->in[0]->dtype)
            return false;
        if ((same_as_in0 & LT_OUT(i)) && a->dout[i] && a->dout[i]->dtype != a->in[0]->dtype)
            return false;
    }
    return true;
}

lt_status lt_cpu_reference(const lt_op_args *a, lt_pass pass)
{
    return (pass == LT_FORWARD ? a->def->forward : a->def->backward)[LT_REF](a);
}

lt_pool *lt_cpu_pool(const lt_op_args *a)
{
    return a->run->device->pool;
}

lt_isa lt_cpu_isa_of(const lt_op_args *a)
{
    const lt_cpu_state *state = a->run->device->impl;
    return state ? state->isa : lt_cpu_isa();
}

typedef struct pieces {
    lt_piece_fn fn;
    void *ctx;
    int64_t n, step;
} pieces;

static lt_status run_piece(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const pieces *p = ctx;
    return p->fn(p->ctx, i, i * p->step, lt_min_i64((i + 1) * p->step, p->n));
}

lt_status lt_cpu_pieces(const lt_op_args *a, int64_t n, int64_t step, lt_piece_fn fn, void *ctx)
{
    pieces p = {.fn = fn, .ctx = ctx, .n = n, .step = step};
    return lt_pool_run(lt_cpu_pool(a), lt_ceil_div(n, step), run_piece, &p);
}

int64_t lt_cpu_rows_step(int64_t width)
{
    enum { PIECE = 16384 };
    return lt_max_i64(PIECE / lt_max_i64(width, 1), 1);
}

void *lt_at(const lt_tensor *t, int64_t i)
{
    return (char *)t->data + i * (int64_t)lt_dtype_bytes(t->dtype);
}
