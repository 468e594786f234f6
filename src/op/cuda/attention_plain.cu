// SPDX-License-Identifier: Apache-2.0
// attention of any kind: plain tiles of 16 queries by 16 keys in shared memory, in fp32, softmax as
// it goes. A block owns what it writes, so nothing is added across blocks: dq in one kernel, dk and
// dv in another, each computing the scores it needs anew.
#include "op/cuda/attention.cuh"
#include <math.h>

enum { TILE = 16, THREADS = TILE * TILE }; // thread (i, j) has query i and key j of the tiles

struct shape {
    int64_t tokens, heads, kv_heads, group, n_segments;
    int d, stride; // a head's width; a row in shared memory: one more, for the sake of its banks
    const int32_t *segments;
    float scale;
    bool causal;
};

struct range {
    int64_t from, to;
    __device__ bool has(int64_t i) const
    {
        return from <= i && i < to;
    }
};

// ---- ranges

// The segment around a token; empty where it lies in none.
static __device__ range segment_of(const shape &s, int64_t token)
{
    int64_t low = -1,
            high = s.n_segments; // the last entry that is at most `token` lies in [low, high]
    while (low < high) {
        const int64_t mid = (low + high + 1) / 2;
        if (s.segments[mid] <= token)
            low = mid;
        else
            high = mid - 1;
    }
    if (token >= s.tokens || low < 0 || low == s.n_segments)
        return {token, token};
    return {s.segments[low], s.segments[low + 1]};
}

// The keys that a query sees, and the queries that see a key.
static __device__ range keys_of(const shape &s, int64_t query)
{
    const range r = segment_of(s, query);
    return {r.from, s.causal && r.to > r.from ? query + 1 : r.to};
}

static __device__ range queries_of(const shape &s, int64_t key)
{
    const range r = segment_of(s, key);
    return {s.causal && r.to > r.from ? key : r.from, r.to};
}

// From the first to the last number that one of the tile's ranges holds. All threads call it with
// the range of row `i`.
static __device__ range whole_of(range mine, int i, int j)
{
    __shared__ range each[TILE];
    __syncthreads();
    if (j == 0)
        each[i] = mine;
    __syncthreads();
    range all = {0, 0};
    for (int k = 0; k < TILE; k++)
        if (each[k].from < each[k].to) {
            all.from = all.to == 0 ? each[k].from : min(all.from, each[k].from);
            all.to = max(all.to, each[k].to);
        }
    return all;
}

// ---- tiles in shared memory: TILE rows of one head, `stride` numbers apart

static __device__ void load_tile(const shape &s, float *tile, lt_reader x, int64_t row,
                                 int64_t head, int64_t heads)
{
    for (int e = (int)threadIdx.x; e < TILE * s.d; e += THREADS) {
        const int i = e / s.d, c = e % s.d;
        tile[i * s.stride + c] =
            row + i < s.tokens ? x[((row + i) * heads + head) * s.d + c] : 0.0F;
    }
}

static __device__ void clear_tile(const shape &s, float *tile)
{
    for (int e = (int)threadIdx.x; e < TILE * s.stride; e += THREADS)
        tile[e] = 0.0F;
}

static __device__ void store_tile(const shape &s, const float *tile, lt_writer y, int64_t row,
                                  int64_t head, int64_t heads)
{
    for (int e = (int)threadIdx.x; e < TILE * s.d; e += THREADS) {
        const int i = e / s.d, c = e % s.d;
        if (row + i < s.tokens)
            y.put(((row + i) * heads + head) * s.d + c, tile[i * s.stride + c]);
    }
}

static __device__ float dot(const shape &s, const float *x, int i, const float *y, int j)
{
    float sum = 0.0F;
    for (int c = 0; c < s.d; c++)
        sum += x[i * s.stride + c] * y[j * s.stride + c];
    return sum;
}

// Over the 16 threads that share a query.
static __device__ float row_sum(float v)
{
    for (int step = TILE / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffU, v, step);
    return v;
}

static __device__ float row_max(float v)
{
    for (int step = TILE / 2; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, step));
    return v;
}

// ---- forward

// Running softmax of a query: largest score, sum of exponentials against it.
struct running {
    float top, sum;
};

// A key's weight once the query has seen the tile; *rescale is what older sums have to be
// multiplied by.
static __device__ float absorb(running *r, bool seen, float score, float *rescale)
{
    const float top = fmaxf(r->top, row_max(seen ? score : -INFINITY));
    *rescale = top == r->top ? 1.0F : expf(r->top - top); // equal too where both are -inf
    const float p = seen ? expf(score - top) : 0.0F;
    r->sum = r->sum * *rescale + row_sum(p);
    r->top = top;
    return p;
}

__global__ static void forward(lt_reader q, lt_reader k, lt_reader v, lt_writer o, float *lse,
                               shape s)
{
    extern __shared__ float memory[];
    __shared__ float weight[TILE][TILE + 1];
    float *qs = memory, *kv = qs + TILE * s.stride, *os = kv + TILE * s.stride;
    const int i = (int)threadIdx.x / TILE, j = (int)threadIdx.x % TILE;
    const int64_t head = blockIdx.x % s.heads, row = blockIdx.x / s.heads * TILE;
    const range mine = keys_of(s, row + i), all = whole_of(mine, i, j);
    running r = {-INFINITY, 0.0F};
    load_tile(s, qs, q, row, head, s.heads);
    clear_tile(s, os);
    for (int64_t key = all.from; key < all.to; key += TILE) {
        float rescale;
        load_tile(s, kv, k, key, head / s.group, s.kv_heads);
        __syncthreads();
        weight[i][j] = absorb(&r, mine.has(key + j), s.scale * dot(s, qs, i, kv, j), &rescale);
        __syncthreads();
        load_tile(s, kv, v, key, head / s.group, s.kv_heads);
        __syncthreads();
        for (int c = j; c < s.d; c += TILE) {
            float sum = os[i * s.stride + c] * rescale;
            for (int jj = 0; jj < TILE; jj++)
                sum += weight[i][jj] * kv[jj * s.stride + c];
            os[i * s.stride + c] = sum;
        }
        __syncthreads();
    }
    __syncthreads();
    for (int c = j; c < s.d; c += TILE)
        os[i * s.stride + c] = r.sum > 0.0F || isnan(r.sum) ? os[i * s.stride + c] / r.sum : 0.0F;
    if (j == 0 && row + i < s.tokens)
        lse[head * s.tokens + row + i] = r.top + logf(r.sum);
    __syncthreads();
    store_tile(s, os, o, row, head, s.heads);
}

// ---- backward: P = exp(score - lse), dS = scale P (dP - Delta), dP = do . v, Delta = do . o

struct given {
    lt_reader q, k, v, o, d_out;
    const float *lse;
};

// Delta of a query, and its lse; rows beyond the last give zeros.
static __device__ float delta_of(const shape &s, const given &g, const float *dos, int i, int j,
                                 int64_t query, int64_t head)
{
    float sum = 0.0F;
    for (int c = j; c < s.d && query < s.tokens; c += TILE)
        sum += dos[i * s.stride + c] * g.o[(query * s.heads + head) * s.d + c];
    return row_sum(sum);
}

__global__ static void query_gradient(given g, lt_writer dq, shape s)
{
    extern __shared__ float memory[];
    __shared__ float ds[TILE][TILE + 1];
    const int tile = TILE * s.stride;
    float *qs = memory, *dos = qs + tile, *dqs = dos + tile, *ks = dqs + tile, *vs = ks + tile;
    const int i = (int)threadIdx.x / TILE, j = (int)threadIdx.x % TILE;
    const int64_t head = blockIdx.x % s.heads, row = blockIdx.x / s.heads * TILE;
    const range mine = keys_of(s, row + i), all = whole_of(mine, i, j);
    load_tile(s, qs, g.q, row, head, s.heads);
    load_tile(s, dos, g.d_out, row, head, s.heads);
    clear_tile(s, dqs);
    __syncthreads();
    const float delta = delta_of(s, g, dos, i, j, row + i, head);
    const float lse = row + i < s.tokens ? g.lse[head * s.tokens + row + i] : 0.0F;
    for (int64_t key = all.from; key < all.to; key += TILE) {
        load_tile(s, ks, g.k, key, head / s.group, s.kv_heads);
        load_tile(s, vs, g.v, key, head / s.group, s.kv_heads);
        __syncthreads();
        const float p = mine.has(key + j) ? expf(s.scale * dot(s, qs, i, ks, j) - lse) : 0.0F;
        ds[i][j] = s.scale * p * (dot(s, dos, i, vs, j) - delta);
        __syncthreads();
        for (int c = j; c < s.d; c += TILE)
            for (int jj = 0; jj < TILE; jj++)
                dqs[i * s.stride + c] += ds[i][jj] * ks[jj * s.stride + c];
        __syncthreads();
    }
    __syncthreads();
    store_tile(s, dqs, dq, row, head, s.heads);
}

__global__ static void key_gradient(given g, lt_writer dk, lt_writer dv, shape s)
{
    extern __shared__ float memory[];
    __shared__ float ps[TILE][TILE + 1], ds[TILE][TILE + 1];
    const int tile = TILE * s.stride;
    float *ks = memory, *vs = ks + tile, *dks = vs + tile, *dvs = dks + tile, *qs = dvs + tile,
          *dos = qs + tile;
    const int i = (int)threadIdx.x / TILE, j = (int)threadIdx.x % TILE;
    const int64_t kv_head = blockIdx.x % s.kv_heads, row = blockIdx.x / s.kv_heads * TILE;
    const range all = whole_of(queries_of(s, row + i), i, j), mine = queries_of(s, row + j);
    load_tile(s, ks, g.k, row, kv_head, s.kv_heads);
    load_tile(s, vs, g.v, row, kv_head, s.kv_heads);
    clear_tile(s, dks);
    clear_tile(s, dvs);
    for (int64_t head = kv_head * s.group; head < (kv_head + 1) * s.group; head++)
        for (int64_t query = all.from; query < all.to; query += TILE) {
            load_tile(s, qs, g.q, query, head, s.heads);
            load_tile(s, dos, g.d_out, query, head, s.heads);
            __syncthreads();
            const float delta = delta_of(s, g, dos, i, j, query + i, head);
            const bool seen = mine.has(query + i);
            const float lse = seen ? g.lse[head * s.tokens + query + i] : 0.0F;
            const float p = seen ? expf(s.scale * dot(s, qs, i, ks, j) - lse) : 0.0F;
            ps[i][j] = p;
            ds[i][j] = s.scale * p * (dot(s, dos, i, vs, j) - delta);
            __syncthreads();
            for (int c = j; c < s.d; c += TILE) // now i counts keys
                for (int ii = 0; ii < TILE; ii++) {
                    dks[i * s.stride + c] += ds[ii][i] * qs[ii * s.stride + c];
                    dvs[i * s.stride + c] += ps[ii][i] * dos[ii * s.stride + c];
                }
            __syncthreads();
        }
    __syncthreads();
    store_tile(s, dks, dk, row, kv_head, s.kv_heads);
    store_tile(s, dvs, dv, row, kv_head, s.kv_heads);
}

// ---- launchers

static shape shape_of(const lt_op_args *a)
{
    const lt_attention_attr *attr = (const lt_attention_attr *)a->attr;
    const int d = lt_int(a->in[0]->dim[1] / attr->heads);
    shape s = {};
    s.tokens = a->in[0]->dim[0];
    s.heads = attr->heads;
    s.kv_heads = attr->kv_heads;
    s.group = attr->heads / attr->kv_heads;
    s.n_segments = lt_n_elems(a->in[3]) - 1;
    s.d = d;
    s.stride = d + 1;
    s.segments = lt_read_index(a->in[3]);
    s.scale = (float)(attr->scale > 0.0 ? attr->scale : 1.0 / sqrt((double)d));
    s.causal = attr->causal;
    return s;
}

static size_t tiles(const shape &s, int n)
{
    return (size_t)(n * TILE * s.stride) * sizeof(float);
}

lt_status lt_attention_fwd_plain(const lt_op_args *a)
{
    const shape s = shape_of(a);
    return lt_launch(a, forward, lt_ceil_div(s.tokens, TILE) * s.heads, THREADS, tiles(s, 3),
                     lt_read(a->in[0]), lt_read(a->in[1]), lt_read(a->in[2]), lt_write(a->out[0]),
                     (float *)a->out[1]->data, s);
}

lt_status lt_attention_bwd_plain(const lt_op_args *a)
{
    const shape s = shape_of(a);
    const int64_t n_tiles = lt_ceil_div(s.tokens, TILE);
    const given g = {lt_read(a->in[0]),  lt_read(a->in[1]),   lt_read(a->in[2]),
                     lt_read(a->out[0]), lt_read(a->dout[0]), (const float *)a->out[1]->data};
    if (a->din[0])
        LT_TRY(lt_launch(a, query_gradient, n_tiles * s.heads, THREADS, tiles(s, 5), g,
                         lt_write_grad(a, 0), s));
    if (a->din[1] || a->din[2])
        LT_TRY(lt_launch(a, key_gradient, n_tiles * s.kv_heads, THREADS, tiles(s, 6), g,
                         lt_write_grad(a, 1), lt_write_grad(a, 2), s));
    return LT_OK;
}
