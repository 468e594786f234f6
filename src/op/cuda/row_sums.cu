// SPDX-License-Identifier: Apache-2.0
// The gradient of an embedding: rows of dx that meet in one row of dw are added in a fixed order,
// however many they are. Tokens are ordered by id; a block adds up a span of that order. What an id
// has in one span alone goes into dw at once; an id with more (a picture's placeholder has
// thousands of tokens) leaves a sum for each span, and a second kernel adds those.
#include "op/cuda/eight.cuh"

// ---- tokens in the order of their ids, equal ids in the order of tokens

enum { RANK_TOKENS = 128, RANK_SHARES = 4, RANK_TILE = 1024 };
enum { RANK_THREADS = RANK_TOKENS * RANK_SHARES };

// How many of a tile's share are below the limit.
static __device__ int32_t count_below(const int4 *share, int32_t limit)
{
    int32_t n[4] = {0, 0, 0, 0};
#pragma unroll 8
    for (int k = 0; k < RANK_TILE / RANK_SHARES / 4; k++) {
        const int4 four = share[k];
        n[0] += four.x < limit ? 1 : 0;
        n[1] += four.y < limit ? 1 : 0;
        n[2] += four.z < limit ? 1 : 0;
        n[3] += four.w < limit ? 1 : 0;
    }
    return n[0] + n[1] + n[2] + n[3];
}

// A token's place is the number of tokens before it: all are compared with all, which for n tokens
// costs less than n^2 of what attention does with a pair. A block has RANK_TOKENS tokens, and for
// each of them RANK_SHARES threads that look at a share of every tile.
__global__ static void rank_tokens(const int32_t *ids, int32_t *order, int32_t *sorted, int64_t n)
{
    __shared__ int4 tile[RANK_TILE / 4];
    __shared__ int32_t counts[RANK_SHARES][RANK_TOKENS];
    int32_t *each = (int32_t *)tile;
    const int mine = (int)threadIdx.x % RANK_TOKENS, share = (int)threadIdx.x / RANK_TOKENS,
              begin = share * (RANK_TILE / RANK_SHARES);
    const int64_t first = (int64_t)blockIdx.x * RANK_TOKENS, t = first + mine;
    const int32_t id = t < n ? ids[t] : 0;
    int32_t before = 0;
    for (int64_t base = 0; base < n; base += RANK_TILE) {
        __syncthreads(); // the tile before is read
        for (int k = (int)threadIdx.x; k < RANK_TILE; k += RANK_THREADS)
            each[k] = base + k < n ? ids[base + k] : INT32_MAX; // before nobody
        __syncthreads();
        if (base + RANK_TILE <= first || base >= first + RANK_TOKENS) // an equal one that is
            before += count_below(tile + begin / 4, base < first ? id + 1 : id); // earlier counts
        else
            for (int k = begin; k < begin + RANK_TILE / RANK_SHARES; k++)
                before += each[k] < id || (each[k] == id && base + k < t) ? 1 : 0;
    }
    counts[share][mine] = before;
    __syncthreads();
    if (share > 0 || t >= n)
        return;
    for (int i = 1; i < RANK_SHARES; i++)
        before += counts[i][mine];
    order[before] = (int32_t)t;
    sorted[before] = id;
}

// ---- sums

// How the order is cut: spans of `each` places, columns in tiles of blockDim.x packs.
struct spans {
    const int32_t *order, *sorted;
    int64_t n, each, count, packs; // tokens; places of a span; spans; packs of a row
    int64_t tiles;
    float *begun, *ended; // [count, width]: of an id that began in a span before; of one that goes
                          // on in the next
};

enum { TOGETHER = 8 }; // rows whose loads are under way at once

template <int E> static __device__ void leave(float *to, int64_t at, const float (&sum)[E])
{
    lt_sink{to, false}.put<float>(at, sum);
}

template <int E> static __device__ void finish(lt_writer dw, int64_t at, const float (&sum)[E])
{
    const lt_sink to = {dw.data, dw.add};
    if (dw.bf16)
        to.put<lt_bf16>(at, sum);
    else
        to.put<float>(at, sum);
}

template <typename T, int E> __global__ static void add_spans(spans s, const void *dx, lt_writer dw)
{
    const int64_t span = blockIdx.x / s.tiles, j = blockIdx.x % s.tiles * blockDim.x + threadIdx.x;
    const int64_t from = span * s.each, to = from + s.each < s.n ? from + s.each : s.n;
    if (j >= s.packs)
        return;
    int32_t id = s.sorted[from];
    bool begun = from > 0 && s.sorted[from - 1] == id;
    float sum[E] = {};
    for (int64_t base = from; base < to; base += TOGETHER) {
        lt_pack<T, E> row[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            if (base + i < to)
                row[i].load(dx, s.order[base + i] * s.packs + j);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            if (base + i >= to)
                continue;
            const int32_t next = s.sorted[base + i];
            if (next != id) {
                if (begun)
                    leave(s.begun, span * s.packs + j, sum);
                else
                    finish(dw, id * s.packs + j, sum);
                for (int k = 0; k < E; k++)
                    sum[k] = 0.0F;
                begun = false;
                id = next;
            }
#pragma unroll
            for (int k = 0; k < E; k++)
                sum[k] += row[i][k];
        }
    }
    if (begun)
        leave(s.begun, span * s.packs + j, sum);
    else if (to < s.n && s.sorted[to] == id)
        leave(s.ended, span * s.packs + j, sum);
    else
        finish(dw, id * s.packs + j, sum);
}

// First place in (from, n] whose id is another.
static __device__ int64_t end_of(const int32_t *sorted, int64_t from, int64_t n)
{
    int64_t low = from + 1, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (sorted[mid] == sorted[from])
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// The id that begins in a span and goes on in the next, if there is one: its sums, span by span.
template <int E> __global__ static void join_spans(spans s, lt_writer dw)
{
    const int64_t span = blockIdx.x / s.tiles, j = blockIdx.x % s.tiles * blockDim.x + threadIdx.x;
    const int64_t last = (span + 1) * s.each - 1; // place
    if (j >= s.packs || last + 1 >= s.n || s.sorted[last] != s.sorted[last + 1])
        return;
    if (span > 0 && s.sorted[span * s.each - 1] == s.sorted[last])
        return;                                                     // it began before
    const int64_t end = (end_of(s.sorted, last, s.n) - 1) / s.each; // span
    lt_pack<float, E> part;
    float sum[E];
    part.load(s.ended, span * s.packs + j);
    for (int k = 0; k < E; k++)
        sum[k] = part[k];
#pragma unroll 8
    for (int64_t next = span + 1; next <= end; next++) {
        part.load(s.begun, next * s.packs + j);
#pragma unroll
        for (int k = 0; k < E; k++)
            sum[k] += part[k];
    }
    finish(dw, s.sorted[last] * s.packs + j, sum);
}

enum { SPAN = 32 }; // least places of a span

// The workspace holds order, sorted, begun and ended.
static lt_status cut(const lt_op_args *a, int64_t width, int e, spans *out)
{
    const int64_t n = a->in[0]->dim[0], ids = lt_round_up(2 * n * (int64_t)sizeof(int32_t), 256),
                  room = (LT_CUDA_WORKSPACE_BYTES - ids) / (2 * width * (int64_t)sizeof(float));
    if (room < 1)
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "op embedding on a GPU sums gradients of up to some 4 million tokens and "
                       "numbers of a row, got %lld of %lld",
                       (long long)n, (long long)width);
    void *memory = NULL;
    LT_TRY(lt_cuda_workspace(a->run->device, a->run->stream, &memory));
    spans s = {};
    s.order = (int32_t *)memory, s.sorted = s.order + n;
    s.n = n, s.each = lt_max_i64(SPAN, lt_ceil_div(n, room)), s.count = lt_ceil_div(n, s.each);
    s.packs = width / e;
    s.tiles = lt_ceil_div(s.packs, LT_BLOCK);
    s.begun = (float *)((char *)memory + ids), s.ended = s.begun + s.count * width;
    *out = s;
    return LT_OK;
}

template <typename T, int E> static lt_status sum_rows(const lt_op_args *a, const spans &s)
{
    lt_writer dw = lt_write_grad(a, 1);
    dw.add = true; // to the zeros
    const int threads = (int)lt_round_up(lt_ceil_div(s.packs, s.tiles), 32);
    LT_TRY(lt_launch(a, add_spans<T, E>, s.count * s.tiles, threads, 0, s,
                     (const void *)a->dout[0]->data, dw));
    return lt_launch(a, join_spans<E>, (s.count - 1) * s.tiles, threads, 0, s, dw);
}

lt_status lt_embedding_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[1])
        return LT_OK;
    LT_TRY(lt_need_indices(a, 0, "ids", a->din[1]->dim[0]));
    LT_TRY(lt_zero_grad_cuda(a, 1));
    const int64_t n = a->in[0]->dim[0], width = a->din[1]->dim[1];
    if (!a->dout[0] || n == 0 || width == 0)
        return LT_OK;
    const bool by_eights = width % 8 == 0 && lt_aligned({a->dout[0]->data, a->din[1]->data});
    spans s;
    LT_TRY(cut(a, width, by_eights ? 8 : 1, &s));
    LT_TRY(lt_launch(a, rank_tokens, lt_ceil_div(n, RANK_TOKENS), RANK_THREADS, 0,
                     lt_read_index(a->in[0]), (int32_t *)s.order, (int32_t *)s.sorted, n));
    if (a->dout[0]->dtype == LT_BF16)
        return by_eights ? sum_rows<lt_bf16, 8>(a, s) : sum_rows<lt_bf16, 1>(a, s);
    return by_eights ? sum_rows<float, 8>(a, s) : sum_rows<float, 1>(a, s);
}
