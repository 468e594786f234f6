// SPDX-License-Identifier: Apache-2.0
// Per-thread scratch memory: grow-only blocks, freed when their thread ends.
#include "device/cpu/scratch.h"
#include "base/memory.h"
#include <pthread.h>

typedef struct scratch {
    void *block[LT_N_SCRATCH_SLOTS];
    size_t bytes[LT_N_SCRATCH_SLOTS];
    void *kept;
    void (*destroy)(void *object);
} scratch;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static void free_scratch(void *memory)
{
    scratch *s = memory;
    if (s->kept)
        s->destroy(s->kept);
    for (int i = 0; i < LT_N_SCRATCH_SLOTS; i++)
        lt_mem_free(s->block[i]);
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
    if (s->bytes[slot] < bytes) {
        lt_mem_free(s->block[slot]);
        s->block[slot] = NULL;
        s->bytes[slot] = 0;
        LT_TRY(lt_mem_alloc(&s->block[slot], bytes, "a thread's scratch memory"));
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
