// SPDX-License-Identifier: Apache-2.0
// mpirun -n N mpi_collectives [--different-calls]: the collectives of ranks that are processes.
#include "comm/mpi/mpi.h"
#include "tests/kit/comm_checks.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

// More than travels at once, and in pieces that do not come out even. Whole numbers, whose sums
// are exact.
enum { MANY = 5000003 };

static float whole(int32_t rank, int64_t i)
{
    return (float)((i * 7 + (int64_t)rank * 13) % 1000);
}

static lt_status check_large(lt_group *g, float *x, bool all)
{
    const int32_t n = lt_group_size(g), rank = lt_group_rank(g);
    const lt_pieces half[] = {
        {.full = x, .total = MANY / 3, .chunk = lt_ceil_div(MANY / 3, n)},
        {.full = x + MANY / 3, .total = MANY - MANY / 3, .chunk = lt_ceil_div(MANY - MANY / 3, n)}};
    for (int64_t i = 0; i < MANY; i++)
        x[i] = whole(rank, i);
    LT_TRY(all ? lt_all_reduce(g, half, 2, LT_F32) : lt_reduce_scatter(g, half, 2, LT_F32));
    for (int k = 0; k < 2; k++) {
        const int64_t from = all ? 0 : lt_min_i64(half[k].total, rank * half[k].chunk),
                      to = all ? half[k].total : lt_min_i64(half[k].total, from + half[k].chunk);
        for (int64_t i = from; i < to; i++) {
            float want = 0.0F;
            for (int32_t r = 0; r < n; r++)
                want += whole(r, i + (k ? MANY / 3 : 0));
            if (((const float *)half[k].full)[i] != want)
                return LT_FAIL(LT_ERR_NUMERIC, "element %lld of part %d of a large sum",
                               (long long)i, k);
        }
    }
    return LT_OK;
}

static lt_status check(lt_group *world)
{
    void *memory = NULL;
    LT_TRY(lt_check_sums(NULL, world));
    LT_TRY(lt_check_bytes(NULL, world));
    for (int32_t width = 1; width <= 8 && lt_group_size(world) == 8; width *= 2)
        LT_TRY(lt_check_nested_sums(&width, world));
    LT_TRY(lt_mem_alloc(&memory, MANY * sizeof(float), "numbers"));
    lt_status st = check_large(world, memory, false);
    if (st == LT_OK)
        st = check_large(world, memory, true);
    lt_mem_free(memory);
    return st;
}

int main(int argc, char **argv)
{
    lt_mpi *mpi = NULL;
    lt_status st = lt_mpi_open(&mpi);
    lt_group *world = lt_mpi_world(mpi);
    if (st == LT_OK && !world)
        st = LT_FAIL(LT_ERR_CONFIG, "usage: mpirun -n N mpi_collectives [--different-calls]");
    const bool differ = argc > 1 && strcmp(argv[1], "--different-calls") == 0;
    if (st == LT_OK)
        st = differ ? lt_issue_different_calls(NULL, world) : check(world);
    if (lt_mpi_settle(mpi, &st))
        (void)printf("%s\n", st == LT_OK ? "all as it should be" : lt_error_message());
    (void)fflush(stdout);
    lt_mpi_close(mpi, st, 1);
    return st != LT_OK;
}
