// SPDX-License-Identifier: Apache-2.0
#include "data/image/resample.h"

#include <string.h>

#include "base/rng.h"
#include "data/image/resample_passes.h"
#include "tests/kit/lt_test.h"

static uint8_t *random_bytes(void *state, int64_t n, uint64_t seed)
{
    uint8_t *b = lt_test_take(state, (size_t)n);
    lt_mt19937 g;
    lt_mt19937_seed(&g, seed);
    for (int64_t i = 0; i < n; i++)
        b[i] = (uint8_t)(lt_mt19937_next(&g) >> 24);
    return b;
}

static void a_flat_picture_stays_flat(void **state)
{
    uint8_t *px = lt_test_take(*state, sizeof(uint8_t[40 * 30 * 3])),
            *out = lt_test_take(*state, sizeof(uint8_t[64 * 17 * 3]));
    memset(px, 200, sizeof(uint8_t[40 * 30 * 3]));
    for (int cubic = LT_CUBIC_PILLOW; cubic <= LT_CUBIC_TORCH; cubic++) {
        assert_ok(lt_resample_u8(px, 40, 30, 3, (lt_cubic)cubic, 17, 64, out));
        for (int i = 0; i < 64 * 17 * 3; i++)
            assert_int_equal(out[i], 200);
    }
}

static void two_pixels_become_the_three_that_the_formula_gives(void **state)
{
    // Centers 1/3, 1, 5/3 with support 2: for the first and the last output the weights of the two
    // pixels are cubic(1/6) and cubic(7/6), divided by their sum; for the middle one both are 1/2.
    // cubic(1/6) = (1.5/6 - 2.5)/36 + 1 = 0.9375, cubic(7/6) = -0.0578704
    uint8_t out[3];
    (void)state;
    const double a = 0.9375, b = -0.0578703703703704;
    const double first = (60 * a + 160 * b) / (a + b), last = (60 * b + 160 * a) / (a + b);
    assert_ok(lt_resample_u8((const uint8_t[]){60, 160}, 1, 2, 1, LT_CUBIC_PILLOW, 1, 3, out));
    assert_int_equal(out[0], (int)(first + 0.5));
    assert_int_equal(out[1], 110);
    assert_int_equal(out[2], (int)(last + 0.5));
}

static void nearest_takes_the_pixel_under_the_center(void **state)
{
    uint8_t out[6];
    (void)state;
    assert_ok(lt_resample_nearest((const uint8_t[]){1, 2, 3, 4}, 1, 4, 1, 1, 2, out));
    assert_memory_equal(out, ((uint8_t[]){2, 4}), 2);
    assert_ok(lt_resample_nearest((const uint8_t[]){1, 2}, 2, 1, 1, 3, 2, out));
    assert_memory_equal(out, ((uint8_t[]){1, 1, 2, 2, 2, 2}), 6);
}

static void sixteen_bits_are_kept_and_overshoot_is_stored_as_pillow_does(void **state)
{
    const uint16_t px[] = {1000, 1000, 1000, 1000};
    uint16_t out[7];
    (void)state;
    assert_ok(lt_resample_u16(px, 2, 2, 1, 7, out));
    for (int i = 0; i < 7; i++)
        assert_int_equal(out[i], 1000);
    // 0, 65535 to three: the last is 65535 * 0.9375 / 0.87963 = 69846.5 -> 0x110d7, whose bytes are
    // stored one by one: the low 0xd7, the high clipped to 0xff.
    assert_ok(lt_resample_u16((const uint16_t[]){0, 65535}, 1, 2, 1, 3, out));
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 32768);
    assert_int_equal(out[2], 0xffd7);
}

static void a_tall_picture_is_shrunk_downwards_first(void **state)
{
    // Over 100 times as tall as wide and getting shorter: equal to two resizes in that order.
    const int64_t h = 1001, w = 10;
    uint8_t *px = random_bytes(*state, h * w * 3, 1),
            *a = lt_test_take(*state, sizeof(uint8_t[400 * 20 * 3]));
    uint8_t *half = lt_test_take(*state, (size_t)(h * 20 * 3)),
            *b = lt_test_take(*state, sizeof(uint8_t[400 * 20 * 3]));
    assert_ok(lt_resample_u8(px, h, w, 3, LT_CUBIC_PILLOW, 400, 20, a));
    assert_ok(lt_resample_u8(px, h, w, 3, LT_CUBIC_PILLOW, 400, w, half));
    assert_ok(lt_resample_u8(half, 400, w, 3, LT_CUBIC_PILLOW, 400, 20, b));
    assert_memory_equal(a, b, sizeof(uint8_t[400 * 20 * 3]));
    // One row less: across first.
    assert_ok(lt_resample_u8(px, h - 1, w, 3, LT_CUBIC_PILLOW, 400, 20, a));
    assert_ok(lt_resample_u8(px, h - 1, w, 3, LT_CUBIC_PILLOW, h - 1, 20, half));
    assert_ok(lt_resample_u8(half, h - 1, 20, 3, LT_CUBIC_PILLOW, 400, 20, b));
    assert_memory_equal(a, b, sizeof(uint8_t[400 * 20 * 3]));
}

static void check_stripe(void *state, const lt_resample_axis *a)
{
    enum { N_IN = 40, STRIDE = 50 };
    const uint8_t *px = random_bytes(state, (int64_t)N_IN * STRIDE, 9);
    uint8_t fast[LT_RESAMPLE_STRIPE], plain[LT_RESAMPLE_STRIPE];
    for (int64_t y = 0; y < a->n_out; y++) {
        lt_resample_passes_best()->stripe(a, y, px, STRIDE, fast);
        lt_resample_passes_portable.stripe(a, y, px, STRIDE, plain);
        assert_memory_equal(fast, plain, sizeof fast);
    }
}

static void check_rows(void *state, const lt_resample_axis *a, int channels)
{
    const int pitch = channels == 3 ? 4 : channels;
    const uint8_t *lanes = random_bytes(state, (a->n_in + 2 * a->n_pairs) * LT_RESAMPLE_LANES, 5);
    for (int n = 1; n <= LT_RESAMPLE_LANES / pitch; n++) {
        const int64_t stride = a->n_out * channels;
        uint8_t *fast = lt_test_take(state, (size_t)(n * stride)),
                *plain = lt_test_take(state, (size_t)(n * stride));
        lt_resample_passes_best()->horizontal(
            a, &(lt_resample_rows){lanes, fast, stride, n, pitch, channels});
        lt_resample_passes_portable.horizontal(
            a, &(lt_resample_rows){lanes, plain, stride, n, pitch, channels});
        assert_memory_equal(fast, plain, (size_t)(n * stride));
    }
}

static void fast_passes_give_the_bits_of_the_plain_ones(void **state)
{
    enum { N_IN = 40, N_OUT = 11, TAPS = 9 };
    int64_t first[N_OUT], count[N_OUT];
    int32_t fixed[N_OUT * TAPS], pairs[N_OUT * (TAPS + 1)];
    lt_mt19937 g;
    lt_mt19937_seed(&g, 3);
    for (int64_t i = 0; i < N_OUT; i++) {
        first[i] = i * 3;
        count[i] = 1 + i % TAPS;
    }
    lt_resample_axis a = {.n_in = N_IN,
                          .n_out = N_OUT,
                          .taps = TAPS,
                          .first = first,
                          .count = count,
                          .fixed = fixed,
                          .pairs = pairs};
    // up to 1.25 * 2^22 / 9 each, of both signs, then what fits 16 bits
    for (int32_t range = 1160000; range > 60000; range = range == 65536 ? 0 : 65536) {
        for (int i = 0; i < N_OUT * TAPS; i++)
            fixed[i] = (int32_t)(lt_mt19937_next(&g) % (uint32_t)range) - range / 2;
        lt_resample_fill_pairs(&a);
        assert_int_equal(a.split, range > 65536);
        for (a.shift = 0; a.shift <= 22; a.shift += 11) {
            check_stripe(*state, &a);
            for (int channels = 1; channels <= 4; channels++)
                check_rows(*state, &a, channels);
        }
    }
}

static void channels_do_not_mix(void **state)
{
    // Each channel of a four-channel picture equals the same channel resized alone, at awkward
    // sizes.
    const int64_t h = 31, w = 33, oh = 13, ow = 47;
    const uint8_t *px = random_bytes(*state, h * w * 4, 2);
    uint8_t *all = lt_test_take(*state, (size_t)(oh * ow * 4)),
            *one = lt_test_take(*state, (size_t)(h * w));
    uint8_t *out = lt_test_take(*state, (size_t)(oh * ow));
    assert_ok(lt_resample_u8(px, h, w, 4, LT_CUBIC_TORCH, oh, ow, all));
    for (int c = 0; c < 4; c++) {
        for (int64_t i = 0; i < h * w; i++)
            one[i] = px[4 * i + c];
        assert_ok(lt_resample_u8(one, h, w, 1, LT_CUBIC_TORCH, oh, ow, out));
        for (int64_t i = 0; i < oh * ow; i++)
            assert_int_equal(out[i], all[4 * i + c]);
    }
}

LT_TEST_MAIN(LT_TEST(a_flat_picture_stays_flat),
             LT_TEST(two_pixels_become_the_three_that_the_formula_gives),
             LT_TEST(nearest_takes_the_pixel_under_the_center),
             LT_TEST(sixteen_bits_are_kept_and_overshoot_is_stored_as_pillow_does),
             LT_TEST(a_tall_picture_is_shrunk_downwards_first),
             LT_TEST(fast_passes_give_the_bits_of_the_plain_ones), LT_TEST(channels_do_not_mix))
