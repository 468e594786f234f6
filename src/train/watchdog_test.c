// SPDX-License-Identifier: Apache-2.0
// The watchdog speaks when nothing moves, says where, and is silent otherwise.
#include "train/watchdog.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "tests/kit/lt_test.h"

// Lines as they came; read when the watchdog's thread has ended.
typedef struct lines {
    int n;
    char first[256];
} lines;

static void put(void *ctx, lt_log_level level, const char *area, const char *text)
{
    lines *l = ctx;
    assert_int_equal(level, LT_LOG_WARN);
    assert_string_equal(area, "watchdog");
    if (l->n++ == 0)
        (void)snprintf(l->first, sizeof l->first, "%s", text);
}

static const char *now(const void *ctx)
{
    return ctx;
}

static void wait_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static void a_stage_that_lasts_is_named(void **state)
{
    static const struct {
        const char *stage, *who, *says;
    } cases[] = {{"waiting for data", NULL, "step 7 is at waiting for data"},
                 {NULL, NULL, "step 7 is at BACKWARD"},
                 {NULL, "rank 2 of 4 on node7", "rank 2 of 4 on node7: nothing has moved for "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lines l = {0};
        const lt_log log = {put, &l};
        lt_watchdog *w = NULL;
        assert_ok(lt_watchdog_create(&(lt_watchdog_opts){.patience_s = 0.02,
                                                         .who = cases[i].who,
                                                         .now = now,
                                                         .ctx = "BACKWARD",
                                                         .log = &log},
                                     &w));
        lt_watchdog_stage(w, 7, cases[i].stage);
        wait_ms(300);
        lt_watchdog_destroy(w);
        assert_in_range(l.n, 1, 8); // a silence is told of when it has doubled
        assert_text_contains(l.first, cases[i].says);
    }
}

static void what_moves_is_not_spoken_of(void **state)
{
    lines l = {0};
    const lt_log log = {put, &l};
    lt_watchdog *w = NULL;
    (void)state;
    assert_ok(lt_watchdog_create(
        &(lt_watchdog_opts){.patience_s = 30.0, .now = now, .ctx = "FORWARD", .log = &log}, &w));
    for (int64_t step = 1; step < 20; step++)
        lt_watchdog_stage(w, step, NULL);
    lt_watchdog_destroy(w); // at once: it does not wait for the next look
    assert_int_equal(l.n, 0);
    lt_watchdog_stage(NULL, 1, NULL);
    lt_watchdog_destroy(NULL);
}

// Slow steps are no silence: a stage of the run's own measure is given ten times the longest.
static void patience_grows_with_the_steps(void **state)
{
    lines l = {0};
    const lt_log log = {put, &l};
    lt_watchdog *w = NULL;
    (void)state;
    assert_ok(lt_watchdog_create(
        &(lt_watchdog_opts){.patience_s = 0.2, .now = now, .ctx = "FORWARD", .log = &log}, &w));
    lt_watchdog_stage(w, 1, NULL);
    wait_ms(120);
    lt_watchdog_stage(w, 2, NULL); // the longest is 0.12 s now, so 1.2 s are given
    wait_ms(500);
    lt_watchdog_destroy(w);
    assert_int_equal(l.n, 0);
}

LT_TEST_MAIN(LT_TEST(a_stage_that_lasts_is_named), LT_TEST(what_moves_is_not_spoken_of),
             LT_TEST(patience_grows_with_the_steps))
