// SPDX-License-Identifier: Apache-2.0
// Greedy packing by size: within a few per cent of the lower bound on transformer blocks, and
// simple to reason about.
#include "graph/pack.h"

#include "base/memory.h"

#include <stdlib.h>

typedef struct entry {
    lt_pack_item *item;
    int64_t position;
} entry;

static int by_size(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    if (a->item->bytes != b->item->bytes)
        return a->item->bytes > b->item->bytes ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static bool alive_together(const lt_pack_item *a, const lt_pack_item *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

// `placed` is sorted by offset; the first gap that is large enough.
static int64_t lowest_gap(entry *const placed, int64_t n, const lt_pack_item *item)
{
    int64_t offset = 0;
    for (int64_t i = 0; i < n; i++) {
        const lt_pack_item *p = placed[i].item;
        if (p->bytes == 0 || !alive_together(p, item))
            continue;
        if (p->offset >= offset + item->bytes)
            break;
        offset = lt_max_i64(offset, lt_round_up(p->offset + p->bytes, LT_ALIGN));
    }
    return offset;
}

static void insert_by_offset(entry *placed, int64_t n, entry e)
{
    int64_t i = n;
    for (; i > 0 && placed[i - 1].item->offset > e.item->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = e;
}

lt_status lt_pack(lt_pack_item *items, int64_t n, int64_t *peak)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * 2 * sizeof(entry), "packing"));
    entry *order = memory, *placed = order + n;
    for (int64_t i = 0; i < n; i++)
        order[i] = (entry){&items[i], i};
    qsort(order, (size_t)n, sizeof *order, by_size);
    int64_t top = 0;
    for (int64_t i = 0; i < n; i++) {
        lt_pack_item *item = order[i].item;
        item->offset = item->bytes == 0 ? 0 : lowest_gap(placed, i, item);
        insert_by_offset(placed, i, order[i]);
        top = lt_max_i64(top, item->offset + lt_round_up(item->bytes, LT_ALIGN));
    }
    lt_mem_free(memory);
    *peak = top;
    return LT_OK;
}
