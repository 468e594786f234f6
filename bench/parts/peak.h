// SPDX-License-Identifier: Apache-2.0
// The rate of matrix products that this machine reaches: what a training step is measured against.
#ifndef LT_BENCH_PEAK_H
#define LT_BENCH_PEAK_H

#include "device/device.h"

/**
 * FLOP/s by the wall clock; and by CPU time shared out over the threads, which other processes on
 * the machine don't touch.
 */
typedef struct bench_rate {
    double wall, cpu;
} bench_rate;
/** The better of two, each by itself. */
bench_rate bench_rate_max(bench_rate a, bench_rate b);

/** A run of FLOPs between two looks at the clocks. */
typedef struct bench_watch {
    double wall, cpu;
} bench_watch;
bench_watch bench_watch_start(void);
bench_rate bench_watch_rate(bench_watch since, double flops, int threads);

/** Products of all kernels from now on: by "own" or "onednn" (device/gemm.h). */
LT_NODISCARD lt_status bench_use_products(const char *name);
/**
 * C[n,n] = A[n,n] B[n,n]^T on random numbers through lathe's own op `linear`: the best of `runs`,
 * after one to warm up.
 */
LT_NODISCARD lt_status bench_linear_peak(lt_device *device, lt_dtype dtype, int64_t n, int runs,
                                         bench_rate *out);
/**
 * The rate of the same product once it has run for so many seconds: what a GPU reaches when it is
 * hot. Over the second half of the time.
 */
LT_NODISCARD lt_status bench_linear_hot(lt_device *device, lt_dtype dtype, int64_t n,
                                        double seconds, bench_rate *out);
/**
 * The same product by oneDNN itself on that many of its own threads; 0 where it is not built in or
 * has no such product.
 */
LT_NODISCARD lt_status bench_library_peak(lt_dtype dtype, int threads, int64_t n, int runs,
                                          bench_rate *out);
#endif
