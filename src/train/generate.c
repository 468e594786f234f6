// SPDX-License-Identifier: Apache-2.0
// Greedy generation over a growing micro-batch.
#include "train/generate.h"

#include "train/feed.h"

#include <string.h>

// Prompts being answered. Pictures are read once and kept as patch rows.
typedef struct session {
    lt_exec *exec;
    const lt_generate_opts *o;
    lt_collate_opts collate;
    const lt_sample *prompts;
    lt_vec *answers;
    lt_arena *arena;
    lt_batch *batch;
    lt_sample *samples; /* the prompts that still run, with what they have so far */
    int64_t *number;    /* their places in prompts */
    int64_t n;
    lt_vec ids;    /* int32_t: the samples' ids, one after another */
    lt_vec labels; /* as many -100 */
    lt_vec pixels; /* cached_rows */
    int32_t *rows;
    void *zeros;
} session;

typedef struct cached_rows {
    const lt_media *media;
    void *rows;
    size_t bytes;
} cached_rows;

static lt_status give_rows(void *ctx, const lt_media *media, void *rows)
{
    const session *s = ctx;
    for (int64_t i = 0; i < s->pixels.n; i++) {
        const cached_rows *c = &LT_AT(&s->pixels, cached_rows, i);
        if (c->media != media)
            continue;
        memcpy(rows, c->rows, c->bytes);
        return LT_OK;
    }
    return LT_FAIL(LT_ERR_INTERNAL, "the rows of %s were not kept", media->path);
}

// After the first collation: its patch rows, medium by medium.
static lt_status keep_rows(session *s)
{
    const unsigned char *at = s->batch->pixels;
    const size_t row = (size_t)s->batch->row_width * lt_dtype_bytes(s->batch->pixel_dtype);
    for (int64_t i = 0; i < s->n; i++) {
        for (int64_t m = 0; m < s->samples[i].n_media; m++) {
            cached_rows c = {.media = &s->samples[i].media[m]};
            c.bytes = (size_t)lt_grid_patches(c.media->grid) * row;
            LT_TRY(lt_arena_take(s->arena, c.bytes, &c.rows));
            memcpy(c.rows, at, c.bytes);
            at += c.bytes;
            LT_TRY(lt_vec_push(&s->pixels, &c));
        }
    }
    s->collate.pixels = give_rows;
    s->collate.pixels_ctx = s;
    return LT_OK;
}

static lt_status lay_out_ids(session *s)
{
    lt_vec_clear(&s->ids);
    for (int64_t i = 0; i < s->n; i++) {
        const lt_sample *p = &s->prompts[s->number[i]];
        const lt_vec *a = &s->answers[s->number[i]];
        LT_TRY(lt_vec_append(&s->ids, p->ids, p->n));
        LT_TRY(lt_vec_append(&s->ids, a->data, a->n));
        s->samples[i] = *p;
        s->samples[i].n = p->n + a->n;
    }
    LT_TRY(lt_vec_resize(&s->labels, s->ids.n));
    for (int64_t i = 0; i < s->ids.n; i++)
        LT_AT(&s->labels, int32_t, i) = LT_IGNORE_LABEL;
    int64_t at = 0;
    for (int64_t i = 0; i < s->n; i++) {
        s->samples[i].ids = &LT_AT(&s->ids, int32_t, at);
        s->samples[i].labels = &LT_AT(&s->labels, int32_t, at);
        at += s->samples[i].n;
    }
    return LT_OK;
}

static bool is_stop(const lt_generate_opts *o, int32_t id)
{
    for (int64_t i = 0; i < o->n_stops; i++)
        if (o->stops[i] == id)
            return true;
    return false;
}

// The lowest id with the largest logit. source: numpy's argmax
static int32_t largest(const lt_tensor *logits, int64_t row)
{
    const int64_t vocab = lt_width(logits);
    int64_t best = 0;
    double most = lt_load(logits, row * vocab);
    for (int64_t k = 1; k < vocab; k++) {
        const double x = lt_load(logits, row * vocab + k);
        if (x > most) {
            most = x;
            best = k;
        }
    }
    return (int32_t)best;
}

static lt_status one_token(session *s)
{
    LT_TRY(lay_out_ids(s));
    LT_TRY(lt_batch_collate(s->batch, s->samples, s->n, &s->collate));
    if (!s->collate.pixels)
        LT_TRY(keep_rows(s));
    for (int64_t i = 0; i < s->n; i++)
        s->rows[i] = s->batch->segments[i + 1] - 1;
    const lt_batch_view v = lt_feed_rows(s->batch, s->rows, s->n, s->zeros);
    lt_tensor logits;
    LT_TRY(lt_exec_logits(s->exec, &v, &logits));
    int64_t left = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t number = s->number[i];
        const int32_t id = largest(&logits, i);
        if (is_stop(s->o, id))
            continue;
        LT_TRY(lt_vec_push(&s->answers[number], &id));
        if (s->o->token && !s->o->token(s->o->ctx, number, id))
            continue;
        s->number[left++] = number;
    }
    s->n = left;
    return LT_OK;
}

static lt_status run(session *s, int64_t n)
{
    void *memory = NULL;
    LT_TRY(lt_arena_create(&s->arena, "generation"));
    LT_TRY(lt_batch_create(&s->batch));
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(lt_sample), &memory));
    s->samples = memory;
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(int64_t), &memory));
    s->number = memory;
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(int32_t), &memory));
    s->rows = memory;
    LT_TRY(lt_arena_take(s->arena, (size_t)n * 8, &s->zeros));
    for (int64_t i = 0; i < n; i++)
        s->number[i] = i;
    s->n = n;
    for (int64_t i = 0; s->n > 0 && i < s->o->max_tokens; i++)
        LT_TRY(one_token(s));
    return LT_OK;
}

lt_status lt_generate(lt_exec *exec, const lt_sample *prompts, int64_t n,
                      const lt_generate_opts *opts, lt_vec *answers)
{
    session s = {.exec = exec,
                 .o = opts,
                 .collate = *opts->collate,
                 .prompts = prompts,
                 .answers = answers,
                 .ids = LT_VEC_OF(int32_t),
                 .labels = LT_VEC_OF(int32_t),
                 .pixels = LT_VEC_OF(cached_rows)};
    const lt_status st = run(&s, n);
    lt_vec_deinit(&s.ids);
    lt_vec_deinit(&s.labels);
    lt_vec_deinit(&s.pixels);
    lt_batch_destroy(s.batch);
    lt_arena_destroy(s.arena);
    return st;
}

int64_t lt_last_answer(const lt_sample *s)
{
    int64_t i = s->n;
    while (i > 0 && s->labels[i - 1] == LT_IGNORE_LABEL)
        i--;
    if (i == 0)
        return -1;
    while (i > 0 && s->labels[i - 1] != LT_IGNORE_LABEL)
        i--;
    return i;
}
