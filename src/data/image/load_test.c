// SPDX-License-Identifier: Apache-2.0
// Reading pictures: sizes from headers, refusals by name, broken files.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/image/native.h"
#include "tests/kit/lt_test.h"

static const lt_image_budget budget = {262144, 1024, LT_IMAGE_BICUBIC, false};

/** A golden picture's bytes; skips the test where there is none. */
static uint8_t *golden(void *state, const char *name, size_t *len)
{
    char rel[128];
    (void)snprintf(rel, sizeof rel, "pipeline/images/%s", name);
    const char *path = lt_test_golden(state, rel);
    assert_non_null(path); // tests/golden has it
    return (uint8_t *)lt_test_read(state, path, len);
}

static void assert_refused(const void *bytes, size_t len, lt_status code, const char *part)
{
    lt_image image = {0};
    lt_image_info info;
    assert_fails(lt_image_probe_bytes(bytes, len, "some/picture", &info), code, "some/picture");
    assert_fails(lt_image_load_bytes(bytes, len, "some/picture", &budget, &image), code, part);
    assert_null(image.px);
}

static void formats_that_are_not_read_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("II*\0\x08\0\0\0\0\0\0\0", 12, LT_ERR_UNSUPPORTED, "a TIFF file");
    assert_refused("\0\0\0\x20"
                   "ftypavif\0\0\0\0",
                   16, LT_ERR_UNSUPPORTED, "AVIF");
    assert_refused("\0\0\0\x18"
                   "ftypheic\0\0\0\0",
                   16, LT_ERR_UNSUPPORTED, "HEIC");
    assert_refused("hello, world", 12, LT_ERR_FORMAT, "no known format");
    assert_refused("x", 1, LT_ERR_FORMAT, "no known format");
}

static void a_missing_an_empty_and_a_directory_path_are_named(void **state)
{
    lt_image image = {0};
    lt_image_info info;
    const char *dir = lt_test_dir(*state), *none = lt_test_path(*state, dir, "none.jpg");
    const char *empty = lt_test_path(*state, dir, "empty.jpg");
    lt_test_write(empty, "", 0);
    assert_fails(lt_image_probe(none, &info), LT_ERR_NOT_FOUND, none);
    assert_fails(lt_image_load(none, &budget, &image), LT_ERR_NOT_FOUND, none);
    assert_fails(lt_image_probe(empty, &info), LT_ERR_FORMAT, "empty.jpg is empty: 0 bytes");
    assert_fails(lt_image_load(empty, &budget, &image), LT_ERR_FORMAT,
                 "empty.jpg is empty: 0 bytes");
    assert_fails(lt_image_probe(dir, &info), LT_ERR_IO, dir);
    assert_fails(lt_image_load(dir, &budget, &image), LT_ERR_IO, dir);
}

/** Every proper prefix fails, with a message that names the file. */
static void check_prefixes(void *state, const char *name, size_t step, size_t keep)
{
    size_t len = 0;
    const uint8_t *bytes = golden(state, name, &len);
    lt_image image = {0};
    for (size_t n = 1; n + keep < len; n += n < 700 ? 1 : step)
        assert_fails(lt_image_load_bytes(bytes, n, name, &budget, &image), LT_ERR_FORMAT, name);
    assert_ok(lt_image_load_bytes(bytes, len, name, &budget, &image));
    lt_image_deinit(&image);
}

// Row 16: an error that names the file.
static void a_truncated_jpeg_is_an_error(void **state)
{
    check_prefixes(*state, "v_61x43_420.jpg", 31,
                   2); // without its end marker it may still be whole
    check_prefixes(*state, "u_700x500_420prog.jpg", 4001, 2);
    check_prefixes(*state, "k_cmyk_700x500.jpg", 20011, 2);
}

static void a_truncated_png_is_an_error(void **state)
{
    check_prefixes(*state, "a_40x30.png", 31, 16); // the end chunk isn't needed
    check_prefixes(*state, "j_pal_200x120.png", 301, 16);
}

static void truncated_gif_webp_and_bmp_are_errors(void **state)
{
    check_prefixes(*state, "q_anim_50x36.gif", 31, 800); // the second frame isn't needed
    check_prefixes(*state, "x_61x43.webp", 31, 2);
    check_prefixes(*state, "y_61x43.bmp", 301, 0);
}

// Row 7: sizes are bounded before any memory is asked for, in each format.
static void sizes_above_the_limit_are_refused_in_every_format(void **state)
{
    (void)state;
    static const char
        gif[] = "GIF89a\x20\x4e\x20\x4e\0\0\0,\0\0\0\0\1\0\1\0\0\2",
        webp[] = "RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x1f\x4e\0\x1f\x4e\0",
        bmp[] = "BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x20\x4e\0\0\x20\x4e\0\0\1\0\x18\0";
    assert_refused(gif, sizeof gif - 1, LT_ERR_FORMAT, "20000 x 20000 pixels: more than");
    assert_refused(webp, sizeof webp - 1, LT_ERR_FORMAT, "20000 x 20000 pixels: more than");
    assert_refused(bmp, sizeof bmp - 1, LT_ERR_FORMAT, "20000 x 20000 pixels: more than");
}

static void a_gif_may_not_claim_more_than_its_codes_can_fill(void **state)
{
    (void)state;
    static const char gif[] = "GIF89a\x10\x27\x10\x27\0\0\0,\0\0\0\0\x10\x27\x10\x27\0\2\1\0";
    lt_image image = {0};
    assert_fails(lt_image_load_bytes(gif, sizeof gif - 1, "bomb.gif", &budget, &image),
                 LT_ERR_FORMAT, "cannot hold 10000 x 10000 pixels");
    assert_null(image.px);
}

static void a_truncated_jpeg_says_how_far_it_goes(void **state)
{
    size_t len = 0;
    const uint8_t *bytes = golden(*state, "d_700x500.jpg", &len);
    lt_image image = {0};
    assert_fails(lt_image_load_bytes(bytes, len / 2, "half.jpg", &budget, &image), LT_ERR_FORMAT,
                 "half.jpg is truncated");
    assert_text_contains(lt_error_message(), "of 500");
}

static void a_flipped_bit_in_a_png_is_an_error(void **state)
{
    size_t len = 0;
    uint8_t *bytes = golden(*state, "c_200x120.png", &len);
    lt_image image = {0};
    bytes[len / 2] ^= 4;
    assert_fails(lt_image_load_bytes(bytes, len, "bad.png", &budget, &image), LT_ERR_FORMAT,
                 "bad.png");
    assert_null(image.px);
}

static void a_header_alone_may_not_claim_the_memory_of_a_picture(void **state)
{
    size_t len = 0;
    uint8_t *jpeg = golden(*state, "v_61x43_420.jpg", &len);
    lt_image image = {0};
    lt_image_info info;
    for (size_t i = 0; i + 9 < len; i++) { // its frame header: 43 rows, 61 columns
        if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0 && jpeg[i + 6] == 43 && jpeg[i + 8] == 61) {
            memcpy(jpeg + i + 5, ((const uint8_t[]){0x2e, 0xe0, 0x2e, 0xe0}), 4); // 12000 x 12000
            break;
        }
    }
    assert_ok(lt_image_probe_bytes(jpeg, len, "bomb.jpg", &info));
    assert_int_equal(info.h, 12000);
    assert_fails(lt_image_load_bytes(jpeg, len, "bomb.jpg", &budget, &image), LT_ERR_FORMAT,
                 "cannot hold 12000 x 12000");
    // 20000 x 20000 is above the limit of the reference, whatever the file holds.
    const uint8_t png[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x4e\x20\0\0\x4e\x20\x08\x02\0\0\0\0\0\0\0";
    assert_refused(png, sizeof png - 1, LT_ERR_FORMAT,
                   "20000 x 20000 pixels: more than the limit of 178956970");
}

// Row 8.
static void exif_orientation_is_ignored(void **state)
{
    size_t len = 0;
    const uint8_t *bytes = golden(*state, "n_exif6_60x40.jpg", &len);
    lt_image_info info;
    assert_ok(lt_image_probe_bytes(bytes, len, "sideways", &info));
    assert_int_equal(info.w, 60);
    assert_int_equal(info.h, 40);
}

static void jpegs_of_other_kinds_are_refused(void **state)
{
    // SOI, then a frame header of 8 + 3 n bytes: precision, 16 x 16, n components.
    uint8_t jpeg[] = {0xff, 0xd8, 0xff, 0xc0, 0, 17,   8, 0, 16,   0, 16,
                      3,    1,    0x11, 0,    2, 0x11, 0, 3, 0x11, 0};
    (void)state;
    jpeg[6] = 12;
    assert_refused(jpeg, sizeof jpeg, LT_ERR_UNSUPPORTED, "12 bits");
    jpeg[6] = 8;
    jpeg[11] = 2;
    assert_refused(jpeg, sizeof jpeg, LT_ERR_UNSUPPORTED, "2 components");
    jpeg[11] = 3;
    jpeg[3] = 0xc3;
    assert_refused(jpeg, sizeof jpeg, LT_ERR_UNSUPPORTED, "SOF3");
    jpeg[3] = 0xc0;
    jpeg[8] = 0;
    assert_refused(jpeg, sizeof jpeg, LT_ERR_FORMAT, "impossible size: 16 x 0");
}

static void a_jpeg_without_its_end_marker_is_read_as_pillow_reads_it(void **state)
{
    // Pillow accepts rows that are all there; a file cut before its last rows is refused.
    size_t len = 0;
    const uint8_t *bytes = golden(*state, "d_700x500.jpg", &len);
    lt_image whole = {0}, cut = {0};
    assert_ok(lt_image_load_bytes(bytes, len, "whole", &budget, &whole));
    uint8_t *longer = lt_test_take(*state, len + 100);
    memcpy(longer, bytes, len - 2); // zeros follow the data instead of the marker
    assert_ok(lt_image_load_bytes(longer, len + 100, "no end", &budget, &cut));
    assert_memory_equal(whole.px, cut.px, (size_t)(whole.h * whole.w * 3));
    lt_image_deinit(&whole);
    lt_image_deinit(&cut);
}

static void the_size_is_found_behind_large_segments(void **state)
{
    size_t len = 0;
    const uint8_t *bytes = golden(*state, "w_61x43_444.jpg", &len);
    const char *path = lt_test_path(*state, lt_test_dir(*state), "large.jpg");
    const size_t extra = 6 * (size_t)(2 + 0xffff);
    uint8_t *file = lt_test_take(*state, len + extra);
    memcpy(file, bytes, 2);
    for (size_t i = 0; i < 6; i++) // APP2 segments, as colour profiles come
        memcpy(file + 2 + i * (2 + 0xffff), ((const uint8_t[]){0xff, 0xe2, 0xff, 0xff}), 4);
    memcpy(file + 2 + extra, bytes + 2, len - 2);
    lt_test_write(path, file, len + extra);
    lt_image_info info;
    lt_image image = {0};
    assert_ok(lt_image_probe(path, &info));
    assert_int_equal(info.w, 61);
    assert_int_equal(info.h, 43);
    assert_ok(lt_image_load(path, &budget, &image));
    lt_image_deinit(&image);
}

LT_TEST_MAIN(LT_TEST(formats_that_are_not_read_are_refused_by_name),
             LT_TEST(a_missing_an_empty_and_a_directory_path_are_named),
             LT_TEST(a_truncated_jpeg_is_an_error), LT_TEST(a_truncated_png_is_an_error),
             LT_TEST(truncated_gif_webp_and_bmp_are_errors),
             LT_TEST(sizes_above_the_limit_are_refused_in_every_format),
             LT_TEST(a_gif_may_not_claim_more_than_its_codes_can_fill),
             LT_TEST(a_truncated_jpeg_says_how_far_it_goes),
             LT_TEST(a_flipped_bit_in_a_png_is_an_error),
             LT_TEST(a_header_alone_may_not_claim_the_memory_of_a_picture),
             LT_TEST(exif_orientation_is_ignored), LT_TEST(jpegs_of_other_kinds_are_refused),
             LT_TEST(a_jpeg_without_its_end_marker_is_read_as_pillow_reads_it),
             LT_TEST(the_size_is_found_behind_large_segments))
