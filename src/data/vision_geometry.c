// SPDX-License-Identifier: Apache-2.0
// Geometry of the vision tower's rows, from grids alone.
#include "data/vision_geometry.h"

enum { MAX_SIDE = 1 << 20 }; // patches along one axis

lt_status lt_vision_count(const lt_grid *grids, int64_t n_grids, int64_t merge,
                          lt_vision_sizes *out)
{
    lt_vision_sizes sum = {0};
    for (int64_t i = 0; i < n_grids; i++) {
        const lt_grid g = grids[i];
        int64_t n = 0;
        if (g.t < 1 || g.h < 1 || g.w < 1 || merge < 1 || g.h % merge != 0 || g.w % merge != 0) {
            return LT_FAIL(LT_ERR_SHAPE,
                           "grid %lld is %lld x %lld x %lld: sides must be positive, rows and "
                           "columns multiples of %lld",
                           (long long)i, (long long)g.t, (long long)g.h, (long long)g.w,
                           (long long)merge);
        }
        if (g.h > MAX_SIDE || g.w > MAX_SIDE || !lt_mul_i64(g.h * g.w, g.t, &n) ||
            n > INT32_MAX - sum.n_patches) {
            return LT_FAIL(
                LT_ERR_SHAPE,
                "grid %lld, %lld x %lld x %lld, is too large: a batch has at most 2^31 - 1 patches",
                (long long)i, (long long)g.t, (long long)g.h, (long long)g.w);
        }
        sum.n_patches += n;
        sum.n_tokens += n / (merge * merge);
        sum.n_frames += g.t;
    }
    *out = sum;
    return LT_OK;
}

lt_status lt_vision_table_side(int64_t n_rows, int64_t *side)
{
    for (int64_t g = 1; g <= MAX_SIDE && g * g <= n_rows; g++) {
        if (g * g == n_rows) {
            *side = g;
            return LT_OK;
        }
    }
    return LT_FAIL(
        LT_ERR_CONFIG,
        "num_position_embeddings is %lld, which isn't a square: the table is a square grid",
        (long long)n_rows);
}

/** Where a patch row or column lies between two rows or columns of the table. */
typedef struct place {
    int32_t low, high;
    float part; // of the way from low to high
} place;

// linspace(0, side - 1, n) in float32: forwards in the first half, backwards from the end in the
// second.
static place place_of(int64_t i, int64_t n, int64_t side)
{
    const float end = (float)(side - 1), step = n > 1 ? end / (float)(n - 1) : 0.0F;
    const float at = i < n / 2 || n == 1 ? step * (float)i : end - step * (float)(n - 1 - i);
    place p = {.low = (int32_t)at};
    p.high = (int32_t)lt_min_i64(p.low + 1, side - 1);
    p.part = at - (float)p.low;
    return p;
}

static void put_corners(const lt_vision_geometry *out, int64_t row, place y, place x, int64_t side)
{
    int32_t *c = out->corner + 4 * row;
    float *w = out->corner_weight + 4 * row;
    const int32_t g = (int32_t)side;
    c[0] = y.low * g + x.low;
    c[1] = y.low * g + x.high;
    c[2] = y.high * g + x.low;
    c[3] = y.high * g + x.high;
    w[0] = (1.0F - y.part) * (1.0F - x.part);
    w[1] = (1.0F - y.part) * x.part;
    w[2] = y.part * (1.0F - x.part);
    w[3] = y.part * x.part;
}

/** The rows of one frame, block by block. */
static void fill_frame(lt_grid g, int64_t merge, int64_t side, int64_t first, int64_t n,
                       const lt_vision_geometry *out)
{
    int64_t row = first;
    for (int64_t by = 0; by < g.h; by += merge) {
        for (int64_t bx = 0; bx < g.w; bx += merge) {
            for (int64_t i = 0; i < merge * merge; i++, row++) {
                const int64_t y = by + i / merge, x = bx + i % merge;
                out->row_col[row] = (int32_t)y;
                out->row_col[n + row] = (int32_t)x;
                if (out->corner != NULL)
                    put_corners(out, row, place_of(y, g.h, side), place_of(x, g.w, side), side);
            }
        }
    }
}

lt_status lt_vision_geometry_fill(const lt_grid *grids, int64_t n_grids, int64_t merge,
                                  int64_t table_side, const lt_vision_geometry *out)
{
    lt_vision_sizes sizes;
    LT_TRY(lt_vision_count(grids, n_grids, merge, &sizes));
    LT_ASSERT((out->corner == NULL) == (out->corner_weight == NULL));
    if (out->corner != NULL && (table_side < 1 || table_side > 46340)) // its square fits an int32
        return LT_FAIL(LT_ERR_SHAPE, "the position table has side %lld: 1 to 46340 is the rule",
                       (long long)table_side);
    int64_t row = 0, frame = 0;
    for (int64_t i = 0; i < n_grids; i++) {
        for (int64_t t = 0; t < grids[i].t; t++) {
            if (out->tiles != NULL)
                out->tiles[frame] = (int32_t)(row + frame);
            out->segments[frame++] = (int32_t)row;
            fill_frame(grids[i], merge, table_side, row, sizes.n_patches, out);
            row += grids[i].h * grids[i].w;
        }
    }
    if (out->tiles != NULL)
        out->tiles[frame] = (int32_t)(row + frame);
    out->segments[frame] = (int32_t)row;
    return LT_OK;
}
