// SPDX-License-Identifier: Apache-2.0
// Arenas: a list of chunks that grow, handed out from the front, freed together.
#include "base/asan.h"
#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20, ALIGN = 16 };

typedef struct chunk {
    struct chunk *next;
    size_t cap, used;
    size_t dirty; // bytes from here on were never handed out and are still zero
    char *bytes;
} chunk;

struct lt_arena {
    chunk *first, *now;
    size_t used, next_cap;
    char name[64];
};

lt_status lt_arena_create(lt_arena **out, const char *name)
{
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, sizeof(lt_arena), name));
    lt_arena *arena = ptr;
    arena->next_cap = FIRST_CHUNK;
    snprintf(arena->name, sizeof arena->name, "%s", name);
    *out = arena;
    return LT_OK;
}

static void free_chunk(chunk *c)
{
    LT_UNPOISON(c->bytes, c->cap);
    lt_mem_free(c);
}

void lt_arena_destroy(lt_arena *arena)
{
    if (!arena)
        return;
    for (chunk *c = arena->first, *next; c; c = next) {
        next = c->next;
        free_chunk(c);
    }
    lt_mem_free(arena);
}

void lt_arena_reset(lt_arena *arena)
{
    for (chunk *c = arena->first; c; c = c->next) {
        c->used = 0;
        LT_POISON(c->bytes, c->cap);
    }
    arena->now = arena->first;
    arena->used = 0;
}

// A chunk with room for `bytes` becomes the present one: the next kept one that is large enough, or
// a new one.
static lt_status next_chunk(lt_arena *arena, size_t bytes)
{
    while (arena->now && arena->now->next) {
        arena->now = arena->now->next;
        if (arena->now->cap - arena->now->used >= bytes)
            return LT_OK;
    }
    const size_t cap = bytes > arena->next_cap ? bytes : arena->next_cap;
    if (arena->next_cap < LARGEST_CHUNK)
        arena->next_cap *= 2;
    const size_t head = 64; // a chunk's bytes start on a cache line
    _Static_assert(sizeof(chunk) <= 64, "the chunk's head fits a cache line");
    if (cap > PTRDIFF_MAX - head)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes", arena->name, bytes);
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, cap + head, arena->name));
    chunk *c = ptr;
    c->cap = cap;
    c->bytes = (char *)ptr + head;
    LT_POISON(c->bytes, c->cap);
    if (arena->now)
        arena->now->next = c;
    else
        arena->first = c;
    arena->now = c;
    return LT_OK;
}

lt_status lt_arena_take(lt_arena *arena, size_t bytes, void **out)
{
    if (bytes > PTRDIFF_MAX / 2)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes", arena->name, bytes);
    const size_t need = (bytes + (bytes == 0) + ALIGN - 1) / ALIGN * ALIGN + LT_ASAN_GUARD;
    if (!arena->now || arena->now->cap - arena->now->used < need)
        LT_TRY(next_chunk(arena, need));
    chunk *c = arena->now;
    char *ptr = c->bytes + c->used;
    LT_UNPOISON(ptr, bytes);
    if (c->dirty > c->used) {
        const size_t old = c->dirty - c->used;
        memset(ptr, 0, old < bytes ? old : bytes);
    }
    c->used += need;
    if (c->used > c->dirty)
        c->dirty = c->used;
    arena->used += need;
    *out = ptr;
    return LT_OK;
}

lt_status lt_arena_text(lt_arena *arena, const char *text, size_t len, char **out)
{
    if (len == SIZE_MAX)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes", arena->name, len);
    void *ptr;
    LT_TRY(lt_arena_take(arena, len + 1, &ptr));
    if (len > 0)
        memcpy(ptr, text, len);
    *out = ptr;
    return LT_OK;
}

lt_status lt_arena_printf(lt_arena *arena, char **out, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    void *ptr = NULL;
    lt_status st = len < 0 ? LT_FAIL(LT_ERR_INTERNAL, "the format %s cannot be printed", fmt)
                           : lt_arena_take(arena, (size_t)len + 1, &ptr);
    if (st == LT_OK) {
        vsnprintf(ptr, (size_t)len + 1, fmt, again);
        *out = ptr;
    }
    va_end(again);
    return st;
}

size_t lt_arena_used(const lt_arena *arena)
{
    return arena->used;
}
