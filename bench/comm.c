// SPDX-License-Identifier: Apache-2.0
// comm [-n RANKS] [--mib SIZE] [--runs N]: collectives of ranks on the CPU against the rate at
// which all of them copy memory at once, one JSON line each; under mpirun between processes.
#include "base/log.h"
#include "base/memory.h"
#include "comm/local.h"
#include "comm/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    int32_t ranks;
    int64_t n; /* f32 elements of a tensor */
    int runs;
    const char *kind;
} settings;

typedef struct tensors {
    float *full, *other; /* [n] */
} tensors;

typedef lt_status (*bench_fn)(lt_group *g, const tensors *t, int64_t n);

static lt_status copy(lt_group *g, const tensors *t, int64_t n)
{
    memcpy(t->other, t->full, (size_t)n * sizeof(float));
    return lt_barrier(g);
}

static lt_pieces whole(lt_group *g, const tensors *t, int64_t n)
{
    return (lt_pieces){t->full, t->other, n, lt_ceil_div(n, lt_group_size(g))};
}

static lt_status gather(lt_group *g, const tensors *t, int64_t n)
{
    const lt_pieces p = whole(g, t, n);
    return lt_all_gather(g, &p, 1, LT_F32);
}

static lt_status scatter(lt_group *g, const tensors *t, int64_t n)
{
    const lt_pieces p = whole(g, t, n);
    return lt_reduce_scatter(g, &p, 1, LT_F32);
}

static lt_status reduce(lt_group *g, const tensors *t, int64_t n)
{
    const lt_pieces p = whole(g, t, n);
    return lt_all_reduce(g, &p, 1, LT_F32);
}

static const struct {
    const char *name;
    bench_fn fn;
} cases[] = {
    {"copy", copy}, {"all_gather", gather}, {"reduce_scatter", scatter}, {"all_reduce", reduce}};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

// The best of some runs, on the first rank.
static lt_status measure(lt_group *g, const settings *s, const tensors *t, bench_fn fn, double *out)
{
    *out = 1e9;
    LT_TRY(fn(g, t, s->n));
    for (int i = 0; i < s->runs; i++) {
        memset(t->full, 0, (size_t)s->n * sizeof(float));
        LT_TRY(lt_barrier(g));
        const double begin = lt_clock_now();
        LT_TRY(fn(g, t, s->n));
        const double seconds = lt_clock_now() - begin;
        *out = seconds < *out ? seconds : *out;
    }
    return LT_OK;
}

static lt_status run_cases(lt_group *g, const settings *s, const tensors *t)
{
    double copy_s = 0.0;
    for (int i = 0; i < N_CASES; i++) {
        double best = 0.0;
        LT_TRY(measure(g, s, t, cases[i].fn, &best));
        copy_s = i == 0 ? best : copy_s;
        if (lt_group_rank(g) != 0)
            continue;
        (void)printf("{\"case\": \"%s\", \"ranks\": %d, \"kind\": \"%s\", \"bytes\": %lld, "
                     "\"ms\": %.3f, \"gb_s\": %.2f, \"of_copy\": %.3f}\n",
                     cases[i].name, lt_group_size(g), s->kind, (long long)s->n * 4, best * 1e3,
                     (double)s->n * 4e-9 / best, copy_s / best);
        (void)fflush(stdout);
    }
    return LT_OK;
}

static lt_status rank_of(void *ctx, lt_group *g)
{
    const settings *s = ctx;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)s->n * 2 * sizeof(float), "tensors"));
    memset(memory, 0, (size_t)s->n * 2 * sizeof(float));
    const tensors t = {memory, (float *)memory + s->n};
    const lt_status st = run_cases(g, s, &t);
    lt_mem_free(memory);
    return st;
}

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const long value = strtol(argv[i + 1], NULL, 10);
        if (value < 1 || value > 4096)
            return false;
        if (strcmp(argv[i], "-n") == 0)
            s->ranks = (int32_t)value;
        else if (strcmp(argv[i], "--mib") == 0)
            s->n = value << 18;
        else if (strcmp(argv[i], "--runs") == 0)
            s->runs = (int)value;
        else
            return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    settings s = {.ranks = 2, .n = 16 << 18, .runs = 5, .kind = "threads"};
    lt_mpi *mpi = NULL;
    if (!parse(argc, argv, &s)) {
        (void)fputs("usage: [mpirun -n N] comm [-n RANKS] [--mib SIZE] [--runs N]\n", stderr);
        return 2;
    }
    lt_status st = lt_mpi_open(&mpi);
    lt_group *world = lt_mpi_world(mpi);
    if (world)
        s.kind = "processes";
    if (st == LT_OK)
        st = world ? rank_of(&s, world) : lt_local_run(s.ranks, rank_of, &s);
    if (lt_mpi_settle(mpi, &st) && st != LT_OK)
        (void)fprintf(stderr, "%s\n", lt_error_message());
    lt_mpi_close(mpi, st, 1);
    return st != LT_OK;
}
