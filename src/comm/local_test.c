// SPDX-License-Identifier: Apache-2.0
#include "comm/local.h"

#include "base/rng.h"
#include "tests/kit/lt_test.h"

#include <string.h>
#include <time.h>

enum { N = 1500 };

static float number(int32_t rank, int64_t i)
{
    return (float)lt_normal((uint64_t)rank + 1, (uint64_t)i) * (i % 3 ? 1.0F : 1e4F);
}

// The tree of the specification, level by level.
static float tree(int32_t n, int64_t i)
{
    float level[LT_MAX_LOCAL_RANKS];
    for (int32_t r = 0; r < n; r++)
        level[r] = number(r, i);
    for (; n > 1; n = (n + 1) / 2)
        for (int32_t k = 0; k < (n + 1) / 2; k++)
            level[k] = 2 * k + 1 < n ? level[2 * k] + level[2 * k + 1] : level[2 * k];
    return level[0];
}

static lt_status expect(bool ok, const char *what)
{
    return ok ? LT_OK : LT_FAIL(LT_ERR_NUMERIC, "%s", what);
}

static void fill(float *x, int32_t rank)
{
    for (int64_t i = 0; i < N; i++)
        x[i] = number(rank, i);
}

static lt_status sum_and_compare(void *ctx, lt_group *world)
{
    (void)ctx;
    const int32_t n = lt_group_size(world), rank = lt_group_rank(world);
    float x[N], y[N];
    const int64_t chunk = lt_ceil_div(N, n);
    // Two parts: one cut evenly, one whose late ranks have nothing.
    const lt_pieces parts[] = {{.full = x, .total = N, .chunk = chunk},
                               {.full = y, .total = N, .chunk = N}};
    fill(x, rank);
    fill(y, rank);
    LT_TRY(lt_reduce_scatter(world, parts, 2, LT_F32));
    for (int64_t i = rank * chunk; i < lt_min_i64(N, (rank + 1) * chunk); i++)
        LT_TRY(expect(x[i] == tree(n, i), "reduce-scatter"));
    for (int64_t i = 0; rank == 0 && i < N; i++)
        LT_TRY(expect(y[i] == tree(n, i), "reduce-scatter to one rank"));
    // The sums come back to all.
    float mine[N], all[N];
    memcpy(mine, x, sizeof x);
    const lt_pieces back = {
        .full = all, .shard = mine + lt_min_i64(N, rank * chunk), .total = N, .chunk = chunk};
    LT_TRY(lt_all_gather(world, &back, 1, LT_F32));
    fill(y, rank);
    LT_TRY(lt_all_reduce(world, &parts[1], 1, LT_F32));
    for (int64_t i = 0; i < N; i++)
        LT_TRY(expect(all[i] == tree(n, i) && y[i] == all[i], "all-gather and all-reduce"));
    double ranks = 1.0;
    LT_TRY(lt_all_reduce_f64(world, &ranks, 1));
    return expect((int32_t)ranks == n, "a sum of one number");
}

static void sums_have_the_bits_of_the_tree_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 9; n++)
        assert_ok(lt_local_run(n, sum_and_compare, NULL));
}

// Rows of 4 ranks: sums along both axes of the mesh have the bits of one sum over all.
static lt_status sum_in_two_steps(void *ctx, lt_group *world)
{
    const int32_t width = *(const int32_t *)ctx, rank = lt_group_rank(world);
    lt_group *row = NULL, *column = NULL;
    float x[N], y[N];
    const lt_pieces a = {.full = x, .total = N}, b = {.full = y, .total = N};
    LT_TRY(lt_group_split(world, rank / width, &row));
    LT_TRY(lt_group_split(world, rank % width, &column));
    lt_status st =
        expect(lt_group_size(row) == width && lt_group_rank(row) == rank % width &&
                   lt_group_size(column) == 8 / width && lt_group_rank(column) == rank / width,
               "places in groups");
    fill(x, rank);
    fill(y, rank);
    if (st == LT_OK)
        st = lt_all_reduce(row, &a, 1, LT_F32);
    if (st == LT_OK)
        st = lt_all_reduce(column, &a, 1, LT_F32);
    if (st == LT_OK)
        st = lt_all_reduce(world, &b, 1, LT_F32);
    if (st == LT_OK)
        st = expect(memcmp(x, y, sizeof x) == 0, "nested sums");
    lt_group_close(row);
    lt_group_close(column);
    return st;
}

static void sums_over_blocks_of_ranks_nest(void **state)
{
    (void)state;
    for (int32_t width = 1; width <= 8; width *= 2)
        assert_ok(lt_local_run(8, sum_in_two_steps, &width));
}

static lt_status pass_around(void *ctx, lt_group *world)
{
    (void)ctx;
    const int32_t n = lt_group_size(world), rank = lt_group_rank(world);
    for (int32_t from = 0; from < n; from++) {
        int64_t word = rank == from ? 7 + from : 0;
        LT_TRY(lt_broadcast(world, from, &word, sizeof word));
        LT_TRY(expect(word == 7 + from, "broadcast"));
        word = rank;
        LT_TRY(lt_hand(world, from, 0, rank == 0 || rank == from ? &word : NULL, sizeof word));
        LT_TRY(expect(word == (rank == 0 ? from : rank), "hand"));
    }
    return lt_barrier(world);
}

static void bytes_come_where_they_should(void **state)
{
    (void)state;
    assert_ok(lt_local_run(5, pass_around, NULL));
}

static lt_status fail_on_two(void *ctx, lt_group *world)
{
    (void)ctx;
    double x = 1.0;
    lt_group *half = NULL;
    LT_TRY(lt_group_split(world, lt_group_rank(world) / 2, &half));
    lt_status st = LT_OK;
    for (int i = 0; st == LT_OK && i < 100; i++) {
        if (lt_group_rank(world) == 2 && i == 5)
            st = LT_FAIL(LT_ERR_DATA, "record 17 is broken");
        if (st == LT_OK)
            st = lt_all_reduce_f64(half, &x, 1);
        if (st == LT_OK)
            st = lt_all_reduce_f64(world, &x, 1);
    }
    lt_group_close(half);
    return st;
}

static void a_failing_rank_ends_all_with_its_sentence(void **state)
{
    (void)state;
    assert_fails(lt_local_run(4, fail_on_two, NULL), LT_ERR_DATA,
                 "rank 2 of 4: record 17 is broken");
}

// Rank 0 waits for rank 1, which comes after rank 2 has failed and rank 0 has left.
static lt_status come_late(void *ctx, lt_group *world)
{
    (void)ctx;
    lt_group *pair = NULL;
    LT_TRY(lt_group_split(world, lt_group_rank(world) / 2, &pair));
    lt_status st = LT_OK;
    if (lt_group_rank(world) == 1)
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (lt_group_rank(world) == 2)
        st = LT_FAIL(LT_ERR_DATA, "record 18 is broken");
    else
        st = lt_barrier(pair);
    lt_group_close(pair);
    return st;
}

static void nobody_waits_for_those_who_left(void **state)
{
    (void)state;
    assert_fails(lt_local_run(3, come_late, NULL), LT_ERR_DATA, "record 18 is broken");
}

static lt_status disagree(void *ctx, lt_group *world)
{
    (void)ctx;
    double x[2] = {0};
    return lt_group_rank(world) == 1 ? lt_barrier(world) : lt_all_reduce_f64(world, x, 2);
}

static void different_calls_are_an_error_and_no_hang(void **state)
{
    (void)state;
    assert_fails(lt_local_run(3, disagree, NULL), LT_ERR_INTERNAL, "issues barrier");
}

static void the_number_of_ranks_has_bounds(void **state)
{
    (void)state;
    assert_fails(lt_local_run(0, disagree, NULL), LT_ERR_CONFIG, "0 ranks");
    assert_fails(lt_local_run(65, disagree, NULL), LT_ERR_CONFIG, "65 ranks");
}

LT_TEST_MAIN(LT_TEST(sums_have_the_bits_of_the_tree_on_any_number_of_ranks),
             LT_TEST(sums_over_blocks_of_ranks_nest), LT_TEST(bytes_come_where_they_should),
             LT_TEST(a_failing_rank_ends_all_with_its_sentence),
             LT_TEST(nobody_waits_for_those_who_left),
             LT_TEST(different_calls_are_an_error_and_no_hang),
             LT_TEST(the_number_of_ranks_has_bounds))
