// SPDX-License-Identifier: Apache-2.0
// Reading and writing the state from the host: pieces are converted on all threads, and copied
// while the next is converted.
#include "exec/exec_impl.h"

enum { PART = 1 << 16 }; /* elements that one thread converts at a time */

// A piece of a part on its way. In a lane all of one array lies together: values, or high and low
// halves one behind the other. Without queues the state itself is within reach.
typedef struct piece {
    lt_exec *e;
    lt_tensor t, low; /* low.data NULL: not split */
    int64_t first, n;
    lt_dtype as;
    unsigned char *host; /* the caller's, of `as` */
    unsigned char *at;   /* values, or high halves, that the host can reach */
    int16_t *low_at;
    lt_lane *lane; /* NULL: `at` is the state */
    bool low_near; /* remainders lie on the host, whatever values do */
    bool near;     /* the part lies on the host */
    bool write;
} piece;

static void convert_split(const piece *p, unsigned char *host, int64_t from, int64_t n)
{
    enum { FEW = 1024 };
    float value[FEW];
    for (int64_t i = 0; i < n; i += FEW) {
        const int64_t few = lt_min_i64(FEW, n - i);
        unsigned char *at = host + (size_t)i * lt_dtype_bytes(p->as);
        uint16_t *hi = (uint16_t *)(void *)p->at + from + i;
        int16_t *lo = p->low_at + from + i;
        if (p->write)
            lt_convert(value, LT_F32, at, p->as, few);
        for (int64_t k = 0; k < few; k++) {
            if (p->write)
                lt_split_f32(value[k], &hi[k], &lo[k]);
            else
                value[k] = lt_join_f32(hi[k], lo[k]);
        }
        if (!p->write)
            lt_convert(at, p->as, value, LT_F32, few);
    }
}

static lt_status convert_part(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const piece *p = ctx;
    const int64_t from = i * PART, n = lt_min_i64(PART, p->n - from);
    unsigned char *host = p->host + (size_t)from * lt_dtype_bytes(p->as),
                  *at = p->at + (size_t)from * lt_dtype_bytes(p->t.dtype);
    if (p->low.data)
        convert_split(p, host, from, n);
    else if (p->write)
        lt_convert(at, p->t.dtype, host, p->as, n);
    else
        lt_convert(host, p->as, at, p->t.dtype, n);
    return LT_OK;
}

static lt_status convert(piece *p)
{
    return lt_pool_run(p->e->o.device->pool, lt_ceil_div(p->n, PART), convert_part, p);
}

static lt_status copy_array(const piece *p, const lt_tensor *t, void *lane)
{
    lt_device *d = p->e->o.device;
    lt_stream *s = p->e->stream[LT_QUEUE_COMPUTE];
    const size_t size = lt_dtype_bytes(t->dtype), bytes = (size_t)p->n * size;
    unsigned char *at = (unsigned char *)t->data + (size_t)p->first * size;
    return p->write ? d->copy(d, s, at, lane, bytes, LT_COPY_HOST_TO_DEVICE)
                    : d->copy(d, s, lane, at, bytes, LT_COPY_DEVICE_TO_HOST);
}

// Queue the copy of a piece.
static lt_status copy(piece *p)
{
    lt_exec *e = p->e;
    if (!p->lane)
        return LT_OK;
    LT_TRY(copy_array(p, &p->t, p->at));
    if (p->low.data && !p->low_near)
        LT_TRY(copy_array(p, &p->low, p->low_at));
    p->lane->in_use = true;
    return e->o.device->event_record(e->o.device, p->lane->done, e->stream[LT_QUEUE_COMPUTE]);
}

static lt_status wait_for(lt_exec *e, lt_lane *lane)
{
    if (!lane)
        return LT_OK;
    if (lane->in_use)
        LT_TRY(e->o.device->event_sync(e->o.device, lane->done));
    lane->in_use = false;
    return LT_OK;
}

static lt_status open_lanes(lt_exec *e)
{
    lt_device *d = e->o.device;
    for (int i = 0; d->queues && i < LT_N_LANES; i++) {
        void *memory = e->lane[i].memory;
        if (!memory)
            LT_TRY(d->alloc_pinned(d, LT_LANE_BYTES, "pieces of the state", &memory));
        e->lane[i].memory = memory;
        if (!e->lane[i].done)
            LT_TRY(d->event_create(d, &e->lane[i].done));
        LT_TRY(wait_for(e, &e->lane[i]));
    }
    return LT_OK;
}

void lt_lanes_free(lt_exec *e)
{
    for (int i = 0; i < LT_N_LANES; i++) {
        if (e->lane[i].done)
            e->o.device->event_destroy(e->o.device, e->lane[i].done);
        e->o.device->free_pinned(e->o.device, e->lane[i].memory);
    }
}

// Piece number i of [first, first + n).
static piece piece_at(const piece *all, int64_t i)
{
    piece p = *all;
    const int64_t from = i * LT_LANE_ELEMS;
    p.first = all->first + from;
    p.n = lt_min_i64(LT_LANE_ELEMS, all->n - from);
    p.host = all->host + (size_t)from * lt_dtype_bytes(all->as);
    if (all->e->o.device->queues && !all->near) {
        p.lane = &all->e->lane[i % LT_N_LANES];
        p.at = p.lane->memory;
        p.low_at = (int16_t *)(void *)p.lane->memory + LT_LANE_ELEMS;
        if (p.low.data && p.low_near)
            p.low_at = (int16_t *)p.low.data + p.first;
    } else {
        p.at = (unsigned char *)p.t.data + (size_t)p.first * lt_dtype_bytes(p.t.dtype);
        p.low_at = p.low.data ? (int16_t *)p.low.data + p.first : NULL;
    }
    return p;
}

static lt_status write_all(const piece *all, int64_t n_pieces)
{
    for (int64_t i = 0; i < n_pieces; i++) {
        piece p = piece_at(all, i);
        LT_TRY(wait_for(p.e, p.lane));
        LT_TRY(convert(&p));
        LT_TRY(copy(&p));
    }
    return LT_OK;
}

// A piece is converted while the next is on its way.
static lt_status read_all(const piece *all, int64_t n_pieces)
{
    for (int64_t i = 0; i <= n_pieces; i++) {
        if (i < n_pieces) {
            piece next = piece_at(all, i);
            LT_TRY(copy(&next));
        }
        if (i == 0)
            continue;
        piece p = piece_at(all, i - 1);
        LT_TRY(wait_for(p.e, p.lane));
        LT_TRY(convert(&p));
    }
    return LT_OK;
}

// Elements [first, first + n) of the rows that this rank has.
static lt_status move(lt_exec *e, int32_t param, lt_state_part part, int64_t first, int64_t n,
                      lt_dtype as, void *values, bool write)
{
    piece all = {.e = e,
                 .t = lt_exec_part(e, param, part),
                 .first = first,
                 .n = n,
                 .as = as,
                 .host = values,
                 .near = lt_state_on_host(e->layout->home, part),
                 .low_near = lt_state_on_host(e->layout->home, LT_STATE_LOW),
                 .write = write};
    if (part == LT_STATE_VALUE && lt_exec_has(e, param, LT_STATE_LOW))
        all.low = lt_exec_part(e, param, LT_STATE_LOW);
    LT_TRY(open_lanes(e));
    const int64_t n_pieces = lt_ceil_div(n, LT_LANE_ELEMS);
    return write ? write_all(&all, n_pieces) : read_all(&all, n_pieces);
}

static lt_status check(const lt_exec *e, int32_t param, lt_state_part part, int64_t first,
                       int64_t n)
{
    const lt_param *p = &e->o.model->params[param];
    if (!lt_exec_has(e, param, part) || part == LT_STATE_LOW)
        return LT_FAIL(LT_ERR_INTERNAL, "parameter %s has no %s in this run", p->name,
                       lt_state_part_name(part));
    LT_ASSERT(first >= 0 && n >= 0 && first + n <= p->n_elems);
    return LT_OK;
}

static lt_owned common(lt_owned a, int64_t first, int64_t n)
{
    const int64_t from = lt_max_i64(a.first, first), to = lt_min_i64(a.first + a.n, first + n);
    return (lt_owned){from, lt_max_i64(0, to - from)};
}

lt_status lt_exec_write(lt_exec *e, int32_t param, lt_state_part part, int64_t first, int64_t n,
                        lt_dtype as, const void *values)
{
    union {
        const void *in;
        unsigned char *out;
    } v = {.in = values};
    LT_TRY(check(e, param, part, first, n));
    const lt_owned mine = lt_exec_owned(e, param), some = common(mine, first, n);
    if (some.n == 0)
        return LT_OK;
    return move(e, param, part, some.first - mine.first, some.n, as,
                v.out + (size_t)(some.first - first) * lt_dtype_bytes(as), true);
}

lt_status lt_exec_read_own(lt_exec *e, int32_t param, lt_state_part part, int64_t first, int64_t n,
                           lt_dtype as, void *values)
{
    const lt_owned mine = lt_exec_owned(e, param);
    LT_TRY(check(e, param, part, first, n));
    LT_ASSERT(first >= mine.first && first + n <= mine.first + mine.n);
    return n > 0 ? move(e, param, part, first - mine.first, n, as, values, false) : LT_OK;
}

/* ---- pieces of several ranks, read by the first ---- */

// What the first rank asks the others for.
typedef struct request {
    int64_t first, n;
    int32_t param, part, as; /* param LT_NONE: no more */
} request;

static lt_group *sharers(const lt_exec *e)
{
    return lt_is_cut(lt_exec_shard(e)) ? e->o.ranks->sharers : NULL;
}

// Each owner in turn hands over what it has. values: of the request, on the first rank alone.
static lt_status answer(lt_exec *e, const request *r, unsigned char *values)
{
    const lt_param *p = &e->o.model->params[r->param];
    const size_t size = lt_dtype_bytes((lt_dtype)r->as);
    lt_shard of = lt_exec_shard(e);
    const int32_t me = of.index;
    for (of.index = 0; of.index < of.size; of.index++) {
        const lt_owned theirs = lt_shard_owned(p, of), some = common(theirs, r->first, r->n);
        void *memory = NULL;
        unsigned char *at = values ? values + (size_t)(some.first - r->first) * size : NULL;
        if (some.n == 0)
            continue;
        if (!values && me == of.index)
            LT_TRY(lt_mem_alloc(&memory, (size_t)some.n * size, "a piece of a parameter"));
        lt_status st = LT_OK;
        if (me == of.index)
            st = move(e, r->param, (lt_state_part)r->part, some.first - theirs.first, some.n,
                      (lt_dtype)r->as, memory ? memory : at, false);
        if (st == LT_OK)
            st = lt_hand(sharers(e), of.index, 0, memory ? memory : at, (size_t)some.n * size);
        lt_mem_free(memory);
        LT_TRY(st);
    }
    return LT_OK;
}

lt_status lt_exec_read(lt_exec *e, int32_t param, lt_state_part part, int64_t first, int64_t n,
                       lt_dtype as, void *values)
{
    LT_TRY(check(e, param, part, first, n));
    if (!sharers(e))
        return move(e, param, part, first, n, as, values, false);
    request r = {first, n, param, (int32_t)part, (int32_t)as};
    LT_TRY(lt_broadcast(sharers(e), 0, &r, sizeof r));
    return answer(e, &r, values);
}

lt_status lt_exec_release(lt_exec *e)
{
    request r = {.param = LT_NONE};
    return lt_broadcast(sharers(e), 0, &r, sizeof r);
}

// The ranks of other copies of the model have nothing to add.
lt_status lt_exec_serve(lt_exec *e)
{
    request r = {0};
    if (!sharers(e) || lt_group_rank(e->o.ranks->replicas) != 0)
        return LT_OK;
    for (;;) {
        LT_TRY(lt_broadcast(sharers(e), 0, &r, sizeof r));
        if (r.param == LT_NONE)
            return LT_OK;
        LT_TRY(answer(e, &r, NULL));
    }
}
