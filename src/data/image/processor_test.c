// SPDX-License-Identifier: Apache-2.0
// The processor: its file, sizes at the edges, patch rows.
#include <math.h>
#include <string.h>

#include "data/image/image.h"
#include "tests/kit/lt_test.h"

static const lt_image_budget budget = {262144, 1024, LT_IMAGE_BICUBIC, false};

typedef struct size_case {
    int64_t w, h;   // as stored
    int64_t gw, gh; // patches across and down
} size_case;

static void grids_of_awkward_sizes_are_the_references(void **state)
{
    // spec data-pipeline 16.1, rows 1 to 6, by hand where it states no grid
    static const size_case cases[] = {
        {40, 30, 20, 14},    // enlarged to 320 x 224 by the processor's floor
        {1, 2, 14, 22},      // 22 x 45, 28 x 45, then 224 x 352: ceil(45 * 7.21 / 32) = 11
        {8, 1500, 4, 118},   // widened to 28 x 1500
        {512, 512, 32, 32},  // as it is
        {300, 260, 18, 16},  // 9.375 -> 9, 8.125 -> 8
        {1024, 1024, 32, 32} // halved by the budget
    };
    const lt_image_processor p = lt_image_processor_default();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_grid g;
        assert_ok(lt_image_grid(&p, &budget, cases[i].h, cases[i].w, &g));
        assert_int_equal(g.t, 1);
        assert_int_equal(g.w, cases[i].gw);
        assert_int_equal(g.h, cases[i].gh);
    }
}

static void halves_round_to_the_even_multiple(void **state)
{
    lt_image_processor p = lt_image_processor_default();
    int64_t h = 0, w = 0;
    (void)state;
    p.min_pixels = 1024;
    assert_ok(lt_smart_resize(&p, 80, 112, &h, &w));
    assert_int_equal(h, 64);
    assert_int_equal(w, 128);
    assert_fails(lt_smart_resize(&p, 32, 6432, &h, &w), LT_ERR_DATA, "aspect must be at most 200");
    assert_ok(lt_smart_resize(&p, 32, 6400, &h, &w));
    p.max_pixels = 4096; // floor((100/b)/32) * 32 with b = sqrt(100*100/4096): 64
    assert_ok(lt_smart_resize(&p, 100, 100, &h, &w));
    assert_int_equal(h, 64);
    assert_int_equal(w, 64);
}

static void the_budget_follows_its_five_steps(void **state)
{
    int64_t h = 0, w = 0;
    (void)state;
    assert_ok(lt_image_budget_size(&budget, 2, 1, &h, &w)); // sqrt(1024/2) = 22.6: 22 x 45, then 28
    assert_int_equal(h, 45);
    assert_int_equal(w, 28);
    assert_ok(lt_image_budget_size(&budget, 6000, 1, &h, &w)); // 28 x 6000 is 214 to 1
    assert_int_equal(h, 5040);
    assert_int_equal(w, 28);
    assert_fails(lt_image_budget_size(&budget, 300000, 1, &h, &w), LT_ERR_DATA,
                 "comes to 0 x 280433");
    assert_fails(lt_image_budget_size(&budget, 0, 5, &h, &w), LT_ERR_DATA, "5 x 0");
    const lt_image_budget none = {INT64_MAX, 0, LT_IMAGE_BICUBIC, false};
    assert_ok(lt_image_budget_size(&none, 3000, 4000, &h, &w));
    assert_int_equal(h, 3000);
    assert_fails(lt_image_budget_size(&none, 1, 170000000, &h, &w), LT_ERR_DATA,
                 "must stay above 0");
}

/** A folder with that text as `name`. */
static const char *folder(void *state, const char *name, const char *text)
{
    const char *dir = lt_test_dir(state);
    lt_test_write(lt_test_path(state, dir, name), text, strlen(text));
    return dir;
}

static void every_spelling_of_the_file_is_read(void **state)
{
    lt_image_processor p;
    assert_ok(
        lt_image_processor_open(folder(*state, "preprocessor_config.json",
                                       "{\"size\": {\"longest_edge\": 16777216, \"shortest_edge\": "
                                       "65536}, \"patch_size\": 16, \"merge_size\": 2,"
                                       " \"temporal_patch_size\": 2, \"image_mean\": [0.5, 0.5, "
                                       "0.5], \"image_std\": [0.5, 0.5, 0.5],"
                                       " \"image_processor_type\": \"Qwen2VLImageProcessorFast\", "
                                       "\"resample\": 3, \"do_resize\": true}"),
                                &p));
    const lt_image_processor d = lt_image_processor_default();
    assert_true(p.patch == d.patch && p.merge == d.merge && p.temporal == d.temporal);
    assert_true(p.min_pixels == d.min_pixels && p.max_pixels == d.max_pixels);
    assert_memory_equal(p.mean, d.mean, sizeof p.mean);
    assert_memory_equal(p.std, d.std, sizeof p.std);
    assert_true(p.resampler == LT_RESAMPLE_TORCHVISION);
    assert_ok(lt_image_processor_open(folder(*state, "preprocessor_config.json",
                                             "{\"min_pixels\": 3136, \"max_pixels\": 12845056, "
                                             "\"patch_size\": 14, \"size\": {\"shortest_edge\": 1},"
                                             " \"image_mean\": [0.48, 0.46, 0.41], \"image_std\": "
                                             "[0.27, 0.26, 0.28], \"do_resize\": null}"),
                                      &p));
    assert_int_equal(p.patch, 14);
    assert_int_equal(p.min_pixels, 3136); // wins over size
    assert_int_equal(p.max_pixels, 12845056);
    assert_true(p.mean[1] == 0.46 && p.std[2] == 0.28);
    assert_ok(lt_image_processor_open(
        folder(*state, "processor_config.json",
               "{\"image_processor\": {\"size\": {\"min_pixels\": 4096, \"max_pixels\": 8192}, "
               "\"patch_size\": 8,"
               " \"spatial_merge_size\": 4}, \"processor_class\": \"Qwen3VLProcessor\"}"),
        &p));
    assert_int_equal(p.patch, 8);
    assert_int_equal(p.merge, 4);
    assert_int_equal(p.min_pixels, 4096);
    assert_int_equal(p.max_pixels, 8192);
}

static void mistakes_in_the_file_are_named(void **state)
{
    static const struct {
        const char *text;
        lt_status code;
        const char *part;
    } cases[] = {
        {"{\"patch_size\": 0}", LT_ERR_CONFIG, "patch_size must be a whole number from 1 to 1024"},
        {"{\"patch_size\": \"16\"}", LT_ERR_CONFIG, "patch_size"},
        {"{\"size\": {\"longest_edge\": 1.5}}", LT_ERR_CONFIG, "size.longest_edge"},
        {"{\"image_mean\": [0.5, 0.5]}", LT_ERR_CONFIG, "image_mean"},
        {"{\"image_std\": [0.5, 0, 0.5]}", LT_ERR_CONFIG, "image_std must be a positive number"},
        {"{\"min_pixels\": 100, \"max_pixels\": 50}", LT_ERR_CONFIG,
         "100 pixels, is larger than the largest, 50"},
        {"{\"do_normalize\": false}", LT_ERR_UNSUPPORTED, "do_normalize is false"},
        {"{\"resample\": 2}", LT_ERR_UNSUPPORTED, "resample is 2"},
        {"{\"rescale_factor\": 1.0}", LT_ERR_UNSUPPORTED, "rescale_factor is 1"},
        {"{\"patch_size\": 16,\n}", LT_ERR_FORMAT, "preprocessor_config.json:2"},
        {"[]", LT_ERR_FORMAT, "must be a JSON object"},
    };
    lt_image_processor p;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *dir = folder(*state, "preprocessor_config.json", cases[i].text);
        assert_fails(lt_image_processor_open(dir, &p), cases[i].code, cases[i].part);
    }
    assert_fails(lt_image_processor_open(lt_test_dir(*state), &p), LT_ERR_NOT_FOUND,
                 "neither preprocessor_config.json");
}

// 8 x 4 pixels with patches of 2 and blocks of 2: two blocks side by side.
static void patch_rows_run_block_by_block(void **state)
{
    lt_image_processor p = lt_image_processor_default();
    uint8_t px[4 * 8 * 3], rows[8 * 24];
    (void)state;
    p.patch = 2;
    for (int y = 0; y < 4; y++) {
        for (int x = 0; x < 8; x++)
            for (int c = 0; c < 3; c++)
                px[(y * 8 + x) * 3 + c] = (uint8_t)(c * 32 + y * 8 + x);
    }
    const lt_image image = {.px = px, .h = 4, .w = 8};
    assert_ok(lt_image_patches(&p, &image, LT_U8, rows));
    // first pixel of each row: (0,0) (0,2) (2,0) (2,2) of the left block, then of the right one
    static const uint8_t first[8] = {0, 2, 16, 18, 4, 6, 20, 22};
    for (int64_t r = 0; r < 8; r++)
        assert_int_equal(rows[r * 24], first[r]);
    // a row: channel, frame (twice the same), y, x
    static const uint8_t row[24] = {0,  1,  8,  9,  0,  1,  8,  9,  32, 33, 40, 41,
                                    32, 33, 40, 41, 64, 65, 72, 73, 64, 65, 72, 73};
    assert_memory_equal(rows, row, sizeof row);
}

static void values_are_rescaled_and_normalised_in_float32(void **state)
{
    lt_image_processor p = lt_image_processor_default();
    uint8_t px[32 * 32 * 3];
    const lt_image image = {.px = px, .h = 32, .w = 32};
    float *f = lt_test_take(*state, sizeof(float[4 * 1536]));
    uint16_t *b = lt_test_take(*state, sizeof(uint16_t[4 * 1536]));
    for (int v = 0; v < 256; v++) {
        memset(px, v, sizeof px);
        assert_ok(lt_image_patches(&p, &image, LT_F32, f));
        assert_ok(lt_image_patches(&p, &image, LT_BF16, b));
        assert_true(f[0] == ((float)v - 127.5F) / 127.5F);
        assert_true(f[4 * 1536 - 1] == f[0]);
        assert_int_equal(b[17], lt_f32_to_bf16(f[0]));
    }
    p.resampler = LT_RESAMPLE_PILLOW;
    memset(px, 100, sizeof px);
    assert_ok(lt_image_patches(&p, &image, LT_F32, f));
    assert_true(f[0] == ((float)(100 * (1.0 / 255.0)) - 0.5F) / 0.5F);
}

static void patches_need_whole_blocks_and_a_known_dtype(void **state)
{
    const lt_image_processor p = lt_image_processor_default();
    uint8_t px[48 * 32 * 3] = {0}, rows[16];
    (void)state;
    assert_fails(lt_image_patches(&p, &(lt_image){px, 48, 32}, LT_U8, rows), LT_ERR_SHAPE,
                 "multiples of 32, got a picture of 32 x 48");
    assert_fails(lt_image_patches(&p, &(lt_image){px, 32, 32}, LT_F64, rows), LT_ERR_DTYPE,
                 "not as f64");
}

LT_TEST_MAIN(LT_TEST(grids_of_awkward_sizes_are_the_references),
             LT_TEST(halves_round_to_the_even_multiple), LT_TEST(the_budget_follows_its_five_steps),
             LT_TEST(every_spelling_of_the_file_is_read), LT_TEST(mistakes_in_the_file_are_named),
             LT_TEST(patch_rows_run_block_by_block),
             LT_TEST(values_are_rescaled_and_normalised_in_float32),
             LT_TEST(patches_need_whole_blocks_and_a_known_dtype))
