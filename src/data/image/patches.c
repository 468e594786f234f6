// SPDX-License-Identifier: Apache-2.0
// From pixels to patch rows: the processor's resize, normalisation by table, block-major order.
#include <string.h>

#include "data/image/native.h"
#include "data/image/resample.h"

lt_status lt_image_resize(const lt_image_processor *p, const lt_image *in, int64_t h, int64_t w,
                          lt_image *out)
{
    void *px = NULL;
    int64_t n = 0;
    if (h < 1 || w < 1 || !lt_mul_i64(h, w, &n) || n > LT_IMAGE_MAX_PIXELS) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "cannot resize a picture to %lld x %lld: 1 to %d pixels are the rule",
                       (long long)w, (long long)h, LT_IMAGE_MAX_PIXELS);
    }
    LT_TRY(lt_mem_alloc(&px, (size_t)n * 3, "resized picture"));
    const lt_cubic cubic = p->resampler == LT_RESAMPLE_PILLOW ? LT_CUBIC_PILLOW : LT_CUBIC_TORCH;
    const lt_status st = lt_resample_u8(in->px, in->h, in->w, 3, cubic, h, w, px);
    if (st != LT_OK) {
        lt_mem_free(px);
        return st;
    }
    lt_image_deinit(out);
    *out = (lt_image){.px = px, .h = h, .w = w};
    return LT_OK;
}

/** What a byte of each channel becomes. */
typedef struct table {
    float f32[3][256];
    uint16_t bf16[3][256];
} table;

/**
 * source   torchvision's fused form: (v - mean*255) / (std*255) in float32; Pillow's: float32(v/255
 *          in double), then float32
 */
static void fill_table(const lt_image_processor *p, table *t)
{
    for (int c = 0; c < 3; c++) {
        const float mean = (float)p->mean[c], std = (float)p->std[c];
        const float mean255 = mean * 255.0F, std255 = std * 255.0F;
        for (int v = 0; v < 256; v++) {
            float f;
            if (p->resampler == LT_RESAMPLE_PILLOW)
                f = ((float)((double)v * (1.0 / 255.0)) - mean) / std;
            else
                f = ((float)v - mean255) / std255;
            t->f32[c][v] = f;
            t->bf16[c][v] = lt_f32_to_bf16(f);
        }
    }
}

/** One channel of n neighbouring pixels. */
typedef void (*line_fn)(const table *t, int c, const uint8_t *px, int64_t n, void *out);

static void line_u8(const table *t, int c, const uint8_t *px, int64_t n, void *out)
{
    uint8_t *o = out;
    (void)t;
    for (int64_t x = 0; x < n; x++)
        o[x] = px[3 * x + c];
}

static void line_f32(const table *t, int c, const uint8_t *px, int64_t n, void *out)
{
    float *o = out;
    const float *of = t->f32[c];
    for (int64_t x = 0; x < n; x++)
        o[x] = of[px[3 * x + c]];
}

static void line_bf16(const table *t, int c, const uint8_t *px, int64_t n, void *out)
{
    uint16_t *o = out;
    const uint16_t *of = t->bf16[c];
    for (int64_t x = 0; x < n; x++)
        o[x] = of[px[3 * x + c]];
}

static line_fn line_of(lt_dtype dtype)
{
    return dtype == LT_U8     ? line_u8
           : dtype == LT_F32  ? line_f32
           : dtype == LT_BF16 ? line_bf16
                              : NULL;
}

/** One row: channels, then time, then y, then x. A still picture is the same frame again. */
static void fill_patch(const lt_image_processor *p, const table *t, line_fn line, size_t elem,
                       const lt_image *frames, bool still, int64_t offset, uint8_t *out)
{
    const size_t line_bytes = (size_t)p->patch * elem, frame = line_bytes * (size_t)p->patch;
    const int64_t stride = frames[0].w * 3;
    for (int c = 0; c < 3; c++) {
        for (int64_t k = 0; k < (still ? 1 : p->temporal); k++) {
            for (int64_t y = 0; y < p->patch; y++)
                line(t, c, frames[k].px + offset + y * stride, p->patch,
                     out + (size_t)k * frame + (size_t)y * line_bytes);
        }
        for (int64_t k = 1; k < p->temporal && still; k++)
            memcpy(out + (size_t)k * frame, out, frame);
        out += frame * (size_t)p->temporal;
    }
}

static lt_status make_patches(const lt_image_processor *p, const lt_image *resized, bool still,
                              lt_dtype dtype, void *rows)
{
    const int64_t block = p->patch * p->merge, stride = resized->w * 3;
    const line_fn line = line_of(dtype);
    table t;
    uint8_t *out = rows;
    if (line == NULL)
        return LT_FAIL(LT_ERR_DTYPE, "patch rows are made as u8, f32 or bf16, not as %s",
                       lt_dtype_name(dtype));
    if (resized->h < 1 || resized->w < 1 || resized->h % block != 0 || resized->w % block != 0) {
        return LT_FAIL(
            LT_ERR_SHAPE,
            "patches need sides that are multiples of %lld, got a picture of %lld x %lld",
            (long long)block, (long long)resized->w, (long long)resized->h);
    }
    fill_table(p, &t);
    const size_t elem = lt_dtype_bytes(dtype), row_bytes = elem * (size_t)lt_image_row_width(p);
    for (int64_t by = 0; by < resized->h; by += block) {
        for (int64_t bx = 0; bx < resized->w; bx += block) {
            for (int64_t i = 0; i < p->merge * p->merge; i++) {
                const int64_t y = by + i / p->merge * p->patch, x = bx + i % p->merge * p->patch;
                fill_patch(p, &t, line, elem, resized, still, y * stride + x * 3, out);
                out += row_bytes;
            }
        }
    }
    return LT_OK;
}

lt_status lt_image_patches(const lt_image_processor *p, const lt_image *resized, lt_dtype dtype,
                           void *rows)
{
    return make_patches(p, resized, true, dtype, rows);
}

lt_status lt_clip_patches(const lt_image_processor *p, const lt_image *frames, lt_dtype dtype,
                          void *rows)
{
    for (int64_t k = 1; k < p->temporal; k++)
        if (frames[k].h != frames[0].h || frames[k].w != frames[0].w)
            return LT_FAIL(LT_ERR_SHAPE, "frames of a slice need one size");
    return make_patches(p, frames, false, dtype, rows);
}

lt_status lt_image_rows(const lt_image_processor *p, const lt_image *regularised, lt_dtype dtype,
                        void *rows)
{
    int64_t h = 0, w = 0;
    lt_image resized = {0};
    LT_TRY(lt_smart_resize(p, regularised->h, regularised->w, &h, &w));
    if (h == regularised->h && w == regularised->w)
        return lt_image_patches(p, regularised, dtype, rows);
    lt_status st = lt_image_resize(p, regularised, h, w, &resized);
    if (st == LT_OK)
        st = lt_image_patches(p, &resized, dtype, rows);
    lt_image_deinit(&resized);
    return st;
}
