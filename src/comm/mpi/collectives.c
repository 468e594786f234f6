// SPDX-License-Identifier: Apache-2.0
// Collectives between processes: MPI moves bytes from rank to rank, sums are taken here, in the
// same order as everywhere.
#include "comm/mpi/session.h"

#include <string.h>

// What a rank is about to do; all members of a group say the same.
typedef struct header {
    int32_t call, detail; /* detail: dtype, root or colour */
    int64_t n, elements;  /* parts, or bytes; all elements of them */
} header;

enum { BARRIER, SPLIT, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, BROADCAST, HAND, N_CALLS };
static const char *const call_names[N_CALLS] = {
    "barrier", "split", "all-gather", "reduce-scatter", "all-reduce", "broadcast", "hand"};

static lt_mpi_group *of(lt_group *g)
{
    return (lt_mpi_group *)g;
}

// Others in the order in which a rank turns to them, so that not all turn to the same one.
static int32_t other(const lt_group *g, int32_t i)
{
    return (g->rank + 1 + i) % g->size;
}

/* ---- saying what comes ---- */

static lt_status same(const lt_mpi_group *g, int32_t rank, const header *a, int32_t other_rank,
                      const header *b)
{
    if (memcmp(a, b, sizeof *a) == 0)
        return LT_OK;
    const bool known = a->call >= 0 && a->call < N_CALLS && b->call >= 0 && b->call < N_CALLS;
    return LT_FAIL(LT_ERR_INTERNAL,
                   "rank %d issues %s (%lld, %d, %lld) where rank %d issues %s (%lld, %d, %lld)",
                   g->world[rank], known ? call_names[a->call] : "an unknown call", (long long)a->n,
                   a->detail, (long long)a->elements, g->world[other_rank],
                   known ? call_names[b->call] : "an unknown call", (long long)b->n, b->detail,
                   (long long)b->elements);
}

// Headers of all members, by rank; they lie in the scratch memory until the next call.
static lt_status exchange_headers(lt_mpi_group *g, const header *mine, const header **out)
{
    header *all = g->m->scratch;
    for (int32_t i = 0; i < g->base.size - 1; i++)
        LT_TRY(
            lt_mpi_receive(g, other(&g->base, i), true, &all[other(&g->base, i)], sizeof(header)));
    for (int32_t i = 0; i < g->base.size - 1; i++)
        LT_TRY(lt_mpi_send(g, other(&g->base, i), true, mine, sizeof *mine));
    all[g->base.rank] = *mine;
    *out = all;
    return lt_mpi_wait(g->m);
}

// All members have come with the same call.
static lt_status begin(lt_mpi_group *g, header mine)
{
    const header *all = NULL;
    LT_TRY(exchange_headers(g, &mine, &all));
    for (int32_t r = 1; r < g->base.size; r++)
        LT_TRY(same(g, r, &all[r], 0, &all[0]));
    return LT_OK;
}

static header about_parts(int32_t call, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    header h = {.call = call, .detail = (int32_t)dtype, .n = n};
    for (int64_t i = 0; i < n; i++)
        h.elements += parts[i].total;
    return h;
}

static lt_status barrier(lt_group *g)
{
    return begin(of(g), (header){.call = BARRIER});
}

/* ---- sums ---- */

// A sum under way.
typedef struct sum {
    lt_mpi_group *g;
    const lt_pieces *parts;
    int64_t n, room; /* room: elements that may come from one rank at once */
    bool even;       /* the group's own cut, not the parts' */
    lt_dtype dtype;
} sum;

// The next elements of each rank's piece of a part.
typedef struct window {
    int64_t part, chunk, at, n;
    int64_t used; /* of the room, by those before it */
} window;

static lt_piece_range part_of(const sum *s, const window *w, int32_t rank)
{
    const lt_piece_range piece = lt_piece_of(&s->parts[w->part], w->chunk, rank);
    const int64_t from = lt_min_i64(piece.n, w->at), to = lt_min_i64(piece.n, w->at + w->n);
    return (lt_piece_range){piece.first + from, to - from};
}

static unsigned char *arrived(const sum *s, const window *w, int32_t rank)
{
    return (unsigned char *)s->g->m->scratch +
           (size_t)(rank * s->room + w->used) * lt_dtype_bytes(s->dtype);
}

static unsigned char *element(const sum *s, const window *w, int64_t i)
{
    return (unsigned char *)s->parts[w->part].full + (size_t)i * lt_dtype_bytes(s->dtype);
}

static lt_status send_window(const sum *s, const window *w)
{
    const lt_group *g = &s->g->base;
    const size_t size = lt_dtype_bytes(s->dtype);
    const lt_piece_range mine = part_of(s, w, g->rank);
    for (int32_t i = 0; i < g->size - 1; i++) {
        const int32_t r = other(g, g->size - 2 - i);
        LT_TRY(lt_mpi_receive(s->g, r, false, arrived(s, w, r), (size_t)mine.n * size));
    }
    for (int32_t i = 0; i < g->size - 1; i++) {
        const lt_piece_range theirs = part_of(s, w, other(g, i));
        LT_TRY(lt_mpi_send(s->g, other(g, i), false, element(s, w, theirs.first),
                           (size_t)theirs.n * size));
    }
    return LT_OK;
}

static lt_status sum_window(const sum *s, const window *w)
{
    const lt_group *g = &s->g->base;
    const lt_piece_range mine = part_of(s, w, g->rank);
    const void **source = s->g->m->source;
    for (int32_t r = 0; r < g->size; r++)
        source[r] = r == g->rank ? element(s, w, mine.first) : arrived(s, w, r);
    lt_sum_in_order(source, g->size, mine.n, s->dtype, element(s, w, mine.first));
    return LT_OK;
}

// From a place on, as many windows as there is room for. A place is a part, and how much of every
// rank's piece of it is done: the same for all ranks, however long their own pieces are.
typedef struct place {
    int64_t part, at;
} place;

static lt_status each_window(const sum *s, place from, lt_status (*fn)(const sum *, const window *),
                             place *to)
{
    int64_t used = 0;
    for (*to = from; to->part < s->n && used < s->room;) {
        const lt_pieces *p = &s->parts[to->part];
        const int64_t chunk = s->even ? lt_ceil_div(p->total, s->g->base.size) : p->chunk,
                      longest = lt_min_i64(chunk, p->total);
        const window w = {to->part, chunk, to->at, lt_min_i64(longest - to->at, s->room - used),
                          used};
        if (w.n > 0)
            LT_TRY(fn(s, &w));
        used += w.n;
        to->at += w.n;
        if (to->at == longest)
            *to = (place){to->part + 1, 0};
    }
    return LT_OK;
}

static lt_status sum_parts(lt_mpi_group *g, const lt_pieces *parts, int64_t n, bool even,
                           lt_dtype dtype)
{
    const size_t each = (size_t)g->base.size * lt_dtype_bytes(dtype);
    const sum s = {.g = g,
                   .parts = parts,
                   .n = n,
                   .even = even,
                   .dtype = dtype,
                   .room = (int64_t)(g->m->scratch_bytes / each)};
    for (place from = {0, 0}; from.part < n;) {
        place to;
        LT_TRY(each_window(&s, from, send_window, &to));
        LT_TRY(lt_mpi_wait(g->m));
        LT_TRY(each_window(&s, from, sum_window, &to));
        from = to;
    }
    return LT_OK;
}

static lt_status reduce_scatter(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(of(g), about_parts(REDUCE_SCATTER, parts, n, dtype)));
    return sum_parts(of(g), parts, n, false, dtype);
}

/* ---- copies ---- */

// Pieces of all ranks come to their places. even: the group's own cut, and mine is in its place.
static lt_status gather(lt_mpi_group *g, const lt_pieces *parts, int64_t n, bool even,
                        lt_dtype dtype)
{
    const size_t size = lt_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        const lt_pieces *p = &parts[i];
        const int64_t chunk = even ? lt_ceil_div(p->total, g->base.size) : p->chunk;
        const lt_piece_range mine = lt_piece_of(p, chunk, g->base.rank);
        unsigned char *full = p->full, *own = full + (size_t)mine.first * size;
        for (int32_t k = 0; k < g->base.size - 1; k++) {
            const int32_t r = other(&g->base, g->base.size - 2 - k);
            const lt_piece_range theirs = lt_piece_of(p, chunk, r);
            LT_TRY(lt_mpi_receive(g, r, false, full + (size_t)theirs.first * size,
                                  (size_t)theirs.n * size));
        }
        for (int32_t k = 0; k < g->base.size - 1; k++)
            LT_TRY(lt_mpi_send(g, other(&g->base, k), false, even ? own : p->shard,
                               (size_t)mine.n * size));
        if (!even && mine.n > 0)
            memcpy(own, p->shard, (size_t)mine.n * size);
    }
    return lt_mpi_wait(g->m);
}

static lt_status all_gather(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(of(g), about_parts(ALL_GATHER, parts, n, dtype)));
    return gather(of(g), parts, n, false, dtype);
}

static lt_status all_reduce(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(of(g), about_parts(ALL_REDUCE, parts, n, dtype)));
    LT_TRY(sum_parts(of(g), parts, n, true, dtype));
    return gather(of(g), parts, n, true, dtype);
}

// From one rank to another, which says what it expects.
static lt_status receive_from(lt_mpi_group *g, int32_t from, header mine, void *data)
{
    header theirs;
    LT_TRY(lt_mpi_receive(g, from, true, &theirs, sizeof theirs));
    LT_TRY(lt_mpi_wait(g->m));
    LT_TRY(same(g, from, &theirs, g->base.rank, &mine));
    LT_TRY(lt_mpi_receive(g, from, false, data, (size_t)mine.n));
    return lt_mpi_wait(g->m);
}

static lt_status send_to(lt_mpi_group *g, int32_t to, const header *mine, const void *data)
{
    LT_TRY(lt_mpi_send(g, to, true, mine, sizeof *mine));
    return lt_mpi_send(g, to, false, data, (size_t)mine->n);
}

static lt_status broadcast(lt_group *g, int32_t from, void *data, size_t bytes)
{
    const header mine = {.call = BROADCAST, .detail = from, .n = (int64_t)bytes};
    if (g->rank != from)
        return receive_from(of(g), from, mine, data);
    for (int32_t i = 0; i < g->size - 1; i++)
        LT_TRY(send_to(of(g), other(g, i), &mine, data));
    return lt_mpi_wait(of(g)->m);
}

static lt_status hand(lt_group *g, int32_t from, int32_t to, void *data, size_t bytes)
{
    const header mine = {.call = HAND, .detail = from, .n = (int64_t)bytes};
    if (g->rank == to)
        return receive_from(of(g), from, mine, data);
    if (g->rank != from)
        return LT_OK;
    LT_TRY(send_to(of(g), to, &mine, data));
    return lt_mpi_wait(of(g)->m);
}

/* ---- groups ---- */

// Ids of groups grow, so that no two groups that share two ranks have the same one.
static lt_status split(lt_group *g, int32_t colour, lt_group **out)
{
    lt_mpi_group *all = of(g);
    const header mine = {.call = SPLIT, .detail = colour, .n = all->m->next_id};
    const header *said = NULL;
    void *memory = NULL;
    int32_t size = 0, rank = 0;
    int64_t id = 0;
    LT_TRY(exchange_headers(all, &mine, &said));
    LT_TRY(lt_mem_alloc(&memory, (size_t)g->size * sizeof(int32_t), "ranks of a group"));
    int32_t *world = memory;
    lt_status st = LT_OK;
    for (int32_t r = 0; r < g->size && st == LT_OK; r++) {
        if (said[r].call != SPLIT)
            st = same(all, r, &said[r], g->rank, &mine);
        id = lt_max_i64(id, said[r].n);
        if (r == g->rank)
            rank = size;
        if (said[r].detail == colour)
            world[size++] = all->world[r];
    }
    if (st != LT_OK) {
        lt_mem_free(memory);
        return st;
    }
    all->m->next_id = lt_int(id + 1);
    return lt_mpi_group_create(all->m, world, size, rank, lt_int(id), out);
}

static void close_group(lt_group *g)
{
    lt_mem_free(of(g)->world);
    lt_mem_free(g);
}

static const lt_group_calls calls = {.split = split,
                                     .close = close_group,
                                     .all_gather = all_gather,
                                     .reduce_scatter = reduce_scatter,
                                     .all_reduce = all_reduce,
                                     .broadcast = broadcast,
                                     .hand = hand,
                                     .barrier = barrier};

// The world comes first, and is the largest.
static lt_status want_scratch(lt_mpi *m, int32_t size)
{
    enum { ROOM = 16 << 20, LEAST = 1024 /* elements from each rank */ };
    const size_t least = (size_t)size * LEAST * sizeof(double);
    void *memory = NULL;
    if (m->scratch)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, (size_t)size * sizeof(void *), "sums over ranks"));
    m->source = memory;
    m->scratch_bytes = least > ROOM ? least : ROOM;
    return lt_mem_alloc(&m->scratch, m->scratch_bytes, "sums over ranks");
}

lt_status lt_mpi_group_create(lt_mpi *m, int32_t *world, int32_t size, int32_t rank, int32_t id,
                              lt_group **out)
{
    void *memory = NULL;
    lt_status st = want_scratch(m, size);
    if (st == LT_OK)
        st = lt_mem_alloc(&memory, sizeof(lt_mpi_group), "group of ranks");
    if (st != LT_OK) {
        lt_mem_free(world);
        return st;
    }
    *(lt_mpi_group *)memory =
        (lt_mpi_group){{.calls = &calls, .size = size, .rank = rank}, m, id, world};
    *out = memory;
    return LT_OK;
}
