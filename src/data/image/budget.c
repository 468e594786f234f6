// SPDX-License-Identifier: Apache-2.0
// The pixel budget of the YAML, and loading a picture within it.
#include <math.h>

#include "base/file.h"
#include "data/image/native.h"

enum {
    MIN_SIDE = 28,    // of a regularised picture
    MAX_ASPECT = 200, // above it the long side is cut ...
    TO_ASPECT = 180,  // ... to this multiple of the short one
    MAX_STEPS = 5,
};

/** One resize of the budget. */
typedef struct step {
    int64_t h, w;
    bool after_rgb; // by the default filter, on RGB
} step;

typedef struct plan {
    step steps[MAX_STEPS];
    int n;
    int64_t h, w; // in the end
} plan;

static void add(plan *p, int64_t h, int64_t w, bool after_rgb)
{
    if (h == p->h && w == p->w)
        return;
    p->steps[p->n++] = (step){h, w, after_rgb};
    p->h = h;
    p->w = w;
}

/** Scale to about `pixels`. */
static void add_scaled(plan *p, int64_t pixels)
{
    const double f = sqrt((double)pixels / (double)(p->h * p->w));
    add(p, (int64_t)((double)p->h * f), (int64_t)((double)p->w * f), false);
}

static bool sound(const plan *p)
{
    int64_t n = 0;
    return p->h > 0 && p->w > 0 && lt_mul_i64(p->h, p->w, &n) && n <= LT_IMAGE_MAX_PIXELS;
}

/** The least side and the largest aspect of Qwen's plug-ins. */
static void add_qwen_rules(plan *p)
{
    if (sound(p) && lt_min_i64(p->h, p->w) < MIN_SIDE)
        add(p, lt_max_i64(p->h, MIN_SIDE), lt_max_i64(p->w, MIN_SIDE), true);
    if (sound(p) && (double)p->w / (double)p->h > MAX_ASPECT)
        add(p, p->h, p->h * TO_ASPECT, true);
    if (sound(p) && (double)p->h / (double)p->w > MAX_ASPECT)
        add(p, p->w * TO_ASPECT, p->w, true);
}

static lt_status make_plan(const lt_image_budget *b, int64_t h, int64_t w, plan *p)
{
    *p = (plan){.h = h, .w = w};
    if (!sound(p))
        return LT_FAIL(LT_ERR_DATA, "a picture of %lld x %lld pixels is out of range", (long long)w,
                       (long long)h);
    if (h * w > b->max_pixels)
        add_scaled(p, b->max_pixels);
    if (sound(p) && p->h * p->w < b->min_pixels)
        add_scaled(p, b->min_pixels);
    if (!b->plain)
        add_qwen_rules(p);
    if (!sound(p)) {
        return LT_FAIL(LT_ERR_DATA,
                       "a picture of %lld x %lld pixels comes to %lld x %lld under "
                       "image_max_pixels %lld and image_min_pixels "
                       "%lld: sides must stay above 0 and pixels within %d",
                       (long long)w, (long long)h, (long long)p->w, (long long)p->h,
                       (long long)b->max_pixels, (long long)b->min_pixels, LT_IMAGE_MAX_PIXELS);
    }
    return LT_OK;
}

lt_image_budget lt_image_budget_default(void)
{
    return (lt_image_budget){.max_pixels = INT64_C(768) * 768,
                             .min_pixels = INT64_C(32) * 32,
                             .filter = LT_IMAGE_BICUBIC};
}

lt_image_budget lt_image_budget_none(void)
{
    return (lt_image_budget){.max_pixels = INT64_MAX, .filter = LT_IMAGE_BICUBIC, .plain = true};
}

lt_status lt_image_budget_size(const lt_image_budget *budget, int64_t h, int64_t w, int64_t *out_h,
                               int64_t *out_w)
{
    plan p;
    LT_TRY(make_plan(budget, h, w, &p));
    *out_h = p.h;
    *out_w = p.w;
    return LT_OK;
}

static const struct {
    lt_image_format format;
    lt_status (*decode)(const uint8_t *bytes, size_t len, const char *name, lt_native *out);
} decoders[] = {
    {LT_IMAGE_JPEG, lt_jpeg_decode}, {LT_IMAGE_PNG, lt_png_decode}, {LT_IMAGE_WEBP, lt_webp_decode},
    {LT_IMAGE_GIF, lt_gif_decode},   {LT_IMAGE_BMP, lt_bmp_decode},
};

lt_status lt_native_decode(const uint8_t *bytes, size_t len, const char *name, lt_native *out)
{
    lt_image_info info = {0};
    LT_TRY(lt_image_probe_bytes(bytes, len, name, &info));
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++)
        if (decoders[i].format == info.format)
            LT_TRY(decoders[i].decode(bytes, len, name, out));
    if (out->h != info.h || out->w != info.w) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "picture %s: its header says %lld x %lld pixels, its decoder %lld x %lld",
                       name, (long long)info.w, (long long)info.h, (long long)out->w,
                       (long long)out->h);
    }
    return LT_OK;
}

/**
 * Steps on the native mode, conversion, steps on RGB; n ends up empty or with what it holds last.
 */
static lt_status regularise(lt_native *n, const lt_image_budget *budget, const char *name,
                            lt_image *out)
{
    plan p;
    int i = 0;
    LT_TRY(make_plan(budget, n->h, n->w, &p));
    for (; i < p.n && !p.steps[i].after_rgb; i++)
        LT_TRY(lt_native_resize(n, p.steps[i].h, p.steps[i].w, budget->filter, name));
    LT_TRY(lt_native_to_rgb(n, out));
    lt_native rgb = {.mode = LT_MODE_RGB, .h = out->h, .w = out->w, .px = out->px};
    lt_status st = LT_OK;
    for (; i < p.n && st == LT_OK; i++)
        st = lt_native_resize(&rgb, p.steps[i].h, p.steps[i].w, LT_IMAGE_BICUBIC, name);
    if (st != LT_OK) {
        lt_native_deinit(&rgb);
        *out = (lt_image){0};
        return st;
    }
    *out = (lt_image){.px = rgb.px, .h = rgb.h, .w = rgb.w};
    return LT_OK;
}

lt_status lt_image_load_bytes(const void *bytes, size_t len, const char *name,
                              const lt_image_budget *budget, lt_image *out)
{
    lt_native native = {0};
    lt_image image = {0};
    lt_status st = lt_native_decode(bytes, len, name, &native);
    if (st == LT_OK)
        st = regularise(&native, budget, name, &image);
    if (st == LT_ERR_DATA) // the budget's own, which knows no name
        lt_error_note("picture %s", name);
    lt_native_deinit(&native);
    if (st != LT_OK)
        return st;
    lt_image_deinit(out);
    *out = image;
    return LT_OK;
}

lt_status lt_image_fit(lt_image *image, const lt_image_budget *budget, const char *name)
{
    lt_native native = {.mode = LT_MODE_RGB, .h = image->h, .w = image->w, .px = image->px};
    *image = (lt_image){0};
    const lt_status st = regularise(&native, budget, name, image);
    if (st == LT_ERR_DATA)
        lt_error_note("picture %s", name);
    lt_native_deinit(&native);
    return st;
}

lt_status lt_image_load(const char *path, const lt_image_budget *budget, lt_image *out)
{
    lt_buf file = {0};
    lt_status st = lt_file_read(path, LT_IMAGE_MAX_BYTES, &file);
    if (st != LT_OK)
        lt_error_note("reading a picture");
    else
        st = lt_image_load_bytes(file.data, file.len, path, budget, out);
    lt_buf_deinit(&file);
    return st;
}
