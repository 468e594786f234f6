// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy in chunks of rows, and top1.
#include "op/cuda/eight.cuh"
extern "C" {
#include "op/linear_cross_entropy.h"
}

// A block for each row of logits. z becomes delta = kappa (softmax(z) - onehot(target)) where
// `delta` is z's memory.
__global__ static void cross_entropy(lt_reader z, const int32_t *targets, lt_reader kappa,
                                     lt_writer delta, double *losses, int64_t vocab)
{
    const int64_t row = blockIdx.x, from = row * vocab;
    const int32_t target = targets[row];
    const float at_target = z[from + target]; // before anyone overwrites it
    float top = -INFINITY, sum = 0.0F;
    for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x)
        top = fmaxf(top, z[from + v]);
    top = lt_block_max(top);
    for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x)
        sum += expf(z[from + v] - top);
    sum = lt_block_sum(sum);
    const float weight = kappa[row], lse = top + logf(sum);
    if (threadIdx.x == 0) // near 0 no digits are lost
        losses[row] = (double)weight * ((double)(top - at_target) + log((double)sum));
    for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x)
        delta.put(from + v, weight * (expf(z[from + v] - lse) - (v == target ? 1.0F : 0.0F)));
}

// The same for rows of whole eights. One pass keeps the largest logit so far and the sum relative
// to it, the second writes delta. A block is as large as it can be: the rows under way, one on each
// processor, then fit into the L2 cache, and the second pass, from the end of the row to its
// beginning, finds most of it there.

enum { LOSS_THREADS = 1024, LOSS_EIGHTS = 4 }; // of a block; of a thread under way at once

static __device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// exp(v - off). For bf16 logits with an error of some 2^-20.
template <typename T> struct exponent {
    float off;
    __device__ explicit exponent(float o) : off(o)
    {
    }
    __device__ float of(float v) const
    {
        return expf(v - off);
    }
};

template <> struct exponent<lt_bf16> {
    static constexpr float log2_e = 1.44269504F;
    float off;
    __device__ explicit exponent(float o) : off(o * log2_e)
    {
    }
    __device__ float of(float v) const
    {
        return power_of_two(fmaf(v, log2_e, -off));
    }
};

// A thread's largest logit so far, and the sum of exp(z - top).
template <typename T> static __device__ void take(const lt_eight<T> &z, float *top, float *sum)
{
    float most = z[0], terms = 0.0F;
#pragma unroll
    for (int k = 1; k < 8; k++)
        most = fmaxf(most, z[k]);
    if (most > *top) {
        *sum *= exponent<T>(most).of(*top);
        *top = most;
    }
    const exponent<T> e(*top);
#pragma unroll
    for (int k = 0; k < 8; k++)
        terms += e.of(z[k]);
    *sum += *top > -INFINITY ? terms : 0.0F; // else e^(-inf + inf)
}

template <typename T, bool DELTA>
__global__ static void __launch_bounds__(LOSS_THREADS)
    cross_entropy_eights(void *z, const int32_t *targets, const float *kappa, double *losses,
                         int eights)
{
    T *row = (T *)z + (int64_t)blockIdx.x * eights * 8;
    const int target = targets[blockIdx.x], step = LOSS_THREADS * LOSS_EIGHTS;
    const float at_target = (float)row[target], weight = kappa[blockIdx.x];
    float top = -INFINITY, sum = 0.0F;
    lt_eight<T> e[LOSS_EIGHTS];
    for (int base = (int)threadIdx.x; base < eights; base += step) {
#pragma unroll
        for (int i = 0; i < LOSS_EIGHTS; i++)
            if (base + i * LOSS_THREADS < eights)
                e[i].load(row, base + i * LOSS_THREADS);
#pragma unroll
        for (int i = 0; i < LOSS_EIGHTS; i++)
            if (base + i * LOSS_THREADS < eights)
                take(e[i], &top, &sum);
    }
    const float most = lt_block_max(top);
    sum = lt_block_sum(top > -INFINITY ? sum * exponent<T>(most).of(top) : sum);
    if (threadIdx.x == 0) // near 0 no digits are lost
        losses[blockIdx.x] = (double)weight * ((double)(most - at_target) + log((double)sum));
    if (!DELTA)
        return;
    const exponent<T> share(most + logf(sum));
    for (int base = (eights - 1) / step * step + (int)threadIdx.x; base >= 0; base -= step) {
#pragma unroll
        for (int i = 0; i < LOSS_EIGHTS; i++)
            if (base + i * LOSS_THREADS < eights)
                e[i].load_last(row, base + i * LOSS_THREADS);
#pragma unroll
        for (int i = 0; i < LOSS_EIGHTS; i++) {
            const int at = base + i * LOSS_THREADS;
            float v[8];
            if (at >= eights)
                continue;
#pragma unroll
            for (int k = 0; k < 8; k++)
                v[k] = weight * (share.of(e[i][k]) - (at * 8 + k == target ? 1.0F : 0.0F));
            e[i].set(v);
            e[i].store_away(row, at);
        }
    }
}

// All losses of a call: how they are grouped does not depend on its chunks.
__global__ static void add_losses(const double *losses, int64_t n, lt_writer out)
{
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += LT_BLOCK)
        sum += losses[i];
    sum = lt_block_sum_f64(sum);
    if (threadIdx.x == 0)
        out.put(0, (float)sum);
}

// Rows alive together where the loss alone is asked for; a chunk's are a multiple of LOSS_STEP.
enum { LOSS_ROWS = 1024, LOSS_STEP = 256 };

static int64_t row_bytes(const lt_op_args *a)
{
    return a->in[1]->dim[0] * (int64_t)lt_dtype_bytes(a->in[0]->dtype);
}

// A loss for each row.
static int64_t losses_bytes(const lt_op_args *a)
{
    return lt_round_up(a->in[0]->dim[0] * (int64_t)sizeof(double), 256);
}

size_t lt_linear_cross_entropy_scratch_cuda(const lt_op_args *a, lt_pass pass)
{
    int64_t rows = lt_loss_chunk((const lt_linear_cross_entropy_attr *)a->attr, LT_CUDA);
    if (pass == LT_FORWARD)
        rows = lt_min_i64(rows, LOSS_ROWS);
    return (size_t)(losses_bytes(a) + lt_min_i64(rows, a->in[0]->dim[0]) * row_bytes(a));
}

// The call's scratch: a loss for each row, logits of a chunk.
struct chunk {
    int64_t rows; // of a chunk, the last may have fewer
    double *losses;
    void *logits;
};

static chunk chunk_in(const lt_op_args *a)
{
    const int64_t n = a->in[0]->dim[0],
                  room = ((int64_t)a->run->scratch_bytes - losses_bytes(a)) / row_bytes(a);
    chunk c = {};
    LT_ASSERT(room >= 1);
    c.rows = lt_round_up(lt_ceil_div(n, lt_ceil_div(n, room)), LOSS_STEP);
    c.rows = lt_min_i64(lt_min_i64(c.rows, room), n);
    c.losses = (double *)a->run->scratch;
    c.logits = (char *)a->run->scratch + losses_bytes(a);
    return c;
}

static void *row_at(const lt_tensor *t, int64_t row)
{
    return (char *)t->data + (size_t)(row * t->dim[1]) * lt_dtype_bytes(t->dtype);
}

// z = h W^T of rows [t, t + n)
static lt_status logits(const lt_op_args *a, const chunk &c, int64_t t, int64_t n)
{
    const lt_tensor *h = a->in[0], *w = a->in[1];
    lt_gemm g = {};
    g.m = n, g.n = w->dim[0], g.k = h->dim[1];
    g.a = row_at(h, t), g.lda = g.k;
    g.b = w->data, g.ldb = g.k, g.trans_b = true;
    g.c = c.logits, g.ldc = g.n;
    g.ab_dtype = g.c_dtype = h->dtype;
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

// dh = delta W
static lt_status input_gradient(const lt_op_args *a, const chunk &c, int64_t t, int64_t n)
{
    lt_gemm g = {};
    g.m = n, g.n = a->in[0]->dim[1], g.k = a->in[1]->dim[0];
    g.a = c.logits, g.lda = g.k;
    g.b = a->in[1]->data, g.ldb = g.n;
    g.c = row_at(a->din[0], t), g.ldc = g.n;
    g.ab_dtype = a->in[0]->dtype, g.c_dtype = a->din[0]->dtype;
    g.accumulate = (a->add & LT_IN(0)) != 0;
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

// dw = delta^T h; chunks after the first add
static lt_status weight_gradient(const lt_op_args *a, const chunk &c, int64_t t, int64_t n)
{
    lt_gemm g = {};
    g.m = a->in[1]->dim[0], g.n = a->in[0]->dim[1], g.k = n;
    g.a = c.logits, g.lda = g.m, g.trans_a = true;
    g.b = row_at(a->in[0], t), g.ldb = g.n;
    g.c = a->din[1]->data, g.ldc = g.n;
    g.ab_dtype = a->in[0]->dtype, g.c_dtype = a->din[1]->dtype;
    g.accumulate = t > 0 || (a->add & LT_IN(1)) != 0;
    return lt_cuda_gemm(a->run->device, a->run->stream, &g);
}

template <typename T>
static lt_status chunk_loss(const lt_op_args *a, const chunk &c, int64_t t, int64_t n,
                            bool backward)
{
    const int64_t vocab = a->in[1]->dim[0];
    const int32_t *targets = lt_read_index(a->in[2]) + t;
    const float *kappa = (const float *)a->in[3]->data + t;
    if (vocab % 8 == 0 && vocab <= INT32_MAX && lt_aligned({c.logits}))
        return lt_launch(
            a, backward ? cross_entropy_eights<T, true> : cross_entropy_eights<T, false>, n,
            LOSS_THREADS, 0, c.logits, targets, kappa, c.losses + t, (int)(vocab / 8));
    const lt_reader z = {c.logits, a->in[0]->dtype == LT_BF16};
    const lt_writer delta = {backward ? c.logits : NULL, z.bf16, false};
    return lt_launch(a, cross_entropy, n, LT_BLOCK, 0, z, targets, lt_reader{kappa, false}, delta,
                     c.losses + t, vocab);
}

static lt_status one_chunk(const lt_op_args *a, const chunk &c, int64_t t, int64_t n, bool backward)
{
    LT_TRY(logits(a, c, t, n));
    LT_TRY(a->in[0]->dtype == LT_BF16 ? chunk_loss<lt_bf16>(a, c, t, n, backward)
                                      : chunk_loss<float>(a, c, t, n, backward));
    if (backward && a->din[0])
        LT_TRY(input_gradient(a, c, t, n));
    if (backward && a->din[1])
        LT_TRY(weight_gradient(a, c, t, n));
    return LT_OK;
}

static lt_status all_chunks(const lt_op_args *a, bool backward)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_indices(a, 2, "targets", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0];
    if (n == 0) {
        if (a->out[0])
            LT_TRY(lt_cuda_check(cudaMemsetAsync(a->out[0]->data, 0, sizeof(float), lt_queue_of(a)),
                                 a->def->name));
        return backward ? lt_zero_grad_cuda(a, 1) : LT_OK;
    }
    const chunk c = chunk_in(a);
    for (int64_t t = 0; t < n; t += c.rows)
        LT_TRY(one_chunk(a, c, t, lt_min_i64(c.rows, n - t), backward));
    if (!a->out[0])
        return LT_OK;
    return lt_launch(a, add_losses, 1, LT_BLOCK, 0, (const double *)c.losses, n,
                     lt_write(a->out[0]));
}

lt_status lt_linear_cross_entropy_fwd_cuda(const lt_op_args *a)
{
    return all_chunks(a, false);
}

lt_status lt_linear_cross_entropy_bwd_cuda(const lt_op_args *a)
{
    return all_chunks(a, true);
}

// ---- top1

struct candidate {
    float v;
    int64_t at;
};

// The larger number, the lower place among equals; a NaN is larger than all numbers.
static __device__ candidate better(candidate a, candidate b)
{
    const bool a_nan = isnan(a.v), b_nan = isnan(b.v);
    if (a_nan != b_nan)
        return a_nan ? a : b;
    if (a.v != b.v && !a_nan)
        return a.v > b.v ? a : b;
    return a.at < b.at ? a : b;
}

__global__ static void largest(lt_reader x, int32_t *y, int64_t width)
{
    __shared__ candidate each[LT_BLOCK];
    const int64_t from = (int64_t)blockIdx.x * width;
    candidate best = {-INFINITY, width}; // beyond the row: any number of it wins
    for (int64_t j = threadIdx.x; j < width; j += LT_BLOCK)
        best = better(best, {x[from + j], j});
    each[threadIdx.x] = best;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < LT_BLOCK; i++)
        best = better(best, each[i]);
    y[blockIdx.x] = (int32_t)best.at;
}

lt_status lt_top1_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch(a, largest, a->in[0]->dim[0], LT_BLOCK, 0, lt_read(a->in[0]),
                     (int32_t *)a->out[0]->data, a->in[0]->dim[1]);
}
