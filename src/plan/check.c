// SPDX-License-Identifier: Apache-2.0
// The checker: proves from waits, queues, offsets and accesses alone that no order the queues allow
// can race.
//
// It walks a section in list order and keeps, for every piece of memory, who wrote it last and who
// read it since. Each access
// must come after those: by induction it then comes after all that went before, so n actions need
// no n^2 pairs. What comes after
// what is a clock per action: the latest action of each queue that is done when it starts.
#include "plan/program.h"

#include <string.h>

typedef struct clock_row {
    int32_t done[LT_N_QUEUES]; /* LT_NONE: none of that queue */
} clock_row;

typedef struct user {
    int32_t action, buffer; /* LT_NONE: nobody in this section */
} user;

// Bytes with one history.
typedef struct piece {
    int64_t begin, end;
    /* since the writer; a queue's earlier readers are before its last */
    user writer, reader[LT_N_QUEUES];
} piece;

typedef struct checker {
    const lt_program *p;
    const lt_section *s;
    clock_row *clock; /* [actions of the section] */
    /* [buffers] where its memory begins: the pools first, all others behind them, one by one */
    int64_t *base;
    lt_vec pieces; /* sorted, disjoint; what nobody has touched is not there */
} checker;

static const user nobody = {LT_NONE, LT_NONE};

/* ---- what comes after what ---- */

static void take_over(clock_row *to, const clock_row *from)
{
    for (int q = 0; q < LT_N_QUEUES; q++)
        to->done[q] = to->done[q] > from->done[q] ? to->done[q] : from->done[q];
}

// What is done when action i is done.
static clock_row clock_after(const checker *c, int32_t i)
{
    clock_row r = c->clock[i - c->s->begin];
    r.done[lt_action_at(c->p, i)->queue] = i;
    return r;
}

static bool is_before(const checker *c, int32_t earlier, int32_t later)
{
    return earlier <= c->clock[later - c->s->begin].done[lt_action_at(c->p, earlier)->queue];
}

static lt_status set_clocks(checker *c)
{
    int32_t last[LT_N_QUEUES];
    for (int q = 0; q < LT_N_QUEUES; q++)
        last[q] = LT_NONE;
    for (int32_t i = c->s->begin; i < c->s->end; i++) {
        const lt_action *a = lt_action_at(c->p, i);
        clock_row *r = &c->clock[i - c->s->begin];
        for (int q = 0; q < LT_N_QUEUES; q++)
            r->done[q] = LT_NONE;
        if (last[a->queue] != LT_NONE)
            *r = clock_after(c, last[a->queue]);
        for (int32_t k = 0; k < a->n_wait; k++) {
            const int32_t w = LT_AT(&c->p->waits, int32_t, a->wait + k);
            if (w < c->s->begin || w >= i) {
                return LT_FAIL(
                    LT_ERR_INTERNAL,
                    "action %d waits for action %d, which is not before it in its section", i, w);
            }
            const clock_row other = clock_after(c, w);
            take_over(r, &other);
        }
        last[a->queue] = i;
    }
    return LT_OK;
}

/* ---- who touched which bytes ---- */

// The first piece that ends behind `at`.
static int64_t find_piece(const checker *c, int64_t at)
{
    int64_t low = 0, high = c->pieces.n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (LT_AT(&c->pieces, piece, mid).end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static lt_status insert_piece(checker *c, int64_t at, piece x)
{
    LT_TRY(lt_vec_push(&c->pieces, NULL));
    piece *all = c->pieces.data;
    memmove(all + at + 1, all + at, (size_t)(c->pieces.n - 1 - at) * sizeof *all);
    all[at] = x;
    return LT_OK;
}

// Cut the piece that holds `at` inside, so that pieces begin or end there.
static lt_status cut(checker *c, int64_t at)
{
    const int64_t i = find_piece(c, at);
    if (i == c->pieces.n || LT_AT(&c->pieces, piece, i).begin >= at)
        return LT_OK;
    piece left = LT_AT(&c->pieces, piece, i);
    LT_AT(&c->pieces, piece, i).begin = at;
    left.end = at;
    return insert_piece(c, i, left);
}

static lt_status check_order(const checker *c, user earlier, user now)
{
    if (earlier.action == LT_NONE)
        return LT_OK;
    const lt_action *a = lt_action_at(c->p, earlier.action), *b = lt_action_at(c->p, now.action);
    if (earlier.action == now.action) {
        return LT_FAIL(LT_ERR_INTERNAL, "action %d (%s) uses %s and %s, which share bytes",
                       now.action, lt_action_name(b->kind), lt_buffer_name(c->p, earlier.buffer).s,
                       lt_buffer_name(c->p, now.buffer).s);
    }
    if (is_before(c, earlier.action, now.action))
        return LT_OK;
    return LT_FAIL(
        LT_ERR_INTERNAL,
        "actions %d (%s on %s) and %d (%s on %s) may run at once, and both touch %s / %s",
        earlier.action, lt_action_name(a->kind), lt_queue_name(a->queue), now.action,
        lt_action_name(b->kind), lt_queue_name(b->queue), lt_buffer_name(c->p, earlier.buffer).s,
        lt_buffer_name(c->p, now.buffer).s);
}

// What is read was put there, by something of this step that nothing has overwritten: the state
// apart, which outlives steps.
static lt_status check_contents(const checker *c, user writer, user now)
{
    const lt_buffer_kind kind = lt_buffer_at(c->p, now.buffer)->kind;
    const lt_action *reader = lt_action_at(c->p, now.action);
    const bool from_before = kind == LT_BUF_SCALARS || kind == LT_BUF_GRADS ||
                             kind == LT_BUF_MOMENTS ||
                             (kind == LT_BUF_VALUES && reader->kind == LT_ACT_GATHER) ||
                             (kind == LT_BUF_VALUES && reader->kind == LT_ACT_OFFLOAD);
    if (writer.action == LT_NONE && from_before)
        return LT_OK;
    if (writer.action == LT_NONE) {
        return LT_FAIL(LT_ERR_INTERNAL,
                       "action %d (%s) reads %s, which nothing before it has written", now.action,
                       lt_action_name(reader->kind), lt_buffer_name(c->p, now.buffer).s);
    }
    const lt_action *by = lt_action_at(c->p, writer.action);
    if (writer.buffer == now.buffer && by->kind != LT_ACT_FREE)
        return LT_OK;
    return LT_FAIL(LT_ERR_INTERNAL, "action %d (%s) reads %s, but action %d (%s) has put %s there",
                   now.action, lt_action_name(reader->kind), lt_buffer_name(c->p, now.buffer).s,
                   writer.action, lt_action_name(by->kind),
                   by->kind == LT_ACT_FREE ? "nothing" : lt_buffer_name(c->p, writer.buffer).s);
}

static lt_status read_piece(const checker *c, piece *x, user now)
{
    user *mine = &x->reader[lt_action_at(c->p, now.action)->queue];
    LT_TRY(check_order(c, x->writer, now));
    if (mine->action == now.action)
        LT_TRY(check_order(c, *mine, now));
    LT_TRY(check_contents(c, x->writer, now));
    *mine = now;
    return LT_OK;
}

static lt_status write_piece(const checker *c, const piece *x, user now)
{
    LT_TRY(check_order(c, x->writer, now));
    for (int q = 0; q < LT_N_QUEUES; q++)
        LT_TRY(check_order(c, x->reader[q], now));
    return LT_OK;
}

// Bytes that nobody has touched yet become a piece that nobody wrote.
static lt_status fill_gaps(checker *c, int64_t begin, int64_t end)
{
    piece fresh = {.writer = nobody};
    for (int q = 0; q < LT_N_QUEUES; q++)
        fresh.reader[q] = nobody;
    for (int64_t i = find_piece(c, begin), at = begin; at < end; i++) {
        const bool there = i < c->pieces.n && LT_AT(&c->pieces, piece, i).begin < end;
        const int64_t next = there ? LT_AT(&c->pieces, piece, i).begin : end;
        if (at < next) {
            fresh.begin = at;
            fresh.end = next;
            LT_TRY(insert_piece(c, i, fresh));
        }
        at = LT_AT(&c->pieces, piece, i).end;
    }
    return LT_OK;
}

static lt_status check_access(checker *c, int32_t action, lt_access x)
{
    const lt_buffer *b = lt_buffer_at(c->p, x.buffer);
    const int64_t begin = c->base[x.buffer] + (lt_room_of(c->p, b) == LT_ROOM_OWN ? 0 : b->offset),
                  end = begin + b->bytes;
    const user now = {action, x.buffer};
    if (b->bytes == 0)
        return LT_OK;
    LT_TRY(cut(c, begin));
    LT_TRY(cut(c, end));
    LT_TRY(fill_gaps(c, begin, end));
    const int64_t first = find_piece(c, begin);
    int64_t n = 0;
    for (; first + n < c->pieces.n && LT_AT(&c->pieces, piece, first + n).begin < end; n++) {
        piece *at = &LT_AT(&c->pieces, piece, first + n);
        LT_TRY(x.write ? write_piece(c, at, now) : read_piece(c, at, now));
    }
    if (!x.write)
        return LT_OK;
    piece *all = c->pieces.data; // one history from here on
    all[first].end = end;
    all[first].writer = now;
    for (int q = 0; q < LT_N_QUEUES; q++)
        all[first].reader[q] = nobody;
    memmove(all + first + 1, all + first + n, (size_t)(c->pieces.n - first - n) * sizeof *all);
    c->pieces.n -= n - 1;
    return LT_OK;
}

static lt_status check_section(checker *c)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)(c->s->end - c->s->begin) * sizeof(clock_row),
                        "clocks of actions"));
    c->clock = memory;
    lt_vec_clear(&c->pieces);
    lt_status st = set_clocks(c);
    for (int32_t i = c->s->begin; st == LT_OK && i < c->s->end; i++) {
        const lt_action *a = lt_action_at(c->p, i);
        for (int32_t k = 0; st == LT_OK && k < a->n_access; k++)
            st = check_access(c, i, LT_AT(&c->p->accesses, lt_access, a->access + k));
    }
    lt_mem_free(memory);
    return st;
}

/* ---- between sections ---- */

static bool lives_all_step(const lt_buffer *b)
{
    return b->kind == LT_BUF_SCALARS || b->kind == LT_BUF_NORM;
}

static bool share_bytes(const lt_buffer *a, const lt_buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static lt_status check_long_life(const lt_program *p, int32_t number)
{
    const lt_buffer *x = lt_buffer_at(p, number);
    for (int32_t o = 0; o < p->buffers.n; o++) {
        const lt_buffer *y = lt_buffer_at(p, o);
        if (o != number && lt_room_of(p, y) == lt_room_of(p, x) && y->begin >= 0 &&
            share_bytes(x, y))
            return LT_FAIL(LT_ERR_INTERNAL, "%s lies on %s, which lives all step long",
                           lt_buffer_name(p, o).s, lt_buffer_name(p, number).s);
    }
    return LT_OK;
}

// What one section leaves in the step pool for another must not be overwritten: only scalars and
// norm may live across.
static lt_status check_borders(const lt_program *p)
{
    for (int32_t b = 0; b < p->buffers.n; b++) {
        const lt_buffer *x = lt_buffer_at(p, b);
        if (lt_room_of(p, x) == LT_ROOM_OWN || x->begin < 0)
            continue;
        if (lives_all_step(x)) {
            LT_TRY(check_long_life(p, b));
            continue;
        }
        for (int s = 0; s < LT_N_SECTIONS; s++) {
            if (x->begin < p->section[s].begin && x->end >= p->section[s].begin)
                return LT_FAIL(LT_ERR_INTERNAL, "%s is alive at the border before section %s",
                               lt_buffer_name(p, b).s, p->section[s].name);
        }
    }
    return LT_OK;
}

static lt_status set_bases(checker *c)
{
    void *memory = NULL;
    LT_TRY(
        lt_mem_alloc(&memory, (size_t)c->p->buffers.n * sizeof(int64_t), "addresses of buffers"));
    c->base = memory;
    int64_t top = 0;
    for (int room = LT_ROOM_STEP; room < LT_ROOM_OWN; room++) {
        const int64_t base = top;
        for (int64_t b = 0; b < c->p->buffers.n; b++) {
            const lt_buffer *x = lt_buffer_at(c->p, b);
            if (lt_room_of(c->p, x) != (lt_room)room)
                continue;
            c->base[b] = base;
            top = lt_max_i64(top, base + x->offset + x->bytes);
        }
    }
    for (int64_t b = 0; b < c->p->buffers.n; b++) {
        const lt_buffer *x = lt_buffer_at(c->p, b);
        if (lt_room_of(c->p, x) != LT_ROOM_OWN)
            continue;
        c->base[b] = top;
        top += x->bytes;
    }
    return LT_OK;
}

lt_status lt_program_check(const lt_program *p)
{
    checker c = {.p = p, .pieces = LT_VEC_OF(piece)};
    lt_status st = set_bases(&c);
    for (int s = 0; st == LT_OK && s < LT_N_SECTIONS; s++) {
        c.s = &p->section[s];
        st = check_section(&c);
    }
    lt_mem_free(c.base);
    lt_vec_deinit(&c.pieces);
    return st == LT_OK ? check_borders(p) : st;
}
