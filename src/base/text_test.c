// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>
#include <string.h>

static void buffers_grow_and_stay_terminated(void **state)
{
    (void)state;
    lt_buf b = {0};
    assert_ok(lt_buf_text(&b, "a"));
    assert_ok(lt_buf_append(&b, "b\0c", 3));
    assert_ok(lt_buf_printf(&b, "%05d", 42));
    assert_int_equal(b.len, 9);
    assert_memory_equal(b.data, "ab\0c00042", 10);
    lt_buf_clear(&b);
    assert_text_equal(b.data, "");
    for (int i = 0; i < 1000; i++)
        assert_ok(lt_buf_printf(&b, "%d,", i));
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(b.data), b.len);
    assert_fails(lt_buf_append(&b, "", SIZE_MAX), LT_ERR_MEMORY, "a text wanted");
    lt_buf_deinit(&b);
    assert_null(b.data);
    assert_ok(lt_buf_append(&b, NULL, 0));
    assert_text_equal(b.data, "");
    lt_buf_deinit(&b);
}

static void maps_find_what_was_put(void **state)
{
    (void)state;
    lt_map *map;
    char key[32];
    int64_t v = -1;
    assert_ok(lt_map_create(&map));
    assert_false(lt_map_get_text(map, "none", &v));
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "layers.%d", i);
        assert_ok(lt_map_put_text(map, key, i));
    }
    assert_ok(lt_map_put_text(map, "layers.7", -7));
    assert_int_equal(lt_map_count(map), 20000);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "layers.%d", i);
        assert_true(lt_map_get_text(map, key, &v));
        assert_int_equal(v, i == 7 ? -7 : i);
    }
    assert_false(lt_map_get_text(map, "layers.20000", &v));
    lt_map_destroy(map);
    lt_map_destroy(NULL);
}

static void keys_are_byte_strings_of_any_length(void **state)
{
    (void)state;
    lt_map *map;
    int64_t v = 0;
    assert_ok(lt_map_create(&map));
    const char bytes[] = "a\0b\0c\0d\0e\0f\0g\0h\0";
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_ok(lt_map_put(map, bytes, len, (int64_t)len));
    for (size_t len = 0; len < sizeof bytes; len++) {
        assert_true(lt_map_get(map, bytes, len, &v));
        assert_int_equal(v, len);
    }
    lt_map_destroy(map);
}

static void starts_and_ends_are_told(void **state)
{
    (void)state;
    assert_true(lt_text_starts("model.visual", "model."));
    assert_false(lt_text_starts("mod", "model."));
    assert_true(lt_text_ends("a.weight", ".weight") && lt_text_ends("x", ""));
    assert_false(lt_text_ends("weight", ".weight"));
}

static void distances_count_edits(void **state)
{
    (void)state;
    assert_int_equal(lt_text_distance("", "abc"), 3);
    assert_int_equal(lt_text_distance("kitten", "sitting"), 3);
    assert_int_equal(lt_text_distance("lear", "lera"), 1);
    assert_int_equal(lt_text_distance("ca", "abc"), 3); // no edit inside a swap
    assert_int_equal(lt_text_distance("same", "same"), 0);
}

static void the_nearest_name_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"train_iters", "lr", "min_lr", "save_interval"};
    assert_text_equal(lt_text_nearest("train_iter", names, 4), "train_iters");
    assert_text_equal(lt_text_nearest("sav_interval", names, 4), "save_interval");
    assert_text_equal(lt_text_nearest("min_rl", names, 4), "min_lr");
    assert_null(lt_text_nearest("momentum", names, 4));
    assert_null(lt_text_nearest("lr2", names, 0));
    char word[300];
    memset(word, 'w', sizeof word);
    word[299] = 0;
    assert_null(lt_text_nearest(word, names, 4));
}

static void counts_and_sizes_read_well(void **state)
{
    (void)state;
    assert_text_equal(lt_bytes_text(512).s, "512 B");
    assert_text_equal(lt_bytes_text(1536).s, "1.5 KiB");
    assert_text_equal(lt_bytes_text(3LL << 29).s, "1.5 GiB");
    assert_text_equal(lt_bytes_text((1LL << 30) - 1).s, "1.0 GiB");
    assert_text_equal(lt_bytes_text(INT64_MAX).s, "8.0 EiB");
    assert_text_equal(lt_count_text(999).s, "999");
    assert_text_equal(lt_count_text(8767123456).s, "8.77 B");
    assert_text_equal(lt_count_text(415300000).s, "415.3 M");
    assert_text_equal(lt_count_text(999999).s, "1.00 M");
    assert_text_equal(lt_count_text(-2500).s, "-2.50 K");
}

LT_TEST_MAIN(LT_TEST(buffers_grow_and_stay_terminated), LT_TEST(maps_find_what_was_put),
             LT_TEST(keys_are_byte_strings_of_any_length), LT_TEST(starts_and_ends_are_told),
             LT_TEST(distances_count_edits), LT_TEST(the_nearest_name_is_near),
             LT_TEST(counts_and_sizes_read_well))
