// SPDX-License-Identifier: Apache-2.0
// The checker: proves from waits, queues, offsets and accesses alone that no order the queues allow can race.
#include "plan/waits.h"

// The bytes that an access touches, in which memory.
typedef struct span {
    int32_t memory; /* 0: the step pool; else 1 + the buffer's number */
    int64_t begin, end;
} span;

static span span_of(const lt_program *p, int32_t buffer)
{
    const lt_buffer *b = lt_buffer_at(p, buffer);
    if (b->kind <= LT_BUF_NORM)
        return (span){0, b->offset, b->offset + b->bytes};
    return (span){1 + buffer, 0, lt_max_i64(b->bytes, 1)};
}

static bool spans_meet(span a, span b)
{
    return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}

static lt_status order(const lt_program *p, const lt_section *s, lt_before *before)
{
    for (int32_t i = s->begin; i < s->end; i++) {
        const lt_action *a = lt_action_at(p, i);
        for (int32_t k = s->begin; k < i; k++)
            if (lt_action_at(p, k)->queue == a->queue)
                lt_before_join(before, k, i);
        for (int32_t k = 0; k < a->n_wait; k++) {
            const int32_t w = LT_AT(&p->waits, int32_t, a->wait + k);
            if (w < s->begin || w >= i)
                return LT_FAIL(LT_ERR_INTERNAL, "action %d waits for action %d, which is not before it in its section", i, w);
            lt_before_join(before, w, i);
        }
    }
    return LT_OK;
}

static lt_status check_pair(const lt_program *p, const lt_before *before, int32_t i, int32_t j)
{
    const lt_action *a = lt_action_at(p, i), *b = lt_action_at(p, j);
    for (int32_t x = 0; x < a->n_access; x++)
        for (int32_t y = 0; y < b->n_access; y++) {
            const lt_access u = LT_AT(&p->accesses, lt_access, a->access + x), v = LT_AT(&p->accesses, lt_access, b->access + y);
            if (!(u.write || v.write) || !spans_meet(span_of(p, u.buffer), span_of(p, v.buffer)))
                continue;
            if (!lt_is_before(before, i, j))
                return LT_FAIL(LT_ERR_INTERNAL, "actions %d (%s on %s) and %d (%s on %s) may run at once, and both touch %s / %s", i,
                               lt_action_name(a->kind), lt_queue_name(a->queue), j, lt_action_name(b->kind),
                               lt_queue_name(b->queue), lt_buffer_name(p, u.buffer).s, lt_buffer_name(p, v.buffer).s);
        }
    return LT_OK;
}

// Inside one action, a buffer must not lie on another's bytes.
static lt_status check_alone(const lt_program *p, int32_t i)
{
    const lt_action *a = lt_action_at(p, i);
    for (int32_t x = 0; x < a->n_access; x++)
        for (int32_t y = x + 1; y < a->n_access; y++) {
            const int32_t u = LT_AT(&p->accesses, lt_access, a->access + x).buffer;
            const int32_t v = LT_AT(&p->accesses, lt_access, a->access + y).buffer;
            if (spans_meet(span_of(p, u), span_of(p, v)))
                return LT_FAIL(LT_ERR_INTERNAL, "action %d (%s) uses %s and %s, which share bytes", i, lt_action_name(a->kind),
                               lt_buffer_name(p, u).s, lt_buffer_name(p, v).s);
        }
    return LT_OK;
}

// A buffer that is read was written before, by something of this step: state, and what earlier sections left, apart.
static lt_status check_written(const lt_program *p, const lt_section *s, const lt_before *before, int32_t j)
{
    const lt_action *b = lt_action_at(p, j);
    for (int32_t y = 0; y < b->n_access; y++) {
        const lt_access v = LT_AT(&p->accesses, lt_access, b->access + y);
        const lt_buffer *buffer = lt_buffer_at(p, v.buffer);
        if (v.write || buffer->kind == LT_BUF_SCALARS || buffer->kind == LT_BUF_GRADS)
            continue;
        bool found = false;
        for (int32_t i = s->begin; i < j && !found; i++) {
            const lt_action *a = lt_action_at(p, i);
            for (int32_t x = 0; x < a->n_access && !found; x++) {
                const lt_access u = LT_AT(&p->accesses, lt_access, a->access + x);
                found = u.buffer == v.buffer && u.write && lt_is_before(before, i, j);
            }
        }
        if (!found)
            return LT_FAIL(LT_ERR_INTERNAL, "action %d (%s) reads %s, which nothing before it has written", j,
                           lt_action_name(b->kind), lt_buffer_name(p, v.buffer).s);
    }
    return LT_OK;
}

static lt_status check_section(const lt_program *p, const lt_section *s)
{
    lt_before before;
    LT_TRY(lt_before_create(s, &before));
    lt_status st = order(p, s, &before);
    for (int32_t j = s->begin; st == LT_OK && j < s->end; j++) {
        for (int32_t i = s->begin; st == LT_OK && i < j; i++)
            st = check_pair(p, &before, i, j);
        if (st == LT_OK)
            st = check_alone(p, j);
        if (st == LT_OK)
            st = check_written(p, s, &before, j);
    }
    lt_before_deinit(&before);
    return st;
}

// What one section leaves in the step pool for another must not be overwritten: only scalars and norm may live across.
static lt_status check_borders(const lt_program *p)
{
    for (int32_t b = 0; b < p->buffers.n; b++) {
        const lt_buffer *x = lt_buffer_at(p, b);
        if (x->kind > LT_BUF_NORM || x->kind == LT_BUF_SCALARS || x->kind == LT_BUF_NORM || x->begin < 0)
            continue;
        for (int s = 0; s < LT_N_SECTIONS; s++)
            if (x->begin < p->section[s].begin && x->end >= p->section[s].begin)
                return LT_FAIL(LT_ERR_INTERNAL, "%s is alive at the border before section %s", lt_buffer_name(p, b).s,
                               p->section[s].name);
        for (int32_t o = 0; o < p->buffers.n; o++) {
            const lt_buffer *y = lt_buffer_at(p, o);
            if ((y->kind == LT_BUF_SCALARS || y->kind == LT_BUF_NORM) && y->begin >= 0 && spans_meet(span_of(p, b), span_of(p, o)))
                return LT_FAIL(LT_ERR_INTERNAL, "%s lies on %s, which lives all step long", lt_buffer_name(p, b).s,
                               lt_buffer_name(p, o).s);
        }
    }
    return LT_OK;
}

lt_status lt_program_check(const lt_program *p)
{
    for (int s = 0; s < LT_N_SECTIONS; s++)
        LT_TRY(check_section(p, &p->section[s]));
    return check_borders(p);
}
