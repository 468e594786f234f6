// SPDX-License-Identifier: Apache-2.0
// InternVL's way: segments end to end, the end cut off, the media that are left.
#include "data/dataset/encode_parts.h"
#include "data/template/intern.h"

static lt_status list_turns(const lt_conversation *c, lt_arena *arena, lt_intern_turn **out,
                            int64_t *n)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)(c->n_turns + 1) * sizeof(lt_intern_turn), &memory));
    lt_intern_turn *turns = memory;
    *n = 0;
    if (c->has_system || !lt_span_empty(c->system))
        turns[(*n)++] = (lt_intern_turn){LT_INTERN_SYSTEM, c->system};
    for (int64_t i = 0; i < c->n_turns; i++) {
        const lt_turn *t = &c->turns[i];
        if (t->role != LT_ROLE_USER && t->role != LT_ROLE_ASSISTANT)
            return LT_FAIL(LT_ERR_DATA, "the template has no place for a %s turn",
                           lt_role_name(t->role));
        turns[(*n)++] =
            (lt_intern_turn){t->role == LT_ROLE_USER ? LT_INTERN_HUMAN : LT_INTERN_GPT, t->text};
    }
    *out = turns;
    return LT_OK;
}

static lt_status count_tokens(const lt_encode_opts *o, const lt_media *images, int64_t n,
                              lt_arena *arena, int64_t **out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int64_t), &memory));
    *out = memory;
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = lt_grid_tokens(images[i].grid, o->render.merge);
    return LT_OK;
}

/** The images whose tokens are left: those from the front. */
static lt_status keep_media(const lt_encode_opts *o, int32_t context, const lt_media *images,
                            const int64_t *n_tokens, int64_t n, lt_sample *s, lt_cut *cut)
{
    int64_t left = 0;
    for (int64_t i = 0; i < s->n; i++)
        left += s->ids[i] == context;
    s->media = images;
    s->n_images = n;
    for (int64_t i = 0; i < n; i++) {
        s->n_media += left > 0;
        cut->lost_images += left <= 0;
        if (left > 0 && left < n_tokens[i]) {
            cut->cut_images++;
            if (o->refuse_cut_images)
                return lt_refuse_cut(o, &images[i], i, n_tokens[i], cut->full_len);
        }
        left -= n_tokens[i];
    }
    return LT_OK;
}

static lt_status copy_ids(const lt_vec *ids, lt_arena *arena, int32_t **out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)ids->n * sizeof(int32_t), &memory));
    *out = memory;
    for (int64_t i = 0; i < ids->n; i++)
        (*out)[i] = LT_AT(ids, int32_t, i);
    return LT_OK;
}

lt_status lt_encode_segments(const lt_encode_opts *o, const lt_template_ids *ids,
                             const lt_conversation *c, const lt_media *images, lt_arena *arena,
                             lt_sample *out, lt_cut *cut)
{
    const lt_intern_opts intern = {.tokenizer = o->render.tokenizer,
                                   .image_start = ids->vision.vision_start,
                                   .image_context = ids->vision.image_pad,
                                   .image_end = ids->vision_end,
                                   .max_length = o->cutoff_len,
                                   .tag = o->render.image_tag};
    lt_intern_turn *turns = NULL;
    int64_t n_turns = 0, *n_tokens = NULL;
    int32_t *kept = NULL, *labels = NULL;
    lt_vec all = LT_VEC_OF(int32_t), wanted = LT_VEC_OF(int32_t);
    lt_status st;
    *cut = (lt_cut){0};
    LT_TRY_GOTO(st, list_turns(c, arena, &turns, &n_turns), done);
    LT_TRY_GOTO(st, count_tokens(o, images, c->n_images, arena, &n_tokens), done);
    LT_TRY_GOTO(st,
                lt_intern_encode(&intern, turns, n_turns, n_tokens, c->n_images, &all, &wanted,
                                 &cut->full_len),
                done);
    LT_TRY_GOTO(st, copy_ids(&all, arena, &kept), done);
    LT_TRY_GOTO(st, copy_ids(&wanted, arena, &labels), done);
    if (o->mask_first && all.n > 0)
        labels[0] = LT_IGNORE_LABEL;
    *out = (lt_sample){.ids = kept, .labels = labels, .n = all.n};
    st = keep_media(o, intern.image_context, images, n_tokens, c->n_images, out, cut);
done:
    lt_vec_deinit(&all);
    lt_vec_deinit(&wanted);
    return st;
}
