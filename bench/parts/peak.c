// SPDX-License-Identifier: Apache-2.0
// A square product through the op table, on any device.
#include "bench/parts/peak.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "op/linear.h"

enum { A, B, C, N_MATRICES };

static lt_status fill(lt_device *d, lt_stream *s, lt_tensor *t, uint64_t seed)
{
    void *memory = NULL;
    const int64_t n = lt_n_elems(t);
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (sizeof(float) + lt_dtype_bytes(t->dtype)), "random numbers"));
    float *wide = memory;
    for (int64_t i = 0; i < n; i++)
        wide[i] = (float)(lt_uniform(seed, (uint64_t)i) - 0.5);
    lt_convert(wide + n, t->dtype, wide, LT_F32, n);
    lt_status st = d->copy(d, s, t->data, wide + n, lt_tensor_bytes(t), LT_COPY_HOST_TO_DEVICE);
    if (st == LT_OK)
        st = d->stream_sync(d, s);
    lt_mem_free(memory);
    return st;
}

static lt_status time_product(lt_device *d, lt_stream *s, lt_tensor *m, int runs, double *best)
{
    const lt_kernel kernel = lt_op_kernel(&lt_op_linear, d->backend, LT_FORWARD);
    lt_run run = {.device = d, .stream = s};
    lt_op_args a = {.def = &lt_op_linear, .in = {&m[A], &m[B]}, .out = {&m[C]}, .run = &run};
    lt_status st = LT_OK;
    if (lt_op_linear.scratch)
        run.scratch_bytes = lt_op_linear.scratch(&a, LT_FORWARD);
    LT_TRY(d->alloc(d, run.scratch_bytes + 1, "scratch of a product", &run.scratch));
    *best = 1e30;
    for (int i = 0; st == LT_OK && i <= runs; i++) {
        const double begin = lt_clock_now();
        st = kernel(&a);
        if (st == LT_OK)
            st = d->stream_sync(d, s);
        const double seconds = lt_clock_now() - begin;
        *best = i > 0 && seconds < *best ? seconds : *best;
    }
    d->free(d, run.scratch);
    return st;
}

lt_status bench_linear_peak(lt_device *d, lt_dtype dtype, int64_t n, int runs, double *out)
{
    lt_tensor m[N_MATRICES];
    lt_stream *s = NULL;
    double seconds = 0.0;
    lt_status st = d->stream_create(d, &s);
    for (int i = 0; i < N_MATRICES; i++) {
        m[i] = lt_tensor_2d(dtype, n, n);
        if (st == LT_OK)
            st = d->alloc(d, lt_tensor_bytes(&m[i]), "a square matrix", &m[i].data);
    }
    for (int i = A; st == LT_OK && i <= B; i++)
        st = fill(d, s, &m[i], (uint64_t)i);
    if (st == LT_OK)
        st = time_product(d, s, m, runs, &seconds);
    if (st == LT_OK)
        *out = 2.0 * (double)n * (double)n * (double)n / seconds;
    for (int i = 0; i < N_MATRICES; i++)
        d->free(d, m[i].data);
    if (s)
        d->stream_destroy(d, s);
    return st;
}
