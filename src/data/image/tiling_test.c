// SPDX-License-Identifier: Apache-2.0
// Tiles worked by hand; tests/golden_intern.c holds them against the reference's.
#include "data/image/tiling.h"
#include "tests/kit/lt_test.h"

static void the_nearest_aspect_wins_and_large_pictures_get_more_tiles(void **state)
{
    static const struct {
        int64_t w, h, min, max, columns, rows;
        bool thumbnail;
    } cases[] = {
        {448, 448, 1, 12, 1, 1, false}, // a single tile has no thumbnail
        {900, 450, 1, 12, 2, 1, true},  // 2 : 1; 4 x 2 would need 802,816 pixels
        {1800, 900, 1, 12, 4, 2, true}, // the same aspect with more than half of these
        {450, 900, 1, 12, 1, 2, true},  {1000, 100, 1, 6, 6, 1, true}, // 10 : 1 is out of reach
        {900, 450, 1, 1, 1, 1, false},  {900, 450, 1, 0, 1, 1, false}, // no candidate at all
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_tiling_opts o = lt_tiling_opts_default();
        o.min = cases[i].min;
        o.max = cases[i].max;
        const lt_tiling t = lt_tiling_choose(&o, cases[i].h, cases[i].w);
        assert_int_equal(t.columns, cases[i].columns);
        assert_int_equal(t.rows, cases[i].rows);
        assert_int_equal(t.thumbnail, cases[i].thumbnail);
        assert_int_equal(lt_tiling_count(&t), t.columns * t.rows + t.thumbnail);
    }
}

// Both grids of two tiles are 3/4 away from 5 : 4; the first stays unless the picture is large.
static void a_tie_goes_to_the_later_grid_where_the_picture_is_large(void **state)
{
    lt_tiling_opts o = lt_tiling_opts_default();
    (void)state;
    o.min = o.max = 2;
    assert_int_equal(lt_tiling_choose(&o, 80, 100).rows, 2);
    assert_int_equal(lt_tiling_choose(&o, 800, 1000).rows, 1);
}

// With share the pictures of a record divide max between them; none is left for the third of two.
static void pictures_of_a_record_share_the_tiles(void **state)
{
    lt_tiling_opts o = lt_tiling_opts_default();
    (void)state;
    o.max = 7;
    assert_int_equal(lt_tiling_share(&o, 3, 900, 4500).columns, 5);
    o.share = true;
    assert_int_equal(lt_tiling_share(&o, 1, 900, 4500).columns, 5);
    assert_int_equal(lt_tiling_share(&o, 3, 900, 4500).columns, 2);
    assert_int_equal(lt_tiling_share(&o, 8, 900, 4500).columns, 1);
}

static lt_image_processor small_processor(void)
{
    lt_image_processor p = lt_image_processor_default();
    p.patch = 2;
    p.temporal = 1;
    p.mean[0] = 0.485;
    p.mean[1] = 0.456;
    p.mean[2] = 0.406;
    p.std[0] = 0.229;
    p.std[1] = 0.224;
    p.std[2] = 0.225;
    p.resampler = LT_RESAMPLE_PILLOW;
    return p;
}

/** A picture of h x w whose bytes differ from each other. */
static lt_image picture(void *state, int64_t h, int64_t w)
{
    lt_image image = {.px = lt_test_take(state, (size_t)(3 * h * w)), .h = h, .w = w};
    for (int64_t i = 0; i < 3 * h * w; i++)
        image.px[i] = (uint8_t)(i * 7 + i / 5);
    return image;
}

enum { TILE = 4, TILE_BYTES = 4 * 12, N_BYTES = 4 * 8 * 3 };

/** Byte (y, x, c) of a tile in its patch rows: merge groups of 2 x 2 patches are the whole tile. */
static int64_t place_of(int64_t y, int64_t x, int64_t c)
{
    return ((y / 2 * 2 + x / 2) * 3 + c) * 4 + y % 2 * 2 + x % 2;
}

// 8 x 4 pixels are two tiles as they stand; the thumbnail is the whole picture resized.
static void tiles_are_cut_row_by_row_and_the_thumbnail_comes_last(void **state)
{
    const lt_image_processor p = small_processor();
    const lt_image image = picture(*state, 4, 8);
    lt_tiling_opts o = lt_tiling_opts_default();
    lt_image small = {0};
    uint8_t rows[3][TILE_BYTES], thumb[TILE_BYTES];
    o.tile = TILE;
    const lt_tiling t = lt_tiling_choose(&o, image.h, image.w);
    assert_int_equal(lt_tiling_count(&t), 3);
    assert_ok(lt_tiling_rows(&p, &o, &t, &image, LT_U8, rows));
    for (int64_t i = 0; i < N_BYTES; i++) {
        const int64_t y = i / 24, x = i / 3 % 8;
        assert_int_equal(rows[x / TILE][place_of(y, x % TILE, i % 3)], image.px[i]);
    }
    assert_ok(lt_image_resize(&p, &image, TILE, TILE, &small));
    assert_ok(lt_image_patches(&p, &small, LT_U8, thumb));
    assert_memory_equal(rows[2], thumb, TILE_BYTES);
    lt_image_deinit(&small);
}

// spec data-pipeline 9.2: byte / 255, minus the mean, by the deviation, each rounded to float.
static void values_are_normalised_in_three_roundings(void **state)
{
    const lt_image_processor p = small_processor();
    const lt_image image = picture(*state, TILE, TILE);
    const lt_tiling t = {.columns = 1, .rows = 1};
    lt_tiling_opts o = lt_tiling_opts_default();
    float rows[TILE_BYTES];
    o.tile = TILE;
    assert_ok(lt_tiling_rows(&p, &o, &t, &image, LT_F32, rows));
    for (int64_t i = 0; i < TILE_BYTES; i++) {
        const float v = (float)image.px[i] / 255.0F;
        const float d = v - (float)p.mean[i % 3], n = d / (float)p.std[i % 3];
        assert_true(rows[place_of(i / 12, i / 3 % TILE, i % 3)] == n);
    }
}

// 4 x 2 pixels in the middle of 4 x 4, the rest (123, 116, 103).
static void padding_has_the_mean_as_its_colour(void **state)
{
    static const int grey[3] = {123, 116, 103};
    const lt_image_processor p = small_processor();
    const lt_image image = picture(*state, 2, 4);
    const lt_tiling t = {.columns = 1, .rows = 1};
    lt_tiling_opts o = lt_tiling_opts_default();
    uint8_t rows[TILE_BYTES];
    o.tile = TILE;
    o.pad_square = true;
    assert_ok(lt_tiling_rows(&p, &o, &t, &image, LT_U8, rows));
    for (int64_t i = 0; i < TILE_BYTES; i++) {
        const int64_t y = i / 12 - 1, x = i / 3 % TILE;
        const int want = y >= 0 && y < 2 ? image.px[(y * 4 + x) * 3 + i % 3] : grey[i % 3];
        assert_int_equal(rows[place_of(i / 12, x, i % 3)], want);
    }
    const lt_image thin = {.h = 1, .w = 1 << 20};
    assert_fails(lt_tiling_rows(&p, &o, &t, &thin, LT_U8, rows), LT_ERR_DATA,
                 "cannot be padded to a square");
}

LT_TEST_MAIN(LT_TEST(the_nearest_aspect_wins_and_large_pictures_get_more_tiles),
             LT_TEST(a_tie_goes_to_the_later_grid_where_the_picture_is_large),
             LT_TEST(pictures_of_a_record_share_the_tiles),
             LT_TEST(tiles_are_cut_row_by_row_and_the_thumbnail_comes_last),
             LT_TEST(values_are_normalised_in_three_roundings),
             LT_TEST(padding_has_the_mean_as_its_colour))
