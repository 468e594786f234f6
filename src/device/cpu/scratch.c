// SPDX-License-Identifier: Apache-2.0
// Per-thread scratch memory: grow-only blocks, freed when their thread ends.
#include "device/cpu/scratch.h"
#include "base/memory.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 1 << 20 }; // from there on whole huge pages

typedef struct scratch {
    void *block[LT_N_SCRATCH_SLOTS];
    size_t bytes[LT_N_SCRATCH_SLOTS];
    void *kept;
    void (*destroy)(void *object);
} scratch;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

// Panels are read again and again from all over: huge pages spare most of the address look-ups.
static lt_status map_block(size_t bytes, void **out)
{
    const size_t room = bytes + HUGE_PAGE;
    char *base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return LT_FAIL(LT_ERR_MEMORY,
                       "out of memory: a thread's scratch memory wanted %zu bytes (%s)", bytes,
                       lt_errno_text(errno));
    }
    const size_t before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        (void)munmap(base, before);
    (void)munmap(base + before + bytes, HUGE_PAGE - before);
    (void)madvise(base + before, bytes, MADV_HUGEPAGE); // a hint; small pages do as well
    *out = base + before;
    return LT_OK;
}

static void free_block(void *block, size_t bytes)
{
    if (bytes >= HUGE_FROM)
        (void)munmap(block, bytes);
    else
        lt_mem_free(block);
}

static void free_scratch(void *memory)
{
    scratch *s = memory;
    if (s->kept)
        s->destroy(s->kept);
    for (int i = 0; i < LT_N_SCRATCH_SLOTS; i++)
        free_block(s->block[i], s->bytes[i]);
    lt_mem_free(s);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, free_scratch) == 0;
}

static lt_status mine(scratch **out)
{
    if (pthread_once(&once, make_key) != 0 || !have_key)
        return LT_FAIL(LT_ERR_MEMORY, "out of thread keys for the kernels' scratch memory");
    *out = pthread_getspecific(key);
    if (*out)
        return LT_OK;
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(scratch), "a thread's scratch memory"));
    if (pthread_setspecific(key, memory) != 0) {
        lt_mem_free(memory);
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: a thread's scratch memory could not be kept");
    }
    *out = memory;
    return LT_OK;
}

lt_status lt_thread_scratch(lt_scratch_slot slot, size_t bytes, void **out)
{
    scratch *s = NULL;
    LT_TRY(mine(&s));
    if (s->block[slot] == NULL || s->bytes[slot] < bytes) {
        free_block(s->block[slot], s->bytes[slot]);
        s->block[slot] = NULL;
        s->bytes[slot] = 0;
        if (bytes >= HUGE_FROM) {
            bytes = (size_t)lt_round_up((int64_t)bytes, HUGE_PAGE);
            LT_TRY(map_block(bytes, &s->block[slot]));
        } else {
            LT_TRY(lt_mem_alloc(&s->block[slot], bytes, "a thread's scratch memory"));
        }
        s->bytes[slot] = bytes;
    }
    *out = s->block[slot];
    return LT_OK;
}

lt_status lt_thread_kept(void (*destroy)(void *object), void ***out)
{
    scratch *s = NULL;
    LT_TRY(mine(&s));
    s->destroy = destroy;
    *out = &s->kept;
    return LT_OK;
}
