// SPDX-License-Identifier: Apache-2.0
// Measuring the matrix-product rate.
#include "train/rate.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "device/gemm.h"
#include "op/linear.h"

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

// ---- a device with queues: through the op, for long enough that its clock has settled a little

enum { QUEUED_SIDE = 4096, AT_ONCE = 16, A = 0, B, C, N_MATRICES };
static const double queued_s = 0.3;

static lt_status fill(lt_device *d, lt_stream *s, const lt_tensor *t)
{
    enum { PIECE = 1 << 16 };
    const size_t elem = lt_dtype_bytes(t->dtype);
    void *memory = NULL;
    LT_TRY(d->alloc_pinned(d, PIECE * (sizeof(float) + elem), "random numbers", &memory));
    float *wide = memory;
    lt_status st = LT_OK;
    for (int i = 0; i < PIECE; i++)
        wide[i] = (float)lt_normal(1, (uint64_t)i);
    lt_convert(wide + PIECE, t->dtype, wide, LT_F32, PIECE);
    for (int64_t i = 0; st == LT_OK && i < lt_n_elems(t); i += PIECE)
        st = d->copy(d, s, (unsigned char *)t->data + (size_t)i * elem, wide + PIECE, PIECE * elem,
                     LT_COPY_HOST_TO_DEVICE);
    if (st == LT_OK)
        st = d->stream_sync(d, s);
    d->free_pinned(d, memory);
    return st;
}

static lt_status time_queued(lt_device *d, lt_stream *s, lt_tensor *m, double *out)
{
    const lt_run run = {.device = d, .stream = s};
    const lt_op_args a = {.def = &lt_op_linear, .in = {&m[A], &m[B]}, .out = {&m[C]}, .run = &run};
    const lt_kernel kernel = lt_op_kernel(&lt_op_linear, d->backend, LT_FORWARD);
    const double side = QUEUED_SIDE, begin = lt_clock_now();
    while (lt_clock_now() - begin < queued_s) { // the last bunch counts
        const double bunch = lt_clock_now();
        for (int i = 0; i < AT_ONCE; i++)
            LT_TRY(kernel(&a));
        LT_TRY(d->stream_sync(d, s));
        *out = 2.0 * side * side * side * AT_ONCE / (lt_clock_now() - bunch);
    }
    return LT_OK;
}

static lt_status queued_rate(lt_device *d, lt_dtype dtype, double *out)
{
    lt_tensor m[N_MATRICES];
    lt_stream *s = NULL;
    lt_status st = d->stream_create(d, &s);
    for (int i = 0; i < N_MATRICES; i++) {
        m[i] = lt_tensor_2d(dtype, QUEUED_SIDE, QUEUED_SIDE);
        if (st == LT_OK)
            st = d->alloc(d, lt_tensor_bytes(&m[i]), "a square matrix", &m[i].data);
    }
    for (int i = A; st == LT_OK && i <= B; i++)
        st = fill(d, s, &m[i]);
    if (st == LT_OK)
        st = time_queued(d, s, m, out);
    for (int i = 0; i < N_MATRICES; i++)
        d->free(d, m[i].data);
    if (s)
        d->stream_destroy(d, s);
    return st;
}

lt_status lt_matmul_rate(lt_device *device, lt_dtype dtype, double *out)
{
    double seconds = 0.0;
    int64_t side = FIRST_SIDE / 2;
    *out = (double)NAN;
    if (device->queues && dtype != LT_F64)
        return queued_rate(device, dtype, out);
    if (device->backend != LT_CPU || dtype == LT_F64)
        return LT_OK;
    while (side < LAST_SIDE && seconds < enough_s) {
        side *= 2;
        LT_TRY(measure_side(device, dtype, side, &seconds));
    }
    *out = 2.0 * (double)side * (double)side * (double)side / seconds;
    return LT_OK;
}
