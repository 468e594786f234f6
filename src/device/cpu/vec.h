// SPDX-License-Identifier: Apache-2.0
// Vectors of floats as wide as the flags of the including file allow: the code of a kernel is
// written once and compiled for plain x86-64 (or any other machine), for AVX2 and for AVX-512. Only
// files of one instruction set include it, never headers.
#ifndef LT_DEVICE_CPU_VEC_H
#define LT_DEVICE_CPU_VEC_H

#include "tensor/tensor.h"
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LT_VEC_AVX512 1
enum { LANES = 16 };
#define LT_PER_ISA(name) name##_avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define LT_VEC_AVX2 1
enum { LANES = 8 };
#define LT_PER_ISA(name) name##_avx2
#else
enum { LANES = 4 };
#define LT_PER_ISA(name) name##_plain
#endif

#define LT_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));
typedef uint16_t vh __attribute__((vector_size(2 * LANES), aligned(2 * LANES), may_alias));
/* Half as many doubles: wider ones than the registers would live in memory. */
typedef double vd __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));

LT_INLINE vf v_set(float x)
{
    return x - (vf){0};
}

LT_INLINE vf v_fma(vf a, vf b, vf c)
{
#if defined(LT_VEC_AVX512)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(LT_VEC_AVX2)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/** The first and the second half of the lanes, in double. */
LT_INLINE vd v_first_half(vf x)
{
#if defined(LT_VEC_AVX512)
    return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
#elif defined(LT_VEC_AVX2)
    return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
#else
    return (vd){(double)x[0], (double)x[1]};
#endif
}

LT_INLINE vd v_second_half(vf x)
{
#if defined(LT_VEC_AVX512)
    return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif defined(LT_VEC_AVX2)
    return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#else
    return (vd){(double)x[2], (double)x[3]};
#endif
}

/** yes where the mask's lane is all ones, no where it is zero. */
LT_INLINE vf v_pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

/** The larger, and the smaller one; a NaN in `a` stays. */
LT_INLINE vf v_max(vf a, vf b)
{
#if defined(LT_VEC_AVX512)
    return (vf)_mm512_max_ps((__m512)b, (__m512)a); // of NaNs the second operand counts
#elif defined(LT_VEC_AVX2)
    return (vf)_mm256_max_ps((__m256)b, (__m256)a);
#else
    return v_pick(a < b, b, a);
#endif
}

LT_INLINE vf v_min(vf a, vf b)
{
#if defined(LT_VEC_AVX512)
    return (vf)_mm512_min_ps((__m512)b, (__m512)a);
#elif defined(LT_VEC_AVX2)
    return (vf)_mm256_min_ps((__m256)b, (__m256)a);
#else
    return v_pick(a > b, b, a);
#endif
}

LT_INLINE vf v_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

LT_INLINE void v_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

LT_INLINE vf v_widen(vh h)
{
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

#if defined(LT_VEC_AVX512)
/*
 * The sixteen bits of a bf16 in the upper half, rounded to the nearest even; what is below is left.
 */
LT_INLINE __m512i v_round_up(__m512i u)
{
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}

/* NaNs keep their upper half, with the bit that makes them quiet. */
LT_INLINE __m512i v_keep_nan(__m512i rounded, vf x)
{
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, (__m512i)x, _mm512_set1_epi32(0x400000));
}
#endif

/** To bf16, nearest even, bit for bit like lt_f32_to_bf16. */
LT_INLINE vh v_narrow(vf x)
{
#if defined(LT_VEC_AVX512)
    const __m512i rounded = v_keep_nan(v_round_up((__m512i)x), x);
    return (vh)_mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
#else
    const vu u = (vu)x, rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16, quiet = (u >> 16) | 0x40U;
    const vu nan = (vu)(x != x);
    return __builtin_convertvector((nan & quiet) | (~nan & rounded), vh);
#endif
}

/** Rounded to bf16 and back. */
LT_INLINE vf v_round_bf16(vf x)
{
#if defined(LT_VEC_AVX512)
    const __m512i rounded = v_keep_nan(v_round_up((__m512i)x), x);
    return (vf)_mm512_and_si512(rounded, _mm512_set1_epi32(-0x10000));
#else
    return v_widen(v_narrow(x));
#endif
}

/* Elements i.. of an f32 or a bf16 array. `bf16` is a constant wherever these are inlined. */

LT_INLINE vf v_get(const void *p, bool bf16, int64_t i)
{
    if (!bf16)
        return v_load((const float *)p + i);
    vh h;
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return v_widen(h);
}

LT_INLINE void v_put(void *p, bool bf16, int64_t i, vf v)
{
    if (!bf16) {
        v_store((float *)p + i, v);
        return;
    }
    const vh h = v_narrow(v);
    memcpy((uint16_t *)p + i, &h, sizeof h);
}

/** The first n < LANES elements, zeros behind them. */
LT_INLINE vf v_get_part(const void *p, bool bf16, int64_t i, int64_t n)
{
    vf v = {0};
    if (!bf16) {
        memcpy(&v, (const float *)p + i, (size_t)n * sizeof(float));
        return v;
    }
    vh h = {0};
    memcpy(&h, (const uint16_t *)p + i, (size_t)n * sizeof(uint16_t));
    return v_widen(h);
}

LT_INLINE void v_put_part(void *p, bool bf16, int64_t i, int64_t n, vf v)
{
    if (!bf16) {
        memcpy((float *)p + i, &v, (size_t)n * sizeof(float));
        return;
    }
    const vh h = v_narrow(v);
    memcpy((uint16_t *)p + i, &h, (size_t)n * sizeof(uint16_t));
}

/** Elements i.. of [0, n): whole vectors, and a part at the end. */
LT_INLINE vf v_at(const void *p, bool bf16, int64_t i, int64_t n)
{
    return n - i >= LANES ? v_get(p, bf16, i) : v_get_part(p, bf16, i, n - i);
}

LT_INLINE void v_put_at(void *p, bool bf16, int64_t i, int64_t n, vf v)
{
    if (n - i >= LANES)
        v_put(p, bf16, i, v);
    else
        v_put_part(p, bf16, i, n - i, v);
}

#if defined(__AVX2__)
/** Eight lanes added up, and the largest of them: those four apart first, neighbours last. */
LT_INLINE float v_sum8(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

LT_INLINE float v_largest8(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
#endif

/** Lanes added up in a fixed order: neighbours last. */
LT_INLINE float v_sum(vf v)
{
#if defined(LT_VEC_AVX512)
    return v_sum8(
        _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1)));
#elif defined(LT_VEC_AVX2)
    return v_sum8((__m256)v);
#else
    float lane[LANES];
    memcpy(lane, &v, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
#endif
}

/** The largest lane. With a NaN among them: any. */
LT_INLINE float v_largest(vf v)
{
#if defined(LT_VEC_AVX512)
    return v_largest8(
        _mm256_max_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1)));
#elif defined(LT_VEC_AVX2)
    return v_largest8((__m256)v);
#else
    float lane[LANES], best;
    memcpy(lane, &v, sizeof lane);
    best = lane[0];
    for (int i = 1; i < LANES; i++)
        best = best < lane[i] ? lane[i] : best;
    return best;
#endif
}
#endif
