// SPDX-License-Identifier: Apache-2.0
// The pipeline's golden pictures: hashes after decoding, after the budget, after the resize and of
// the patch rows.
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "data/image/native.h"
#include "tests/kit/lt_test.h"
#include "tests/kit/sha256.h"

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}
static int64_t int_of(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void check_image(const lt_image *image, int64_t w, int64_t h, const char *sha)
{
    assert_int_equal(image->w, w);
    assert_int_equal(image->h, h);
    assert_text_equal(lt_sha256(image->px, (size_t)(image->h * image->w * 3)).s, sha);
}

/** Straight after the decoder, converted. */
static void check_decoded(const json_t *row, const char *bytes, size_t len, const char *name)
{
    lt_image_info info;
    lt_native native = {0};
    lt_image rgb = {0};
    const uint8_t *b = (const uint8_t *)bytes;
    assert_ok(lt_image_probe_bytes(b, len, name, &info));
    assert_int_equal(info.w, int_of(row, "width"));
    assert_int_equal(info.h, int_of(row, "height"));
    assert_ok(lt_native_decode(b, len, name, &native));
    assert_ok(lt_native_to_rgb(&native, &rgb));
    check_image(&rgb, info.w, info.h, text_of(row, "rgb_sha256"));
    lt_native_deinit(&native);
    lt_image_deinit(&rgb);
}

static void check_rows(void *state, const json_t *want, const lt_image_processor *p,
                       const lt_image *rgb, lt_grid grid)
{
    const int64_t n = lt_grid_patches(grid), width = lt_image_row_width(p);
    float *rows = lt_test_take(state, (size_t)(n * width) * sizeof *rows);
    assert_ok(lt_image_rows(p, rgb, LT_F32, rows));
    assert_text_equal(lt_sha256(rows, (size_t)(n * width) * sizeof *rows).s,
                      text_of(want, "pixel_values_f32le_sha256"));
    size_t i;
    const json_t *sample;
    json_array_foreach(json_object_get(want, "samples"), i, sample)
    {
        const int64_t row = json_integer_value(json_array_get(sample, 0)),
                      col = json_integer_value(json_array_get(sample, 1));
        assert_true((double)rows[row * width + col] ==
                    json_number_value(json_array_get(sample, 2)));
    }
}

static void check_plugin(void *state, const json_t *want, const char *path,
                         const lt_image_info *info, lt_image_budget budget,
                         const lt_image_processor *p)
{
    lt_image rgb = {0}, resized = {0};
    lt_grid grid, from_header;
    assert_ok(lt_image_load(path, &budget, &rgb));
    check_image(&rgb, int_of(want, "width"), int_of(want, "height"), text_of(want, "rgb_sha256"));
    const int64_t h = int_of(want, "resized_height"), w = int_of(want, "resized_width");
    assert_ok(lt_image_resize(p, &rgb, h, w, &resized));
    check_image(&resized, w, h, text_of(want, "resized_rgb_sha256"));
    assert_ok(lt_image_grid(p, &budget, info->h, info->w, &from_header));
    assert_ok(lt_image_grid_of_size(p, rgb.h, rgb.w, &grid));
    assert_true(lt_grid_equal(grid, from_header));
    const json_t *thw = json_object_get(want, "grid_thw");
    assert_int_equal(grid.t, json_integer_value(json_array_get(thw, 0)));
    assert_int_equal(grid.h, json_integer_value(json_array_get(thw, 1)));
    assert_int_equal(grid.w, json_integer_value(json_array_get(thw, 2)));
    assert_int_equal(lt_grid_tokens(grid, p->merge), int_of(want, "tokens"));
    check_rows(state, want, p, &rgb, grid);
    lt_image_deinit(&rgb);
    lt_image_deinit(&resized);
}

// Rows 8 to 15, 17 and 18 of spec data-pipeline 16.1 are among them: EXIF, CMYK, 16 bits, hidden
// colour, palettes with and without transparency, an animation, 4:2:0 of odd size.
static void every_picture_gives_the_reference_bytes_in_both_plug_ins(void **state)
{
    const char *list = lt_test_golden(*state, "pipeline/images.jsonl");
    if (list == NULL)
        skip(); // golden/pipeline isn't here
    const char *dir = lt_test_golden(*state, "pipeline/images");
    const lt_image_processor qwen3 = lt_image_processor_default();
    lt_image_processor qwen2 = qwen3;
    qwen2.patch = 14;
    qwen2.min_pixels = 3136;
    qwen2.max_pixels = 12845056;
    memcpy(qwen2.mean, (double[]){0.48145466, 0.4578275, 0.40821073}, sizeof qwen2.mean);
    memcpy(qwen2.std, (double[]){0.26862954, 0.26130258, 0.27577711}, sizeof qwen2.std);
    int n = 0;
    for (char *rest = lt_test_read(*state, list, NULL), *line;
         (line = strsep(&rest, "\n")) != NULL;) {
        if (*line == 0)
            continue;
        json_t *row = json_loads(line, 0, NULL);
        const char *name = text_of(row, "file"), *path = lt_test_path(*state, dir, name);
        lt_image_info info;
        size_t len = 0;
        const char *bytes = lt_test_read(*state, path, &len);
        check_decoded(row, bytes, len, name);
        assert_ok(lt_image_probe(path, &info));
        check_plugin(*state, json_object_get(row, "qwen3_vl"), path, &info,
                     (lt_image_budget){262144, 1024, LT_IMAGE_BICUBIC, false}, &qwen3);
        check_plugin(*state, json_object_get(row, "qwen2_vl"), path, &info,
                     (lt_image_budget){262144, 1024, LT_IMAGE_NEAREST, false}, &qwen2);
        n++;
        json_decref(row);
    }
    assert_true(n >= 20);
}

static void sha256_matches_the_standards_example(void **state)
{
    (void)state;
    assert_text_equal(lt_sha256("abc", 3).s,
                      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

LT_TEST_MAIN(LT_TEST(every_picture_gives_the_reference_bytes_in_both_plug_ins),
             LT_TEST(sha256_matches_the_standards_example))
