// SPDX-License-Identifier: Apache-2.0
// image PICTURE [SECONDS [THREADS]]: time from file to patch rows on one thread, step by step, then
// pictures a second on several, as JSON lines.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "data/image/image.h"

enum { MAX_RUNS = 4096, MAX_THREADS = 64 };

typedef struct job {
    const char *path;
    lt_image_budget budget;
    lt_image_processor processor;
    lt_image image; // regularised
    void *rows;
    lt_dtype dtype;
} job;

static lt_status run_probe(job *j)
{
    lt_image_info info;
    lt_grid grid;
    LT_TRY(lt_image_probe(j->path, &info));
    return lt_image_grid(&j->processor, &j->budget, info.h, info.w, &grid);
}
static lt_status run_load(job *j)
{
    return lt_image_load(j->path, &j->budget, &j->image);
}
static lt_status run_rows(job *j)
{
    return lt_image_rows(&j->processor, &j->image, j->dtype, j->rows);
}
static lt_status run_all(job *j)
{
    LT_TRY(run_load(j));
    return run_rows(j);
}

static double cpu_now(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static lt_status time_case(const char *name, lt_status (*fn)(job *), job *j, double seconds)
{
    static double t[MAX_RUNS], cpu[MAX_RUNS];
    int n = 0;
    const double end = lt_clock_now() + seconds;
    while (n < MAX_RUNS && (n < 5 || lt_clock_now() < end)) {
        const double start = lt_clock_now(), cpu_start = cpu_now(CLOCK_THREAD_CPUTIME_ID);
        LT_TRY(fn(j));
        cpu[n] = cpu_now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
        t[n++] = lt_clock_now() - start;
    }
    qsort(t, (size_t)n, sizeof t[0], by_value);
    qsort(cpu, (size_t)n, sizeof cpu[0], by_value);
    printf("{\"case\": \"%s\", \"dtype\": \"%s\", \"device\": \"cpu, 1 thread\", \"median_ms\": "
           "%.3f, \"p10_ms\": %.3f, "
           "\"p90_ms\": %.3f, \"cpu_ms\": %.3f, \"cpu_p10_ms\": %.3f, \"per_s\": %.0f}\n",
           name, lt_dtype_name(j->dtype), t[n / 2] * 1e3, t[n / 10] * 1e3, t[n * 9 / 10] * 1e3,
           cpu[n / 2] * 1e3, cpu[n / 10] * 1e3, 1.0 / t[n / 2]);
    return LT_OK;
}

// ---------------------------------------------------------------- several threads

/** A job of its own for each thread. */
typedef struct crew {
    job jobs[MAX_THREADS];
} crew;

static lt_status one_more(void *ctx, int64_t i, int thread)
{
    crew *c = ctx;
    (void)i;
    return run_all(&c->jobs[thread]);
}

static lt_status time_crew(crew *c, lt_pool *pool, double seconds)
{
    const int threads = lt_pool_threads(pool);
    const double start = lt_clock_now(), cpu_start = cpu_now(CLOCK_PROCESS_CPUTIME_ID);
    int64_t n = 0;
    for (; n == 0 || lt_clock_now() < start + seconds; n += 16L * threads)
        LT_TRY(lt_pool_run(pool, 16L * threads, one_more, c));
    const double wall = lt_clock_now() - start, cpu = cpu_now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    printf("{\"case\": \"pictures\", \"dtype\": \"%s\", \"device\": \"cpu, %d threads\", "
           "\"pictures\": "
           "%lld, \"per_s\": %.1f, \"cpu_ms\": %.3f, \"per_s_by_cpu\": %.1f}\n",
           lt_dtype_name(c->jobs[0].dtype), threads, (long long)n, (double)n / wall,
           cpu / (double)n * 1e3, (double)n * threads / cpu);
    return LT_OK;
}

/** like: rows of the size that each thread needs. */
static lt_status bench_crew(const job *like, size_t bytes, double seconds, int n_threads)
{
    static crew c;
    lt_pool *pool = NULL;
    LT_TRY(lt_pool_create(n_threads, &pool));
    for (int i = 0; i < lt_pool_threads(pool); i++) {
        c.jobs[i] = *like;
        c.jobs[i].image = (lt_image){0};
        LT_TRY(lt_mem_alloc(&c.jobs[i].rows, bytes, "rows"));
    }
    LT_TRY(time_crew(&c, pool, seconds));
    for (int i = 0; i < lt_pool_threads(pool); i++) {
        lt_mem_free(c.jobs[i].rows);
        lt_image_deinit(&c.jobs[i].image);
    }
    lt_pool_destroy(pool);
    return LT_OK;
}

static lt_status bench(const char *path, double seconds, int n_threads)
{
    job j = {.path = path,
             .budget = {262144, 1024, LT_IMAGE_BICUBIC, false},
             .processor = lt_image_processor_default(),
             .dtype = LT_F32};
    lt_grid grid;
    LT_TRY(run_load(&j));
    LT_TRY(lt_image_grid_of_size(&j.processor, j.image.h, j.image.w, &grid));
    const size_t bytes =
        (size_t)(lt_grid_patches(grid) * lt_image_row_width(&j.processor)) * sizeof(float);
    LT_TRY(lt_mem_alloc(&j.rows, bytes, "rows"));
    LT_TRY(time_case("grid from header", run_probe, &j, seconds));
    LT_TRY(time_case("decode and budget", run_load, &j, seconds));
    LT_TRY(time_case("resize and patch rows", run_rows, &j, seconds));
    LT_TRY(time_case("file to patch rows", run_all, &j, seconds));
    j.dtype = LT_BF16;
    LT_TRY(time_case("file to patch rows", run_all, &j, seconds));
    j.dtype = LT_F32;
    LT_TRY(bench_crew(&j, bytes, seconds, n_threads));
    lt_mem_free(j.rows);
    lt_image_deinit(&j.image);
    return LT_OK;
}

int main(int argc, char **argv)
{
    const long threads = argc > 3 ? strtol(argv[3], NULL, 10) : 2;
    if (argc < 2 || threads < 1 || threads > MAX_THREADS) {
        (void)fprintf(stderr, "usage: image PICTURE [SECONDS [THREADS]]\n");
        return 2;
    }
    if (bench(argv[1], argc > 2 ? strtod(argv[2], NULL) : 1.0, (int)threads) == LT_OK)
        return 0;
    (void)fprintf(stderr, "%s\n", lt_error_message());
    return 1;
}
