// SPDX-License-Identifier: Apache-2.0
// From a video to its frames, times and grid, and on to patch rows.
#include <string.h>

#include "data/video/file.h"
#include "data/video/video.h"

/** A video being described. */
typedef struct clip_maker {
    const lt_image_processor *p;
    const lt_video_opts *o;
    const lt_video_ref *ref;
    lt_arena *arena;
    int64_t *numbers; // [n] frames taken
    int64_t n;
    double fps; // of what the numbers count
    lt_clip *clip;
} clip_maker;

/** Every frame of a list; of a file those of lt_video_sample. */
static lt_status choose_frames(clip_maker *m, int64_t *h, int64_t *w)
{
    void *memory = NULL;
    if (m->ref->frames == NULL) {
        lt_video_info info;
        LT_TRY(lt_video_file_probe(m->ref->path, &info));
        *h = info.h;
        *w = info.w;
        m->fps = info.fps;
        LT_TRY(lt_video_sample(info.n_frames, info.seconds, m->o, m->arena, &m->numbers, &m->n));
        return LT_OK;
    }
    if (m->ref->n_frames < 1)
        return LT_FAIL(LT_ERR_DATA, "a video's list of frames is empty");
    LT_TRY(lt_arena_take(m->arena, (size_t)m->ref->n_frames * sizeof(int64_t), &memory));
    m->numbers = memory;
    m->n = m->ref->n_frames;
    m->fps = m->o->fps;
    for (int64_t i = 0; i < m->n; i++)
        m->numbers[i] = i;
    return LT_OK;
}

/** The frames of a list must come to one size. */
static lt_status check_frames(const clip_maker *m, int64_t *h, int64_t *w)
{
    for (int64_t i = 0; m->ref->frames != NULL && i < m->n; i++) {
        const char *path = m->ref->frames[m->numbers[i]];
        lt_image_info info;
        LT_TRY(lt_image_probe(path, &info));
        if (i == 0) {
            *h = info.h;
            *w = info.w;
        } else if (info.h != *h || info.w != *w) {
            return LT_FAIL(LT_ERR_DATA,
                           "%s has %lld x %lld pixels, the video's first frame %lld x %lld: all "
                           "frames need one size",
                           path, (long long)info.w, (long long)info.h, (long long)*w,
                           (long long)*h);
        }
    }
    return LT_OK;
}

/** An even number of frames: the last one again. */
static lt_status fill_up(clip_maker *m, const int64_t *places, int64_t n)
{
    const int64_t t = m->p->temporal, whole = (n + t - 1) / t * t;
    void *memory = NULL;
    LT_TRY(lt_arena_take(m->arena, (size_t)whole * sizeof(int64_t), &memory));
    int64_t *numbers = memory;
    LT_TRY(lt_arena_take(m->arena, (size_t)whole * sizeof(char *), &memory));
    const char **files = memory;
    for (int64_t i = 0; i < whole; i++) {
        const int64_t k = lt_min_i64(i, n - 1);
        numbers[i] = m->numbers[places ? places[k] : k];
        if (m->ref->frames)
            files[i] = m->ref->frames[numbers[i]];
    }
    m->clip->numbers = numbers;
    m->clip->files = m->ref->frames ? files : NULL;
    m->clip->n = whole;
    return LT_OK;
}

/** The mean time of a slice's first and last frame. */
static lt_status stamp(const clip_maker *m, const int64_t *places)
{
    const int64_t t = m->p->temporal, n = m->clip->n / t;
    void *memory = NULL;
    LT_TRY(lt_arena_take(m->arena, (size_t)n * sizeof(double), &memory));
    double *stamps = memory;
    for (int64_t j = 0; j < n; j++) {
        double first = (double)m->clip->numbers[j * t],
               last = (double)m->clip->numbers[j * t + t - 1];
        double fps = m->fps;
        if (places) { // the reference counts what was sampled before
            first = (double)places[j * t];
            last = (double)places[j * t + t - 1];
            fps = m->o->fps;
        }
        stamps[j] = (first / fps + last / fps) / 2.0;
    }
    m->clip->stamps = stamps;
    return LT_OK;
}

/** Places [n] filled up like the frames themselves. */
static lt_status even_places(const clip_maker *m, int64_t **places, int64_t *n)
{
    void *memory = NULL;
    const int64_t t = m->p->temporal, whole = (*n + t - 1) / t * t;
    LT_TRY(lt_arena_take(m->arena, (size_t)whole * sizeof(int64_t), &memory));
    int64_t *out = memory;
    for (int64_t i = 0; i < whole; i++)
        out[i] = (*places)[lt_min_i64(i, *n - 1)];
    *places = out;
    *n = whole;
    return LT_OK;
}

static lt_status describe(clip_maker *m, lt_media *out)
{
    int64_t h = 0, w = 0, rh = 0, rw = 0, *places = NULL, n_places = 0;
    LT_TRY(choose_frames(m, &h, &w));
    LT_TRY(check_frames(m, &h, &w));
    if (m->o->reference_times) {
        LT_TRY(lt_video_resample((m->n + 1) / 2 * 2, m->o, m->arena, &places, &n_places));
        for (int64_t i = 0; i < n_places; i++)
            places[i] = lt_min_i64(places[i], m->n - 1);
        LT_TRY(even_places(m, &places, &n_places));
    }
    LT_TRY(fill_up(m, places, places ? n_places : m->n));
    LT_TRY(stamp(m, places));
    LT_TRY(lt_image_budget_size(&m->o->budget, h, w, &m->clip->h, &m->clip->w));
    LT_TRY(lt_video_size(m->p, m->o, m->clip->n, m->clip->h, m->clip->w, &rh, &rw));
    *out = (lt_media){.kind = LT_MEDIA_VIDEO,
                      .path = m->ref->path,
                      .grid = {m->clip->n / m->p->temporal, rh / m->p->patch, rw / m->p->patch},
                      .clip = m->clip};
    return LT_OK;
}

lt_status lt_video_describe(const lt_image_processor *p, const lt_video_opts *opts,
                            const lt_video_ref *ref, lt_arena *arena, lt_media *out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, sizeof(lt_clip), &memory));
    clip_maker m = {.p = p, .o = opts, .ref = ref, .arena = arena, .clip = memory};
    const lt_status st = describe(&m, out);
    if (st != LT_OK)
        lt_error_note("video %s", ref->path);
    return st;
}

// ---------------------------------------------------------------- rows

/** Frames on their way to rows. */
typedef struct row_maker {
    const lt_image_processor *p;
    const lt_video_opts *o;
    const lt_media *media;
    lt_dtype dtype;
    char *rows;
    int64_t at; // frames so far
    lt_image slice[LT_VIDEO_MAX_TEMPORAL];
} row_maker;

/** Frame `at` of the clip, decoded and within the budget; it is taken over. */
static lt_status take_frame(void *ctx, lt_image *frame)
{
    row_maker *r = ctx;
    const lt_clip *c = r->media->clip;
    const int64_t t = r->p->temporal, h = r->media->grid.h * r->p->patch,
                  w = r->media->grid.w * r->p->patch;
    lt_image *to = &r->slice[r->at % t];
    if (frame->h != c->h || frame->w != c->w) {
        return LT_FAIL(LT_ERR_DATA,
                       "its frames come to %lld x %lld pixels, but came to %lld x %lld when the "
                       "sample was encoded: the file has changed",
                       (long long)frame->w, (long long)frame->h, (long long)c->w, (long long)c->h);
    }
    if (h == frame->h && w == frame->w) {
        lt_image_deinit(to);
        *to = *frame;
        *frame = (lt_image){0};
    } else {
        LT_TRY(lt_image_resize(r->p, frame, h, w, to));
    }
    if (++r->at % t != 0)
        return LT_OK;
    const int64_t slice = r->media->grid.h * r->media->grid.w;
    const size_t bytes = (size_t)(slice * lt_image_row_width(r->p)) * lt_dtype_bytes(r->dtype);
    return lt_clip_patches(r->p, r->slice, r->dtype, r->rows + (size_t)(r->at / t - 1) * bytes);
}

static lt_status take_pictures(row_maker *r)
{
    const lt_clip *c = r->media->clip;
    for (int64_t i = 0; i < c->n; i++) {
        lt_image frame = {0};
        lt_status st = lt_image_load(c->files[i], &r->o->budget, &frame);
        if (st == LT_OK)
            st = take_frame(r, &frame);
        lt_image_deinit(&frame);
        LT_TRY(st);
    }
    return LT_OK;
}

lt_status lt_video_rows(const lt_image_processor *p, const lt_video_opts *opts,
                        const lt_media *media, lt_dtype dtype, void *rows)
{
    row_maker r = {.p = p, .o = opts, .media = media, .dtype = dtype, .rows = rows};
    LT_ASSERT(media->clip && p->temporal <= LT_VIDEO_MAX_TEMPORAL);
    lt_status st = media->clip->files
                       ? take_pictures(&r)
                       : lt_video_file_read(media->path, media->clip->numbers, media->clip->n,
                                            &opts->budget, take_frame, &r);
    for (int64_t k = 0; k < LT_VIDEO_MAX_TEMPORAL; k++)
        lt_image_deinit(&r.slice[k]);
    if (st == LT_OK && r.at != media->clip->n)
        st = LT_FAIL(LT_ERR_DATA, "it has only %lld of %lld frames", (long long)r.at,
                     (long long)media->clip->n);
    if (st != LT_OK)
        lt_error_note("video %s", media->path);
    return st;
}
