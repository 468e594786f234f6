// SPDX-License-Identifier: Apache-2.0
// Padded rows for comparison with other tools.
#include "data/padded.h"

#include <string.h>

lt_status lt_positions_masked(const int32_t *ids, const int32_t *mask, int64_t n,
                              const lt_vision_ids *vision, int64_t merge, lt_grid_cursor *cursor,
                              int32_t fill, int32_t *scratch, int32_t *pos, int64_t stride)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (mask[i] != 0)
            scratch[kept++] = ids[i];
    int32_t *packed = scratch + n;
    LT_TRY(lt_positions_mrope(scratch, kept, vision, merge, cursor, packed, n, NULL, NULL));
    for (int axis = 0; axis < 3; axis++)
        for (int64_t i = 0, k = 0; i < n; i++)
            pos[axis * stride + i] = mask[i] != 0 ? packed[axis * n + k++] : fill;
    return LT_OK;
}

static lt_status take_i32(lt_arena *arena, int64_t n, int32_t **out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof **out, &memory));
    *out = memory;
    return LT_OK;
}

/** All grids of the batch, images and videos apart. */
static lt_status gather_grids(const lt_sample *samples, int64_t n, const lt_padded_opts *o,
                              lt_arena *arena, lt_grid_cursor *c)
{
    int64_t total = 1; // the stand-in
    for (int64_t s = 0; s < n; s++)
        total += samples[s].n_media;
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, 2 * (size_t)total * sizeof(lt_grid), &memory));
    lt_grid *images = memory, *videos = images + total;
    *c = (lt_grid_cursor){.images = images, .videos = videos};
    for (int64_t s = 0; s < n; s++) {
        for (int64_t i = 0; i < samples[s].n_media; i++) {
            const lt_media *m = &samples[s].media[i];
            if (m->kind == LT_MEDIA_VIDEO)
                videos[c->n_videos++] = m->grid;
            else
                images[c->n_images++] = m->grid;
        }
    }
    if (total == 1 && o->stand_in.t > 0)
        images[c->n_images++] = o->stand_in;
    return LT_OK;
}

/** One row: the sample, the stand-in picture behind row 0, padding. */
static void fill_row(const lt_sample *s, const lt_padded_opts *o, int64_t stand_in_tokens,
                     int64_t row, lt_padded *p)
{
    int32_t *ids = p->ids + row * p->width, *mask = p->mask + row * p->width,
            *labels = p->labels + row * p->width;
    memcpy(ids, s->ids, (size_t)s->n * sizeof *ids);
    memcpy(labels, s->labels, (size_t)s->n * sizeof *labels);
    int64_t at = s->n;
    for (int64_t i = 0; i < at; i++)
        mask[i] = 1;
    for (int64_t i = 0; i < stand_in_tokens; i++, at++) {
        ids[at] = i == 0                     ? o->vision.vision_start
                  : i + 1 == stand_in_tokens ? o->vision_end
                                             : o->vision.image_pad;
        labels[at] = LT_IGNORE_LABEL;
    }
    for (; at < p->width; at++) {
        ids[at] = o->pad_id;
        labels[at] = o->ignore_pad ? LT_IGNORE_LABEL : o->pad_id;
    }
}

static lt_status fill_positions(const lt_sample *samples, const lt_padded_opts *o,
                                lt_grid_cursor *c, int32_t *scratch, lt_padded *p)
{
    const int64_t w = p->width, stride = p->rows * w;
    for (int64_t r = 0; r < p->rows; r++) {
        const lt_status st =
            lt_positions_masked(p->ids + r * w, p->mask + r * w, w, &o->vision, o->merge, c,
                                o->position_fill, scratch, p->positions + r * w, stride);
        if (st != LT_OK) {
            lt_error_note("%s, record %lld", samples[r].file != NULL ? samples[r].file : "sample",
                          (long long)samples[r].record);
            return st;
        }
        int64_t top = 0;
        for (int axis = 0; axis < 3; axis++)
            for (int64_t i = 0; i < w; i++)
                top = lt_max_i64(top, p->positions[axis * stride + r * w + i]);
        p->rope_delta[r] = top + 1 - w;
    }
    return LT_OK;
}

lt_status lt_padded_make(const lt_sample *samples, int64_t n, const lt_padded_opts *opts,
                         lt_arena *arena, lt_padded *out)
{
    lt_grid_cursor cursor;
    lt_padded p = {.rows = n};
    int32_t *scratch = NULL;
    void *memory = NULL;
    LT_TRY(gather_grids(samples, n, opts, arena, &cursor));
    p.has_stand_in = opts->stand_in.t > 0 && cursor.n_images == 1 && samples[0].n_media == 0;
    for (int64_t s = 0; s < n; s++)
        p.has_stand_in = p.has_stand_in && samples[s].n_media == 0;
    const int64_t extra = p.has_stand_in ? lt_grid_tokens(opts->stand_in, opts->merge) + 2 : 0;
    for (int64_t s = 0; s < n; s++)
        p.width = lt_max_i64(p.width, samples[s].n + (s == 0 ? extra : 0));
    p.width = lt_round_up(p.width, lt_max_i64(opts->multiple, 1));
    LT_TRY(take_i32(arena, n * p.width, &p.ids));
    LT_TRY(take_i32(arena, n * p.width, &p.mask));
    LT_TRY(take_i32(arena, n * p.width, &p.labels));
    LT_TRY(take_i32(arena, 3 * n * p.width, &p.positions));
    LT_TRY(take_i32(arena, 4 * p.width, &scratch));
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof *p.rope_delta, &memory));
    p.rope_delta = memory;
    for (int64_t s = 0; s < n; s++)
        fill_row(&samples[s], opts, s == 0 ? extra : 0, s, &p);
    LT_TRY(fill_positions(samples, opts, &cursor, scratch, &p));
    *out = p;
    return LT_OK;
}
