// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: a hash table of pairs, plain search for short pieces, a heap over a linked
// list for long ones.
#include "data/tokenizer/bpe.h"
#include <string.h>

enum {
    SHORT = 40,      // symbols up to which searching all pairs beats the heap
    CACHE_TEXT = 22, // bytes and
    CACHE_IDS = 10,  // ids of a piece that the cache can hold: an entry is one cache line
    CACHE_SIZE = 1 << 13,
    NO_RANK = INT32_MAX
};

typedef struct merge {
    uint64_t pair; // left id, right id; NO_PAIR: free
    int32_t rank, merged;
} merge;
#define NO_PAIR UINT64_MAX

struct lt_bpe {
    int32_t byte_id[256];
    merge *slots;
    uint64_t mask;
    int shift;
};

typedef struct cached {
    uint8_t len, n; // len 0: free
    char text[CACHE_TEXT];
    int32_t ids[CACHE_IDS];
} cached;

typedef struct symbol {
    int32_t id, prev, next; // id -1: swallowed by its left neighbour
} symbol;

typedef struct candidate {
    int32_t rank, at, left, right, merged;
} candidate;

struct lt_bpe_scratch {
    cached *cache; // [CACHE_SIZE]
    lt_vec symbols, heap;
};

lt_status lt_bpe_create(const int32_t *byte_id, int64_t n_merges, lt_bpe **out)
{
    int bits = 6;
    while (((int64_t)1 << bits) < 3 * n_merges)
        bits++;
    void *memory = NULL, *slots = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_bpe), "the merge table"));
    const lt_status st = lt_mem_alloc(&slots, sizeof(merge) << bits, "the merge table");
    if (st != LT_OK) {
        lt_mem_free(memory);
        return st;
    }
    lt_bpe *bpe = memory;
    memcpy(bpe->byte_id, byte_id, sizeof bpe->byte_id);
    bpe->slots = slots;
    bpe->mask = ((uint64_t)1 << bits) - 1;
    bpe->shift = 64 - bits;
    for (uint64_t i = 0; i <= bpe->mask; i++)
        bpe->slots[i].pair = NO_PAIR;
    *out = bpe;
    return LT_OK;
}

void lt_bpe_destroy(lt_bpe *bpe)
{
    if (bpe)
        lt_mem_free(bpe->slots);
    lt_mem_free(bpe);
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15U;
    return x ^ x >> 29;
}

static merge *slot_of(const lt_bpe *bpe, uint64_t pair)
{
    uint64_t i = (mix(pair) * 0xBF58476D1CE4E5B9U) >> bpe->shift;
    while (bpe->slots[i].pair != pair && bpe->slots[i].pair != NO_PAIR)
        i = (i + 1) & bpe->mask;
    return &bpe->slots[i];
}

void lt_bpe_put(lt_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    merge *m = slot_of(bpe, pair_of(left, right));
    *m = (merge){pair_of(left, right), rank, merged};
}

static int32_t rank_of(const lt_bpe *bpe, int32_t left, int32_t right, int32_t *merged)
{
    const merge *m = slot_of(bpe, pair_of(left, right));
    if (m->pair == NO_PAIR)
        return NO_RANK;
    *merged = m->merged;
    return m->rank;
}

lt_status lt_bpe_scratch_create(lt_bpe_scratch **out)
{
    void *memory = NULL, *cache = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_bpe_scratch), "the merge scratch"));
    const lt_status st = lt_mem_alloc(&cache, sizeof(cached) * CACHE_SIZE, "the cache of pieces");
    if (st != LT_OK) {
        lt_mem_free(memory);
        return st;
    }
    lt_bpe_scratch *s = memory;
    *s = (lt_bpe_scratch){cache, LT_VEC_OF(symbol), LT_VEC_OF(candidate)};
    *out = s;
    return LT_OK;
}

void lt_bpe_scratch_destroy(lt_bpe_scratch *s)
{
    if (!s)
        return;
    lt_mem_free(s->cache);
    lt_vec_deinit(&s->symbols);
    lt_vec_deinit(&s->heap);
    lt_mem_free(s);
}

// In place over at most SHORT ids; rank[i] and merged[i] belong to the pair (i, i + 1). Returns how
// many are left.
static int merge_short(const lt_bpe *bpe, int32_t *id, int n)
{
    int32_t rank[SHORT], merged[SHORT];
    for (int i = 0; i + 1 < n; i++)
        rank[i] = rank_of(bpe, id[i], id[i + 1], &merged[i]);
    while (n > 1) {
        int best = 0;
        for (int i = 1; i + 1 < n; i++)
            best = rank[i] < rank[best] ? i : best;
        if (rank[best] == NO_RANK)
            break;
        id[best] = merged[best];
        const size_t behind = (size_t)(n - best - 2);
        memmove(id + best + 1, id + best + 2, behind * sizeof *id);
        if (behind > 0) {
            memmove(rank + best + 1, rank + best + 2, (behind - 1) * sizeof *rank);
            memmove(merged + best + 1, merged + best + 2, (behind - 1) * sizeof *merged);
            rank[best] = rank_of(bpe, id[best], id[best + 1], &merged[best]);
        }
        n--;
        if (best > 0)
            rank[best - 1] = rank_of(bpe, id[best - 1], id[best], &merged[best - 1]);
    }
    return n;
}

static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static lt_status heap_push(lt_vec *heap, const candidate *c)
{
    LT_TRY(lt_vec_push(heap, c));
    candidate *h = heap->data;
    int64_t i = heap->n - 1;
    while (i > 0 && before(c, &h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = *c;
    return LT_OK;
}

static candidate heap_pop(lt_vec *heap)
{
    candidate *h = heap->data;
    const candidate top = h[0], last = h[heap->n - 1];
    const int64_t n = --heap->n;
    int64_t i = 0;
    for (int64_t below = 1; below < n; below = 2 * i + 1) {
        if (below + 1 < n && before(&h[below + 1], &h[below]))
            below++;
        if (!before(&h[below], &last))
            break;
        h[i] = h[below];
        i = below;
    }
    if (n > 0)
        h[i] = last;
    return top;
}

static lt_status push_pair(const lt_bpe *bpe, lt_bpe_scratch *s, int32_t at)
{
    const symbol *sym = s->symbols.data;
    if (at < 0 || sym[at].next < 0)
        return LT_OK;
    candidate c = {.at = at, .left = sym[at].id, .right = sym[sym[at].next].id};
    c.rank = rank_of(bpe, c.left, c.right, &c.merged);
    return c.rank == NO_RANK ? LT_OK : heap_push(&s->heap, &c);
}

static lt_status merge_long(const lt_bpe *bpe, lt_bpe_scratch *s, const char *piece, size_t len,
                            lt_vec *ids)
{
    lt_vec_clear(&s->heap);
    LT_TRY(lt_vec_resize(&s->symbols, (int64_t)len));
    symbol *sym = s->symbols.data;
    const int32_t n = lt_int((int64_t)len);
    for (int32_t i = 0; i < n; i++)
        sym[i] = (symbol){bpe->byte_id[(uint8_t)piece[i]], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < n; i++)
        LT_TRY(push_pair(bpe, s, i));
    while (s->heap.n > 0) {
        const candidate c = heap_pop(&s->heap);
        const int32_t next = sym[c.at].next;
        if (sym[c.at].id != c.left || next < 0 || sym[next].id != c.right)
            continue; // one of the two has been merged meanwhile
        sym[c.at].id = c.merged;
        sym[c.at].next = sym[next].next;
        if (sym[next].next >= 0)
            sym[sym[next].next].prev = c.at;
        sym[next].id = -1;
        LT_TRY(push_pair(bpe, s, c.at));
        LT_TRY(push_pair(bpe, s, sym[c.at].prev));
    }
    for (int32_t i = 0; i >= 0; i = sym[i].next)
        LT_TRY(lt_vec_push(ids, &sym[i].id));
    return LT_OK;
}

static cached *cache_slot(const lt_bpe_scratch *s, const char *piece, size_t len)
{
    uint64_t word[3] = {0, 0, len};
    memcpy(word, piece, len < 16 ? len : 16);
    if (len > 16) {
        uint64_t tail = 0;
        memcpy(&tail, piece + 16, len - 16);
        word[2] ^= tail << 8;
    }
    const uint64_t h = mix(mix(mix(word[0]) + word[1]) + word[2]) * 0x94D049BB133111EBU;
    return &s->cache[h >> 51]; // CACHE_SIZE is 2^13
}

lt_status lt_bpe_encode(const lt_bpe *bpe, lt_bpe_scratch *s, const char *piece, size_t len,
                        lt_vec *ids)
{
    if (len > SHORT)
        return merge_long(bpe, s, piece, len, ids);
    cached *hit = NULL;
    if (len <= CACHE_TEXT && len > 1) {
        hit = cache_slot(s, piece, len);
        if (hit->len == len && memcmp(hit->text, piece, len) == 0)
            return lt_vec_append(ids, hit->ids, hit->n);
    }
    int32_t id[SHORT];
    for (size_t i = 0; i < len; i++)
        id[i] = bpe->byte_id[(uint8_t)piece[i]];
    const int n = merge_short(bpe, id, (int)len);
    if (hit && n <= CACHE_IDS) {
        hit->len = (uint8_t)len;
        hit->n = (uint8_t)n;
        memcpy(hit->text, piece, len);
        memcpy(hit->ids, id, (size_t)n * sizeof *id);
    }
    return lt_vec_append(ids, id, n);
}
