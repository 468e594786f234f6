// SPDX-License-Identifier: Apache-2.0
// Videos: which frames are taken, what size they get, when they are, and their patch rows.
#ifndef LT_DATA_VIDEO_VIDEO_H
#define LT_DATA_VIDEO_VIDEO_H

#include "base/memory.h"
#include "data/image/image.h"
#include "data/sample.h"

typedef struct lt_video_opts {
    lt_image_budget budget;         // of a frame: video_max_pixels, video_min_pixels
    int64_t min_pixels, max_pixels; // of the processor, over all frames of a video
    double fps;                     // video_fps: frames taken of a second
    int64_t max_frames;             // video_maxlen
    bool reference_times; // MindSpeed-MM's: sampled a second time, stamps by the sample's number
} lt_video_opts;
/** 65536 and 256 pixels a frame by the nearest pixel; 4096 to 25165824; 2 a second, 128. */
lt_video_opts lt_video_opts_default(void);
/**
 * min_pixels and max_pixels from DIR/video_preprocessor_config.json, where there is one.
 * errors   LT_ERR_FORMAT, LT_ERR_CONFIG with file and key
 */
LT_NODISCARD lt_status lt_video_limits_open(const char *dir, lt_video_opts *out);

/**
 * Numbers of the frames that are taken of a file with `n_frames` (0: unknown) and `seconds`.
 * n = min(n_frames, max_frames, max(1, floor(seconds * fps))), number i = trunc(i (N-1)/(n-1)), the
 * last one N - 1; unknown: the first max_frames.
 * source   spec data-pipeline 8.1
 * out      *numbers [*n] ascending, each once
 */
LT_NODISCARD lt_status lt_video_sample(int64_t n_frames, double seconds, const lt_video_opts *opts,
                                       lt_arena *arena, int64_t **numbers, int64_t *n);
/**
 * Places in a list of n frames that the reference's processor takes of it: trunc(n / fps * 2) of
 * them, at least 4, at most 768 and n, evenly spaced, halves to even.
 * source   spec data-pipeline 8.3
 */
LT_NODISCARD lt_status lt_video_resample(int64_t n, const lt_video_opts *opts, lt_arena *arena,
                                         int64_t **places, int64_t *n_places);
/**
 * Size of n frames of h x w: multiples of patch * merge, all frames together within the limits.
 * source   smart_resize of transformers' Qwen3-VL video processor (4.57); spec 8.2
 * errors   LT_ERR_DATA: fewer than 2 frames, a side below patch * merge, an aspect above 200
 */
LT_NODISCARD lt_status lt_video_size(const lt_image_processor *p, const lt_video_opts *opts,
                                     int64_t n, int64_t h, int64_t w, int64_t *out_h,
                                     int64_t *out_w);

/**
 * The medium of a video: frames, times and grid. Reads headers only.
 * out      *out: memory is the arena's
 * errors   LT_ERR_DATA: frames of several sizes, no frames; what lt_image_probe says;
 *          LT_ERR_UNSUPPORTED: a video file where this build reads none
 */
LT_NODISCARD lt_status lt_video_describe(const lt_image_processor *p, const lt_video_opts *opts,
                                         const lt_video_ref *ref, lt_arena *arena, lt_media *out);
/**
 * Patch rows [t*h*w, lt_image_row_width] of a medium that lt_video_describe made.
 * errors   of reading; LT_ERR_DATA when a frame has another size by now
 */
LT_NODISCARD lt_status lt_video_rows(const lt_image_processor *p, const lt_video_opts *opts,
                                     const lt_media *media, lt_dtype dtype, void *rows);
#endif
