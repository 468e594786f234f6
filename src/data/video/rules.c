// SPDX-License-Identifier: Apache-2.0
// Which frames of a video are taken, and what size they get.
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "data/video/video.h"

enum {
    MAX_ASPECT = 200,
    LEAST_FRAMES = 4, // of the processor's own sampling
    MOST_FRAMES = 768,
    MAX_CONFIG_BYTES = 1 << 20,
    MAX_FRAMES = 1 << 20, // that a video may be asked for
};

lt_video_opts lt_video_opts_default(void)
{
    return (lt_video_opts){
        .budget = {.max_pixels = 65536, .min_pixels = 256, .filter = LT_IMAGE_NEAREST},
        .min_pixels = 4096,
        .max_pixels = 25165824,
        .fps = 2.0,
        .max_frames = 128};
}

static lt_status read_limit(const json_t *size, const char *key, const char *path, int64_t *out)
{
    const json_t *v = json_object_get(size, key);
    if (v == NULL)
        return LT_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return LT_FAIL(LT_ERR_CONFIG, "%s: size.%s must be a whole number above 0", path, key);
    *out = json_integer_value(v);
    return LT_OK;
}

static lt_status read_limits(const char *path, lt_video_opts *out)
{
    lt_buf text = {0};
    json_error_t error;
    LT_TRY(lt_file_read(path, MAX_CONFIG_BYTES, &text));
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    lt_buf_deinit(&text);
    if (root == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: no valid JSON: %s", path, error.line, error.text);
    const json_t *size = json_object_get(root, "size");
    lt_status st = read_limit(size, "shortest_edge", path, &out->min_pixels);
    if (st == LT_OK)
        st = read_limit(size, "longest_edge", path, &out->max_pixels);
    json_decref(root);
    return st;
}

lt_status lt_video_limits_open(const char *dir, lt_video_opts *out)
{
    lt_arena *arena = NULL;
    char *path = NULL;
    LT_TRY(lt_arena_create(&arena, "video processor"));
    lt_status st = lt_path_join(arena, dir, "video_preprocessor_config.json", &path);
    if (st == LT_OK && lt_file_exists(path))
        st = read_limits(path, out);
    lt_arena_destroy(arena);
    return st;
}

// ---------------------------------------------------------------- frames

static lt_status take_numbers(lt_arena *arena, int64_t n, int64_t **out)
{
    void *memory = NULL;
    if (n < 1 || n > MAX_FRAMES)
        return LT_FAIL(LT_ERR_DATA, "a video of %lld frames is out of range: 1 to %d are the rule",
                       (long long)n, MAX_FRAMES);
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int64_t), &memory));
    *out = memory;
    return LT_OK;
}

lt_status lt_video_sample(int64_t n_frames, double seconds, const lt_video_opts *opts,
                          lt_arena *arena, int64_t **numbers, int64_t *n)
{
    const double wanted = floor(seconds * opts->fps);
    int64_t most = opts->max_frames;
    if (n_frames > 0) {
        most = lt_min_i64(most, n_frames);
        if (wanted < (double)most)
            most = lt_max_i64(1, (int64_t)(wanted > 0 ? wanted : 0));
    }
    LT_TRY(take_numbers(arena, most, numbers));
    *n = 0;
    for (int64_t i = 0; i < most; i++) {
        int64_t k = i;
        if (n_frames > 0 && most > 1) { // numpy's linspace: a step, then the exact end
            k = i == most - 1
                    ? n_frames - 1
                    : (int64_t)((double)i * ((double)(n_frames - 1) / (double)(most - 1)));
        }
        if (*n == 0 || (*numbers)[*n - 1] != k)
            (*numbers)[(*n)++] = k;
    }
    return LT_OK;
}

lt_status lt_video_resample(int64_t n, const lt_video_opts *opts, lt_arena *arena, int64_t **places,
                            int64_t *n_places)
{
    int64_t wanted = (int64_t)((double)n / opts->fps * 2.0);
    wanted = lt_min_i64(lt_min_i64(lt_max_i64(wanted, LEAST_FRAMES), MOST_FRAMES), n);
    LT_TRY(take_numbers(arena, wanted, places));
    for (int64_t i = 0; i < wanted; i++) {
        const double step = wanted > 1 ? (double)(n - 1) / (double)(wanted - 1) : 0.0;
        (*places)[i] = i == wanted - 1 && wanted > 1 ? n - 1 : (int64_t)nearbyint((double)i * step);
    }
    *n_places = wanted;
    return LT_OK;
}

// ---------------------------------------------------------------- size

lt_status lt_video_size(const lt_image_processor *p, const lt_video_opts *opts, int64_t n,
                        int64_t h, int64_t w, int64_t *out_h, int64_t *out_w)
{
    const int64_t factor = p->patch * p->merge;
    const double f = (double)factor, t = (double)p->temporal, frames = (double)n,
                 height = (double)h, width = (double)w;
    if (n < p->temporal)
        return LT_FAIL(LT_ERR_DATA, "a video needs at least %lld frames, got %lld",
                       (long long)p->temporal, (long long)n);
    if (h < factor || w < factor) {
        return LT_FAIL(LT_ERR_DATA,
                       "a video's frames need sides of at least %lld pixels, got %lld x %lld",
                       (long long)factor, (long long)w, (long long)h);
    }
    if (h > INT32_MAX || w > INT32_MAX || fmax(height, width) / fmin(height, width) > MAX_ASPECT) {
        return LT_FAIL(LT_ERR_DATA,
                       "a video of %lld x %lld pixels is out of proportion: its aspect must be at "
                       "most %d",
                       (long long)w, (long long)h, MAX_ASPECT);
    }
    const double tb = nearbyint(frames / t) * t, limit_high = (double)opts->max_pixels,
                 limit_low = (double)opts->min_pixels;
    double hb = nearbyint(height / f) * f, wb = nearbyint(width / f) * f;
    if (tb * hb * wb > limit_high) {
        const double b = sqrt(frames * height * width / limit_high);
        hb = fmax(f, floor(height / b / f) * f);
        wb = fmax(f, floor(width / b / f) * f);
    } else if (tb * hb * wb < limit_low) {
        const double b = sqrt(limit_low / (frames * height * width));
        hb = ceil(height * b / f) * f;
        wb = ceil(width * b / f) * f;
    }
    *out_h = (int64_t)hb;
    *out_w = (int64_t)wb;
    return LT_OK;
}
