// SPDX-License-Identifier: Apache-2.0
// The CPU as a device, and the reference device on top of it: memory by page mappings, streams and
// events that are always done.
#include "base/memory.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_FROM = 4 << 20 };

// The page in front of every allocation: how much to unmap.
typedef struct block_head {
    size_t mapped_bytes;
} block_head;

// Pages straight from the system: aligned, and touched only when used. Large blocks ask for huge
// pages, which spare the address look-ups of matrix products.
static lt_status alloc(lt_device *d, size_t bytes, const char *name, void **out)
{
    (void)d;
    size_t total;
    if (__builtin_add_overflow(bytes, (size_t)2 * PAGE, &total))
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes", name, bytes);
    total &= ~(size_t)(PAGE - 1);
    void *base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes (%s)", name, bytes,
                       lt_errno_text(errno));
    if (bytes >= HUGE_FROM)
        (void)madvise(base, total, MADV_HUGEPAGE); // a hint; small pages do as well
    ((block_head *)base)->mapped_bytes = total;
    *out = (char *)base + PAGE;
    return LT_OK;
}

static void free_block(lt_device *d, void *ptr)
{
    (void)d;
    if (ptr == NULL)
        return;
    void *base = (char *)ptr - PAGE;
    (void)munmap(base, ((block_head *)base)->mapped_bytes);
}

// Work on the CPU is done when the call returns, so there is nothing to queue, to mark or to wait
// for.
static lt_status stream_create(lt_device *d, lt_stream **out)
{
    (void)d;
    *out = NULL;
    return LT_OK;
}

static void stream_destroy(lt_device *d, lt_stream *s)
{
    (void)d, (void)s;
}

static lt_status event_create(lt_device *d, lt_event **out)
{
    (void)d;
    *out = NULL;
    return LT_OK;
}

static void event_destroy(lt_device *d, lt_event *e)
{
    (void)d, (void)e;
}

static lt_status event_record(lt_device *d, lt_event *e, lt_stream *s)
{
    (void)d, (void)e, (void)s;
    return LT_OK;
}

static lt_status stream_wait(lt_device *d, lt_stream *s, lt_event *e)
{
    (void)d, (void)s, (void)e;
    return LT_OK;
}

static lt_status stream_sync(lt_device *d, lt_stream *s)
{
    (void)d, (void)s;
    return LT_OK;
}

static lt_status event_sync(lt_device *d, lt_event *e)
{
    (void)d, (void)e;
    return LT_OK;
}

enum { CHUNK = 4 << 20 }; // bytes that one thread copies or fills at a time

typedef struct span {
    char *dst;
    const char *src; // NULL: fill
    size_t bytes;
    int byte;
} span;

static lt_status do_span(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const span *s = ctx;
    const size_t at = (size_t)i * CHUNK, n = s->bytes - at < CHUNK ? s->bytes - at : CHUNK;
    if (s->src)
        memcpy(s->dst + at, s->src + at, n);
    else
        memset(s->dst + at, s->byte, n);
    return LT_OK;
}

static lt_status copy(lt_device *d, lt_stream *s, void *dst, const void *src, size_t bytes,
                      lt_copy_kind kind)
{
    (void)s, (void)kind;
    if (bytes == 0 || dst == src)
        return LT_OK;
    span all = {.dst = dst, .src = src, .bytes = bytes};
    return lt_pool_run(d->pool, lt_ceil_div((int64_t)bytes, CHUNK), do_span, &all);
}

static lt_status fill(lt_device *d, lt_stream *s, void *dst, int byte, size_t bytes)
{
    (void)s;
    if (bytes == 0)
        return LT_OK;
    span all = {.dst = dst, .bytes = bytes, .byte = byte};
    return lt_pool_run(d->pool, lt_ceil_div((int64_t)bytes, CHUNK), do_span, &all);
}

static void close_cpu(lt_device *d)
{
    lt_mem_free(d);
}

static const lt_device cpu_device = {
    .name = "cpu",
    .backend = LT_CPU,
    .alloc = alloc,
    .free = free_block,
    .alloc_pinned = alloc,
    .free_pinned = free_block,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .stream_sync = stream_sync,
    .event_sync = event_sync,
    .copy = copy,
    .fill = fill,
    .close = close_cpu,
};

static int64_t physical_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? (int64_t)pages * page : 0;
}

static lt_status open_as(lt_backend backend, const char *name, lt_pool *pool, lt_device **out)
{
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_device), "device"));
    lt_device *d = memory;
    *d = cpu_device;
    d->name = name;
    d->backend = backend;
    d->pool = pool;
    d->memory_bytes = physical_bytes();
    const int n = pool ? lt_pool_threads(pool) : 1;
    (void)snprintf(d->description, sizeof d->description, "%s, %d thread%s, %s",
                   lt_cpu_brand_text().s, n, n == 1 ? "" : "s",
                   backend == LT_REF ? "reference kernels" : lt_isa_name(lt_cpu_isa()));
    *out = d;
    return LT_OK;
}

lt_status lt_cpu_open(lt_pool *pool, lt_device **out)
{
    return open_as(LT_CPU, "cpu", pool, out);
}

lt_status lt_ref_open(lt_device **out)
{
    return open_as(LT_REF, "ref", NULL, out);
}
