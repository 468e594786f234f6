// SPDX-License-Identifier: Apache-2.0
// Made-up micro-batches.
#include "tests/kit/made_batch.h"

#include "base/rng.h"

static lt_extents count(const lt_model_config *c, const made_sample *samples, int64_t n)
{
    lt_extents e = {{[LT_EXT_SAMPLES] = n}};
    const int64_t merge = c->vision.merge * c->vision.merge;
    for (int64_t i = 0; i < n; i++) {
        const int64_t patches = samples[i].images * samples[i].rows * samples[i].cols;
        e.n[LT_EXT_PATCHES] += patches;
        e.n[LT_EXT_MERGED] += patches / merge;
        e.n[LT_EXT_FRAMES] += samples[i].images;
        e.n[LT_EXT_TOKENS] += samples[i].text + patches / merge + 2 * samples[i].images;
        e.n[LT_EXT_TARGETS] += lt_max_i64(samples[i].text - 1, 0);
    }
    return e;
}

static lt_status take(made_batch *b, const lt_model_config *c)
{
    for (int v = 0; v < LT_N_BATCH_VALUES; v++) {
        b->view.value[v] =
            lt_batch_tensor((lt_batch_value)v, &b->view.extents, lt_model_config_pixel_width(c));
        LT_TRY(lt_arena_take(b->arena, lt_tensor_bytes(&b->view.value[v]), &b->view.value[v].data));
    }
    return LT_OK;
}

// Where the next token, patch and so on goes.
typedef struct filler {
    const lt_model_config *c;
    lt_batch_view *v;
    uint64_t seed, draws;
    int64_t token, patch, frame, visual, target, position;
} filler;

static int32_t *ints(filler *f, lt_batch_value v)
{
    return f->v->value[v].data;
}

static int32_t draw(filler *f, int64_t below)
{
    return (int32_t)(lt_uniform(f->seed, f->draws++) * (double)below);
}

static void put_token(filler *f, int32_t id, int64_t t, int64_t h, int64_t w)
{
    const int64_t n = f->v->extents.n[LT_EXT_TOKENS];
    ints(f, LT_BATCH_IDS)[f->token] = id;
    ints(f, LT_BATCH_POSITIONS)[f->token] = (int32_t)t;
    ints(f, LT_BATCH_POSITIONS)[n + f->token] = (int32_t)h;
    ints(f, LT_BATCH_POSITIONS)[2 * n + f->token] = (int32_t)w;
    f->token++;
}

static void put_text_token(filler *f, int32_t id)
{
    put_token(f, id, f->position, f->position, f->position);
    f->position++;
}

// Patches in merge groups: (by, bx, dy, dx).
static void put_patches(filler *f, const made_sample *s)
{
    const int64_t m = f->c->vision.merge, n = f->v->extents.n[LT_EXT_PATCHES],
                  side = f->c->vision.grid;
    ints(f, LT_BATCH_TILE_SEGMENTS)[f->frame] = (int32_t)(f->patch + f->frame);
    ints(f, LT_BATCH_FRAME_SEGMENTS)[f->frame++] = (int32_t)f->patch;
    for (int64_t k = 0; k < s->rows * s->cols; k++, f->patch++) {
        const int64_t group = k / (m * m), inside = k % (m * m);
        const int64_t row = group / (s->cols / m) * m + inside / m,
                      col = group % (s->cols / m) * m + inside % m;
        ints(f, LT_BATCH_PATCH_POS)[f->patch] = (int32_t)row;
        ints(f, LT_BATCH_PATCH_POS)[n + f->patch] = (int32_t)col;
        for (int64_t corner = 0; corner < 4; corner++) {
            ints(f, LT_BATCH_CORNERS)[f->patch * 4 + corner] = draw(f, side * side);
            ((float *)f->v->value[LT_BATCH_CORNER_WEIGHTS].data)[f->patch * 4 + corner] = 0.25F;
        }
    }
}

static void put_image(filler *f, const made_sample *s)
{
    const int64_t m = f->c->vision.merge, h = s->rows / m, w = s->cols / m;
    put_text_token(f, f->c->vision_start);
    put_patches(f, s);
    for (int64_t k = 0; k < h * w; k++) {
        ints(f, LT_BATCH_VIS_ROWS)[f->visual++] = (int32_t)f->token;
        put_token(f, f->c->image_token, f->position, f->position + k / w, f->position + k % w);
    }
    f->position += lt_max_i64(h, w);
    put_text_token(f, f->c->vision_end);
}

static void put_sample(filler *f, const made_sample *s, int64_t number)
{
    ints(f, LT_BATCH_SEGMENTS)[number] = (int32_t)f->token;
    f->position = 0;
    for (int64_t i = 0; i < s->images; i++)
        put_image(f, s);
    const int64_t plain = lt_min_i64(f->c->image_token, f->c->text.vocab);
    for (int64_t i = 0; i < s->text; i++) {
        if (i > 0) { // the token before predicts this one
            ints(f, LT_BATCH_TARGET_ROWS)[f->target] = (int32_t)f->token - 1;
            f->target++;
        }
        put_text_token(f, draw(f, plain));
        if (i > 0)
            ints(f, LT_BATCH_TARGETS)[f->target - 1] = ints(f, LT_BATCH_IDS)[f->token - 1];
    }
}

static void fill(filler *f, const made_sample *samples, int64_t n)
{
    const lt_extents *e = &f->v->extents;
    for (int64_t i = 0; i < n; i++)
        put_sample(f, &samples[i], i);
    ints(f, LT_BATCH_SEGMENTS)[n] = (int32_t)f->token;
    ints(f, LT_BATCH_TILE_SEGMENTS)[f->frame] = (int32_t)(f->patch + f->frame);
    ints(f, LT_BATCH_FRAME_SEGMENTS)[f->frame] = (int32_t)f->patch;
    float *pixels = f->v->value[LT_BATCH_PIXELS].data, *kappa = f->v->value[LT_BATCH_KAPPA].data;
    for (int64_t i = 0, count_pixels = lt_n_elems(&f->v->value[LT_BATCH_PIXELS]); i < count_pixels;
         i++)
        pixels[i] = (float)lt_normal(f->seed + 1, (uint64_t)i);
    for (int64_t i = 0; i < e->n[LT_EXT_TARGETS]; i++)
        kappa[i] = 1.0F / (float)e->n[LT_EXT_TARGETS];
}

lt_status made_batch_create(const lt_model_config *config, const made_sample *samples, int64_t n,
                            uint64_t seed, made_batch *out)
{
    *out = (made_batch){0};
    LT_TRY(lt_arena_create(&out->arena, "a made-up batch"));
    out->view.extents = count(config, samples, n);
    LT_TRY(take(out, config));
    filler f = {.c = config, .v = &out->view, .seed = seed};
    fill(&f, samples, n);
    return LT_OK;
}

void made_batch_destroy(made_batch *b)
{
    lt_arena_destroy(b->arena);
}
