// SPDX-License-Identifier: Apache-2.0
// The greedy packer, with a search that does not slow down as lengths are taken away.
#include "data/pack.h"

#include <stdlib.h>

typedef struct entry {
    int64_t length, index;
} entry;

typedef struct packer {
    entry *sorted; // [n] by length, then by index
    int64_t *free; // [n + 1] free[i]: the nearest entry at or below i - 1 that is not taken, plus 1
    int64_t n;
} packer;

static int by_length(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/** How many of the sorted lengths are at most `room`. */
static int64_t count_fitting(const packer *p, int64_t room)
{
    int64_t low = 0, high = p->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (p->sorted[middle].length <= room)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/** The nearest place at or below i that is free, halving paths on the way; 0: none. */
static int64_t find_free(packer *p, int64_t i)
{
    while (p->free[i] != i) {
        p->free[i] = p->free[p->free[i]];
        i = p->free[i];
    }
    return i;
}

static lt_status set_up(packer *p, const int64_t *lengths, int64_t capacity, lt_arena *arena,
                        lt_bins *out)
{
    void *memory = NULL;
    const size_t n = (size_t)p->n;
    LT_TRY(lt_arena_take(arena, n * sizeof(entry), &memory));
    p->sorted = memory;
    LT_TRY(lt_arena_take(arena, (n + 1) * sizeof(int64_t), &memory));
    p->free = memory;
    LT_TRY(lt_arena_take(arena, (n + 1) * sizeof(int64_t), &memory));
    out->first = memory;
    LT_TRY(lt_arena_take(arena, n * sizeof(int64_t), &memory));
    out->items = memory;
    for (int64_t i = 0; i < p->n; i++) {
        if (lengths[i] < 1 || lengths[i] > capacity)
            return LT_FAIL(LT_ERR_DATA, "a sample of %lld tokens cannot be packed into %lld",
                           (long long)lengths[i], (long long)capacity);
        p->sorted[i] = (entry){lengths[i], i};
    }
    for (int64_t i = 0; i <= p->n; i++)
        p->free[i] = i;
    qsort(p->sorted, n, sizeof(entry), by_length);
    return LT_OK;
}

lt_status lt_pack_bins(const int64_t *lengths, int64_t n, int64_t capacity, lt_arena *arena,
                       lt_bins *out)
{
    packer p = {.n = n};
    *out = (lt_bins){0};
    LT_TRY(set_up(&p, lengths, capacity, arena, out));
    while (out->n_items < n) {
        int64_t room = capacity;
        out->first[out->n++] = out->n_items;
        for (;;) {
            const int64_t at = find_free(&p, count_fitting(&p, room));
            if (at == 0)
                break;
            const entry *e = &p.sorted[at - 1];
            out->items[out->n_items++] = e->index;
            room -= e->length;
            p.free[at] = at - 1;
        }
    }
    out->first[out->n] = out->n_items;
    return LT_OK;
}

int64_t lt_pack_share(int64_t n, int64_t shares, int64_t share)
{
    return share * (n / shares) + lt_min_i64(share, n % shares);
}
