// SPDX-License-Identifier: Apache-2.0
// Routing: the experts of each token, the order of rows by expert, how evenly experts are used, and
// what that costs.
#include "op/cuda/columns.cuh"
extern "C" {
#include "op/moe_route.h"
}

// ---- which experts

enum { WARPS = 4, WARP = 32 }; // tokens of a block, a warp each

// The larger of two candidates, of equal ones the lower number. A number of -1 is nobody.
static __device__ void keep_better(float &z, int &e, float other_z, int other_e)
{
    const bool other_wins =
        other_e >= 0 && (e < 0 || other_z > z || (!(z > other_z) && other_e < e));
    z = other_wins ? other_z : z;
    e = other_wins ? other_e : e;
}

static __device__ void best_of_warp(float &z, int &e)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        keep_better(z, e, __shfl_xor_sync(0xffffffffU, z, step),
                    __shfl_xor_sync(0xffffffffU, e, step));
}

struct route_args {
    lt_reader logits;
    lt_writer weights;
    int32_t *experts;
    int64_t tokens, n, k;
    bool renormalise;
};

// A warp picks k times the best that is not taken. Shared: the row's logits, and who is taken.
__global__ static void pick_experts(route_args r)
{
    extern __shared__ float rows[];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t t = (int64_t)blockIdx.x * WARPS + warp;
    float *z = rows + warp * 2 * r.n, *taken = z + r.n;
    if (t >= r.tokens)
        return; // a whole warp
    for (int64_t e = lane; e < r.n; e += WARP) {
        z[e] = r.logits[t * r.n + e];
        taken[e] = 0.0F;
    }
    __syncwarp();
    float top = 0.0F, sum = 0.0F;
    for (int64_t j = 0; j < r.k; j++) {
        float best_z = 0.0F;
        int best = -1;
        for (int64_t e = lane; e < r.n; e += WARP)
            if (taken[e] == 0.0F)
                keep_better(best_z, best, z[e], (int)e);
        best_of_warp(best_z, best);
        top = j == 0 ? best_z : top;
        sum += expf(best_z - top);
        if (lane == 0) {
            taken[best] = 1.0F;
            r.experts[t * r.k + j] = best;
        }
        __syncwarp();
    }
    if (!r.renormalise) {
        sum = 0.0F;
        for (int64_t e = lane; e < r.n; e += WARP)
            sum += expf(z[e] - top);
        sum = lt_warp_sum(sum);
    }
    for (int64_t j = lane; j < r.k; j += WARP)
        r.weights.put(t * r.k + j, expf(z[r.experts[t * r.k + j]] - top) / sum);
}

// ---- the order of rows: a stable counting sort over chunks of copies

enum { CHUNK = 1024 };

struct sort_args {
    const int32_t *experts;            // [copies]
    int32_t *place, *offsets, *counts; // counts: [chunks, n], then where each chunk's rows begin
    int64_t copies, chunks, n;
};

__global__ static void count_chunk(sort_args s)
{
    extern __shared__ int32_t mine[];
    for (int64_t e = threadIdx.x; e < s.n; e += blockDim.x)
        mine[e] = 0;
    __syncthreads();
    const int64_t i = (int64_t)blockIdx.x * CHUNK + threadIdx.x;
    if (i < s.copies)
        atomicAdd(&mine[s.experts[i]], 1); // whole numbers: the order of additions does not matter
    __syncthreads();
    for (int64_t e = threadIdx.x; e < s.n; e += blockDim.x)
        s.counts[blockIdx.x * s.n + e] = mine[e];
}

// One block: an expert a thread adds up its chunks; the first thread then adds up the experts.
__global__ static void scan_chunks(sort_args s)
{
    for (int64_t e = threadIdx.x; e < s.n; e += blockDim.x) {
        int32_t sum = 0;
        for (int64_t c = 0; c < s.chunks; c++) {
            const int32_t n = s.counts[c * s.n + e];
            s.counts[c * s.n + e] = sum;
            sum += n;
        }
        s.offsets[e + 1] = sum;
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    s.offsets[0] = 0;
    for (int64_t e = 0; e < s.n; e++)
        s.offsets[e + 1] += s.offsets[e];
}

// A copy's row is behind those of its expert in earlier chunks, and earlier in its own.
__global__ static void place_copies(sort_args s)
{
    __shared__ int32_t chunk[CHUNK];
    const int64_t i = (int64_t)blockIdx.x * CHUNK + threadIdx.x;
    chunk[threadIdx.x] = i < s.copies ? s.experts[i] : -1;
    __syncthreads();
    if (i >= s.copies)
        return;
    const int32_t e = chunk[threadIdx.x];
    int32_t before = 0;
    for (unsigned k = 0; k < threadIdx.x; k++)
        before += chunk[k] == e ? 1 : 0;
    s.place[i] = s.offsets[e] + s.counts[blockIdx.x * s.n + e] + before;
}

static lt_status sort_copies(const lt_op_args *a, int64_t copies, int64_t n)
{
    void *memory = NULL;
    sort_args s = {lt_read_index(a->out[1]),
                   (int32_t *)a->out[2]->data,
                   (int32_t *)a->out[3]->data,
                   NULL,
                   copies,
                   lt_ceil_div(copies, CHUNK),
                   n};
    if (s.chunks * n > LT_CUDA_WORKSPACE_BYTES / (int64_t)sizeof(int32_t))
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "moe_route on a GPU sorts at most %lld rows of %lld experts, not %lld",
                       (long long)(LT_CUDA_WORKSPACE_BYTES / 4 / n * CHUNK), (long long)n,
                       (long long)copies);
    LT_TRY(lt_cuda_workspace(a->run->device, a->run->stream, &memory));
    s.counts = (int32_t *)memory;
    LT_TRY(lt_launch(a, count_chunk, s.chunks, CHUNK, (size_t)n * sizeof(int32_t), s));
    LT_TRY(lt_launch(a, scan_chunks, 1, CHUNK, 0, s));
    return lt_launch(a, place_copies, s.chunks, CHUNK, 0, s);
}

lt_status lt_moe_route_fwd_cuda(const lt_op_args *a)
{
    const lt_moe_route_attr *attr = (const lt_moe_route_attr *)a->attr;
    LT_TRY(lt_cuda_begin(a));
    const int64_t tokens = a->in[0]->dim[0], n = a->in[0]->dim[1];
    const route_args r = {
        lt_read(a->in[0]), lt_write(a->out[0]), (int32_t *)a->out[1]->data, tokens, n,
        attr->k,           attr->renormalise};
    LT_TRY(lt_launch(a, pick_experts, lt_ceil_div(tokens, WARPS), WARPS * WARP,
                     (size_t)(2 * WARPS * n) * sizeof(float), r));
    return sort_copies(a, tokens * attr->k, n);
}

// ---- its gradient

struct route_back_args {
    lt_reader logits, dw;
    lt_writer dz;
    const int32_t *experts;
    int64_t n, k;
    bool renormalise;
};

static __device__ int64_t slot_of(const int32_t *picked, int64_t k, int64_t e)
{
    int64_t j = 0;
    while (j < k && picked[j] != e)
        j++;
    return j;
}

// A block a token: dz_e = p_e ([e picked] dw_e - sum_j p_j dw_j), p over all experts or those
// picked
__global__ static void route_gradient(route_back_args r)
{
    const int64_t t = blockIdx.x;
    const int32_t *picked = r.experts + t * r.k;
    const float top = r.logits[t * r.n + picked[0]];
    float sum = 0.0F, mean = 0.0F;
    for (int64_t e = threadIdx.x; e < r.n; e += blockDim.x) {
        const int64_t j = slot_of(picked, r.k, e);
        const float p = expf(r.logits[t * r.n + e] - top);
        sum += j < r.k || !r.renormalise ? p : 0.0F;
        mean += j < r.k ? p * r.dw[t * r.k + j] : 0.0F;
    }
    sum = lt_block_sum(sum);
    mean = lt_block_sum(mean) / sum;
    for (int64_t e = threadIdx.x; e < r.n; e += blockDim.x) {
        const int64_t j = slot_of(picked, r.k, e);
        const float p = expf(r.logits[t * r.n + e] - top) / sum,
                    through = j < r.k ? r.dw[t * r.k + j] : 0.0F;
        r.dz.put(t * r.n + e, j < r.k || !r.renormalise ? p * (through - mean) : 0.0F);
    }
}

lt_status lt_moe_route_bwd_cuda(const lt_op_args *a)
{
    const lt_moe_route_attr *attr = (const lt_moe_route_attr *)a->attr;
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    const route_back_args r = {lt_read(a->in[0]),        lt_read(a->dout[0]), lt_write_grad(a, 0),
                               lt_read_index(a->out[1]), a->in[0]->dim[1],    attr->k,
                               attr->renormalise};
    return lt_launch(a, route_gradient, a->in[0]->dim[0], LT_BLOCK, 0, r);
}

// ---- statistics

struct picks_term {
    const int32_t *experts;
    int64_t k;
    __device__ float operator()(int64_t t, int64_t e) const
    {
        int32_t n = 0;
        for (int64_t j = 0; j < k; j++)
            n += experts[t * k + j] == e ? 1 : 0;
        return (float)n;
    }
};

struct probability_term {
    lt_reader logits;
    int64_t n;
    __device__ float operator()(int64_t t, int64_t e) const
    {
        float top = -INFINITY, sum = 0.0F;
        for (int64_t i = 0; i < n; i++)
            top = fmaxf(top, logits[t * n + i]);
        for (int64_t i = 0; i < n; i++)
            sum += expf(logits[t * n + i] - top);
        return expf(logits[t * n + e] - top) / sum;
    }
};

lt_status lt_moe_stats_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t tokens = a->in[0]->dim[0], n = a->in[0]->dim[1], k = a->in[1]->dim[1];
    float *table = (float *)a->out[0]->data;
    const size_t row = (size_t)(2 * n) * sizeof(float), all = lt_tensor_bytes(a->out[0]);
    LT_TRY(lt_sum_columns(a, picks_term{lt_read_index(a->in[1]), k}, tokens, n,
                          lt_writer{table, false, false}));
    LT_TRY(lt_sum_columns(a, probability_term{lt_read(a->in[0]), n}, tokens, n,
                          lt_writer{table + n, false, false}));
    if (all == row)
        return LT_OK;
    const cudaError_t rest = a->in[2]
                                 ? cudaMemcpyAsync(table + 2 * n, a->in[2]->data, all - row,
                                                   cudaMemcpyDeviceToDevice, lt_queue_of(a))
                                 : cudaMemsetAsync(table + 2 * n, 0, all - row, lt_queue_of(a));
    return lt_cuda_check(rest, a->def->name);
}

// A block a token: dz_e = p_e (dP_e - sum_i p_i dP_i)
__global__ static void stats_gradient(lt_reader logits, lt_reader dtable, lt_writer dz, int64_t n)
{
    const int64_t from = blockIdx.x * n;
    float top = -INFINITY, sum = 0.0F, mean = 0.0F;
    for (int64_t e = threadIdx.x; e < n; e += blockDim.x)
        top = fmaxf(top, logits[from + e]);
    top = lt_block_max(top);
    for (int64_t e = threadIdx.x; e < n; e += blockDim.x) {
        const float p = expf(logits[from + e] - top);
        sum += p;
        mean += p * dtable[n + e];
    }
    sum = lt_block_sum(sum);
    mean = lt_block_sum(mean) / sum;
    for (int64_t e = threadIdx.x; e < n; e += blockDim.x)
        dz.put(from + e, expf(logits[from + e] - top) / sum * (dtable[n + e] - mean));
}

__global__ static void shift_table(lt_reader dtable, lt_writer dbefore, int64_t row, int64_t all)
{
    const int64_t i = lt_thread_number();
    if (i < all)
        dbefore.put(i, i + row < all ? dtable[i + row] : 0.0F);
}

lt_status lt_moe_stats_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = a->in[0]->dim[1];
    const lt_reader dtable = lt_read(a->dout[0]);
    if (a->din[0])
        LT_TRY(lt_launch(a, stats_gradient, a->in[0]->dim[0], LT_BLOCK, 0, lt_read(a->in[0]),
                         dtable, lt_write_grad(a, 0), n));
    if (!a->din[2])
        return LT_OK;
    const int64_t all = lt_n_elems(a->din[2]);
    return lt_launch_each(a, shift_table, all, dtable, lt_write_grad(a, 2), 2 * n, all);
}

// ---- the balance loss

struct balance_args {
    const float *table, *weight;
    float *loss, *value, *picks; // NULL: not asked for
    lt_writer dtable;
    int64_t layers, n, k;
};

// One block. Shared: of each expert picks and probabilities over all layers, in double.
__global__ static void balance(balance_args b)
{
    extern __shared__ double sums[];
    __shared__ double rows, aux;
    double *picks = sums, *p = sums + b.n;
    const int64_t all = 2 * b.layers * b.n;
    for (int64_t e = threadIdx.x; e < b.n; e += blockDim.x) {
        picks[e] = p[e] = 0.0;
        for (int64_t l = 0; l < b.layers; l++) {
            picks[e] += (double)b.table[2 * l * b.n + e];
            p[e] += (double)b.table[(2 * l + 1) * b.n + e];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double count = 0.0, sum = 0.0;
        for (int64_t e = 0; e < b.n; e++)
            count += picks[e];
        rows = count / (double)b.k;
        for (int64_t e = 0; e < b.n && rows != 0.0; e++)
            sum += (double)b.n * (picks[e] / rows) * (p[e] / rows);
        aux = sum;
        if (b.loss)
            *b.loss = (float)((double)*b.weight * aux);
        if (b.value)
            *b.value = (float)aux;
    }
    __syncthreads();
    const double w = (double)*b.weight, scale = rows != 0.0 ? w * (double)b.n / rows / rows : 0.0,
                 through = rows != 0.0 ? 2.0 * w * aux / (rows * (double)b.k) : 0.0;
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int64_t e = i % b.n;
        if (b.picks)
            b.picks[i] = b.table[i];
        b.dtable.put(i, (float)(i / b.n % 2 == 0 ? scale * p[e] - through : scale * picks[e]));
    }
}

static float *place_of(const lt_tensor *t)
{
    return t ? (float *)t->data : NULL;
}

static lt_status run_balance(const lt_op_args *a, lt_writer dtable)
{
    LT_TRY(lt_cuda_begin(a));
    const balance_args b = {
        place_of(a->in[0]),  place_of(a->in[1]),  place_of(a->out[0]),
        place_of(a->out[1]), place_of(a->out[2]), dtable,
        a->in[0]->dim[0],    a->in[0]->dim[2],    ((const lt_moe_balance_attr *)a->attr)->k};
    return lt_launch(a, balance, 1, LT_BLOCK, (size_t)(2 * b.n) * sizeof(double), b);
}

lt_status lt_moe_balance_fwd_cuda(const lt_op_args *a)
{
    return run_balance(a, lt_writer{NULL, false, false});
}

lt_status lt_moe_balance_bwd_cuda(const lt_op_args *a)
{
    return run_balance(a, lt_write_grad(a, 0));
}
