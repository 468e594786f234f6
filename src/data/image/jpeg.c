// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo, set up as Pillow does: accurate integer IDCT, fancy upsampling, input
// that may run dry.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "data/image/native.h"

/** What the library's callbacks reach through client_data. */
typedef struct decoder {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} decoder;

static void on_error(j_common_ptr cinfo)
{
    decoder *d = cinfo->client_data;
    cinfo->err->format_message(cinfo, d->message);
    longjmp(d->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo, (void)level; // warnings: Pillow goes on, so do we
}

static void on_source(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

// No more bytes: the library then suspends, which tells a truncated file from one that only lacks
// its end marker.
static boolean on_empty(j_decompress_ptr cinfo)
{
    (void)cinfo;
    return FALSE;
}

static void on_skip(j_decompress_ptr cinfo, long n)
{
    struct jpeg_source_mgr *s = cinfo->src;
    const size_t step = n < 0 ? 0 : (size_t)n < s->bytes_in_buffer ? (size_t)n : s->bytes_in_buffer;
    s->next_input_byte += step;
    s->bytes_in_buffer -= step;
}

static void on_progress(j_common_ptr common)
{
    decoder *d = common->client_data;
    if (d->cinfo.input_scan_number > LT_IMAGE_MAX_SCANS) {
        (void)snprintf(d->message, sizeof d->message, "more than %d scans", LT_IMAGE_MAX_SCANS);
        longjmp(d->escape, 1);
    }
}

static void set_up(decoder *d, const uint8_t *bytes, size_t len)
{
    d->cinfo.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->cinfo.client_data = d;
    jpeg_create_decompress(&d->cinfo);
    d->source = (struct jpeg_source_mgr){.next_input_byte = bytes,
                                         .bytes_in_buffer = len,
                                         .init_source = on_source,
                                         .fill_input_buffer = on_empty,
                                         .skip_input_data = on_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = on_source};
    d->cinfo.src = &d->source;
    d->progress.progress_monitor = on_progress;
    d->cinfo.progress = &d->progress;
}

static lt_status cut_short(const decoder *d, const char *name, size_t len)
{
    return LT_FAIL(LT_ERR_FORMAT, "picture %s is truncated: its %zu bytes end after row %u of %u",
                   name, len, d->cinfo.output_scanline, d->cinfo.image_height);
}

/** Header, then colour space and memory for the rows. */
static lt_status begin(decoder *d, const char *name, size_t len, lt_native *out)
{
    static const J_COLOR_SPACE spaces[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    static const lt_image_mode modes[] = {
        [1] = LT_MODE_GREY, [3] = LT_MODE_RGB, [4] = LT_MODE_CMYK};
    if (jpeg_read_header(&d->cinfo, TRUE) != JPEG_HEADER_OK)
        return cut_short(d, name, len);
    const int n = d->cinfo.num_components;
    if (n != 1 && n != 3 && n != 4)
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "picture %s: JPEG with %d components isn't read, only 1, 3 and 4", name, n);
    const int64_t h = d->cinfo.image_height, w = d->cinfo.image_width;
    if (!d->cinfo.arith_code && h * w / LT_IMAGE_MAX_BLOCK_PIXELS > (int64_t)len) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s is truncated: %zu bytes cannot hold %lld x %lld pixels", name,
                       len, (long long)w, (long long)h);
    }
    d->cinfo.out_color_space = spaces[n];
    d->cinfo.dct_method = JDCT_ISLOW;
    d->cinfo.do_fancy_upsampling = TRUE;
    LT_TRY(lt_native_take(out, modes[n], h, w, name));
    if (!jpeg_start_decompress(&d->cinfo))
        return cut_short(d, name, len);
    if (d->cinfo.output_components != n || d->cinfo.output_width != (JDIMENSION)w ||
        d->cinfo.output_height != (JDIMENSION)h)
        return LT_FAIL(LT_ERR_FORMAT, "picture %s: its colours cannot be decoded", name);
    return LT_OK;
}

static lt_status decode(decoder *d, const char *name, size_t len, lt_native *out)
{
    LT_TRY(begin(d, name, len, out));
    const size_t stride = (size_t)out->w * (size_t)d->cinfo.output_components;
    while (d->cinfo.output_scanline < d->cinfo.output_height) {
        JSAMPROW rows[8];
        const JDIMENSION at = d->cinfo.output_scanline, left = d->cinfo.output_height - at,
                         n = left < 8 ? left : 8;
        for (JDIMENSION i = 0; i < n; i++)
            rows[i] = out->px + (size_t)(at + i) * stride;
        if (jpeg_read_scanlines(&d->cinfo, rows, n) == 0)
            return cut_short(d, name, len);
    }
    if (out->mode == LT_MODE_CMYK)
        for (size_t i = 0; i < stride * (size_t)out->h; i++)
            out->px[i] = (uint8_t)(255 - out->px[i]);
    return LT_OK;
}

// setjmp's frame holds nothing that changes after it but what d and out point at.
static lt_status guarded(decoder *d, const uint8_t *bytes, size_t len, const char *name,
                         lt_native *out)
{
    if (setjmp(d->escape) != 0) // NOLINT(cert-err52-cpp): libjpeg knows no other way out
        return LT_FAIL(LT_ERR_FORMAT, "picture %s cannot be decoded: %s", name, d->message);
    set_up(d, bytes, len);
    return decode(d, name, len, out);
}

lt_status lt_jpeg_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(decoder), "JPEG decoder"));
    decoder *d = memory;
    const lt_status st = guarded(d, bytes, len, name, out);
    jpeg_destroy_decompress(&d->cinfo);
    lt_mem_free(d);
    return st;
}
