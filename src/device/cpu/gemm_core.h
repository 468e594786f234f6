// SPDX-License-Identifier: Apache-2.0
// The innermost part of a matrix product in f32: packed panels and the small product of two of
// them, one set for each instruction set. lt_gemm_portable and attention are built from it.
#ifndef LT_DEVICE_CPU_GEMM_CORE_H
#define LT_DEVICE_CPU_GEMM_CORE_H

#include "device/cpu/isa.h"
#include "device/gemm.h"

enum { LT_GEMM_MAX_COLS = 512 };

/**
 * A panel holds `mr` rows of A or `nr` columns of B, interleaved in a way that its core knows.
 * Lanes that are not there, and numbers up to a multiple of kr, are zero. Each number of a product
 * depends on its row, its column and k alone, never on what else is in the panels: a chain of
 * multiply-adds over k in ascending order.
 */
typedef struct lt_gemm_core {
    int64_t mr, nr, kr; /* panels end at multiples of kr numbers */
    int64_t kc;         /* numbers that are added up before a partial sum goes to memory */
    int64_t slab; /* numbers of k that are packed at a time: a multiple of kc, and that of kr */
    int64_t tile_rows, tile_cols; /* of C, for one thread: whole panels, at most LT_GEMM_MAX_COLS */
    size_t elem;                  /* bytes of a number in a panel */
    /* Fill the panels of n lanes (one behind the other) with k numbers a lane. lane_major: lane
     * j's numbers lie side by side from src + j * ld on; else number k of all lanes lies side by
     * side from src + k * ld on. f32 or bf16 */
    void (*pack_a)(void *panels, const void *src, bool bf16, int64_t ld, bool lane_major, int64_t n,
                   int64_t k);
    void (*pack_b)(void *panels, const void *src, bool bf16, int64_t ld, bool lane_major, int64_t n,
                   int64_t k);
    /* c[mr, nr] = a b, or c += a b. a, b: panels; c has row stride ldc and need not be aligned.
     * Between enter and leave */
    void (*micro)(int64_t k, const void *a, const void *b, float *c, int64_t ldc, bool add);
    /* dst[n] = dst * keep + src + bias, as f32 or bf16: keep is 0 or 1, bias may be NULL */
    void (*finish)(void *dst, bool bf16, const float *src, const float *bias, bool keep, int64_t n);
    /* dst[rows, n] = src, past the caches; row strides ldd and lds */
    void (*stream)(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t n);
    void (*enter)(void),
        (*leave)(void); /* the calling thread's registers are set up, and given back */
} lt_gemm_core;

/**
 * Numbers in the panels of n lanes with k numbers each; k a multiple of kr, or the end of the
 * panel.
 */
static inline int64_t lt_gemm_panels(const lt_gemm_core *core, int64_t width, int64_t n, int64_t k)
{
    return lt_round_up(n, width) * lt_round_up(k, core->kr);
}

/** The core for products of that dtype. */
const lt_gemm_core *lt_gemm_core_of(lt_isa isa, lt_dtype ab_dtype);

extern const lt_gemm_core lt_gemm_core_plain, lt_gemm_core_avx2, lt_gemm_core_avx512,
    lt_gemm_core_avx512bf16, lt_gemm_core_amx;

/**
 * The portable product, with the kernels of `isa` (which the processor must have). Same contract as
 * lt_cpu_gemm.
 */
LT_NODISCARD lt_status lt_gemm_portable(lt_pool *pool, const lt_gemm *g, lt_isa isa);
LT_NODISCARD lt_status lt_gemm_by_core(lt_pool *pool, const lt_gemm *g, const lt_gemm_core *core);
#endif
