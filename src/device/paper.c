// SPDX-License-Identifier: Apache-2.0
// Devices that are not here: what a plan for them needs to know.
#include "base/memory.h"
#include "device/device.h"

#include <stdio.h>

static void close_paper(lt_device *d)
{
    lt_mem_free(d);
}

lt_status lt_paper_open(const char *name, lt_backend backend, int64_t memory_bytes, lt_pool *pool,
                        lt_device **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_device), "device"));
    lt_device *d = memory;
    d->name = name;
    d->backend = backend;
    d->queues = backend == LT_CUDA;
    d->memory_bytes = memory_bytes;
    d->pool = pool;
    d->close = close_paper;
    (void)snprintf(d->description, sizeof d->description, "%s, on paper", name);
    *out = d;
    return LT_OK;
}
