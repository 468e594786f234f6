// SPDX-License-Identifier: Apache-2.0
// The calls of comm.h, on whatever kind of ranks a group has; sums in their fixed order.
#include "comm/group.h"

#include <string.h>

int32_t lt_group_size(const lt_group *g)
{
    return g ? g->size : 1;
}

int32_t lt_group_rank(const lt_group *g)
{
    return g ? g->rank : 0;
}

const char *lt_group_name(const lt_group *g)
{
    return g ? g->name : "the only rank";
}

lt_sharing lt_group_sharing(const lt_group *g)
{
    return g ? g->sharing : (lt_sharing){1, 1};
}

lt_status lt_group_split(lt_group *g, int32_t colour, lt_group **out)
{
    *out = NULL;
    LT_ASSERT(colour >= 0);
    return g ? g->calls->split(g, colour, out) : LT_OK;
}

void lt_group_close(lt_group *g)
{
    if (g)
        g->calls->close(g);
}

lt_status lt_all_gather(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    return g ? g->calls->all_gather(g, parts, n, dtype) : LT_OK;
}

lt_status lt_reduce_scatter(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_ASSERT(dtype == LT_F32 || dtype == LT_F64);
    return g ? g->calls->reduce_scatter(g, parts, n, dtype) : LT_OK;
}

lt_status lt_all_reduce(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype)
{
    LT_ASSERT(dtype == LT_F32 || dtype == LT_F64);
    return g ? g->calls->all_reduce(g, parts, n, dtype) : LT_OK;
}

lt_status lt_all_reduce_f64(lt_group *g, double *values, int64_t n)
{
    const lt_pieces part = {.full = values, .total = n};
    return lt_all_reduce(g, &part, 1, LT_F64);
}

lt_status lt_broadcast(lt_group *g, int32_t from, void *data, size_t bytes)
{
    return g ? g->calls->broadcast(g, from, data, bytes) : LT_OK;
}

lt_status lt_hand(lt_group *g, int32_t from, int32_t to, void *data, size_t bytes)
{
    return g && from != to ? g->calls->hand(g, from, to, data, bytes) : LT_OK;
}

lt_status lt_barrier(lt_group *g)
{
    return g ? g->calls->barrier(g) : LT_OK;
}

lt_piece_range lt_piece_of(const lt_pieces *p, int64_t chunk, int32_t rank)
{
    const int64_t from = lt_min_i64(p->total, rank * chunk),
                  to = lt_min_i64(p->total, from + chunk);
    return (lt_piece_range){from, to - from};
}

/* ---- sums ---- */

enum { LEVELS = 16 }; /* 2^15 ranks */

static void add_f32(float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_f64(double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add(void *a, const void *b, int64_t n, lt_dtype dtype)
{
    if (dtype == LT_F32)
        add_f32(a, b, n);
    else
        add_f64(a, b, n);
}

// Partial sums of growing numbers of ranks, as the digits of a counter: those of equal size are
// added at once, what is left at the end from the top down.
static void sum_block(const void *const *source, int32_t ranks, size_t at, int64_t n,
                      lt_dtype dtype, void *out)
{
    double partial[LEVELS][LT_SUM_BLOCK];
    const size_t bytes = (size_t)n * lt_dtype_bytes(dtype);
    int32_t depth = 0;
    for (int32_t r = 0; r < ranks; r++) {
        memcpy(partial[depth++], (const unsigned char *)source[r] + at, bytes);
        for (int32_t count = r + 1; count % 2 == 0; count /= 2, depth--)
            add(partial[depth - 2], partial[depth - 1], n, dtype);
    }
    for (; depth > 1; depth--)
        add(partial[depth - 2], partial[depth - 1], n, dtype);
    memcpy((unsigned char *)out + at, partial[0], bytes);
}

void lt_sum_in_order(const void *const *source, int32_t ranks, int64_t n, lt_dtype dtype, void *out)
{
    for (int64_t i = 0; i < n; i += LT_SUM_BLOCK)
        sum_block(source, ranks, (size_t)i * lt_dtype_bytes(dtype), lt_min_i64(LT_SUM_BLOCK, n - i),
                  dtype, out);
}
