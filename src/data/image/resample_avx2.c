// SPDX-License-Identifier: Apache-2.0
// The inner loops of resampling with AVX2.
#include "data/image/resample_passes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i load8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/** Two sums of 8, shifted and clipped: 16 bytes in their order. */
AVX2 static inline __m128i narrow(__m256i low, __m256i high, __m128i shift)
{
    const __m256i words =
        _mm256_packs_epi32(_mm256_sra_epi32(low, shift), _mm256_sra_epi32(high, shift));
    const __m256i bytes = _mm256_packus_epi16(words, words); // within each half: low 4, high 4
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
    return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
}

/** Four bytes to each of four rows. */
AVX2 static inline void store4(uint8_t *out, int64_t stride, __m128i bytes)
{
    const int row[4] = {_mm_extract_epi32(bytes, 0), _mm_extract_epi32(bytes, 1),
                        _mm_extract_epi32(bytes, 2), _mm_extract_epi32(bytes, 3)};
    for (int y = 0; y < 4; y++)
        memcpy(out + y * stride, &row[y], 4);
}

AVX2 static void horizontal(const lt_resample_axis *a, const lt_resample_rows *r)
{
    const __m256i half = _mm256_set1_epi32(lt_resample_half(a));
    const __m128i shift = _mm_cvtsi32_si128(a->shift);
    const bool four = r->channels == 3 && r->n_rows == 4; // the usual case
    for (int64_t x = 0; x < a->n_out; x++) {
        const int32_t *k = a->fixed + x * a->taps;
        const uint8_t *p = r->lanes + a->first[x] * LT_RESAMPLE_LANES;
        const int64_t n = a->count[x];
        __m256i low = half, high = half;
        for (int64_t j = 0; j < n; j++, p += LT_RESAMPLE_LANES) {
            const __m256i w = _mm256_set1_epi32(k[j]);
            low = _mm256_add_epi32(low, _mm256_mullo_epi32(load8(p), w));
            high = _mm256_add_epi32(high, _mm256_mullo_epi32(load8(p + 8), w));
        }
        const __m128i bytes = narrow(low, high, shift);
        if (four && x + 1 < a->n_out) { // the fourth byte is the next column's, which follows
            store4(r->out + x * 3, r->out_stride, bytes);
        } else {
            uint8_t lane[LT_RESAMPLE_LANES];
            _mm_storeu_si128((__m128i *)(void *)lane, bytes);
            lt_resample_scatter(r, lane, x);
        }
    }
}

AVX2 static void stripe(const lt_resample_axis *a, int64_t y, const uint8_t *px, int64_t stride,
                        uint8_t *out)
{
    const int32_t *k = a->fixed + y * a->taps;
    const uint8_t *p = px + a->first[y] * stride;
    const __m256i half = _mm256_set1_epi32(lt_resample_half(a));
    const __m128i shift = _mm_cvtsi32_si128(a->shift);
    const int64_t n = a->count[y];
    __m256i s0 = half, s1 = half, s2 = half, s3 = half;
    for (int64_t j = 0; j < n; j++, p += stride) {
        const __m256i w = _mm256_set1_epi32(k[j]);
        s0 = _mm256_add_epi32(s0, _mm256_mullo_epi32(load8(p), w));
        s1 = _mm256_add_epi32(s1, _mm256_mullo_epi32(load8(p + 8), w));
        s2 = _mm256_add_epi32(s2, _mm256_mullo_epi32(load8(p + 16), w));
        s3 = _mm256_add_epi32(s3, _mm256_mullo_epi32(load8(p + 24), w));
    }
    _mm_storeu_si128((__m128i *)(void *)out, narrow(s0, s1, shift));
    _mm_storeu_si128((__m128i *)(void *)(out + 16), narrow(s2, s3, shift));
}

const lt_resample_passes lt_resample_passes_avx2 = {.horizontal = horizontal, .stripe = stripe};
#else
typedef int lt_resample_avx2_is_empty_here;
#endif
