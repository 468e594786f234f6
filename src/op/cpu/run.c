// SPDX-License-Identifier: Apache-2.0
// Checks and loops that the CPU's kernels share.
#include "op/cpu/run.h"
#include <string.h>

static bool is_fast(const lt_tensor *t)
{
    return !t || !lt_dtype_is_float(t->dtype) || t->dtype == LT_F32 || t->dtype == LT_BF16;
}

// Holds the first tensor that is given against all others; a backward kernel need not have in[0].
static bool is_alike(const lt_tensor *t, const lt_tensor **first)
{
    if (!t)
        return true;
    if (!*first)
        *first = t;
    return t->dtype == (*first)->dtype;
}

bool lt_cpu_takes(const lt_op_args *a, uint32_t same_as_in0)
{
    const lt_tensor *first = a->in[0];
    for (int i = 0; i < LT_MAX_IN; i++) {
        if (!is_fast(a->in[i]) || !is_fast(a->din[i]))
            return false;
        if ((same_as_in0 & LT_IN(i)) && !is_alike(a->in[i], &first))
            return false;
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        if (!is_fast(a->out[i]) || !is_fast(a->dout[i]))
            return false;
        if ((same_as_in0 & LT_OUT(i)) &&
            !(is_alike(a->out[i], &first) && is_alike(a->dout[i], &first)))
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

const lt_row_kernels *lt_row_kernels_of(lt_isa isa)
{
#if defined(__x86_64__)
    static const lt_row_kernels *const kernels[LT_N_ISAS] = {
        [LT_ISA_PLAIN] = &lt_row_kernels_plain,   [LT_ISA_AVX2] = &lt_row_kernels_avx2,
        [LT_ISA_AVX512] = &lt_row_kernels_avx512, [LT_ISA_AVX512_BF16] = &lt_row_kernels_avx512,
        [LT_ISA_AMX] = &lt_row_kernels_avx512,
    };
    return kernels[isa];
#else
    (void)isa;
    return &lt_row_kernels_plain;
#endif
}

const lt_row_kernels *lt_cpu_rows(const lt_op_args *a)
{
    const lt_cpu_state *state = a->run->device->impl;
    return lt_row_kernels_of(state ? state->isa : lt_cpu_isa());
}

lt_sink lt_cpu_sink(const lt_op_args *a, int i)
{
    const lt_tensor *t = a->din[i];
    if (!t)
        return (lt_sink){0};
    return (lt_sink){.data = t->data, .bf16 = t->dtype == LT_BF16, .add = a->add & LT_IN(i)};
}

lt_sink lt_sink_at(lt_sink s, int64_t i)
{
    if (s.data)
        s.data = (char *)s.data + i * (int64_t)(s.bf16 ? sizeof(uint16_t) : sizeof(float));
    return s;
}

void *lt_cpu_data(const lt_tensor *t)
{
    return t ? t->data : NULL;
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

enum { FILL_PIECE = 1 << 20 };

static lt_status zero_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    memset((char *)ctx + from, 0, (size_t)(to - from));
    return LT_OK;
}

lt_status lt_cpu_zero(const lt_op_args *a, int i)
{
    if (!a->din[i] || (a->add & LT_IN(i)))
        return LT_OK;
    return lt_cpu_pieces(a, (int64_t)lt_tensor_bytes(a->din[i]), FILL_PIECE, zero_piece,
                         a->din[i]->data);
}

size_t lt_cpu_part_bytes(int64_t rows, int64_t sums)
{
    return (size_t)(lt_ceil_div(rows, LT_CPU_PART_ROWS) * sums) * sizeof(float);
}

typedef struct parts {
    const lt_row_kernels *rows;
    lt_sink out;
    const float *parts;
    int64_t ld, n_parts;
} parts;

static lt_status sum_columns(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const parts *p = ctx;
    p->rows->sum_parts(lt_sink_at(p->out, from), p->parts + from, p->ld, p->n_parts, to - from);
    return LT_OK;
}

lt_status lt_cpu_sum_parts(const lt_op_args *a, int i, const float *sums, int64_t ld,
                           int64_t n_parts, int64_t n)
{
    enum { COLUMNS = 128 };
    if (!a->din[i])
        return LT_OK;
    parts p = {.rows = lt_cpu_rows(a),
               .out = lt_cpu_sink(a, i),
               .parts = sums,
               .ld = ld,
               .n_parts = n_parts};
    return lt_cpu_pieces(a, n, COLUMNS, sum_columns, &p);
}
