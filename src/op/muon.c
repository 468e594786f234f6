// SPDX-License-Identifier: Apache-2.0
// muon: checks, references and table rows.
#include "op/muon.h"

#include "op/adamw.h"
#include "op/cpu/kernels.h"

#include <math.h>

static const double A1 = 3.4445, A3 = -4.7750, A5 = 2.0315; // the iteration's polynomial

static lt_status need_beside(const lt_op_args *a, int i, const char *name, lt_dtype dtype)
{
    const lt_tensor *t = a->out[i];
    if (!t || !lt_same_shape(t, a->in[0]) || t->dtype != dtype) {
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s as %s beside %s, got %s", a->def->name, name,
                       lt_dtype_name(dtype), lt_shape_print(a->in[0]).s,
                       t ? lt_shape_print(t).s : "nothing");
    }
    return LT_OK;
}

/* ---- momentum ---- */

static lt_status infer_momentum(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "grad", 1));
    LT_TRY(lt_need_1d(a, 1, "scalars", LT_F64, LT_N_SCALARS));
    LT_TRY(need_beside(a, 0, "buf", a->in[0]->dtype));
    return need_beside(a, 1, "u", LT_BF16);
}

static lt_status momentum_ref(const lt_op_args *a)
{
    const double mu = ((const lt_muon_attr *)a->attr)->momentum,
                 clip = lt_load(a->in[1], LT_SCALAR_CLIP);
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++) {
        const double g = clip * lt_load(a->in[0], i), buf = mu * lt_load(a->out[0], i) + g;
        lt_store(a->out[0], i, buf);
        lt_store(a->out[1], i, g + mu * buf);
    }
    return LT_OK;
}

const lt_op_def lt_op_muon_momentum = {
    .name = "muon_momentum",
    .n_in = 2,
    .n_out = 2,
    .dtypes = LT_DTYPE_BIT(LT_F32) | LT_DTYPE_BIT(LT_F64),
    .infer = infer_momentum,
    .forward = {[LT_REF] = momentum_ref, [LT_CPU] = lt_muon_momentum_fwd_cpu},
};

/* ---- the iteration ---- */

// Lines of scratch: x [r, c], then A, its polynomial and A A, each [r, r], r the shorter side.
size_t lt_orthogonalize_bytes(int64_t rows, int64_t columns)
{
    const size_t r = (size_t)lt_min_i64(rows, columns), c = (size_t)lt_max_i64(rows, columns);
    return (2 * r * c + 3 * r * r) * sizeof(double);
}

int64_t lt_orthogonalize_flops(int64_t rows, int64_t columns, int32_t steps)
{
    const int64_t r = lt_min_i64(rows, columns), c = lt_max_i64(rows, columns);
    return steps * (4 * r * r * c + 2 * r * r * r);
}

static lt_status infer_orthogonalize(const lt_op_args *a)
{
    const lt_tensor *u = a->out[0];
    if (!u || u->dtype != LT_BF16 || u->rank != 2)
        return LT_FAIL(LT_ERR_SHAPE, "orthogonalize needs u as bf16[r, c], got %s",
                       u ? lt_shape_print(u).s : "nothing");
    return LT_OK;
}

static size_t orthogonalize_scratch(const lt_op_args *a, lt_pass pass)
{
    (void)pass;
    return lt_orthogonalize_bytes(a->out[0]->dim[0], a->out[0]->dim[1]);
}

// c = x y^T or x y; [m, n] over k
static void product(const double *x, const double *y, bool turned, double *c, int64_t m, int64_t n,
                    int64_t k)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (int64_t l = 0; l < k; l++)
                sum += x[i * k + l] * (turned ? y[j * k + l] : y[l * n + j]);
            c[i * n + j] = sum;
        }
    }
}

static void narrow(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = lt_narrowed(LT_BF16, x[i]);
}

static void iterate(double *x, double *y, double *gram, int64_t r, int64_t c)
{
    double *poly = gram + r * r, *square = poly + r * r;
    product(x, x, true, gram, r, r, c);
    narrow(gram, r * r);
    product(gram, gram, false, square, r, r, r);
    for (int64_t i = 0; i < r * r; i++)
        poly[i] = A3 * gram[i] + A5 * square[i];
    narrow(poly, r * r);
    product(poly, x, false, y, r, c, r);
    for (int64_t i = 0; i < r * c; i++)
        x[i] = A1 * x[i] + y[i];
    narrow(x, r * c);
}

static lt_status orthogonalize_ref(const lt_op_args *a)
{
    const lt_tensor *u = a->out[0];
    const int64_t rows = u->dim[0], columns = u->dim[1], n = rows * columns;
    const int64_t r = lt_min_i64(rows, columns), c = lt_max_i64(rows, columns);
    const bool turned = rows > columns;
    double *x = lt_scratch_f64(a, 2 * r * c + 3 * r * r), sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += lt_load(u, i) * lt_load(u, i);
    for (int64_t i = 0; i < n; i++)
        x[turned ? i % columns * c + i / columns : i] = lt_load(u, i) / (sqrt(sum) + 1e-7);
    narrow(x, n);
    for (int32_t i = 0; i < ((const lt_muon_attr *)a->attr)->steps; i++)
        iterate(x, x + r * c, x + 2 * r * c, r, c);
    for (int64_t i = 0; i < n; i++)
        lt_store(a->out[0], i, x[turned ? i % columns * c + i / columns : i]);
    return LT_OK;
}

const lt_op_def lt_op_orthogonalize = {
    .name = "orthogonalize",
    .n_in = 0,
    .n_out = 1,
    .infer = infer_orthogonalize,
    .forward = {[LT_REF] = orthogonalize_ref, [LT_CPU] = lt_orthogonalize_fwd_cpu},
    .scratch = orthogonalize_scratch,
};

/* ---- the step ---- */

static lt_status infer_apply(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "u", 1));
    LT_TRY(lt_need_1d(a, 1, "scalars", LT_F64, LT_N_SCALARS));
    const lt_dtype p = a->out[0] ? a->out[0]->dtype : LT_F32;
    LT_TRY(need_beside(a, 0, "p", p));
    return p == LT_BF16 ? need_beside(a, 1, "lo", LT_I16) : LT_OK;
}

static lt_status apply_ref(const lt_op_args *a)
{
    const lt_muon_attr *c = a->attr;
    const double lr = lt_load(a->in[1], LT_SCALAR_LR) * c->lr_scale,
                 keep = 1.0 - lr * c->weight_decay;
    const double step = lr * c->rms * sqrt((double)c->longer);
    uint16_t *hi = a->out[0]->data;
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++) {
        const double u = lt_load(a->in[0], i);
        if (a->out[0]->dtype != LT_BF16) {
            lt_store(a->out[0], i, lt_load(a->out[0], i) * keep - step * u);
            continue;
        }
        int16_t *lo = a->out[1]->data;
        const double p = (double)lt_join_f32(hi[i], lo[i]) * keep - step * u;
        lt_split_f32((float)p, &hi[i], &lo[i]);
    }
    return LT_OK;
}

const lt_op_def lt_op_muon_apply = {
    .name = "muon_apply",
    .n_in = 2,
    .n_out = 2,
    .dtypes = LT_DTYPE_BIT(LT_BF16),
    .infer = infer_apply,
    .forward = {[LT_REF] = apply_ref, [LT_CPU] = lt_muon_apply_fwd_cpu},
};
