// SPDX-License-Identifier: Apache-2.0
// The grid of a picture or video: how many temporal slices, patch rows and patch columns it has.
#ifndef LT_DATA_GRID_H
#define LT_DATA_GRID_H

#include <stdbool.h>
#include <stdint.h>

/**
 * t temporal slices of h x w patches; a still picture has t = 1. h and w are multiples of the merge
 * size.
 */
typedef struct lt_grid {
    int64_t t, h, w;
} lt_grid;

/** Rows of pixel_values: t*h*w. */
static inline int64_t lt_grid_patches(lt_grid g)
{
    return g.t * g.h * g.w;
}
/** Placeholder tokens: t*h*w / merge^2. */
static inline int64_t lt_grid_tokens(lt_grid g, int64_t merge)
{
    return g.t * (g.h / merge) * (g.w / merge);
}
static inline bool lt_grid_equal(lt_grid a, lt_grid b)
{
    return a.t == b.t && a.h == b.h && a.w == b.w;
}
#endif
