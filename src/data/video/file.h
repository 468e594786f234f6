// SPDX-License-Identifier: Apache-2.0
// Video files, where the build has FFmpeg's libraries. Internal to data/video.
#ifndef LT_DATA_VIDEO_FILE_H
#define LT_DATA_VIDEO_FILE_H

#include "data/image/image.h"

enum { LT_VIDEO_MAX_TEMPORAL = 8 };

typedef struct lt_video_info {
    int64_t n_frames; // as the container says; 0: unknown
    double seconds, fps;
    int64_t h, w;
} lt_video_info;

/**
 * errors   LT_ERR_UNSUPPORTED in a build without FFmpeg; LT_ERR_NOT_FOUND, LT_ERR_FORMAT
 * threads  any
 */
LT_NODISCARD lt_status lt_video_file_probe(const char *path, lt_video_info *out);

/** Called with each frame in turn; what it leaves in *frame is freed. */
typedef lt_status (*lt_frame_fn)(void *ctx, lt_image *frame);
/**
 * Frames of these numbers [n] (never falling; one may come again), each within the budget, to `fn`.
 * errors   as lt_video_file_probe; those of fn
 */
LT_NODISCARD lt_status lt_video_file_read(const char *path, const int64_t *numbers, int64_t n,
                                          const lt_image_budget *budget, lt_frame_fn fn, void *ctx);

#endif
