// SPDX-License-Identifier: Apache-2.0
// The packed kernels on AMX tiles (flags in src/device/folder.cmake).
#include <immintrin.h>

// Tile numbers are spelled into the instructions, so no parentheses around them.
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, line) _tile_loadd(t, p, line)
#define TILE_STORE(t, p, line) _tile_stored(t, p, line)
#define TILE_MULTIPLY(c, a, b) _tile_dpbf16ps(c, a, b)
#include "device/cpu/gemm_amx.inc"

// Eight tiles of 16 rows of 64 bytes. A constant, since compilers do not see that the instruction
// reads all of it.
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
} config = {
    .palette = 1,
    .line_bytes = {LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES, LINE_BYTES,
                   LINE_BYTES, LINE_BYTES},
    .rows = {HALF, HALF, HALF, HALF, HALF, HALF, HALF, HALF},
};

static void enter(void)
{
    _tile_loadconfig(&config);
}

static void leave(void)
{
    _tile_release();
}

// Numbers too small to be normal become 0, as they do in the tiles.
static void narrow(uint16_t *dst, const float *src, int64_t n)
{
    enum { LINE = 32 };
    int64_t i = 0;
    for (; i + LINE <= n; i += LINE) {
        const __m512bh both =
            _mm512_cvtne2ps_pbh(_mm512_loadu_ps(src + i + HALF), _mm512_loadu_ps(src + i));
        memcpy(dst + i, &both, sizeof both);
    }
    for (; i < n; i += HALF) {
        const __mmask16 there = (__mmask16)(n - i >= HALF ? -1 : (1 << (n - i)) - 1);
        const __m256bh half = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, src + i));
        _mm256_mask_storeu_epi16(dst + i, there, (__m256i)half);
    }
}

static void finish(void *dst, bool bf16, const float *src, const float *bias, bool keep, int64_t n)
{
    if (bf16 && !bias && !keep)
        narrow(dst, src, n);
    else
        lt_gemm_core_avx512.finish(dst, bf16, src, bias, keep, n);
}

static void stream(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t n)
{
    lt_gemm_core_avx512.stream(dst, ldd, src, lds, rows, n);
}

const lt_gemm_core lt_gemm_core_amx = {
    .mr = WIDE,
    .nr = WIDE,
    .kr = STEP,
    // sums stay in their tiles for a whole slab; B of a tile of C (1 MiB) stays in the L2 cache
    .kc = 1024,
    .slab = 1024,
    .tile_rows = 96,
    .tile_cols = 512,
    .elem = sizeof(uint16_t),
    .pack_a = pack_a,
    .pack_b = pack_b,
    .micro = micro,
    .finish = finish,
    .stream = stream,
    .enter = enter,
    .leave = leave};
