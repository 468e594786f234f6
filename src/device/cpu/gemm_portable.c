// SPDX-License-Identifier: Apache-2.0
// Matrix products without a library: operands are packed into panels once per block, tiles of C are
// computed from them.
#include "device/cpu/gemm_core.h"
#include "device/cpu/scratch.h"

enum {
    PACKED_MAX = 2 << 20, // numbers of A, and of B, that are packed at a time: 8 MiB each
    MIN_BLOCK = 384,      // rows and columns of a block, however long k is
    GAP = 16, // between rows of a tile's sums, so that they fall into different cache sets
};

typedef struct block {
    const lt_gemm_core *core;
    const lt_gemm *g;
    int64_t row, rows, col, cols, from, k; // what is packed of A and of B
    int64_t k_room;                        // k as panels have it
    int64_t tiles_down, tiles_across;
    int64_t a_groups, b_groups; // to pack in this run; 0 when already there
    char *a, *b;
    float *sums; // of a bf16 C whose k takes several slabs: f32 [rows, n of the block]; else NULL
} block;

static const void *at(const void *p, lt_dtype dtype, int64_t i)
{
    return (const char *)p + i * (int64_t)lt_dtype_bytes(dtype);
}

// Where the panels of a group of `lanes` start that hold numbers p.. of k: a group is laid out
// block of k by block of k.
static size_t block_at(const block *t, int64_t p, int64_t lanes, int64_t width)
{
    return (size_t)(p * lt_round_up(lanes, width)) * t->core->elem;
}

static size_t group_at(const block *t, int64_t lane)
{
    return (size_t)(lane * t->k_room) * t->core->elem;
}

// Group i of A's lanes, or behind those, of B's: as many as a tile has.
static lt_status pack_group(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const block *t = ctx;
    const lt_gemm *g = t->g;
    const bool is_a = i < t->a_groups, lane_major = is_a ? !g->trans_a : g->trans_b;
    const int64_t group = is_a ? t->core->tile_rows : t->core->tile_cols,
                  width = is_a ? t->core->mr : t->core->nr;
    const int64_t first = (is_a ? i : i - t->a_groups) * group;
    const int64_t lane = (is_a ? t->row : t->col) + first, ld = is_a ? g->lda : g->ldb;
    const int64_t lanes = lt_min_i64(group, (is_a ? t->rows : t->cols) - first);
    char *panels = (is_a ? t->a : t->b) + group_at(t, first);
    for (int64_t p = 0; p < t->k; p += t->core->kc) {
        const int64_t q = t->from + p, start = lane_major ? lane * ld + q : q * ld + lane;
        (is_a ? t->core->pack_a : t->core->pack_b)(
            panels + block_at(t, p, lanes, width), at(is_a ? g->a : g->b, g->ab_dtype, start),
            g->ab_dtype == LT_BF16, ld, lane_major, lanes, lt_min_i64(t->core->kc, t->k - p));
    }
    return LT_OK;
}

static int64_t stride_of(const block *t)
{
    return t->core->tile_cols + GAP;
}

// Sums of one tile over the slab, into `sums` with row stride stride_of(t).
static void multiply_tile(const block *t, int64_t row, int64_t rows, int64_t col, int64_t cols,
                          float *sums)
{
    const lt_gemm_core *core = t->core;
    const int64_t mr = core->mr, nr = core->nr;
    for (int64_t p = 0; p < t->k; p += t->core->kc) {
        const int64_t kc = lt_min_i64(t->core->kc, t->k - p), room = lt_round_up(kc, core->kr);
        const char *a = t->a + group_at(t, row) + block_at(t, p, rows, mr);
        const char *b = t->b + group_at(t, col) + block_at(t, p, cols, nr);
        for (int64_t j = 0; j < cols; j += nr) {
            for (int64_t i = 0; i < rows; i += mr) {
                core->micro(kc, a + (size_t)(i * room) * core->elem,
                            b + (size_t)(j * room) * core->elem, sums + i * stride_of(t) + j,
                            stride_of(t), p > 0);
            }
        }
    }
}

// A row of the tile to where it belongs: the last slab to C, others of a bf16 C to the block's
// sums.
static void finish_row(const block *t, int64_t row, int64_t col, int64_t cols, float *sums,
                       const float *bias)
{
    const lt_gemm *g = t->g;
    const bool first = t->from == 0, last = t->from + t->k >= g->k;
    char *c = (char *)g->c +
              (size_t)((t->row + row) * g->ldc + t->col + col) * lt_dtype_bytes(g->c_dtype);
    if (!t->sums) {
        t->core->finish(c, g->c_dtype == LT_BF16, sums, first ? bias : NULL,
                        !first || g->accumulate, cols);
        return;
    }
    float *kept = t->sums + row * t->cols + col;
    t->core->finish(kept, false, sums, NULL, !first, cols);
    if (last)
        t->core->finish(c, true, kept, bias, g->accumulate, cols);
}

// Sums that are all of C, and wanted past the caches.
static bool may_stream(const block *t)
{
    const lt_gemm *g = t->g;
    return g->stream && g->c_dtype == LT_F32 && !g->accumulate && !g->bias && t->k == g->k;
}

static lt_status compute_tile(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const block *t = ctx;
    const lt_gemm *g = t->g;
    // down a column of tiles first: their part of B stays in the cache
    const int64_t row = i % t->tiles_down * t->core->tile_rows,
                  col = i / t->tiles_down * t->core->tile_cols;
    const int64_t rows = lt_min_i64(t->core->tile_rows, t->rows - row);
    const int64_t cols = lt_min_i64(t->core->tile_cols, t->cols - col);
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_TILE,
                             sizeof(float) * (size_t)(stride_of(t) * t->core->tile_rows), &memory));
    float *sums = memory, bias[LT_GEMM_MAX_COLS];
    if (g->bias)
        lt_convert(bias, LT_F32, at(g->bias, g->bias_dtype, t->col + col), g->bias_dtype, cols);
    t->core->enter();
    if (t->k > 0)
        multiply_tile(t, row, rows, col, cols, sums);
    else
        for (int64_t j = 0; j < rows * stride_of(t); j++)
            sums[j] = 0.0F;
    t->core->leave();
    if (may_stream(t)) {
        t->core->stream((float *)g->c + (t->row + row) * g->ldc + t->col + col, g->ldc, sums,
                        stride_of(t), rows, cols);
        return LT_OK;
    }
    for (int64_t r = 0; r < rows; r++)
        finish_row(t, row + r, col, cols, sums + r * stride_of(t), g->bias ? bias : NULL);
    return LT_OK;
}

// Rows or columns of a block: whole tiles, few enough to be packed together.
static int64_t block_size(int64_t total, int64_t k, int64_t multiple)
{
    int64_t n = lt_max_i64(PACKED_MAX / lt_max_i64(k, 1), MIN_BLOCK) / multiple * multiple;
    n = lt_max_i64(n, multiple);
    return lt_min_i64(n, lt_round_up(lt_max_i64(total, 1), multiple));
}

// All slabs of one block of C.
static lt_status compute_block(lt_pool *pool, block *t, bool a_is_packed, bool b_is_packed)
{
    const lt_gemm *g = t->g;
    const bool slabs = g->k > t->core->slab;
    t->tiles_down = lt_ceil_div(t->rows, t->core->tile_rows);
    t->tiles_across = lt_ceil_div(t->cols, t->core->tile_cols);
    for (t->from = 0; t->from == 0 || t->from < g->k; t->from += t->core->slab) {
        t->k = lt_min_i64(t->core->slab, g->k - t->from);
        t->a_groups = a_is_packed && !slabs ? 0 : t->tiles_down;
        t->b_groups = b_is_packed && !slabs ? 0 : t->tiles_across;
        LT_TRY(lt_pool_run(pool, t->a_groups + t->b_groups, pack_group, t));
        LT_TRY(lt_pool_run(pool, t->tiles_down * t->tiles_across, compute_tile, t));
    }
    return LT_OK;
}

static lt_status take_memory(block *t, int64_t step_m, int64_t step_n)
{
    const lt_gemm *g = t->g;
    void *a, *b, *sums = NULL;
    t->k_room = lt_round_up(lt_min_i64(g->k, t->core->slab), t->core->kr);
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PACK_A, group_at(t, lt_round_up(step_m, t->core->mr)), &a));
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PACK_B, group_at(t, step_n), &b));
    if (g->k > t->core->slab && g->c_dtype == LT_BF16)
        LT_TRY(
            lt_thread_scratch(LT_SCRATCH_PAD_C, sizeof(float) * (size_t)(step_m * step_n), &sums));
    t->a = a;
    t->b = b;
    t->sums = sums;
    return LT_OK;
}

lt_status lt_gemm_by_core(lt_pool *pool, const lt_gemm *g, const lt_gemm_core *core)
{
    block t = {.core = core, .g = g};
    const int64_t k = lt_min_i64(g->k, core->slab);
    const int64_t step_m = block_size(g->m, k, core->tile_rows),
                  step_n = block_size(g->n, k, core->tile_cols);
    LT_TRY(take_memory(&t, step_m, step_n));
    for (t.row = 0; t.row < g->m; t.row += step_m) {
        t.rows = lt_min_i64(step_m, g->m - t.row);
        for (t.col = 0; t.col < g->n; t.col += step_n) {
            t.cols = lt_min_i64(step_n, g->n - t.col);
            LT_TRY(compute_block(pool, &t, t.col > 0, t.row > 0 && step_n >= g->n));
        }
    }
    return LT_OK;
}

lt_status lt_gemm_portable(lt_pool *pool, const lt_gemm *g, lt_isa isa)
{
    return lt_gemm_by_core(pool, g, lt_gemm_core_of(isa, g->ab_dtype));
}
