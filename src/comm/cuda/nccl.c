// SPDX-License-Identifier: Apache-2.0
// NCCL, found at run time. Its all-gather and reduce-scatter want equal pieces; where a tensor's
// first dimension does not divide, each piece is a broadcast or a sum to its owner, in one group.
#include "comm/nccl.h"

#include "base/memory.h"
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

typedef struct library {
    void *handle;
    const char *(*error_text)(ncclResult_t r);
    const char *(*last_error)(ncclComm_t comm);
    ncclResult_t (*unique_id)(ncclUniqueId *id);
    ncclResult_t (*init)(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*all_gather)(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*reduce_scatter)(const void *in, void *out, size_t n, ncclDataType_t t,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*all_reduce)(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*broadcast)(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                              ncclComm_t comm, cudaStream_t s);
    ncclResult_t (*reduce)(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op,
                           int root, ncclComm_t comm, cudaStream_t s);
} library;

struct lt_nccl {
    library nccl;
    lt_device *device;
    ncclComm_t comm;
    int32_t size, rank;
};

// By the loader's own search path first, then where CUDA's installers put it.
static const char *const places[] = {
    "libnccl.so.2",
    "/usr/local/cuda/lib64/libnccl.so.2",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
};

typedef struct symbol {
    const char *name;
    size_t offset; // of the pointer in library
} symbol;
static const symbol symbols[] = {
    {"ncclGetErrorString", offsetof(library, error_text)},
    {"ncclGetLastError", offsetof(library, last_error)},
    {"ncclGetUniqueId", offsetof(library, unique_id)},
    {"ncclCommInitRank", offsetof(library, init)},
    {"ncclCommDestroy", offsetof(library, destroy)},
    {"ncclGroupStart", offsetof(library, group_start)},
    {"ncclGroupEnd", offsetof(library, group_end)},
    {"ncclAllGather", offsetof(library, all_gather)},
    {"ncclReduceScatter", offsetof(library, reduce_scatter)},
    {"ncclAllReduce", offsetof(library, all_reduce)},
    {"ncclBroadcast", offsetof(library, broadcast)},
    {"ncclReduce", offsetof(library, reduce)},
};

static lt_status load(library *l)
{
    for (size_t i = 0; i < sizeof places / sizeof *places && !l->handle; i++)
        l->handle = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) {
        return LT_FAIL(LT_ERR_DEVICE,
                       "several GPUs need NCCL (libnccl.so.2), which was neither on the library "
                       "path nor below /usr/local/cuda: %s",
                       dlerror()); // NOLINT(concurrency-mt-unsafe): its message is the thread's own
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *at = dlsym(l->handle, symbols[i].name);
        if (!at)
            return LT_FAIL(LT_ERR_DEVICE, "NCCL has no function %s", symbols[i].name);
        memcpy((char *)l + symbols[i].offset, &at, sizeof at); // C has no such cast
    }
    return LT_OK;
}

static lt_status check(const lt_nccl *c, ncclResult_t r, const char *tried)
{
    if (r == ncclSuccess)
        return LT_OK;
    const char *more = c->nccl.last_error(c->comm);
    return LT_FAIL(LT_ERR_DEVICE, "%s failed on rank %d of %d: %s%s%s", tried, c->rank, c->size,
                   c->nccl.error_text(r), more && *more ? "; " : "", more ? more : "");
}

static lt_status connect(lt_nccl *c, lt_group *g)
{
    ncclUniqueId id = {0};
    if (c->rank == 0)
        LT_TRY(check(c, c->nccl.unique_id(&id), "ncclGetUniqueId"));
    LT_TRY(lt_broadcast(g, 0, &id, sizeof id));
    LT_TRY(lt_cuda_use(c->device));
    return check(c, c->nccl.init(&c->comm, c->size, id, c->rank), "ncclCommInitRank");
}

lt_status lt_nccl_open(lt_device *d, lt_group *g, lt_nccl **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_nccl), "NCCL communicator"));
    lt_nccl *c = memory;
    c->device = d;
    c->size = lt_group_size(g);
    c->rank = lt_group_rank(g);
    lt_status st = load(&c->nccl);
    if (st == LT_OK)
        st = connect(c, g);
    if (st != LT_OK)
        lt_nccl_close(c);
    else
        *out = c;
    return st;
}

void lt_nccl_close(lt_nccl *c)
{
    if (!c)
        return;
    if (c->comm && lt_cuda_use(c->device) == LT_OK)
        (void)c->nccl.destroy(c->comm);
    if (c->nccl.handle)
        (void)dlclose(c->nccl.handle);
    lt_mem_free(c);
}

/* ---- collectives ---- */

static ncclDataType_t type_of(lt_dtype dtype)
{
    static const ncclDataType_t types[] = {
        [LT_F32] = ncclFloat32, [LT_F64] = ncclFloat64, [LT_BF16] = ncclBfloat16};
    LT_ASSERT(dtype == LT_F32 || dtype == LT_F64 || dtype == LT_BF16);
    return types[dtype];
}

static unsigned char *element(const lt_pieces *p, int64_t i, lt_dtype dtype)
{
    return (unsigned char *)p->full + (size_t)i * lt_dtype_bytes(dtype);
}

// One call of NCCL for each part, or for each piece of it.
typedef ncclResult_t (*part_fn)(const lt_nccl *c, cudaStream_t s, const lt_pieces *p,
                                lt_dtype dtype);

static lt_status for_parts(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                           lt_dtype dtype, part_fn fn, const char *what)
{
    ncclResult_t r = ncclSuccess;
    LT_TRY(lt_cuda_use(c->device));
    LT_TRY(check(c, c->nccl.group_start(), "ncclGroupStart"));
    for (int64_t i = 0; r == ncclSuccess && i < n; i++)
        if (parts[i].total > 0)
            r = fn(c, s->queue, &parts[i], dtype);
    const ncclResult_t end = c->nccl.group_end();
    LT_TRY(check(c, r, what));
    return check(c, end, what);
}

static bool is_even(const lt_nccl *c, const lt_pieces *p)
{
    return p->total == p->chunk * c->size;
}

static ncclResult_t gather(const lt_nccl *c, cudaStream_t s, const lt_pieces *p, lt_dtype dtype)
{
    ncclResult_t r = ncclSuccess;
    if (is_even(c, p))
        return c->nccl.all_gather(p->shard, p->full, (size_t)p->chunk, type_of(dtype), c->comm, s);
    for (int32_t root = 0; r == ncclSuccess && root < c->size; root++) {
        const lt_piece_range piece = lt_piece_of(p, p->chunk, root);
        void *at = element(p, piece.first, dtype);
        if (piece.n > 0)
            r = c->nccl.broadcast(root == c->rank ? p->shard : at, at, (size_t)piece.n,
                                  type_of(dtype), root, c->comm, s);
    }
    return r;
}

static ncclResult_t scatter_sum(const lt_nccl *c, cudaStream_t s, const lt_pieces *p,
                                lt_dtype dtype)
{
    ncclResult_t r = ncclSuccess;
    if (is_even(c, p))
        return c->nccl.reduce_scatter(p->full, element(p, p->chunk * c->rank, dtype),
                                      (size_t)p->chunk, type_of(dtype), ncclSum, c->comm, s);
    for (int32_t root = 0; r == ncclSuccess && root < c->size; root++) {
        const lt_piece_range piece = lt_piece_of(p, p->chunk, root);
        void *at = element(p, piece.first, dtype);
        if (piece.n > 0)
            r = c->nccl.reduce(at, at, (size_t)piece.n, type_of(dtype), ncclSum, root, c->comm, s);
    }
    return r;
}

static ncclResult_t sum(const lt_nccl *c, cudaStream_t s, const lt_pieces *p, lt_dtype dtype)
{
    return c->nccl.all_reduce(p->full, p->full, (size_t)p->total, type_of(dtype), ncclSum, c->comm,
                              s);
}

lt_status lt_nccl_all_gather(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    return for_parts(c, s, parts, n, dtype, gather, "an all-gather");
}

lt_status lt_nccl_reduce_scatter(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                                 lt_dtype dtype)
{
    return for_parts(c, s, parts, n, dtype, scatter_sum, "a reduce-scatter");
}

lt_status lt_nccl_all_reduce(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    return for_parts(c, s, parts, n, dtype, sum, "an all-reduce");
}
