// SPDX-License-Identifier: Apache-2.0
// A picture as a model takes it: one grid of its own size (Qwen), or tiles of one size (InternVL).
#ifndef LT_DATA_PICTURE_H
#define LT_DATA_PICTURE_H

#include "data/collate.h"

/**
 * The grid that the picture at `path` will have, from its header alone.
 * in       n_images: pictures of its record, which may share the tiles
 * errors   of lt_image_probe, lt_image_grid; the message names the path
 * threads  any
 */
LT_NODISCARD lt_status lt_picture_grid(const lt_collate_opts *o, const char *path, int64_t n_images,
                                       lt_grid *out);
/**
 * Its patch rows, in o->pixel_dtype.
 * errors   of lt_image_load; LT_ERR_DATA when the grid is no longer m->grid: the file has changed
 * threads  any
 */
LT_NODISCARD lt_status lt_picture_rows(const lt_collate_opts *o, int64_t n_images,
                                       const lt_media *m, void *rows);
#endif
