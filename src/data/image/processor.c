// SPDX-License-Identifier: Apache-2.0
// The image processor's numbers: preprocessor_config.json, smart_resize, grids.
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "data/image/native.h"

enum { MAX_CONFIG_BYTES = 1 << 22, MAX_ASPECT = 200 };

lt_image_processor lt_image_processor_default(void)
{
    return (lt_image_processor){.patch = 16,
                                .merge = 2,
                                .temporal = 2,
                                .min_pixels = 65536,
                                .max_pixels = 16777216,
                                .mean = {0.5, 0.5, 0.5},
                                .std = {0.5, 0.5, 0.5},
                                .resampler = LT_RESAMPLE_TORCHVISION};
}

// ---------------------------------------------------------------- the file

/** One integer of the file. Rows are read in order: a later spelling wins over an earlier one. */
typedef struct int_row {
    const char *in, *key; // in: an object to look inside, NULL for the top
    size_t offset;
    int64_t min, max;
} int_row;

#define AT(field) offsetof(lt_image_processor, field)
static const int_row ints[] = {
    {NULL, "patch_size", AT(patch), 1, 1024},
    {NULL, "spatial_merge_size", AT(merge), 1, 64},
    {NULL, "merge_size", AT(merge), 1, 64},
    {NULL, "temporal_patch_size", AT(temporal), 1, 64},
    {"size", "min_pixels", AT(min_pixels), 1, LT_IMAGE_MAX_PIXELS},
    {"size", "max_pixels", AT(max_pixels), 1, INT64_C(1) << 40},
    {"size", "shortest_edge", AT(min_pixels), 1, LT_IMAGE_MAX_PIXELS},
    {"size", "longest_edge", AT(max_pixels), 1, INT64_C(1) << 40},
    {NULL, "min_pixels", AT(min_pixels), 1, LT_IMAGE_MAX_PIXELS},
    {NULL, "max_pixels", AT(max_pixels), 1, INT64_C(1) << 40},
};

static lt_status read_int(const json_t *root, const char *path, const int_row *row,
                          lt_image_processor *out)
{
    const json_t *object = row->in == NULL ? root : json_object_get(root, row->in);
    const json_t *v = json_object_get(object, row->key);
    if (v == NULL || json_is_null(v))
        return LT_OK;
    const double d = json_number_value(v);
    if (!json_is_number(v) || d != floor(d) || d < (double)row->min || d > (double)row->max) {
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s%s%s must be a whole number from %lld to %lld", path,
                       row->in ? row->in : "", row->in ? "." : "", row->key, (long long)row->min,
                       (long long)row->max);
    }
    const int64_t n = (int64_t)d;
    memcpy((char *)out + row->offset, &n, sizeof n);
    return LT_OK;
}

static lt_status read_three(const json_t *root, const char *path, const char *key, bool positive,
                            double out[3])
{
    const json_t *v = json_object_get(root, key);
    if (v == NULL || json_is_null(v))
        return LT_OK;
    for (size_t i = 0; i < 3; i++) {
        const json_t *e = json_is_array(v) && json_array_size(v) == 3 ? json_array_get(v, i) : v;
        const double d = json_number_value(e);
        if (!json_is_number(e) || !isfinite(d) || fabs(d) > 1e6 || (positive && d <= 0.0))
            return LT_FAIL(LT_ERR_CONFIG, "%s: %s must be %s number, or three of them", path, key,
                           positive ? "a positive" : "a");
        out[i] = d;
    }
    return LT_OK;
}

/** Steps that lathe always takes: their switch may only be on. */
static lt_status check_steps(const json_t *root, const char *path)
{
    static const char *const steps[] = {"do_resize", "do_rescale", "do_normalize"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (json_is_false(json_object_get(root, steps[i])))
            return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: %s is false, and only true is supported", path,
                           steps[i]);
    }
    const json_t *filter = json_object_get(root, "resample");
    if (json_is_number(filter) && json_number_value(filter) != 3.0)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: resample is %g, and only 3 (bicubic) is supported",
                       path, json_number_value(filter));
    const json_t *factor = json_object_get(root, "rescale_factor");
    if (json_is_number(factor) && fabs(json_number_value(factor) * 255.0 - 1.0) > 1e-9) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: rescale_factor is %.17g, and only 1/255 is supported", path,
                       json_number_value(factor));
    }
    return LT_OK;
}

static lt_status read_processor(const json_t *root, const char *path, lt_image_processor *out)
{
    if (!json_is_object(root))
        return LT_FAIL(LT_ERR_FORMAT, "%s: the image processor must be a JSON object", path);
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
        LT_TRY(read_int(root, path, &ints[i], out));
    LT_TRY(read_three(root, path, "image_mean", false, out->mean));
    LT_TRY(read_three(root, path, "image_std", true, out->std));
    if (out->min_pixels > out->max_pixels) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: the smallest picture, %lld pixels, is larger than the largest, %lld",
                       path, (long long)out->min_pixels, (long long)out->max_pixels);
    }
    return check_steps(root, path);
}

static lt_status read_file(const char *path, const char *part, lt_image_processor *out)
{
    lt_buf text = {0};
    json_error_t error;
    LT_TRY(lt_file_read(path, MAX_CONFIG_BYTES, &text));
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    lt_buf_deinit(&text);
    if (root == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: no valid JSON: %s", path, error.line, error.text);
    const json_t *object = root;
    if (part != NULL || json_object_get(root, "image_processor") != NULL)
        object = json_object_get(root, "image_processor");
    lt_image_processor p = lt_image_processor_default();
    const lt_status st = object == NULL
                             ? LT_FAIL(LT_ERR_FORMAT, "%s: it has no key image_processor", path)
                             : read_processor(object, path, &p);
    json_decref(root);
    if (st == LT_OK)
        *out = p;
    return st;
}

lt_status lt_image_processor_open(const char *dir, lt_image_processor *out)
{
    lt_arena *arena = NULL;
    char *own = NULL, *joint = NULL;
    lt_status st;
    LT_TRY(lt_arena_create(&arena, "image processor"));
    LT_TRY_GOTO(st, lt_path_join(arena, dir, "preprocessor_config.json", &own), done);
    LT_TRY_GOTO(st, lt_path_join(arena, dir, "processor_config.json", &joint), done);
    if (lt_file_exists(own))
        st = read_file(own, NULL, out);
    else if (lt_file_exists(joint))
        st = read_file(joint, "image_processor", out);
    else
        st = LT_FAIL(LT_ERR_NOT_FOUND,
                     "%s has neither preprocessor_config.json nor processor_config.json", dir);
done:
    lt_arena_destroy(arena);
    return st;
}

// ---------------------------------------------------------------- sizes

lt_status lt_smart_resize(const lt_image_processor *p, int64_t h, int64_t w, int64_t *out_h,
                          int64_t *out_w)
{
    const int64_t factor = p->patch * p->merge;
    const double f = (double)factor, height = (double)h, width = (double)w, area = height * width;
    if (h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX ||
        fmax(height, width) / fmin(height, width) > MAX_ASPECT) {
        return LT_FAIL(
            LT_ERR_DATA,
            "a picture of %lld x %lld pixels is out of proportion: its aspect must be at most %d",
            (long long)w, (long long)h, MAX_ASPECT);
    }
    // nearbyint: halves to even, as Python's round
    int64_t hb = (int64_t)nearbyint(height / f) * factor,
            wb = (int64_t)nearbyint(width / f) * factor;
    if (hb * wb > p->max_pixels) {
        const double b = sqrt(area / (double)p->max_pixels);
        hb = lt_max_i64(factor, (int64_t)floor(height / b / f) * factor);
        wb = lt_max_i64(factor, (int64_t)floor(width / b / f) * factor);
    } else if (hb * wb < p->min_pixels) {
        const double b = sqrt((double)p->min_pixels / area);
        hb = (int64_t)ceil(height * b / f) * factor;
        wb = (int64_t)ceil(width * b / f) * factor;
    }
    if (hb < 1 || wb < 1) {
        return LT_FAIL(LT_ERR_DATA,
                       "a picture of %lld x %lld pixels rounds to nothing in units of %lld: raise "
                       "image_min_pixels, or "
                       "size.shortest_edge of the processor",
                       (long long)w, (long long)h, (long long)factor);
    }
    *out_h = hb;
    *out_w = wb;
    return LT_OK;
}

lt_status lt_image_grid_of_size(const lt_image_processor *p, int64_t h, int64_t w, lt_grid *out)
{
    int64_t rh = 0, rw = 0;
    LT_TRY(lt_smart_resize(p, h, w, &rh, &rw));
    *out = (lt_grid){.t = 1, .h = rh / p->patch, .w = rw / p->patch};
    return LT_OK;
}

lt_status lt_image_grid(const lt_image_processor *p, const lt_image_budget *budget, int64_t h,
                        int64_t w, lt_grid *out)
{
    int64_t rh = 0, rw = 0;
    LT_TRY(lt_image_budget_size(budget, h, w, &rh, &rw));
    return lt_image_grid_of_size(p, rh, rw, out);
}

int64_t lt_image_row_width(const lt_image_processor *p)
{
    return 3 * p->temporal * p->patch * p->patch;
}
