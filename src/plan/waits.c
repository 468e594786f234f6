// SPDX-License-Identifier: Apache-2.0
// Placing waits: an action waits for what it would otherwise race with, unless its queue or another
// wait orders them already.
#include "plan/waits.h"

// Which actions of a section happen before which, as rows of bits.
typedef struct before_rows {
    uint64_t *bits; /* [n][words] row i: the actions that are done when i starts */
    int32_t n, words, first;
} before_rows;

static bool is_before(const before_rows *b, int32_t earlier, int32_t later)
{
    const int32_t e = earlier - b->first;
    return b->bits[(int64_t)(later - b->first) * b->words + e / 64] >> (e % 64) & 1;
}

static lt_status before_create(const lt_section *s, before_rows *out)
{
    const int32_t n = s->end - s->begin;
    *out = (before_rows){.n = n, .words = n / 64 + 1, .first = s->begin};
    void *memory = NULL;
    LT_TRY(
        lt_mem_alloc(&memory, (size_t)n * (size_t)out->words * sizeof(uint64_t), "happens-before"));
    out->bits = memory;
    return LT_OK;
}

static void before_deinit(before_rows *b)
{
    lt_mem_free(b->bits);
    b->bits = NULL;
}

// `earlier`, and all before it, are before `later`.
static void before_join(before_rows *b, int32_t earlier, int32_t later)
{
    const int32_t e = earlier - b->first;
    uint64_t *to = b->bits + (int64_t)(later - b->first) * b->words;
    const uint64_t *from = b->bits + (int64_t)e * b->words;
    for (int32_t w = 0; w < b->words; w++)
        to[w] |= from[w];
    to[e / 64] |= UINT64_C(1) << (e % 64);
}

// Which actions touch each buffer, as lists in one array.
typedef struct users {
    int32_t *first; /* [buffers + 1] */
    struct use {
        int32_t action;
        bool write;
    } * use;
} users;

static lt_status list_users(const lt_program *p, users *u)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)(p->buffers.n + 2) * sizeof(int32_t), "buffer users"));
    u->first = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)p->accesses.n * sizeof(struct use), "buffer users"));
    u->use = memory;
    for (int64_t i = 0; i < p->accesses.n; i++)
        u->first[LT_AT(&p->accesses, lt_access, i).buffer + 2]++;
    for (int64_t b = 2; b < p->buffers.n + 2; b++)
        u->first[b] += u->first[b - 1];
    for (int64_t i = 0; i < p->actions.n; i++) {
        const lt_action *a = lt_action_at(p, i);
        for (int32_t k = 0; k < a->n_access; k++) {
            const lt_access x = LT_AT(&p->accesses, lt_access, a->access + k);
            u->use[u->first[x.buffer + 1]++] = (struct use){lt_int(i), x.write};
        }
    }
    return LT_OK;
}

typedef struct placer {
    lt_program *p;
    users u;
    before_rows before;
    lt_vec wanted; /* int32_t: actions that the present one must come after */
} placer;

static lt_status want(placer *k, int32_t action)
{
    return action < k->before.first ? LT_OK : lt_vec_push(&k->wanted, &action);
}

static bool common_bytes(const lt_program *p, const lt_buffer *a, const lt_buffer *b)
{
    return lt_room_of(p, a) == lt_room_of(p, b) && lt_room_of(p, a) != LT_ROOM_OWN &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static lt_status wanted_by(placer *k, int32_t action, lt_access x)
{
    const lt_buffer *buffer = lt_buffer_at(k->p, x.buffer);
    for (int32_t i = k->u.first[x.buffer];
         i < k->u.first[x.buffer + 1] && k->u.use[i].action < action; i++)
        if (x.write || k->u.use[i].write)
            LT_TRY(want(k, k->u.use[i].action));
    if (buffer->begin != action)
        return LT_OK;
    for (int32_t o = 0; o < k->p->buffers.n; o++) { // the bytes' former owners
        const lt_buffer *old = lt_buffer_at(k->p, o);
        if (o == x.buffer || old->end >= action || !common_bytes(k->p, buffer, old))
            continue;
        for (int32_t i = k->u.first[o]; i < k->u.first[o + 1]; i++)
            LT_TRY(want(k, k->u.use[i].action));
    }
    return LT_OK;
}

static lt_status place(placer *k, int32_t action)
{
    lt_action *a = &LT_AT(&k->p->actions, lt_action, action);
    a->wait = lt_int(k->p->waits.n);
    for (int32_t i = action - 1; i >= k->before.first; i--) {
        if (lt_action_at(k->p, i)->queue == a->queue) {
            before_join(&k->before, i, action);
            break;
        }
    }
    lt_vec_clear(&k->wanted);
    for (int32_t i = 0; i < a->n_access; i++)
        LT_TRY(wanted_by(k, action, LT_AT(&k->p->accesses, lt_access, a->access + i)));
    for (;;) { // the latest first: it often brings the others with it
        int32_t latest = LT_NONE;
        for (int64_t i = 0; i < k->wanted.n; i++) {
            const int32_t w = LT_AT(&k->wanted, int32_t, i);
            if (w > latest && !is_before(&k->before, w, action))
                latest = w;
        }
        if (latest == LT_NONE)
            return LT_OK;
        before_join(&k->before, latest, action);
        LT_TRY(lt_vec_push(&k->p->waits, &latest));
        a->n_wait++;
    }
}

lt_status lt_place_waits(lt_program *p)
{
    placer k = {.p = p, .wanted = LT_VEC_OF(int32_t)};
    lt_status st = list_users(p, &k.u);
    for (int s = 0; st == LT_OK && s < LT_N_SECTIONS; s++) {
        st = before_create(&p->section[s], &k.before);
        for (int32_t i = p->section[s].begin; st == LT_OK && i < p->section[s].end; i++)
            st = place(&k, i);
        before_deinit(&k.before);
    }
    lt_mem_free(k.u.first);
    lt_mem_free(k.u.use);
    lt_vec_deinit(&k.wanted);
    return st;
}
