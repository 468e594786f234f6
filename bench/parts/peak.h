// SPDX-License-Identifier: Apache-2.0
// The rate of matrix products that this machine reaches: what a training step is measured against.
#ifndef LT_BENCH_PEAK_H
#define LT_BENCH_PEAK_H

#include "device/device.h"

/** FLOP/s of C[n,n] = A[n,n] B[n,n]^T on random numbers through lathe's own op `linear`: the best of `runs`, after one to warm up. */
LT_NODISCARD lt_status bench_linear_peak(lt_device *device, lt_dtype dtype, int64_t n, int runs, double *out);
/** The same product by oneDNN itself on that many of its own threads; 0 where it is not built in or has no such product. */
LT_NODISCARD lt_status bench_library_peak(lt_dtype dtype, int threads, int64_t n, int runs, double *out);
#endif
