// SPDX-License-Identifier: Apache-2.0
// Ops that work number by number: add, copy, cast, swiglu, gelu.
#include "op/cuda/common.cuh"
extern "C" {
#include "op/gelu.h"
}

__global__ static void add(lt_reader x, lt_reader y, lt_writer out, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        out.put(i, x[i] + y[i]);
}

lt_status lt_add_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, add, lt_n_elems(a->in[0]), lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_write(a->out[0]), lt_n_elems(a->in[0]));
}

lt_status lt_copy_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_copy_input(a);
}

__global__ static void convert(lt_reader from, lt_writer to, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        to.put(i, from[i]);
}

lt_status lt_cast_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, convert, lt_n_elems(a->in[0]), lt_read(a->in[0]), lt_write(a->out[0]),
                          lt_n_elems(a->in[0]));
}

lt_status lt_cast_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = a->din[0] ? lt_n_elems(a->din[0]) : 0;
    return lt_launch_each(a, convert, n, lt_read(a->dout[0]), lt_write_grad(a, 0), n);
}

// ---- swiglu

static __device__ float sigmoid(float g)
{
    return 1.0F / (1.0F + expf(-g)); // expf may reach infinity: the quotient is then a correct zero
}

__global__ static void swiglu(lt_reader gate, lt_reader up, lt_writer y, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        y.put(i, gate[i] * sigmoid(gate[i]) * up[i]);
}

// d silu(g)/dg = s + g s (1 - s), where s = sigmoid(g)
__global__ static void swiglu_backward(lt_reader gate, lt_reader up, lt_reader dy, lt_writer dgate,
                                       lt_writer dup, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const float g = gate[i], s = sigmoid(g), d = dy[i];
    dgate.put(i, d * up[i] * (s + g * s * (1.0F - s)));
    dup.put(i, d * g * s);
}

lt_status lt_swiglu_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, swiglu, lt_n_elems(a->in[0]), lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_write(a->out[0]), lt_n_elems(a->in[0]));
}

lt_status lt_swiglu_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, swiglu_backward, lt_n_elems(a->in[0]), lt_read(a->in[0]),
                          lt_read(a->in[1]), lt_read(a->dout[0]), lt_write_grad(a, 0),
                          lt_write_grad(a, 1), lt_n_elems(a->in[0]));
}

// ---- gelu

static __device__ float normal_cdf(float x)
{
    return normcdff(x); // keeps its digits far to the left
}

static __device__ float bend(float x)
{
    return tanhf(0.79788456F * (x + 0.044715F * x * x * x)); // sqrt(2 / pi)
}

__global__ static void gelu(lt_reader x, lt_writer y, lt_gelu_kind kind, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        y.put(i, kind == LT_GELU_ERF ? x[i] * normal_cdf(x[i]) : 0.5F * x[i] * (1.0F + bend(x[i])));
}

__global__ static void gelu_backward(lt_reader x, lt_reader dy, lt_writer dx, lt_gelu_kind kind,
                                     int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const float v = x[i];
    float slope;
    if (kind == LT_GELU_ERF) {
        slope = normal_cdf(v) + v * 0.39894228F * expf(-0.5F * v * v); // 1 / sqrt(2 pi)
    } else {
        const float t = bend(v);
        slope = 0.5F * (1.0F + t) +
                0.5F * v * (1.0F - t * t) * 0.79788456F * (1.0F + 0.134145F * v * v);
    }
    dx.put(i, dy[i] * slope);
}

lt_status lt_gelu_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, gelu, lt_n_elems(a->in[0]), lt_read(a->in[0]), lt_write(a->out[0]),
                          ((const lt_gelu_attr *)a->attr)->kind, lt_n_elems(a->in[0]));
}

lt_status lt_gelu_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_launch_each(a, gelu_backward, lt_n_elems(a->in[0]), lt_read(a->in[0]),
                          lt_read(a->dout[0]), lt_write_grad(a, 0),
                          ((const lt_gelu_attr *)a->attr)->kind, lt_n_elems(a->in[0]));
}
