// SPDX-License-Identifier: Apache-2.0
// Videos: numbers of frames, sizes, times and rows, worked by hand from spec data-pipeline 8.
#include "data/video/video.h"

#include <stdio.h>
#include <string.h>

#include "data/image/encode.h"
#include "tests/kit/lt_test.h"

static void assert_numbers(const int64_t *got, int64_t n, const char *want)
{
    char text[1024] = "";
    for (int64_t i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? " " : "",
                       (long long)got[i]);
    assert_text_equal(text, want);
}

static void assert_sample(void **state, int64_t frames, double seconds, int64_t most, double fps,
                          const char *want)
{
    lt_video_opts o = lt_video_opts_default();
    int64_t *numbers, n;
    o.max_frames = most;
    o.fps = fps;
    assert_ok(lt_video_sample(frames, seconds, &o, *state, &numbers, &n));
    assert_numbers(numbers, n, want);
}

static void frames_are_evenly_spaced_and_the_last_is_among_them(void **state)
{
    assert_sample(state, 240, 10.0, 6, 2.0, "0 47 95 143 191 239"); // 47.8, 95.6, 143.4, 191.2
    assert_sample(state, 240, 2.4, 128, 2.0, "0 79 159 239");       // floor(4.8) = 4 of them
    assert_sample(state, 3, 100.0, 128, 2.0, "0 1 2");              // no more than there are
    assert_sample(state, 240, 0.3, 128, 2.0, "0");                  // at least one
    assert_sample(state, 0, 0.0, 4, 2.0, "0 1 2 3");                // unknown: the first ones
}

// Row 62: at 4 a second the reference's processor takes every second frame only.
static void the_second_sampling_of_the_reference(void **state)
{
    lt_video_opts o = lt_video_opts_default();
    int64_t *places, n;
    assert_ok(lt_video_resample(6, &o, *state, &places, &n));
    assert_numbers(places, n, "0 1 2 3 4 5");
    o.fps = 4.0;
    assert_ok(lt_video_resample(20, &o, *state, &places, &n));
    assert_numbers(places, n, "0 2 4 6 8 11 13 15 17 19"); // 19/9 apart, halves to even
    assert_ok(lt_video_resample(6, &o, *state, &places, &n));
    assert_numbers(places, n, "0 2 3 5"); // at least four: 1.67, 3.33
    assert_ok(lt_video_resample(2, &o, *state, &places, &n));
    assert_numbers(places, n, "0 1");
}

static void assert_size(int64_t n, int64_t h, int64_t w, int64_t want_h, int64_t want_w)
{
    const lt_image_processor p = lt_image_processor_default();
    const lt_video_opts o = lt_video_opts_default();
    int64_t got_h, got_w;
    assert_ok(lt_video_size(&p, &o, n, h, w, &got_h, &got_w));
    assert_int_equal(got_h, want_h);
    assert_int_equal(got_w, want_w);
}

static void the_limits_are_of_all_frames_together(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_video_opts o = lt_video_opts_default();
    int64_t h, w;
    (void)state;
    assert_size(4, 100, 200, 96, 192);
    assert_size(2, 32, 32, 64, 64); // 2048 of 4096: by sqrt(2) to 45.3, up to 64
    assert_size(3, 48, 48, 64, 64); // 1.5 units to the even 2; 1.5 slices to 2
    o.max_pixels = 65536;           // 16 frames of 128 x 128 are four times that
    assert_ok(lt_video_size(&p, &o, 16, 128, 128, &h, &w));
    assert_int_equal(h, 64);
    assert_int_equal(w, 64);
    // Row 63: a frame needs a whole unit
    assert_fails(lt_video_size(&p, &o, 4, 28, 100, &h, &w), LT_ERR_DATA,
                 "sides of at least 32 pixels, got 100 x 28");
    assert_fails(lt_video_size(&p, &o, 1, 64, 64, &h, &w), LT_ERR_DATA, "at least 2 frames, got 1");
    assert_fails(lt_video_size(&p, &o, 2, 32, 6500, &h, &w), LT_ERR_DATA, "out of proportion");
}

// ---------------------------------------------------------------- lists of pictures

enum { SIDE = 64, N = 5 };

static const char *write_frame(void **state, const char *dir, int number, int64_t h)
{
    char name[32];
    const int64_t bytes = SIDE * h * 3;
    uint8_t *px = lt_test_take(*state, (size_t)bytes);
    const lt_image image = {.px = px, .h = h, .w = SIDE};
    lt_buf png = {0};
    for (int64_t i = 0; i < bytes; i++)
        px[i] = (uint8_t)((i * 31 + (int64_t)number * 997) % 256);
    (void)snprintf(name, sizeof name, "f%d.png", number);
    const char *path = lt_test_path(*state, dir, name);
    assert_ok(lt_png_encode(&image, &png));
    lt_test_write(path, png.data, png.len);
    lt_buf_deinit(&png);
    return path;
}

static lt_video_ref frames_of(void **state, int64_t n)
{
    const char *dir = lt_test_dir(*state);
    const char **frames = lt_test_take(*state, (size_t)n * sizeof(char *));
    for (int i = 0; i < n; i++)
        frames[i] = write_frame(state, dir, i, SIDE);
    return (lt_video_ref){.path = frames[0], .frames = frames, .n_frames = n};
}

// An odd count repeats its last frame; at 2 a second slices are half a second apart each way.
static void a_list_of_pictures_is_a_video(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    const lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = frames_of(state, N);
    lt_media m;
    assert_ok(lt_video_describe(&p, &o, &ref, *state, &m));
    assert_true(lt_grid_equal(m.grid, (lt_grid){3, 4, 4}));
    assert_int_equal(m.clip->n, 6);
    assert_numbers(m.clip->numbers, 6, "0 1 2 3 4 4");
    assert_true(m.clip->stamps[0] == 0.25 && m.clip->stamps[1] == 1.25 && m.clip->stamps[2] == 2.0);
    lt_video_opts r = o;
    r.reference_times = true; // the repeated frame counts
    assert_ok(lt_video_describe(&p, &r, &ref, *state, &m));
    assert_true(lt_grid_equal(m.grid, (lt_grid){3, 4, 4}));
    assert_true(m.clip->stamps[0] == 0.25 && m.clip->stamps[1] == 1.25);
}

// Row (t, block row, block column, y, x in the block); column (channel, frame of the slice, y, x).
static void rows_hold_two_frames_side_by_side(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = frames_of(state, 4);
    lt_media m;
    o.min_pixels = 1; // so that frames keep their size
    assert_ok(lt_video_describe(&p, &o, &ref, *state, &m));
    assert_true(lt_grid_equal(m.grid, (lt_grid){2, 4, 4}));
    const int64_t width = lt_image_row_width(&p);
    uint8_t *rows = lt_test_take(*state, (size_t)(lt_grid_patches(m.grid) * width));
    assert_ok(lt_video_rows(&p, &o, &m, LT_U8, rows));
    for (int64_t t = 0; t < 2; t++) {
        for (int64_t r = 0; r < 16; r++) {
            const int64_t by = r / 8, bx = r / 4 % 2, py = by * 2 + r / 2 % 2, px = bx * 2 + r % 2;
            for (int64_t k = 0; k < width; k++) {
                const int64_t c = k / 512, f = k / 256 % 2, y = py * 16 + k / 16 % 16,
                              x = px * 16 + k % 16, i = (y * SIDE + x) * 3 + c;
                assert_int_equal(rows[(t * 16 + r) * width + k],
                                 (i * 31 + (2 * t + f) * 997) % 256);
            }
        }
    }
}

static void frames_of_several_sizes_and_missing_ones_are_named(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    const lt_video_opts o = lt_video_opts_default();
    const lt_video_ref ref = frames_of(state, 2);
    const char *odd = write_frame(state, lt_test_dir(*state), 9, 48),
               *frames[] = {ref.frames[0], odd}, *gone[] = {ref.frames[0], "no/such.png"};
    lt_media m;
    assert_fails(lt_video_describe(&p, &o, &(lt_video_ref){frames[0], frames, 2}, *state, &m),
                 LT_ERR_DATA, "f9.png has 64 x 48 pixels, the video's first frame 64 x 64");
    assert_fails(lt_video_describe(&p, &o, &(lt_video_ref){gone[0], gone, 2}, *state, &m),
                 LT_ERR_NOT_FOUND, "no/such.png");
    // One that changes between counting and reading is found out.
    assert_ok(lt_video_describe(&p, &o, &ref, *state, &m));
    size_t len = 0;
    const char *bytes = lt_test_read(*state, odd, &len);
    lt_test_write(ref.frames[1], bytes, len);
    void *rows = lt_test_take(*state, (size_t)(lt_grid_patches(m.grid) * lt_image_row_width(&p)));
    assert_fails(lt_video_rows(&p, &o, &m, LT_U8, rows), LT_ERR_DATA, "the file has changed");
}

LT_TEST_MAIN(LT_TEST(frames_are_evenly_spaced_and_the_last_is_among_them),
             LT_TEST(the_second_sampling_of_the_reference),
             LT_TEST(the_limits_are_of_all_frames_together), LT_TEST(a_list_of_pictures_is_a_video),
             LT_TEST(rows_hold_two_frames_side_by_side),
             LT_TEST(frames_of_several_sizes_and_missing_ones_are_named))
