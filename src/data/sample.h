// SPDX-License-Identifier: Apache-2.0
// One encoded sample: ids, labels, the media that its placeholders stand for, and where it came
// from.
#ifndef LT_DATA_SAMPLE_H
#define LT_DATA_SAMPLE_H

#include "data/grid.h"

typedef enum lt_media_kind { LT_MEDIA_IMAGE, LT_MEDIA_VIDEO } lt_media_kind;

/** A video as a record names it: a file, or its frames as pictures. */
typedef struct lt_video_ref {
    const char *path;          // of the file, or of the first frame
    const char *const *frames; // [n_frames]; NULL: path is a video file
    int64_t n_frames;
} lt_video_ref;

/** The frames that a video comes to, each as a picture or by its number in the file. */
typedef struct lt_clip {
    const char *const *files; // [n]; NULL: frames of the medium's file
    const int64_t *numbers;   // [n] in that file, or in the list of pictures; never falling
    const double *stamps;     // [grid.t] seconds of each temporal slice
    int64_t n;                // a multiple of the temporal patch: the last one may stand again
    int64_t h, w;             // of a frame within the pixel budget
} lt_clip;

typedef struct lt_media {
    lt_media_kind kind;
    const char *path;    // what is opened, and what messages show
    lt_grid grid;        // as counted when the sample was encoded
    const lt_clip *clip; // of a video that is read from files
} lt_media;

typedef struct lt_sample {
    const int32_t *ids;    // [n]
    const int32_t *labels; // [n] unshifted; -100 where no loss is wanted
    int64_t n;
    const lt_media *media; // [n_media] in the order in which their placeholders occur
    int64_t n_media;
    int64_t n_images; // pictures of its record, lost ones too; 0: as many as there are media
    const char *file; // data set file; NULL when there is none
    int64_t record;   // number of the record in it, as messages print it
    int64_t line;     // of its first byte; 0: unknown
} lt_sample;

/**
 * Ids of the vision tokens, from config.json (or by content from the tokenizer). -1 where a model
 * has none.
 */
typedef struct lt_vision_ids {
    int32_t image_pad, video_pad, vision_start;
} lt_vision_ids;

/** Label of a token without loss. */
enum { LT_IGNORE_LABEL = -100 };
#endif
