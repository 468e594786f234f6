// SPDX-License-Identifier: Apache-2.0
// What is behind a group: the calls that a kind of ranks brings, and what all kinds share.
#ifndef LT_COMM_GROUP_H
#define LT_COMM_GROUP_H

#include "comm/comm.h"

/** The calls of comm.h, for a group of more than no ranks and dtypes that have been checked. */
typedef struct lt_group_calls {
    lt_status (*split)(lt_group *g, int32_t colour, lt_group **out);
    void (*close)(lt_group *g);
    lt_status (*all_gather)(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype);
    lt_status (*reduce_scatter)(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype);
    lt_status (*all_reduce)(lt_group *g, const lt_pieces *parts, int64_t n, lt_dtype dtype);
    lt_status (*broadcast)(lt_group *g, int32_t from, void *data, size_t bytes);
    lt_status (*hand)(lt_group *g, int32_t from, int32_t to, void *data, size_t bytes);
    lt_status (*barrier)(lt_group *g);
} lt_group_calls;

/** The beginning of every kind's own struct. */
struct lt_group {
    const lt_group_calls *calls;
    int32_t size, rank;
    char name[128]; /* this and the next: of the group of all ranks */
    lt_sharing sharing;
};

/**
 * out[i] = sum over ranks of source[rank][i], in the order that lt_reduce_scatter promises. out may
 * be one of the sources.
 */
enum { LT_SUM_BLOCK = 512 };
void lt_sum_in_order(const void *const *source, int32_t ranks, int64_t n, lt_dtype dtype,
                     void *out);
#endif
