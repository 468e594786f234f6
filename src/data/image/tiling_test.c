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

LT_TEST_MAIN(LT_TEST(the_nearest_aspect_wins_and_large_pictures_get_more_tiles),
             LT_TEST(a_tie_goes_to_the_later_grid_where_the_picture_is_large))
