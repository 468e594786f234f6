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

enum { PANEL_A = MR, PANEL_B = NR, PANEL_K = PAIR, TILE_ROWS = 2 * MR };
#include "device/cpu/gemm_emulated_test.inc"
#else
#include "tests/kit/lt_test.h"

static void there_is_no_avx2_to_pack_with(void **state)
{
    (void)state;
    skip();
}

LT_TEST_MAIN(LT_TEST(there_is_no_avx2_to_pack_with))
#endif
