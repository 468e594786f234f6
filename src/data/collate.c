// SPDX-License-Identifier: Apache-2.0
// Building a micro-batch: count, lay out one block, fill tokens, positions, targets, geometry and
// pixels.
#include "data/collate.h"

#include <string.h>

#include "data/picture.h"
#include "data/positions.h"

enum { ALIGN = 64 };

struct lt_batch_memory {
    void *block; // all arrays of the batch
    size_t bytes;
    lt_arena *scratch; // of one collate call
};

/** What the samples add up to. */
typedef struct totals {
    int64_t tokens, targets, labels, media;
    lt_vision_sizes vision;
} totals;

lt_collate_opts lt_collate_opts_default(void)
{
    return (lt_collate_opts){.mrope = true,
                             .vision = {.image_pad = -1, .video_pad = -1, .vision_start = -1},
                             .processor = lt_image_processor_default(),
                             .budget = lt_image_budget_default(),
                             .video = lt_video_opts_default(),
                             .pixel_dtype = LT_F32};
}

lt_status lt_batch_create(lt_batch **out)
{
    void *batch = NULL, *memory = NULL;
    lt_status st;
    LT_TRY(lt_mem_alloc(&batch, sizeof(lt_batch), "micro-batch"));
    lt_batch *b = batch;
    LT_TRY_GOTO(st, lt_mem_alloc(&memory, sizeof *b->memory, "micro-batch"), failed);
    b->memory = memory;
    LT_TRY_GOTO(st, lt_arena_create(&b->memory->scratch, "micro-batch scratch"), failed);
    *out = b;
    return LT_OK;
failed:
    lt_batch_destroy(b);
    return st;
}

void lt_batch_destroy(lt_batch *batch)
{
    if (batch == NULL)
        return;
    if (batch->memory != NULL) {
        lt_arena_destroy(batch->memory->scratch);
        lt_mem_free(batch->memory->block);
        lt_mem_free(batch->memory);
    }
    lt_mem_free(batch);
}

int64_t lt_batch_bytes(const lt_batch *batch)
{
    return (int64_t)batch->memory->bytes;
}

static void note_sample(const lt_sample *s)
{
    if (s->line > 0)
        lt_error_note("%s:%lld: record %lld", s->file, (long long)s->line, (long long)s->record);
    else
        lt_error_note("%s, record %lld", s->file != NULL ? s->file : "sample",
                      (long long)s->record);
}

// ---------------------------------------------------------------- counting and checking

static lt_status check_tokens(const lt_sample *s, const lt_collate_opts *o)
{
    const int64_t top = o->vocab_size > 0 ? o->vocab_size : (int64_t)INT32_MAX + 1;
    if (s->n < 1)
        return LT_FAIL(LT_ERR_DATA, "it has no tokens");
    for (int64_t i = 0; i < s->n; i++) {
        if (s->ids[i] < 0 || s->ids[i] >= top)
            return LT_FAIL(LT_ERR_DATA, "token %lld has id %d, the model's vocabulary %lld entries",
                           (long long)i, (int)s->ids[i], (long long)top);
        if (s->labels[i] >= top) {
            return LT_FAIL(LT_ERR_DATA,
                           "token %lld has label %d, the model's vocabulary %lld entries",
                           (long long)i, (int)s->labels[i], (long long)top);
        }
    }
    if (s->n_media > 0 && (o->vision.image_pad < 0 || !(o->mrope || o->tiles)))
        return LT_FAIL(LT_ERR_DATA, "it has %lld pictures or videos, the model takes none",
                       (long long)s->n_media);
    return LT_OK;
}

static lt_status count_sample(const lt_sample *s, const lt_collate_opts *o, totals *t)
{
    LT_TRY(check_tokens(s, o));
    for (int64_t i = 0; i < s->n; i++) {
        t->labels += s->labels[i] > -1;
        t->targets += i > 0 && s->labels[i] > -1;
    }
    for (int64_t i = 0; i < s->n_media; i++) {
        lt_vision_sizes v;
        LT_TRY(lt_vision_count(&s->media[i].grid, 1, o->processor.merge, &v));
        t->vision.n_patches += v.n_patches;
        t->vision.n_tokens += v.n_tokens;
        t->vision.n_frames += v.n_frames;
    }
    t->media += s->n_media;
    t->tokens += s->n;
    if (t->tokens > INT32_MAX || t->vision.n_patches > INT32_MAX)
        return LT_FAIL(LT_ERR_DATA, "a micro-batch has at most 2^31 - 1 tokens and patches");
    return LT_OK;
}

// ---------------------------------------------------------------- memory

/** Places in the block; the first walk only adds up. */
typedef struct layout {
    char *block; // NULL while adding up
    size_t at;
} layout;

static void *place(layout *l, int64_t n, size_t elem)
{
    void *p = l->block != NULL && n > 0 ? l->block + l->at : NULL;
    l->at += ((size_t)n * elem + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static void place_arrays(layout *l, const totals *t, bool corners, lt_batch *b)
{
    const lt_vision_sizes *v = &t->vision;
    b->ids = place(l, t->tokens, sizeof *b->ids);
    b->segments = place(l, b->n_samples + 1, sizeof *b->segments);
    b->positions = place(l, 3 * t->tokens, sizeof *b->positions);
    b->target_rows = place(l, t->targets, sizeof *b->target_rows);
    b->targets = place(l, t->targets, sizeof *b->targets);
    b->target_sample = place(l, t->targets, sizeof *b->target_sample);
    b->sample_targets = place(l, b->n_samples, sizeof *b->sample_targets);
    b->sample_labels = place(l, b->n_samples, sizeof *b->sample_labels);
    b->visual_rows = place(l, v->n_tokens, sizeof *b->visual_rows);
    b->grids = place(l, t->media, sizeof *b->grids);
    b->geometry.segments = place(l, v->n_frames + 1, sizeof *b->geometry.segments);
    b->geometry.tiles = place(l, v->n_frames + 1, sizeof *b->geometry.tiles);
    b->geometry.row_col = place(l, 2 * v->n_patches, sizeof *b->geometry.row_col);
    b->geometry.corner = place(l, corners ? 4 * v->n_patches : 0, sizeof *b->geometry.corner);
    b->geometry.corner_weight =
        place(l, corners ? 4 * v->n_patches : 0, sizeof *b->geometry.corner_weight);
    b->pixels = place(l, v->n_patches * b->row_width, lt_dtype_bytes(b->pixel_dtype));
}

static lt_status lay_out(lt_batch *b, const totals *t, int64_t n, const lt_collate_opts *o)
{
    struct lt_batch_memory *memory = b->memory;
    *b = (lt_batch){.n_samples = n,
                    .n_tokens = t->tokens,
                    .n_targets = t->targets,
                    .n_patches = t->vision.n_patches,
                    .n_visual = t->vision.n_tokens,
                    .n_frames = t->vision.n_frames,
                    .n_media = t->media,
                    .n_labels = t->labels,
                    .row_width = lt_image_row_width(&o->processor),
                    .pixel_dtype = o->pixel_dtype,
                    .memory = memory};
    layout l = {0};
    place_arrays(&l, t, o->table_side > 0, b);
    if (l.at > memory->bytes) {
        lt_mem_free(memory->block);
        memory->block = NULL;
        memory->bytes = 0;
        LT_TRY(lt_mem_alloc(&memory->block, l.at, "micro-batch"));
        memory->bytes = l.at;
    }
    l = (layout){.block = memory->block};
    place_arrays(&l, t, o->table_side > 0, b);
    return LT_OK;
}

// ---------------------------------------------------------------- filling

/** How far the batch is filled. */
typedef struct filler {
    lt_batch *b;
    const lt_collate_opts *o;
    const lt_sample *sample;
    int64_t token, target, visual, media, patch; // next free places
    int64_t media_at, slice_at;                  // of the sample: the next run must belong to it
} filler;

/** A visual run of the present sample: does it belong to the medium whose turn it is? */
static lt_status on_run(void *ctx, const lt_vision_run *run)
{
    filler *f = ctx;
    const lt_media *m =
        &f->sample->media[f->media_at]; // lt_positions_mrope found a grid, so there is one
    if (run->video != (m->kind == LT_MEDIA_VIDEO))
        return LT_FAIL(LT_ERR_DATA,
                       "its placeholders and its pictures and videos come in different orders");
    if (++f->slice_at == (run->video ? m->grid.t : 1)) {
        f->media_at++;
        f->slice_at = 0;
    }
    for (int64_t i = 0; i < run->n; i++)
        f->b->visual_rows[f->visual++] = (int32_t)(f->token + run->first + i);
    return LT_OK;
}

// Tiles in a row of plain positions: their placeholders in token order, whatever is between them.
static lt_status fill_plain(filler *f)
{
    const lt_sample *s = f->sample;
    int64_t wanted = 0, found = 0;
    const int64_t merge = f->o->processor.merge;
    for (int64_t i = 0; i < s->n_media; i++) {
        if (s->media[i].kind != LT_MEDIA_IMAGE)
            return LT_FAIL(LT_ERR_DATA, "it has a video, the model takes pictures alone");
        wanted += lt_grid_tokens(s->media[i].grid, merge);
        f->b->grids[f->media++] = s->media[i].grid;
    }
    for (int64_t i = 0; i < s->n && f->o->tiles; i++) {
        if (s->ids[i] != f->o->vision.image_pad)
            continue;
        if (found++ < wanted)
            f->b->visual_rows[f->visual++] = (int32_t)(f->token + i);
    }
    if (found != wanted) {
        return LT_FAIL(LT_ERR_DATA,
                       "its %lld pictures make %lld tokens, but it has %lld "
                       "placeholders",
                       (long long)s->n_media, (long long)wanted, (long long)found);
    }
    lt_positions_plain(s->n, f->b->positions + f->token, f->b->n_tokens);
    return LT_OK;
}

static lt_status fill_positions(filler *f)
{
    const lt_sample *s = f->sample;
    int32_t *pos = f->b->positions + f->token;
    void *memory = NULL;
    if (!f->o->mrope)
        return fill_plain(f);
    lt_arena_reset(f->b->memory->scratch);
    LT_TRY(lt_arena_take(f->b->memory->scratch, 2 * (size_t)s->n_media * sizeof(lt_grid), &memory));
    lt_grid *images = memory, *videos = images + s->n_media;
    lt_grid_cursor c = {.images = images, .videos = videos};
    for (int64_t i = 0; i < s->n_media; i++) {
        if (s->media[i].kind == LT_MEDIA_VIDEO)
            videos[c.n_videos++] = s->media[i].grid;
        else
            images[c.n_images++] = s->media[i].grid;
        f->b->grids[f->media++] = s->media[i].grid;
    }
    f->media_at = f->slice_at = 0;
    LT_TRY(lt_positions_mrope(s->ids, s->n, &f->o->vision, f->o->processor.merge, &c, pos,
                              f->b->n_tokens, on_run, f));
    if (f->media_at < s->n_media) {
        return LT_FAIL(LT_ERR_DATA,
                       "it has %lld pictures and videos, but placeholders for %lld only",
                       (long long)s->n_media, (long long)f->media_at);
    }
    return LT_OK;
}

/** Token t learns the label of token t + 1 of the same sample. */
static void fill_targets(filler *f, int64_t index)
{
    const lt_sample *s = f->sample;
    lt_batch *b = f->b;
    const int64_t before = f->target;
    b->sample_labels[index] = s->labels[0] > -1;
    for (int64_t i = 0; i + 1 < s->n; i++) {
        if (s->labels[i + 1] <= -1)
            continue;
        b->target_rows[f->target] = (int32_t)(f->token + i);
        b->targets[f->target] = s->labels[i + 1];
        b->target_sample[f->target++] = (int32_t)index;
        b->sample_labels[index]++;
    }
    b->sample_targets[index] = f->target - before;
}

/** The default source of pixels: the medium's file. */
static lt_status open_medium(const lt_sample *s, const lt_media *m, const lt_collate_opts *o,
                             void *rows)
{
    if (m->kind != LT_MEDIA_VIDEO)
        return lt_picture_rows(o, s->n_images > 0 ? s->n_images : s->n_media, m, rows);
    if (m->clip == NULL)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "video %s: its frames are not known", m->path);
    return lt_video_rows(&o->processor, &o->video, m, o->pixel_dtype, rows);
}

static lt_status fill_pixels(filler *f)
{
    for (int64_t i = 0; i < f->sample->n_media; i++) {
        const lt_media *m = &f->sample->media[i];
        char *rows = (char *)f->b->pixels +
                     (size_t)(f->patch * f->b->row_width) * lt_dtype_bytes(f->b->pixel_dtype);
        LT_TRY(f->o->pixels != NULL ? f->o->pixels(f->o->pixels_ctx, m, rows)
                                    : open_medium(f->sample, m, f->o, rows));
        f->patch += lt_grid_patches(m->grid);
    }
    return LT_OK;
}

static lt_status fill_sample(filler *f, int64_t index)
{
    const lt_sample *s = f->sample;
    memcpy(f->b->ids + f->token, s->ids, (size_t)s->n * sizeof *s->ids);
    f->b->segments[index] = (int32_t)f->token;
    LT_TRY(fill_positions(f));
    fill_targets(f, index);
    LT_TRY(fill_pixels(f));
    f->token += s->n;
    f->b->segments[index + 1] = (int32_t)f->token;
    return LT_OK;
}

lt_status lt_batch_collate(lt_batch *batch, const lt_sample *samples, int64_t n,
                           const lt_collate_opts *opts)
{
    totals t = {0};
    lt_status st = LT_OK;
    if (n < 1)
        return LT_FAIL(LT_ERR_DATA, "a micro-batch needs at least one sample");
    if (opts->pixel_dtype != LT_F32 && opts->pixel_dtype != LT_BF16)
        return LT_FAIL(LT_ERR_DTYPE, "pixels of a micro-batch are f32 or bf16, not %s",
                       lt_dtype_name(opts->pixel_dtype));
    for (int64_t i = 0; i < n && st == LT_OK; i++)
        if ((st = count_sample(&samples[i], opts, &t)) != LT_OK)
            note_sample(&samples[i]);
    LT_TRY(st);
    LT_TRY(lay_out(batch, &t, n, opts));
    filler f = {.b = batch, .o = opts};
    for (int64_t i = 0; i < n && st == LT_OK; i++) {
        f.sample = &samples[i];
        if ((st = fill_sample(&f, i)) != LT_OK)
            note_sample(f.sample);
    }
    LT_TRY(st);
    LT_ASSERT(f.visual == batch->n_visual && f.target == batch->n_targets &&
              f.patch == batch->n_patches);
    return lt_vision_geometry_fill(batch->grids, batch->n_media, opts->processor.merge,
                                   opts->table_side, &batch->geometry);
}
