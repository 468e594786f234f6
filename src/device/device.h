// SPDX-License-Identifier: Apache-2.0
// What a backend provides: memory, streams, events, copies. Kernels are columns of the op table
// (graph/op_def.h).
#ifndef LT_DEVICE_DEVICE_H
#define LT_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/pool.h"
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Columns of the op table. REF is plain loops in double; CPU falls back to REF where it has no
 * kernel.
 */
typedef enum lt_backend { LT_REF, LT_CPU, LT_CUDA, LT_N_BACKENDS } lt_backend;

typedef struct lt_stream lt_stream; /* a queue of work in order; on the CPU work is done at once */
typedef struct lt_event lt_event;   /* a mark in a stream that others wait for */

typedef enum lt_copy_kind {
    LT_COPY_HOST_TO_DEVICE,
    LT_COPY_DEVICE_TO_HOST,
    LT_COPY_ON_DEVICE
} lt_copy_kind;

/**
 * One open device. Functions fail with LT_ERR_DEVICE (or LT_ERR_MEMORY) and the library's reason.
 */
typedef struct lt_device lt_device;
struct lt_device {
    const char *name;      /* "cpu", "cuda:0" */
    char description[128]; /* "AMD EPYC, 2 threads, avx2" */
    unsigned char id[16];  /* tells GPUs apart, in all processes; zeros on the CPU */
    lt_backend backend;    /* the column its kernels are in */
    /* work is queued: copies, fills and kernels return before they are done, and host memory must
       be pinned for copies to do so */
    bool queues;
    lt_pool *pool;        /* CPU threads; borrowed */
    void *impl;           /* the backend's own state */
    int64_t memory_bytes; /* what the device has */
    const lt_log *log;    /* borrowed; NULL: silence. Set by whoever opened it */
    lt_status (*alloc)(lt_device *d, size_t bytes, const char *name,
                       void **out); /* 256-aligned, contents undefined */
    void (*free)(lt_device *d, void *ptr);
    lt_status (*alloc_pinned)(lt_device *d, size_t bytes, const char *name, void **out);
    void (*free_pinned)(lt_device *d, void *ptr);
    lt_status (*stream_create)(lt_device *d, lt_stream **out);
    void (*stream_destroy)(lt_device *d, lt_stream *s);
    lt_status (*event_create)(lt_device *d, lt_event **out);
    void (*event_destroy)(lt_device *d, lt_event *e);
    lt_status (*event_record)(lt_device *d, lt_event *e, lt_stream *s);
    lt_status (*stream_wait)(lt_device *d, lt_stream *s, lt_event *e); /* s goes on after e */
    lt_status (*stream_sync)(lt_device *d, lt_stream *s);              /* the host waits */
    lt_status (*event_sync)(lt_device *d, lt_event *e);                /* the host waits */
    lt_status (*copy)(lt_device *d, lt_stream *s, void *dst, const void *src, size_t bytes,
                      lt_copy_kind kind);
    lt_status (*fill)(lt_device *d, lt_stream *s, void *dst, int byte, size_t bytes);
    /* Where `queues`; else NULL. An event that knows when it was reached; its end is
       event_destroy. */
    lt_status (*timer_create)(lt_device *d, lt_event **out);
    /* Seconds from one timer to another; both have been reached. */
    lt_status (*timer_seconds)(lt_device *d, lt_event *from, lt_event *to, double *out);
    int64_t (*memory_left)(lt_device *d); /* bytes that nobody has taken; NULL: not known */
    void (*close)(lt_device *d);
};

/** The CPU. Keeps `pool` (may be NULL: one thread). */
LT_NODISCARD lt_status lt_cpu_open(lt_pool *pool, lt_device **out);
/** The judge: like the CPU, but its kernels come from the REF column. */
LT_NODISCARD lt_status lt_ref_open(lt_device **out);
/**
 * errors LT_ERR_UNSUPPORTED when built without CUDA, LT_ERR_DEVICE when there is no GPU (says why)
 */
LT_NODISCARD lt_status lt_cuda_open(int index, lt_pool *pool, lt_device **out);

/**
 * A device that is only planned for: it has a name, a column and memory, but none of the functions.
 * Keeps `name` and `pool`.
 */
LT_NODISCARD lt_status lt_paper_open(const char *name, lt_backend backend, int64_t memory_bytes,
                                     lt_pool *pool, lt_device **out);

enum { LT_MAX_GPUS = 16 };
/** A GPU, before it is opened. */
typedef struct lt_gpu {
    int index; /* cuda:0, ... */
    char name[64];
    int major, minor, processors; /* compute capability; multiprocessors */
    int64_t memory_bytes, left_bytes;
    char why_not[160]; /* "": it can be used */
} lt_gpu;
typedef struct lt_gpu_list {
    int n;
    lt_gpu gpu[LT_MAX_GPUS];
    char versions[80];  /* of driver and build; "" in a build without CUDA */
    char why_none[256]; /* n is 0: why */
} lt_gpu_list;
lt_gpu_list lt_gpus(void);
typedef struct lt_text512 {
    char s[512];
} lt_text512;
/** What attention on a GPU goes through here, for people; "" in a build without CUDA. */
lt_text512 lt_gpu_attention(void);
/** Accepts NULL. */
void lt_device_close(lt_device *d);

#ifdef __cplusplus
}
#endif
#endif
