// SPDX-License-Identifier: Apache-2.0
// Named requests over the C library's heap, and growable arrays.
#include "base/memory.h"
#include "base/asan.h"
#include <stdlib.h>
#include <string.h>

// A block is [gap][header][bytes]: `raw` is what the C library gave, bytes start at the first
// multiple of ALIGN that leaves room.
enum { ALIGN = 64, EXTRA = ALIGN + ALIGN };

typedef struct header {
    void *raw;
    size_t bytes;
} header;

static lt_status out_of_memory(size_t bytes, const char *name)
{
    return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes", name, bytes);
}

static header read_header(void *ptr)
{
    header *h = (header *)ptr - 1;
    LT_UNPOISON(h, sizeof *h);
    return *h;
}

// Notes what the block is, and makes the bytes around it unaddressable for the sanitizer.
static void *dress(char *ptr, char *raw, size_t bytes)
{
    header *h = (header *)(void *)ptr - 1;
    *h = (header){raw, bytes};
    LT_POISON(h, sizeof *h);
    LT_POISON(ptr + bytes, (size_t)(raw + bytes + EXTRA - (ptr + bytes)));
    return ptr;
}

static char *first_aligned(char *raw)
{
    const uintptr_t at = (uintptr_t)raw + sizeof(header);
    return raw + sizeof(header) + (ALIGN - at % ALIGN) % ALIGN;
}

lt_status lt_mem_alloc(void **out, size_t bytes, const char *name)
{
    if (bytes > PTRDIFF_MAX - EXTRA)
        return out_of_memory(bytes, name);
    char *raw =
        calloc(1, bytes + EXTRA); // large blocks are fresh pages, already zero and not yet touched
    if (!raw)
        return out_of_memory(bytes, name);
    *out = dress(first_aligned(raw), raw, bytes);
    return LT_OK;
}

lt_status lt_mem_resize(void **ptr, size_t bytes, const char *name)
{
    if (!*ptr)
        return lt_mem_alloc(ptr, bytes, name);
    if (bytes > PTRDIFF_MAX - EXTRA)
        return out_of_memory(bytes, name);
    const header old = read_header(*ptr);
    LT_UNPOISON(old.raw, old.bytes + EXTRA);
    const size_t old_gap = (size_t)((char *)*ptr - (char *)old.raw);
    char *raw = realloc(old.raw, bytes + EXTRA);
    if (!raw) {
        dress(*ptr, old.raw, old.bytes);
        return out_of_memory(bytes, name);
    }
    char *now = first_aligned(raw);
    if ((size_t)(now - raw) != old_gap)
        memmove(now, raw + old_gap, old.bytes < bytes ? old.bytes : bytes);
    *ptr = dress(now, raw, bytes);
    return LT_OK;
}

void lt_mem_free(void *ptr)
{
    if (ptr)
        free(read_header(ptr).raw);
}

static lt_status reserve(lt_vec *vec, int64_t n)
{
    if (n <= vec->cap)
        return LT_OK;
    LT_ASSERT(vec->elem > 0);
    int64_t cap = lt_max_i64(16, vec->cap);
    while (cap < n)
        if (!lt_mul_i64(cap, 2, &cap))
            return out_of_memory(SIZE_MAX, "an array");
    uint64_t bytes;
    if (!lt_mul_u64((uint64_t)cap, vec->elem, &bytes))
        return out_of_memory(SIZE_MAX, "an array");
    LT_TRY(lt_mem_resize(&vec->data, (size_t)bytes, "an array"));
    vec->cap = cap;
    return LT_OK;
}

static char *item(const lt_vec *vec, int64_t i)
{
    return (char *)vec->data + (size_t)i * vec->elem;
}

lt_status lt_vec_push(lt_vec *vec, const void *one)
{
    if (one)
        return lt_vec_append(vec, one, 1);
    return lt_vec_resize(vec, vec->n + 1);
}

lt_status lt_vec_append(lt_vec *vec, const void *items, int64_t n)
{
    LT_ASSERT(n >= 0);
    int64_t total;
    if (!lt_add_i64(vec->n, n, &total))
        return out_of_memory(SIZE_MAX, "an array");
    LT_TRY(reserve(vec, total));
    if (n > 0)
        memcpy(item(vec, vec->n), items, (size_t)n * vec->elem);
    vec->n = total;
    return LT_OK;
}

lt_status lt_vec_resize(lt_vec *vec, int64_t n)
{
    LT_ASSERT(n >= 0);
    LT_TRY(reserve(vec, n));
    if (n > vec->n)
        memset(item(vec, vec->n), 0, (size_t)(n - vec->n) * vec->elem);
    vec->n = n;
    return LT_OK;
}

void lt_vec_clear(lt_vec *vec)
{
    vec->n = 0;
}

void lt_vec_deinit(lt_vec *vec)
{
    lt_mem_free(vec->data);
    *vec = (lt_vec){.elem = vec->elem};
}
