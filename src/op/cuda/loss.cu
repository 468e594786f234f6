// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy in chunks of rows, and top1.
#include "op/cuda/common.cuh"
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

// In the order of rows, on top of the chunks before.
__global__ static void add_losses(const double *losses, int64_t n, double *sum, bool first,
                                  lt_writer out)
{
    double all = first ? 0.0 : *sum;
    for (int64_t i = 0; i < n; i++)
        all += losses[i];
    *sum = all;
    out.put(0, (float)all);
}

enum { LOSS_ROWS = 128 }; // alive together where the loss alone is asked for

// Of a row: its logits, and its loss.
static int64_t row_bytes(const lt_op_args *a)
{
    return a->in[1]->dim[0] * (int64_t)lt_dtype_bytes(a->in[0]->dtype) + (int64_t)sizeof(double);
}

size_t lt_linear_cross_entropy_scratch_cuda(const lt_op_args *a, lt_pass pass)
{
    int64_t rows = ((const lt_linear_cross_entropy_attr *)a->attr)->chunk;
    if (pass == LT_FORWARD)
        rows = lt_min_i64(rows, LOSS_ROWS);
    return (size_t)(lt_min_i64(rows, a->in[0]->dim[0]) * row_bytes(a)) + 2 * sizeof(double);
}

// The call's scratch: logits of a chunk, a loss for each of its rows, the sum.
struct chunk {
    int64_t rows; // room for that many
    void *logits;
    double *losses, *sum;
};

static chunk chunk_in(const lt_op_args *a)
{
    const int64_t row = row_bytes(a), number = (int64_t)sizeof(double);
    chunk c = {};
    c.rows = ((int64_t)a->run->scratch_bytes - 2 * number) / row;
    LT_ASSERT(c.rows >= 1);
    c.rows = lt_min_i64(c.rows, a->in[0]->dim[0]);
    c.logits = a->run->scratch;
    c.losses = (double *)((char *)c.logits + lt_round_up(c.rows * (row - number), number));
    c.sum = c.losses + c.rows;
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

static lt_status one_chunk(const lt_op_args *a, const chunk &c, int64_t t, int64_t n, bool backward)
{
    const int64_t vocab = a->in[1]->dim[0];
    const lt_reader z = {c.logits, a->in[0]->dtype == LT_BF16},
                    kappa = {(const float *)a->in[3]->data + t, false};
    const lt_writer delta = {backward ? c.logits : NULL, z.bf16, false};
    LT_TRY(logits(a, c, t, n));
    LT_TRY(lt_launch(a, cross_entropy, n, LT_BLOCK, 0, z, lt_read_index(a->in[2]) + t, kappa, delta,
                     c.losses, vocab));
    LT_TRY(lt_launch(a, add_losses, 1, 1, 0, (const double *)c.losses, n, c.sum, t == 0,
                     lt_write(a->out[0])));
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
    return LT_OK;
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
