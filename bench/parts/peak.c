// SPDX-License-Identifier: Apache-2.0
// A square product through the op table, on any device.
#include "bench/parts/peak.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bench/parts/process.h"
#include "device/gemm.h"
#include "op/linear.h"

#include <string.h>

enum { A, B, C, N_MATRICES };

bench_rate bench_rate_max(bench_rate a, bench_rate b)
{
    return (bench_rate){a.wall > b.wall ? a.wall : b.wall, a.cpu > b.cpu ? a.cpu : b.cpu};
}

bench_watch bench_watch_start(void)
{
    return (bench_watch){lt_clock_now(), bench_cpu_seconds()};
}

bench_rate bench_watch_rate(bench_watch since, double flops, int threads)
{
    const double wall = lt_clock_now() - since.wall, cpu = bench_cpu_seconds() - since.cpu;
    return (bench_rate){flops / wall, cpu > 0.0 ? flops * threads / cpu : 0.0};
}

lt_status bench_use_products(const char *name)
{
    static const char *const names[LT_N_GEMM_BY] = {
        [LT_GEMM_OWN] = "own", [LT_GEMM_ONEDNN] = "onednn"};
    for (int by = 0; by < LT_N_GEMM_BY; by++) {
        if (strcmp(names[by], name) == 0) {
            lt_cpu_gemm_by((lt_gemm_by)by);
            return LT_OK;
        }
    }
    return LT_FAIL(LT_ERR_CONFIG, "--products is %s; it must be own or onednn", name);
}

static lt_status fill(lt_device *d, lt_stream *s, lt_tensor *t, uint64_t seed)
{
    enum { FEW = 1 << 20 };
    void *memory = NULL;
    const int64_t n = lt_n_elems(t);
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (sizeof(float) + lt_dtype_bytes(t->dtype)),
                        "random numbers"));
    float *wide = memory;
    for (int64_t i = 0; i < n; i++) // after a million the same numbers again
        wide[i] = i < FEW ? (float)(lt_uniform(seed, (uint64_t)i) - 0.5) : wide[i - FEW];
    lt_convert(wide + n, t->dtype, wide, LT_F32, n);
    lt_status st = d->copy(d, s, t->data, wide + n, lt_tensor_bytes(t), LT_COPY_HOST_TO_DEVICE);
    if (st == LT_OK)
        st = d->stream_sync(d, s);
    lt_mem_free(memory);
    return st;
}

// Products back to back for so many seconds, and the rate over the second half; 0: `runs` of them
// one by one, and the best.
typedef struct plan {
    int runs;
    double seconds;
} plan;

static lt_status run_hot(lt_device *d, lt_stream *s, const lt_op_args *a, lt_kernel kernel,
                         double seconds, bench_rate *out)
{
    enum { AT_ONCE = 20 };
    const double n = (double)a->in[0]->dim[0], begin = lt_clock_now();
    const int threads = d->pool ? lt_pool_threads(d->pool) : 1;
    bench_watch half = bench_watch_start();
    double flops = 0.0;
    while (lt_clock_now() - begin < seconds) {
        for (int i = 0; i < AT_ONCE; i++)
            LT_TRY(kernel(a));
        LT_TRY(d->stream_sync(d, s));
        flops += 2.0 * n * n * n * AT_ONCE;
        if (half.wall - begin < seconds / 2 && lt_clock_now() - begin >= seconds / 2) {
            half = bench_watch_start();
            flops = 0.0;
        }
    }
    *out = bench_watch_rate(half, flops, threads);
    return LT_OK;
}

static lt_status run_best(lt_device *d, lt_stream *s, const lt_op_args *a, lt_kernel kernel,
                          int runs, bench_rate *best)
{
    const int threads = d->pool ? lt_pool_threads(d->pool) : 1;
    const double n = (double)a->in[0]->dim[0];
    *best = (bench_rate){0};
    for (int i = 0; i <= runs; i++) {
        const bench_watch begin = bench_watch_start();
        LT_TRY(kernel(a));
        LT_TRY(d->stream_sync(d, s));
        if (i > 0)
            *best = bench_rate_max(*best, bench_watch_rate(begin, 2.0 * n * n * n, threads));
    }
    return LT_OK;
}

static lt_status time_product(lt_device *d, lt_stream *s, lt_tensor *m, plan p, bench_rate *out)
{
    const lt_kernel kernel = lt_op_kernel(&lt_op_linear, d->backend, LT_FORWARD);
    lt_run run = {.device = d, .stream = s};
    lt_op_args a = {.def = &lt_op_linear, .in = {&m[A], &m[B]}, .out = {&m[C]}, .run = &run};
    if (lt_op_linear.scratch)
        run.scratch_bytes = lt_op_linear.scratch(&a, LT_FORWARD);
    LT_TRY(d->alloc(d, run.scratch_bytes + 1, "scratch of a product", &run.scratch));
    const lt_status st = p.seconds > 0.0 ? run_hot(d, s, &a, kernel, p.seconds, out)
                                         : run_best(d, s, &a, kernel, p.runs, out);
    d->free(d, run.scratch);
    return st;
}

static lt_status with_matrices(lt_device *d, lt_dtype dtype, int64_t n, plan p, bench_rate *out)
{
    lt_tensor m[N_MATRICES];
    lt_stream *s = NULL;
    lt_status st = d->stream_create(d, &s);
    for (int i = 0; i < N_MATRICES; i++) {
        m[i] = lt_tensor_2d(dtype, n, n);
        if (st == LT_OK)
            st = d->alloc(d, lt_tensor_bytes(&m[i]), "a square matrix", &m[i].data);
    }
    for (int i = A; st == LT_OK && i <= B; i++)
        st = fill(d, s, &m[i], (uint64_t)i);
    if (st == LT_OK)
        st = time_product(d, s, m, p, out);
    for (int i = 0; i < N_MATRICES; i++)
        d->free(d, m[i].data);
    if (s)
        d->stream_destroy(d, s);
    return st;
}

lt_status bench_linear_peak(lt_device *d, lt_dtype dtype, int64_t n, int runs, bench_rate *out)
{
    return with_matrices(d, dtype, n, (plan){.runs = runs}, out);
}

lt_status bench_linear_hot(lt_device *d, lt_dtype dtype, int64_t n, double seconds, bench_rate *out)
{
    return with_matrices(d, dtype, n, (plan){.seconds = seconds}, out);
}
