// SPDX-License-Identifier: Apache-2.0
// The inner loops of resampling with AVX2: two taps at a time, as products of pairs of int16.
#include "data/image/resample_passes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/** Sums of eight numbers; with split weights, of their halves apart. */
typedef struct sums {
    __m256i low, high;
} sums;

/** pixels: eight pairs of int16, one for each sum. */
AVX2 static inline void add_pair(sums *s, __m256i pixels, const int32_t *pair, bool split)
{
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(pixels, _mm256_set1_epi32(pair[0])));
    if (split)
        s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(pixels, _mm256_set1_epi32(pair[1])));
}

AVX2 static inline __m256i finish(sums s, __m128i shift, bool split)
{
    if (split)
        s.low = _mm256_add_epi32(s.low, _mm256_slli_epi32(s.high, LT_RESAMPLE_LOW_BITS));
    return _mm256_sra_epi32(s.low, shift);
}

/** Four bytes to each of four rows. */
AVX2 static inline void store4(uint8_t *out, int64_t stride, __m128i bytes)
{
    const int row[4] = {_mm_extract_epi32(bytes, 0), _mm_extract_epi32(bytes, 1),
                        _mm_extract_epi32(bytes, 2), _mm_extract_epi32(bytes, 3)};
    for (int y = 0; y < 4; y++)
        memcpy(out + y * stride, &row[y], 4);
}

/** The 16 lanes of one output column. */
AVX2 static inline __m128i column(const lt_resample_axis *a, const uint8_t *lanes, int64_t x,
                                  bool split)
{
    // Of two pixels a half of 16 bytes holds lanes 0 to 7 or 8 to 15, first pixel, then second.
    const __m256i left = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 8, -1, 1, -1, 9, -1, 2, -1, 10, -1, 3, -1, 11, -1));
    const __m256i right = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(4, -1, 12, -1, 5, -1, 13, -1, 6, -1, 14, -1, 7, -1, 15, -1));
    const __m256i half = _mm256_set1_epi32(lt_resample_half(a)), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128(a->shift);
    const int32_t *pair = a->pairs + x * a->n_pairs * 2;
    const uint8_t *p = lanes + a->first[x] * LT_RESAMPLE_LANES;
    sums s0 = {half, zero}, s1 = {half, zero};
    // Always as many: a loop of changing length is mispredicted.
    for (int64_t j = 0; j < a->n_pairs; j++, pair += 2, p += (size_t)2 * LT_RESAMPLE_LANES) {
        const __m256i two =
            _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)(const void *)p), 0xd8);
        add_pair(&s0, _mm256_shuffle_epi8(two, left), pair, split);
        add_pair(&s1, _mm256_shuffle_epi8(two, right), pair, split);
    }
    const __m256i words =
        _mm256_packs_epi32(finish(s0, shift, split), finish(s1, shift, split)); // in order
    return _mm256_castsi256_si128(
        _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08));
}

AVX2 static inline void columns(const lt_resample_axis *a, const lt_resample_rows *r, bool split)
{
    const bool four = r->channels == 3 && r->n_rows == 4; // the usual case
    for (int64_t x = 0; x < a->n_out; x++) {
        const __m128i bytes = column(a, r->lanes, x, split);
        if (four && x + 1 < a->n_out) { // the fourth byte is the next column's, which follows
            store4(r->out + x * 3, r->out_stride, bytes);
        } else {
            uint8_t lane[LT_RESAMPLE_LANES];
            _mm_storeu_si128((__m128i *)(void *)lane, bytes);
            lt_resample_scatter(r, lane, x);
        }
    }
}

AVX2 static void horizontal(const lt_resample_axis *a, const lt_resample_rows *r)
{
    if (a->split)
        columns(a, r, true);
    else
        columns(a, r, false);
}

AVX2 static inline void stripe_of(const lt_resample_axis *a, int64_t y, const uint8_t *px,
                                  int64_t stride, uint8_t *out, bool split)
{
    const int32_t *pair = a->pairs + y * a->n_pairs * 2;
    const uint8_t *p = px + a->first[y] * stride;
    const __m256i half = _mm256_set1_epi32(lt_resample_half(a)), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128(a->shift);
    const int64_t n = a->count[y];
    sums s0 = {half, zero}, s1 = s0, s2 = s0, s3 = s0;
    for (int64_t j = 0; j < n; j += 2, pair += 2, p += 2 * stride) {
        const uint8_t *q = j + 1 < n ? p + stride : p; // a last row alone: times zero
        const __m256i a0 = _mm256_loadu_si256((const __m256i *)(const void *)p);
        const __m256i a1 = _mm256_loadu_si256((const __m256i *)(const void *)q);
        const __m256i left = _mm256_unpacklo_epi8(a0, a1), right = _mm256_unpackhi_epi8(a0, a1);
        add_pair(&s0, _mm256_unpacklo_epi8(left, zero), pair, split);
        add_pair(&s1, _mm256_unpackhi_epi8(left, zero), pair, split);
        add_pair(&s2, _mm256_unpacklo_epi8(right, zero), pair, split);
        add_pair(&s3, _mm256_unpackhi_epi8(right, zero), pair, split);
    }
    // Unpacking and packing work within halves alike, so that columns come out in order.
    const __m256i left = _mm256_packs_epi32(finish(s0, shift, split), finish(s1, shift, split));
    const __m256i right = _mm256_packs_epi32(finish(s2, shift, split), finish(s3, shift, split));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_packus_epi16(left, right));
}

AVX2 static void stripe(const lt_resample_axis *a, int64_t y, const uint8_t *px, int64_t stride,
                        uint8_t *out)
{
    if (a->split)
        stripe_of(a, y, px, stride, out, true);
    else
        stripe_of(a, y, px, stride, out, false);
}

const lt_resample_passes lt_resample_passes_avx2 = {.horizontal = horizontal, .stripe = stripe};
#else
typedef int lt_resample_avx2_is_empty_here;
#endif
