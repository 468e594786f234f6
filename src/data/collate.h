// SPDX-License-Identifier: Apache-2.0
// The micro-batch that a model takes: samples packed end to end without padding, with their
// positions, pictures and targets.
#ifndef LT_DATA_COLLATE_H
#define LT_DATA_COLLATE_H

#include "data/image/tiling.h"
#include "data/sample.h"
#include "data/video/video.h"
#include "data/vision_geometry.h"

/** Fetch the patch rows of one medium into rows [t*h*w, row width], in opts.pixel_dtype. */
typedef lt_status (*lt_pixels_fn)(void *ctx, const lt_media *media, void *rows);

typedef struct lt_collate_opts {
    bool mrope; // three-axis positions (Qwen); else 0 .. n-1
    bool tiles; // pictures are t tiles of h x w patches, and their tokens count on like text
    lt_tiling_opts tiling; // how many, where pictures are opened from their paths
    lt_vision_ids
        vision;         // of the model; image_pad -1: a model without pictures, which refuses media
    int64_t vocab_size; // ids and labels must lie below; 0: unchecked
    int64_t table_side; // G of the tower's position table; 0: no corners
    lt_image_processor processor; // patch, merge and temporal sizes, resize, normalisation
    lt_image_budget budget;       // what the grids were counted with
    lt_video_opts video;          // and those of videos
    lt_dtype pixel_dtype;         // LT_F32 or LT_BF16
    lt_pixels_fn pixels;          // NULL: pictures and videos are opened from their paths
    void *pixels_ctx;
} lt_collate_opts;
lt_collate_opts lt_collate_opts_default(void);

/**
 * A micro-batch. T tokens in S samples, n targets, N patch rows in F frames for M visual tokens.
 * Arrays belong to the batch and live until the next lt_batch_collate on it; an array of no
 * elements may be NULL.
 */
typedef struct lt_batch {
    int64_t n_samples, n_tokens, n_targets, n_patches, n_visual, n_frames, n_media;
    int64_t n_labels;     // unshifted labels > -1: what per_token_loss counts
    int64_t row_width;    // columns of pixels
    lt_dtype pixel_dtype; // of pixels
    int32_t *ids;         // [T]
    int32_t *segments;    // [S + 1] first token of each sample, then T
    int32_t *positions;   // [3, T] time, row, column
    int32_t *target_rows; // [n] tokens whose next token, in the same sample, has a label; ascending
    int32_t *targets;     // [n] that label
    int32_t *target_sample;  // [n] the sample, 0 .. S-1
    int64_t *sample_targets; // [S] targets of each sample
    int64_t *sample_labels;  // [S] unshifted labels > -1 of each sample
    int32_t *visual_rows;    // [M] tokens that are placeholders, ascending
    lt_grid *grids;          // [n_media] in token order
    void *pixels; // [N, row_width] in token order: images and videos as their placeholders occur
    // segments [F + 1], row_col [2, N], corner and corner_weight [N, 4]
    lt_vision_geometry geometry;
    struct lt_batch_memory *memory; // what the arrays lie in
} lt_batch;

/** An empty batch; its buffers grow to the largest micro-batch seen and are used again. */
LT_NODISCARD lt_status lt_batch_create(lt_batch **out);
void lt_batch_destroy(lt_batch *batch);
/** Bytes held by the batch's buffers. */
int64_t lt_batch_bytes(const lt_batch *batch);

/**
 * Build the micro-batch of samples [n]. Reads the pictures.
 * source   spec data-pipeline 10, 11; models 4, 5.1, 7.1
 * errors   all name file and record: LT_ERR_DATA when placeholders and grids don't match, an id or
 *          label is out of range, a sample is empty, a picture's size changed since it was encoded;
 *          what lt_image_load and lt_video_rows give
 * threads  one per batch
 */
LT_NODISCARD lt_status lt_batch_collate(lt_batch *batch, const lt_sample *samples, int64_t n,
                                        const lt_collate_opts *opts);
#endif
