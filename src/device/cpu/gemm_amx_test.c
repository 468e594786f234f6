// SPDX-License-Identifier: Apache-2.0
// The panels and the tile kernel of AMX, with tiles made of plain C, so that they are tested on any
// machine with AVX2.
#if defined(__AVX2__)
#include "tensor/tensor.h"
#include <string.h>

enum { N_TILES = 8, ROWS = 16, BYTES = 64 };
static struct {
    unsigned char row[ROWS][BYTES];
} tiles[N_TILES];

static void load(int t, const void *p, size_t line)
{
    for (size_t i = 0; i < ROWS; i++)
        memcpy(tiles[t].row[i], (const char *)p + i * line, BYTES);
}

static void store(int t, void *p, size_t line)
{
    for (size_t i = 0; i < ROWS; i++)
        memcpy((char *)p + i * line, tiles[t].row[i], BYTES);
}

static float number(int t, int row, int i)
{
    uint16_t v;
    memcpy(&v, &tiles[t].row[row][2 * (size_t)i], sizeof v);
    return lt_bf16_to_f32(v);
}

// As the instruction manual has it: c[m][n] += a[m][2k] b[k][2n] + a[m][2k+1] b[k][2n+1]
static void multiply(int c, int a, int b)
{
    for (int m = 0; m < ROWS; m++) {
        for (int n = 0; n < ROWS; n++) {
            float sum;
            memcpy(&sum, &tiles[c].row[m][4 * (size_t)n], sizeof sum);
            for (int k = 0; k < ROWS; k++)
                sum += number(a, m, 2 * k) * number(b, k, 2 * n) +
                       number(a, m, 2 * k + 1) * number(b, k, 2 * n + 1);
            memcpy(&tiles[c].row[m][4 * (size_t)n], &sum, sizeof sum);
        }
    }
}

#define TILE_ZERO(t) memset(&tiles[t], 0, sizeof tiles[t])
#define TILE_LOAD(t, p, line) load((t), (p), (line))
#define TILE_STORE(t, p, line) store((t), (p), (line))
#define TILE_MULTIPLY(c, a, b) multiply((c), (a), (b))
#include "device/cpu/gemm_amx.inc"
#include "tests/kit/lt_test.h"
#include <math.h>

enum { PANEL_A = WIDE, PANEL_B = WIDE, PANEL_K = STEP, TILE_ROWS = 64 };
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
