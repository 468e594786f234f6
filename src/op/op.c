// SPDX-License-Identifier: Apache-2.0
// Checks for shape rules, and the helpers that reference kernels read and write through.
#include "op/op.h"
#include <string.h>

lt_dtype lt_wide_dtype(lt_dtype compute)
{
    return compute == LT_F64 ? LT_F64 : LT_F32;
}

static lt_status need_input(const lt_op_args *a, int i, const char *name)
{
    if (!a->in[i])
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s, which is not given", a->def->name, name);
    return LT_OK;
}

lt_status lt_need_rank(const lt_op_args *a, int i, const char *name, int rank)
{
    LT_TRY(need_input(a, i, name));
    if (a->in[i]->rank != rank)
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s with %d dims, got %s", a->def->name, name, rank,
                       lt_shape_print(a->in[i]).s);
    return LT_OK;
}

lt_status lt_need_dtype(const lt_op_args *a, int i, const char *name, lt_dtype dtype)
{
    LT_TRY(need_input(a, i, name));
    if (a->in[i]->dtype != dtype)
        return LT_FAIL(LT_ERR_DTYPE, "%s needs %s as %s, got %s", a->def->name, name,
                       lt_dtype_name(dtype), lt_shape_print(a->in[i]).s);
    return LT_OK;
}

static lt_status need_tensor(const lt_op_args *a, int i, const char *name, const lt_tensor *want)
{
    LT_TRY(lt_need_dtype(a, i, name, want->dtype));
    if (!lt_same_shape(a->in[i], want))
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s as %s, got %s", a->def->name, name,
                       lt_shape_print(want).s, lt_shape_print(a->in[i]).s);
    return LT_OK;
}

lt_status lt_need_1d(const lt_op_args *a, int i, const char *name, lt_dtype dtype, int64_t n)
{
    const lt_tensor want = lt_tensor_1d(dtype, n);
    return need_tensor(a, i, name, &want);
}

lt_status lt_need_2d(const lt_op_args *a, int i, const char *name, lt_dtype dtype, int64_t rows,
                     int64_t cols)
{
    const lt_tensor want = lt_tensor_2d(dtype, rows, cols);
    return need_tensor(a, i, name, &want);
}

lt_status lt_need_alike(const lt_op_args *a, int i, const char *name_i, int j, const char *name_j)
{
    LT_TRY(need_input(a, i, name_i));
    LT_TRY(need_input(a, j, name_j));
    const lt_tensor *x = a->in[i], *y = a->in[j];
    if (!lt_same_shape(x, y))
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s and %s of one shape, got %s and %s", a->def->name,
                       name_i, name_j, lt_shape_print(x).s, lt_shape_print(y).s);
    if (x->dtype != y->dtype)
        return LT_FAIL(LT_ERR_DTYPE, "%s needs %s and %s of one dtype, got %s and %s", a->def->name,
                       name_i, name_j, lt_shape_print(x).s, lt_shape_print(y).s);
    return LT_OK;
}

double lt_narrowed(lt_dtype dtype, double v)
{
    if (dtype != LT_BF16)
        return v;
    uint16_t bits;
    lt_convert(&bits, LT_BF16, &v, LT_F64, 1);
    return (double)lt_bf16_to_f32(bits);
}

double lt_dout(const lt_op_args *a, int i, int64_t k)
{
    return a->dout[i] ? lt_load(a->dout[i], k) : 0.0;
}

void lt_put_grad(const lt_op_args *a, int i, int64_t k, double v)
{
    if (!a->din[i])
        return;
    if (a->add & LT_IN(i))
        v += lt_load(a->din[i], k);
    lt_store(a->din[i], k, v);
}

void lt_zero_grad(const lt_op_args *a, int i)
{
    if (a->din[i] && !(a->add & LT_IN(i)) && lt_n_elems(a->din[i]) > 0)
        memset(a->din[i]->data, 0, lt_tensor_bytes(a->din[i]));
}

void lt_add_grad(const lt_op_args *a, int i, int64_t k, double v)
{
    if (a->din[i])
        lt_store(a->din[i], k, lt_load(a->din[i], k) + v);
}

double lt_dot(const lt_tensor *a, int64_t a_from, int64_t a_step, const lt_tensor *b,
              int64_t b_from, int64_t b_step, int64_t n)
{
    double sum = 0.0;
    if (a->dtype == LT_F64 && b->dtype == LT_F64) {
        const double *x = a->data, *y = b->data;
        for (int64_t k = 0; k < n; k++)
            sum += x[a_from + k * a_step] * y[b_from + k * b_step];
    } else if (a->dtype == LT_F32 && b->dtype == LT_F32) {
        const float *x = a->data, *y = b->data;
        for (int64_t k = 0; k < n; k++)
            sum += (double)x[a_from + k * a_step] * (double)y[b_from + k * b_step];
    } else if (a->dtype == LT_BF16 && b->dtype == LT_BF16) {
        const uint16_t *x = a->data, *y = b->data;
        for (int64_t k = 0; k < n; k++)
            sum += (double)lt_bf16_to_f32(x[a_from + k * a_step]) *
                   (double)lt_bf16_to_f32(y[b_from + k * b_step]);
    } else {
        for (int64_t k = 0; k < n; k++)
            sum += lt_load(a, a_from + k * a_step) * lt_load(b, b_from + k * b_step);
    }
    return sum;
}

double *lt_scratch_f64(const lt_op_args *a, int64_t n)
{
    LT_ASSERT(n == 0 ||
              (a->run && a->run->scratch && a->run->scratch_bytes / sizeof(double) >= (size_t)n));
    return n == 0 ? NULL : a->run->scratch;
}

const int32_t *lt_index(const lt_tensor *t)
{
    LT_DEBUG_ASSERT(t->dtype == LT_I32);
    if (lt_n_elems(t) == 0)
        return NULL;
    LT_ASSERT(t->host != NULL);
    return t->host;
}

lt_status lt_need_indices(const lt_op_args *a, int i, const char *name, int64_t n)
{
    const int32_t *v = lt_index(a->in[i]);
    for (int64_t k = 0, count = lt_n_elems(a->in[i]); k < count; k++) {
        if (v[k] < 0 || v[k] >= n)
            return LT_FAIL(LT_ERR_DATA, "%s: %s[%lld] is %d, not in 0 to %lld", a->def->name, name,
                           (long long)k, v[k], (long long)(n - 1));
    }
    return LT_OK;
}

lt_status lt_need_ascending(const lt_op_args *a, int i, const char *name, int64_t n)
{
    LT_TRY(lt_need_indices(a, i, name, n));
    const int32_t *v = lt_index(a->in[i]);
    for (int64_t k = 1, count = lt_n_elems(a->in[i]); k < count; k++) {
        if (v[k] <= v[k - 1])
            return LT_FAIL(LT_ERR_DATA, "%s: %s must ascend, but %s[%lld] is %d after %d",
                           a->def->name, name, name, (long long)k, v[k], v[k - 1]);
    }
    return LT_OK;
}

lt_status lt_need_segments(const lt_op_args *a, int i, int64_t rows)
{
    const int32_t *v = lt_index(a->in[i]);
    for (int64_t k = 0, count = lt_n_elems(a->in[i]); k < count; k++) {
        const int32_t before = k > 0 ? v[k - 1] : 0;
        if (v[k] < before || v[k] > rows)
            return LT_FAIL(LT_ERR_DATA, "%s: segments[%lld] is %d, not in %d to %lld", a->def->name,
                           (long long)k, v[k], before, (long long)rows);
    }
    return LT_OK;
}

void lt_copy_row(lt_tensor *dst, int64_t to, const lt_tensor *src, int64_t from)
{
    const int64_t width = lt_width(dst);
    LT_DEBUG_ASSERT(width == lt_width(src));
    if (width > 0) {
        lt_convert((char *)dst->data + (size_t)(to * width) * lt_dtype_bytes(dst->dtype),
                   dst->dtype,
                   (const char *)src->data + (size_t)(from * width) * lt_dtype_bytes(src->dtype),
                   src->dtype, width);
    }
}
