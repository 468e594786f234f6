// SPDX-License-Identifier: Apache-2.0
// Choosing a grid of tiles by aspect; cutting.
#include "data/image/tiling.h"

#include "base/memory.h"
#include "data/image/native.h"
#include <math.h>
#include <string.h>

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

lt_tiling lt_tiling_share(const lt_tiling_opts *opts, int64_t n, int64_t h, int64_t w)
{
    lt_tiling_opts own = *opts;
    if (opts->share && n > 1)
        own.max /= n;
    return lt_tiling_choose(&own, h, w);
}

// ---------------------------------------------------------------- pixels

static lt_status take(int64_t h, int64_t w, lt_image *out)
{
    void *px = NULL;
    LT_TRY(lt_mem_alloc(&px, (size_t)(3 * h * w), "a tile"));
    *out = (lt_image){.px = px, .h = h, .w = w};
    return LT_OK;
}

static void paste(const lt_image *from, int64_t y0, int64_t x0, const lt_image *to)
{
    for (int64_t y = 0; y < from->h; y++)
        memcpy(to->px + 3 * ((y0 + y) * to->w + x0), from->px + 3 * y * from->w,
               (size_t)(3 * from->w));
}

/** The picture in the middle of a square of its longer side. */
static lt_status pad_square(const lt_image_processor *p, const lt_image *image, lt_image *out)
{
    const int64_t side = lt_max_i64(image->h, image->w);
    if (side > LT_IMAGE_MAX_PIXELS / side) {
        return LT_FAIL(LT_ERR_DATA,
                       "a picture of %lld x %lld pixels cannot be padded to a square: it would "
                       "have more than %d pixels",
                       (long long)image->w, (long long)image->h, LT_IMAGE_MAX_PIXELS);
    }
    LT_TRY(take(side, side, out));
    for (int64_t i = 0; i < 3 * side * side; i++)
        out->px[i] = (uint8_t)(p->mean[i % 3] * 255.0);
    paste(image, (side - image->h) / 2, (side - image->w) / 2, out);
    return LT_OK;
}

typedef struct cutter {
    const lt_image_processor *p;
    int64_t tile;
    lt_dtype dtype;
    char *rows;
    size_t tile_bytes; // of one tile's rows
} cutter;

static lt_status put_tile(cutter *c, const lt_image *tile)
{
    LT_TRY(lt_image_patches(c->p, tile, c->dtype, c->rows));
    c->rows += c->tile_bytes;
    return LT_OK;
}

/** Tiles of a resized picture, row by row. */
static lt_status cut(cutter *c, const lt_image *resized)
{
    lt_image tile = {0};
    LT_TRY(take(c->tile, c->tile, &tile));
    lt_status st = LT_OK;
    for (int64_t y = 0; y < resized->h && st == LT_OK; y += c->tile) {
        for (int64_t x = 0; x < resized->w && st == LT_OK; x += c->tile) {
            for (int64_t line = 0; line < c->tile; line++)
                memcpy(tile.px + 3 * line * c->tile,
                       resized->px + 3 * ((y + line) * resized->w + x), (size_t)(3 * c->tile));
            st = put_tile(c, &tile);
        }
    }
    lt_image_deinit(&tile);
    return st;
}

/** The picture at columns x rows tiles, cut. */
static lt_status put_grid(cutter *c, const lt_image *image, int64_t columns, int64_t rows)
{
    lt_image resized = {0};
    LT_TRY(lt_image_resize(c->p, image, rows * c->tile, columns * c->tile, &resized));
    const lt_status st = cut(c, &resized);
    lt_image_deinit(&resized);
    return st;
}

lt_status lt_tiling_rows(const lt_image_processor *p, const lt_tiling_opts *opts,
                         const lt_tiling *t, const lt_image *image, lt_dtype dtype, void *rows)
{
    const int64_t side = opts->tile / p->patch;
    LT_ASSERT(opts->tile % p->patch == 0);
    cutter c = {.p = p, .tile = opts->tile, .dtype = dtype, .rows = rows};
    c.tile_bytes = (size_t)(side * side * lt_image_row_width(p)) * lt_dtype_bytes(dtype);
    if (opts->pad_square && image->h != image->w) {
        lt_image square = {0};
        LT_TRY(pad_square(p, image, &square));
        const lt_status st = put_grid(&c, &square, t->columns, t->rows);
        lt_image_deinit(&square);
        return st;
    }
    LT_TRY(put_grid(&c, image, t->columns, t->rows));
    return t->thumbnail ? put_grid(&c, image, 1, 1) : LT_OK;
}
