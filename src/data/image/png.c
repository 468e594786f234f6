// SPDX-License-Identifier: Apache-2.0
// PNG through libpng, without gamma, transparency or palette expansion: the samples as Pillow holds
// them.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "data/image/native.h"

typedef struct decoder {
    png_structp png;
    png_infop info;
    const uint8_t *at;
    size_t left;
    char message[200];
    lt_image_mode mode;
    int depth; // of grey samples, before unpacking
    uint32_t h, w;
    int passes;
} decoder;

static void on_error(png_structp png, png_const_charp text)
{
    decoder *d = png_get_error_ptr(png);
    (void)snprintf(d->message, sizeof d->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    decoder *d = png_get_io_ptr(png);
    if (n > d->left) {
        d->left = 0;
        png_error(png, "the file is truncated");
    }
    memcpy(out, d->at, n);
    d->at += n;
    d->left -= n;
}

/**
 * Transformations: whole bytes a sample, high byte of 16 bits except for plain grey; nothing else.
 */
static void set_transforms(decoder *d)
{
    const int colour = png_get_color_type(d->png, d->info);
    d->depth = png_get_bit_depth(d->png, d->info);
    switch (colour) {
    case PNG_COLOR_TYPE_GRAY:
        d->mode = d->depth == 16 ? LT_MODE_GREY16 : d->depth == 1 ? LT_MODE_BILEVEL : LT_MODE_GREY;
        break;
    case PNG_COLOR_TYPE_PALETTE:
        d->mode = LT_MODE_PALETTE;
        break;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        d->mode = LT_MODE_GREY_ALPHA;
        break;
    case PNG_COLOR_TYPE_RGB_ALPHA:
        d->mode = LT_MODE_RGBA;
        break;
    default:
        d->mode = LT_MODE_RGB;
    }
    if (d->depth < 8)
        png_set_packing(d->png);
    if (d->depth == 16 && d->mode != LT_MODE_GREY16)
        png_set_strip_16(d->png);
}

static void read_palette(decoder *d, lt_native *out)
{
    png_colorp palette = NULL;
    int n = 0;
    (void)png_get_PLTE(d->png, d->info, &palette, &n);
    for (int i = 0; i < n && i < 256; i++) { // entries that aren't given stay black
        out->palette[i][0] = palette[i].red;
        out->palette[i][1] = palette[i].green;
        out->palette[i][2] = palette[i].blue;
    }
}

static lt_status check_ratio(const decoder *d, const char *name, size_t len)
{
    const uint64_t bits =
        (uint64_t)png_get_channels(d->png, d->info) * (uint64_t)png_get_bit_depth(d->png, d->info);
    const uint64_t bytes = (bits * d->w + 7) / 8 * d->h;
    if (bytes / LT_IMAGE_MAX_DEFLATE_RATIO > len) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is truncated: %zu bytes cannot hold %u x %u pixels", name, len,
                       d->w, d->h);
    }
    return LT_OK;
}

static lt_status read_header(decoder *d, const uint8_t *bytes, size_t len, const char *name,
                             lt_native *out)
{
    d->at = bytes;
    d->left = len;
    png_set_read_fn(d->png, d, on_read);
    png_set_user_limits(d->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL,
                                -1); // no text, no colour profiles
    png_set_crc_action(d->png, PNG_CRC_DEFAULT, PNG_CRC_QUIET_USE);
    png_set_option(d->png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
    png_set_benign_errors(d->png, 1);
    png_set_check_for_invalid_index(d->png, 0);
    png_read_info(d->png, d->info);
    d->h = png_get_image_height(d->png, d->info);
    d->w = png_get_image_width(d->png, d->info);
    LT_TRY(check_ratio(d, name, len));
    set_transforms(d);
    d->passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    LT_TRY(lt_native_take(out, d->mode, d->h, d->w, name));
    LT_ASSERT(png_get_rowbytes(d->png, d->info) ==
              (size_t)d->w * (size_t)lt_native_pixel_bytes(d->mode));
    if (d->mode == LT_MODE_PALETTE)
        read_palette(d, out);
    return LT_OK;
}

// Samples of 1, 2 and 4 bits spread over 0..255; 16-bit ones come big-endian.
static void widen(const decoder *d, lt_native *out)
{
    const size_t n = (size_t)out->h * (size_t)out->w;
    if (out->mode == LT_MODE_GREY16) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t v = (uint16_t)(out->px[2 * i] << 8 | out->px[2 * i + 1]);
            memcpy(out->px + 2 * i, &v, sizeof v);
        }
    } else if ((out->mode == LT_MODE_GREY || out->mode == LT_MODE_BILEVEL) && d->depth < 8) {
        const int unit = 255 / ((1 << d->depth) - 1);
        for (size_t i = 0; i < n; i++)
            out->px[i] = (uint8_t)(out->px[i] * unit);
    }
}

static lt_status guarded(decoder *d, const uint8_t *bytes, size_t len, const char *name,
                         lt_native *out)
{
    if (setjmp(png_jmpbuf(d->png)) != 0) // NOLINT(cert-err52-cpp): libpng knows no other way out
        return LT_FAIL(LT_ERR_FORMAT, "picture %s cannot be decoded: %s", name, d->message);
    LT_TRY(read_header(d, bytes, len, name, out));
    const size_t stride = png_get_rowbytes(d->png, d->info);
    for (int pass = 0; pass < d->passes; pass++)
        for (uint32_t y = 0; y < d->h; y++)
            png_read_row(d->png, out->px + (size_t)y * stride, NULL);
    widen(d, out);
    return LT_OK;
}

lt_status lt_png_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    decoder d = {0};
    d.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning);
    if (d.png == NULL)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: PNG decoder");
    d.info = png_create_info_struct(d.png);
    const lt_status st = d.info == NULL ? LT_FAIL(LT_ERR_MEMORY, "out of memory: PNG decoder")
                                        : guarded(&d, bytes, len, name, out);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    return st;
}
