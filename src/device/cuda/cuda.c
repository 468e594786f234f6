// SPDX-License-Identifier: Apache-2.0
// An NVIDIA GPU as a device: memory, streams, events and copies through the CUDA runtime, which is
// linked statically and looks for the driver itself: a program with this file in it starts
// anywhere.
#include "device/cuda/impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LIBRARIES_BYTES = 256 << 20 }; // what the libraries' kernels take when they are loaded

lt_status lt_cuda_check(cudaError_t error, const char *tried)
{
    if (error == cudaSuccess)
        return LT_OK;
    (void)cudaGetLastError();
    return LT_FAIL(error == cudaErrorMemoryAllocation ? LT_ERR_MEMORY : LT_ERR_DEVICE,
                   "%s failed: %s", tried, cudaGetErrorString(error));
}

lt_status lt_cuda_use(lt_device *d)
{
    return lt_cuda_check(cudaSetDevice(lt_cuda_impl_of(d)->index), "cudaSetDevice");
}

void lt_cuda_tell_once(lt_device *d, const void *key, size_t key_bytes, const char *fmt, ...)
{
    enum { MOST_LINES = 256 };
    lt_map *told = lt_cuda_impl_of(d)->told;
    int64_t ignored;
    if (!d->log || lt_map_get(told, key, key_bytes, &ignored) || lt_map_count(told) >= MOST_LINES ||
        lt_map_put(told, key, key_bytes, 1) != LT_OK)
        return;
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    LT_INFO(d->log, "cuda", "%s", text);
}

static lt_status check_alloc(const lt_device *d, cudaError_t error, const char *tried, size_t bytes,
                             const char *name)
{
    if (error != cudaErrorMemoryAllocation)
        return lt_cuda_check(error, tried);
    (void)cudaGetLastError();
    size_t left = 0, all = 0;
    (void)cudaMemGetInfo(&left, &all);
    return LT_FAIL(LT_ERR_MEMORY, "out of memory: %s wanted %zu bytes by %s, and %s has %zu left",
                   name, bytes, tried, d->name, left);
}

static lt_status alloc(lt_device *d, size_t bytes, const char *name, void **out)
{
    LT_TRY(lt_cuda_use(d));
    void *memory = NULL;
    LT_TRY(check_alloc(d, cudaMalloc(&memory, bytes > 0 ? bytes : 1), "cudaMalloc", bytes, name));
    *out = memory;
    return LT_OK;
}

static void free_block(lt_device *d, void *ptr)
{
    if (ptr && cudaSetDevice(lt_cuda_impl_of(d)->index) == cudaSuccess)
        (void)cudaFree(ptr);
}

static lt_status alloc_pinned(lt_device *d, size_t bytes, const char *name, void **out)
{
    LT_TRY(lt_cuda_use(d));
    void *memory = NULL;
    LT_TRY(check_alloc(d, cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocPortable),
                       "cudaHostAlloc", bytes, name));
    *out = memory;
    return LT_OK;
}

static void free_pinned(lt_device *d, void *ptr)
{
    (void)d;
    if (ptr)
        (void)cudaFreeHost(ptr);
}

static lt_status stream_create(lt_device *d, lt_stream **out)
{
    void *memory = NULL;
    LT_TRY(lt_cuda_use(d));
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_stream), "stream"));
    lt_stream *s = memory;
    // Not blocking: the legacy stream would make all queues wait for each other.
    const lt_status st = lt_cuda_check(cudaStreamCreateWithFlags(&s->queue, cudaStreamNonBlocking),
                                       "cudaStreamCreate");
    if (st == LT_OK)
        *out = s;
    else
        lt_mem_free(s);
    return st;
}

static void stream_destroy(lt_device *d, lt_stream *s)
{
    if (!s)
        return;
    free_block(d, s->workspace);
    (void)cudaStreamDestroy(s->queue);
    lt_mem_free(s);
}

lt_status lt_cuda_workspace(lt_device *d, lt_stream *s, void **out)
{
    if (!s->workspace)
        LT_TRY(alloc(d, LT_CUDA_WORKSPACE_BYTES, "workspace of a stream", &s->workspace));
    *out = s->workspace;
    return LT_OK;
}

struct lt_event {
    cudaEvent_t mark;
};

static lt_status create_mark(lt_device *d, unsigned flags, lt_event **out)
{
    void *memory = NULL;
    LT_TRY(lt_cuda_use(d));
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_event), "event"));
    lt_event *e = memory;
    const lt_status st =
        lt_cuda_check(cudaEventCreateWithFlags(&e->mark, flags), "cudaEventCreate");
    if (st == LT_OK)
        *out = e;
    else
        lt_mem_free(e);
    return st;
}

static lt_status event_create(lt_device *d, lt_event **out)
{
    return create_mark(d, cudaEventDisableTiming, out);
}

static lt_status timer_create(lt_device *d, lt_event **out)
{
    return create_mark(d, cudaEventDefault, out);
}

static lt_status timer_seconds(lt_device *d, lt_event *from, lt_event *to, double *out)
{
    float ms = 0.0F;
    LT_TRY(lt_cuda_use(d));
    LT_TRY(lt_cuda_check(cudaEventElapsedTime(&ms, from->mark, to->mark), "cudaEventElapsedTime"));
    *out = (double)ms * 1e-3;
    return LT_OK;
}

static int64_t memory_left(lt_device *d)
{
    size_t left = 0, all = 0;
    if (cudaSetDevice(lt_cuda_impl_of(d)->index) != cudaSuccess ||
        cudaMemGetInfo(&left, &all) != cudaSuccess)
        (void)cudaGetLastError();
    return (int64_t)left;
}

static void event_destroy(lt_device *d, lt_event *e)
{
    (void)d;
    if (!e)
        return;
    (void)cudaEventDestroy(e->mark);
    lt_mem_free(e);
}

static lt_status event_record(lt_device *d, lt_event *e, lt_stream *s)
{
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaEventRecord(e->mark, s->queue), "cudaEventRecord");
}

static lt_status stream_wait(lt_device *d, lt_stream *s, lt_event *e)
{
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaStreamWaitEvent(s->queue, e->mark, 0), "cudaStreamWaitEvent");
}

static lt_status stream_sync(lt_device *d, lt_stream *s)
{
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaStreamSynchronize(s->queue), "waiting for a stream of the GPU");
}

static lt_status event_sync(lt_device *d, lt_event *e)
{
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaEventSynchronize(e->mark), "waiting for an event of the GPU");
}

// Host memory need not be pinned: the runtime has read it (or, downwards, written it) when the call
// returns.
static lt_status copy(lt_device *d, lt_stream *s, void *dst, const void *src, size_t bytes,
                      lt_copy_kind kind)
{
    static const enum cudaMemcpyKind kinds[] = {[LT_COPY_HOST_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [LT_COPY_DEVICE_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [LT_COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice};
    if (bytes == 0 || dst == src)
        return LT_OK;
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaMemcpyAsync(dst, src, bytes, kinds[kind], s->queue),
                         "cudaMemcpyAsync");
}

static lt_status fill(lt_device *d, lt_stream *s, void *dst, int byte, size_t bytes)
{
    if (bytes == 0)
        return LT_OK;
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaMemsetAsync(dst, byte, bytes, s->queue), "cudaMemsetAsync");
}

static void close_cuda(lt_device *d)
{
    lt_cuda_impl *impl = lt_cuda_impl_of(d);
    (void)cudaSetDevice(impl->index);
    lt_sdpa_destroy(impl->sdpa);
    lt_cuda_drop_plans(impl);
    lt_vec_deinit(&impl->plans);
    lt_map_destroy(impl->plan_of);
    lt_map_destroy(impl->told);
    lt_cublaslt_close(&impl->lt);
    lt_mem_free(impl);
    lt_mem_free(d);
}

static const lt_device cuda_device = {
    .backend = LT_CUDA,
    .queues = true,
    .alloc = alloc,
    .free = free_block,
    .alloc_pinned = alloc_pinned,
    .free_pinned = free_pinned,
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
    .timer_create = timer_create,
    .timer_seconds = timer_seconds,
    .memory_left = memory_left,
    .close = close_cuda,
};

static lt_status check_index(int index)
{
    int n = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess || n == 0) {
        (void)cudaGetLastError();
        return LT_FAIL(LT_ERR_DEVICE,
                       "device cuda:%d was asked for, but no GPU can be used here: %s; use the "
                       "device cpu, or see what nvidia-smi says",
                       index, error != cudaSuccess ? cudaGetErrorString(error) : "there is none");
    }
    if (index < 0 || index >= n) {
        return LT_FAIL(
            LT_ERR_DEVICE,
            "device cuda:%d was asked for, but this machine has %d GPU%s, numbered from 0", index,
            n, n == 1 ? "" : "s");
    }
    return LT_OK;
}

// What the description says, and what the device still has: others may have taken a part.
static lt_status look_at(lt_device *d)
{
    lt_cuda_impl *impl = lt_cuda_impl_of(d);
    struct cudaDeviceProp p;
    size_t left = 0, all = 0;
    LT_TRY(lt_cuda_check(cudaGetDeviceProperties(&p, impl->index), "cudaGetDeviceProperties"));
    if (p.major < LT_CUDA_LEAST_MAJOR) {
        return LT_FAIL(
            LT_ERR_UNSUPPORTED,
            "device %s is an %s of compute capability %d.%d, and lathe needs %d.0 or later",
            d->name, p.name, p.major, p.minor, LT_CUDA_LEAST_MAJOR);
    }
    LT_ASSERT(sizeof d->id == sizeof p.uuid);
    memcpy(d->id, &p.uuid, sizeof d->id);
    LT_TRY(lt_cuda_use(d)); // makes the context
    LT_TRY(lt_cuda_check(cudaMemGetInfo(&left, &all), "cudaMemGetInfo"));
    d->memory_bytes = lt_max_i64((int64_t)left - LT_CUDA_WORKSPACE_BYTES - LIBRARIES_BYTES, 0);
    (void)snprintf(d->description, sizeof d->description, "%.64s, %d SMs, %.1f GiB, compute %d.%d",
                   p.name, p.multiProcessorCount, (double)all / (1 << 30), p.major, p.minor);
    return LT_OK;
}

static lt_status open_impl(lt_device *d, int index)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_cuda_impl), "CUDA device"));
    lt_cuda_impl *impl = memory;
    d->impl = impl;
    d->name = impl->name;
    impl->index = index;
    impl->plans = LT_VEC_OF(lt_cuda_plan);
    (void)snprintf(impl->name, sizeof impl->name, "cuda:%d", index);
    LT_TRY(lt_map_create(&impl->plan_of));
    LT_TRY(lt_map_create(&impl->told));
    LT_TRY(look_at(d));
    return lt_cublaslt_open(&impl->lt);
}

lt_status lt_cuda_open(int index, lt_pool *pool, lt_device **out)
{
    void *memory = NULL;
    LT_TRY(check_index(index));
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_device), "device"));
    lt_device *d = memory;
    *d = cuda_device;
    d->pool = pool;
    const lt_status st = open_impl(d, index);
    if (st == LT_OK)
        *out = d;
    else if (d->impl)
        close_cuda(d);
    else
        lt_mem_free(d);
    return st;
}
