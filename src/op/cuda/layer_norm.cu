// SPDX-License-Identifier: Apache-2.0
// layer_norm: rows in registers where they are whole eights of one dtype, else a block for each
// row.
#include "op/cuda/columns.cuh"
#include "op/cuda/eight.cuh"
extern "C" {
#include "op/layer_norm.h"
}

// ---- any width and mixture of dtypes

struct moments {
    float mean, r; // r = (var + eps)^-1/2
};

static __device__ moments row_moments(lt_reader x, int64_t from, int64_t width, float eps)
{
    float sum = 0.0F, square = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        sum += x[from + j];
    const float mean = lt_block_sum(sum) / (float)width;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        square += (x[from + j] - mean) * (x[from + j] - mean);
    return {mean, rsqrtf(lt_block_sum(square) / (float)width + eps)};
}

__global__ static void plain_forward(lt_reader x, lt_reader w, lt_reader bias, lt_writer y,
                                     int64_t width, float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    const moments m = row_moments(x, from, width, eps);
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        y.put(from + j, (x[from + j] - m.mean) * m.r * w[j] + bias[j]);
}

// dx = r (g - mean g - xhat mean(g xhat)), g = dy w
__global__ static void plain_backward(lt_reader x, lt_reader w, lt_reader dy, lt_writer dx,
                                      moments *out, int64_t width, float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    const moments m = row_moments(x, from, width, eps);
    float g_sum = 0.0F, gx_sum = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const float g = dy[from + j] * w[j];
        g_sum += g;
        gx_sum += g * (x[from + j] - m.mean) * m.r;
    }
    const float mean_g = lt_block_sum(g_sum) / (float)width,
                mean_gx = lt_block_sum(gx_sum) / (float)width;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        dx.put(from + j,
               m.r * (dy[from + j] * w[j] - mean_g - (x[from + j] - m.mean) * m.r * mean_gx));
    if (threadIdx.x == 0)
        out[blockIdx.x] = m;
}

struct weight_term {
    lt_reader x, dy;
    const moments *m;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j] * (x[row * width + j] - m[row].mean) * m[row].r;
    }
};

static lt_status forward_plainly(const lt_op_args *a, float eps)
{
    return lt_launch(a, plain_forward, lt_rows(a->in[0]), LT_BLOCK, 0, lt_read(a->in[0]),
                     lt_read(a->in[1]), lt_read(a->in[2]), lt_write(a->out[0]), lt_width(a->in[0]),
                     eps);
}

static lt_status backward_plainly(const lt_op_args *a, float eps)
{
    const int64_t rows = lt_rows(a->in[0]), width = lt_width(a->in[0]);
    const lt_reader x = lt_read(a->in[0]), dy = lt_read(a->dout[0]);
    moments *m = (moments *)a->run->scratch;
    LT_TRY(lt_launch(a, plain_backward, rows, LT_BLOCK, 0, x, lt_read(a->in[1]), dy,
                     lt_write_grad(a, 0), m, width, eps));
    LT_TRY(lt_sum_columns(a, weight_term{x, dy, m, width}, rows, width, lt_write_grad(a, 1)));
    return lt_sum_columns(a, lt_plain_term{dy, width}, rows, width, lt_write_grad(a, 2));
}

// ---- rows in registers

// Numbers behind the end of a row are no part of it: eights there are left out of the variance.
template <typename T, int N, int WARPS>
static __device__ float mean_of(const lt_eight<T> (&x)[N], float width, int turn)
{
    float sum[1] = {0.0F};
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[0] += x[i][k];
    lt_team<N, WARPS>::sum(sum, turn);
    return sum[0] / width;
}

struct forward_rows {
    const void *x, *w, *bias;
    void *y;
    int64_t rows;
    int eights;
    float width, eps;
};

template <typename T, int N, int WARPS>
__global__ static void __launch_bounds__((lt_team<N, WARPS>::threads))
    forward_in_registers(forward_rows a)
{
    typedef lt_team<N, WARPS> team;
    const int64_t row = team::number(), first = row * a.eights;
    if (row >= a.rows)
        return;
    lt_eight<T> x[N];
    team::load(x, a.x, first, a.eights);
    const float mean = mean_of<T, N, WARPS>(x, a.width, 0);
    float square[1] = {0.0F};
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (team::lane() + i * team::size < a.eights)
                square[0] += (x[i][k] - mean) * (x[i][k] - mean);
    team::sum(square, 1);
    const float r = rsqrtf(square[0] / a.width + a.eps);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = team::lane() + i * team::size;
        if (at >= a.eights)
            continue;
        lt_eight<T> w, bias;
        float v[8];
        w.fetch(a.w, at);
        bias.fetch(a.bias, at);
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = (x[i][k] - mean) * r * w[k] + bias[k];
        x[i].set(v);
        x[i].store(a.y, first + at);
    }
}

struct backward_rows {
    const void *x, *w, *dy;
    lt_sink dx;
    float *sums; // of dw, then of dbias, for each part
    int64_t rows, rows_each, parts;
    int eights;
    float width, eps;
};

// A team goes through a part of the rows and keeps its sums of the weight's and the bias's
// gradients.
template <typename T, int N, int WARPS, int BLOCKS>
__global__ static void __launch_bounds__((lt_team<N, WARPS>::threads), BLOCKS)
    backward_in_registers(backward_rows a)
{
    typedef lt_team<N, WARPS> team;
    const int64_t part = team::number();
    if (part >= a.parts)
        return;
    float dw[N][8] = {}, dbias[N][8] = {};
    lt_eight<T> w[N], x[N], dy[N];
    const int64_t from = part * a.rows_each,
                  to = from + a.rows_each < a.rows ? from + a.rows_each : a.rows;
    for (int64_t row = from; row < to; row++) {
        const int64_t first = row * a.eights;
        team::load(x, a.x, first, a.eights);
        team::load(dy, a.dy, first, a.eights);
        team::refetch(w, a.w, a.eights);
        const float mean = mean_of<T, N, WARPS>(x, a.width, 0);
        float sum[3] = {0.0F, 0.0F, 0.0F}; // (x - mean)^2, g, g (x - mean)
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const float g = dy[i][k] * w[i][k], off = x[i][k] - mean;
                if (team::lane() + i * team::size < a.eights)
                    sum[0] += off * off;
                sum[1] += g;
                sum[2] += g * off;
            }
        }
        team::sum(sum, 1);
        const float r = rsqrtf(sum[0] / a.width + a.eps), mean_g = sum[1] / a.width,
                    mean_gx = sum[2] * r / a.width;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int at = team::lane() + i * team::size;
            float d[8];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const float hat = (x[i][k] - mean) * r;
                d[k] = r * (dy[i][k] * w[i][k] - mean_g - hat * mean_gx);
                dw[i][k] += dy[i][k] * hat;
                dbias[i][k] += dy[i][k];
            }
            if (at < a.eights)
                a.dx.put<T>(first + at, d);
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = team::lane() + i * team::size;
        if (at < a.eights) {
            lt_sink{a.sums, false}.put<float>(2 * part * a.eights + at, dw[i]);
            lt_sink{a.sums, false}.put<float>((2 * part + 1) * a.eights + at, dbias[i]);
        }
    }
}

// ---- which form of the fast kernels a width takes

template <typename T, int N, int WARPS> static constexpr lt_row_kernel<forward_rows> fwd()
{
    return {N * lt_team<N, WARPS>::size, lt_team<N, WARPS>::threads, lt_team<N, WARPS>::per_block,
            0, forward_in_registers<T, N, WARPS>};
}

template <typename T, int N, int WARPS, int BLOCKS>
static constexpr lt_row_kernel<backward_rows> bwd()
{
    return {N * lt_team<N, WARPS>::size, lt_team<N, WARPS>::threads, lt_team<N, WARPS>::per_block,
            BLOCKS * LT_ROW_SMS * lt_team<N, WARPS>::per_block,
            backward_in_registers<T, N, WARPS, BLOCKS>};
}

template <typename T> static const lt_row_kernel<forward_rows> *forward_for(int64_t eights)
{
    static const lt_row_kernel<forward_rows> kernels[] = {
        fwd<T, 1, 1>(), fwd<T, 2, 1>(), fwd<T, 4, 1>(), fwd<T, 5, 1>(),
        fwd<T, 8, 1>(), fwd<T, 4, 4>(), fwd<T, 5, 4>(), fwd<T, 4, 8>()};
    return lt_row_kernel_for(kernels, eights);
}

template <typename T> static const lt_row_kernel<backward_rows> *backward_for(int64_t eights)
{
    static const lt_row_kernel<backward_rows> kernels[] = {bwd<T, 1, 1, 3>(), bwd<T, 1, 4, 6>(),
                                                           bwd<T, 1, 5, 5>(), bwd<T, 2, 4, 4>(),
                                                           bwd<T, 2, 8, 2>(), bwd<T, 4, 8, 1>()};
    return lt_row_kernel_for(kernels, eights);
}

template <typename T> static lt_status forward(const lt_op_args *a, float eps)
{
    const int64_t width = lt_width(a->in[0]);
    const lt_row_kernel<forward_rows> *k = forward_for<T>(width / 8);
    const forward_rows rows = {a->in[0]->data,    a->in[1]->data,   a->in[2]->data, a->out[0]->data,
                               lt_rows(a->in[0]), (int)(width / 8), (float)width,   eps};
    if (!k || width % 8 != 0 || !lt_aligned({rows.x, rows.w, rows.bias, rows.y}))
        return forward_plainly(a, eps);
    return lt_launch(a, k->run, lt_ceil_div(rows.rows, k->per_block), k->threads, 0, rows);
}

template <typename T> static lt_status backward(const lt_op_args *a, float eps)
{
    const int64_t width = lt_width(a->in[0]), n = lt_rows(a->in[0]);
    const lt_row_kernel<backward_rows> *k = backward_for<T>(width / 8);
    const lt_writer dx = lt_write_grad(a, 0);
    backward_rows rows = {};
    rows.x = a->in[0]->data, rows.w = a->in[1]->data;
    rows.dy = a->dout[0] ? a->dout[0]->data : NULL;
    rows.dx = lt_sink_of(dx);
    if (!k || !rows.dy || width % 8 != 0 || !lt_has_dtype(dx, a->in[0]->dtype) ||
        !lt_aligned({rows.x, rows.w, rows.dy, dx.data}))
        return backward_plainly(a, eps);
    lt_parts p;
    LT_TRY(lt_take_parts(a, n, 2 * width, k->parts, &p));
    rows.sums = p.sums, rows.rows = n, rows.rows_each = p.rows_each, rows.parts = p.n;
    rows.eights = (int)(width / 8), rows.width = (float)width, rows.eps = eps;
    LT_TRY(lt_launch(a, k->run, lt_ceil_div(p.n, k->per_block), k->threads, 0, rows));
    LT_TRY(lt_add_parts(a, p, 0, width, lt_write_grad(a, 1)));
    return lt_add_parts(a, p, width, width, lt_write_grad(a, 2));
}

// ---- the table's entries

static float eps_of(const lt_op_args *a)
{
    return (float)((const lt_layer_norm_attr *)a->attr)->eps;
}

lt_status lt_layer_norm_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return a->in[0]->dtype == LT_BF16 ? forward<lt_bf16>(a, eps_of(a))
                                      : forward<float>(a, eps_of(a));
}

lt_status lt_layer_norm_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return a->in[0]->dtype == LT_BF16 ? backward<lt_bf16>(a, eps_of(a))
                                      : backward<float>(a, eps_of(a));
}
