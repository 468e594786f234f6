// SPDX-License-Identifier: Apache-2.0
// Decoded pictures in Pillow's modes: memory, resizing in the mode, conversion to RGB.
#include "data/image/native.h"

#include <string.h>

#include "data/image/resample.h"

/** What resizing and conversion need to know of a mode. */
typedef struct mode_row {
    int pixel_bytes;
    int n_colours; // channels before alpha
    bool alpha;
    bool nearest_only;
} mode_row;

static const mode_row modes[LT_N_MODES] = {
    [LT_MODE_GREY] = {.pixel_bytes = 1, .n_colours = 1},
    [LT_MODE_BILEVEL] = {.pixel_bytes = 1, .n_colours = 1, .nearest_only = true},
    [LT_MODE_GREY_ALPHA] = {.pixel_bytes = 2, .n_colours = 1, .alpha = true},
    [LT_MODE_RGB] = {.pixel_bytes = 3, .n_colours = 3},
    [LT_MODE_RGBA] = {.pixel_bytes = 4, .n_colours = 3, .alpha = true},
    [LT_MODE_PALETTE] = {.pixel_bytes = 1, .nearest_only = true},
    [LT_MODE_CMYK] = {.pixel_bytes = 4, .n_colours = 4},
    [LT_MODE_GREY16] = {.pixel_bytes = 2, .n_colours = 1},
};

int lt_native_pixel_bytes(lt_image_mode mode)
{
    return modes[mode].pixel_bytes;
}

static lt_status take_pixels(int64_t h, int64_t w, int pixel_bytes, const char *name, uint8_t **px)
{
    void *memory = NULL;
    int64_t n = 0;
    if (h < 1 || w < 1 || !lt_mul_i64(h, w, &n) || n > LT_IMAGE_MAX_PIXELS) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s: %lld x %lld pixels are out of range, 1 to %d are the rule",
                       name, (long long)w, (long long)h, LT_IMAGE_MAX_PIXELS);
    }
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (size_t)pixel_bytes, "picture"));
    *px = memory;
    return LT_OK;
}

lt_status lt_native_take(lt_native *n, lt_image_mode mode, int64_t h, int64_t w, const char *name)
{
    n->mode = mode;
    n->h = h;
    n->w = w;
    return take_pixels(h, w, modes[mode].pixel_bytes, name, &n->px);
}

void lt_native_deinit(lt_native *n)
{
    lt_mem_free(n->px);
    n->px = NULL;
}

void lt_image_deinit(lt_image *image)
{
    lt_mem_free(image->px);
    *image = (lt_image){0};
}

static inline uint8_t muldiv255(unsigned a, unsigned b)
{
    const unsigned t = a * b + 128;
    return (uint8_t)(((t >> 8) + t) >> 8);
}

static void premultiply(uint8_t *px, int64_t n, int n_colours)
{
    for (int64_t i = 0; i < n; i++, px += n_colours + 1)
        for (int c = 0; c < n_colours; c++)
            px[c] = muldiv255(px[c], px[n_colours]);
}

static void unpremultiply(uint8_t *px, int64_t n, int n_colours)
{
    for (int64_t i = 0; i < n; i++, px += n_colours + 1) {
        const unsigned a = px[n_colours];
        if (a == 0 || a == 255)
            continue;
        for (int c = 0; c < n_colours; c++) {
            const unsigned v = 255U * px[c] / a;
            px[c] = (uint8_t)(v > 255 ? 255 : v);
        }
    }
}

static lt_status resize_pixels(const lt_native *n, int64_t h, int64_t w, bool nearest, uint8_t *out)
{
    const mode_row *m = &modes[n->mode];
    if (nearest)
        return lt_resample_nearest(n->px, n->h, n->w, m->pixel_bytes, h, w, out);
    if (n->mode == LT_MODE_GREY16) // lt_mem_alloc's alignment makes the casts sound
        return lt_resample_u16((const uint16_t *)(const void *)n->px, n->h, n->w, h, w,
                               (uint16_t *)(void *)out);
    if (m->alpha)
        premultiply(n->px, n->h * n->w, m->n_colours);
    LT_TRY(lt_resample_u8(n->px, n->h, n->w, m->pixel_bytes, LT_CUBIC_PILLOW, h, w, out));
    if (m->alpha)
        unpremultiply(out, h * w, m->n_colours);
    return LT_OK;
}

lt_status lt_native_resize(lt_native *n, int64_t h, int64_t w, lt_image_filter filter,
                           const char *name)
{
    if (h == n->h && w == n->w)
        return LT_OK; // a copy, alpha untouched
    uint8_t *px = NULL;
    LT_TRY(take_pixels(h, w, modes[n->mode].pixel_bytes, name, &px));
    const lt_status st =
        resize_pixels(n, h, w, filter == LT_IMAGE_NEAREST || modes[n->mode].nearest_only, px);
    if (st != LT_OK) {
        lt_mem_free(px);
        return st;
    }
    lt_mem_free(n->px);
    n->px = px;
    n->h = h;
    n->w = w;
    return LT_OK;
}

// ---------------------------------------------------------------- to RGB

static void cmyk_to_rgb(const uint8_t *in, uint8_t *out)
{
    const int room = 255 - in[3];
    for (int c = 0; c < 3; c++) {
        const int v = room - muldiv255(in[c], (unsigned)room);
        out[c] = (uint8_t)(v < 0 ? 0 : v);
    }
}

static void pixel_to_rgb(const lt_native *n, const uint8_t *in, uint8_t *out)
{
    uint16_t wide;
    switch (n->mode) {
    case LT_MODE_GREY:
    case LT_MODE_BILEVEL:
    case LT_MODE_GREY_ALPHA:
        out[0] = out[1] = out[2] = in[0];
        return;
    case LT_MODE_RGB:
    case LT_MODE_RGBA: // the colour stays where alpha is 0
        memcpy(out, in, 3);
        return;
    case LT_MODE_PALETTE: // transparency of entries is ignored
        memcpy(out, n->palette[in[0]], 3);
        return;
    case LT_MODE_CMYK:
        cmyk_to_rgb(in, out);
        return;
    case LT_MODE_GREY16: // clipped, not scaled: almost all is white
        memcpy(&wide, in, sizeof wide);
        out[0] = out[1] = out[2] = (uint8_t)(wide > 255 ? 255 : wide);
        return;
    case LT_N_MODES:
        break;
    }
    LT_ASSERT(n->mode < LT_N_MODES);
}

lt_status lt_native_to_rgb(lt_native *n, lt_image *out)
{
    lt_image rgb = {.h = n->h, .w = n->w};
    if (n->mode == LT_MODE_RGB) {
        rgb.px = n->px;
        n->px = NULL;
    } else {
        LT_TRY(take_pixels(n->h, n->w, 3, "(converted)", &rgb.px));
        const int step = modes[n->mode].pixel_bytes;
        for (int64_t i = 0; i < n->h * n->w; i++)
            pixel_to_rgb(n, n->px + i * step, rgb.px + 3 * i);
    }
    *out = rgb;
    return LT_OK;
}
