// SPDX-License-Identifier: Apache-2.0
// BMP: headers of OS/2 and Windows, 1 to 32 bits, colour masks, run lengths, in Pillow's modes.
#include <string.h>

#include "data/image/native.h"

enum { RAW = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3 };

typedef struct bmp {
    const uint8_t *bytes;
    size_t len;
    const char *name;
    size_t header, offset, palette_at; // bytes of the header, places of pixels and palette
    int64_t w, h;
    bool top_down;
    uint32_t bits, compression, colours, masks[4];
    size_t entry; // bytes of a palette entry
} bmp;

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}
static uint32_t le32(const uint8_t *p)
{
    return le16(p + 2) << 16 | le16(p);
}

static lt_status truncated(const bmp *b, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is truncated: its %zu bytes end inside the %s",
                   b->name, b->len, what);
}

static lt_status unsupported(const bmp *b)
{
    return LT_FAIL(LT_ERR_UNSUPPORTED,
                   "picture %s: BMP with %u bits a pixel and compression %u isn't read", b->name,
                   b->bits, b->compression);
}

lt_status lt_bmp_size(const uint8_t *head, size_t n, const char *name, int64_t *h, int64_t *w)
{
    if (n < LT_BMP_HEAD)
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is truncated: its %zu bytes end inside the BMP header", name, n);
    if (le32(head + 14) == 12) {
        *w = le16(head + 18);
        *h = le16(head + 20);
    } else {
        const uint32_t stored = le32(head + 22);
        *w = le32(head + 18);
        *h = head[25] == 0xff ? (int64_t)(0U - stored) : stored; // negative: top row first
    }
    return LT_OK;
}

static lt_status read_masks(bmp *b)
{
    size_t n = b->header >= 56 ? 4 : 3;
    if (b->compression != BITFIELDS)
        return LT_OK;
    if (b->header < 52) // they stand behind the header
        b->palette_at += 12;
    if (54 + 4 * n > b->len)
        return truncated(b, "colour masks");
    for (size_t i = 0; i < n; i++)
        b->masks[i] = le32(b->bytes + 54 + 4 * i);
    return LT_OK;
}

static lt_status read_header(bmp *b)
{
    static const uint32_t known[] = {12, 40, 52, 56, 64, 108, 124};
    bool ok = false;
    LT_TRY(lt_bmp_size(b->bytes, b->len, b->name, &b->h, &b->w));
    b->offset = le32(b->bytes + 10);
    b->header = le32(b->bytes + 14);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ok |= b->header == known[i];
    if (!ok)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "picture %s: a BMP header of %zu bytes isn't read",
                       b->name, b->header);
    if (14 + b->header > b->len)
        return truncated(b, "BMP header");
    b->palette_at = 14 + b->header;
    if (b->header == 12) {
        b->bits = le16(b->bytes + 24);
        b->entry = 3;
    } else {
        b->bits = le16(b->bytes + 28);
        b->compression = le32(b->bytes + 30);
        b->colours = le32(b->bytes + 46);
        b->top_down = b->bytes[25] == 0xff;
        b->entry = 4;
        LT_TRY(read_masks(b));
    }
    if (b->colours == 0 && b->bits <= 8)
        b->colours = 1U << b->bits;
    if (b->offset == 14 + b->header &&
        b->bits <= 8) // as Pillow: an offset that forgets the palette
        b->offset += 4 * (size_t)b->colours;
    return LT_OK;
}

// ---------------------------------------------------------------- palette

/** The palette, and whether it is a ramp of greys. */
static lt_status read_palette(const bmp *b, lt_native *out, bool *grey)
{
    const uint32_t n = b->colours < 256 ? b->colours : 256;
    if (b->colours > 65536)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s: a palette of %u colours cannot be", b->name,
                       b->colours);
    if (b->palette_at > b->len || (size_t)b->colours * b->entry > b->len - b->palette_at)
        return truncated(b, "palette");
    *grey = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = b->bytes + b->palette_at + i * b->entry;
        const uint32_t ramp = b->colours == 2 ? 255 * i : i;
        *grey = *grey && p[0] == ramp && p[1] == ramp && p[2] == ramp;
        for (int c = 0; c < 3; c++)
            out->palette[i][c] = p[2 - c];
    }
    return LT_OK;
}

// ---------------------------------------------------------------- pixels

static const uint8_t *row_of(const bmp *b, int64_t y)
{
    const size_t stride = ((size_t)b->w * b->bits + 31) / 32 * 4;
    return b->bytes + b->offset + stride * (size_t)(b->top_down ? y : b->h - 1 - y);
}

static lt_status check_rows(const bmp *b)
{
    const size_t stride = ((size_t)b->w * b->bits + 31) / 32 * 4;
    return b->offset > b->len || stride > (b->len - b->offset) / (size_t)b->h
               ? truncated(b, "pixels")
               : LT_OK;
}

static void unpack_indices(const bmp *b, lt_native *out)
{
    const uint32_t per_byte = 8 / b->bits, mask = (1U << b->bits) - 1;
    for (int64_t y = 0; y < b->h; y++) {
        const uint8_t *row = row_of(b, y);
        for (int64_t x = 0; x < b->w; x++) {
            const uint32_t shift = 8 - b->bits * ((uint32_t)(x % per_byte) + 1);
            out->px[y * b->w + x] = (uint8_t)((uint32_t)row[x / per_byte] >> shift & mask);
        }
    }
}

/** A channel of a packed pixel, spread over 0..255 as Pillow does. */
static uint8_t channel(uint32_t pixel, uint32_t mask)
{
    uint32_t shift = 0;
    while (mask && !(mask >> shift & 1))
        shift++;
    const uint32_t top = mask >> shift;
    return (uint8_t)(top ? ((pixel & mask) >> shift) * 255U / top : 0U);
}

static void unpack_colours(const bmp *b, lt_native *out)
{
    const int step = lt_native_pixel_bytes(out->mode), bytes = (int)b->bits / 8;
    for (int64_t y = 0; y < b->h; y++) {
        const uint8_t *in = row_of(b, y);
        uint8_t *px = out->px + y * b->w * step;
        for (int64_t x = 0; x < b->w; x++, in += bytes, px += step) {
            uint32_t v = 0;
            for (int i = 0; i < bytes; i++)
                v |= (uint32_t)in[i] << (8 * i);
            for (int c = 0; c < step; c++)
                px[c] = channel(v, b->masks[c]);
        }
    }
}

/** Masks of 16, 24 and 32 bits where the file gives none, or those of Pillow's list. */
static lt_status choose_masks(bmp *b, bool *alpha)
{
    static const uint32_t layouts[][5] = {
        // bits, red, green, blue, alpha
        {32, 0xff0000, 0xff00, 0xff, 0},
        {32, 0xff000000, 0xff0000, 0xff00, 0},
        {32, 0xff000000, 0xff00, 0xff, 0},
        {32, 0xff000000, 0xff0000, 0xff00, 0xff},
        {32, 0xff, 0xff00, 0xff0000, 0xff000000},
        {32, 0xff0000, 0xff00, 0xff, 0xff000000},
        {32, 0xff000000, 0xff00, 0xff, 0xff0000},
        {24, 0xff0000, 0xff00, 0xff, 0},
        {16, 0xf800, 0x7e0, 0x1f, 0},
        {16, 0x7c00, 0x3e0, 0x1f, 0},
    };
    static const uint32_t eight[4] = {0xff0000, 0xff00, 0xff, 0xff000000},
                          five[4] = {0x7c00, 0x3e0, 0x1f, 0};
    const size_t compared = b->bits == 32 ? 4 : 3;
    if (b->compression == RAW ||
        (b->bits == 32 && !(b->masks[0] | b->masks[1] | b->masks[2] | b->masks[3]))) {
        *alpha = b->compression != RAW;
        memcpy(b->masks, b->bits == 16 ? five : eight, sizeof b->masks);
        return LT_OK;
    }
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i][0] == b->bits &&
            memcmp(layouts[i] + 1, b->masks, compared * sizeof b->masks[0]) == 0) {
            *alpha = layouts[i][4] != 0;
            return LT_OK;
        }
    }
    return LT_FAIL(LT_ERR_UNSUPPORTED, "picture %s: its BMP colour masks aren't read", b->name);
}

// ---------------------------------------------------------------- run lengths

/** Where the next pixel goes, bottom row first. */
typedef struct pen {
    const bmp *b;
    uint8_t *px;
    int64_t at, x; // of h * w
} pen;

static void put(pen *p, uint8_t v)
{
    const bmp *b = p->b;
    if (p->at >= b->h * b->w)
        return;
    const int64_t y = p->at / b->w;
    p->px[(b->top_down ? y : b->h - 1 - y) * b->w + p->at % b->w] = v;
    p->at++;
}

static void encoded_run(pen *p, int n, uint8_t v, bool four)
{
    if (p->x + n > p->b->w)
        n = (int)lt_max_i64(0, p->b->w - p->x);
    for (int i = 0; i < n; i++)
        put(p, four ? (uint8_t)(i % 2 ? v & 15 : v >> 4) : v);
    p->x += n;
}

/** Pixels as they are. Returns the bytes they take, padded to an even number; 0: too few. */
static size_t literal_run(pen *p, const uint8_t *in, size_t left, int n, bool four)
{
    const size_t bytes = four ? (size_t)n / 2 : (size_t)n;
    if (bytes > left)
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        if (four)
            put(p, in[i] >> 4);
        put(p, four ? in[i] & 15 : in[i]);
    }
    p->x += n;
    return bytes + bytes % 2;
}

static void end_row(pen *p)
{
    while (p->at % p->b->w != 0)
        put(p, 0);
    p->x = 0;
}

static void skip_to(pen *p, int right, int up)
{
    for (int64_t n = right + up * p->b->w; n > 0 && p->at < p->b->h * p->b->w; n--)
        put(p, 0);
    p->x = p->at % p->b->w;
}

static lt_status unpack_runs(const bmp *b, lt_native *out)
{
    pen p = {.b = b, .px = out->px};
    const bool four = b->compression == RLE4;
    size_t at = b->offset;
    while (p.at < b->h * b->w && at + 2 <= b->len) {
        const int n = b->bytes[at], v = b->bytes[at + 1];
        at += 2;
        if (n > 0) {
            encoded_run(&p, n, (uint8_t)v, four);
        } else if (v == 0) {
            end_row(&p);
        } else if (v == 1) {
            break;
        } else if (v == 2) {
            if (at + 2 > b->len)
                break;
            skip_to(&p, b->bytes[at], b->bytes[at + 1]);
            at += 2;
        } else {
            const size_t used = literal_run(&p, b->bytes + at, b->len - at, v, four);
            if (used == 0)
                break;
            at += used;
        }
    }
    return p.at < b->h * b->w ? truncated(b, "pixels") : LT_OK;
}

// ---------------------------------------------------------------- the whole

static lt_status decode_indices(bmp *b, lt_native *out)
{
    bool grey = false;
    const bool runs = b->compression == RLE8 || b->compression == RLE4;
    if (b->bits != 1 && b->bits != 4 && b->bits != 8)
        return unsupported(b);
    if (runs ? b->bits != (b->compression == RLE8 ? 8U : 4U) : b->compression != RAW)
        return unsupported(b);
    if (!runs)
        LT_TRY(check_rows(b));
    LT_TRY(lt_native_take(out, LT_MODE_PALETTE, b->h, b->w, b->name));
    LT_TRY(read_palette(b, out, &grey));
    if (grey && b->bits == 8 && b->colours > 2)
        out->mode = LT_MODE_GREY;
    if (runs)
        return unpack_runs(b, out);
    unpack_indices(b, out);
    return LT_OK;
}

static lt_status decode(bmp *b, lt_native *out)
{
    bool alpha = false;
    LT_TRY(read_header(b));
    if (b->w < 1 || b->h < 1 || b->w > INT32_MAX || b->h > INT32_MAX)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s has an impossible size: %lld x %lld", b->name,
                       (long long)b->w, (long long)b->h);
    if (b->bits <= 8)
        return decode_indices(b, out);
    if ((b->bits != 16 && b->bits != 24 && b->bits != 32) ||
        (b->compression != RAW && b->compression != BITFIELDS))
        return unsupported(b);
    LT_TRY(check_rows(b));
    LT_TRY(choose_masks(b, &alpha));
    LT_TRY(lt_native_take(out, alpha ? LT_MODE_RGBA : LT_MODE_RGB, b->h, b->w, b->name));
    unpack_colours(b, out);
    return LT_OK;
}

lt_status lt_bmp_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    bmp b = {.bytes = bytes, .len = len, .name = name};
    return decode(&b, out);
}
