// SPDX-License-Identifier: Apache-2.0
// GIF: its first picture on its screen, as Pillow shows it.
#include <string.h>

#include "data/image/native.h"

enum {
    MAX_BLOCKS = 1 << 16, // before the first picture
    TABLE = 4096,         // LZW codes
};

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}

// ---------------------------------------------------------------- the blocks before the picture

/** Where the walk is. */
typedef struct walk {
    lt_fetch_fn fetch;
    void *ctx;
    const char *name;
    size_t at;
    lt_gif_frame *out;
} walk;

/** The next n bytes. */
static lt_status take(walk *w, size_t n, uint8_t *out)
{
    bool ok;
    LT_TRY(w->fetch(w->ctx, w->at, n, out, &ok));
    if (!ok)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s is truncated: no whole GIF picture is in it",
                       w->name);
    w->at += n;
    return LT_OK;
}

static void take_palette(walk *w, uint8_t flags, lt_gif_palette *p)
{
    if (!(flags & 0x80))
        return;
    p->at = w->at;
    p->n = 2 << (flags & 7);
    w->at += 3 * (size_t)p->n;
}

/** An extension: the graphic control block says which index is transparent. */
static lt_status take_extension(walk *w)
{
    uint8_t head[2], block[4];
    LT_TRY(take(w, 2, head));
    if (head[0] == 0xf9 && head[1] >= 4) {
        LT_TRY(take(w, 4, block));
        w->at -= 4;
        if (block[0] & 1)
            w->out->transparent = block[3];
    }
    w->at += head[1];
    for (int i = 0; head[1] > 0 && i < MAX_BLOCKS; i++) {
        LT_TRY(take(w, 1, block));
        if (block[0] == 0)
            return LT_OK;
        w->at += block[0];
    }
    return head[1] == 0 ? LT_OK
                        : LT_FAIL(LT_ERR_FORMAT,
                                  "picture %s is no valid GIF: an extension has no end", w->name);
}

static lt_status take_frame(walk *w)
{
    uint8_t d[9], bits;
    lt_gif_frame *f = w->out;
    LT_TRY(take(w, sizeof d, d));
    f->x = le16(d);
    f->y = le16(d + 2);
    f->frame_w = le16(d + 4);
    f->frame_h = le16(d + 6);
    f->interlaced = d[8] & 0x40;
    take_palette(w, d[8], &f->own);
    LT_TRY(take(w, 1, &bits));
    f->bits = bits;
    f->data_at = w->at;
    f->w = lt_max_i64(f->w, f->x + f->frame_w); // Pillow lets the screen grow
    f->h = lt_max_i64(f->h, f->y + f->frame_h);
    return LT_OK;
}

lt_status lt_gif_find_frame(lt_fetch_fn fetch, void *ctx, const char *name, lt_gif_frame *out)
{
    uint8_t screen[13], kind;
    *out = (lt_gif_frame){.transparent = -1};
    walk w = {.fetch = fetch, .ctx = ctx, .name = name, .out = out};
    LT_TRY(take(&w, sizeof screen, screen));
    out->w = le16(screen + 6);
    out->h = le16(screen + 8);
    take_palette(&w, screen[10], &out->global);
    for (int i = 0; i < MAX_BLOCKS; i++) {
        LT_TRY(take(&w, 1, &kind));
        if (kind == ',')
            return take_frame(&w);
        if (kind == ';')
            break;
        if (kind == '!')
            LT_TRY(take_extension(&w));
    }
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid GIF: there is no picture in it", name);
}

// ---------------------------------------------------------------- LZW

typedef struct lzw {
    const uint8_t *at, *end; // bytes of the data blocks
    size_t block;            // bytes left in the present one
    uint32_t held;           // bits read and not used
    int n_held;
    uint16_t prefix[TABLE];
    uint8_t suffix[TABLE], stack[TABLE];
} lzw;

/** The next code of `size` bits; -1 at the end of the data. */
static int next_code(lzw *z, int size)
{
    while (z->n_held < size) {
        if (z->block == 0) {
            if (z->at >= z->end || *z->at == 0)
                return -1;
            z->block = *z->at++;
        }
        if (z->at >= z->end)
            return -1;
        z->held |= (uint32_t)*z->at++ << z->n_held;
        z->block--;
        z->n_held += 8;
    }
    const int code = (int)(z->held & ((1U << size) - 1));
    z->held >>= size;
    z->n_held -= size;
    return code;
}

/** Rows of the frame in the order in which they come. */
typedef struct canvas {
    const lt_gif_frame *f;
    uint8_t *px; // of the screen
    int64_t x, y, left;
    int pass;
} canvas;

static void next_row(canvas *c)
{
    static const int start[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    c->x = 0;
    c->left--;
    if (!c->f->interlaced) {
        c->y++;
        return;
    }
    c->y += step[c->pass];
    while (c->left > 0 && c->y >= c->f->frame_h)
        c->y = start[++c->pass];
}

static void put(canvas *c, uint8_t v)
{
    if (c->left <= 0)
        return;
    c->px[(c->f->y + c->y) * c->f->w + c->f->x + c->x] = v;
    if (++c->x == c->f->frame_w)
        next_row(c);
}

/** Write what a code stands for, last byte first on the stack. Returns its first byte. */
static uint8_t expand(lzw *z, int code, int clear, canvas *c)
{
    int n = 0;
    while (code >= clear && n < TABLE - 1) {
        z->stack[n++] = z->suffix[code];
        code = z->prefix[code];
    }
    z->stack[n++] = (uint8_t)code;
    for (int i = n - 1; i >= 0; i--)
        put(c, z->stack[i]);
    return (uint8_t)code;
}

static uint8_t first_byte(const lzw *z, int code, int clear)
{
    while (code >= clear)
        code = z->prefix[code];
    return (uint8_t)code;
}

static bool unpack(lzw *z, int bits, canvas *c)
{
    const int clear = 1 << bits;
    int size = bits + 1, next = clear + 2, last = -1;
    while (c->left > 0) {
        const int code = next_code(z, size);
        if (code < 0 || code == clear + 1)
            return false;
        if (code == clear) {
            size = bits + 1;
            next = clear + 2;
            last = -1;
            continue;
        }
        if (code >= next + (last >= 0) || (last < 0 && code >= clear))
            return false;
        if (last >= 0 && next < TABLE) {
            z->prefix[next] = (uint16_t)last;
            z->suffix[next] = first_byte(z, code == next ? last : code, clear);
            next++;
        } else if (code >= next) {
            return false;
        }
        (void)expand(z, code, clear, c);
        last = code;
        if (next == 1 << size && size < 12)
            size++;
    }
    return true;
}

// ---------------------------------------------------------------- the whole

typedef struct bytes_source {
    const uint8_t *bytes;
    size_t len;
} bytes_source;

static lt_status fetch_bytes(void *ctx, size_t at, size_t n, uint8_t *out, bool *ok)
{
    const bytes_source *s = ctx;
    *ok = at <= s->len && n <= s->len - at;
    if (*ok)
        memcpy(out, s->bytes + at, n);
    return LT_OK;
}

/** A palette that is no ramp of greys from 0 on; Pillow does without one that is. */
static bool has_colours(const uint8_t *bytes, size_t len, const lt_gif_palette *p)
{
    if (p->n == 0 || p->at > len || 3 * (size_t)p->n > len - p->at)
        return false;
    for (int i = 0; i < 3 * p->n; i++)
        if (bytes[p->at + (size_t)i] != i / 3)
            return true;
    return false;
}

static lt_status decode(const bytes_source *s, const char *name, const lt_gif_frame *f, lzw *z,
                        lt_native *out)
{
    const lt_gif_palette *p = has_colours(s->bytes, s->len, &f->own)      ? &f->own
                              : has_colours(s->bytes, s->len, &f->global) ? &f->global
                                                                          : NULL;
    if (f->bits < 1 || f->bits > 8 || f->frame_w < 1 || f->frame_h < 1 || f->data_at > s->len)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid GIF: %d bits, %lld x %lld pixels",
                       name, f->bits, (long long)f->frame_w, (long long)f->frame_h);
    if (f->frame_w * f->frame_h / LT_IMAGE_MAX_LZW_RATIO > (int64_t)s->len) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is truncated: %zu bytes cannot hold %lld x %lld pixels", name,
                       s->len, (long long)f->frame_w, (long long)f->frame_h);
    }
    LT_TRY(lt_native_take(out, p ? LT_MODE_PALETTE : LT_MODE_GREY, f->h, f->w, name));
    if (p)
        memcpy(out->palette, s->bytes + p->at, 3 * (size_t)p->n);
    if (f->transparent >= 0)
        memset(out->px, f->transparent, (size_t)(f->w * f->h));
    canvas c = {.f = f, .px = out->px, .left = f->frame_h};
    *z = (lzw){.at = s->bytes + f->data_at, .end = s->bytes + s->len};
    if (!unpack(z, f->bits, &c)) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is truncated or broken: its data end %lld rows before its last",
                       name, (long long)c.left);
    }
    return LT_OK;
}

lt_status lt_gif_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    bytes_source s = {bytes, len};
    lt_gif_frame f;
    void *memory = NULL;
    LT_TRY(lt_gif_find_frame(fetch_bytes, &s, name, &f));
    LT_TRY(lt_mem_alloc(&memory, sizeof(lzw), "GIF decoder"));
    const lt_status st = decode(&s, name, &f, memory, out);
    lt_mem_free(memory);
    return st;
}
