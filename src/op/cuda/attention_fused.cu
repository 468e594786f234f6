// SPDX-License-Identifier: Apache-2.0
// attention by cuDNN. Segments of one length are a plain batch; others go by groups of about one
// length, each segment at its offset ("packed"). Where gradients have to repeat bit for bit, long
// segments go one by one; short ones stay packed, as their sums have two terms at most. All memory
// is the call's scratch, and tables of offsets are made on the device.
#include "device/cuda/sdpa.h"
#include "op/cuda/attention.cuh"
#include <math.h>
extern "C" {
#include "op/attention_groups.h"
}

// What the deterministic form may take for its scores, 2 bytes each; more heads in a call are
// faster.
static const int64_t score_budget = 4500000000;

enum { MOST_WIDTH = 256, WORKSPACE = 64 << 10, WORKSPACE_OF_SEQUENCE = 1 << 10 };

struct job {
    const lt_op_args *a;
    bool backward, causal;
    bool deterministic; // the backward pass
    bool padded;        // sums are, where packed: those of heads of odd width come out wrong else
    int64_t tokens, heads, kv_heads, group, d, n_segments, n_sequences;
    const int32_t *segments; // on the device
    int64_t first, last;     // the rows that segments cover
};

static job job_of(const lt_op_args *a, lt_pass pass)
{
    const lt_attention_attr *attr = (const lt_attention_attr *)a->attr;
    job j = {};
    j.a = a;
    j.backward = pass == LT_BACKWARD;
    j.causal = attr->causal;
    j.deterministic = attr->deterministic && j.backward;
    j.tokens = a->in[0]->dim[0];
    j.heads = attr->heads;
    j.kv_heads = attr->kv_heads;
    j.group = j.heads / j.kv_heads;
    j.d = a->in[0]->dim[1] / attr->heads;
    j.padded = j.backward && (j.deterministic || j.d % 16 != 0);
    j.n_segments = lt_n_elems(a->in[3]) - 1;
    j.n_sequences = 2 * lt_max_i64(j.n_segments, 1); // as groups round them up
    return j;
}

// ---- scratch

struct room {
    int32_t *table; // 4 times n_sequences + 1
    float *lse, *row_sum, *dq_sum;
    void *in_place_of[3]; // dq, dk and dv that are added to, or that nobody asks for
    char *heads;          // of dk, then of dv, bf16
    char *workspace;      // behind heads, which some forms leave to the library too
    char *end;
};

struct bump {
    char *at;
    char *take(int64_t bytes)
    {
        char *p = at;
        at += lt_round_up(bytes, 256);
        return p;
    }
};

static bool shared_keys(const job &j)
{
    return j.heads != j.kv_heads;
}

// Bytes of scores of so many key heads in one call; whole tiles of them.
static int64_t score_bytes(const job &j, int64_t kv_heads, int64_t batch, int64_t length)
{
    const int64_t side = lt_round_up(length, LT_ATTENTION_TILE);
    return 2 * kv_heads * j.group * batch * side * side;
}

// Tokens that packed sequences have at most when their sums are padded.
static int64_t padded_rows(const job &j)
{
    return j.deterministic ? lt_attention_most_short(j.n_segments)
                           : lt_attention_most_padded(j.tokens, j.n_segments);
}

static room lay_out(const job &j, char *memory)
{
    room r = {};
    bump b = {memory};
    const int64_t row = j.heads * j.d,
                  rows = j.padded ? lt_max_i64(j.tokens, padded_rows(j)) : j.tokens;
    r.table = (int32_t *)b.take(4 * (j.n_sequences + 1) * (int64_t)sizeof(int32_t));
    r.lse = (float *)b.take(j.tokens * j.heads * (int64_t)sizeof(float));
    int64_t workspace = WORKSPACE + WORKSPACE_OF_SEQUENCE * j.n_sequences;
    if (j.backward) {
        for (int i = 0; i < 3; i++)
            if (!j.a->din[i] || j.a->add & LT_IN(i))
                r.in_place_of[i] = b.take((int64_t)lt_tensor_bytes(j.a->in[i]));
        r.row_sum = (float *)b.take(rows * j.heads * (int64_t)sizeof(float));
        r.dq_sum = (float *)b.take((j.deterministic ? padded_rows(j) : rows) * row *
                                   (int64_t)sizeof(float));
        if (shared_keys(j))
            r.heads = b.take(rows * row * 4);
        if (j.deterministic) {
            workspace +=
                lt_max_i64(score_bytes(j, 1, 1, j.tokens),
                           lt_min_i64(score_bytes(j, j.kv_heads, 1, j.tokens), score_budget));
        }
    }
    r.workspace = b.take(workspace);
    r.end = b.at;
    return r;
}

size_t lt_attention_fused_scratch(const lt_op_args *a, lt_pass pass)
{
    const job j = job_of(a, pass);
    return a->in[0]->dtype == LT_BF16 ? (size_t)lay_out(j, NULL).end : 0;
}

// ---- tables of offsets, and lse as the packed form has it

struct offsets {
    int32_t *q, *kv, *lse, *length; // [batch + 1] elements, and [batch] tokens
    int64_t row_q, row_kv, row_lse;
};

// The segments of a group in their order, then empty ones. A block.
__global__ static void tabulate(const int32_t *segments, int64_t n, lt_attention_group g, offsets o)
{
    for (int64_t i = threadIdx.x; i <= n; i += blockDim.x) {
        const int64_t length = i < n ? segments[i + 1] - segments[i] : 0;
        if (i < n && (length <= g.above || length > g.most))
            continue;
        int64_t place = 0;
        for (int64_t k = 0; k < i; k++) {
            const int64_t other = segments[k + 1] - segments[k];
            place += g.above < other && other <= g.most;
        }
        for (int64_t last = i < n ? place : g.batch; place <= last; place++) {
            o.q[place] = (int32_t)(segments[i] * o.row_q);
            o.kv[place] = (int32_t)(segments[i] * o.row_kv);
            o.lse[place] = (int32_t)(segments[i] * o.row_lse);
            if (place < g.batch)
                o.length[place] = (int32_t)length;
        }
    }
}

// [heads, tokens] from [tokens, heads], and -inf where no segment is; and back.
__global__ static void unpack_lse(float *to, const float *from, int64_t tokens, int64_t heads,
                                  int64_t first, int64_t last)
{
    const int64_t i = lt_thread_number(), head = i / tokens, row = i % tokens;
    if (head < heads)
        to[i] = first <= row && row < last ? from[row * heads + head] : -INFINITY;
}

__global__ static void pack_lse(float *to, const float *from, int64_t tokens, int64_t heads)
{
    const int64_t i = lt_thread_number();
    if (i < tokens * heads)
        to[i] = from[i % heads * tokens + i / heads];
}

__global__ static void no_keys(float *lse, int64_t tokens, int64_t n, int64_t first, int64_t last)
{
    const int64_t i = lt_thread_number(), row = i % tokens;
    if (i < n && !(first <= row && row < last))
        lse[i] = -INFINITY;
}

__global__ static void add_rows(lt_writer to, const __nv_bfloat16 *from, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        to.put(i, __bfloat162float(from[i]));
}

// ---- the shapes of calls

static lt_sdpa_shape shape_of(const job &j, int64_t kv_heads)
{
    lt_sdpa_shape s;
    memset(&s, 0, sizeof s);
    s.heads = kv_heads * j.group;
    s.kv_heads = kv_heads;
    s.head_dim = j.d;
    s.row_q = j.heads * j.d;
    s.row_kv = j.kv_heads * j.d;
    s.backward = j.backward;
    s.causal = j.causal;
    s.deterministic = j.deterministic;
    return s;
}

// As many key heads as the budget for scores has room for.
static int64_t heads_of_call(const job &j, int64_t batch, int64_t length)
{
    int64_t n = j.kv_heads;
    while (j.deterministic && n > 1 &&
           (j.kv_heads % n != 0 || score_bytes(j, n, batch, length) > score_budget))
        n--;
    return n;
}

static lt_sdpa_shape batched_shape(const job &j, int64_t batch, int64_t length)
{
    lt_sdpa_shape s = shape_of(j, heads_of_call(j, batch, length));
    s.batch = batch;
    s.length = length;
    s.lse_head_stride = j.tokens;
    return s;
}

static lt_sdpa_shape packed_shape(const job &j, const lt_attention_group &g)
{
    lt_sdpa_shape s = shape_of(j, j.kv_heads);
    s.batch = g.batch;
    s.length = g.length;
    s.lse_heads = j.heads;
    s.packed = true;
    s.deterministic = false;
    s.padded_sums = j.padded;
    return s;
}

// ---- calls

struct pointers {
    void *t[LT_SDPA_N_TENSORS];
};

static char *moved(const void *at, int64_t bytes)
{
    return (char *)at + bytes;
}

// All tensors of the op from row `row` on; what the library may not write goes to scratch.
static pointers tensors_of(const job &j, const room &r, int64_t row)
{
    const lt_op_args *a = j.a;
    const int64_t q = row * j.heads * j.d * 2, kv = row * j.kv_heads * j.d * 2;
    pointers p = {};
    p.t[LT_SDPA_Q] = moved(a->in[0]->data, q);
    p.t[LT_SDPA_K] = moved(a->in[1]->data, kv);
    p.t[LT_SDPA_V] = moved(a->in[2]->data, kv);
    p.t[LT_SDPA_O] = moved(a->out[0]->data, q);
    if (!j.backward)
        return p;
    p.t[LT_SDPA_DO] = moved(a->dout[0]->data, q);
    for (int i = 0; i < 3; i++)
        p.t[LT_SDPA_DQ + i] =
            moved(r.in_place_of[i] ? r.in_place_of[i] : a->din[i]->data, i == 0 ? q : kv);
    p.t[LT_SDPA_ROW_SUM] = r.row_sum;
    p.t[LT_SDPA_DQ_SUM] = r.dq_sum;
    return p;
}

static bool fits(const lt_sdpa_plan *plan, const char *workspace, const room &r)
{
    return lt_sdpa_workspace(plan) <= r.end - workspace;
}

// The heads of a call after those before it: tensors shifted, the plan the same.
static lt_status run_heads(const job &j, const lt_sdpa_shape &s, const lt_sdpa_plan *plan,
                           pointers p, char *workspace)
{
    const lt_attention_attr *attr = (const lt_attention_attr *)j.a->attr;
    const float scale = (float)(attr->scale > 0.0 ? attr->scale : 1.0 / sqrt((double)j.d));
    const int64_t lse_step = j.tokens * s.heads * (int64_t)sizeof(float);
    static const lt_sdpa_tensor query[] = {LT_SDPA_Q, LT_SDPA_O, LT_SDPA_DO, LT_SDPA_DQ},
                                key[] = {LT_SDPA_K, LT_SDPA_V, LT_SDPA_DK, LT_SDPA_DV};
    for (int64_t head = 0; head < j.kv_heads; head += s.kv_heads) {
        LT_TRY(lt_sdpa_run(j.a->run->device, j.a->run->stream, plan, p.t, scale, workspace));
        for (int i = 0; i < 4; i++) {
            p.t[query[i]] = moved(p.t[query[i]], s.heads * j.d * 2);
            p.t[key[i]] = moved(p.t[key[i]], s.kv_heads * j.d * 2);
        }
        p.t[LT_SDPA_LSE] = moved(p.t[LT_SDPA_LSE], lse_step);
    }
    return LT_OK;
}

// The library has the heads of dk and dv in its workspace.
static char *batched_workspace(const room &r)
{
    return r.heads ? r.heads : r.workspace;
}

// `batch` segments of one length from row `first` on.
static lt_status run_batched(const job &j, const room &r, int64_t first, int64_t batch,
                             int64_t length)
{
    const lt_sdpa_shape s = batched_shape(j, batch, length);
    const lt_sdpa_plan *plan = NULL;
    pointers p = tensors_of(j, r, first);
    p.t[LT_SDPA_LSE] = (float *)j.a->out[1]->data + first;
    LT_TRY(lt_sdpa_plan_for(j.a->run->device, &s, &plan));
    return run_heads(j, s, plan, p, batched_workspace(r));
}

// Where padded, as where batched.
static char *packed_workspace(const job &j, const room &r)
{
    return j.padded ? batched_workspace(r) : r.workspace;
}

static lt_status run_group(const job &j, const room &r, const lt_attention_group &g)
{
    const lt_sdpa_shape s = packed_shape(j, g);
    const lt_sdpa_plan *plan = NULL;
    const int64_t n = j.n_sequences + 1;
    const offsets o = {r.table,       r.table + n,      r.table + 2 * n, r.table + 3 * n,
                       j.heads * j.d, j.kv_heads * j.d, j.heads};
    pointers p = tensors_of(j, r, 0);
    p.t[LT_SDPA_LSE] = r.lse;
    p.t[LT_SDPA_AT_Q] = o.q;
    p.t[LT_SDPA_AT_KV] = o.kv;
    p.t[LT_SDPA_AT_LSE] = o.lse;
    p.t[LT_SDPA_LENGTH] = o.length;
    p.t[LT_SDPA_DK_HEADS] = r.heads;
    p.t[LT_SDPA_DV_HEADS] = moved(r.heads, j.tokens * j.heads * j.d * 2);
    LT_TRY(lt_sdpa_plan_for(j.a->run->device, &s, &plan));
    LT_TRY(lt_launch(j.a, tabulate, 1, lt_int(lt_min_i64(lt_round_up(j.n_segments + 1, 32), 1024)),
                     0, j.segments, j.n_segments, g, o));
    return run_heads(j, s, plan, p, packed_workspace(j, r));
}

static lt_status run_packed(const job &j, const room &r, const lt_attention_group *g, int n)
{
    const int64_t n_numbers = j.tokens * j.heads;
    float *lse = (float *)j.a->out[1]->data;
    if (j.backward)
        LT_TRY(lt_launch_each(j.a, pack_lse, n_numbers, r.lse, lse, j.tokens, j.heads));
    for (int i = 0; i < n; i++)
        LT_TRY(run_group(j, r, g[i]));
    if (!j.backward)
        LT_TRY(lt_launch_each(j.a, unpack_lse, n_numbers, lse, r.lse, j.tokens, j.heads, j.first,
                              j.last));
    return LT_OK;
}

static lt_status run_one_by_one(const job &j, const room &r, const int32_t *segments)
{
    const lt_attention_group few = lt_attention_short_group(segments, j.n_segments);
    for (int64_t i = 0; i < j.n_segments; i++) {
        const int64_t length = segments[i + 1] - segments[i];
        if (length > few.most)
            LT_TRY(run_batched(j, r, segments[i], 1, length));
    }
    return few.n > 0 ? run_packed(j, r, &few, 1) : LT_OK;
}

// ---- rows that no segment has, and gradients that are added

static lt_status clear_rows(const job &j, void *data, int64_t row_bytes)
{
    const cudaStream_t queue = lt_queue_of(j.a);
    if (j.first > 0)
        LT_TRY(lt_cuda_check(cudaMemsetAsync(data, 0, (size_t)(j.first * row_bytes), queue),
                             "attention"));
    if (j.last < j.tokens)
        LT_TRY(lt_cuda_check(cudaMemsetAsync(moved(data, j.last * row_bytes), 0,
                                             (size_t)((j.tokens - j.last) * row_bytes), queue),
                             "attention"));
    return LT_OK;
}

static lt_status clear_outside(const job &j, const room &r)
{
    const int64_t q = j.heads * j.d * 2, kv = j.kv_heads * j.d * 2;
    if (!j.backward && j.last - j.first < j.tokens)
        LT_TRY(lt_launch_each(j.a, no_keys, j.tokens * j.heads, (float *)j.a->out[1]->data,
                              j.tokens, j.tokens * j.heads, j.first, j.last));
    if (!j.backward)
        return clear_rows(j, j.a->out[0]->data, q);
    for (int i = 0; i < 3; i++)
        LT_TRY(clear_rows(j, r.in_place_of[i] ? r.in_place_of[i] : j.a->din[i]->data,
                          i == 0 ? q : kv));
    return LT_OK;
}

static lt_status add_gradients(const job &j, const room &r)
{
    for (int i = 0; j.backward && i < 3; i++) {
        const int64_t n = lt_n_elems(j.a->in[i]);
        if (j.a->din[i] && r.in_place_of[i])
            LT_TRY(lt_launch_each(j.a, add_rows, n, lt_write_grad(j.a, i),
                                  (const __nv_bfloat16 *)r.in_place_of[i], n));
    }
    return LT_OK;
}

// ---- whether it can be done

static bool all_bf16(const job &j)
{
    for (int i = 0; i < 3; i++)
        if (j.a->in[i]->dtype != LT_BF16 || (j.a->din[i] && j.a->din[i]->dtype != LT_BF16))
            return false;
    return !j.backward || (j.a->dout[0] && j.a->dout[0]->dtype == LT_BF16);
}

static bool is_aligned(const job &j)
{
    const lt_op_args *a = j.a;
    uintptr_t bits = (uintptr_t)a->out[0]->data | (a->dout[0] ? (uintptr_t)a->dout[0]->data : 0);
    for (int i = 0; i < 3; i++)
        bits |= (uintptr_t)a->in[i]->data | (a->din[i] ? (uintptr_t)a->din[i]->data : 0);
    return bits % 16 == 0;
}

// NULL: nothing speaks against it so far.
static const char *obstacle(const job &j)
{
    const struct {
        bool met;
        const char *why;
    } rules[] = {{all_bf16(j), "fused kernels are for bf16"},
                 {j.d % 8 == 0 && j.d <= MOST_WIDTH,
                  "fused kernels have heads of 8, 16, 24, .. to 256 numbers"},
                 {j.tokens > 0 && j.last > j.first, "there are no tokens"},
                 {(j.tokens + 1) * j.heads * j.d < INT32_MAX,
                  "fused kernels count at most 2147483647 numbers in a tensor"},
                 {is_aligned(j), "a tensor does not begin at a multiple of 16 bytes"},
                 {j.a->run->scratch != NULL, "there is no scratch"}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!rules[i].met)
            return rules[i].why;
    return NULL;
}

static lt_status check_plan(const job &j, const lt_sdpa_shape &s, char *workspace, const room &r,
                            const char **why)
{
    const lt_sdpa_plan *plan = NULL;
    const lt_status st = lt_sdpa_plan_for(j.a->run->device, &s, &plan);
    if (st == LT_ERR_MEMORY)
        return st;
    if (st != LT_OK)
        *why = lt_error_message();
    else if (!fits(plan, workspace, r))
        *why = "the library wants more scratch than was planned";
    return LT_OK;
}

// Before anything is queued, all plans are there and their memory suffices.
static lt_status check_batched(const job &j, const room &r, int64_t batch, int64_t length,
                               const char **why)
{
    return check_plan(j, batched_shape(j, batch, length), batched_workspace(r), r, why);
}

static lt_status check_packed(const job &j, const room &r, const lt_attention_group *g, int n,
                              const char **why)
{
    for (int i = 0; i < n && !*why; i++) {
        if (g[i].batch > j.n_sequences || (j.padded && g[i].batch * g[i].length > padded_rows(j)))
            *why = "its segments need more scratch than was planned";
        else
            LT_TRY(check_plan(j, packed_shape(j, g[i]), packed_workspace(j, r), r, why));
    }
    return LT_OK;
}

static lt_status check_one_by_one(const job &j, const room &r, const int32_t *segments,
                                  const char **why)
{
    const lt_attention_group few = lt_attention_short_group(segments, j.n_segments);
    for (int64_t i = 0; i < j.n_segments && !*why; i++) {
        const int64_t length = segments[i + 1] - segments[i];
        if (length > few.most)
            LT_TRY(check_batched(j, r, 1, length, why));
    }
    return few.n > 0 && !*why ? check_packed(j, r, &few, 1, why) : LT_OK;
}

lt_status lt_attention_fused(const lt_op_args *a, lt_pass pass, const char **why)
{
    job j = job_of(a, pass);
    const int32_t *segments = lt_index(a->in[3]);
    j.segments = lt_read_index(a->in[3]);
    j.first = segments ? segments[0] : 0;
    j.last = segments ? segments[j.n_segments] : 0;
    *why = obstacle(j);
    if (*why)
        return LT_OK;
    const room r = lay_out(j, (char *)a->run->scratch);
    if (r.end - (char *)a->run->scratch > (int64_t)a->run->scratch_bytes) {
        *why = "less scratch was planned than it needs";
        return LT_OK;
    }
    lt_attention_group groups[LT_MAX_ATTENTION_GROUPS];
    const int64_t shared = lt_attention_equal_length(segments, j.n_segments),
                  equal = j.deterministic && shared <= LT_ATTENTION_TILE ? 0 : shared;
    const int n = equal ? 0 : lt_attention_groups(segments, j.n_segments, groups);
    LT_TRY(equal             ? check_batched(j, r, j.n_segments, equal, why)
           : j.deterministic ? check_one_by_one(j, r, segments, why)
                             : check_packed(j, r, groups, n, why));
    if (*why)
        return LT_OK;
    LT_TRY(clear_outside(j, r));
    LT_TRY(equal             ? run_batched(j, r, j.first, j.n_segments, equal)
           : j.deterministic ? run_one_by_one(j, r, segments)
                             : run_packed(j, r, groups, n));
    return add_gradients(j, r);
}
