// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU, backward: over whole segments where there are many, else a pass over blocks
// of keys for dk and dv, and one over blocks of queries for dq. Both sum in one fixed order, and
// make the probabilities anew from lse.
#include "device/cpu/scratch.h"
#include "op/attention.h"
#include "op/cpu/attention.h"
#include "op/cpu/kernels.h"
#include <string.h>

enum { Q, K, V, O = 0, LSE = 1 }; // numbers of inputs and outputs

// Panels and tiles of a block of queries against a block of keys.
typedef struct tiles {
    lt_attend_memory memory;
    char *q, *grad; // A: queries as lanes; of one head, or of all of the group
    size_t head_bytes;
    void *k, *v;                // B: keys as lanes
    void *q_cols, *grad_cols;   // B: columns as lanes, queries as k
    void *k_cols;               // B: columns as lanes, keys as k
    void *p_panels, *ds_panels; // A
    float *p, *ds;              // [queries, j->stride]
    float *sums[2];             // dk and dv [keys, d_room]; or dq [group, queries, d_room]
} tiles;

static lt_status open_tiles(const lt_attend_job *j, int64_t n_heads, int64_t n_sums, tiles *s)
{
    const lt_gemm_core *core = j->core;
    LT_TRY(lt_attend_memory_open(&s->memory, lt_attend_bytes(j, 2 * n_heads + 7, n_sums + 2)));
    s->head_bytes = (size_t)lt_gemm_panels(core, core->mr, j->queries, j->d) * core->elem;
    s->q = lt_attend_panels(&s->memory, j, core->mr, j->queries * n_heads, j->d);
    s->grad = lt_attend_panels(&s->memory, j, core->mr, j->queries * n_heads, j->d);
    s->k = lt_attend_panels(&s->memory, j, core->nr, j->keys, j->d);
    s->v = lt_attend_panels(&s->memory, j, core->nr, j->keys, j->d);
    s->q_cols = lt_attend_panels(&s->memory, j, core->nr, j->d, j->queries);
    s->grad_cols = lt_attend_panels(&s->memory, j, core->nr, j->d, j->queries);
    s->k_cols = lt_attend_panels(&s->memory, j, core->nr, j->d, j->keys);
    s->p_panels = lt_attend_panels(&s->memory, j, core->mr, j->keys, j->queries);
    s->ds_panels = lt_attend_panels(&s->memory, j, core->mr, lt_max_i64(j->keys, j->queries),
                                    lt_max_i64(j->keys, j->queries));
    s->p = lt_attend_floats(&s->memory, j->queries * j->stride);
    s->ds = lt_attend_floats(&s->memory, j->queries * j->stride);
    return LT_OK;
}

static float *open_sums(const lt_attend_job *j, tiles *s, int64_t rows)
{
    float *sums = lt_attend_floats(&s->memory, rows * j->d_room);
    memset(sums, 0, (size_t)(rows * j->d_room) * sizeof(float));
    return sums;
}

// p and ds of n_q queries from `query` of a head against n_k keys from `key`; q and grad: the
// head's panels.
static void make_scores(const lt_attend_job *j, tiles *s, const void *q, const void *grad,
                        int64_t head, int64_t query, int64_t n_q, int64_t key, int64_t n_k)
{
    const lt_op_args *a = j->a;
    const int64_t first_seen = j->causal ? query - key + 1 : LT_ATTEND_ALL;
    lt_attend_multiply(j, LT_ATTEND_SCORES, first_seen, n_q, n_k, j->d, q, s->k, s->p, j->stride);
    lt_attend_multiply(j, LT_ATTEND_SCORES, first_seen, n_q, n_k, j->d, grad, s->v, s->ds,
                       j->stride);
    for (int64_t i = 0; i < n_q; i++) {
        const int64_t at = ((query + i) * j->heads + head) * j->d;
        const float mean =
            (float)j->rows->dot(lt_at(a->dout[O], at), lt_at(a->out[O], at), j->bf16, j->d);
        const float lse = ((const float *)a->out[LSE]->data)[head * j->tokens + query + i];
        const int64_t seen = lt_min_i64(lt_max_i64(first_seen + i, 0), n_k);
        j->rows->attend_grad(s->p + i * j->stride, s->ds + i * j->stride, j->scale, lse, mean, seen,
                             n_k);
    }
}

// Rows of sums to their place in a gradient.
static void put_rows(const lt_attend_job *j, int input, int64_t heads, int64_t head, int64_t row,
                     int64_t n, const float *sums)
{
    const lt_sink sink = lt_cpu_sink(j->a, input);
    for (int64_t i = 0; sink.data && i < n; i++)
        j->rows->convert(lt_sink_at(sink, ((row + i) * heads + head) * j->d), sums + i * j->d_room,
                         false, j->d);
}

// What one block of queries of one head gives to dk and dv of the task's keys; and what those give
// to its dq, where that is summed on the way.
static void add_to_keys(const lt_attend_job *j, const lt_attend_task *t, tiles *s, int64_t head,
                        int64_t query, int64_t n_q, float *dq)
{
    const lt_op_args *a = j->a;
    const int64_t first_seen = j->causal ? query - t->row + 1 : LT_ATTEND_ALL;
    lt_attend_pack_rows(j, s->q, false, a->in[Q], j->heads, head, query, n_q);
    lt_attend_pack_rows(j, s->grad, false, a->dout[O], j->heads, head, query, n_q);
    lt_attend_pack_columns(j, s->q_cols, a->in[Q], j->heads, head, query, n_q);
    lt_attend_pack_columns(j, s->grad_cols, a->dout[O], j->heads, head, query, n_q);
    make_scores(j, s, s->q, s->grad, head, query, n_q, t->row, t->n);
    j->core->pack_a(s->p_panels, s->p, false, j->stride, false, t->n, n_q);
    j->core->pack_a(s->ds_panels, s->ds, false, j->stride, false, t->n, n_q);
    lt_attend_multiply(j, LT_ATTEND_KEYS_OF, first_seen, t->n, j->d, n_q, s->ds_panels, s->q_cols,
                       s->sums[0], j->d_room);
    lt_attend_multiply(j, LT_ATTEND_KEYS_OF, first_seen, t->n, j->d, n_q, s->p_panels, s->grad_cols,
                       s->sums[1], j->d_room);
    if (!dq)
        return;
    j->core->pack_a(s->ds_panels, s->ds, false, j->stride, true, n_q, t->n);
    lt_attend_multiply(j, LT_ATTEND_QUERIES, first_seen, n_q, j->d, t->n, s->ds_panels, s->k_cols,
                       dq, j->d_room);
}

// dk and dv of a block of keys. dq: [group, dq_rows, d_room] of the whole segment, or NULL.
static void sum_keys(const lt_attend_job *j, const lt_attend_task *t, tiles *s, float *dq,
                     int64_t dq_rows)
{
    const size_t bytes = (size_t)(j->keys * j->d_room) * sizeof(float);
    memset(s->sums[0], 0, bytes);
    memset(s->sums[1], 0, bytes);
    lt_attend_pack_rows(j, s->k, true, j->a->in[K], j->kv_heads, t->kv_head, t->row, t->n);
    lt_attend_pack_rows(j, s->v, true, j->a->in[V], j->kv_heads, t->kv_head, t->row, t->n);
    if (dq)
        lt_attend_pack_columns(j, s->k_cols, j->a->in[K], j->kv_heads, t->kv_head, t->row, t->n);
    const int64_t before = j->causal ? (t->row - t->start) / j->queries * j->queries : 0;
    for (int64_t query = t->start + before; query < t->end; query += j->queries) {
        for (int64_t g = 0; g < j->group; g++) {
            add_to_keys(j, t, s, t->kv_head * j->group + g, query,
                        lt_min_i64(j->queries, t->end - query),
                        dq ? dq + (g * dq_rows + query - t->start) * j->d_room : NULL);
        }
    }
    put_rows(j, K, j->kv_heads, t->kv_head, t->row, t->n, s->sums[0]);
    put_rows(j, V, j->kv_heads, t->kv_head, t->row, t->n, s->sums[1]);
}

static lt_status open_key_tiles(const lt_attend_job *j, tiles *s)
{
    LT_TRY(open_tiles(j, 1, 2, s));
    for (int i = 0; i < 2; i++)
        s->sums[i] = open_sums(j, s, lt_round_up(j->keys, j->core->mr));
    return LT_OK;
}

static lt_status key_block(const lt_attend_job *j, const lt_attend_task *t)
{
    tiles s;
    LT_TRY(open_key_tiles(j, &s));
    sum_keys(j, t, &s, NULL, 0);
    return LT_OK;
}

static int64_t dq_rows_of(const lt_attend_job *j, int64_t length)
{
    return lt_round_up(length, j->queries);
}

// A whole segment of a key head: all three gradients, each score made once. The same sums in the
// same order as by blocks.
static lt_status whole_segment(const lt_attend_job *j, const lt_attend_task *t)
{
    tiles s;
    void *memory;
    const int64_t rows = dq_rows_of(j, t->n);
    const size_t bytes = (size_t)(j->group * rows * j->d_room) * sizeof(float);
    LT_TRY(open_key_tiles(j, &s));
    LT_TRY(lt_thread_scratch(LT_SCRATCH_SUMS, bytes, &memory));
    float *dq = memory;
    memset(dq, 0, bytes);
    for (int64_t key = t->start; key < t->end; key += j->keys) {
        lt_attend_task keys = *t;
        keys.row = key;
        keys.n = lt_min_i64(j->keys, t->end - key);
        sum_keys(j, &keys, &s, dq, rows);
    }
    for (int64_t g = 0; g < j->group; g++)
        put_rows(j, Q, j->heads, t->kv_head * j->group + g, t->row, t->n,
                 dq + g * rows * j->d_room);
    return LT_OK;
}

static lt_status query_block(const lt_attend_job *j, const lt_attend_task *t)
{
    const lt_op_args *a = j->a;
    const int64_t end = j->causal ? t->row + t->n : t->end;
    tiles s;
    LT_TRY(open_tiles(j, j->group, j->group, &s));
    s.sums[0] = open_sums(j, &s, j->group * j->queries);
    for (int64_t g = 0; g < j->group; g++) {
        const int64_t head = t->kv_head * j->group + g;
        lt_attend_pack_rows(j, s.q + (size_t)g * s.head_bytes, false, a->in[Q], j->heads, head,
                            t->row, t->n);
        lt_attend_pack_rows(j, s.grad + (size_t)g * s.head_bytes, false, a->dout[O], j->heads, head,
                            t->row, t->n);
    }
    for (int64_t key = t->start; key < end; key += j->keys) {
        const int64_t n = lt_min_i64(j->keys, end - key),
                      first_seen = j->causal ? t->row - key + 1 : LT_ATTEND_ALL;
        lt_attend_pack_rows(j, s.k, true, a->in[K], j->kv_heads, t->kv_head, key, n);
        lt_attend_pack_rows(j, s.v, true, a->in[V], j->kv_heads, t->kv_head, key, n);
        lt_attend_pack_columns(j, s.k_cols, a->in[K], j->kv_heads, t->kv_head, key, n);
        for (int64_t g = 0; g < j->group; g++) {
            make_scores(j, &s, s.q + (size_t)g * s.head_bytes, s.grad + (size_t)g * s.head_bytes,
                        t->kv_head * j->group + g, t->row, t->n, key, n);
            j->core->pack_a(s.ds_panels, s.ds, false, j->stride, true, t->n, n);
            lt_attend_multiply(j, LT_ATTEND_QUERIES, first_seen, t->n, j->d, n, s.ds_panels,
                               s.k_cols, s.sums[0] + g * j->queries * j->d_room, j->d_room);
        }
    }
    for (int64_t g = 0; g < j->group; g++)
        put_rows(j, Q, j->heads, t->kv_head * j->group + g, t->row, t->n,
                 s.sums[0] + g * j->queries * j->d_room);
    return LT_OK;
}

// Rows that no segment holds have no gradient.
static void backward_outside(const lt_attend_job *j)
{
    for (int input = Q; input <= V; input++) {
        const lt_tensor *d = j->a->din[input];
        for (int which = 0; which < 2 && d && !(j->a->add & LT_IN(input)); which++) {
            int64_t from, to;
            lt_attend_outside(j, which, &from, &to);
            if (from < to)
                memset(lt_at(d, from * d->dim[1]), 0,
                       (size_t)((to - from) * d->dim[1]) * lt_dtype_bytes(d->dtype));
        }
    }
}

// Whole segments make each score once instead of twice, but there must be enough of them for the
// threads, and dq of one must not take much memory.
static bool whole_segments_pay(const lt_attend_job *j, int64_t *longest)
{
    enum { DQ_MAX = 4 << 20 }; // numbers
    int64_t n = 0;
    *longest = 1;
    for (int64_t i = 0; i < j->n_segments; i++) {
        const int64_t length = j->segments[i + 1] - j->segments[i];
        *longest = lt_max_i64(*longest, length);
        n += length > 0 ? j->kv_heads : 0;
    }
    const int threads = lt_pool_threads(lt_cpu_pool(j->a));
    return (threads == 1 || n >= 2 * (int64_t)threads) &&
           j->group * dq_rows_of(j, *longest) * j->d_room <= DQ_MAX;
}

lt_status lt_attention_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_IN(2) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = Q; i <= V && !a->dout[O]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[O])
        return LT_OK;
    lt_attend_job job = lt_attend_job_of(a);
    int64_t longest;
    backward_outside(&job);
    if (a->din[Q] && whole_segments_pay(&job, &longest))
        return lt_attend_blocks(&job, longest, whole_segment);
    if (a->din[K] || a->din[V])
        LT_TRY(lt_attend_blocks(&job, job.keys, key_block));
    return a->din[Q] ? lt_attend_blocks(&job, job.queries, query_block) : LT_OK;
}
