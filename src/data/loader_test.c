// SPDX-License-Identifier: Apache-2.0
// The loader: order, cursor, errors and stopping, with and without threads.
#include "data/loader.h"

#include <stdatomic.h>
#include <unistd.h>

#include "tests/kit/lt_test.h"

enum { N_ROWS = 37, MICRO = 3 };

/** A data set whose row r has r % 5 + 2 tokens, all r; its rows take unequal time. */
typedef struct data_set {
    atomic_int encoded;
    int64_t bad_row; // -1: none
    bool slow;
} data_set;

static lt_status encode(void *ctx, int64_t row, lt_arena *arena, lt_vec *out)
{
    data_set *d = ctx;
    void *memory = NULL;
    atomic_fetch_add(&d->encoded, 1);
    if (row == d->bad_row)
        return LT_FAIL(LT_ERR_DATA, "data.json, record %lld: a bad row", (long long)row);
    if (d->slow)
        usleep((unsigned)(row * 7919 % 400));
    const int64_t n = row % 5 + 2;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int32_t), &memory));
    int32_t *ids = memory;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)row;
    const lt_sample sample = {
        .ids = ids, .labels = ids, .n = n, .file = "data.json", .record = row};
    return lt_vec_push(out, &sample);
}

static lt_sampler *new_sampler(int64_t consumed)
{
    lt_sampler_opts o = lt_sampler_opts_default();
    lt_sampler *s = NULL;
    o.n_samples = N_ROWS;
    o.micro_batch = MICRO;
    o.consumed = consumed;
    assert_ok(lt_sampler_create(&o, NULL, &s));
    return s;
}

static lt_loader *new_loader(data_set *d, lt_sampler *s, int workers, int64_t prefetch,
                             int64_t held)
{
    lt_loader_opts o = lt_loader_opts_default();
    lt_loader *l = NULL;
    o.n_workers = workers;
    o.prefetch = prefetch;
    o.max_held = held;
    o.encode = encode;
    o.encode_ctx = d;
    assert_ok(lt_loader_create(&o, s, &l));
    return l;
}

/** The batch is what the sampler would give next. */
static void check_batch(const lt_batch *b, lt_sampler *truth)
{
    int64_t rows[MICRO];
    assert_ok(lt_sampler_next(truth, rows));
    assert_int_equal(b->n_samples, MICRO);
    for (int i = 0; i < MICRO; i++) {
        assert_int_equal(b->segments[i + 1] - b->segments[i], rows[i] % 5 + 2);
        for (int32_t t = b->segments[i]; t < b->segments[i + 1]; t++)
            assert_int_equal(b->ids[t], rows[i]);
    }
}

static void batches_come_in_the_samplers_order_whatever_the_threads(void **state)
{
    static const int workers[] = {0, 1, 2, 7};
    (void)state;
    for (size_t k = 0; k < sizeof workers / sizeof workers[0]; k++) {
        data_set d = {.bad_row = -1, .slow = true};
        lt_sampler *truth = new_sampler(0), *s = new_sampler(0);
        lt_loader *l = new_loader(&d, s, workers[k], 5, 1);
        for (int i = 0; i < 40; i++) { // over several epochs
            const lt_batch *b = NULL;
            assert_ok(lt_loader_acquire(l, &b));
            check_batch(b, truth);
            lt_loader_release(l, b);
        }
        lt_loader_destroy(l);
        lt_sampler_destroy(s);
        lt_sampler_destroy(truth);
    }
}

static void prefetched_batches_do_not_count_as_consumed(void **state)
{
    data_set d = {.bad_row = -1};
    lt_sampler *s = new_sampler(0);
    lt_loader *l = new_loader(&d, s, 2, 6, 1);
    const lt_batch *b = NULL;
    (void)state;
    assert_int_equal(lt_loader_consumed(l), 0);
    for (int i = 0; i < 5; i++) {
        assert_ok(lt_loader_acquire(l, &b));
        lt_loader_release(l, b);
        assert_int_equal(lt_loader_consumed(l), MICRO * (i + 1));
    }
    while (atomic_load(&d.encoded) < MICRO * 9) // the workers run ahead ...
        usleep(100);
    assert_int_equal(lt_loader_consumed(l), MICRO * 5); // ... the cursor doesn't
    const int64_t cursor = lt_loader_consumed(l);
    lt_loader_destroy(l);
    lt_sampler_destroy(s);
    // A loader made from that cursor goes on with the sixth batch.
    lt_sampler *truth = new_sampler(0), *resumed = new_sampler(cursor);
    int64_t rows[MICRO];
    for (int i = 0; i < 5; i++)
        assert_ok(lt_sampler_next(truth, rows));
    l = new_loader(&d, resumed, 2, 2, 1);
    assert_int_equal(lt_loader_consumed(l), cursor);
    for (int i = 0; i < 10; i++) {
        assert_ok(lt_loader_acquire(l, &b));
        check_batch(b, truth);
        lt_loader_release(l, b);
    }
    lt_loader_destroy(l);
    lt_sampler_destroy(resumed);
    lt_sampler_destroy(truth);
}

static void a_group_of_batches_may_be_held_and_given_back_in_any_order(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers += 3) {
        data_set d = {.bad_row = -1};
        lt_sampler *truth = new_sampler(0), *s = new_sampler(0);
        lt_loader *l = new_loader(&d, s, workers, 2, 4);
        for (int group = 0; group < 12; group++) {
            const lt_batch *b[4];
            for (int i = 0; i < 4; i++)
                assert_ok(lt_loader_acquire(l, &b[i]));
            for (int i = 0; i < 4; i++) // still intact, though later ones were fetched
                check_batch(b[i], truth);
            for (int i = 0; i < 4; i++)
                lt_loader_release(l, b[(group + i * 3) % 4]);
        }
        lt_loader_destroy(l);
        lt_sampler_destroy(s);
        lt_sampler_destroy(truth);
    }
}

static void a_bad_row_fails_its_own_batch_and_stays(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 4; workers += 2) {
        lt_sampler *order = new_sampler(0), *s = new_sampler(0);
        int64_t rows[MICRO] = {0};
        for (int i = 0; i < 4; i++)
            assert_ok(lt_sampler_next(order, rows));
        data_set d = {.bad_row = rows[1], .slow = true}; // in the fourth batch
        lt_loader *l = new_loader(&d, s, workers, 6, 1);
        const lt_batch *b = NULL;
        for (int i = 0; i < 3; i++) {
            assert_ok(lt_loader_acquire(l, &b));
            lt_loader_release(l, b);
        }
        for (int i = 0; i < 2; i++) {
            assert_fails(lt_loader_acquire(l, &b), LT_ERR_DATA, "data.json, record ");
            assert_text_contains(lt_error_message(), "a bad row");
            assert_int_equal(lt_loader_consumed(l), 3 * MICRO);
        }
        lt_loader_destroy(l);
        lt_sampler_destroy(s);
        lt_sampler_destroy(order);
    }
}

static void a_bad_row_is_replaced_by_the_next_one_where_that_is_asked_for(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers++) {
        lt_sampler *order = new_sampler(0), *s = new_sampler(0);
        int64_t rows[MICRO] = {0};
        for (int i = 0; i < 4; i++)
            assert_ok(lt_sampler_next(order, rows));
        data_set d = {.bad_row = rows[1], .slow = true}; // in the fourth batch
        lt_loader_opts o = lt_loader_opts_default();
        lt_loader *l = NULL;
        o.n_workers = workers;
        o.encode = encode;
        o.encode_ctx = &d;
        o.n_rows = N_ROWS;
        assert_ok(lt_loader_create(&o, s, &l));
        const lt_batch *b = NULL;
        for (int i = 0; i < 4; i++) {
            assert_ok(lt_loader_acquire(l, &b));
            if (i < 3)
                lt_loader_release(l, b);
        }
        rows[1] = (rows[1] + 1) % N_ROWS;
        for (int i = 0; i < MICRO; i++)
            assert_int_equal(b->ids[b->segments[i]], rows[i]);
        assert_int_equal(lt_loader_consumed(l), 4 * MICRO);
        assert_true(lt_loader_replaced(l) >= 1);
        lt_loader_release(l, b);
        lt_loader_destroy(l);
        lt_sampler_destroy(s);
        lt_sampler_destroy(order);
    }
}

static void it_stops_at_any_time(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        data_set d = {.bad_row = round % 3 == 0 ? round : -1, .slow = true};
        lt_sampler *s = new_sampler(0);
        lt_loader *l = new_loader(&d, s, 1 + round % 4, 1 + round % 5, 2);
        const lt_batch *b = NULL;
        for (int i = 0; i < round % 6; i++) {
            if (lt_loader_acquire(l, &b) == LT_OK && round % 2 == 0)
                lt_loader_release(l, b);
            else if (i > 0) // two are held, or it failed
                break;
        }
        if (round % 7 == 0)
            usleep(500);
        lt_loader_destroy(l); // also with batches still held
        lt_sampler_destroy(s);
    }
}

static void waiting_is_counted_and_options_are_checked(void **state)
{
    data_set d = {.bad_row = -1, .slow = true};
    lt_sampler *s = new_sampler(0);
    lt_loader *l = new_loader(&d, s, 0, 1, 1);
    const lt_batch *b = NULL;
    (void)state;
    assert_ok(lt_loader_acquire(l, &b));
    assert_true(lt_loader_waited_s(l) > 0.0);
    lt_loader_destroy(l);
    l = NULL;
    lt_loader_opts o = lt_loader_opts_default();
    o.n_workers = -1;
    assert_fails(lt_loader_create(&o, s, &l), LT_ERR_CONFIG, "data loader: -1 workers");
    o.n_workers = 1;
    o.prefetch = 0;
    assert_fails(lt_loader_create(&o, s, &l), LT_ERR_CONFIG, "0 batches ahead");
    lt_sampler_destroy(s);
    lt_loader_destroy(NULL);
}

LT_TEST_MAIN(LT_TEST(batches_come_in_the_samplers_order_whatever_the_threads),
             LT_TEST(prefetched_batches_do_not_count_as_consumed),
             LT_TEST(a_group_of_batches_may_be_held_and_given_back_in_any_order),
             LT_TEST(a_bad_row_fails_its_own_batch_and_stays),
             LT_TEST(a_bad_row_is_replaced_by_the_next_one_where_that_is_asked_for),
             LT_TEST(it_stops_at_any_time), LT_TEST(waiting_is_counted_and_options_are_checked))
