// SPDX-License-Identifier: Apache-2.0
// Inputs on which naive readers of pictures differ: the rows of spec data-pipeline 16.1, by their
// numbers. Rows 9 to 15, 17 and 19 are pictures of golden/pipeline and tests/golden/image: see
// image/golden_test.c.
#include "data/collate.h"
#include "data/image/encode.h"
#include "data/image/native.h"
#include "data/template/template.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static const lt_image_budget budget = {262144, 1024, LT_IMAGE_BICUBIC, false};

static lt_grid grid_of(int64_t w, int64_t h)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_grid g;
    assert_ok(lt_image_grid(&p, &budget, h, w, &g));
    return g;
}

static void row_1_small_pictures_are_enlarged_by_the_processors_floor(void **state)
{
    (void)state;
    const lt_grid g = grid_of(40, 30); // 320 x 224
    assert_true(lt_grid_equal(g, (lt_grid){1, 14, 20}));
    assert_int_equal(lt_grid_tokens(g, 2), 70);
}

static void row_2_halves_go_to_the_even_multiple(void **state)
{
    lt_image_processor p = lt_image_processor_default();
    int64_t h, w;
    (void)state;
    p.min_pixels = 1;
    assert_ok(lt_smart_resize(&p, 80, 112, &h, &w));
    assert_int_equal(h, 64);
    assert_int_equal(w, 128);
    assert_ok(lt_smart_resize(&p, 144, 176, &h, &w)); // 4.5 and 5.5 units of 32
    assert_int_equal(h, 128);
    assert_int_equal(w, 192);
}

static void assert_budget(int64_t w, int64_t h, int64_t want_w, int64_t want_h)
{
    int64_t got_h, got_w;
    assert_ok(lt_image_budget_size(&budget, h, w, &got_h, &got_w));
    assert_int_equal(got_w, want_w);
    assert_int_equal(got_h, want_h);
}

static void rows_3_5_6_narrow_pictures_are_widened_and_squeezed(void **state)
{
    (void)state;
    assert_budget(1, 2, 28, 45); // by the pixel floor to 22 x 45, then to the smallest side
    assert_budget(8, 1500, 28, 1500);
    const lt_grid g = grid_of(8, 1500);
    assert_true(lt_grid_equal(g, (lt_grid){1, 118, 4}));
    assert_budget(1, 6000, 28, 5040); // 28 x 6000 is over 200: to 180
}

static void row_4_a_side_that_comes_to_nothing_is_an_error(void **state)
{
    int64_t h, w;
    (void)state;
    assert_fails(lt_image_budget_size(&budget, 300000, 1, &h, &w), LT_ERR_DATA,
                 "a picture of 1 x 300000 pixels comes to 0 x ");
}

static lt_image picture(void *state, int64_t w, int64_t h)
{
    lt_image i = {.px = lt_test_take(state, (size_t)(w * h * 3)), .h = h, .w = w};
    for (int64_t k = 0; k < w * h * 3; k++)
        i.px[k] = (uint8_t)(k * 7919 % 251);
    return i;
}

static void row_18_the_budgets_filter_follows_the_template(void **state)
{
    const lt_image in = picture(*state, 700, 500);
    lt_buf png = {0};
    lt_image cubic = {0}, nearest = {0};
    assert_ok(lt_png_encode(&in, &png));
    assert_ok(lt_image_load_bytes(png.data, png.len, "p", &budget, &cubic));
    assert_ok(lt_image_load_bytes(png.data, png.len, "p",
                                  &(lt_image_budget){262144, 1024, LT_IMAGE_NEAREST, false},
                                  &nearest));
    assert_int_equal(cubic.w, nearest.w);
    assert_int_equal(cubic.h, nearest.h);
    assert_true(memcmp(cubic.px, nearest.px, (size_t)(cubic.w * cubic.h * 3)) != 0);
    assert_memory_equal(nearest.px, in.px, 3); // a pixel of the source, not a mean of some
    const lt_template *chat;
    assert_ok(lt_template_find("qwen2vl", &chat)); // MindSpeed-MM's
    assert_true(chat->nearest_budget);
    assert_ok(lt_template_find("qwen2_vl", &chat)); // LLaMA-Factory's
    assert_false(chat->nearest_budget);
    lt_image_deinit(&cubic);
    lt_image_deinit(&nearest);
    lt_buf_deinit(&png);
}

// ---------------------------------------------------------------- in a micro-batch

enum { START = 3, PAD = 4, END = 5 };

typedef struct made {
    lt_collate_opts opts;
    lt_batch *batch;
    const char *path;
} made;

static made set_up(void **state, int64_t w, int64_t h)
{
    made m = {.opts = lt_collate_opts_default()};
    const lt_image in = picture(*state, w, h);
    lt_buf png = {0};
    m.opts.vision = (lt_vision_ids){.image_pad = PAD, .video_pad = -1, .vision_start = START};
    m.opts.budget = budget;
    m.path = lt_test_path(*state, lt_test_dir(*state), "p.png");
    assert_ok(lt_png_encode(&in, &png));
    lt_test_write(m.path, png.data, png.len);
    lt_buf_deinit(&png);
    assert_ok(lt_batch_create(&m.batch));
    return m;
}

/** `n` times the picture, each with its tokens. */
static lt_sample sample_of(void **state, const made *m, int n, lt_grid grid)
{
    const int64_t pads = lt_grid_tokens(grid, 2), each = pads + 2;
    int32_t *ids = lt_test_take(*state, (size_t)(n * each) * sizeof *ids);
    lt_media *media = lt_test_take(*state, (size_t)n * sizeof *media);
    for (int k = 0; k < n; k++) {
        media[k] = (lt_media){LT_MEDIA_IMAGE, m->path, grid, NULL};
        for (int64_t i = 0; i < each; i++)
            ids[k * each + i] = i == 0 ? START : i == each - 1 ? END : PAD;
    }
    return (lt_sample){.ids = ids,
                       .labels = ids,
                       .n = n * each,
                       .media = media,
                       .n_media = n,
                       .file = "d.json",
                       .record = 7,
                       .line = 9};
}

static void row_51_the_same_path_twice_is_two_pictures(void **state)
{
    made m = set_up(state, 64, 64);
    const lt_sample s = sample_of(state, &m, 2, grid_of(64, 64));
    assert_ok(lt_batch_collate(m.batch, &s, 1, &m.opts));
    assert_int_equal(m.batch->n_media, 2);
    const float *rows = m.batch->pixels;
    const int64_t half = m.batch->n_patches / 2 * m.batch->row_width;
    assert_memory_equal(rows, rows + half, (size_t)half * sizeof *rows);
    lt_batch_destroy(m.batch);
}

static void row_52_a_picture_that_changed_since_is_an_error(void **state)
{
    made m = set_up(state, 64, 64);
    const lt_sample s = sample_of(state, &m, 1, grid_of(64, 64));
    const lt_image other = picture(*state, 300, 100);
    lt_buf png = {0};
    assert_ok(lt_png_encode(&other, &png));
    lt_test_write(m.path, png.data, png.len);
    assert_fails(lt_batch_collate(m.batch, &s, 1, &m.opts), LT_ERR_DATA, "d.json:9: record 7: ");
    assert_text_contains(lt_error_message(), "p.png");
    lt_buf_deinit(&png);
    lt_batch_destroy(m.batch);
}

// BR-30: the limits are applied, whatever the file's size.
static void br_30_the_pixel_limit_bounds_the_tokens(void **state)
{
    (void)state;
    assert_true(lt_grid_tokens(grid_of(4096, 4096), 2) <= 262144 / 1024);
}

LT_TEST_MAIN(LT_TEST(row_1_small_pictures_are_enlarged_by_the_processors_floor),
             LT_TEST(row_2_halves_go_to_the_even_multiple),
             LT_TEST(rows_3_5_6_narrow_pictures_are_widened_and_squeezed),
             LT_TEST(row_4_a_side_that_comes_to_nothing_is_an_error),
             LT_TEST(row_18_the_budgets_filter_follows_the_template),
             LT_TEST(row_51_the_same_path_twice_is_two_pictures),
             LT_TEST(row_52_a_picture_that_changed_since_is_an_error),
             LT_TEST(br_30_the_pixel_limit_bounds_the_tokens))
