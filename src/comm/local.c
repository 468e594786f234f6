// SPDX-License-Identifier: Apache-2.0
// Collectives between threads: each rank offers its memory, all meet, each takes what it needs from
// the others, all meet again.
#include "comm/local.h"

#include "base/memory.h"
#include "comm/group.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NOBODY = -1 };

// What a rank brings to a collective.
typedef struct offer {
    const char *call;
    const void *data; /* lt_pieces *, or bytes */
    int64_t n;        /* parts, or bytes */
    int32_t detail;   /* dtype, root or colour */
} offer;

// What all threads of a run share. One lock for all groups: collectives are rare and short.
typedef struct hub {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int32_t n_ranks;
    int32_t failed; /* the rank that ended the run, or NOBODY */
    lt_status status;
    char message[4096];
} hub;

// What the members of a group share.
typedef struct circle {
    hub *hub;
    int32_t size, holders;
    int32_t arrived;
    int64_t meeting;
    struct circle *born; /* of a split, on its way from the member that makes it */
    offer offers[LT_MAX_LOCAL_RANKS];
    int32_t rank[LT_MAX_LOCAL_RANKS]; /* in the world, for messages */
} circle;

// A thread's hold on it.
typedef struct member {
    lt_group base;
    circle *c;
} member;

static circle *circle_of(const lt_group *g)
{
    return ((const member *)g)->c;
}

static const lt_group_calls calls;

// All members come here. sure: they all will, since all have come to the meeting before, and a
// failure elsewhere must not take memory away that others still read. Otherwise nobody is counted
// after a failure: those who waited may have left, and a meeting that counts them would let the
// last one through alone.
static lt_status meet(const lt_group *g, bool sure)
{
    circle *c = circle_of(g);
    hub *h = c->hub;
    char message[sizeof h->message] = "";
    (void)pthread_mutex_lock(&h->lock);
    const int64_t meeting = c->meeting;
    if ((sure || h->failed == NOBODY) && ++c->arrived == c->size) {
        c->arrived = 0;
        c->meeting++;
        (void)pthread_cond_broadcast(&h->moved);
    }
    while (c->meeting == meeting && (sure || h->failed == NOBODY))
        (void)pthread_cond_wait(&h->moved, &h->lock);
    const int32_t failed = c->meeting == meeting ? h->failed : NOBODY;
    if (failed != NOBODY)
        (void)snprintf(message, sizeof message, "%s", h->message);
    (void)pthread_mutex_unlock(&h->lock);
    return failed == NOBODY ? LT_OK
                            : LT_FAIL(LT_ERR_CANCELLED, "rank %d has failed: %s", failed, message);
}

// A rank's failure ends the run. The cause stays, not what follows from it.
static void fail_all(hub *h, int32_t rank, lt_status st)
{
    (void)pthread_mutex_lock(&h->lock);
    if (h->failed == NOBODY || (h->status == LT_ERR_CANCELLED && st != LT_ERR_CANCELLED)) {
        h->failed = rank;
        h->status = st;
        (void)snprintf(h->message, sizeof h->message, "%s", lt_error_message());
    }
    (void)pthread_cond_broadcast(&h->moved);
    (void)pthread_mutex_unlock(&h->lock);
}

// All members have come with the same call, and see each other's offers until the next meeting.
static lt_status begin(const lt_group *g, offer mine)
{
    circle *c = circle_of(g);
    c->offers[g->rank] = mine;
    LT_TRY(meet(g, false));
    for (int32_t i = 1; i < c->size; i++) {
        const offer a = c->offers[0], b = c->offers[i];
        if (strcmp(a.call, b.call) == 0 && a.n == b.n && a.detail == b.detail)
            continue;
        LT_TRY(meet(g, true)); // all see it
        return LT_FAIL(LT_ERR_INTERNAL,
                       "rank %d issues %s (%lld, %d) where rank %d issues %s (%lld, %d)",
                       c->rank[i], b.call, (long long)b.n, b.detail, c->rank[0], a.call,
                       (long long)a.n, a.detail);
    }
    return LT_OK;
}

static lt_status end(const lt_group *g)
{
    return meet(g, true);
}

static lt_status barrier(lt_group *g)
{
    LT_TRY(begin(g, (offer){.call = "barrier"}));
    return end(g);
}

/* ---- groups ---- */

static lt_status circle_create(hub *h, int32_t size, circle **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(circle), "group of ranks"));
    circle *c = memory;
    c->hub = h;
    c->size = c->holders = size;
    *out = c;
    return LT_OK;
}

static lt_status hold(circle *c, int32_t rank, int32_t world_rank, lt_group **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(member), "group of ranks"));
    c->rank[rank] = world_rank;
    *(member *)memory = (member){{.calls = &calls, .size = c->size, .rank = rank}, c};
    *out = memory;
    return LT_OK;
}

static lt_status split(lt_group *g, int32_t colour, lt_group **out)
{
    circle *c = circle_of(g), *mine = NULL;
    c->offers[g->rank] = (offer){.call = "split", .detail = colour};
    LT_TRY(meet(g, false));
    int32_t first = NOBODY, size = 0, rank = 0;
    for (int32_t i = 0; i < c->size; i++) {
        if (c->offers[i].detail != colour)
            continue;
        first = first == NOBODY ? i : first;
        rank += i < g->rank;
        size++;
    }
    if (first == g->rank)
        LT_TRY(circle_create(c->hub, size, &mine));
    LT_TRY(meet(g, false)); // colours have been read
    if (first == g->rank)
        c->offers[g->rank].data = mine;
    LT_TRY(meet(g, false));
    union {
        const void *in;
        void *out;
    } made = {.in = c->offers[first].data};
    LT_TRY(hold(made.out, rank, c->rank[g->rank], out));
    return meet(g, false);
}

static void close_group(lt_group *g)
{
    circle *c = circle_of(g);
    (void)pthread_mutex_lock(&c->hub->lock);
    const bool last = --c->holders == 0;
    (void)pthread_mutex_unlock(&c->hub->lock);
    if (last)
        lt_mem_free(c);
    lt_mem_free(g);
}

/* ---- sums ---- */

// This rank's pieces of all parts. chunk 0: the parts' own.
static void sum_mine(const lt_group *g, const lt_pieces *parts, int64_t n, bool even,
                     lt_dtype dtype)
{
    const circle *c = circle_of(g);
    const void *source[LT_MAX_LOCAL_RANKS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t chunk = even ? lt_ceil_div(parts[i].total, g->size) : parts[i].chunk;
        const lt_piece_range mine = lt_piece_of(&parts[i], chunk, g->rank);
        const size_t at = (size_t)mine.first * lt_dtype_bytes(dtype);
        for (int32_t r = 0; r < g->size; r++) {
            const lt_pieces *theirs = (const lt_pieces *)c->offers[r].data + i;
            source[r] = (const unsigned char *)theirs->full + at;
        }
        lt_sum_in_order(source, g->size, mine.n, dtype, (unsigned char *)parts[i].full + at);
    }
}

static lt_status reduce_scatter(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(g, (offer){"reduce-scatter", parts, n, (int32_t)dtype}));
    sum_mine(g, parts, n, false, dtype); // nobody else reads what this writes
    return end(g);
}

static void copy_piece(const lt_pieces *to, const void *from, lt_piece_range r, lt_dtype dtype)
{
    const size_t size = lt_dtype_bytes(dtype);
    if (r.n > 0)
        memcpy((unsigned char *)to->full + (size_t)r.first * size, from, (size_t)r.n * size);
}

static lt_status all_reduce(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(g, (offer){"all-reduce", parts, n, (int32_t)dtype}));
    sum_mine(g, parts, n, true, dtype);
    LT_TRY(end(g));
    for (int32_t r = 0; r < g->size; r++) {
        const lt_pieces *theirs = circle_of(g)->offers[r].data;
        for (int64_t i = 0; r != g->rank && i < n; i++) {
            const lt_piece_range piece =
                lt_piece_of(&parts[i], lt_ceil_div(parts[i].total, g->size), r);
            copy_piece(&parts[i],
                       (const unsigned char *)theirs[i].full +
                           (size_t)piece.first * lt_dtype_bytes(dtype),
                       piece, dtype);
        }
    }
    return end(g);
}

/* ---- copies ---- */

static lt_status all_gather(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_TRY(begin(g, (offer){"all-gather", parts, n, (int32_t)dtype}));
    for (int32_t r = 0; r < g->size; r++) {
        const lt_pieces *theirs = circle_of(g)->offers[r].data;
        for (int64_t i = 0; i < n; i++)
            copy_piece(&parts[i], theirs[i].shard, lt_piece_of(&parts[i], parts[i].chunk, r),
                       dtype);
    }
    return end(g);
}

static lt_status broadcast(lt_group *g, int32_t from, void *data, size_t bytes)
{
    LT_TRY(begin(g, (offer){"broadcast", data, (int64_t)bytes, from}));
    if (g->rank != from && bytes > 0)
        memcpy(data, circle_of(g)->offers[from].data, bytes);
    return end(g);
}

static lt_status hand(lt_group *g, int32_t from, int32_t to, void *data, size_t bytes)
{
    LT_TRY(begin(g, (offer){"hand", data, (int64_t)bytes, from * LT_MAX_LOCAL_RANKS + to}));
    if (g->rank == to && bytes > 0)
        memcpy(data, circle_of(g)->offers[from].data, bytes);
    return end(g);
}

static const lt_group_calls calls = {.split = split,
                                     .close = close_group,
                                     .all_gather = all_gather,
                                     .reduce_scatter = reduce_scatter,
                                     .all_reduce = all_reduce,
                                     .broadcast = broadcast,
                                     .hand = hand,
                                     .barrier = barrier};

/* ---- running ---- */

typedef struct runner {
    lt_group *world;
    lt_rank_fn fn;
    void *ctx;
    pthread_t thread;
    bool started;
} runner;

static void *run_rank(void *arg)
{
    const runner *r = arg;
    const lt_status st = r->fn(r->ctx, r->world);
    if (st != LT_OK)
        fail_all(circle_of(r->world)->hub, r->world->rank, st);
    return NULL;
}

static lt_status start(hub *h, runner *all, int32_t n, circle *world)
{
    for (int32_t i = 0; i < n; i++) {
        LT_TRY(hold(world, i, i, &all[i].world));
        (void)snprintf(all[i].world->name, sizeof all[i].world->name, "rank %d of %d", i, n);
        all[i].world->sharing = (lt_sharing){n, n};
    }
    for (int32_t i = 0; i < n; i++) {
        const int err = pthread_create(&all[i].thread, NULL, run_rank, &all[i]);
        if (err != 0) {
            const lt_status st = LT_FAIL(LT_ERR_MEMORY, "rank %d of %d cannot be started: %s", i, n,
                                         lt_errno_text(err));
            fail_all(h, i, st);
            return st;
        }
        all[i].started = true;
    }
    return LT_OK;
}

static lt_status run_all(hub *h, runner *all, int32_t n)
{
    circle *world = NULL;
    LT_TRY(circle_create(h, n, &world));
    lt_status st = start(h, all, n, world);
    for (int32_t i = 0; i < n; i++)
        if (all[i].started)
            (void)pthread_join(all[i].thread, NULL);
    for (int32_t i = 0; i < n; i++)
        lt_mem_free(all[i].world);
    lt_mem_free(world);
    if (h->failed != NOBODY && st == LT_OK)
        st = LT_FAIL(h->status, "rank %d of %d: %s", h->failed, n, h->message);
    return st;
}

lt_status lt_local_run(int32_t n, lt_rank_fn fn, void *ctx)
{
    void *memory = NULL;
    if (n < 1 || n > LT_MAX_LOCAL_RANKS)
        return LT_FAIL(LT_ERR_CONFIG, "%d ranks were asked for; 1 to %d can be run here", n,
                       (int)LT_MAX_LOCAL_RANKS);
    LT_TRY(lt_mem_alloc(&memory, sizeof(hub) + (size_t)n * sizeof(runner), "ranks"));
    hub *h = memory;
    runner *all = (runner *)(h + 1);
    h->n_ranks = n;
    h->failed = NOBODY;
    for (int32_t i = 0; i < n; i++) {
        all[i].fn = fn;
        all[i].ctx = ctx;
    }
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->moved, NULL);
    const lt_status st = run_all(h, all, n);
    (void)pthread_cond_destroy(&h->moved);
    (void)pthread_mutex_destroy(&h->lock);
    lt_mem_free(memory);
    return st;
}
