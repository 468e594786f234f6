// SPDX-License-Identifier: Apache-2.0
// Shapes, dtypes and their printing.
#include "tensor/tensor.h"
#include <stdio.h>

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} dtypes[LT_N_DTYPES] = {
    [LT_F64] = {"f64", 8, true},  [LT_F32] = {"f32", 4, true},  [LT_BF16] = {"bf16", 2, true},
    [LT_F16] = {"f16", 2, true},  [LT_I64] = {"i64", 8, false}, [LT_I32] = {"i32", 4, false},
    [LT_I16] = {"i16", 2, false}, [LT_U8] = {"u8", 1, false},
};

size_t lt_dtype_bytes(lt_dtype dtype)
{
    LT_DEBUG_ASSERT(dtype < LT_N_DTYPES);
    return dtypes[dtype].bytes;
}

const char *lt_dtype_name(lt_dtype dtype)
{
    return dtype < LT_N_DTYPES ? dtypes[dtype].name : "unknown";
}

bool lt_dtype_is_float(lt_dtype dtype)
{
    LT_DEBUG_ASSERT(dtype < LT_N_DTYPES);
    return dtypes[dtype].is_float;
}

lt_tensor lt_tensor_1d(lt_dtype dtype, int64_t n)
{
    return lt_tensor_nd(dtype, 1, (const int64_t[]){n});
}

lt_tensor lt_tensor_2d(lt_dtype dtype, int64_t rows, int64_t cols)
{
    return lt_tensor_nd(dtype, 2, (const int64_t[]){rows, cols});
}

lt_tensor lt_tensor_nd(lt_dtype dtype, int rank, const int64_t *dim)
{
    LT_ASSERT(rank >= 0 && rank <= LT_MAX_DIMS);
    lt_tensor t = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        LT_ASSERT(dim[i] >= 0);
        t.dim[i] = dim[i];
    }
    return t;
}

lt_tensor lt_tensor_like(const lt_tensor *t)
{
    return lt_tensor_as(t, t->dtype);
}

lt_tensor lt_tensor_as(const lt_tensor *t, lt_dtype dtype)
{
    lt_tensor out = *t;
    out.dtype = dtype;
    out.data = NULL;
    out.host = NULL;
    return out;
}

static int64_t product(const lt_tensor *t, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        LT_ASSERT(lt_mul_i64(all, t->dim[i], &all));
    return all;
}

int64_t lt_n_elems(const lt_tensor *t)
{
    return product(t, t->rank);
}

size_t lt_tensor_bytes(const lt_tensor *t)
{
    uint64_t bytes;
    LT_ASSERT(lt_mul_u64((uint64_t)lt_n_elems(t), lt_dtype_bytes(t->dtype), &bytes));
    return bytes;
}

int64_t lt_rows(const lt_tensor *t)
{
    return t->rank > 0 ? product(t, t->rank - 1) : 1;
}

int64_t lt_width(const lt_tensor *t)
{
    return t->rank > 0 ? t->dim[t->rank - 1] : 1;
}

bool lt_same_shape(const lt_tensor *a, const lt_tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

lt_shape_text lt_shape_print(const lt_tensor *t)
{
    lt_shape_text out;
    const size_t room = sizeof out.s;
    int at = snprintf(out.s, room, "%s[", lt_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && at > 0 && (size_t)at < room; i++)
        at +=
            snprintf(out.s + at, room - (size_t)at, i > 0 ? ",%lld" : "%lld", (long long)t->dim[i]);
    if (at > 0 && (size_t)at < room)
        snprintf(out.s + at, room - (size_t)at, "]");
    return out;
}
