// SPDX-License-Identifier: Apache-2.0
// Choosing a grid of tiles by aspect.
#include "data/image/tiling.h"

#include <math.h>

lt_tiling_opts lt_tiling_opts_default(void)
{
    return (lt_tiling_opts){.tile = 448, .min = 1, .max = 12, .use_thumbnail = true};
}

int64_t lt_tiling_count(const lt_tiling *t)
{
    return t->columns * t->rows + t->thumbnail;
}

lt_tiling lt_tiling_choose(const lt_tiling_opts *opts, int64_t h, int64_t w)
{
    const double aspect = (double)w / (double)h, area = (double)w * (double)h,
                 tile = (double)opts->tile * (double)opts->tile;
    lt_tiling best = {.columns = 1, .rows = 1};
    double nearest = HUGE_VAL;
    for (int64_t n = lt_max_i64(1, opts->min); n <= opts->max; n++) {
        for (int64_t columns = 1; columns <= n; columns++) {
            if (n % columns != 0)
                continue;
            const int64_t rows = n / columns;
            const double d = fabs(aspect - (double)columns / (double)rows);
            if (d < nearest || (d == nearest && area > 0.5 * tile * (double)n)) {
                best.columns = columns;
                best.rows = rows;
                nearest = d;
            }
        }
    }
    best.thumbnail = opts->use_thumbnail && best.columns * best.rows > 1;
    return best;
}
