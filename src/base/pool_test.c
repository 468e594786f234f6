// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/pool.h"
#include "tests/kit/lt_test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MANY = 5000 };

typedef struct tally {
    atomic_int times[MANY];
    atomic_int bad_thread;
    int n_threads;
    lt_pool *pool;
    int64_t fail_from, fail_step; // these indices fail; 0: none
} tally;

static lt_status count(void *ctx, int64_t i, int thread)
{
    tally *t = ctx;
    if (thread < 0 || thread >= t->n_threads)
        atomic_store(&t->bad_thread, 1);
    atomic_fetch_add(&t->times[i], 1);
    if (t->fail_step && i >= t->fail_from && i % t->fail_step == 0)
        return LT_FAIL(LT_ERR_DATA, "index %lld is bad", (long long)i);
    return LT_OK;
}

static void every_index_runs_once(void **state)
{
    (void)state;
    static tally t;
    for (int n = 1; n <= 4; n++) {
        t = (tally){.n_threads = n};
        lt_pool *pool;
        assert_ok(lt_pool_create(n, &pool));
        assert_int_equal(lt_pool_threads(pool), n);
        assert_ok(lt_pool_run(pool, 0, count, &t));
        assert_ok(lt_pool_run(pool, MANY, count, &t));
        for (int64_t small = 1; small < 300; small++)
            assert_ok(lt_pool_run(pool, small % 7, count, &t));
        lt_pool_destroy(pool);
        assert_int_equal(t.bad_thread, 0);
        assert_int_equal(t.times[MANY - 1], 1);
        assert_int_equal(t.times[5],
                         1 + 42); // 299 = 42 * 7 + 5: of each seven loops, one reaches index 5
    }
    lt_pool_destroy(NULL);
}

static void the_lowest_failure_is_the_one_reported(void **state)
{
    (void)state;
    static tally t;
    lt_pool *pool;
    assert_ok(lt_pool_create(3, &pool));
    for (int round = 0; round < 200; round++) {
        t = (tally){.n_threads = 3, .fail_from = 10 + round, .fail_step = 1};
        char want[32];
        snprintf(want, sizeof want, "index %d is bad", 10 + round);
        assert_fails(lt_pool_run(pool, MANY, count, &t), LT_ERR_DATA, want);
        for (int i = 0; i < 10 + round; i++)
            assert_int_equal(t.times[i], 1);
    }
    t = (tally){.n_threads = 3}; // and the next loop is a fresh one
    assert_ok(lt_pool_run(pool, MANY, count, &t));
    lt_pool_destroy(pool);
}

static lt_status run_inner(void *ctx, int64_t i, int thread)
{
    (void)i;
    (void)thread;
    tally *t = ctx;
    return lt_pool_run(t->pool, 10, count, t);
}

static void a_loop_inside_a_loop_runs_in_place(void **state)
{
    (void)state;
    static tally t;
    t = (tally){.n_threads = 4};
    assert_ok(lt_pool_create(4, &t.pool));
    assert_ok(lt_pool_run(t.pool, 100, run_inner, &t));
    for (int i = 0; i < 10; i++)
        assert_int_equal(t.times[i], 100);
    assert_int_equal(t.bad_thread, 0);
    lt_pool_destroy(t.pool);
}

static void *run_many(void *arg)
{
    tally *t = arg;
    for (int i = 0; i < 50; i++)
        if (lt_pool_run(t->pool, 100, count, t) != LT_OK)
            atomic_store(&t->bad_thread, 1);
    return NULL;
}

static void several_threads_may_share_a_pool(void **state)
{
    (void)state;
    static tally t;
    t = (tally){.n_threads = 3};
    assert_ok(lt_pool_create(3, &t.pool));
    pthread_t ids[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, run_many, &t), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(t.times[i], 150);
    assert_int_equal(t.bad_thread, 0);
    lt_pool_destroy(t.pool);
}

static void without_a_pool_the_caller_does_it_all(void **state)
{
    (void)state;
    static tally t;
    t = (tally){.n_threads = 1, .fail_from = 7, .fail_step = 7};
    assert_int_equal(lt_pool_threads(NULL), 1);
    assert_fails(lt_pool_run(NULL, 20, count, &t), LT_ERR_DATA, "index 7 is bad");
    assert_int_equal(t.times[7], 1);
}

static void odd_thread_counts_are_refused(void **state)
{
    (void)state;
    lt_pool *pool;
    assert_fails(lt_pool_create(-1, &pool), LT_ERR_CONFIG, "got -1");
    assert_fails(lt_pool_create(100000, &pool), LT_ERR_CONFIG, "got 100000");
    assert_ok(lt_pool_create(0, &pool));
    assert_true(lt_pool_threads(pool) >= 1);
    lt_pool_destroy(pool);
}

static void keep_line(void *ctx, lt_log_level level, const char *area, const char *text)
{
    snprintf(ctx, 64, "%d %s %s", (int)level, area, text);
}

static void log_lines_reach_the_callback(void **state)
{
    (void)state;
    char line[64] = "";
    const lt_log log = {keep_line, line}, silent = {0};
    LT_WARN(&log, "data", "record %d is long", 3);
    assert_text_equal(line, "3 data record 3 is long");
    LT_INFO(&silent, "data", "nothing");
    LT_NOTE(NULL, "data", "nothing");
    assert_true(lt_clock_now() > 0);
}

LT_TEST_MAIN(LT_TEST(every_index_runs_once), LT_TEST(the_lowest_failure_is_the_one_reported),
             LT_TEST(a_loop_inside_a_loop_runs_in_place), LT_TEST(several_threads_may_share_a_pool),
             LT_TEST(without_a_pool_the_caller_does_it_all), LT_TEST(odd_thread_counts_are_refused),
             LT_TEST(log_lines_reach_the_callback))
