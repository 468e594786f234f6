// SPDX-License-Identifier: Apache-2.0
// Format and size of a picture from its first bytes, read in small pieces.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/image/native.h"

/** Bytes from memory, or through a small window from a file. */
typedef struct source {
    const char *name;
    const uint8_t *mem; // NULL: read from fd
    int fd;
    size_t len;
    uint8_t window[4096];
    size_t window_at, window_len;
} source;

const char *lt_image_format_name(lt_image_format format)
{
    static const char *const names[] = {
#define LT_IMAGE_NAME(name, text) text,
        LT_IMAGE_FORMAT_LIST(LT_IMAGE_NAME)
#undef LT_IMAGE_NAME
    };
    return names[format];
}

static lt_status read_window(source *s, size_t at)
{
    ssize_t n;
    do
        n = pread(s->fd, s->window, sizeof s->window, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return LT_FAIL(LT_ERR_IO, "cannot read picture %s: %s", s->name, lt_errno_text(errno));
    s->window_at = at;
    s->window_len = (size_t)n;
    return LT_OK;
}

/** An lt_fetch_fn. */
static lt_status fetch(void *ctx, size_t at, size_t n, uint8_t *out, bool *ok)
{
    source *s = ctx;
    *ok = at <= s->len && n <= s->len - at;
    if (!*ok)
        return LT_OK;
    if (s->mem != NULL) {
        memcpy(out, s->mem + at, n);
        return LT_OK;
    }
    if (at < s->window_at || at + n > s->window_at + s->window_len)
        LT_TRY(read_window(s, at));
    *ok = n <= s->window_len - (at - s->window_at); // the file may have shrunk since
    if (*ok)
        memcpy(out, s->window + (at - s->window_at), n);
    return LT_OK;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static uint32_t be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

// ---------------------------------------------------------------- magic

typedef struct magic {
    lt_image_format format;
    size_t at, len;
    const char *bytes;
} magic;

static const magic magics[] = {
    {LT_IMAGE_JPEG, 0, 3, "\xff\xd8\xff"},
    {LT_IMAGE_PNG, 0, 8, "\x89PNG\r\n\x1a\n"},
    {LT_IMAGE_GIF, 0, 6, "GIF87a"},
    {LT_IMAGE_GIF, 0, 6, "GIF89a"},
    {LT_IMAGE_WEBP, 8, 4, "WEBP"},
    {LT_IMAGE_BMP, 0, 2, "BM"},
    {LT_IMAGE_TIFF, 0, 4, "II*\0"},
    {LT_IMAGE_TIFF, 0, 4, "MM\0*"},
    {LT_IMAGE_TIFF, 0, 4, "II+\0"},
    {LT_IMAGE_TIFF, 0, 4, "MM\0+"},
    {LT_IMAGE_JPEG2000, 4, 8, "jP  \r\n\x87\n"},
    {LT_IMAGE_JPEG2000, 0, 4, "\xff\x4f\xff\x51"},
    {LT_IMAGE_JPEGXL, 0, 2, "\xff\x0a"},
    {LT_IMAGE_JPEGXL, 4, 8, "JXL \r\n\x87\n"},
    {LT_IMAGE_AVIF, 4, 8, "ftypavif"},
    {LT_IMAGE_AVIF, 4, 8, "ftypavis"},
    {LT_IMAGE_HEIC, 4, 7, "ftyphei"},
    {LT_IMAGE_HEIC, 4, 7, "ftyphev"},
    {LT_IMAGE_HEIC, 4, 8, "ftypmif1"},
    {LT_IMAGE_HEIC, 4, 8, "ftypmsf1"},
    {LT_IMAGE_ICO, 0, 4, "\0\0\1\0"},
    {LT_IMAGE_PSD, 0, 4, "8BPS"},
    {LT_IMAGE_PNM, 0, 2, "P1"},
    {LT_IMAGE_PNM, 0, 2, "P2"},
    {LT_IMAGE_PNM, 0, 2, "P3"},
    {LT_IMAGE_PNM, 0, 2, "P4"},
    {LT_IMAGE_PNM, 0, 2, "P5"},
    {LT_IMAGE_PNM, 0, 2, "P6"},
    {LT_IMAGE_PNM, 0, 2, "P7"},
    {LT_IMAGE_QOI, 0, 4, "qoif"},
    {LT_IMAGE_SVG, 0, 4, "<svg"},
    {LT_IMAGE_SVG, 0, 5, "<?xml"},
    {LT_IMAGE_PDF, 0, 5, "%PDF-"},
};

static lt_image_format format_of(const uint8_t *head, size_t n)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const magic *m = &magics[i];
        if (n >= m->at + m->len && memcmp(head + m->at, m->bytes, m->len) == 0)
            return m->format;
    }
    return LT_IMAGE_UNKNOWN;
}

// ---------------------------------------------------------------- sizes

static lt_status truncated(const source *s, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is truncated: its %zu bytes end inside the %s",
                   s->name, s->len, what);
}

static lt_status probe_png(source *s, lt_image_info *out)
{
    uint8_t head[26];
    bool ok;
    LT_TRY(fetch(s, 0, sizeof head, head, &ok));
    if (!ok)
        return truncated(s, "PNG header");
    if (be32(head + 8) != 13 || memcmp(head + 12, "IHDR", 4) != 0)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid PNG: its first chunk isn't IHDR",
                       s->name);
    out->w = be32(head + 16);
    out->h = be32(head + 20);
    return LT_OK;
}

static lt_status probe_gif(source *s, lt_image_info *out)
{
    lt_gif_frame f;
    LT_TRY(lt_gif_find_frame(fetch, s, s->name, &f));
    out->h = f.h;
    out->w = f.w;
    return LT_OK;
}

static lt_status probe_bmp(source *s, lt_image_info *out)
{
    uint8_t head[LT_BMP_HEAD];
    bool ok;
    LT_TRY(fetch(s, 0, sizeof head, head, &ok));
    return ok ? lt_bmp_size(head, sizeof head, s->name, &out->h, &out->w)
              : truncated(s, "BMP header");
}

static lt_status probe_webp(source *s, lt_image_info *out)
{
    uint8_t h[30];
    bool ok;
    LT_TRY(fetch(s, 0, sizeof h, h, &ok));
    if (!ok)
        return truncated(s, "WebP header");
    if (memcmp(h + 12, "VP8X", 4) == 0) {
        out->w = 1 + ((int64_t)h[24] | (int64_t)h[25] << 8 | (int64_t)h[26] << 16);
        out->h = 1 + ((int64_t)h[27] | (int64_t)h[28] << 8 | (int64_t)h[29] << 16);
    } else if (memcmp(h + 12, "VP8L", 4) == 0 && h[20] == 0x2f) {
        out->w = 1 + (h[21] | (h[22] & 0x3f) << 8);
        out->h = 1 + (h[22] >> 6 | h[23] << 2 | (h[24] & 0xf) << 10);
    } else if (memcmp(h + 12, "VP8 ", 4) == 0 && memcmp(h + 23, "\x9d\x01\x2a", 3) == 0) {
        out->w = h[26] | (h[27] & 0x3f) << 8;
        out->h = h[28] | (h[29] & 0x3f) << 8;
    } else {
        return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid WebP: its first chunk is no picture",
                       s->name);
    }
    return LT_OK;
}

/** The marker at or after *at, past fill bytes and garbage; *at then follows it. */
static lt_status next_marker(source *s, size_t *at, uint8_t *marker)
{
    uint8_t two[2];
    bool ok;
    for (size_t skipped = 0; skipped < LT_IMAGE_MAX_GARBAGE; skipped++, ++*at) {
        LT_TRY(fetch(s, *at, 2, two, &ok));
        if (!ok)
            return truncated(s, "JPEG header");
        if (two[0] == 0xff && two[1] != 0xff && two[1] != 0) {
            *at += 2;
            *marker = two[1];
            return LT_OK;
        }
    }
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid JPEG: no marker where one has to be",
                   s->name);
}

/** Frame header at `at` (its length field). */
static lt_status probe_frame(source *s, size_t at, uint8_t marker, lt_image_info *out)
{
    uint8_t f[8];
    bool ok;
    LT_TRY(fetch(s, at, sizeof f, f, &ok));
    if (!ok)
        return truncated(s, "JPEG frame header");
    if (marker != 0xc0 && marker != 0xc1 && marker != 0xc2 && marker != 0xc9 && marker != 0xca) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "picture %s: lossless and hierarchical JPEG (SOF%d) aren't read", s->name,
                       marker - 0xc0);
    }
    if (f[2] != 8)
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "picture %s: JPEG with %d bits a sample isn't read, only 8", s->name, f[2]);
    if (f[7] != 1 && f[7] != 3 && f[7] != 4) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "picture %s: JPEG with %d components isn't read, only 1, 3 and 4", s->name,
                       f[7]);
    }
    out->h = be16(f + 3);
    out->w = be16(f + 5);
    return LT_OK;
}

static lt_status probe_jpeg(source *s, lt_image_info *out)
{
    size_t at = 2;
    for (int i = 0; i < LT_IMAGE_MAX_SEGMENTS; i++) {
        uint8_t marker = 0, length[2];
        bool ok;
        LT_TRY(next_marker(s, &at, &marker));
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc)
            return probe_frame(s, at, marker, out);
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8))
            continue; // no length
        if (marker == 0xd9 || marker == 0xda)
            break;
        LT_TRY(fetch(s, at, 2, length, &ok));
        if (!ok)
            return truncated(s, "JPEG header");
        if (be16(length) < 2) {
            return LT_FAIL(
                LT_ERR_FORMAT,
                "picture %s is no valid JPEG: a segment's length is %u, at least 2 is the rule",
                s->name, be16(length));
        }
        at += be16(length);
    }
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is no valid JPEG: it has no frame header", s->name);
}

static lt_status check_size(const source *s, const lt_image_info *info)
{
    if (info->h < 1 || info->w < 1 || info->h > INT32_MAX || info->w > INT32_MAX)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s has an impossible size: %lld x %lld", s->name,
                       (long long)info->w, (long long)info->h);
    if (info->h * info->w > LT_IMAGE_MAX_PIXELS) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s has %lld x %lld pixels: more than the limit of %d", s->name,
                       (long long)info->w, (long long)info->h, LT_IMAGE_MAX_PIXELS);
    }
    return LT_OK;
}

static lt_status probe_format(source *s, lt_image_info *info)
{
    static const struct {
        lt_image_format format;
        lt_status (*probe)(source *s, lt_image_info *out);
    } probes[] = {
        {LT_IMAGE_JPEG, probe_jpeg}, {LT_IMAGE_PNG, probe_png}, {LT_IMAGE_WEBP, probe_webp},
        {LT_IMAGE_GIF, probe_gif},   {LT_IMAGE_BMP, probe_bmp},
    };
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
        if (probes[i].format == info->format)
            return probes[i].probe(s, info);
    return LT_FAIL(LT_ERR_UNSUPPORTED,
                   "picture %s is a %s file, which isn't read: convert it to JPEG or PNG", s->name,
                   lt_image_format_name(info->format));
}

static lt_status probe(source *s, lt_image_info *out)
{
    uint8_t head[12] = {0};
    bool ok;
    lt_image_info info = {0};
    const size_t n = s->len < sizeof head ? s->len : sizeof head;
    if (s->len == 0)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s is empty: 0 bytes", s->name);
    LT_TRY(fetch(s, 0, n, head, &ok));
    info.format = ok ? format_of(head, n) : LT_IMAGE_UNKNOWN;
    if (info.format == LT_IMAGE_UNKNOWN) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is in no known format: JPEG, PNG, WebP, GIF and BMP are read",
                       s->name);
    }
    LT_TRY(probe_format(s, &info));
    LT_TRY(check_size(s, &info));
    *out = info;
    return LT_OK;
}

lt_status lt_image_probe_bytes(const void *bytes, size_t len, const char *name, lt_image_info *out)
{
    source s = {.name = name, .mem = bytes, .fd = -1, .len = len};
    return probe(&s, out);
}

lt_status lt_image_probe(const char *path, lt_image_info *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0)
        return LT_FAIL(errno == ENOENT || errno == ENOTDIR ? LT_ERR_NOT_FOUND : LT_ERR_IO,
                       "cannot open picture %s: %s", path, lt_errno_text(errno));
    lt_status st;
    if (fstat(fd, &about) != 0) {
        st = LT_FAIL(LT_ERR_IO, "cannot read picture %s: %s", path, lt_errno_text(errno));
    } else if (!S_ISREG(about.st_mode)) {
        st = LT_FAIL(LT_ERR_IO, "picture %s is not a regular file", path);
    } else {
        source s = {.name = path, .fd = fd, .len = (size_t)about.st_size};
        st = probe(&s, out);
    }
    close(fd);
    return st;
}
