// SPDX-License-Identifier: Apache-2.0
// Built without oneDNN: there is no library to measure.
#include "bench/parts/peak.h"

lt_status bench_library_peak(lt_dtype dtype, int threads, int64_t n, int runs, bench_rate *out)
{
    (void)dtype, (void)threads, (void)n, (void)runs;
    *out = (bench_rate){0};
    return LT_OK;
}
