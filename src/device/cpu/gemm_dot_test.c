// SPDX-License-Identifier: Apache-2.0
// The panels and the kernel on pairs of bf16 numbers, with their products made of plain C, so that
// they are tested on any machine with AVX2.
#if defined(__AVX2__)
#include "tensor/tensor.h"
#include <string.h>

// acc[16] += a[16] b[16], for pairs of bf16
static void dot(void *acc, const void *a, const void *b)
{
    enum { LANES_OF_16 = 16 };
    float sum[LANES_OF_16];
    uint16_t x[2 * LANES_OF_16], y[2 * LANES_OF_16];
    memcpy(sum, acc, sizeof sum);
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (size_t i = 0; i < 2 * (size_t)LANES_OF_16; i++)
        sum[i / 2] += lt_bf16_to_f32(x[i]) * lt_bf16_to_f32(y[i]);
    memcpy(acc, sum, sizeof sum);
}

#define DOT(acc, a, b) dot((acc), (a), (b))
#include "device/cpu/gemm_dot.inc"
#include "tests/kit/lt_test.h"
#include <math.h>

static void nothing(void)
{
}

static void finish(void *dst, bool bf16, const float *src, const float *bias, bool keep, int64_t n)
{
    lt_gemm_core_avx2.finish(dst, bf16, src, bias, keep, n);
}

static void stream(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t n)
{
    lt_gemm_core_avx2.stream(dst, ldd, src, lds, rows, n);
}

static const lt_gemm_core core = {.mr = MR,
                                  .nr = NR,
                                  .kr = PAIR,
                                  .kc = 64,
                                  .slab = 128,
                                  .tile_rows = 2 * (int64_t)MR,
                                  .tile_cols = 128,
                                  .elem = sizeof(uint16_t),
                                  .pack_a = pack_a,
                                  .pack_b = pack_b,
                                  .micro = micro,
                                  .finish = finish,
                                  .stream = stream,
                                  .enter = nothing,
                                  .leave = nothing};

static uint16_t *random_bf16(void **state, int64_t n, uint32_t seed)
{
    uint16_t *v = lt_test_take(*state, (size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        v[i] = lt_f32_to_bf16((float)(int32_t)seed * 4.6566e-10F);
    }
    return v;
}

// A product by the emulated pairs, held against the sum in double.
static void check(void **state, int64_t m, int64_t n, int64_t k, unsigned bits)
{
    lt_gemm g = {.m = m, .n = n, .k = k, .ldc = n, .ab_dtype = LT_BF16, .c_dtype = LT_F32};
    g.trans_a = bits & 1;
    g.trans_b = bits & 2;
    g.accumulate = bits & 4;
    g.lda = (g.trans_a ? m : k) + 1;
    g.ldb = (g.trans_b ? k : n) + 3;
    const uint16_t *a = random_bf16(state, g.lda * (g.trans_a ? k : m), bits);
    const uint16_t *b = random_bf16(state, g.ldb * (g.trans_b ? n : k), bits + 9);
    float *c = lt_test_take(*state, (size_t)(m * n) * sizeof(float));
    for (int64_t i = 0; i < m * n; i++)
        c[i] = 0.5F;
    g.a = a;
    g.b = b;
    g.c = c;
    assert_ok(lt_gemm_by_core(NULL, &g, &core));
    for (int64_t i = 0; i < m * n; i++) {
        double want = g.accumulate ? 0.5 : 0.0, size = 1.0;
        for (int64_t p = 0; p < k; p++) {
            const int64_t row = i / n, col = i % n;
            const double x =
                (double)lt_bf16_to_f32(a[g.trans_a ? p * g.lda + row : row * g.lda + p]);
            const double y =
                (double)lt_bf16_to_f32(b[g.trans_b ? col * g.ldb + p : p * g.ldb + col]);
            want += x * y;
            size += fabs(x * y);
        }
        assert_near((double)c[i], want, size * 1e-6);
    }
}

static void products_of_all_transpositions_are_near_the_sum_in_double(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {33, 31, 34}, {40, 300, 33}, {130, 17, 200}, {32, 32, 32}};
    if (lt_cpu_isa() < LT_ISA_AVX2)
        skip(); // the packing needs AVX2
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned bits = 0; bits < 8; bits++)
            check(state, sizes[s][0], sizes[s][1], sizes[s][2], bits);
    }
}

// What attention packs: f32 numbers, narrowed on the way.
static void numbers_in_f32_are_narrowed_while_they_are_packed(void **state)
{
    enum { N = 37, K = 45 };
    const size_t n = (size_t)N * K;
    float *src = lt_test_take(*state, n * sizeof(float));
    uint16_t *narrow = lt_test_take(*state, n * sizeof(uint16_t));
    const size_t bytes = (size_t)lt_gemm_panels(&core, NR, N, K) * sizeof(uint16_t);
    if (lt_cpu_isa() < LT_ISA_AVX2)
        skip();
    for (int i = 0; i < N * K; i++) {
        src[i] = sinf((float)i);
        narrow[i] = lt_f32_to_bf16(src[i]);
    }
    for (int way = 0; way < 4; way++) {
        void *got = lt_test_take(*state, bytes), *want = lt_test_take(*state, bytes);
        const bool lane_major = way & 1;
        (way & 2 ? pack_b : pack_a)(got, src, false, lane_major ? K : N, lane_major, N, K);
        (way & 2 ? pack_b : pack_a)(want, narrow, true, lane_major ? K : N, lane_major, N, K);
        assert_memory_equal(got, want, bytes);
    }
}

LT_TEST_MAIN(LT_TEST(products_of_all_transpositions_are_near_the_sum_in_double),
             LT_TEST(numbers_in_f32_are_narrowed_while_they_are_packed))
#else
#include "tests/kit/lt_test.h"

static void there_is_no_avx2_to_pack_with(void **state)
{
    (void)state;
    skip();
}

LT_TEST_MAIN(LT_TEST(there_is_no_avx2_to_pack_with))
#endif
