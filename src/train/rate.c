// SPDX-License-Identifier: Apache-2.0
// Measuring the matrix-product rate.
#include "train/rate.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "device/gemm.h"

#include <math.h>

enum { FIRST_SIDE = 256, LAST_SIDE = 2048, TRIES = 3 };
static const double enough_s = 0.02;

// Seconds of the fastest of a few products.
static lt_status time_products(lt_device *device, lt_dtype dtype, int64_t side,
                               unsigned char *memory, double *seconds)
{
    const size_t bytes = (size_t)side * (size_t)side * lt_dtype_bytes(dtype);
    const lt_gemm g = {.m = side,
                       .n = side,
                       .k = side,
                       .lda = side,
                       .ldb = side,
                       .ldc = side,
                       .trans_b = true,
                       .ab_dtype = dtype,
                       .c_dtype = dtype,
                       .a = memory,
                       .b = memory + bytes,
                       .c = memory + 2 * bytes};
    *seconds = HUGE_VAL;
    for (int i = 0; i < TRIES; i++) {
        const double begin = lt_clock_now();
        LT_TRY(lt_cpu_gemm(device->pool, &g));
        *seconds = fmin(*seconds, lt_clock_now() - begin);
    }
    return LT_OK;
}

static lt_status measure_side(lt_device *device, lt_dtype dtype, int64_t side, double *seconds)
{
    enum { ROW = 256 };
    float row[ROW];
    void *memory = NULL;
    const size_t n = (size_t)side * (size_t)side, elem = lt_dtype_bytes(dtype);
    LT_TRY(lt_mem_alloc(&memory, 3 * n * elem, "matrix-product rate"));
    for (int i = 0; i < ROW; i++)
        row[i] = (float)lt_normal(1, (uint64_t)i);
    for (size_t i = 0; i < 2 * n; i += ROW)
        lt_convert((unsigned char *)memory + i * elem, dtype, row, LT_F32, ROW);
    const lt_status st = time_products(device, dtype, side, memory, seconds);
    lt_mem_free(memory);
    return st;
}

lt_status lt_matmul_rate(lt_device *device, lt_dtype dtype, double *out)
{
    double seconds = 0.0;
    int64_t side = FIRST_SIDE / 2;
    *out = (double)NAN;
    if (device->backend != LT_CPU || dtype == LT_F64)
        return LT_OK;
    while (side < LAST_SIDE && seconds < enough_s) {
        side *= 2;
        LT_TRY(measure_side(device, dtype, side, &seconds));
    }
    *out = 2.0 * (double)side * (double)side * (double)side / seconds;
    return LT_OK;
}
