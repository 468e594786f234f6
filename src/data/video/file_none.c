// SPDX-License-Identifier: Apache-2.0
// A build without FFmpeg: video files are refused by name, lists of pictures work.
#include "data/video/file.h"

static lt_status refuse(const char *path)
{
    return LT_FAIL(
        LT_ERR_UNSUPPORTED,
        "%s: this build reads no video files, since FFmpeg's libraries were not there when it "
        "was made; a video may also be a list of pictures, one for each frame",
        path);
}

lt_status lt_video_file_probe(const char *path, lt_video_info *out)
{
    (void)out;
    return refuse(path);
}

lt_status lt_video_file_read(const char *path, const int64_t *numbers, int64_t n,
                             const lt_image_budget *budget, lt_frame_fn fn, void *ctx)
{
    (void)numbers, (void)n, (void)budget, (void)fn, (void)ctx;
    return refuse(path);
}
