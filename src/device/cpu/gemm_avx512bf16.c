// SPDX-License-Identifier: Apache-2.0
// The packed kernels on the bf16 products of AVX-512 (flags in src/device/folder.cmake).
#include <immintrin.h>

#define DOT(acc, a, b)                                                                             \
    (*(acc) = (sum_line)_mm512_dpbf16_ps((__m512) * (acc), (__m512bh) * (a), (__m512bh) * (b)))
#include "device/cpu/gemm_dot.inc"

static void nothing(void)
{
}

static void finish(void *dst, bool bf16, const float *src, const float *bias, bool keep, int64_t n)
{
    lt_gemm_core_avx512.finish(dst, bf16, src, bias, keep, n);
}

static void stream(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t n)
{
    lt_gemm_core_avx512.stream(dst, ldd, src, lds, rows, n);
}

const lt_gemm_core lt_gemm_core_avx512bf16 = {.mr = MR,
                                              .nr = NR,
                                              .kr = PAIR,
                                              .kc = 512, // as many bytes as in f32
                                              .slab = 16384,
                                              .tile_rows = (int64_t)(96 / MR) * MR,
                                              .tile_cols = 256,
                                              .elem = sizeof(uint16_t),
                                              .pack_a = pack_a,
                                              .pack_b = pack_b,
                                              .micro = micro,
                                              .finish = finish,
                                              .stream = stream,
                                              .enter = nothing,
                                              .leave = nothing};
