// SPDX-License-Identifier: Apache-2.0
// Sample order against golden/sampler and golden/data, resume, uneven data sets.
#include "data/sampler.h"

#include <jansson.h>
#include <string.h>

#include "tests/kit/lt_test.h"

static int64_t int_of(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static json_t *load(void *state, const char *name)
{
    const char *path = lt_test_golden(state, name);
    assert_non_null(path);
    json_t *root = json_loads(lt_test_read(state, path, NULL), 0, NULL);
    assert_true(json_is_array(root));
    return root;
}

static void check_batch(void *state, lt_sampler *s, const json_t *want)
{
    const size_t m = json_array_size(want);
    int64_t *rows = lt_test_take(state, m * sizeof *rows);
    assert_ok(lt_sampler_next(s, rows));
    for (size_t i = 0; i < m; i++)
        assert_int_equal(rows[i], json_integer_value(json_array_get(want, i)));
}

/** All ranks of one case: nine batches each, from the cursor on, epoch after epoch. */
static void check_ranks(void *state, const json_t *c)
{
    const json_t *ranks = json_object_get(c, "first_batches_per_rank");
    for (size_t r = 0; r < json_array_size(ranks); r++) {
        const json_t *batches = json_array_get(ranks, r), *batch;
        const lt_sampler_opts o = {.n_samples = int_of(c, "num_samples"),
                                   .micro_batch = int_of(c, "micro_batch_size"),
                                   .dp_size = int_of(c, "data_parallel_size"),
                                   .dp_rank = (int64_t)r,
                                   .shuffle = json_is_true(json_object_get(c, "shuffle")),
                                   .data_sharding =
                                       json_is_true(json_object_get(c, "data_sharding")),
                                   .consumed = int_of(c, "consumed_samples")};
        lt_sampler *s = NULL;
        if (json_is_string(batches)) { // ZeroDivisionError
            assert_fails(lt_sampler_create(&o, NULL, &s), LT_ERR_CONFIG,
                         "smaller than one global micro-batch");
            continue;
        }
        assert_ok(lt_sampler_create(&o, NULL, &s));
        size_t i;
        json_array_foreach(batches, i, batch) check_batch(state, s, batch);
        lt_sampler_destroy(s);
    }
}

// Rows 53 and 54 of spec data-pipeline 16.1: N not a multiple of m * D, and N below it.
static void golden_orders_come_out_on_every_rank(void **state)
{
    json_t *cases = load(*state, "sampler/batches.json"), *c;
    size_t i;
    assert_true(json_array_size(cases) >= 144);
    json_array_foreach(cases, i, c) check_ranks(*state, c);
    json_decref(cases);
}

static void two_epochs_of_the_data_goldens_come_out(void **state)
{
    json_t *cases = load(*state, "data/sampler.json"), *c;
    size_t i, e, k;
    json_array_foreach(cases, i, c)
    {
        const lt_sampler_opts o = {.n_samples = int_of(c, "total"),
                                   .micro_batch = int_of(c, "micro_batch"),
                                   .dp_size = int_of(c, "replicas"),
                                   .dp_rank = int_of(c, "rank"),
                                   .shuffle = json_is_true(json_object_get(c, "shuffle")),
                                   .data_sharding =
                                       json_is_true(json_object_get(c, "data_sharding")),
                                   .consumed = int_of(c, "consumed")};
        const json_t *epoch, *batch;
        lt_sampler *s = NULL;
        assert_ok(lt_sampler_create(&o, NULL, &s));
        json_array_foreach(json_object_get(c, "two_epochs"), e, epoch)
            json_array_foreach(epoch, k, batch) check_batch(*state, s, batch);
        lt_sampler_destroy(s);
    }
    json_decref(cases);
}

static void a_resumed_order_goes_on_where_it_stopped(void **state)
{
    lt_sampler_opts o = lt_sampler_opts_default();
    o.n_samples = 23;
    o.micro_batch = 3;
    (void)state;
    for (int stop = 0; stop < 20; stop++) {
        lt_sampler *whole = NULL, *resumed = NULL;
        int64_t a[3], b[3];
        o.consumed = 0;
        assert_ok(lt_sampler_create(&o, NULL, &whole));
        for (int i = 0; i < stop; i++)
            assert_ok(lt_sampler_next(whole, a));
        o.consumed = lt_sampler_consumed(whole);
        assert_int_equal(o.consumed, 3 * stop);
        assert_ok(lt_sampler_create(&o, NULL, &resumed));
        assert_int_equal(lt_sampler_epoch(resumed), o.consumed / 21);
        for (int i = 0; i < 20; i++) {
            assert_ok(lt_sampler_next(whole, a));
            assert_ok(lt_sampler_next(resumed, b));
            assert_memory_equal(a, b, sizeof a);
        }
        lt_sampler_destroy(whole);
        lt_sampler_destroy(resumed);
    }
}

static void count_warning(void *ctx, lt_log_level level, const char *area, const char *text)
{
    assert_int_equal(level, LT_LOG_WARN);
    assert_text_equal(area, "data");
    assert_text_contains(text, "10 samples are no multiple");
    ++*(int *)ctx;
}

static void ranks_of_an_uneven_data_set_part_and_the_even_mode_keeps_them_together(void **state)
{
    // spec data-pipeline 13.1: N = 10, m = 1, D = 4, no shuffle: rank 0 sees 0 4 8, then 4 8, 4 8,
    // ...
    static const int64_t rank0[] = {0, 4, 8, 4, 8, 4, 8}, rank2[] = {2, 6, 2, 6, 2, 6, 2};
    int warnings = 0;
    const lt_log log = {count_warning, &warnings};
    lt_sampler_opts o = {.n_samples = 10, .micro_batch = 1, .dp_size = 4};
    lt_sampler *a = NULL, *b = NULL, *even = NULL;
    int64_t row = 0;
    (void)state;
    assert_ok(lt_sampler_create(&o, &log, &a));
    o.dp_rank = 2;
    assert_ok(lt_sampler_create(&o, &log, &b));
    assert_int_equal(warnings, 2);
    for (int i = 0; i < 7; i++) {
        assert_ok(lt_sampler_next(a, &row));
        assert_int_equal(row, rank0[i]);
        assert_ok(lt_sampler_next(b, &row));
        assert_int_equal(row, rank2[i]);
    }
    o.dp_rank = 0;
    o.even = true;
    assert_ok(lt_sampler_create(&o, &log, &even));
    assert_int_equal(warnings, 2);
    for (int i = 0; i < 6; i++) {
        assert_ok(lt_sampler_next(even, &row));
        assert_int_equal(row, i % 2 * 4);
    }
    lt_sampler_destroy(a);
    lt_sampler_destroy(b);
    lt_sampler_destroy(even);
}

static void cursors_and_sizes_that_cannot_be_are_refused(void **state)
{
    lt_sampler_opts o = lt_sampler_opts_default();
    lt_sampler *s = NULL;
    int64_t rows[2];
    (void)state;
    assert_fails(lt_sampler_create(&o, NULL, &s), LT_ERR_CONFIG, "must all be at least 1");
    o.n_samples = 8;
    o.dp_rank = 1;
    assert_fails(lt_sampler_create(&o, NULL, &s), LT_ERR_CONFIG, "rank 1 is not among 1 ranks");
    o.dp_rank = 0;
    o.consumed = -1;
    assert_fails(lt_sampler_create(&o, NULL, &s), LT_ERR_CONFIG, "must not be negative");
    o.consumed = 7; // one row is left, two make a micro-batch: the reference would loop for ever
    o.micro_batch = 2;
    assert_ok(lt_sampler_create(&o, NULL, &s));
    assert_fails(lt_sampler_next(s, rows), LT_ERR_CONFIG, "after 7 consumed samples");
    lt_sampler_destroy(s);
}

LT_TEST_MAIN(LT_TEST(golden_orders_come_out_on_every_rank),
             LT_TEST(two_epochs_of_the_data_goldens_come_out),
             LT_TEST(a_resumed_order_goes_on_where_it_stopped),
             LT_TEST(ranks_of_an_uneven_data_set_part_and_the_even_mode_keeps_them_together),
             LT_TEST(cursors_and_sizes_that_cannot_be_are_refused))
