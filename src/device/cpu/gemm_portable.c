// SPDX-License-Identifier: Apache-2.0
// Matrix products without a library: operands are packed into panels once per block, tiles of C are computed from them.
#include "device/cpu/gemm_core.h"
#include "device/cpu/scratch.h"

enum {
    PACKED_MAX = 2 << 20, // numbers of A, and of B, that are packed at a time: 8 MiB each
    TILE_ROWS =
        96, // about: a whole number of panels. A tile's k-block of A (96 KiB) and its sums stay in the L2 cache
    TILE_COLS = 256,
    TILE_STRIDE = TILE_COLS + 16,
    MIN_BLOCK = 384, // rows and columns of a block, however long k is
};

typedef struct block {
    const lt_gemm_core *core;
    const lt_gemm *g;
    int64_t row, rows, col, cols; // what is packed of A and of B
    int64_t tile_rows, tiles_down, tiles_across;
    int64_t a_groups, b_groups; // to pack in this run; 0 when already there
    float *a, *b;
} block;

static const void *at(const void *p, lt_dtype dtype, int64_t i)
{
    return (const char *)p + (size_t)i * lt_dtype_bytes(dtype);
}

// Where the panels of a group of `lanes` start that hold numbers p.. of k: a group is laid out block of k by block of k.
static int64_t block_at(int64_t p, int64_t lanes, int64_t width)
{
    return p * lt_round_up(lanes, width);
}

// Group i of A's lanes, or behind those, of B's: as many as a tile has.
static lt_status pack_group(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const block *t = ctx;
    const lt_gemm *g = t->g;
    const bool is_a = i < t->a_groups, lane_major = is_a ? !g->trans_a : g->trans_b;
    const int64_t group = is_a ? t->tile_rows : TILE_COLS, width = is_a ? t->core->mr : t->core->nr;
    const int64_t first = (is_a ? i : i - t->a_groups) * group,
                  lane = (is_a ? t->row : t->col) + first;
    const int64_t lanes = lt_min_i64(group, (is_a ? t->rows : t->cols) - first),
                  ld = is_a ? g->lda : g->ldb;
    float *panels = (is_a ? t->a : t->b) + first * g->k;
    for (int64_t p = 0; p < g->k; p += LT_GEMM_KC) {
        const int64_t from = lane_major ? lane * ld + p : p * ld + lane;
        t->core->pack(panels + block_at(p, lanes, width), width,
                      at(is_a ? g->a : g->b, g->ab_dtype, from), g->ab_dtype == LT_BF16, ld,
                      lane_major, lanes, lt_min_i64(LT_GEMM_KC, g->k - p));
    }
    return LT_OK;
}

// Sums of one tile over all of k, into `sums` with row stride TILE_STRIDE.
static void multiply_tile(const block *t, int64_t row, int64_t rows, int64_t col, int64_t cols,
                          float *sums)
{
    const int64_t mr = t->core->mr, nr = t->core->nr, k = t->g->k;
    for (int64_t p = 0; p < k; p += LT_GEMM_KC) {
        const int64_t kc = lt_min_i64(LT_GEMM_KC, k - p);
        const float *a = t->a + row * k + block_at(p, rows, mr),
                    *b = t->b + col * k + block_at(p, cols, nr);
        for (int64_t j = 0; j < cols; j += nr)
            for (int64_t i = 0; i < rows; i += mr)
                t->core->micro(kc, a + i * kc, b + j * kc, sums + i * TILE_STRIDE + j, TILE_STRIDE,
                               p > 0);
    }
}

static lt_status compute_tile(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const block *t = ctx;
    const lt_gemm *g = t->g;
    const int64_t row = i / t->tiles_across * t->tile_rows, col = i % t->tiles_across * TILE_COLS;
    const int64_t rows = lt_min_i64(t->tile_rows, t->rows - row),
                  cols = lt_min_i64(TILE_COLS, t->cols - col);
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_TILE,
                             sizeof(float) * TILE_STRIDE * (size_t)(t->tile_rows + t->core->mr),
                             &memory));
    float *sums = memory, bias[TILE_COLS];
    if (g->bias)
        lt_convert(bias, LT_F32, at(g->bias, g->bias_dtype, t->col + col), g->bias_dtype, cols);
    if (g->k > 0)
        multiply_tile(t, row, rows, col, cols, sums);
    else
        for (int64_t j = 0; j < rows * TILE_STRIDE; j++)
            sums[j] = 0.0F;
    char *c = g->c;
    for (int64_t r = 0; r < rows; r++)
        t->core->finish(c + (size_t)((t->row + row + r) * g->ldc + t->col + col) *
                                lt_dtype_bytes(g->c_dtype),
                        g->c_dtype == LT_BF16, sums + r * TILE_STRIDE, g->bias ? bias : NULL,
                        g->accumulate, cols);
    return LT_OK;
}

// Rows or columns of a block: whole tiles, few enough to be packed together.
static int64_t block_size(int64_t total, int64_t k, int64_t multiple)
{
    int64_t n = lt_max_i64(PACKED_MAX / lt_max_i64(k, 1), MIN_BLOCK) / multiple * multiple;
    n = lt_max_i64(n, multiple);
    return lt_min_i64(n, lt_round_up(lt_max_i64(total, 1), multiple));
}

lt_status lt_gemm_portable(lt_pool *pool, const lt_gemm *g, lt_isa isa)
{
    const lt_gemm_core *core = lt_gemm_core_of(isa);
    block t = {.core = core, .g = g, .tile_rows = TILE_ROWS / core->mr * core->mr};
    const int64_t step_m = block_size(g->m, g->k, t.tile_rows),
                  step_n = block_size(g->n, g->k, TILE_COLS);
    void *a, *b;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PACK_A,
                             sizeof(float) * (size_t)(lt_round_up(step_m, core->mr) * g->k), &a));
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PACK_B, sizeof(float) * (size_t)(step_n * g->k), &b));
    t.a = a;
    t.b = b;
    for (t.row = 0; t.row < g->m; t.row += step_m) {
        t.rows = lt_min_i64(step_m, g->m - t.row);
        for (t.col = 0; t.col < g->n; t.col += step_n) {
            t.cols = lt_min_i64(step_n, g->n - t.col);
            t.tiles_down = lt_ceil_div(t.rows, t.tile_rows);
            t.tiles_across = lt_ceil_div(t.cols, TILE_COLS);
            t.a_groups = t.col == 0 ? t.tiles_down : 0;
            t.b_groups = t.row == 0 || step_n < g->n ? t.tiles_across : 0;
            LT_TRY(lt_pool_run(pool, t.a_groups + t.b_groups, pack_group, &t));
            LT_TRY(lt_pool_run(pool, t.tiles_down * t.tiles_across, compute_tile, &t));
        }
    }
    return LT_OK;
}
