// SPDX-License-Identifier: Apache-2.0
// Offsets for things whose lifetimes are known: the planner's packing, for a block's workspace and
// for a step's pool.
#ifndef LT_GRAPH_PACK_H
#define LT_GRAPH_PACK_H

#include "base/status.h"

enum { LT_ALIGN = 256 }; /* every offset is a multiple */

typedef struct lt_pack_item {
    int64_t bytes;
    int32_t begin, end; /* alive during [begin, end], both included */
    int64_t offset;     /* the result; 0 for no bytes */
} lt_pack_item;

/**
 * Places large items first, each at the lowest offset where nothing alive at the same time lies
 * (ties by position: the result
 * is a function of the input alone). out: *peak, the bytes needed, a multiple of LT_ALIGN.
 */
LT_NODISCARD lt_status lt_pack(lt_pack_item *items, int64_t n, int64_t *peak);
#endif
