// SPDX-License-Identifier: Apache-2.0
// grouped_linear on the CPU: the products of all experts are cut into pieces, and the pieces of all
// of them are shared out over the threads at once.
#include "device/gemm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <string.h>

/*
 * A piece is a product on one thread. A number of it does not depend on where its row or column
 * stands in the product (device/gemm.h), so neither the cut nor the threads change a bit. The
 * matrix of an expert with few rows is used little more than once: its pieces are narrow, so that
 * what is packed of it stays in a core's own cache until it is used.
 */
enum { ROWS = 768, COLUMNS = 512, FEW = 128, NARROW = 64, OWN_CACHE = 1 << 16 };

typedef lt_gemm (*product_of)(const lt_op_args *a, int64_t e);

typedef struct grouped {
    const lt_op_args *a;
    product_of product;
} grouped;

static int64_t columns_of(const lt_gemm *g)
{
    if (g->m >= FEW)
        return COLUMNS;
    const int64_t n = OWN_CACHE / lt_max_i64(g->k, 1) / NARROW * NARROW;
    return lt_min_i64(lt_max_i64(n, NARROW), COLUMNS);
}

static int64_t pieces_of(const lt_gemm *g)
{
    return lt_ceil_div(g->m, ROWS) * lt_ceil_div(g->n, columns_of(g));
}

static const void *at(const void *p, lt_dtype dtype, int64_t i)
{
    return (const char *)p + i * (int64_t)lt_dtype_bytes(dtype);
}

/** Piece i of a product: down its rows first. */
static lt_gemm piece_of(const lt_gemm *g, int64_t i)
{
    const int64_t down = lt_ceil_div(g->m, ROWS), columns = columns_of(g);
    const int64_t row = i % down * ROWS, column = i / down * columns;
    lt_gemm p = *g;
    p.m = lt_min_i64(ROWS, g->m - row);
    p.n = lt_min_i64(columns, g->n - column);
    p.a = at(g->a, g->ab_dtype, g->trans_a ? row : row * g->lda);
    p.b = at(g->b, g->ab_dtype, g->trans_b ? column * g->ldb : column);
    p.c = (char *)g->c + (row * g->ldc + column) * (int64_t)lt_dtype_bytes(g->c_dtype);
    return p;
}

static int64_t experts_of(const lt_op_args *a)
{
    return a->in[1]->dim[0];
}

static lt_status one_piece(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const grouped *t = ctx;
    for (int64_t e = 0; e < experts_of(t->a); e++) {
        const lt_gemm g = t->product(t->a, e);
        const int64_t n = pieces_of(&g);
        if (i < n) {
            const lt_gemm p = piece_of(&g, i);
            return lt_cpu_gemm(NULL, &p);
        }
        i -= n;
    }
    return LT_OK;
}

static lt_status run_all(const lt_op_args *a, product_of product)
{
    grouped t = {.a = a, .product = product};
    int64_t n = 0;
    for (int64_t e = 0; e < experts_of(a); e++) {
        const lt_gemm g = product(a, e);
        n += pieces_of(&g);
    }
    return lt_pool_run(lt_cpu_pool(a), n, one_piece, &t);
}

// ---------------------------------------------------------------- the three products of an expert

typedef struct group {
    int64_t rows, in, out; /* of the matrix: [out, in] */
    int64_t x, y, w;       /* first element of each */
} group;

static group group_of(const lt_op_args *a, int64_t e)
{
    const int32_t *offsets = a->in[2]->data;
    group g = {
        .rows = offsets[e + 1] - offsets[e], .in = a->in[1]->dim[2], .out = a->in[1]->dim[1]};
    g.x = offsets[e] * g.in;
    g.y = offsets[e] * g.out;
    g.w = e * g.in * g.out;
    return g;
}

// y = x W_e^T
static lt_gemm forward_of(const lt_op_args *a, int64_t e)
{
    const group s = group_of(a, e);
    return (lt_gemm){.m = s.rows,
                     .n = s.out,
                     .k = s.in,
                     .lda = s.in,
                     .ldb = s.in,
                     .ldc = s.out,
                     .trans_b = true,
                     .ab_dtype = a->in[0]->dtype,
                     .c_dtype = a->out[0]->dtype,
                     .bias_dtype = LT_F32,
                     .a = lt_at(a->in[0], s.x),
                     .b = lt_at(a->in[1], s.w),
                     .c = lt_at(a->out[0], s.y)};
}

// dx = dy W_e
static lt_gemm input_gradient_of(const lt_op_args *a, int64_t e)
{
    const group s = group_of(a, e);
    return (lt_gemm){.m = s.rows,
                     .n = s.in,
                     .k = s.out,
                     .lda = s.out,
                     .ldb = s.in,
                     .ldc = s.in,
                     .accumulate = a->add & LT_IN(0),
                     .ab_dtype = a->dout[0]->dtype,
                     .c_dtype = a->din[0]->dtype,
                     .bias_dtype = LT_F32,
                     .a = lt_at(a->dout[0], s.y),
                     .b = lt_at(a->in[1], s.w),
                     .c = lt_at(a->din[0], s.x)};
}

// dW_e = dy^T x; zeros for an expert that nobody came to: a product of no numbers.
static lt_gemm weight_gradient_of(const lt_op_args *a, int64_t e)
{
    const group s = group_of(a, e);
    return (lt_gemm){.m = s.out,
                     .n = s.in,
                     .k = s.rows,
                     .lda = s.out,
                     .ldb = s.in,
                     .ldc = s.in,
                     .trans_a = true,
                     .accumulate = a->add & LT_IN(1),
                     .ab_dtype = a->dout[0]->dtype,
                     .c_dtype = a->din[1]->dtype,
                     .bias_dtype = LT_F32,
                     .a = lt_at(a->dout[0], s.y),
                     .b = lt_at(a->in[0], s.x),
                     .c = lt_at(a->din[1], s.w)};
}

lt_status lt_grouped_linear_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    return run_all(a, forward_of);
}

lt_status lt_grouped_linear_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->dout[0]) {
        LT_TRY(lt_cpu_zero(a, 0));
        return lt_cpu_zero(a, 1);
    }
    if (a->din[0])
        LT_TRY(run_all(a, input_gradient_of));
    return a->din[1] ? run_all(a, weight_gradient_of) : LT_OK;
}
