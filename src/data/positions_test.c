// SPDX-License-Identifier: Apache-2.0
// Three-axis positions against golden/rope, and the cases of user reports.
#include "data/positions.h"

#include <jansson.h>
#include <string.h>

#include "data/padded.h"
#include "tests/kit/lt_test.h"

static const lt_vision_ids vision = {
    .image_pad = 151655, .video_pad = 151656, .vision_start = 151652};
enum { START = 151652, END = 151653, IMAGE = 151655, VIDEO = 151656 };

static int32_t *ints_of(void *state, const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    int32_t *out = lt_test_take(state, (size_t)*n * sizeof *out);
    for (int64_t i = 0; i < *n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return out;
}

static const lt_grid *grids_of(void *state, const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    lt_grid *out = lt_test_take(state, (size_t)*n * sizeof *out);
    for (int64_t i = 0; i < *n; i++) {
        const json_t *g = json_array_get(list, (size_t)i);
        out[i] = (lt_grid){json_integer_value(json_array_get(g, 0)),
                           json_integer_value(json_array_get(g, 1)),
                           json_integer_value(json_array_get(g, 2))};
    }
    return out;
}

/** One row of a golden batch; the mask must be as long as the row. */
static lt_status run_row(void *state, const json_t *c, size_t row, lt_grid_cursor *cursor,
                         int32_t *pos)
{
    int64_t n = 0, n_mask = 0;
    const int32_t *ids = ints_of(state, json_array_get(json_object_get(c, "input_ids"), row), &n);
    const int32_t *mask =
        ints_of(state, json_array_get(json_object_get(c, "attention_mask"), row), &n_mask);
    if (n != n_mask)
        return LT_FAIL(LT_ERR_DATA, "a mask of %lld for %lld ids", (long long)n_mask, (long long)n);
    const int32_t fill = strcmp(json_string_value(json_object_get(c, "variant")), "qwen3_vl") == 0;
    int32_t *scratch = lt_test_take(state, 4 * (size_t)n * sizeof *scratch);
    return lt_positions_masked(ids, mask, n, &vision, 2, cursor, fill, scratch, pos, n);
}

static void check_case(void *state, const json_t *c)
{
    lt_grid_cursor cursor = {0};
    cursor.images = grids_of(state, json_object_get(c, "image_grid_thw"), &cursor.n_images);
    cursor.videos = grids_of(state, json_object_get(c, "video_grid_thw"), &cursor.n_videos);
    const json_t *rows = json_object_get(c, "input_ids"),
                 *want = json_object_get(c, "position_ids");
    lt_status st = LT_OK;
    for (size_t r = 0; r < json_array_size(rows) && st == LT_OK; r++) {
        const size_t n = json_array_size(json_array_get(rows, r));
        int32_t *pos = lt_test_take(state, 3 * n * sizeof *pos);
        st = run_row(state, c, r, &cursor, pos);
        for (size_t axis = 0; axis < 3 && st == LT_OK; axis++) {
            int64_t m = 0;
            const int32_t *w = ints_of(state, json_array_get(json_array_get(want, axis), r), &m);
            assert_int_equal(m, n);
            assert_memory_equal(pos + axis * n, w, n * sizeof *w);
        }
    }
    assert_int_equal(st, want != NULL ? LT_OK : LT_ERR_DATA);
}

static void golden_batches_give_the_references_positions(void **state)
{
    const char *path = lt_test_golden(*state, "rope/rope_index.jsonl");
    assert_non_null(path);
    int n = 0;
    for (char *rest = lt_test_read(*state, path, NULL), *line;
         (line = strsep(&rest, "\n")) != NULL;) {
        json_t *c = *line != 0 ? json_loads(line, 0, NULL) : NULL;
        if (c != NULL) {
            check_case(*state, c);
            n++;
        }
        json_decref(c);
    }
    assert_true(n >= 30);
}

static void the_worked_example_comes_out(void **state)
{
    // spec models 13.3: 3 text tokens, a picture of 4 x 6 patches, 2 text tokens
    static const int32_t ids[] = {1, 2, START, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, END, 7};
    static const int32_t want[33] = {0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 0, 1, 2, 3, 3, 3,
                                     4, 4, 4, 6, 7, 0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7};
    const lt_grid g = {1, 4, 6};
    lt_grid_cursor c = {.images = &g, .n_images = 1};
    int32_t pos[33];
    (void)state;
    assert_ok(lt_positions_mrope(ids, 11, &vision, 2, &c, pos, 11, NULL, NULL));
    assert_memory_equal(pos, want, sizeof want);
    assert_int_equal(c.next_image, 1);
}

/** Text, then per slice: stamp, start, pads, end. Returns the length. */
static int64_t put_clip(int32_t *ids, int64_t at, lt_grid g)
{
    for (int64_t t = 0; t < g.t; t++) {
        ids[at++] = 50;
        ids[at++] = START;
        for (int64_t i = 0; i < g.h * g.w / 4; i++)
            ids[at++] = VIDEO;
        ids[at++] = END;
    }
    return at;
}

// BR-19: the grid has one row per video, the text one group per slice.
static void a_videos_grid_row_serves_all_its_slices(void **state)
{
    const lt_grid g = {2, 4, 4}; // 4 frames
    int32_t ids[64], pos[3 * 64];
    const int64_t n = put_clip(ids, 0, g);
    lt_grid_cursor c = {.videos = &g, .n_videos = 1};
    (void)state;
    assert_ok(lt_positions_mrope(ids, n, &vision, 2, &c, pos, n, NULL, NULL));
    // stamp 0, start 1, pads from 2 (2 x 2), end 4; stamp 5, start 6, pads from 7, end 9
    static const int32_t time[14] = {0, 1, 2, 2, 2, 2, 4, 5, 6, 7, 7, 7, 7, 9};
    static const int32_t row[14] = {0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 8, 8, 9};
    static const int32_t col[14] = {0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 8, 7, 8, 9};
    assert_int_equal(n, 14);
    assert_memory_equal(pos, time, sizeof time);
    assert_memory_equal(pos + n, row, sizeof row);
    assert_memory_equal(pos + 2 * n, col, sizeof col);
    assert_int_equal(c.next_video, 1);
    assert_int_equal(c.next_slice, 0);
}

// BR-23: these models have no axis of seconds: a slice moves on by what it holds, at any rate, and
// stands at one time.
static void a_clips_rate_does_not_reach_the_positions(void **state)
{
    const lt_grid once = {1, 4, 4}, g = {4, 4, 4}; // a second at 2 frames a second, and at 8
    int32_t ids[64], pos[3 * 64], alone[3 * 64];
    (void)state;
    const int64_t n = put_clip(ids, 0, g), n_one = put_clip(ids, 0, once);
    lt_grid_cursor c = {.videos = &g, .n_videos = 1}, one = {.videos = &once, .n_videos = 1};
    assert_int_equal(n, 4 * n_one);
    (void)put_clip(ids, 0, g);
    assert_ok(lt_positions_mrope(ids, n, &vision, 2, &c, pos, n, NULL, NULL));
    assert_ok(lt_positions_mrope(ids, n_one, &vision, 2, &one, alone, n_one, NULL, NULL));
    for (int64_t i = 0; i < n; i++) // 5 positions a slice: stamp, start, two rows of pads, end
        for (int64_t k = 0; k < 3; k++)
            assert_int_equal(pos[k * n + i], alone[k * n_one + i % n_one] + 5 * (i / n_one));
}

// BR-20: in a batch of clips the pointer advances by videos, not by slices.
static void the_second_clip_of_a_batch_takes_its_own_grid(void **state)
{
    const lt_grid g[] = {{3, 4, 4}, {5, 2, 6}};
    int32_t first[64], second[64], pos[3 * 64], alone[3 * 64];
    const int64_t n1 = put_clip(first, 0, g[0]), n2 = put_clip(second, 0, g[1]);
    lt_grid_cursor c = {.videos = g, .n_videos = 2}, own = {.videos = g + 1, .n_videos = 1};
    (void)state;
    assert_ok(lt_positions_mrope(first, n1, &vision, 2, &c, pos, n1, NULL, NULL));
    assert_int_equal(c.next_video, 1);
    assert_ok(lt_positions_mrope(second, n2, &vision, 2, &c, pos, n2, NULL, NULL));
    assert_int_equal(c.next_video, 2);
    assert_ok(lt_positions_mrope(second, n2, &vision, 2, &own, alone, n2, NULL, NULL));
    assert_memory_equal(pos, alone, 3 * (size_t)n2 * sizeof *pos);
}

static lt_status positions_of(const int32_t *ids, int64_t n, lt_grid image, int64_t n_images)
{
    int32_t pos[3 * 32];
    lt_grid_cursor c = {.images = &image, .n_images = n_images};
    return lt_positions_mrope(ids, n, &vision, 2, &c, pos, n, NULL, NULL);
}

static void rows_that_do_not_fit_their_grids_are_refused(void **state)
{
    static const int32_t cut[] = {1, START, IMAGE, IMAGE, IMAGE};
    static const int32_t surplus[] = {START, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, END};
    static const int32_t stray[] = {1, IMAGE, 2};
    static const int32_t last[] = {1, 2, START};
    static const int32_t two[] = {START, IMAGE, IMAGE, IMAGE, IMAGE, END, START, IMAGE, END};
    static const int32_t video[] = {START, VIDEO, END};
    const lt_grid g = {1, 4, 4};
    (void)state;
    assert_fails(positions_of(cut, 5, g, 1), LT_ERR_DATA,
                 "3 placeholder tokens where its grid asks for 4 (the row ends there");
    assert_fails(positions_of(surplus, 7, g, 1), LT_ERR_DATA,
                 "5 placeholder tokens where its grid asks for 4");
    assert_fails(positions_of(stray, 3, g, 1), LT_ERR_DATA,
                 "token 1 is a placeholder (id 151655) without");
    assert_fails(positions_of(last, 3, g, 1), LT_ERR_DATA, "ends right after a vision start token");
    assert_fails(positions_of(two, 9, g, 1), LT_ERR_DATA, "picture number 2, but only 1 is there");
    assert_fails(positions_of(video, 3, g, 1), LT_ERR_DATA, "video number 1, but only 0 are there");
}

static void a_vision_start_token_before_text_is_text(void **state)
{
    static const int32_t ids[] = {1, START, 5, 6};
    int32_t pos[12];
    lt_grid_cursor c = {0};
    (void)state;
    assert_ok(lt_positions_mrope(ids, 4, &vision, 2, &c, pos, 4, NULL, NULL));
    for (int i = 0; i < 12; i++)
        assert_int_equal(pos[i], i % 4);
    lt_positions_plain(4, pos, 4);
    for (int i = 0; i < 12; i++)
        assert_int_equal(pos[i], i % 4);
}

LT_TEST_MAIN(LT_TEST(golden_batches_give_the_references_positions),
             LT_TEST(the_worked_example_comes_out),
             LT_TEST(a_videos_grid_row_serves_all_its_slices),
             LT_TEST(a_clips_rate_does_not_reach_the_positions),
             LT_TEST(the_second_clip_of_a_batch_takes_its_own_grid),
             LT_TEST(rows_that_do_not_fit_their_grids_are_refused),
             LT_TEST(a_vision_start_token_before_text_is_text))
