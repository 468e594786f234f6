// SPDX-License-Identifier: Apache-2.0
// InternVL's dynamic tiling: how many square tiles a picture is cut into, and how they lie.
#ifndef LT_DATA_IMAGE_TILING_H
#define LT_DATA_IMAGE_TILING_H

#include "base/status.h"

typedef struct lt_tiling_opts {
    int64_t tile;       /* side of a tile: 448 */
    int64_t min, max;   /* tiles of a picture: min_dynamic_patch, max_dynamic_patch */
    bool use_thumbnail; /* the whole picture as one more tile, where there are several */
} lt_tiling_opts;
/** 448, 1 to 12 tiles with a thumbnail. */
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
#endif
