// SPDX-License-Identifier: Apache-2.0
// Ends of lives, lifetimes, offsets.
#include "plan/memory.h"

#include "graph/pack.h"

static bool has_free(lt_buffer_kind kind)
{
    return kind == LT_BUF_BATCH || kind == LT_BUF_EDGE || kind == LT_BUF_GRAD ||
           kind == LT_BUF_SAVED || kind == LT_BUF_UNIT_GRADS || kind == LT_BUF_UNIT_VALUES ||
           kind == LT_BUF_UNIT_MOMENTS || (kind >= LT_BUF_HOST && kind <= LT_BUF_HOST_VALUES);
}

// A FREE behind the last user of every activation, on that user's queue. Actions move, so accesses
// and sections move along.
static lt_status insert_frees(lt_program *p)
{
    lt_vec old = p->actions, spans = LT_VEC_OF(int32_t);
    p->actions = LT_VEC_OF(lt_action);
    lt_status st = lt_vec_resize(&spans, old.n + 1); // old number -> new number
    const int32_t width = p->max_params;
    void *memory = NULL;
    if (st == LT_OK)
        st = lt_mem_alloc(&memory, (size_t)((old.n + p->buffers.n) * width) * sizeof(bool),
                          "gradient add flags");
    bool *add = memory;
    for (int64_t i = 0; st == LT_OK && i < old.n; i++) {
        lt_action a = LT_AT(&old, lt_action, i);
        LT_AT(&spans, int32_t, i) = lt_int(p->actions.n);
        for (int32_t w = 0; w < width; w++)
            add[p->actions.n * width + w] = p->grad_add[i * width + w];
        st = lt_vec_push(&p->actions, &a);
        for (int64_t b = 0; st == LT_OK && b < p->buffers.n; b++) {
            const lt_buffer *buffer = &LT_AT(&p->buffers, lt_buffer, b);
            if (buffer->end != i || !has_free(buffer->kind))
                continue;
            const lt_action f = {.kind = LT_ACT_FREE,
                                 .subject = lt_int(b),
                                 .other = LT_NONE,
                                 .queue = a.queue,
                                 .access = lt_int(p->accesses.n),
                                 .n_access = 1};
            const lt_access access = {lt_int(b), true};
            st = lt_vec_push(&p->accesses, &access);
            if (st == LT_OK)
                st = lt_vec_push(&p->actions, &f);
        }
    }
    if (st == LT_OK) {
        LT_AT(&spans, int32_t, old.n) = lt_int(p->actions.n);
        for (int s = 0; s < LT_N_SECTIONS; s++) {
            p->section[s].begin = LT_AT(&spans, int32_t, p->section[s].begin);
            p->section[s].end = LT_AT(&spans, int32_t, p->section[s].end);
        }
        lt_mem_free(p->grad_add);
        p->grad_add = add;
        memory = NULL;
    }
    lt_mem_free(memory);
    lt_vec_deinit(&spans);
    lt_vec_deinit(&old);
    return st;
}

static void set_lifetimes(lt_program *p)
{
    for (int64_t b = 0; b < p->buffers.n; b++)
        LT_AT(&p->buffers, lt_buffer, b).begin = LT_AT(&p->buffers, lt_buffer, b).end = -1;
    for (int64_t i = 0; i < p->actions.n; i++) {
        const lt_action *a = lt_action_at(p, i);
        for (int32_t k = 0; k < a->n_access; k++) {
            lt_buffer *b = &LT_AT(&p->buffers, lt_buffer,
                                  LT_AT(&p->accesses, lt_access, a->access + k).buffer);
            if (b->begin < 0)
                b->begin = lt_int(i);
            b->end = lt_int(i);
        }
    }
}

// Offsets in one pool. The scalars and the norm live through the whole step.
static lt_status pack_room(lt_program *p, lt_room room, int64_t *peak)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)p->buffers.n * sizeof(lt_pack_item), "step layout"));
    lt_pack_item *items = memory;
    for (int64_t b = 0; b < p->buffers.n; b++) {
        const lt_buffer *x = lt_buffer_at(p, b);
        if (lt_room_of(p, x) != room || x->begin < 0)
            continue;
        items[b] = (lt_pack_item){x->bytes, x->begin, x->end, 0};
        if (x->kind == LT_BUF_SCALARS || x->kind == LT_BUF_NORM) {
            items[b].begin = 0;
            items[b].end = lt_int(p->actions.n);
        }
    }
    const lt_status st = lt_pack(items, p->buffers.n, peak);
    for (int64_t b = 0; st == LT_OK && b < p->buffers.n; b++)
        if (lt_room_of(p, lt_buffer_at(p, b)) == room)
            LT_AT(&p->buffers, lt_buffer, b).offset = items[b].offset;
    lt_mem_free(memory);
    return st;
}

static lt_status lay_out(lt_program *p)
{
    LT_TRY(pack_room(p, LT_ROOM_STEP, &p->step_bytes));
    LT_TRY(pack_room(p, LT_ROOM_HOST, &p->host_bytes));
    for (int64_t b = 0; p->opts.batch_apart && b < p->buffers.n; b++) {
        lt_buffer *x = &LT_AT(&p->buffers, lt_buffer, b);
        if (x->kind != LT_BUF_BATCH)
            continue;
        x->offset = p->batch_bytes;
        p->batch_bytes += lt_round_up(x->bytes, LT_ALIGN);
    }
    return LT_OK;
}

// The workspace buffer of each action, for the executor.
static lt_status find_work(lt_program *p)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)p->actions.n * sizeof(int32_t), "program tables"));
    p->work_buffer = memory;
    for (int64_t i = 0; i < p->actions.n; i++)
        p->work_buffer[i] = LT_NONE;
    for (int64_t b = 0; b < p->buffers.n; b++)
        if (lt_buffer_at(p, b)->kind == LT_BUF_WORK)
            p->work_buffer[lt_buffer_at(p, b)->begin] = lt_int(b);
    return LT_OK;
}

lt_status lt_program_lay_out(lt_program *p)
{
    LT_TRY(insert_frees(p));
    set_lifetimes(p);
    LT_TRY(lay_out(p));
    return find_work(p);
}
