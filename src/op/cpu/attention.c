// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU: blocks, packing, and the forward pass.
#include "op/cpu/attention.h"
#include "device/cpu/scratch.h"
#include "op/attention.h"
#include "op/cpu/kernels.h"
#include "op/op.h"
#include <math.h>
#include <string.h>

enum { ALIGN = 64 };

lt_attend_job lt_attend_job_of(const lt_op_args *a)
{
    const lt_attention_attr *attr = a->attr;
    const lt_cpu_state *state = a->run->device->impl;
    lt_attend_job j = {.a = a,
                       .core = lt_gemm_core_of(state ? state->isa : lt_cpu_isa(), a->in[0]->dtype),
                       .rows = lt_cpu_rows(a),
                       .tokens = a->in[0]->dim[0],
                       .heads = attr->heads,
                       .kv_heads = attr->kv_heads,
                       .group = attr->heads / attr->kv_heads,
                       .d = a->in[0]->dim[1] / attr->heads,
                       .causal = attr->causal,
                       .bf16 = a->in[0]->dtype == LT_BF16,
                       .segments = lt_index(a->in[3]),
                       .n_segments = lt_n_elems(a->in[3]) - 1};
    j.scale = (float)(attr->scale > 0 ? attr->scale : 1.0 / sqrt((double)j.d));
    // Packing and whatever is done once a row weigh more beside products on tiles.
    enum { QUERIES = 96, KEYS = 128, GAP = 16 };
    const int64_t more = j.core->kr > 2 ? 2 : 1;
    j.queries = more * QUERIES / j.core->mr * j.core->mr;
    j.keys = more * KEYS;
    j.stride = j.keys + GAP;
    j.d_room = lt_round_up(j.d, j.core->nr);
    return j;
}

typedef struct blocks {
    const lt_attend_job *job;
    lt_status (*fn)(const lt_attend_job *job, const lt_attend_task *t);
} blocks;

// Blocks of a segment from last to first: with a causal mask the last are the longest, and long
// ones first leave no thread behind.
static lt_status run_block(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const blocks *b = ctx;
    const lt_attend_job *j = b->job;
    const int64_t block = i / j->kv_heads;
    int64_t low = 0, high = j->n_segments;
    while (low + 1 < high) { // the last segment that starts at or before the block
        const int64_t mid = (low + high) / 2;
        if (j->first_block[mid] <= block)
            low = mid;
        else
            high = mid;
    }
    lt_attend_task t = {
        .kv_head = i % j->kv_heads, .start = j->segments[low], .end = j->segments[low + 1]};
    t.row = t.start + (j->first_block[low + 1] - 1 - block) * j->block_rows;
    t.n = lt_min_i64(j->block_rows, t.end - t.row);
    j->core->enter();
    const lt_status st = b->fn(j, &t);
    j->core->leave();
    return st;
}

lt_status lt_attend_blocks(lt_attend_job *job, int64_t block_rows,
                           lt_status (*fn)(const lt_attend_job *job, const lt_attend_task *t))
{
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_ORDER, (size_t)(job->n_segments + 1) * sizeof(int64_t),
                             &memory));
    int64_t *first = memory;
    first[0] = 0;
    for (int64_t i = 0; i < job->n_segments; i++)
        first[i + 1] = first[i] + lt_ceil_div(job->segments[i + 1] - job->segments[i], block_rows);
    job->first_block = first;
    job->block_rows = block_rows;
    blocks b = {.job = job, .fn = fn};
    return lt_pool_run(lt_cpu_pool(job->a), first[job->n_segments] * job->kv_heads, run_block, &b);
}

void lt_attend_outside(const lt_attend_job *job, int which, int64_t *from, int64_t *to)
{
    *from = which == 0 ? 0 : job->segments[job->n_segments];
    *to = which == 0 ? job->segments[0] : job->tokens;
}

lt_status lt_attend_memory_open(lt_attend_memory *m, size_t bytes)
{
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_ATTENTION, bytes, &memory));
    m->next = memory;
    m->end = m->next + bytes;
    return LT_OK;
}

static void *take(lt_attend_memory *m, size_t bytes)
{
    void *p = m->next;
    m->next += lt_round_up((int64_t)bytes, ALIGN);
    LT_ASSERT(m->next <= m->end);
    return p;
}

float *lt_attend_floats(lt_attend_memory *m, int64_t n)
{
    return take(m, (size_t)n * sizeof(float));
}

void *lt_attend_panels(lt_attend_memory *m, const lt_attend_job *job, int64_t width, int64_t n,
                       int64_t k)
{
    return take(m, (size_t)lt_gemm_panels(job->core, width, n, k) * job->core->elem);
}

size_t lt_attend_bytes(const lt_attend_job *job, int64_t panels, int64_t tiles)
{
    const lt_gemm_core *core = job->core;
    const int64_t rows = lt_round_up(lt_max_i64(job->queries, job->keys) + core->mr, core->nr);
    const int64_t cols = lt_max_i64(lt_round_up(job->d_room, core->kr), job->stride);
    return (size_t)(rows * cols) * ((size_t)panels * core->elem + (size_t)tiles * sizeof(float)) +
           (size_t)(panels + tiles) * ALIGN;
}

void lt_attend_pack_rows(const lt_attend_job *job, void *panels, bool is_b, const lt_tensor *t,
                         int64_t heads, int64_t head, int64_t row, int64_t n)
{
    (is_b ? job->core->pack_b : job->core->pack_a)(panels, lt_at(t, (row * heads + head) * job->d),
                                                   t->dtype == LT_BF16, heads * job->d, true, n,
                                                   job->d);
}

void lt_attend_pack_columns(const lt_attend_job *job, void *panels, const lt_tensor *t,
                            int64_t heads, int64_t head, int64_t row, int64_t n)
{
    job->core->pack_b(panels, lt_at(t, (row * heads + head) * job->d), t->dtype == LT_BF16,
                      heads * job->d, false, job->d, n);
}

void lt_attend_multiply(const lt_attend_job *job, lt_attend_kind kind, int64_t seen, int64_t m,
                        int64_t n, int64_t k, const void *a, const void *b, float *c, int64_t ldc)
{
    const lt_gemm_core *core = job->core;
    const int64_t room = lt_round_up(k, core->kr);
    const size_t a_step = (size_t)core->mr * core->elem, b_step = (size_t)core->nr * core->elem;
    for (int64_t j = 0; j < n; j += core->nr) {
        for (int64_t i = 0; i < m; i += core->mr) {
            int64_t from = 0, to = k;
            if (kind == LT_ATTEND_SCORES && j >= seen + i + core->mr - 1)
                continue;
            if (kind == LT_ATTEND_QUERIES)
                to = lt_min_i64(k, lt_max_i64(seen + i + core->mr - 1, 0));
            if (kind == LT_ATTEND_KEYS_OF) // of whole steps, so that panels can be entered there
                from = lt_min_i64(lt_max_i64(i - seen + 1, 0), k) / core->kr * core->kr;
            if (from < to) {
                core->micro(to - from,
                            (const char *)a + (size_t)(i / core->mr * room + from) * a_step,
                            (const char *)b + (size_t)(j / core->nr * room + from) * b_step,
                            c + i * ldc + j, ldc, kind != LT_ATTEND_SCORES);
            }
        }
    }
}

// A block of queries of all heads of a group, and what is known of them so far.
typedef struct queries {
    lt_attend_memory memory;
    char *q; // panels, one set a head
    size_t q_bytes;
    void *k, *v, *p;      // panels of a block of keys
    float *scores;        // [queries, j->stride]
    float *o, *top, *sum; // [group, queries, d_room], [group, queries]
} queries;

static lt_status open_queries(const lt_attend_job *j, const lt_attend_task *t, queries *s)
{
    const lt_gemm_core *core = j->core;
    LT_TRY(lt_attend_memory_open(&s->memory, lt_attend_bytes(j, j->group + 3, j->group + 2)));
    s->q_bytes = (size_t)lt_gemm_panels(core, core->mr, j->queries, j->d) * core->elem;
    s->q = lt_attend_panels(&s->memory, j, core->mr, j->queries * j->group, j->d);
    s->k = lt_attend_panels(&s->memory, j, core->nr, j->keys, j->d);
    s->v = lt_attend_panels(&s->memory, j, core->nr, j->d, j->keys);
    s->p = lt_attend_panels(&s->memory, j, core->mr, j->queries, j->keys);
    s->scores = lt_attend_floats(&s->memory, j->queries * j->stride);
    s->o = lt_attend_floats(&s->memory, j->group * j->queries * j->d_room);
    s->top = lt_attend_floats(&s->memory, j->group * j->queries);
    s->sum = lt_attend_floats(&s->memory, j->group * j->queries);
    memset(s->o, 0, (size_t)(j->group * j->queries * j->d_room) * sizeof(float));
    for (int64_t i = 0; i < j->group * j->queries; i++) {
        s->top[i] = -INFINITY;
        s->sum[i] = 0.0F;
    }
    for (int64_t g = 0; g < j->group; g++)
        lt_attend_pack_rows(j, s->q + (size_t)g * s->q_bytes, false, j->a->in[0], j->heads,
                            t->kv_head * j->group + g, t->row, t->n);
    return LT_OK;
}

// Head g of the group over n keys from `key`.
static void attend_keys(const lt_attend_job *j, const lt_attend_task *t, queries *s, int64_t g,
                        int64_t key, int64_t n)
{
    const int64_t first_seen = j->causal ? t->row - key + 1 : LT_ATTEND_ALL;
    float *o = s->o + g * j->queries * j->d_room;
    lt_attend_multiply(j, LT_ATTEND_SCORES, first_seen, t->n, n, j->d,
                       s->q + (size_t)g * s->q_bytes, s->k, s->scores, j->stride);
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t seen = lt_min_i64(lt_max_i64(first_seen + i, 0), n), at = g * j->queries + i;
        float *scores = s->scores + i * j->stride;
        if (seen == 0) {
            memset(scores, 0, (size_t)n * sizeof(float));
            continue;
        }
        const float shrink = j->rows->attend(scores, j->scale, seen, n, &s->top[at], &s->sum[at]);
        if (shrink != 1.0F)
            j->rows->multiply(o + i * j->d_room, shrink, j->d_room);
    }
    j->core->pack_a(s->p, s->scores, false, j->stride, true, t->n, n);
    lt_attend_multiply(j, LT_ATTEND_QUERIES, first_seen, t->n, j->d, n, s->p, s->v, o, j->d_room);
}

static void finish_queries(const lt_attend_job *j, const lt_attend_task *t, const queries *s)
{
    for (int64_t g = 0; g < j->group; g++) {
        for (int64_t i = 0; i < t->n; i++) {
            const int64_t at = g * j->queries + i, head = t->kv_head * j->group + g,
                          row = t->row + i;
            float *o = s->o + at * j->d_room;
            j->rows->multiply(o, 1.0F / s->sum[at], j->d);
            j->rows->convert((lt_sink){.data = lt_at(j->a->out[0], (row * j->heads + head) * j->d),
                                       .bf16 = j->bf16},
                             o, false, j->d);
            ((float *)j->a->out[1]->data)[head * j->tokens + row] = s->top[at] + logf(s->sum[at]);
        }
    }
}

static lt_status forward_block(const lt_attend_job *j, const lt_attend_task *t)
{
    queries s;
    LT_TRY(open_queries(j, t, &s));
    const int64_t end = j->causal ? t->row + t->n : t->end;
    for (int64_t key = t->start; key < end; key += j->keys) {
        const int64_t n = lt_min_i64(j->keys, end - key);
        lt_attend_pack_rows(j, s.k, true, j->a->in[1], j->kv_heads, t->kv_head, key, n);
        lt_attend_pack_columns(j, s.v, j->a->in[2], j->kv_heads, t->kv_head, key, n);
        for (int64_t g = 0; g < j->group; g++)
            attend_keys(j, t, &s, g, key, n);
    }
    finish_queries(j, t, &s);
    return LT_OK;
}

// Rows that no segment holds see no key.
static void forward_outside(const lt_attend_job *j)
{
    const int64_t width = j->heads * j->d;
    for (int which = 0; which < 2; which++) {
        int64_t from, to;
        lt_attend_outside(j, which, &from, &to);
        if (from < to)
            memset(lt_at(j->a->out[0], from * width), 0,
                   (size_t)((to - from) * width) * lt_dtype_bytes(j->a->out[0]->dtype));
        for (int64_t head = 0; head < j->heads; head++)
            for (int64_t row = from; row < to; row++)
                ((float *)j->a->out[1]->data)[head * j->tokens + row] = -INFINITY;
    }
}

lt_status lt_attention_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    lt_attend_job job = lt_attend_job_of(a);
    LT_TRY(lt_need_segments(a, 3, job.tokens));
    forward_outside(&job);
    return lt_attend_blocks(&job, job.queries, forward_block);
}
