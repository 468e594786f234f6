// SPDX-License-Identifier: Apache-2.0
// Grids and rows of a picture's file.
#include "data/picture.h"

/** Of a picture whose size is final: within the budget. */
static lt_status grid_of_size(const lt_collate_opts *o, int64_t n_images, int64_t h, int64_t w,
                              lt_tiling *tiling, lt_grid *out)
{
    if (!o->tiles)
        return lt_image_grid_of_size(&o->processor, h, w, out);
    const int64_t side = o->tiling.tile / o->processor.patch;
    *tiling = lt_tiling_share(&o->tiling, n_images, h, w);
    *out = (lt_grid){.t = lt_tiling_count(tiling), .h = side, .w = side};
    return LT_OK;
}

lt_status lt_picture_grid(const lt_collate_opts *o, const char *path, int64_t n_images,
                          lt_grid *out)
{
    lt_image_info info;
    lt_tiling tiling;
    int64_t h = 0, w = 0;
    LT_TRY(lt_image_probe(path, &info));
    lt_status st = lt_image_budget_size(&o->budget, info.h, info.w, &h, &w);
    if (st == LT_OK)
        st = grid_of_size(o, n_images, h, w, &tiling, out);
    if (st != LT_OK)
        lt_error_note("%s", path);
    return st;
}

static lt_status check_grid(const lt_media *m, lt_grid now)
{
    if (lt_grid_equal(now, m->grid))
        return LT_OK;
    if (now.t != m->grid.t) {
        return LT_FAIL(LT_ERR_DATA,
                       "picture %s makes %lld tiles, but made %lld when the sample was encoded: "
                       "the file has changed",
                       m->path, (long long)now.t, (long long)m->grid.t);
    }
    return LT_FAIL(LT_ERR_DATA,
                   "picture %s makes %lld x %lld patches, but made %lld x %lld when the sample "
                   "was encoded: the file has changed",
                   m->path, (long long)now.h, (long long)now.w, (long long)m->grid.h,
                   (long long)m->grid.w);
}

lt_status lt_picture_rows(const lt_collate_opts *o, int64_t n_images, const lt_media *m, void *rows)
{
    lt_image image = {0};
    lt_grid now;
    lt_tiling tiling;
    LT_TRY(lt_image_load(m->path, &o->budget, &image));
    lt_status st = grid_of_size(o, n_images, image.h, image.w, &tiling, &now);
    if (st == LT_OK)
        st = check_grid(m, now);
    if (st == LT_OK && o->tiles)
        st = lt_tiling_rows(&o->processor, &o->tiling, &tiling, &image, o->pixel_dtype, rows);
    else if (st == LT_OK)
        st = lt_image_rows(&o->processor, &image, o->pixel_dtype, rows);
    lt_image_deinit(&image);
    return st;
}
