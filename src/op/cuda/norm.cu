// SPDX-License-Identifier: Apache-2.0
// rms_norm, add_rms_norm and layer_norm: a block for each row, then the weights' gradients as sums
// of columns.
#include "op/cuda/columns.cuh"
extern "C" {
#include "op/layer_norm.h"
#include "op/rms_norm.h"
}

// ---- rms_norm, and with the residual addition before it

// y = w * (x2 r), x2 = x + extra as it was narrowed. Without an addition x2 is x and not written.
__global__ static void rms_forward(lt_reader x, lt_reader extra, lt_reader w, lt_writer x2,
                                   lt_writer y, int64_t width, float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    float sum = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const float v = lt_narrow(x.bf16, x[from + j] + extra[from + j]);
        sum += v * v;
        x2.put(from + j, v);
    }
    const float r = rsqrtf(lt_block_sum(sum) / (float)width + eps);
    const lt_reader summed = {x2.data ? x2.data : x.data, x.bf16};
    for (int64_t j = threadIdx.x; j < width;
         j += blockDim.x) // each thread reads what it wrote itself
        y.put(from + j, w[j] * lt_narrow(x.bf16, summed[from + j] * r));
}

// dx = through + r (g - xhat mean(g xhat)) with g = dy w, xhat = x r; r is left for the weight's
// gradient
__global__ static void rms_backward(lt_reader x, lt_reader w, lt_reader dy, lt_reader through,
                                    lt_writer dx, lt_writer da, float *r_out, int64_t width,
                                    float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    float square = 0.0F, product = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        square += x[from + j] * x[from + j];
        product += dy[from + j] * w[j] * x[from + j];
    }
    const float r = rsqrtf(lt_block_sum(square) / (float)width + eps);
    const float mean = lt_block_sum(product) * r / (float)width;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const float d = through[from + j] + r * (dy[from + j] * w[j] - x[from + j] * r * mean);
        dx.put(from + j, d);
        da.put(from + j, d);
    }
    if (threadIdx.x == 0)
        r_out[blockIdx.x] = r;
}

struct rms_term {
    lt_reader x, dy;
    const float *r;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j] * x[row * width + j] * r[row];
    }
};

static lt_status rms_gradients(const lt_op_args *a, const lt_tensor *x, const lt_tensor *w,
                               const lt_tensor *dy, const lt_tensor *through, lt_writer dx,
                               lt_writer da, lt_writer dw)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t rows = lt_rows(x), width = lt_width(x);
    float *r = (float *)a->run->scratch;
    const float eps = (float)((const lt_rms_norm_attr *)a->attr)->eps;
    LT_TRY(lt_launch(a, rms_backward, rows, LT_BLOCK, 0, lt_read(x), lt_read(w), lt_read(dy),
                     lt_read(through), dx, da, r, width, eps));
    return lt_sum_columns(a, rms_term{lt_read(x), lt_read(dy), r, width}, rows, width, dw);
}

static lt_status rms_forward_of(const lt_op_args *a, const lt_tensor *extra, const lt_tensor *w,
                                const lt_tensor *x2, const lt_tensor *y)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch(a, rms_forward, lt_rows(a->in[0]), LT_BLOCK, 0, lt_read(a->in[0]),
                     lt_read(extra), lt_read(w), lt_write(x2), lt_write(y), lt_width(a->in[0]),
                     (float)((const lt_rms_norm_attr *)a->attr)->eps);
}

lt_status lt_rms_norm_fwd_cuda(const lt_op_args *a)
{
    return rms_forward_of(a, NULL, a->in[1], NULL, a->out[0]);
}

lt_status lt_rms_norm_bwd_cuda(const lt_op_args *a)
{
    return rms_gradients(a, a->in[0], a->in[1], a->dout[0], NULL, lt_write_grad(a, 0),
                         lt_write(NULL), lt_write_grad(a, 1));
}

lt_status lt_add_rms_norm_fwd_cuda(const lt_op_args *a)
{
    return rms_forward_of(a, a->in[1], a->in[2], a->out[0], a->out[1]);
}

lt_status lt_add_rms_norm_bwd_cuda(const lt_op_args *a)
{
    return rms_gradients(a, a->out[0], a->in[2], a->dout[1], a->dout[0], lt_write_grad(a, 0),
                         lt_write_grad(a, 1), lt_write_grad(a, 2));
}

// ---- layer_norm

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

__global__ static void layer_forward(lt_reader x, lt_reader w, lt_reader bias, lt_writer y,
                                     int64_t width, float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    const moments m = row_moments(x, from, width, eps);
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        y.put(from + j, (x[from + j] - m.mean) * m.r * w[j] + bias[j]);
}

// dx = r (g - mean g - xhat mean(g xhat)), g = dy w
__global__ static void layer_backward(lt_reader x, lt_reader w, lt_reader dy, lt_writer dx,
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

struct layer_term {
    lt_reader x, dy;
    const moments *m;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j] * (x[row * width + j] - m[row].mean) * m[row].r;
    }
};

static float layer_eps(const lt_op_args *a)
{
    return (float)((const lt_layer_norm_attr *)a->attr)->eps;
}

lt_status lt_layer_norm_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch(a, layer_forward, lt_rows(a->in[0]), LT_BLOCK, 0, lt_read(a->in[0]),
                     lt_read(a->in[1]), lt_read(a->in[2]), lt_write(a->out[0]), lt_width(a->in[0]),
                     layer_eps(a));
}

lt_status lt_layer_norm_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t rows = lt_rows(a->in[0]), width = lt_width(a->in[0]);
    const lt_reader x = lt_read(a->in[0]), dy = lt_read(a->dout[0]);
    moments *m = (moments *)a->run->scratch;
    LT_TRY(lt_launch(a, layer_backward, rows, LT_BLOCK, 0, x, lt_read(a->in[1]), dy,
                     lt_write_grad(a, 0), m, width, layer_eps(a)));
    LT_TRY(lt_sum_columns(a, layer_term{x, dy, m, width}, rows, width, lt_write_grad(a, 1)));
    return lt_sum_columns(a, lt_plain_term{dy, width}, rows, width, lt_write_grad(a, 2));
}
