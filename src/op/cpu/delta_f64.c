// SPDX-License-Identifier: Apache-2.0
// gated_delta in chunks, in double and plainly: what shows that the form in chunks is the
// recurrence, to the last digits.
#include "device/cpu/scratch.h"
#include "op/cpu/delta.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/gated_delta.h"
#include <math.h>
#include <string.h>

#define REAL LT_F64
typedef double real;

// As in float.
typedef struct product_of {
    int64_t m, n, k;
    const real *a, *b;
    bool trans_a, trans_b, add;
} product_of;

static lt_status multiply(real *c, const product_of *p)
{
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const int64_t row = i / p->n, col = i % p->n;
        real sum = p->add ? c[i] : 0;
        for (int64_t x = 0; x < p->k; x++)
            sum += p->a[p->trans_a ? x * p->m + row : row * p->k + x] *
                   p->b[p->trans_b ? col * p->k + x : x * p->n + col];
        c[i] = sum;
    }
    return LT_OK;
}

static real dot_of(const real *x, const real *y, int64_t n)
{
    real sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static real unit_of(real *y, const real *x, int64_t n)
{
    const real by = 1 / sqrt(dot_of(x, x, n) + LT_UNIT_EPS);
    for (int64_t i = 0; i < n; i++)
        y[i] = by * x[i];
    return by;
}

static void put_unit_grad(const lt_op_args *a, int64_t at, const real *y, const real *dy, real by,
                          int64_t n)
{
    const real along = dot_of(y, dy, n);
    for (int64_t i = 0; i < n; i++)
        lt_put_grad(a, 0, at + i, by * (dy[i] - y[i] * along));
}

static void decays_of(real *d, const double *g, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++)
        d[i] = i % n > i / n ? 0 : exp(g[i / n] - g[i % n]);
}

static void product_into(real *y, const real *a, const real *b, real by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = by * a[i] * b[i];
}

// y = keep y + by x
static void scaled_into(real *y, const real *x, real keep, real by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (keep != 0 ? keep * y[i] : 0) + by * x[i];
}

static void solve_by(real *x, const real *l, bool back, int64_t n, int64_t width)
{
    for (int64_t step = 1; step < n; step++) {
        const int64_t i = back ? n - 1 - step : step;
        for (int64_t j = back ? i + 1 : 0; j < (back ? n : i); j++)
            scaled_into(x + i * width, x + j * width, 1, -l[back ? j * n + i : i * n + j], width);
    }
}

static void put_into(const lt_tensor *y, bool adds, int64_t at, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        lt_store(y, at + i, x[i] + (adds ? lt_load(y, at + i) : 0.0));
}

#define unit_row(t, y, at) unit_of((y), (const real *)(t)->a->in[0]->data + (at), (t)->dk)
#define unit_row_grad(t, at, y, dy, by) put_unit_grad((t)->a, (at), (y), (dy), (by), (t)->dk)
#define decay_rows(t, d, sums, n) decays_of((d), (sums), (n))
#define product_row(t, y, a, b, by, n) product_into((y), (a), (b), (by), (n))
#define scaled_row(t, y, x, by, n) scaled_into((y), (x), 0, (by), (n))
#define add_scaled_row(t, y, x, by, n) scaled_into((y), (x), 1, (by), (n))
#define solve_rows(t, x, l, back, n, width) solve_by((x), (l), (back), (n), (width))
#define dot_row(t, x, y, n) dot_of((x), (y), (n))
#define put_row(t, y, adds, at, x, n) put_into((y), (adds), (at), (x), (n))

#include "op/cpu/delta_chunks.inc"

lt_status lt_delta_fwd_f64(const lt_op_args *a)
{
    return run_tasks(a, forward_task);
}

lt_status lt_delta_bwd_f64(const lt_op_args *a)
{
    return run_tasks(a, backward_task);
}
