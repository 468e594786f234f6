// SPDX-License-Identifier: Apache-2.0
// What the macros of lt_test.h call.
#include "tests/kit/lt_test.h"
#include "base/file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 24 };

// One test runs at a time, so its scratch folders may be listed here.
static char dirs[MAX_DIRS][64];
static int n_dirs;

int lt_test_setup(void **state)
{
    lt_arena *arena;
    lt_error_clear();
    if (lt_arena_create(&arena, "a test") != LT_OK)
        return -1;
    *state = arena;
    return 0;
}

int lt_test_teardown(void **state)
{
    int rc = 0;
    for (; n_dirs > 0; n_dirs--) {
        if (lt_dir_remove(dirs[n_dirs - 1]) == LT_OK)
            continue;
        print_error("%s\n", lt_error_message());
        rc = -1;
    }
    lt_arena_destroy(*state);
    return rc;
}

void lt_test_ok(lt_status st, const char *call, const char *file, int line)
{
    if (st == LT_OK)
        return;
    print_error("%s\n  gave \"%s\": %s\n", call, lt_status_text(st), lt_error_message());
    _fail(file, line);
}

void lt_test_fails(lt_status st, lt_status code, const char *part, const char *call,
                   const char *file, int line)
{
    if (st != code) {
        print_error("%s\n  should give \"%s\", gave \"%s\": %s\n", call, lt_status_text(code),
                    lt_status_text(st), lt_error_message());
        _fail(file, line);
    }
    lt_test_text_contains(lt_error_message(), part, file, line);
}

void lt_test_text_equal(const char *got, const char *want, const char *file, int line)
{
    if (strcmp(got, want) == 0)
        return;
    int row = 1;
    const char *g = got, *w = want;
    for (;; row++) {
        const size_t ng = strcspn(g, "\n"), nw = strcspn(w, "\n");
        if (ng != nw || memcmp(g, w, ng) != 0 || g[ng] != w[nw]) {
            print_error("line %d of the text is\n  %.*s\nand should be\n  %.*s\n", row, (int)ng, g,
                        (int)nw, w);
            break;
        }
        g += ng + 1;
        w += nw + 1;
    }
    _fail(file, line);
}

void lt_test_text_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("the text\n  %s\nlacks\n  %s\n", text, part);
    _fail(file, line);
}

void lt_test_near(double got, double want, double tol, const char *file, int line)
{
    if (got == want || fabs(got - want) <= tol)
        return;
    print_error("got %.17g, want %.17g within %g\n", got, want, tol);
    _fail(file, line);
}

const char *lt_test_dir(void *state)
{
    (void)state;
    assert_true(n_dirs < MAX_DIRS);
    char *dir = dirs[n_dirs];
    memcpy(dir, "/tmp/lathe-test-XXXXXX", sizeof "/tmp/lathe-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    n_dirs++;
    return dir;
}

const char *lt_test_path(void *state, const char *dir, const char *name)
{
    char *path;
    assert_ok(lt_path_join(state, dir, name, &path));
    return path;
}

void *lt_test_take(void *state, size_t bytes)
{
    void *ptr;
    assert_ok(lt_arena_take(state, bytes, &ptr));
    return ptr;
}

const char *lt_test_golden(void *state, const char *name)
{
    const char *asked = getenv("LATHE_GOLDEN"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    const char *const places[] = {asked, "../shared/golden", "shared/golden", "tests/golden"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i])
            continue;
        const char *path = lt_test_path(state, places[i], name);
        if (lt_file_exists(path))
            return path;
    }
    return NULL;
}

char *lt_test_read(void *state, const char *path, size_t *len)
{
    lt_buf all = {0};
    assert_ok(lt_file_read(path, 0, &all));
    char *copy;
    assert_ok(lt_arena_text(state, all.data, all.len, &copy));
    if (len)
        *len = all.len;
    lt_buf_deinit(&all);
    return copy;
}

void lt_test_write(const char *path, const void *bytes, size_t len)
{
    lt_writer *w;
    assert_ok(lt_writer_create(path, &w));
    assert_ok(lt_writer_put(w, bytes, len));
    assert_ok(lt_writer_close(&w));
}
