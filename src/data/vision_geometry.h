// SPDX-License-Identifier: Apache-2.0
// What the vision tower needs to know of grids: frame segments, patch rows and columns,
// position-table corners.
#ifndef LT_DATA_VISION_GEOMETRY_H
#define LT_DATA_VISION_GEOMETRY_H

#include "base/memory.h"
#include "data/grid.h"

/** Sums over a list of grids: the sizes of lt_vision_geometry's arrays. */
typedef struct lt_vision_sizes {
    int64_t n_patches; // N, rows of pixel_values
    int64_t n_tokens;  // M, placeholder tokens = N / merge^2
    int64_t n_frames;  // F, one per picture and per temporal slice of a video
} lt_vision_sizes;
/**
 * errors LT_ERR_SHAPE for a grid that isn't positive, isn't a multiple of merge, or is too large to
 * count
 */
LT_NODISCARD lt_status lt_vision_count(const lt_grid *grids, int64_t n_grids, int64_t merge,
                                       lt_vision_sizes *out);

/** Views of the caller's memory; all in block-major patch order. */
typedef struct lt_vision_geometry {
    int32_t *segments;    // [F + 1] first patch of each frame, then N
    int32_t *tiles;       // [F + 1] the same with one row more in front of each frame; or NULL
    int32_t *row_col;     // [2, N] full-resolution patch row, then patch column, of every patch
    int32_t *corner;      // [N, 4] rows of the position table: (r0,c0) (r0,c1) (r1,c0) (r1,c1)
    float *corner_weight; // [N, 4] bilinear weights of those rows
} lt_vision_geometry;

/**
 * Fill the arrays for grids in token order.
 *   r_a = a (G-1)/(h-1), c_b likewise; weights (1-dr)(1-dc), (1-dr)dc, dr(1-dc), dr dc
 * source   spec models 5.1, steps 2 to 4 (Qwen3-VL vision tower)
 * in       G: side of the position table, sqrt(num_position_embeddings); arrays of
 *          lt_vision_count's sizes; corner and corner_weight may both be NULL
 * errors   as lt_vision_count; LT_ERR_SHAPE for G < 1
 */
LT_NODISCARD lt_status lt_vision_geometry_fill(const lt_grid *grids, int64_t n_grids, int64_t merge,
                                               int64_t table_side, const lt_vision_geometry *out);

/** G for a table of n rows. errors: LT_ERR_CONFIG when n isn't a square. */
LT_NODISCARD lt_status lt_vision_table_side(int64_t n_rows, int64_t *side);
#endif
