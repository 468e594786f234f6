// SPDX-License-Identifier: Apache-2.0
// Matrix products on the CPU: one call for all of lathe, through oneDNN or the portable kernel.
#ifndef LT_DEVICE_GEMM_H
#define LT_DEVICE_GEMM_H

#include "base/pool.h"
#include "tensor/tensor.h"

/**
 * C[m,n] = op(A)[m,k] op(B)[k,n] (+ C where `accumulate`) (+ bias[n])
 * A is stored [m,k] with row stride lda (or [k,m] when trans_a), B [k,n] with ldb (or [n,k] when
 * trans_b: a weight [out,in]),
 * C [m,n] with ldc. dtypes: a and b both f32 or both bf16; c f32 or bf16; sums are fp32. bias may
 * be NULL.
 * stream: C is not read again soon, and is stored past the caches where that can be done.
 * Bits do not depend on the number of threads, and a row of C does not depend on m: rows are cut
 * into fixed tiles,
 * each computed by one single-threaded call, the last one padded.
 */
typedef struct lt_gemm {
    int64_t m, n, k, lda, ldb, ldc;
    bool trans_a, trans_b, accumulate, stream;
    lt_dtype ab_dtype, c_dtype, bias_dtype;
    const void *a, *b, *bias;
    void *c;
} lt_gemm;
LT_NODISCARD lt_status lt_cpu_gemm(lt_pool *pool, const lt_gemm *g);
/**
 * Whose kernels make products: lathe's own, which are at least as fast wherever that was measured
 * (docs/performance.md), or oneDNN's where it has them. Benchmarks compare them; it is set before
 * the first product.
 */
typedef enum lt_gemm_by { LT_GEMM_OWN, LT_GEMM_ONEDNN, LT_N_GEMM_BY } lt_gemm_by;
void lt_cpu_gemm_by(lt_gemm_by by);
/** "packed avx2", "packed avx512 (f32), amx (bf16)", ...: for the log. */
const char *lt_cpu_gemm_name(void);
#endif
