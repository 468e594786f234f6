// SPDX-License-Identifier: Apache-2.0
// muon on the CPU: pieces on all threads, and the library's matrix products.
#include "op/muon.h"
#include "device/gemm.h"
#include "op/adamw.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"

#include <math.h>

enum { PIECE = 65536 };

// The reference on a part of the arguments: it works number by number.
typedef struct parts {
    const lt_op_args *a;
} parts;

static lt_status reference_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const lt_op_args *all = ((const parts *)ctx)->a;
    lt_op_args a = *all;
    lt_tensor in = *all->in[0], out[2];
    in.dim[0] = to - from;
    in.data = lt_at(all->in[0], from);
    a.in[0] = &in;
    for (int i = 0; i < 2; i++) {
        if (!all->out[i])
            continue;
        out[i] = *all->out[i];
        out[i].dim[0] = to - from;
        out[i].data = lt_at(all->out[i], from);
        a.out[i] = &out[i];
    }
    return a.def->forward[LT_REF](&a);
}

lt_status lt_muon_momentum_fwd_cpu(const lt_op_args *a)
{
    parts p = {a};
    return lt_cpu_pieces(a, lt_n_elems(a->in[0]), PIECE, reference_piece, &p);
}

lt_status lt_muon_apply_fwd_cpu(const lt_op_args *a)
{
    parts p = {a};
    return lt_cpu_pieces(a, lt_n_elems(a->in[0]), PIECE, reference_piece, &p);
}

// x [r, c] in bf16 and what is made of it; all in the call's scratch.
typedef struct iteration {
    int64_t r, c;
    float *y, *square;         // [r, c], [r, r]
    uint16_t *x, *gram, *poly; // [r, c], [r, r], [r, r]
    uint16_t *u;               // what comes in
    int64_t columns;           // of u
    bool turned;
    double norm;
} iteration;

static lt_status normalize_rows(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const iteration *t = ctx;
    for (int64_t i = from; i < to; i++) {
        const int64_t at = t->turned ? i % t->columns * t->c + i / t->columns : i;
        const double v = (double)lt_bf16_to_f32(t->u[i]) / t->norm;
        t->x[at] = lt_f32_to_bf16((float)v);
    }
    return LT_OK;
}

static lt_status put_back(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const iteration *t = ctx;
    for (int64_t i = from; i < to; i++)
        t->u[i] = t->x[t->turned ? i % t->columns * t->c + i / t->columns : i];
    return LT_OK;
}

static lt_status make_poly(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const iteration *t = ctx;
    for (int64_t i = from; i < to; i++)
        t->poly[i] = lt_f32_to_bf16(-4.7750F * lt_bf16_to_f32(t->gram[i]) + 2.0315F * t->square[i]);
    return LT_OK;
}

static lt_status make_x(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const iteration *t = ctx;
    for (int64_t i = from; i < to; i++)
        t->x[i] = lt_f32_to_bf16(3.4445F * lt_bf16_to_f32(t->x[i]) + t->y[i]);
    return LT_OK;
}

static lt_status product(const lt_op_args *a, int64_t m, int64_t n, int64_t k, const uint16_t *x,
                         const uint16_t *y, bool turned, lt_dtype dtype, void *c)
{
    const lt_gemm g = {.m = m,
                       .n = n,
                       .k = k,
                       .lda = k,
                       .ldb = turned ? k : n,
                       .ldc = n,
                       .trans_b = turned,
                       .ab_dtype = LT_BF16,
                       .c_dtype = dtype,
                       .a = x,
                       .b = y,
                       .c = c};
    return lt_cpu_gemm(lt_cpu_pool(a), &g);
}

static lt_status iterate(const lt_op_args *a, iteration *t)
{
    const int64_t r = t->r, c = t->c;
    LT_TRY(product(a, r, r, c, t->x, t->x, true, LT_BF16, t->gram));
    LT_TRY(product(a, r, r, r, t->gram, t->gram, false, LT_F32, t->square));
    LT_TRY(lt_cpu_pieces(a, r * r, PIECE, make_poly, t));
    LT_TRY(product(a, r, c, r, t->poly, t->x, false, LT_F32, t->y));
    return lt_cpu_pieces(a, r * c, PIECE, make_x, t);
}

static double norm_of(const lt_tensor *u)
{
    double sum = 0.0;
    const uint16_t *x = u->data;
    for (int64_t i = 0, n = lt_n_elems(u); i < n; i++) {
        const double v = (double)lt_bf16_to_f32(x[i]);
        sum += v * v;
    }
    return sqrt(sum);
}

lt_status lt_orthogonalize_fwd_cpu(const lt_op_args *a)
{
    const lt_tensor *u = a->out[0];
    iteration t = {.r = lt_min_i64(u->dim[0], u->dim[1]),
                   .c = lt_max_i64(u->dim[0], u->dim[1]),
                   .u = u->data,
                   .columns = u->dim[1],
                   .turned = u->dim[0] > u->dim[1],
                   .norm = norm_of(u) + 1e-7};
    const int64_t n = t.r * t.c;
    t.y = a->run->scratch;
    t.square = t.y + n;
    t.x = (uint16_t *)(t.square + t.r * t.r);
    t.gram = t.x + n;
    t.poly = t.gram + t.r * t.r;
    LT_TRY(lt_cpu_pieces(a, n, PIECE, normalize_rows, &t));
    for (int32_t i = 0; i < ((const lt_muon_attr *)a->attr)->steps; i++)
        LT_TRY(iterate(a, &t));
    return lt_cpu_pieces(a, n, PIECE, put_back, &t);
}
