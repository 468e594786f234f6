// SPDX-License-Identifier: Apache-2.0
// The only place that calls malloc: named requests, arenas for lifetimes that end together,
// growable arrays.
#ifndef LT_BASE_MEMORY_H
#define LT_BASE_MEMORY_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * out      *out = zeroed memory of `bytes` (64-byte aligned, never NULL, also for 0 bytes); free
 *          with lt_mem_free
 * errors   LT_ERR_MEMORY: "out of memory: NAME wanted N bytes"
 * threads  any
 */
LT_NODISCARD lt_status lt_mem_alloc(void **out, size_t bytes, const char *name);
/** Grow or shrink; contents kept up to the smaller size, new bytes not zeroed. *ptr may be NULL. */
LT_NODISCARD lt_status lt_mem_resize(void **ptr, size_t bytes, const char *name);
void lt_mem_free(void *ptr);

/** A growing arena: everything in it ends with it. Not thread-safe. */
typedef struct lt_arena lt_arena;
LT_NODISCARD lt_status lt_arena_create(lt_arena **out, const char *name);
void lt_arena_destroy(lt_arena *arena);
/** Forget all that was taken, keep the memory. */
void lt_arena_reset(lt_arena *arena);
/** Zeroed memory from the arena, 16-byte aligned. errors: LT_ERR_MEMORY, with the arena's name */
LT_NODISCARD lt_status lt_arena_take(lt_arena *arena, size_t bytes, void **out);
/** A copy of text[0..len) with a final zero. */
LT_NODISCARD lt_status lt_arena_text(lt_arena *arena, const char *text, size_t len, char **out);
LT_NODISCARD lt_status lt_arena_printf(lt_arena *arena, char **out, const char *fmt, ...)
    LT_PRINTF(3, 4);
size_t lt_arena_used(const lt_arena *arena);

/**
 * A growable array of plain structs: `data` is cast by its owner. Start from {0} with `elem` set
 * (LT_VEC_OF).
 */
typedef struct lt_vec {
    void *data;
    int64_t n, cap;
    size_t elem;
} lt_vec;
#define LT_VEC_OF(type) ((lt_vec){.elem = sizeof(type)})
#define LT_AT(vec, type, i) (((type *)(vec)->data)[i])
/**
 * Append a copy of *item (zeros when item is NULL); *slot, when asked for, points at it until the
 * next push.
 */
LT_NODISCARD lt_status lt_vec_push(lt_vec *vec, const void *item);
LT_NODISCARD lt_status lt_vec_append(lt_vec *vec, const void *items, int64_t n);
LT_NODISCARD lt_status lt_vec_resize(lt_vec *vec, int64_t n); /* new items are zero */
void lt_vec_clear(lt_vec *vec);                               /* n = 0, memory kept */
void lt_vec_deinit(lt_vec *vec);

#ifdef __cplusplus
}
#endif
#endif
