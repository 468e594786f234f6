// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "tests/kit/lt_test.h"
#include <string.h>
#include <unistd.h>

static void a_written_file_reads_back(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "numbers");
    lt_writer *w;
    assert_ok(lt_writer_create(path, &w));
    enum { LARGE = (3 << 20) + 5 };
    char *large = lt_test_take(*state, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7);
    assert_ok(lt_writer_put(w, "head", 4));
    assert_ok(lt_writer_put(w, large, LARGE));
    for (int i = 0; i < 300000; i++)
        assert_ok(lt_writer_put(w, "tail!", 5));
    assert_ok(lt_writer_close(&w));
    assert_null(w);

    lt_buf all = {0};
    assert_ok(lt_file_read(path, 0, &all));
    assert_int_equal(all.len, 4 + LARGE + 1500000);
    assert_memory_equal(all.data, "head", 4);
    assert_memory_equal(all.data + 4, large, LARGE);
    assert_memory_equal(all.data + all.len - 5, "tail!", 6);

    lt_mapped map;
    assert_ok(lt_file_map(path, &map));
    assert_int_equal(map.bytes, all.len);
    assert_memory_equal(map.data, all.data, all.len);
    lt_file_unmap(&map);
    int64_t bytes;
    assert_ok(lt_file_size(path, &bytes));
    assert_int_equal(bytes, all.len);
    lt_buf_deinit(&all);
}

static void missing_files_and_folders_are_named(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "none");
    lt_buf all = {0};
    lt_mapped map;
    int64_t bytes;
    lt_vec names = LT_VEC_OF(char *);
    lt_writer *w;
    assert_fails(lt_file_read(path, 0, &all), LT_ERR_NOT_FOUND, "/none: No such file or directory");
    assert_fails(lt_file_map(path, &map), LT_ERR_NOT_FOUND, "/none: No such file");
    assert_fails(lt_file_size(path, &bytes), LT_ERR_NOT_FOUND, "/none: No such file");
    assert_fails(lt_dir_list(path, *state, &names), LT_ERR_NOT_FOUND,
                 "cannot list the folder /tmp");
    assert_fails(lt_path_rename(path, "x"), LT_ERR_NOT_FOUND, "cannot rename");
    assert_fails(lt_file_copy(path, "x"), LT_ERR_NOT_FOUND, "/none");
    assert_fails(lt_writer_create(lt_test_path(*state, path, "file"), &w), LT_ERR_NOT_FOUND,
                 "cannot create");
    assert_fails(lt_file_read("/tmp", 0, &all), LT_ERR_IO, "/tmp: it is a folder");
    assert_false(lt_file_exists(path));
    assert_false(lt_file_is_dir(path));
    assert_ok(lt_dir_remove(path));
}

static void a_limit_stops_the_reader(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "ten");
    lt_test_write(path, "0123456789", 10);
    lt_buf all = {0};
    assert_ok(lt_file_read(path, 10, &all));
    assert_text_equal(all.data, "0123456789");
    assert_fails(lt_file_read(path, 9, &all), LT_ERR_FORMAT, "longer than the 9 bytes");
    assert_text_equal(all.data, "0123456789"); // written on success only
    assert_fails(lt_file_read("/dev/zero", 100000, &all), LT_ERR_FORMAT, "/dev/zero is longer");
    lt_buf_deinit(&all);
}

static void an_empty_file_can_be_mapped(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "empty");
    lt_test_write(path, "", 0);
    lt_mapped map;
    assert_ok(lt_file_map(path, &map));
    assert_int_equal(map.bytes, 0);
    assert_non_null(map.data);
    lt_file_unmap(&map);
    lt_buf all = {0};
    assert_ok(lt_file_read(path, 5, &all));
    assert_text_equal(all.data, "");
    lt_buf_deinit(&all);
}

static void a_full_disk_is_told_with_path_and_bytes(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip(); // no /dev/full here: nothing else pretends to be full
    static const char block[2 << 20];
    lt_writer *w;
    assert_ok(lt_writer_create("/dev/full", &w));
    assert_ok(lt_writer_put(w, "abc", 3));
    assert_fails(lt_writer_close(&w), LT_ERR_IO,
                 "cannot write /dev/full: 0 of the 3 bytes wanted after byte 0 were written: No "
                 "space left on device");
    assert_null(w);
    assert_ok(lt_writer_create("/dev/full", &w));
    assert_fails(lt_writer_put(w, block, sizeof block), LT_ERR_IO, "0 of the 2097152 bytes");
    lt_writer_abandon(w);
    lt_writer_abandon(NULL);
}

static void folders_are_made_listed_and_removed(void **state)
{
    const char *dir = lt_test_dir(*state), *deep = lt_test_path(*state, dir, "a/b//c/");
    assert_ok(lt_dir_make(deep));
    assert_ok(lt_dir_make(deep));
    assert_true(lt_file_is_dir(deep));
    lt_test_write(lt_test_path(*state, dir, "a/z"), "1", 1);
    lt_test_write(lt_test_path(*state, dir, "a/B"), "1", 1);
    assert_int_equal(symlink("/", lt_test_path(*state, dir, "a/root")), 0); // must not be followed
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(lt_test_path(*state, dir, "a"), *state, &names));
    assert_int_equal(names.n, 4);
    assert_text_equal(LT_AT(&names, char *, 0), "B");
    assert_text_equal(LT_AT(&names, char *, 1), "b");
    assert_text_equal(LT_AT(&names, char *, 2), "root");
    assert_text_equal(LT_AT(&names, char *, 3), "z");
    lt_vec_deinit(&names);
    assert_fails(lt_dir_make(lt_test_path(*state, dir, "a/z/y")), LT_ERR_IO,
                 "cannot make the folder");
    assert_ok(lt_dir_remove(lt_test_path(*state, dir, "a")));
    assert_false(lt_file_exists(lt_test_path(*state, dir, "a")));
}

static void replacing_leaves_one_whole_file(void **state)
{
    const char *dir = lt_test_dir(*state), *path = lt_test_path(*state, dir, "tracker");
    assert_ok(lt_file_replace(path, "10", 2));
    assert_ok(lt_file_replace(path, "20", 2));
    assert_text_equal(lt_test_read(*state, path, NULL), "20");
    assert_ok(lt_file_copy(path, lt_test_path(*state, dir, "copy")));
    assert_text_equal(lt_test_read(*state, lt_test_path(*state, dir, "copy"), NULL), "20");
    assert_fails(lt_file_replace(lt_test_path(*state, dir, "no/where"), "1", 1), LT_ERR_NOT_FOUND,
                 "no/where");
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(dir, *state, &names));
    assert_int_equal(names.n, 2); // no temporary neighbour is left
    lt_vec_deinit(&names);
}

static void paths_join_with_one_slash(void **state)
{
    assert_text_equal(lt_test_path(*state, "a", "b"), "a/b");
    assert_text_equal(lt_test_path(*state, "a/", "b"), "a/b");
    assert_text_equal(lt_test_path(*state, "a", "/b"), "/b");
    assert_text_equal(lt_test_path(*state, "", "b"), "b");
}

LT_TEST_MAIN(LT_TEST(a_written_file_reads_back), LT_TEST(missing_files_and_folders_are_named),
             LT_TEST(a_limit_stops_the_reader), LT_TEST(an_empty_file_can_be_mapped),
             LT_TEST(a_full_disk_is_told_with_path_and_bytes),
             LT_TEST(folders_are_made_listed_and_removed), LT_TEST(replacing_leaves_one_whole_file),
             LT_TEST(paths_join_with_one_slash))
