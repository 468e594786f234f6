// SPDX-License-Identifier: Apache-2.0
// Measuring the matrix-product rate.
#include "train/rate.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "device/gemm.h"

#include <math.h>

enum { SIDE = 2048, TRIES = 3 };

static lt_status measure(lt_device *device, lt_dtype dtype, unsigned char *memory, double *out)
{
    const size_t bytes = (size_t)SIDE * SIDE * lt_dtype_bytes(dtype);
    float row[256];
    for (int i = 0; i < 256; i++)
        row[i] = (float)lt_normal(1, (uint64_t)i);
    for (size_t i = 0; i < 2 * (size_t)SIDE * SIDE; i += 256)
        lt_convert(memory + i * lt_dtype_bytes(dtype), dtype, row, LT_F32, 256);
    const lt_gemm g = {.m = SIDE,
                       .n = SIDE,
                       .k = SIDE,
                       .lda = SIDE,
                       .ldb = SIDE,
                       .ldc = SIDE,
                       .trans_b = true,
                       .ab_dtype = dtype,
                       .c_dtype = dtype,
                       .a = memory,
                       .b = memory + bytes,
                       .c = memory + 2 * bytes};
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        const double begin = lt_clock_now();
        LT_TRY(lt_cpu_gemm(device->pool, &g));
        best = fmin(best, lt_clock_now() - begin);
    }
    *out = 2.0 * SIDE * SIDE * SIDE / best;
    return LT_OK;
}

lt_status lt_matmul_rate(lt_device *device, lt_dtype dtype, double *out)
{
    *out = NAN;
    if (device->backend != LT_CPU || dtype == LT_F64)
        return LT_OK;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, 3 * (size_t)SIDE * SIDE * lt_dtype_bytes(dtype),
                        "matrix-product rate"));
    const lt_status st = measure(device, dtype, memory, out);
    lt_mem_free(memory);
    return st;
}
