// SPDX-License-Identifier: Apache-2.0
// A decoded picture in the mode that Pillow would give it, before conversion to RGB. Internal to
// image/.
#ifndef LT_DATA_IMAGE_NATIVE_H
#define LT_DATA_IMAGE_NATIVE_H

#include "base/memory.h"
#include "data/image/image.h"

/** Limits on what a stranger's file may ask for. */
enum {
    LT_IMAGE_MAX_PIXELS = 178956970,       // Pillow's decompression-bomb limit
    LT_IMAGE_MAX_BYTES = 1 << 30,          // of a file
    LT_IMAGE_MAX_SEGMENTS = 10000,         // JPEG segments before the frame header
    LT_IMAGE_MAX_GARBAGE = 1 << 16,        // bytes between JPEG segments
    LT_IMAGE_MAX_SCANS = 1000,             // of a progressive JPEG
    LT_IMAGE_MAX_DEFLATE_RATIO = 1032 + 8, // bytes that one compressed byte can stand for
    LT_IMAGE_MAX_LZW_RATIO = 4 * 4096,     // pixels of a GIF that one byte can stand for
    LT_IMAGE_MAX_BLOCK_PIXELS =
        2048, // pixels that one byte of Huffman-coded JPEG can stand for: a bit a block of 256
};

typedef enum lt_image_mode {
    LT_MODE_GREY,
    LT_MODE_BILEVEL, // bytes 0 and 255, but always resized by nearest
    LT_MODE_GREY_ALPHA,
    LT_MODE_RGB,
    LT_MODE_RGBA,
    LT_MODE_PALETTE,
    LT_MODE_CMYK, // inverted, as Pillow holds it: 255 is full ink
    LT_MODE_GREY16,
    LT_N_MODES
} lt_image_mode;

/** px [h, w, bytes per pixel of the mode]; LT_MODE_GREY16 holds uint16. */
typedef struct lt_native {
    lt_image_mode mode;
    int64_t h, w;
    uint8_t *px;
    uint8_t palette[256][3];
} lt_native;

/** Bytes of a pixel. */
int lt_native_pixel_bytes(lt_image_mode mode);
/** Zeroed pixels of that size. errors: LT_ERR_FORMAT above the pixel limit, LT_ERR_MEMORY */
LT_NODISCARD lt_status lt_native_take(lt_native *n, lt_image_mode mode, int64_t h, int64_t w,
                                      const char *name);
void lt_native_deinit(lt_native *n);

/**
 * One decoder a file. *out was {0}; on failure its pixels may be set: deinit it. Sizes were checked
 * by the probe.
 */
LT_NODISCARD lt_status lt_jpeg_decode(const uint8_t *bytes, size_t len, const char *name,
                                      lt_native *out);
LT_NODISCARD lt_status lt_png_decode(const uint8_t *bytes, size_t len, const char *name,
                                     lt_native *out);

LT_NODISCARD lt_status lt_webp_decode(const uint8_t *bytes, size_t len, const char *name,
                                      lt_native *out);
LT_NODISCARD lt_status lt_gif_decode(const uint8_t *bytes, size_t len, const char *name,
                                     lt_native *out);
LT_NODISCARD lt_status lt_bmp_decode(const uint8_t *bytes, size_t len, const char *name,
                                     lt_native *out);

/** By the format that the probe finds. errors: of both; sizes that differ */
LT_NODISCARD lt_status lt_native_decode(const uint8_t *bytes, size_t len, const char *name,
                                        lt_native *out);

/** n <= 64 bytes at `at` of a file; *ok is false when it ends before. */
typedef lt_status (*lt_fetch_fn)(void *ctx, size_t at, size_t n, uint8_t *out, bool *ok);

/** n colours at `at`; n = 0: there is none. */
typedef struct lt_gif_palette {
    size_t at;
    int n;
} lt_gif_palette;
/** A GIF's first picture: the screen h x w with it, its place there, its data. */
typedef struct lt_gif_frame {
    int64_t h, w, x, y, frame_h, frame_w;
    lt_gif_palette global, own;
    int transparent; // index, or -1
    bool interlaced;
    int bits; // of a literal code
    size_t data_at;
} lt_gif_frame;
/** errors: LT_ERR_FORMAT, what `fetch` says */
LT_NODISCARD lt_status lt_gif_find_frame(lt_fetch_fn fetch, void *ctx, const char *name,
                                         lt_gif_frame *out);

/** Size from the first LT_BMP_HEAD bytes of a BMP. errors: LT_ERR_FORMAT when there are fewer */
enum { LT_BMP_HEAD = 30 };
LT_NODISCARD lt_status lt_bmp_size(const uint8_t *head, size_t n, const char *name, int64_t *h,
                                   int64_t *w);

/**
 * Resize in the native mode: nearest where asked for or where the mode knows nothing else, alpha
 * premultiplied.
 */
LT_NODISCARD lt_status lt_native_resize(lt_native *n, int64_t h, int64_t w, lt_image_filter filter,
                                        const char *name);
/** Pillow's convert("RGB"). Takes n's pixels when they are RGB already. */
LT_NODISCARD lt_status lt_native_to_rgb(lt_native *n, lt_image *out);
#endif
