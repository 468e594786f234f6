// SPDX-License-Identifier: Apache-2.0
// Which way tensors go between ranks, and the way through pinned host memory.
#include "comm/link.h"

#include "base/memory.h"
#include "comm/nccl.h"

#include <string.h>

struct lt_link {
    lt_device *device;
    lt_group *group;
    lt_link_kind kind;
    lt_nccl *nccl;
    unsigned char *pinned; /* through the host: a tensor, and a shard of it */
    size_t room;
};

// Whether no two members are on the same GPU. Each tells the others what it has.
static lt_status are_apart(const lt_device *d, lt_group *g, bool *out)
{
    const int32_t n = lt_group_size(g), me = lt_group_rank(g);
    unsigned char theirs[sizeof d->id];
    double twins = 0.0;
    for (int32_t r = 0; r < n; r++) {
        memcpy(theirs, d->id, sizeof theirs);
        LT_TRY(lt_broadcast(g, r, theirs, sizeof theirs));
        twins += r != me && memcmp(theirs, d->id, sizeof theirs) == 0;
    }
    LT_TRY(lt_all_reduce_f64(g, &twins, 1));
    *out = twins == 0.0;
    return LT_OK;
}

static lt_status choose(lt_link *l, bool through_host)
{
    bool apart = false;
    l->kind = through_host ? LT_LINK_THROUGH_HOST : LT_LINK_IN_PLACE;
    if (through_host || l->device->backend != LT_CUDA)
        return LT_OK;
    LT_TRY(are_apart(l->device, l->group, &apart));
    l->kind = apart ? LT_LINK_NCCL : LT_LINK_THROUGH_HOST;
    return apart ? lt_nccl_open(l->device, l->group, &l->nccl) : LT_OK;
}

lt_status lt_link_open(lt_device *d, lt_group *g, bool through_host, lt_link **out)
{
    *out = NULL;
    if (!g)
        return LT_OK;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_link), "link between ranks"));
    lt_link *l = memory;
    l->device = d;
    l->group = g;
    const lt_status st = choose(l, through_host);
    if (st != LT_OK)
        lt_link_close(l);
    else
        *out = l;
    return st;
}

void lt_link_close(lt_link *l)
{
    if (!l)
        return;
    lt_nccl_close(l->nccl);
    l->device->free_pinned(l->device, l->pinned);
    lt_mem_free(l);
}

lt_link_kind lt_link_kind_of(const lt_link *l)
{
    return l ? l->kind : LT_LINK_IN_PLACE;
}

/* ---- through the host, one tensor at a time ---- */

static lt_status want_pinned(lt_link *l, size_t bytes)
{
    void *memory = NULL;
    if (bytes <= l->room)
        return LT_OK;
    l->device->free_pinned(l->device, l->pinned);
    l->pinned = NULL;
    l->room = 0;
    LT_TRY(l->device->alloc_pinned(l->device, bytes, "tensors between ranks", &memory));
    l->pinned = memory;
    l->room = bytes;
    return LT_OK;
}

// Bytes between device and host, and the host waits for them.
static lt_status carry(const lt_link *l, lt_stream *s, void *to, const void *from, int64_t n,
                       lt_dtype dtype, lt_copy_kind kind)
{
    lt_device *d = l->device;
    if (n == 0)
        return LT_OK;
    LT_TRY(d->copy(d, s, to, from, (size_t)n * lt_dtype_bytes(dtype), kind));
    return d->stream_sync(d, s);
}

static unsigned char *element(void *at, int64_t i, lt_dtype dtype)
{
    return (unsigned char *)at + (size_t)i * lt_dtype_bytes(dtype);
}

static lt_status gather_one(lt_link *l, lt_stream *s, const lt_pieces *p, lt_dtype dtype)
{
    const lt_piece_range mine = lt_piece_of(p, p->chunk, lt_group_rank(l->group));
    LT_TRY(want_pinned(l, (size_t)(p->total + p->chunk) * lt_dtype_bytes(dtype)));
    unsigned char *shard = element(l->pinned, p->total, dtype);
    const lt_pieces host = {l->pinned, shard, p->total, p->chunk};
    LT_TRY(carry(l, s, shard, p->shard, mine.n, dtype, LT_COPY_DEVICE_TO_HOST));
    LT_TRY(lt_all_gather(l->group, &host, 1, dtype));
    return carry(l, s, p->full, l->pinned, p->total, dtype, LT_COPY_HOST_TO_DEVICE);
}

static lt_status reduce_one(lt_link *l, lt_stream *s, const lt_pieces *p, lt_dtype dtype)
{
    const lt_piece_range mine = lt_piece_of(p, p->chunk, lt_group_rank(l->group));
    LT_TRY(want_pinned(l, (size_t)p->total * lt_dtype_bytes(dtype)));
    const lt_pieces host = {l->pinned, NULL, p->total, p->chunk};
    LT_TRY(carry(l, s, l->pinned, p->full, p->total, dtype, LT_COPY_DEVICE_TO_HOST));
    LT_TRY(lt_reduce_scatter(l->group, &host, 1, dtype));
    return carry(l, s, element(p->full, mine.first, dtype), element(l->pinned, mine.first, dtype),
                 mine.n, dtype, LT_COPY_HOST_TO_DEVICE);
}

static lt_status sum_one(lt_link *l, lt_stream *s, const lt_pieces *p, lt_dtype dtype)
{
    LT_TRY(want_pinned(l, (size_t)p->total * lt_dtype_bytes(dtype)));
    const lt_pieces host = {l->pinned, NULL, p->total, p->chunk};
    LT_TRY(carry(l, s, l->pinned, p->full, p->total, dtype, LT_COPY_DEVICE_TO_HOST));
    LT_TRY(lt_all_reduce(l->group, &host, 1, dtype));
    return carry(l, s, p->full, l->pinned, p->total, dtype, LT_COPY_HOST_TO_DEVICE);
}

/* ---- the calls ---- */

lt_status lt_link_all_gather(lt_link *l, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    if (!l)
        return LT_OK;
    if (l->kind == LT_LINK_NCCL)
        return lt_nccl_all_gather(l->nccl, s, parts, n, dtype);
    if (l->kind == LT_LINK_IN_PLACE)
        return lt_all_gather(l->group, parts, n, dtype);
    for (int64_t i = 0; i < n; i++)
        LT_TRY(gather_one(l, s, &parts[i], dtype));
    return LT_OK;
}

lt_status lt_link_reduce_scatter(lt_link *l, lt_stream *s, const lt_pieces *parts, int64_t n,
                                 lt_dtype dtype)
{
    if (!l)
        return LT_OK;
    if (l->kind == LT_LINK_NCCL)
        return lt_nccl_reduce_scatter(l->nccl, s, parts, n, dtype);
    if (l->kind == LT_LINK_IN_PLACE)
        return lt_reduce_scatter(l->group, parts, n, dtype);
    for (int64_t i = 0; i < n; i++)
        LT_TRY(reduce_one(l, s, &parts[i], dtype));
    return LT_OK;
}

lt_status lt_link_all_reduce(lt_link *l, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    if (!l)
        return LT_OK;
    if (l->kind == LT_LINK_NCCL)
        return lt_nccl_all_reduce(l->nccl, s, parts, n, dtype);
    if (l->kind == LT_LINK_IN_PLACE)
        return lt_all_reduce(l->group, parts, n, dtype);
    for (int64_t i = 0; i < n; i++)
        LT_TRY(sum_one(l, s, &parts[i], dtype));
    return LT_OK;
}
