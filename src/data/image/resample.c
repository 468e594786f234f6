// SPDX-License-Identifier: Apache-2.0
// Resampling: weights of one axis, then a horizontal and a vertical pass over bytes.
#include "data/image/resample.h"

#include <math.h>
#include <string.h>

#include "data/image/resample_passes.h"

enum {
    PILLOW_BITS = 22, // 32 - 8 bits of a pixel - 2 of overshoot
    LANES = LT_RESAMPLE_LANES,
    STRIPE = LT_RESAMPLE_STRIPE,
};
typedef lt_resample_axis axis;

static double cubic_pillow(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double cubic_torch(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

static lt_status take_axis(lt_arena *arena, int64_t n_in, int64_t n_out, lt_cubic cubic, axis *a)
{
    const double scale = (double)n_in / (double)n_out, stretch = scale < 1.0 ? 1.0 : scale;
    const double support = 2.0 * stretch, inverse = 1.0 / stretch;
    void *memory = NULL;
    *a = (axis){.n_in = n_in, .n_out = n_out, .taps = (int64_t)ceil(support) * 2 + 1};
    LT_TRY(lt_arena_take(arena, (size_t)n_out * sizeof *a->first, &memory));
    a->first = memory;
    LT_TRY(lt_arena_take(arena, (size_t)n_out * sizeof *a->count, &memory));
    a->count = memory;
    LT_TRY(lt_arena_take(arena, (size_t)(n_out * a->taps) * sizeof *a->weight, &memory));
    a->weight = memory;
    for (int64_t i = 0; i < n_out; i++) {
        const double center = scale * ((double)i + 0.5);
        double *w = a->weight + i * a->taps, sum = 0.0;
        const int64_t lo = lt_max_i64((int64_t)(center - support + 0.5), 0);
        const int64_t hi = lt_min_i64((int64_t)(center + support + 0.5), n_in);
        a->first[i] = lo;
        a->count[i] = lt_min_i64(hi - lo, a->taps);
        for (int64_t j = 0; j < a->count[i]; j++) {
            const double x = ((double)(j + lo) - center + 0.5) * inverse;
            w[j] = cubic == LT_CUBIC_TORCH ? cubic_torch(x) : cubic_pillow(x);
            sum += w[j];
        }
        for (int64_t j = 0; j < a->count[i] && sum != 0.0; j++)
            w[j] /= sum;
    }
    return LT_OK;
}

// The most bits with which the largest weight still fits an int16.
static int torch_bits(const axis *a)
{
    double largest = 0.0;
    for (int64_t i = 0; i < a->n_out; i++)
        for (int64_t j = 0; j < a->count[i]; j++)
            largest = fmax(largest, a->weight[i * a->taps + j]);
    int bits = 0;
    while (bits < PILLOW_BITS && (int64_t)(0.5 + largest * (double)(1 << (bits + 1))) < 32768)
        bits++;
    return bits;
}

static lt_status take_fixed(lt_arena *arena, lt_cubic cubic, axis *a)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)(a->n_out * a->taps) * sizeof *a->fixed, &memory));
    a->fixed = memory;
    a->shift = cubic == LT_CUBIC_TORCH ? torch_bits(a) : PILLOW_BITS;
    const double one = (double)(1 << a->shift);
    for (int64_t i = 0; i < a->n_out * a->taps; i++) {
        const double w = a->weight[i] * one;
        a->fixed[i] = (int32_t)(w < 0.0 ? w - 0.5 : w + 0.5);
    }
    LT_TRY(lt_arena_take(arena, (size_t)(a->n_out * (a->taps + 1)) * sizeof *a->pairs, &memory));
    a->pairs = memory;
    lt_resample_fill_pairs(a);
    return LT_OK;
}

static int32_t pair_of(int32_t first, int32_t second)
{
    return (int32_t)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16);
}

void lt_resample_fill_pairs(lt_resample_axis *a)
{
    const int32_t low = (1 << LT_RESAMPLE_LOW_BITS) - 1;
    int64_t largest = 0;
    a->split = false;
    for (int64_t i = 0; i < a->n_out; i++) {
        largest = lt_max_i64(largest, a->count[i]);
        for (int64_t j = 0; j < a->count[i]; j++)
            a->split |= a->fixed[i * a->taps + j] != (int16_t)a->fixed[i * a->taps + j];
    }
    a->n_pairs = (largest + 1) / 2;
    for (int64_t i = 0; i < a->n_out; i++) {
        for (int64_t j = 0; j < a->n_pairs; j++) {
            const int32_t *k = a->fixed + i * a->taps + 2 * j;
            const int32_t k0 = 2 * j < a->count[i] ? k[0] : 0;
            const int32_t k1 = 2 * j + 1 < a->count[i] ? k[1] : 0;
            int32_t *pair = a->pairs + (i * a->n_pairs + j) * 2;
            pair[0] = a->split ? pair_of(k0 & low, k1 & low) : pair_of(k0, k1);
            pair[1] = pair_of(k0 >> LT_RESAMPLE_LOW_BITS, k1 >> LT_RESAMPLE_LOW_BITS);
        }
    }
}

static inline uint8_t clip8(int32_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// ---------------------------------------------------------------- the passes

static void horizontal(const axis *a, const lt_resample_rows *r)
{
    for (int64_t x = 0; x < a->n_out; x++) {
        const int32_t *k = a->fixed + x * a->taps;
        const uint8_t *p = r->lanes + a->first[x] * LANES;
        int32_t sum[LANES];
        uint8_t lane[LANES];
        for (int l = 0; l < LANES; l++)
            sum[l] = lt_resample_half(a);
        for (int64_t j = 0; j < a->count[x]; j++)
            for (int l = 0; l < LANES; l++)
                sum[l] += (int32_t)p[j * LANES + l] * k[j];
        for (int l = 0; l < LANES; l++)
            lane[l] = clip8(sum[l] >> a->shift);
        lt_resample_scatter(r, lane, x);
    }
}

static void stripe(const axis *a, int64_t y, const uint8_t *px, int64_t stride, uint8_t *out)
{
    const int32_t *k = a->fixed + y * a->taps;
    const uint8_t *p = px + a->first[y] * stride;
    int32_t sum[STRIPE];
    for (int l = 0; l < STRIPE; l++)
        sum[l] = lt_resample_half(a);
    for (int64_t j = 0; j < a->count[y]; j++)
        for (int l = 0; l < STRIPE; l++)
            sum[l] += (int32_t)p[j * stride + l] * k[j];
    for (int l = 0; l < STRIPE; l++)
        out[l] = clip8(sum[l] >> a->shift);
}

const lt_resample_passes lt_resample_passes_portable = {.horizontal = horizontal, .stripe = stripe};

const lt_resample_passes *lt_resample_passes_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return &lt_resample_passes_avx2;
#endif
    return &lt_resample_passes_portable;
}

// Three channels are copied as four bytes, the next pixel's first into the spare lane, but at the
// end.
static void interleave(const uint8_t *row, int64_t n, int channels, uint8_t *lane)
{
    const int64_t whole = channels == 3 ? n - 1 : 0;
    for (int64_t x = 0; x < whole; x++)
        memcpy(lane + x * LANES, row + x * 3, 4);
    for (int64_t x = whole; x < n; x++)
        memcpy(lane + x * LANES, row + x * channels, (size_t)channels);
}

static lt_status pass_horizontal(lt_arena *arena, const axis *a, const uint8_t *px, int64_t h,
                                 int channels, uint8_t *out)
{
    const lt_resample_passes *pass = lt_resample_passes_best();
    const int pitch = channels == 3 ? 4 : channels, group = LANES / pitch;
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)((a->n_in + 2 * a->n_pairs) * LANES), &memory));
    uint8_t *lanes = memory;
    for (int64_t y = 0; y < h; y += group) {
        const int n = (int)lt_min_i64(group, h - y);
        for (int64_t r = 0; r < n; r++)
            interleave(px + (y + r) * a->n_in * channels, a->n_in, channels, lanes + r * pitch);
        const int64_t stride = a->n_out * channels;
        pass->horizontal(a,
                         &(lt_resample_rows){lanes, out + y * stride, stride, n, pitch, channels});
    }
    return LT_OK;
}

// Rows of `stride` bytes. Rows shorter than a stripe, and the last columns, go through a padded
// copy.
static lt_status pass_vertical(lt_arena *arena, const axis *a, const uint8_t *px, int64_t stride,
                               uint8_t *out)
{
    const lt_resample_passes *pass = lt_resample_passes_best();
    const int64_t whole = stride / STRIPE * STRIPE, rest = stride - whole;
    for (int64_t y = 0; y < a->n_out; y++)
        for (int64_t x = 0; x < whole; x += STRIPE)
            pass->stripe(a, y, px + x, stride, out + y * stride + x);
    if (rest == 0)
        return LT_OK;
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)(a->n_in * STRIPE), &memory));
    uint8_t *edge = memory, line[STRIPE];
    for (int64_t y = 0; y < a->n_in; y++)
        memcpy(edge + y * STRIPE, px + y * stride + whole, (size_t)rest);
    for (int64_t y = 0; y < a->n_out; y++) {
        pass->stripe(a, y, edge, STRIPE, line);
        memcpy(out + y * stride + whole, line, (size_t)rest);
    }
    return LT_OK;
}

// ---------------------------------------------------------------- both passes in their order

static bool vertical_first(lt_cubic cubic, int64_t h, int64_t w, int64_t out_h)
{
    return cubic == LT_CUBIC_PILLOW && h > w * 100 && out_h < h;
}

static lt_status resample_axes(lt_arena *arena, const uint8_t *px, int64_t h, int64_t w,
                               int channels, lt_cubic cubic, int64_t out_h, int64_t out_w,
                               uint8_t *out)
{
    axis across = {0}, down = {0};
    void *between = NULL;
    if (out_w != w) {
        LT_TRY(take_axis(arena, w, out_w, cubic, &across));
        LT_TRY(take_fixed(arena, cubic, &across));
    }
    if (out_h != h) {
        LT_TRY(take_axis(arena, h, out_h, cubic, &down));
        LT_TRY(take_fixed(arena, cubic, &down));
    }
    if (out_h == h)
        return pass_horizontal(arena, &across, px, h, channels, out);
    if (out_w == w)
        return pass_vertical(arena, &down, px, w * channels, out);
    const bool tall = vertical_first(cubic, h, w, out_h);
    LT_TRY(lt_arena_take(arena, (size_t)((tall ? out_h * w : h * out_w) * channels), &between));
    if (tall) {
        LT_TRY(pass_vertical(arena, &down, px, w * channels, between));
        return pass_horizontal(arena, &across, between, out_h, channels, out);
    }
    LT_TRY(pass_horizontal(arena, &across, px, h, channels, between));
    return pass_vertical(arena, &down, between, out_w * channels, out);
}

lt_status lt_resample_u8(const uint8_t *px, int64_t h, int64_t w, int channels, lt_cubic cubic,
                         int64_t out_h, int64_t out_w, uint8_t *out)
{
    LT_ASSERT(h > 0 && w > 0 && out_h > 0 && out_w > 0 && channels >= 1 && channels <= 4);
    if (out_h == h && out_w == w) {
        memcpy(out, px, (size_t)(h * w * channels));
        return LT_OK;
    }
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "picture resampling"));
    const lt_status st = resample_axes(arena, px, h, w, channels, cubic, out_h, out_w, out);
    lt_arena_destroy(arena);
    return st;
}

// ---------------------------------------------------------------- 16-bit grey

// Pillow stores the two bytes of the rounded sum one by one, each clipped: a sum above 65535 keeps
// its low byte (seen in 11.3; 13.0 clips the sum).
static uint16_t store16(double sum)
{
    const int32_t v = (int32_t)(sum >= 0.0 ? sum + 0.5 : sum - 0.5);
    const uint8_t low = clip8(v % 256), high = clip8(v >> 8);
    return (uint16_t)(high << 8 | low);
}

// n_lines lines; `step` apart inside a line, `line` apart between lines (of the input, of the
// output).
static void pass16(const axis *a, const uint16_t *px, int64_t step, int64_t line, uint16_t *out,
                   int64_t out_line, int64_t n_lines)
{
    for (int64_t y = 0; y < n_lines; y++) {
        for (int64_t i = 0; i < a->n_out; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < a->count[i]; j++)
                sum += (double)px[y * line + (a->first[i] + j) * step] * a->weight[i * a->taps + j];
            out[y * out_line + i * step] = store16(sum);
        }
    }
}

static lt_status resample16_axes(lt_arena *arena, const uint16_t *px, int64_t h, int64_t w,
                                 int64_t out_h, int64_t out_w, uint16_t *out)
{
    axis a = {0};
    void *memory = NULL;
    const bool tall = vertical_first(LT_CUBIC_PILLOW, h, w, out_h);
    for (int pass = 0; pass < 2; pass++) {
        const bool down = tall == (pass == 0);
        const int64_t n = down ? h : w, n_out = down ? out_h : out_w;
        if (n == n_out)
            continue;
        LT_TRY(take_axis(arena, n, n_out, LT_CUBIC_PILLOW, &a));
        LT_TRY(lt_arena_take(arena, (size_t)(down ? n_out * w : h * n_out) * sizeof *px, &memory));
        if (down) // lines are columns
            pass16(&a, px, w, 1, memory, 1, w);
        else
            pass16(&a, px, 1, w, memory, n_out, h);
        px = memory;
        *(down ? &h : &w) = n_out;
    }
    memcpy(out, px, (size_t)(h * w) * sizeof *px);
    return LT_OK;
}

lt_status lt_resample_u16(const uint16_t *px, int64_t h, int64_t w, int64_t out_h, int64_t out_w,
                          uint16_t *out)
{
    LT_ASSERT(h > 0 && w > 0 && out_h > 0 && out_w > 0);
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "picture resampling"));
    const lt_status st = resample16_axes(arena, px, h, w, out_h, out_w, out);
    lt_arena_destroy(arena);
    return st;
}

// ---------------------------------------------------------------- nearest

static void nearest_axis(int64_t n_in, int64_t n_out, int64_t *from)
{
    const double a = (double)n_in / (double)n_out;
    double at = a / 2.0;
    for (int64_t i = 0; i < n_out; i++) {
        from[i] = lt_min_i64((int64_t)at, n_in - 1);
        at += a; // accumulated, not multiplied: long lines drift as Pillow's do
    }
}

lt_status lt_resample_nearest(const uint8_t *px, int64_t h, int64_t w, int bytes, int64_t out_h,
                              int64_t out_w, uint8_t *out)
{
    LT_ASSERT(h > 0 && w > 0 && out_h > 0 && out_w > 0);
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)(out_h + out_w) * sizeof(int64_t), "picture resampling"));
    int64_t *row = memory, *col = row + out_h;
    nearest_axis(h, out_h, row);
    nearest_axis(w, out_w, col);
    for (int64_t y = 0; y < out_h; y++) {
        for (int64_t x = 0; x < out_w; x++)
            memcpy(out + (y * out_w + x) * bytes, px + (row[y] * w + col[x]) * bytes,
                   (size_t)bytes);
    }
    lt_mem_free(memory);
    return LT_OK;
}
