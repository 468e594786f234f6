// SPDX-License-Identifier: Apache-2.0
// Elements as doubles and integers, and conversion between the float dtypes. Unaligned memory is
// fine.
#include "tensor/tensor.h"
#include <float.h>
#include <math.h>
#include <string.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float lt_f16_to_f32(uint16_t v)
{
    const uint32_t sign = (uint32_t)(v & 0x8000U) << 16, exponent = v >> 10 & 0x1fU,
                   fraction = v & 0x3ffU;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000U | fraction << 13);
    if (exponent == 0) { // zero, or subnormal: fraction * 2^-24
        const float magnitude = (float)fraction * 0x1p-24F;
        return sign != 0 ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t lt_f32_to_f16(float f)
{
    const uint32_t u = bits_of(f), sign = u >> 16 & 0x8000U, magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U)
        return (uint16_t)(sign | 0x7e00U | (magnitude >> 13 & 0x1ffU));
    if (magnitude >= 0x47800000U) // 65536 and more
        return (uint16_t)(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
        // Below 2^-14: adding 2^-1 puts the last bit of a float at 2^-24, where f16 has its own.
        const float shifted = float_of(magnitude) + 0.5F;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5F)));
    }
    const uint32_t rounded = magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U);
    return (uint16_t)(sign | rounded >> 13);
}

// A float from which any narrower format rounds as from the double itself: truncated, the last bit
// set when inexact.
static float to_odd(double d)
{
    const float f = (float)d;
    if (isnan(d) || isinf(d) || (double)f == d)
        return f;
    uint32_t u = bits_of(f);
    if (fabs((double)f) > fabs(d))
        u--;
    return float_of(u | 1U);
}

static double load_float(const void *data, lt_dtype dtype, int64_t i)
{
    const char *at = (const char *)data + (size_t)i * lt_dtype_bytes(dtype);
    if (dtype == LT_F64) {
        double d;
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (dtype == LT_F32) {
        float f;
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return (double)(dtype == LT_BF16 ? lt_bf16_to_f32(h) : lt_f16_to_f32(h));
}

static void store_float(void *data, lt_dtype dtype, int64_t i, double v)
{
    char *at = (char *)data + (size_t)i * lt_dtype_bytes(dtype);
    if (dtype == LT_F64) {
        memcpy(at, &v, sizeof v);
    } else if (dtype == LT_F32) {
        const float f = (float)v;
        memcpy(at, &f, sizeof f);
    } else {
        const float f = to_odd(v);
        const uint16_t h = dtype == LT_BF16 ? lt_f32_to_bf16(f) : lt_f32_to_f16(f);
        memcpy(at, &h, sizeof h);
    }
}

int64_t lt_load_int(const lt_tensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * lt_dtype_bytes(t->dtype);
    int64_t i64;
    int32_t i32;
    int16_t i16;
    switch (t->dtype) {
    case LT_I64:
        memcpy(&i64, at, sizeof i64);
        return i64;
    case LT_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case LT_I16:
        memcpy(&i16, at, sizeof i16);
        return i16;
    case LT_U8:
        return *(const uint8_t *)at;
    case LT_F64:
    case LT_F32:
    case LT_BF16:
    case LT_F16:
    case LT_N_DTYPES:
        break;
    }
    return (int64_t)load_float(t->data, t->dtype, i);
}

double lt_load_any(const lt_tensor *t, int64_t i)
{
    if (lt_dtype_is_float(t->dtype))
        return load_float(t->data, t->dtype, i);
    return (double)lt_load_int(t, i);
}

// Integers are rounded to nearest even and held inside their range; NaN becomes 0.
static void store_int(const lt_tensor *t, int64_t i, double v)
{
    static const double lowest[LT_N_DTYPES] = {
        [LT_I64] = -0x1p63, [LT_I32] = INT32_MIN, [LT_I16] = INT16_MIN, [LT_U8] = 0};
    static const double highest[LT_N_DTYPES] = {[LT_I64] = 0x1.fffffffffffffp62,
                                                [LT_I32] = INT32_MAX,
                                                [LT_I16] = INT16_MAX,
                                                [LT_U8] = UINT8_MAX};
    const double inside = isnan(v) ? 0.0 : fmin(fmax(rint(v), lowest[t->dtype]), highest[t->dtype]);
    const int64_t whole = (int64_t)inside;
    // Little-endian machines only, as the files that we map: the low bytes come first.
    memcpy((char *)t->data + (size_t)i * lt_dtype_bytes(t->dtype), &whole,
           lt_dtype_bytes(t->dtype));
}

void lt_store_any(const lt_tensor *t, int64_t i, double v)
{
    if (lt_dtype_is_float(t->dtype))
        store_float(t->data, t->dtype, i, v);
    else
        store_int(t, i, v);
}

static void f32_to_bf16(char *dst, const char *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, src + 4 * i, sizeof f);
        const uint16_t h = lt_f32_to_bf16(f);
        memcpy(dst + 2 * i, &h, sizeof h);
    }
}

static void bf16_to_f32(char *dst, const char *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        const float f = lt_bf16_to_f32(h);
        memcpy(dst + 4 * i, &f, sizeof f);
    }
}

static void f16_to_f32(char *dst, const char *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        const float f = lt_f16_to_f32(h);
        memcpy(dst + 4 * i, &f, sizeof f);
    }
}

void lt_convert(void *dst, lt_dtype to, const void *src, lt_dtype from, int64_t n)
{
    LT_ASSERT(lt_dtype_is_float(to) && lt_dtype_is_float(from));
    if (n <= 0)
        return;
    if (to == from) {
        if (dst != src)
            memcpy(dst, src, (size_t)n * lt_dtype_bytes(to));
    } else if (from == LT_F32 && to == LT_BF16) {
        f32_to_bf16(dst, src, n);
    } else if (from == LT_BF16 && to == LT_F32) {
        bf16_to_f32(dst, src, n);
    } else if (from == LT_F16 && to == LT_F32) {
        f16_to_f32(dst, src, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            store_float(dst, to, i, load_float(src, from, i));
    }
}
