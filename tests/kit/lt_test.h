// SPDX-License-Identifier: Apache-2.0
// The test kit: cmocka with an arena as each test's state, statuses that print their message,
// scratch folders.
#ifndef LT_TESTS_KIT_LT_TEST_H
#define LT_TESTS_KIT_LT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"

/**
 * A test is `static void it_does_this(void **state)`; *state is its lt_arena, which ends with it.
 */
#define LT_TEST(fn) cmocka_unit_test_setup_teardown(fn, lt_test_setup, lt_test_teardown)
/** main() of a test program: LT_TEST_MAIN(LT_TEST(this_holds), LT_TEST(that_holds)) */
#define LT_TEST_MAIN(...)                                                                          \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest lt_tests_[] = {__VA_ARGS__};                                       \
        return cmocka_run_group_tests_name(__FILE__, lt_tests_, NULL, NULL);                       \
    }

int lt_test_setup(void **state);
int lt_test_teardown(void **state);

/** The call gives LT_OK; else its message is printed. */
#define assert_ok(call) lt_test_ok((call), #call, __FILE__, __LINE__)
/** The call gives `code`, and the message contains `part`. */
#define assert_fails(call, code, part)                                                             \
    lt_test_fails((call), (code), (part), #call, __FILE__, __LINE__)
/** Equal texts; the first line that differs is printed. */
#define assert_text_equal(got, want) lt_test_text_equal((got), (want), __FILE__, __LINE__)
#define assert_text_contains(text, part) lt_test_text_contains((text), (part), __FILE__, __LINE__)
/** |got - want| <= tol; a NaN never is. */
#define assert_near(got, want, tol) lt_test_near((got), (want), (tol), __FILE__, __LINE__)

void lt_test_ok(lt_status st, const char *call, const char *file, int line);
void lt_test_fails(lt_status st, lt_status code, const char *part, const char *call,
                   const char *file, int line);
void lt_test_text_equal(const char *got, const char *want, const char *file, int line);
void lt_test_text_contains(const char *text, const char *part, const char *file, int line);
void lt_test_near(double got, double want, double tol, const char *file, int line);

/**
 * A fresh folder, removed with all that is in it when the test ends. One test may ask for several.
 */
const char *lt_test_dir(void *state);
/** dir/name, in the test's arena. */
const char *lt_test_path(void *state, const char *dir, const char *name);
/** Zeroed memory from the test's arena. */
void *lt_test_take(void *state, size_t bytes);
/**
 * The path of a golden file or folder such as "sampler/randperm.json": below $LATHE_GOLDEN,
 * ../shared/golden, shared/golden
 * or tests/golden, whichever has it first. NULL when none has it: the test then says skip() with a
 * reason.
 */
const char *lt_test_golden(void *state, const char *name);
/**
 * The bytes of a file, with a final zero, in the test's arena; *len may be NULL. Fails the test
 * when it cannot be read.
 */
char *lt_test_read(void *state, const char *path, size_t *len);
/** Write a file whole. */
void lt_test_write(const char *path, const void *bytes, size_t len);
#endif
