// SPDX-License-Identifier: Apache-2.0
// image PICTURE [SECONDS]: time from file to patch rows on one thread, step by step, as JSON lines.
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "data/image/image.h"

enum { MAX_RUNS = 4096 };

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

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static lt_status time_case(const char *name, lt_status (*fn)(job *), job *j, double seconds)
{
    static double t[MAX_RUNS];
    int n = 0;
    const double end = lt_clock_now() + seconds;
    while (n < MAX_RUNS && (n < 5 || lt_clock_now() < end)) {
        const double start = lt_clock_now();
        LT_TRY(fn(j));
        t[n++] = lt_clock_now() - start;
    }
    qsort(t, (size_t)n, sizeof t[0], by_value);
    printf("{\"case\": \"%s\", \"dtype\": \"%s\", \"device\": \"cpu, 1 thread\", \"median_ms\": "
           "%.3f, \"p10_ms\": %.3f, "
           "\"p90_ms\": %.3f, \"per_s\": %.0f}\n",
           name, lt_dtype_name(j->dtype), t[n / 2] * 1e3, t[n / 10] * 1e3, t[n * 9 / 10] * 1e3,
           1.0 / t[n / 2]);
    return LT_OK;
}

static lt_status bench(const char *path, double seconds)
{
    job j = {.path = path,
             .budget = {262144, 1024, LT_IMAGE_BICUBIC},
             .processor = lt_image_processor_default(),
             .dtype = LT_F32};
    lt_grid grid;
    LT_TRY(run_load(&j));
    LT_TRY(lt_image_grid_of_size(&j.processor, j.image.h, j.image.w, &grid));
    LT_TRY(lt_mem_alloc(
        &j.rows, (size_t)(lt_grid_patches(grid) * lt_image_row_width(&j.processor)) * sizeof(float),
        "rows"));
    LT_TRY(time_case("grid from header", run_probe, &j, seconds));
    LT_TRY(time_case("decode and budget", run_load, &j, seconds));
    LT_TRY(time_case("resize and patch rows", run_rows, &j, seconds));
    LT_TRY(time_case("file to patch rows", run_all, &j, seconds));
    j.dtype = LT_BF16;
    LT_TRY(time_case("file to patch rows", run_all, &j, seconds));
    lt_mem_free(j.rows);
    lt_image_deinit(&j.image);
    return LT_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: image PICTURE [SECONDS]\n");
        return 2;
    }
    if (bench(argv[1], argc > 2 ? strtod(argv[2], NULL) : 1.0) == LT_OK)
        return 0;
    (void)fprintf(stderr, "%s\n", lt_error_message());
    return 1;
}
