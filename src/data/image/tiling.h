// SPDX-License-Identifier: Apache-2.0
// InternVL's dynamic tiling: how many square tiles a picture is cut into, how they lie, and their
// patch rows.
#ifndef LT_DATA_IMAGE_TILING_H
#define LT_DATA_IMAGE_TILING_H

#include "data/image/image.h"

typedef struct lt_tiling_opts {
    int64_t tile;       /* side of a tile: 448 */
    int64_t min, max;   /* tiles of a picture: min_dynamic_patch, max_dynamic_patch */
    bool use_thumbnail; /* the whole picture as one more tile, where there are several */
    bool share;         /* the pictures of a record share max between them */
    bool pad_square;    /* a picture that is not cut is padded to a square before its resize */
} lt_tiling_opts;
/** 448, 1 to 12 tiles with a thumbnail, of every picture. */
lt_tiling_opts lt_tiling_opts_default(void);

/** The picture is resized to (columns * tile) x (rows * tile) and cut row by row. */
typedef struct lt_tiling {
    int64_t columns, rows;
    bool thumbnail;
} lt_tiling;
/** Tiles in all, the thumbnail included. */
int64_t lt_tiling_count(const lt_tiling *t);

/**
 * The grid whose aspect is nearest to w / h; among equals the larger one, where the picture has
 * more than half its pixels. A max below min leaves a single tile.
 * source   InternVL's dynamic_preprocess; spec data-pipeline 9.3. Grids of one product are walked
 *          with columns ascending, which can matter only where min is above 1
 */
lt_tiling lt_tiling_choose(const lt_tiling_opts *opts, int64_t h, int64_t w);
/**
 * The same for one of n pictures of a record: with `share` each has floor(max / n).
 */
lt_tiling lt_tiling_share(const lt_tiling_opts *opts, int64_t n, int64_t h, int64_t w);

/**
 * Patch rows of all tiles of a picture, one tile after another: resized by the processor's
 * arithmetic, cut row by row, the thumbnail last. Padding, where asked for, has the processor's
 * mean as its colour, truncated.
 * source   InternVL's dynamic_preprocess, expand2square and build_transform; spec data-pipeline 9.2
 * in       p: patch must divide the tile; temporal 1
 * out      rows [lt_tiling_count(t) * (tile / patch)^2, lt_image_row_width]
 * errors   LT_ERR_SHAPE, LT_ERR_DTYPE, LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_tiling_rows(const lt_image_processor *p, const lt_tiling_opts *opts,
                                      const lt_tiling *t, const lt_image *image, lt_dtype dtype,
                                      void *rows);
#endif
