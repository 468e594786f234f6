// SPDX-License-Identifier: Apache-2.0
// Video files: read where the build has FFmpeg (LATHE_FFMPEG), refused by name where it has not.
#include "base/text.h"
#include "data/video/file.h"
#include "data/video/video.h"
#include "tests/kit/lt_test.h"
#include <string.h>

enum { SIDE = 64, FPS = 24, FRAMES = 49, FRAME_BYTES = SIDE * SIDE * 3 };

static void put32(lt_buf *b, uint32_t v)
{
    const uint8_t bytes[] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    assert_ok(lt_buf_append(b, bytes, 4));
}

static void put_text(lt_buf *b, const char *four)
{
    assert_ok(lt_buf_append(b, four, 4));
}

/** A colour that tells frames apart, in whole grey levels. */
static uint8_t level(int64_t frame)
{
    return (uint8_t)(frame * 5 + 3);
}

/** How a file's frames are stored. */
typedef struct form {
    uint32_t width, bytes; // of a frame
    const char *fourcc;    // NULL: RGB
} form;
static const form plain = {SIDE, FRAME_BYTES, NULL};

static void put_header(lt_buf *b, const form *f, uint32_t movi)
{
    put_text(b, "RIFF");
    put32(b, 4 + 8 + 192 + 8 + movi);
    put_text(b, "AVI ");
    put_text(b, "LIST");
    put32(b, 192);
    put_text(b, "hdrl");
    put_text(b, "avih");
    put32(b, 56);
    const uint32_t avih[14] = {1000000 / FPS, 0, 0, 0, FRAMES, 0, 1, f->bytes, f->width, SIDE};
    for (int i = 0; i < 14; i++)
        put32(b, avih[i]);
    put_text(b, "LIST");
    put32(b, 116);
    put_text(b, "strl");
    put_text(b, "strh");
    put32(b, 56);
    put_text(b, "vids");
    const uint32_t strh[13] = {0, 0, 0, 0, 1, FPS, 0, FRAMES, f->bytes, 0, 0, 0, 0};
    for (int i = 0; i < 13; i++)
        put32(b, strh[i]);
    put_text(b, "strf");
    put32(b, 40);
    const uint32_t head[4] = {40, f->width, SIDE, 1 | (f->fourcc ? 12U : 24U) << 16};
    for (int i = 0; i < 4; i++)
        put32(b, head[i]);
    put_text(b, f->fourcc ? f->fourcc : "\0\0\0");
    const uint32_t tail[5] = {f->bytes};
    for (int i = 0; i < 5; i++)
        put32(b, tail[i]);
}

/** 49 grey frames at 24 a second, uncompressed; of YUV the chroma is grey, too. */
static const char *write_form(void **state, const form *f, size_t keep)
{
    const uint32_t luma = f->fourcc ? f->width * SIDE : f->bytes, each = 8 + f->bytes;
    const char *path = lt_test_path(*state, lt_test_dir(*state), "v.avi");
    uint8_t *frame = lt_test_take(*state, f->bytes);
    lt_buf b = {0};
    put_header(&b, f, 4 + FRAMES * each);
    put_text(&b, "LIST");
    put32(&b, 4 + FRAMES * each);
    put_text(&b, "movi");
    for (int i = 0; i < FRAMES; i++) {
        put_text(&b, "00db");
        put32(&b, f->bytes);
        memset(frame, 128, f->bytes);
        memset(frame, level(i), luma);
        assert_ok(lt_buf_append(&b, frame, f->bytes));
    }
    lt_test_write(path, b.data, keep > 0 ? keep : b.len);
    lt_buf_deinit(&b);
    return path;
}

static const char *write_avi(void **state, size_t keep)
{
    return write_form(state, &plain, keep);
}

static lt_video_ref ref_of(const char *path)
{
    return (lt_video_ref){.path = path};
}

#ifdef LATHE_FFMPEG
// BR-21: stamps are source index / source fps, averaged over each slice.
static void frames_are_taken_by_number_and_stamped_by_their_time(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = ref_of(write_avi(state, 0));
    static const int64_t numbers[] = {0, 16, 32, 48}; // floor(2.04 s * 2) = 4 of 49
    lt_media m;
    o.min_pixels = 1;
    assert_ok(lt_video_describe(&p, &o, &ref, *state, &m));
    assert_true(lt_grid_equal(m.grid, (lt_grid){2, 4, 4}));
    assert_int_equal(m.clip->n, 4);
    assert_memory_equal(m.clip->numbers, numbers, sizeof numbers);
    assert_near(m.clip->stamps[0], (0.0 + 16.0 / 24.0) / 2, 1e-12);
    assert_near(m.clip->stamps[1], (32.0 / 24.0 + 2.0) / 2, 1e-12);
    const int64_t width = lt_image_row_width(&p);
    uint8_t *rows = lt_test_take(*state, (size_t)(lt_grid_patches(m.grid) * width));
    assert_ok(lt_video_rows(&p, &o, &m, LT_U8, rows));
    for (int64_t i = 0; i < lt_grid_patches(m.grid) * width; i++) {
        const int64_t slice = i / (16 * width), frame = i % width / 256 % 2;
        assert_int_equal(rows[i], level(numbers[2 * slice + frame]));
    }
}

static void the_references_times_count_what_was_sampled(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = ref_of(write_avi(state, 0));
    lt_media m;
    o.reference_times = true;
    assert_ok(lt_video_describe(&p, &o, &ref, *state, &m));
    assert_int_equal(m.clip->n, 4);
    assert_true(m.clip->stamps[0] == 0.25 && m.clip->stamps[1] == 1.25);
}

/** A frame of one colour, to its last column. */
static lt_status take_grey(void *ctx, lt_image *frame)
{
    const int64_t width = *(const int64_t *)ctx;
    assert_int_equal(frame->w, width);
    for (int64_t i = 0; i < frame->h * frame->w * 3; i++)
        assert_int_equal(frame->px[i], frame->px[0]);
    assert_true(frame->px[0] > 100);
    return LT_OK;
}

// The converter works in vectors; widths that are no multiple of them have whole rows all the same.
static void frames_are_whole_at_any_width(void **state)
{
    static const int64_t numbers[] = {25, 30};
    const lt_image_budget budget = {.max_pixels = 1 << 20, .min_pixels = 1};
    static const uint32_t widths[] = {30, 34, 64, 66, 70};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const form f = {widths[i], widths[i] * SIDE * 3 / 2, "I420"};
        int64_t w = widths[i];
        assert_ok(lt_video_file_read(write_form(state, &f, 0), numbers, 2, &budget, take_grey, &w));
    }
}

static void broken_videos_are_errors(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    const lt_video_opts o = lt_video_opts_default();
    const lt_video_ref whole = ref_of(write_avi(state, 0)), none = ref_of("no/such.mp4");
    lt_media m;
    assert_ok(lt_video_describe(&p, &o, &whole, *state, &m));
    size_t len = 0;
    const char *bytes = lt_test_read(*state, whole.path, &len);
    lt_test_write(whole.path, bytes, len / 2); // since then it has lost its end
    void *rows = lt_test_take(*state, (size_t)(lt_grid_patches(m.grid) * lt_image_row_width(&p)));
    const lt_status st = lt_video_rows(&p, &o, &m, LT_U8, rows);
    assert_true(st == LT_ERR_DATA || st == LT_ERR_FORMAT);
    assert_text_contains(lt_error_message(), "v.avi");
    assert_fails(lt_video_describe(&p, &o, &none, *state, &m), LT_ERR_NOT_FOUND, "no/such.mp4");
    const char *junk = lt_test_path(*state, lt_test_dir(*state), "junk.mp4");
    lt_test_write(junk, "no video at all, only words", 27);
    const lt_video_ref bad = ref_of(junk);
    assert_fails(lt_video_describe(&p, &o, &bad, *state, &m), LT_ERR_FORMAT, "junk.mp4");
}

LT_TEST_MAIN(LT_TEST(frames_are_taken_by_number_and_stamped_by_their_time),
             LT_TEST(the_references_times_count_what_was_sampled),
             LT_TEST(frames_are_whole_at_any_width), LT_TEST(broken_videos_are_errors))
#else
static void video_files_are_refused_by_name(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    const lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = ref_of(write_avi(state, 0));
    lt_media m;
    assert_fails(lt_video_describe(&p, &o, &ref, *state, &m), LT_ERR_UNSUPPORTED,
                 "v.avi: this build reads no video files");
    assert_text_contains(lt_error_message(), "a video may also be a list of pictures");
}

LT_TEST_MAIN(LT_TEST(video_files_are_refused_by_name))
#endif
