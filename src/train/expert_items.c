// SPDX-License-Identifier: Apache-2.0
// Expert matrices as the tensors of a checkpoint.
#include "train/expert_items.h"
#include "train/weights.h"

#include <string.h>

// Elements of a parameter that lie together in the file too.
typedef struct stretch {
    lt_exec *exec;
    int32_t param;
    int64_t first;
} stretch;

static lt_status fetch_stretch(void *ctx, int64_t first, int64_t n, void *dst)
{
    const stretch *s = ctx;
    return lt_exec_read(s->exec, s->param, LT_STATE_VALUE, s->first + first, n, LT_F32, dst);
}

// [E, in, out] of a parameter [E, out, in].
typedef struct turned {
    lt_exec *exec;
    int32_t param;
    int64_t out, in;
    lt_expert_matrix *matrix;
} turned;

static lt_status want_expert(const turned *t, int64_t expert)
{
    lt_expert_matrix *m = t->matrix;
    const int64_t n = t->out * t->in;
    if (m->param == t->param && m->expert == expert)
        return LT_OK;
    m->param = t->param;
    m->expert = expert;
    return lt_exec_read(t->exec, t->param, LT_STATE_VALUE, expert * n, n, LT_F32, m->values);
}

static lt_status fetch_turned(void *ctx, int64_t first, int64_t n, void *dst)
{
    const turned *t = ctx;
    const int64_t each = t->out * t->in;
    float *to = dst;
    for (int64_t i = first; i < first + n; i++) {
        const int64_t at = i % each;
        if (i == first || at == 0)
            LT_TRY(want_expert(t, i / each));
        *to++ = t->matrix->values[at % t->out * t->in + at / t->out];
    }
    return LT_OK;
}

static lt_status want_room(lt_arena *arena, lt_expert_matrix *m, int64_t n)
{
    void *memory = NULL;
    if (n <= m->room)
        return LT_OK;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(float), &memory));
    m->values = memory;
    m->room = n;
    m->param = -1;
    return LT_OK;
}

static lt_status turn(lt_engine *e, lt_arena *arena, int32_t param, lt_expert_matrix *matrix,
                      lt_hf_item *item)
{
    const lt_param *p = &e->model->params[param];
    void *memory = NULL;
    LT_TRY(want_room(arena, matrix, p->dim[1] * p->dim[2]));
    LT_TRY(lt_arena_take(arena, sizeof(turned), &memory));
    *(turned *)memory = (turned){e->exec, param, p->dim[1], p->dim[2], matrix};
    item->fetch = fetch_turned;
    item->ctx = memory;
    item->from = LT_F32;
    item->dim[1] = p->dim[2];
    item->dim[2] = p->dim[1];
    return LT_OK;
}

// A tensor of the file, as itself.
static void as_file(const lt_st_tensor *t, lt_hf_item *item)
{
    union {
        const void *in;
        void *out;
    } view = {.in = t};
    item->from = t->dtype;
    item->fetch = lt_st_fetch_view;
    item->ctx = view.out;
}

// Elements from `first` on, in lathe's order.
static lt_status as_it_lies(lt_engine *e, lt_arena *arena, int32_t param, int64_t first,
                            lt_hf_item *item)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, sizeof(stretch), &memory));
    *(stretch *)memory = (stretch){e->exec, param, first};
    item->fetch = fetch_stretch;
    item->ctx = memory;
    item->from = LT_F32;
    return LT_OK;
}

static lt_status part_item(lt_engine *e, lt_arena *arena, int32_t param, const lt_hf_weight *w,
                           int32_t part, lt_expert_matrix *matrix, lt_hf_item *item)
{
    const lt_st_tensor *t = w->parts[part];
    item->name = t->name;
    item->n_aliases = 0; // they name the whole weight
    item->rank = t->rank;
    memset(item->dim, 0, sizeof item->dim);
    memcpy(item->dim, t->dim, (size_t)t->rank * sizeof *t->dim);
    if (!e->model->params[param].trainable && e->run->kind != LT_RUN_DCP) {
        as_file(t, item);
        return LT_OK;
    }
    return w->form == LT_HF_TRANSPOSED
               ? turn(e, arena, param, matrix, item)
               : as_it_lies(e, arena, param, lt_hf_part_first(w, part), item);
}

// The folder whose layout the result has: a distributed checkpoint has none, but the model's own
// folder does. NULL: the family's published layout.
static lt_hf *like_of(const lt_engine *e)
{
    if (e->run && e->run->kind != LT_RUN_DCP)
        return e->run->weights;
    return e->run && e->assets && lt_hf_count(e->assets) > 0 ? e->assets : NULL;
}

lt_status lt_expert_items(lt_engine *e, lt_arena *arena, int32_t param, const lt_hf_item *like,
                          lt_expert_matrix *matrix, lt_vec *items)
{
    const lt_param *p = &e->model->params[param];
    const bool transposed = lt_model_experts_transposed(&e->model->config);
    lt_hf_item item = *like;
    if (!like_of(e)) {
        LT_TRY(transposed ? turn(e, arena, param, matrix, &item)
                          : as_it_lies(e, arena, param, 0, &item));
        return lt_vec_push(items, &item);
    }
    lt_hf_weight w;
    LT_TRY(lt_hf_find_weight(like_of(e), arena, lt_weight_name(like_of(e), p), p->rank, p->dim,
                             transposed, &w));
    for (int32_t i = 0; i < w.n_parts; i++) {
        item = *like;
        LT_TRY(part_item(e, arena, param, &w, i, matrix, &item));
        LT_TRY(lt_vec_push(items, &item));
    }
    return LT_OK;
}
