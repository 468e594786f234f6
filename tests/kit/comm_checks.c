// SPDX-License-Identifier: Apache-2.0
// Checks of collectives, run by each rank.
#include "tests/kit/comm_checks.h"

#include "base/rng.h"

#include <string.h>

enum { N = 1500, MOST_RANKS = 64 };

static float number(int32_t rank, int64_t i)
{
    return (float)lt_normal((uint64_t)rank + 1, (uint64_t)i) * (i % 3 ? 1.0F : 1e4F);
}

// The tree of the specification, level by level.
static float tree(int32_t n, int64_t i)
{
    float level[MOST_RANKS] = {0};
    for (int32_t r = 0; r < n; r++)
        level[r] = number(r, i);
    for (; n > 1; n = (n + 1) / 2) {
        for (int64_t k = 0; k < (n + 1) / 2; k++)
            level[k] = 2 * k + 1 < n ? level[2 * k] + level[2 * k + 1] : level[2 * k];
    }
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

lt_status lt_check_sums(void *ctx, lt_group *world)
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

// Rows of 4 ranks: sums along both axes of the mesh have the bits of one sum over all.
lt_status lt_check_nested_sums(void *ctx, lt_group *world)
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
    for (int64_t i = 0; i < N && st == LT_OK; i++)
        st = expect(x[i] == y[i], "nested sums");
    lt_group_close(row);
    lt_group_close(column);
    return st;
}

lt_status lt_check_bytes(void *ctx, lt_group *world)
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

lt_status lt_issue_different_calls(void *ctx, lt_group *world)
{
    (void)ctx;
    double x[2] = {0};
    return lt_group_rank(world) == 1 ? lt_barrier(world) : lt_all_reduce_f64(world, x, 2);
}
