// SPDX-License-Identifier: Apache-2.0
// Attention's plans: made once for a shape, kept in memory and on disk; and their runs.
#include "device/cuda/sdpa.h"
#include "device/cuda/impl.h"
#include "device/cuda/sdpa_graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PLANS = 512, MAX_KEYS = 8 * MAX_PLANS }; // the one that was longest idle makes room

struct lt_sdpa_plan {
    lt_sdpa_shape shape;
    lt_dnn plan; // NULL: the library has none
    int64_t workspace, last_used;
    int64_t id[LT_SDPA_ID_END];
    int64_t n_ids;
};

struct lt_sdpa {
    lt_cudnn dnn; // no library: the reason is in `why`
    char why[1024];
    lt_vec plans;  // lt_sdpa_plan
    lt_map *place; // shape -> place in plans; an entry may be stale, so the shape there decides
    int64_t clock;
    cudaStream_t stream;
    bool has_stream;
};

static lt_dnn_graph new_graph(const lt_cudnn *c)
{
    return (lt_dnn_graph){
        .dnn = c, .made = LT_VEC_OF(lt_dnn), .ops = LT_VEC_OF(lt_dnn), .ids = LT_VEC_OF(int64_t)};
}

static lt_status open_library(lt_device *d, lt_sdpa **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_sdpa), "attention's plans"));
    lt_sdpa *s = memory;
    s->plans = LT_VEC_OF(lt_sdpa_plan);
    lt_status st = lt_map_create(&s->place);
    if (st != LT_OK) {
        lt_sdpa_destroy(s);
        return st;
    }
    if (lt_cuda_use(d) != LT_OK || lt_cudnn_open(NULL, &s->dnn) != LT_OK)
        (void)snprintf(s->why, sizeof s->why, "%s", lt_error_message());
    else
        lt_cudnn_keep_plans(&s->dnn, d->description);
    *out = s;
    return LT_OK;
}

static void drop(const lt_sdpa *s, lt_sdpa_plan *p)
{
    if (p->plan)
        (void)s->dnn.desc_destroy(p->plan);
    *p = (lt_sdpa_plan){0};
}

void lt_sdpa_destroy(lt_sdpa *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->plans.n; i++)
        drop(s, &LT_AT(&s->plans, lt_sdpa_plan, i));
    lt_vec_deinit(&s->plans);
    lt_map_destroy(s->place);
    lt_cudnn_close(&s->dnn);
    lt_mem_free(s);
}

// ---- making a plan

// Says all of the shape: a plan on disk is found by it.
static void name_of(const lt_sdpa_shape *s, char *name, size_t room)
{
    (void)snprintf(name, room, "%s%s%s%s%s-b%lld-s%lld-h%lld-k%lld-d%lld-q%lld-v%lld-l%lld-t%lld",
                   s->backward ? "backward" : "forward", s->causal ? "-causal" : "",
                   s->packed ? "-packed" : "", s->deterministic ? "-deterministic" : "",
                   s->padded_sums ? "-padded" : "", (long long)s->batch, (long long)s->length,
                   (long long)s->heads, (long long)s->kv_heads, (long long)s->head_dim,
                   (long long)s->row_q, (long long)s->row_kv, (long long)s->lse_heads,
                   (long long)s->lse_head_stride);
}

// Which tensors the graph names is written down even where the plan comes from a file.
static lt_status make_plan(const lt_cudnn *c, lt_sdpa_plan *p)
{
    char name[256];
    name_of(&p->shape, name, sizeof name);
    lt_dnn_graph g = new_graph(c);
    lt_sdpa_write_graph(&g, &p->shape);
    lt_status st = g.status;
    bool made = false;
    if (st == LT_OK) {
        p->n_ids = g.ids.n;
        LT_ASSERT(p->n_ids <= LT_SDPA_ID_END);
        memcpy(p->id, g.ids.data, (size_t)g.ids.n * sizeof(int64_t));
        lt_dnn_load_plan(c, name, &p->plan);
        made = !p->plan;
    }
    if (st == LT_OK && made)
        st = lt_dnn_plan(&g, &p->plan);
    if (st == LT_OK)
        st = lt_dnn_workspace(c, p->plan, &p->workspace);
    if (st == LT_OK && made)
        lt_dnn_save_plan(c, name, p->plan);
    lt_dnn_graph_deinit(&g);
    return st;
}

static lt_sdpa_plan *oldest(lt_sdpa *s)
{
    lt_sdpa_plan *least = &LT_AT(&s->plans, lt_sdpa_plan, 0);
    for (int64_t i = 1; i < s->plans.n; i++) {
        lt_sdpa_plan *p = &LT_AT(&s->plans, lt_sdpa_plan, i);
        if (p->last_used < least->last_used)
            least = p;
    }
    return least;
}

static lt_status keep(lt_sdpa *s, lt_sdpa_plan *p)
{
    int64_t at = s->plans.n;
    if (at < MAX_PLANS) {
        LT_TRY(lt_vec_push(&s->plans, p));
    } else {
        lt_sdpa_plan *room = oldest(s);
        drop(s, room);
        *room = *p;
        at = room - (lt_sdpa_plan *)s->plans.data;
    }
    if (lt_map_count(s->place) >= MAX_KEYS) { // names of plans that are gone
        lt_map_destroy(s->place);
        s->place = NULL;
        LT_TRY(lt_map_create(&s->place));
        for (int64_t i = 0; i < s->plans.n; i++)
            LT_TRY(lt_map_put(s->place, &LT_AT(&s->plans, lt_sdpa_plan, i).shape,
                              sizeof(lt_sdpa_shape), i));
    }
    return lt_map_put(s->place, &p->shape, sizeof p->shape, at);
}

static lt_sdpa_plan *find(lt_sdpa *s, const lt_sdpa_shape *shape)
{
    int64_t at;
    if (!lt_map_get(s->place, shape, sizeof *shape, &at))
        return NULL;
    lt_sdpa_plan *p = &LT_AT(&s->plans, lt_sdpa_plan, at);
    return memcmp(&p->shape, shape, sizeof *shape) == 0 ? p : NULL;
}

// A shape that the library cannot do is remembered too; being out of memory is not.
static lt_status make_and_keep(lt_sdpa *s, const lt_sdpa_shape *shape)
{
    lt_sdpa_plan fresh = {.shape = *shape};
    lt_status st = make_plan(&s->dnn, &fresh);
    if (st == LT_ERR_MEMORY)
        return st;
    if (st != LT_OK && fresh.plan) {
        (void)s->dnn.desc_destroy(fresh.plan);
        fresh.plan = NULL;
    }
    const lt_status kept = keep(s, &fresh);
    if (kept != LT_OK)
        drop(s, &fresh);
    return st != LT_OK ? st : kept;
}

lt_status lt_sdpa_plan_for(lt_device *d, const lt_sdpa_shape *shape, const lt_sdpa_plan **out)
{
    lt_cuda_impl *impl = lt_cuda_impl_of(d);
    LT_ASSERT(!shape->deterministic || (shape->backward && !shape->packed));
    if (!impl->sdpa)
        LT_TRY(open_library(d, &impl->sdpa));
    lt_sdpa *s = impl->sdpa;
    if (!s->dnn.library)
        return LT_FAIL(LT_ERR_DEVICE, "%s", s->why);
    lt_sdpa_plan *p = find(s, shape);
    if (!p) {
        LT_TRY(lt_cuda_use(d));
        LT_TRY(make_and_keep(s, shape));
        p = find(s, shape);
    }
    if (!p->plan)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "cuDNN has no attention for this shape");
    p->last_used = ++s->clock;
    *out = p;
    return LT_OK;
}

int64_t lt_sdpa_workspace(const lt_sdpa_plan *plan)
{
    return plan->workspace;
}

// ---- running it

static lt_status use_stream(lt_sdpa *s, cudaStream_t stream)
{
    if (s->has_stream && s->stream == stream)
        return LT_OK;
    LT_TRY(lt_cudnn_check(&s->dnn, s->dnn.set_stream(s->dnn.handle, stream), "choosing a stream"));
    s->stream = stream;
    s->has_stream = true;
    return LT_OK;
}

// The tensors of a call by their ids; numbers come from the host and are read during the call.
static lt_status fill_pack(const lt_cudnn *c, lt_dnn pack, const lt_sdpa_plan *p, void **pointer,
                           void *workspace)
{
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t n;
        const void *values;
    } parts[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, p->n_ids, p->id},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, p->n_ids, (void *)pointer},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, (void *)&workspace},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        LT_TRY(lt_cudnn_check(
            c, c->desc_set(pack, parts[i].name, parts[i].type, parts[i].n, parts[i].values),
            "naming the tensors of a call"));
    }
    return lt_cudnn_check(c, c->finalize(pack), "naming the tensors of a call");
}

lt_status lt_sdpa_run(lt_device *d, lt_stream *stream, const lt_sdpa_plan *plan,
                      void *const tensor[LT_SDPA_N_TENSORS], float scale, void *workspace)
{
    lt_sdpa *s = lt_cuda_impl_of(d)->sdpa;
    const lt_cudnn *c = &s->dnn;
    float one = 1.0F, hidden = -INFINITY;
    void *pointer[LT_SDPA_ID_END];
    for (int64_t i = 0; i < plan->n_ids; i++) {
        const int64_t id = plan->id[i];
        pointer[i] = id == LT_SDPA_ID_SCALE    ? &scale
                     : id == LT_SDPA_ID_ONE    ? &one
                     : id == LT_SDPA_ID_HIDDEN ? &hidden
                                               : tensor[id - 1];
    }
    lt_dnn pack = NULL;
    LT_TRY(use_stream(s, stream->queue));
    LT_TRY(lt_cudnn_check(c, c->desc_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack),
                          "naming the tensors of a call"));
    lt_status st = fill_pack(c, pack, plan, pointer, workspace);
    if (st == LT_OK)
        st = lt_cudnn_check(c, c->execute(c->handle, plan->plan, pack), "running attention");
    (void)c->desc_destroy(pack);
    return st;
}

lt_text512 lt_gpu_attention(void)
{
    lt_cudnn c;
    lt_text512 text;
    if (lt_cudnn_open("", &c) != LT_OK) {
        (void)snprintf(
            text.s, sizeof text.s,
            "attention: plain kernels, many times slower than the fused ones of cuDNN 9: "
            "%.300s",
            lt_error_message());
        lt_error_clear();
        return text;
    }
    const size_t v = c.version();
    (void)snprintf(text.s, sizeof text.s, "attention: cuDNN %zu.%zu.%zu, fused in bf16", v / 10000,
                   v / 100 % 100, v % 100);
    lt_cudnn_close(&c);
    return text;
}

bool lt_sdpa_can_try(void)
{
    lt_cudnn c;
    if (lt_cudnn_open("", &c) != LT_OK)
        return false;
    lt_cudnn_close(&c);
    return true;
}

lt_status lt_sdpa_try(const char *device_json, const lt_sdpa_shape *shape, bool keep,
                      int64_t *workspace)
{
    lt_cudnn c;
    LT_TRY(lt_cudnn_open(device_json, &c));
    if (keep)
        lt_cudnn_keep_plans(&c, "described");
    lt_sdpa_plan p = {.shape = *shape};
    const lt_status st = make_plan(&c, &p);
    if (st == LT_OK)
        *workspace = p.workspace;
    if (p.plan)
        (void)c.desc_destroy(p.plan);
    lt_cudnn_close(&c);
    return st;
}
