// SPDX-License-Identifier: Apache-2.0
#include "data/vision_geometry.h"

#include "tests/kit/lt_test.h"

/** Arrays for those grids. */
static lt_vision_geometry take(void *state, lt_vision_sizes s)
{
    const size_t n = (size_t)s.n_patches;
    return (lt_vision_geometry){.segments = lt_test_take(state, (size_t)(s.n_frames + 1) * 4),
                                .row_col = lt_test_take(state, 2 * n * 4),
                                .corner = lt_test_take(state, 4 * n * 4),
                                .corner_weight = lt_test_take(state, 4 * n * 4)};
}

static void rows_and_columns_run_block_by_block(void **state)
{
    // spec models 13.3: block-major order of a 4 x 4 grid
    static const int want[16][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3},
                                    {2, 0}, {2, 1}, {3, 0}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {3, 3}};
    const lt_grid g = {1, 4, 4};
    lt_vision_sizes s;
    assert_ok(lt_vision_count(&g, 1, 2, &s));
    const lt_vision_geometry v = take(*state, s);
    assert_ok(lt_vision_geometry_fill(&g, 1, 2, 48, &v));
    for (int i = 0; i < 16; i++) {
        assert_int_equal(v.row_col[i], want[i][0]);
        assert_int_equal(v.row_col[16 + i], want[i][1]);
    }
}

static void corners_are_the_bilinear_ones(void **state)
{
    // spec models 13.3, h = 4 in a table of 48: (0, 1, 0), (15, 16, 2/3), (31, 32, 1/3), (47, 47,
    // 0)
    static const int low[4] = {0, 15, 31, 47}, high[4] = {1, 16, 32, 47};
    static const double part[4] = {0, 2.0 / 3.0, 1.0 / 3.0, 0};
    const lt_grid g = {1, 4, 4};
    lt_vision_sizes s;
    assert_ok(lt_vision_count(&g, 1, 2, &s));
    const lt_vision_geometry v = take(*state, s);
    assert_ok(lt_vision_geometry_fill(&g, 1, 2, 48, &v));
    for (int64_t i = 0; i < 16; i++) {
        const int y = v.row_col[i], x = v.row_col[16 + i];
        assert_int_equal(v.corner[4 * i], low[y] * 48 + low[x]);
        assert_int_equal(v.corner[4 * i + 1], low[y] * 48 + high[x]);
        assert_int_equal(v.corner[4 * i + 2], high[y] * 48 + low[x]);
        assert_int_equal(v.corner[4 * i + 3], high[y] * 48 + high[x]);
        // float32 coordinates near 47 are good to 2^-19
        assert_near((double)v.corner_weight[4 * i], (1 - part[y]) * (1 - part[x]), 4e-6);
        assert_near((double)v.corner_weight[4 * i + 1], (1 - part[y]) * part[x], 4e-6);
        assert_near((double)v.corner_weight[4 * i + 2], part[y] * (1 - part[x]), 4e-6);
        assert_near((double)v.corner_weight[4 * i + 3], part[y] * part[x], 4e-6);
    }
}

static void corners_stay_inside_and_weights_sum_to_one_at_any_size(void **state)
{
    for (int64_t h = 2; h < 70; h += 2) {
        for (int64_t side = 1; side < 50; side += 7) {
            const lt_grid g = {1, h, 2};
            lt_vision_sizes s;
            assert_ok(lt_vision_count(&g, 1, 2, &s));
            const lt_vision_geometry v = take(*state, s);
            assert_ok(lt_vision_geometry_fill(&g, 1, 2, side, &v));
            for (int64_t i = 0; i < s.n_patches; i++) {
                double sum = 0;
                for (int k = 0; k < 4; k++) {
                    assert_in_range(v.corner[4 * i + k], 0, side * side - 1);
                    assert_true(v.corner_weight[4 * i + k] >= 0.0F);
                    sum += (double)v.corner_weight[4 * i + k];
                }
                assert_near(sum, 1.0, 1e-6);
            }
        }
    }
}

static void every_frame_is_a_segment(void **state)
{
    const lt_grid g[] = {{1, 4, 6}, {3, 2, 4}, {1, 2, 2}};
    static const int want[6] = {0, 24, 32, 40, 48, 52};
    lt_vision_sizes s;
    assert_ok(lt_vision_count(g, 3, 2, &s));
    assert_int_equal(s.n_patches, 52);
    assert_int_equal(s.n_tokens, 13);
    assert_int_equal(s.n_frames, 5);
    lt_vision_geometry v = take(*state, s);
    v.corner = NULL; // nobody asks for corners
    v.corner_weight = NULL;
    assert_ok(lt_vision_geometry_fill(g, 3, 2, 0, &v));
    for (int i = 0; i < 6; i++)
        assert_int_equal(v.segments[i], want[i]);
    // every slice of a video has the same rows and columns
    for (int i = 0; i < 8; i++)
        assert_int_equal(v.row_col[24 + i], v.row_col[40 + i]);
}

static void no_grids_make_an_empty_geometry(void **state)
{
    lt_vision_sizes s;
    assert_ok(lt_vision_count(NULL, 0, 2, &s));
    assert_int_equal(s.n_patches, 0);
    const lt_vision_geometry v = take(*state, s);
    v.segments[0] = 7;
    assert_ok(lt_vision_geometry_fill(NULL, 0, 2, 48, &v));
    assert_int_equal(v.segments[0], 0);
}

static void grids_that_cannot_be_are_refused(void **state)
{
    lt_vision_sizes s;
    int64_t side = 0;
    (void)state;
    assert_fails(lt_vision_count(&(lt_grid){1, 3, 4}, 1, 2, &s), LT_ERR_SHAPE, "multiples of 2");
    assert_fails(lt_vision_count(&(lt_grid){0, 4, 4}, 1, 2, &s), LT_ERR_SHAPE, "must be positive");
    assert_fails(lt_vision_count(&(lt_grid){INT64_MAX / 2, 4, 4}, 1, 2, &s), LT_ERR_SHAPE,
                 "too large");
    assert_fails(lt_vision_count(&(lt_grid){1, INT64_MAX - 1, 2}, 1, 2, &s), LT_ERR_SHAPE,
                 "too large");
    assert_ok(lt_vision_table_side(2304, &side));
    assert_int_equal(side, 48);
    assert_fails(lt_vision_table_side(2305, &side), LT_ERR_CONFIG, "2305, which isn't a square");
    assert_fails(lt_vision_table_side(-4, &side), LT_ERR_CONFIG, "isn't a square");
}

LT_TEST_MAIN(LT_TEST(rows_and_columns_run_block_by_block), LT_TEST(corners_are_the_bilinear_ones),
             LT_TEST(corners_stay_inside_and_weights_sum_to_one_at_any_size),
             LT_TEST(every_frame_is_a_segment), LT_TEST(no_grids_make_an_empty_geometry),
             LT_TEST(grids_that_cannot_be_are_refused))
