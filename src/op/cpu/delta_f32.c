// SPDX-License-Identifier: Apache-2.0
// gated_delta in chunks, in float: products by lathe's gemm, rows by the row kernels. For f32 and
// bf16.
#include "device/cpu/scratch.h"
#include "device/gemm.h"
#include "op/cpu/delta.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/gated_delta.h"
#include <math.h>
#include <string.h>

#define REAL LT_F32
typedef float real;

// c[m, n] = a[m, k] b[k, n], or c += that; with trans_ the matrix is stored the other way round.
typedef struct product_of {
    int64_t m, n, k;
    const real *a, *b;
    bool trans_a, trans_b, add;
} product_of;

static lt_status multiply(real *c, const product_of *p)
{
    return lt_cpu_gemm(NULL, &(lt_gemm){.m = p->m,
                                        .n = p->n,
                                        .k = p->k,
                                        .lda = p->trans_a ? p->m : p->k,
                                        .ldb = p->trans_b ? p->k : p->n,
                                        .ldc = p->n,
                                        .trans_a = p->trans_a,
                                        .trans_b = p->trans_b,
                                        .accumulate = p->add,
                                        .ab_dtype = REAL,
                                        .c_dtype = REAL,
                                        .bias_dtype = REAL,
                                        .a = p->a,
                                        .b = p->b,
                                        .c = c});
}

#define unit_row(t, y, at)                                                                         \
    (t)->rows->unit((y), lt_at((t)->a->in[0], (at)), (t)->a->in[0]->dtype == LT_BF16,              \
                    (float)LT_UNIT_EPS, (t)->dk)
#define unit_row_grad(t, at, y, dy, by)                                                            \
    (t)->rows->unit_grad(lt_sink_at(lt_cpu_sink((t)->a, 0), (at)), (y), (dy), (by), (t)->dk)
#define decay_rows(t, d, sums, n) (t)->rows->decays((d), (sums), (n))
#define product_row(t, y, a, b, by, n) (t)->rows->product((y), (a), (b), (by), (n))
#define scaled_row(t, y, x, by, n) (t)->rows->scaled((y), (x), (by), (n))
#define add_scaled_row(t, y, x, by, n) (t)->rows->add_scaled((y), (x), (by), (n))
#define solve_rows(t, x, l, back, n, width) (t)->rows->solve((x), (l), (back), (n), (width))
#define dot_row(t, x, y, n) (t)->rows->dot((x), (y), false, (n))
#define put_row(t, y, adds, at, x, n)                                                              \
    (t)->rows->convert(                                                                            \
        lt_sink_at((lt_sink){.data = (y)->data, .bf16 = (y)->dtype == LT_BF16, .add = (adds)},     \
                   (at)),                                                                          \
        (x), false, (n))

#include "op/cpu/delta_chunks.inc"

lt_status lt_delta_fwd_f32(const lt_op_args *a)
{
    return run_tasks(a, forward_task);
}

lt_status lt_delta_bwd_f32(const lt_op_args *a)
{
    return run_tasks(a, backward_task);
}
