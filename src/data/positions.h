// SPDX-License-Identifier: Apache-2.0
// Position ids of Qwen's three-axis rotary embedding (mRoPE): text counts on, pictures spread over
// rows and columns.
#ifndef LT_DATA_POSITIONS_H
#define LT_DATA_POSITIONS_H

#include "base/status.h"
#include "data/sample.h"

/**
 * Grids still to be met, images and videos apart, each in the order of its placeholders. Videos
 * advance by whole videos.
 */
typedef struct lt_grid_cursor {
    const lt_grid *images, *videos;
    int64_t n_images, n_videos;
    int64_t next_image, next_video; // videos counted whole
    int64_t next_slice;             // temporal slice of videos[next_video] that comes next
} lt_grid_cursor;

/** What stood where in a row, in token order; see lt_positions_mrope. */
typedef struct lt_vision_run {
    int64_t first, n; // tokens
    bool video;
    int64_t index; // of the grid within its kind
    int64_t slice; // temporal slice of a video, 0 for images
} lt_vision_run;

/**
 * Positions of one unpadded row. Text runs take p, p+1, ...; a picture with merged grid (a, b)
 * takes (p, p+y, p+x), then p += max(a, b).
 * Every temporal slice of a video is a run of its own (its time stamp is text before it).
 * source   spec models 4.3, data-pipeline 11 (get_rope_index of Qwen3-VL and Qwen3.5)
 * in       ids [n]; cursor: the grids; it advances
 * out      pos + 0, + stride, + 2*stride: the axes time, row, column, [n] each; on_run is called
 *          for each visual run (NULL: nobody)
 * errors   LT_ERR_DATA: fewer or more placeholder tokens than the grid says, a placeholder without
 *          its start token, a start token at the very end, more pictures than grids. Grids that are
 *          left over are the caller's business.
 */
typedef lt_status (*lt_vision_run_fn)(void *ctx, const lt_vision_run *run);
LT_NODISCARD lt_status lt_positions_mrope(const int32_t *ids, int64_t n,
                                          const lt_vision_ids *vision, int64_t merge,
                                          lt_grid_cursor *cursor, int32_t *pos, int64_t stride,
                                          lt_vision_run_fn on_run, void *ctx);

/** All three axes 0 .. n-1: models without visual positions. */
void lt_positions_plain(int64_t n, int32_t *pos, int64_t stride);
#endif
