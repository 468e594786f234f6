// SPDX-License-Identifier: Apache-2.0
// What becomes of a folder when its saving fails or is killed.
#include "ckpt/publish.h"
#include "tests/kit/model_folder.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const test_tensor old_model[] = {{"w", 0, "F32", 4}},
                         new_model[] = {{"w", 0, "F32", 300000}};

static int64_t count_entries(void **state, const char *dir)
{
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(dir, *state, &names));
    const int64_t n = names.n;
    lt_vec_deinit(&names);
    return n;
}

static void assert_size_of_w(const char *dir, int64_t n)
{
    lt_hf *hf;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    assert_int_equal(lt_hf_find(hf, "w")->dim[0], n);
    lt_hf_close(hf);
}

// A plan that saves `model`, which is written to ROOT/in; what is to be replaced is ROOT/out.
static lt_hf_plan make_plan(void **state, const char *root, lt_hf **source)
{
    const char *in = lt_test_path(*state, root, "in");
    test_model(*state, in, new_model, 1, 1);
    test_model(*state, lt_test_path(*state, root, "out"), old_model, 1, 1);
    assert_ok(lt_hf_open(in, NULL, source));
    lt_hf_plan plan = test_plan(*state, *source, NULL);
    plan.replace = true;
    return plan;
}

static void a_folder_in_the_way_is_only_replaced_when_told(void **state)
{
    const char *root = lt_test_dir(*state), *out = lt_test_path(*state, root, "out");
    lt_hf *source;
    lt_hf_plan plan = make_plan(state, root, &source);
    plan.replace = false;
    assert_fails(lt_hf_save(out, &plan, NULL), LT_ERR_IO,
                 "out can't be written: it exists and isn't empty");
    assert_size_of_w(out, 4);
    test_put(*state, root, "file", "");
    assert_fails(lt_hf_save(lt_test_path(*state, root, "file"), &plan, NULL), LT_ERR_IO,
                 "a file of that name is in the way");
    assert_ok(lt_dir_make(lt_test_path(*state, root, "empty")));
    assert_ok(lt_hf_save(lt_test_path(*state, root, "empty"), &plan, NULL));
    plan.replace = true;
    assert_ok(lt_hf_save(lt_test_path(*state, root, "out///"), &plan, NULL));
    assert_size_of_w(out, 300000);
    assert_ok(lt_hf_save(lt_test_path(*state, root, "in"), &plan,
                         NULL)); // over its own source, which stays mapped
    assert_size_of_w(lt_test_path(*state, root, "in"), 300000);
    assert_int_equal(count_entries(state, root), 4); // in, out, file, empty
    lt_hf_close(source);
}

static lt_status fetch_that_fails(void *ctx, int64_t first, int64_t n, void *dst)
{
    (void)ctx;
    memset(dst, 0, (size_t)n * 4);
    return first == 0 ? LT_OK : LT_FAIL(LT_ERR_DEVICE, "the device is gone");
}

static void a_failed_save_changes_nothing_and_leaves_nothing(void **state)
{
    const char *root = lt_test_dir(*state), *out = lt_test_path(*state, root, "out");
    lt_hf *source;
    lt_hf_plan plan = make_plan(state, root, &source);
    lt_hf_item item = plan.items[0];
    item.fetch = fetch_that_fails;
    plan.items = &item;
    assert_fails(lt_hf_save(out, &plan, NULL), LT_ERR_DEVICE, "tensor w: the device is gone");
    assert_text_contains(lt_error_message(), "saving the model to");
    assert_size_of_w(out, 4);
    assert_int_equal(count_entries(state, root), 2);
    lt_hf_close(source);
}

// ---- no room

static void room_is_checked_before_anything_is_written(void **state)
{
    const char *root = lt_test_dir(*state);
    lt_hf *source;
    lt_hf_plan plan = make_plan(state, root, &source);
    lt_hf_item item = plan.items[0];
    item.dim[0] = INT64_C(1) << 55; // 2^57 bytes: no disk has them
    plan.items = &item;
    assert_fails(lt_hf_save(lt_test_path(*state, root, "not/there"), &plan, NULL), LT_ERR_IO,
                 "not/there: it wants 14411518807");
    assert_int_equal(count_entries(state, root), 2);
    lt_hf_close(source);
}

static void assert_child_succeeds(pid_t child)
{
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

// The limit on the size of files works everywhere; in a child, since it can't be lifted again.
static void a_disk_that_fills_up_loses_nothing(void **state)
{
    const char *root = lt_test_dir(*state), *out = lt_test_path(*state, root, "out");
    lt_hf *source;
    const lt_hf_plan plan = make_plan(state, root, &source);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = {500000, 500000};
        const bool right = setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                           lt_hf_save(out, &plan, NULL) == LT_ERR_IO &&
                           strstr(lt_error_message(), "model.safetensors") != NULL &&
                           strstr(lt_error_message(), "bytes wanted") != NULL;
        _exit(right ? 0 : 1);
    }
    assert_child_succeeds(child);
    assert_size_of_w(out, 4);
    assert_int_equal(count_entries(state, root), 2);
    lt_hf_close(source);
}

// In a mount namespace of the child's own, so that nothing is left mounted.
static int save_on_a_small_disk(const char *disk, const lt_hf_plan *plan)
{
    enum { CANNOT = 77 };
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", disk, "tmpfs", 0, "size=2600k") != 0)
        return CANNOT;
    lt_buf path = {0};
    if (lt_buf_printf(&path, "%s/out", disk) != LT_OK || lt_hf_save(path.data, plan, NULL) != LT_OK)
        return 1; // 1.2 MB and the slack fit once
    // No room for the second, by the check before; the first is still whole.
    if (lt_hf_save(path.data, plan, NULL) != LT_ERR_IO ||
        strstr(lt_error_message(), "no room for") == NULL)
        return 2;
    // And none by the file system itself: written without asking first.
    char *tmp;
    lt_arena *arena;
    if (lt_arena_create(&arena, "test") != LT_OK ||
        lt_publish_begin(path.data, true, arena, &tmp) != LT_OK || lt_hf_write(tmp, plan) != LT_OK)
        return 3;
    char *third;
    if (lt_arena_printf(arena, &third, "%s/third", disk) != LT_OK || lt_dir_make(third) != LT_OK ||
        lt_hf_write(third, plan) != LT_ERR_IO ||
        strstr(lt_error_message(), lt_errno_text(ENOSPC)) == NULL)
        return 4;
    lt_publish_abort(tmp);
    if (strstr(lt_error_message(), lt_errno_text(ENOSPC)) == NULL || lt_file_exists(tmp))
        return 5;
    lt_hf *hf;
    const bool whole =
        lt_hf_open(path.data, NULL, &hf) == LT_OK && lt_hf_find(hf, "w")->dim[0] == 300000;
    return whole ? 0 : 6;
}

static void a_small_file_system_gives_the_systems_reason(void **state)
{
    const char *root = lt_test_dir(*state), *disk = lt_test_path(*state, root, "disk");
    lt_hf *source;
    const lt_hf_plan plan = make_plan(state, root, &source);
    assert_ok(lt_dir_make(disk));
    const pid_t child = fork();
    if (child == 0)
        _exit(save_on_a_small_disk(disk, &plan));
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    lt_hf_close(source);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) {
        print_message("mounting a small file system needs rights that this process lacks\n");
        skip();
    }
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

// ---- killed

static lt_status fetch_and_wait(void *ctx, int64_t first, int64_t n, void *dst)
{
    const int *pipe_end = ctx;
    memset(dst, 0, (size_t)n * 4);
    if (first > 0) {
        if (write(*pipe_end, "x", 1) != 1)
            _exit(1);
        pause();
    }
    return LT_OK;
}

static void a_killed_save_leaves_the_old_model_and_is_swept_up_by_the_next(void **state)
{
    const char *root = lt_test_dir(*state), *out = lt_test_path(*state, root, "out");
    lt_buf lines = {0};
    const lt_log log = {test_log_line, &lines};
    lt_hf *source;
    int ends[2], how;
    char byte;
    const lt_hf_plan plan = make_plan(state, root, &source);
    lt_hf_plan slow = plan;
    lt_hf_item item = plan.items[0];
    assert_int_equal(pipe(ends), 0);
    item.fetch = fetch_and_wait;
    item.ctx = &ends[1];
    slow.items = &item;
    const pid_t child = fork();
    if (child == 0) {
        _exit(lt_hf_save(out, &slow, NULL) == LT_OK ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1); // in the middle of the tensor
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_size_of_w(out, 4);
    assert_int_equal(count_entries(state, root), 3);
    assert_ok(lt_hf_save(out, &plan, &log));
    assert_text_contains(lines.data, "was killed before it was done with it");
    assert_size_of_w(out, 300000);
    assert_int_equal(count_entries(state, root), 2);
    close(ends[0]);
    close(ends[1]);
    lt_buf_deinit(&lines);
    lt_hf_close(source);
}

static void temporaries_of_living_processes_and_other_names_stay(void **state)
{
    const char *root = lt_test_dir(*state);
    static const char *const stay[] = {
        "iter_1.tmp-1",        "iter_2.tmp-x1",          "iter_3.tmp-",
        "other.tmp-999999999", "iter_4.tmp-99999999999", "iter_5"};
    for (int i = 0; i < 6; i++)
        assert_ok(lt_dir_make(lt_test_path(*state, root, stay[i])));
    assert_ok(lt_dir_make(lt_test_path(*state, root, "iter_6.tmp-999999999/x")));
    assert_ok(lt_publish_clean(root, "iter_", NULL));
    assert_int_equal(count_entries(state, root), 6);
    for (int i = 0; i < 6; i++)
        assert_true(lt_file_exists(lt_test_path(*state, root, stay[i])));
    assert_ok(lt_publish_clean(lt_test_path(*state, root, "nowhere"), "iter_", NULL));
}

// A kill between the two renames of a file system that can't exchange.
static void a_folder_that_was_moved_aside_comes_back(void **state)
{
    const char *root = lt_test_dir(*state),
               *aside = lt_test_path(*state, root, "iter_1.old-999999999");
    const char *dir = lt_test_path(*state, root, "iter_1");
    assert_ok(lt_dir_make(aside));
    test_put(*state, aside, "x", "old");
    assert_ok(lt_publish_recover(dir, NULL));
    assert_text_equal(test_get(*state, dir, "x"), "old");
    assert_ok(lt_dir_make(aside)); // killed after the second rename: the new one is there
    test_put(*state, aside, "x", "older");
    assert_ok(lt_publish_clean(root, "iter_", NULL));
    assert_text_equal(test_get(*state, dir, "x"), "old");
    assert_false(lt_file_exists(aside));
}

static void paths_are_split_at_their_last_name(void **state)
{
    static const char *const cases[][3] = {
        {"/a/b/", "/a", "b"}, {"/a", "/", "a"}, {"a", ".", "a"}, {"a/b", "a", "b"}, {"/", "/", ""}};
    for (int i = 0; i < 5; i++) {
        char *parent, *name;
        assert_ok(lt_publish_split(cases[i][0], *state, &parent, &name));
        assert_string_equal(parent, cases[i][1]);
        assert_string_equal(name, cases[i][2]);
    }
}

LT_TEST_MAIN(LT_TEST(a_folder_in_the_way_is_only_replaced_when_told),
             LT_TEST(a_failed_save_changes_nothing_and_leaves_nothing),
             LT_TEST(room_is_checked_before_anything_is_written),
             LT_TEST(a_disk_that_fills_up_loses_nothing),
             LT_TEST(a_small_file_system_gives_the_systems_reason),
             LT_TEST(a_killed_save_leaves_the_old_model_and_is_swept_up_by_the_next),
             LT_TEST(temporaries_of_living_processes_and_other_names_stay),
             LT_TEST(a_folder_that_was_moved_aside_comes_back),
             LT_TEST(paths_are_split_at_their_last_name))
