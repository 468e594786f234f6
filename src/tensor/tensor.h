// SPDX-License-Identifier: Apache-2.0
// Tensors: dtype, shape, pointer. Always contiguous, row-major, dims outermost first. Memory
// belongs to somebody else.
#ifndef LT_TENSOR_TENSOR_H
#define LT_TENSOR_TENSOR_H

#include "base/status.h"
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lt_dtype {
    LT_F64,
    LT_F32,
    LT_BF16,
    LT_F16,
    LT_I64,
    LT_I32,
    LT_I16,
    LT_U8,
    LT_N_DTYPES
} lt_dtype;
/** Bytes of one element. */
size_t lt_dtype_bytes(lt_dtype dtype);
/** "f32", "bf16", ... as messages print it. */
const char *lt_dtype_name(lt_dtype dtype);
bool lt_dtype_is_float(lt_dtype dtype);

enum { LT_MAX_DIMS = 6 };

typedef struct lt_tensor {
    void *data; /* NULL while only planned, or for zero elements */
    /* the host's copy of an index tensor (segment table, rows, grid); equals data on the CPU */
    const void *host;
    lt_dtype dtype;
    int32_t rank;
    int64_t dim[LT_MAX_DIMS];
} lt_tensor;

/** A planned tensor (no data) of that shape. */
lt_tensor lt_tensor_1d(lt_dtype dtype, int64_t n);
lt_tensor lt_tensor_2d(lt_dtype dtype, int64_t rows, int64_t cols);
lt_tensor lt_tensor_nd(lt_dtype dtype, int rank, const int64_t *dim);
/** Shape and dtype of t, no data. */
lt_tensor lt_tensor_like(const lt_tensor *t);
/** t's dims in another dtype, no data. */
lt_tensor lt_tensor_as(const lt_tensor *t, lt_dtype dtype);
int64_t lt_n_elems(const lt_tensor *t);
size_t lt_tensor_bytes(const lt_tensor *t);
/** Product of all dims but the last (1 for rank 0); the last dim. */
int64_t lt_rows(const lt_tensor *t);
int64_t lt_width(const lt_tensor *t);
bool lt_same_shape(const lt_tensor *a, const lt_tensor *b);
/** "f32[4,8]" in a struct, so that two fit in one printf. */
typedef struct lt_shape_text {
    char s[96];
} lt_shape_text;
lt_shape_text lt_shape_print(const lt_tensor *t);

/** An element as an integer; floats are cut towards zero. */
int64_t lt_load_int(const lt_tensor *t, int64_t i);
/**
 * n elements, any float dtype to any float dtype, nearest even (f64 -> bf16 rounds once). Ranges
 * may be equal, not overlap.
 */
void lt_convert(void *dst, lt_dtype to, const void *src, lt_dtype from, int64_t n);

static inline float lt_bf16_to_f32(uint16_t v)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.u = (uint32_t)v << 16;
    return x.f;
}
/** Nearest even; NaN stays a NaN. */
static inline uint16_t lt_f32_to_bf16(float f)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.f = f;
    if ((x.u & 0x7fffffffU) > 0x7f800000U)
        return (uint16_t)((x.u >> 16) | 0x40U);
    return (uint16_t)((x.u + 0x7fffU + ((x.u >> 16) & 1U)) >> 16);
}
float lt_f16_to_f32(uint16_t v);
uint16_t lt_f32_to_f16(float f);

double lt_load_any(const lt_tensor *t, int64_t i);
void lt_store_any(const lt_tensor *t, int64_t i, double v);
/**
 * Element i of any dtype as a double (integers too); stores round to nearest even. For references
 * and tests: the commonest dtypes are inlined, since whole models run through here.
 */
static inline double lt_load(const lt_tensor *t, int64_t i)
{
    if (t->dtype == LT_F32) {
        float f;
        memcpy(&f, (const char *)t->data + 4 * i, sizeof f);
        return (double)f;
    }
    if (t->dtype == LT_F64) {
        double d;
        memcpy(&d, (const char *)t->data + 8 * i, sizeof d);
        return d;
    }
    if (t->dtype == LT_BF16) {
        uint16_t h;
        memcpy(&h, (const char *)t->data + 2 * i, sizeof h);
        return (double)lt_bf16_to_f32(h);
    }
    return lt_load_any(t, i);
}
static inline void lt_store(const lt_tensor *t, int64_t i, double v)
{
    if (t->dtype == LT_F32) {
        const float f = (float)v;
        memcpy((char *)t->data + 4 * i, &f, sizeof f);
    } else if (t->dtype == LT_F64) {
        memcpy((char *)t->data + 8 * i, &v, sizeof v);
    } else {
        lt_store_any(t, i, v);
    }
}

/*
 * An fp32 value kept as bf16 `hi` and a signed remainder `lo`: exact. hi = (bits + 0x8000) >> 16,
 * lo = bits - (hi << 16).
 */
static inline void lt_split_f32(float f, uint16_t *hi, int16_t *lo)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.f = f;
    *hi = (uint16_t)((x.u + 0x8000U) >> 16);
    *lo = (int16_t)(uint16_t)(x.u - ((uint32_t)*hi << 16));
}
static inline float lt_join_f32(uint16_t hi, int16_t lo)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.u = ((uint32_t)hi << 16) + (uint32_t)(int32_t)lo;
    return x.f;
}

#ifdef __cplusplus
}
#endif
#endif
