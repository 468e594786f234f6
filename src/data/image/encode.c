// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG files from RGB bytes.
#include "data/image/encode.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

enum { PIECE = 4096 };

// ---------------------------------------------------------------- PNG

typedef struct png_sink {
    lt_buf *out;
    lt_status st;
} png_sink;

static void png_put(png_structp png, png_bytep bytes, size_t n)
{
    png_sink *sink = png_get_io_ptr(png);
    sink->st = lt_buf_append(sink->out, bytes, n);
    if (sink->st != LT_OK)
        png_error(png, "out of memory");
}

static void png_done(png_structp png)
{
    (void)png;
}

static lt_status png_guarded(png_structp png, png_infop info, png_sink *sink, const lt_image *image)
{
    if (setjmp(png_jmpbuf(png)) != 0) // NOLINT(cert-err52-cpp): libpng knows no other way out
        return sink->st != LT_OK ? sink->st
                                 : LT_FAIL(LT_ERR_INTERNAL, "cannot encode a PNG picture");
    png_set_write_fn(png, sink, png_put, png_done);
    png_set_IHDR(png, info, (png_uint_32)image->w, (png_uint_32)image->h, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int64_t y = 0; y < image->h; y++)
        png_write_row(png, image->px + y * image->w * 3);
    png_write_end(png, NULL);
    return LT_OK;
}

lt_status lt_png_encode(const lt_image *image, lt_buf *out)
{
    png_sink sink = {.out = out};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    const lt_status st = info != NULL ? png_guarded(png, info, &sink, image)
                                      : LT_FAIL(LT_ERR_MEMORY, "out of memory: PNG encoder");
    png_destroy_write_struct(&png, &info);
    return st;
}

// ---------------------------------------------------------------- JPEG

typedef struct encoder {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr sink;
    jmp_buf escape;
    lt_buf *out;
    lt_status st;
    JOCTET piece[PIECE];
} encoder;

static void jpeg_failed(j_common_ptr cinfo)
{
    encoder *e = cinfo->client_data;
    longjmp(e->escape, 1);
}

static void flush_piece(encoder *e, size_t n)
{
    e->st = lt_buf_append(e->out, e->piece, n);
    if (e->st != LT_OK)
        longjmp(e->escape, 1);
    e->sink.next_output_byte = e->piece;
    e->sink.free_in_buffer = PIECE;
}

static void jpeg_begin(j_compress_ptr cinfo)
{
    encoder *e = cinfo->client_data;
    e->sink.next_output_byte = e->piece;
    e->sink.free_in_buffer = PIECE;
}

static boolean jpeg_full(j_compress_ptr cinfo)
{
    flush_piece(cinfo->client_data, PIECE);
    return TRUE;
}

static void jpeg_end(j_compress_ptr cinfo)
{
    encoder *e = cinfo->client_data;
    flush_piece(e, PIECE - e->sink.free_in_buffer);
}

static lt_status jpeg_guarded(encoder *e, const lt_image *image, int quality)
{
    if (setjmp(e->escape) != 0) // NOLINT(cert-err52-cpp): libjpeg knows no other way out
        return e->st != LT_OK ? e->st : LT_FAIL(LT_ERR_INTERNAL, "cannot encode a JPEG picture");
    struct jpeg_compress_struct *c = &e->cinfo;
    c->err = jpeg_std_error(&e->errors);
    e->errors.error_exit = jpeg_failed;
    c->client_data = e;
    jpeg_create_compress(c);
    e->sink = (struct jpeg_destination_mgr){.init_destination = jpeg_begin,
                                            .empty_output_buffer = jpeg_full,
                                            .term_destination = jpeg_end};
    c->dest = &e->sink;
    c->image_width = (JDIMENSION)image->w;
    c->image_height = (JDIMENSION)image->h;
    c->input_components = 3;
    c->in_color_space = JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, quality, TRUE);
    c->comp_info[0].h_samp_factor = c->comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = image->px + (size_t)c->next_scanline * (size_t)image->w * 3;
        (void)jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
    return LT_OK;
}

lt_status lt_jpeg_encode(const lt_image *image, int quality, lt_buf *out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(encoder), "JPEG encoder"));
    encoder *e = memory;
    e->out = out;
    const lt_status st = jpeg_guarded(e, image, quality);
    jpeg_destroy_compress(&e->cinfo);
    lt_mem_free(e);
    return st;
}
