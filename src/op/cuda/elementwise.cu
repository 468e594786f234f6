// SPDX-License-Identifier: Apache-2.0
// Ops that work number by number: add, copy, cast, swiglu, gelu.
#include "op/cuda/map.cuh"
extern "C" {
#include "op/gelu.h"
}

struct sum_of {
    static constexpr int n_in = 2, n_out = 1;
    __device__ void operator()(const float (&x)[2], float (&y)[1]) const
    {
        y[0] = x[0] + x[1];
    }
};

lt_status lt_add_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_map<sum_of>(a, {}, {{lt_read(a->in[0]), lt_read(a->in[1])}, {lt_write(a->out[0])}},
                          lt_n_elems(a->in[0]));
}

lt_status lt_copy_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_copy_input(a);
}

struct same_as {
    static constexpr int n_in = 1, n_out = 1;
    __device__ void operator()(const float (&x)[1], float (&y)[1]) const
    {
        y[0] = x[0];
    }
};

lt_status lt_cast_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_map<same_as>(a, {}, {{lt_read(a->in[0])}, {lt_write(a->out[0])}},
                           lt_n_elems(a->in[0]));
}

lt_status lt_cast_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_map<same_as>(a, {}, {{lt_read(a->dout[0])}, {lt_write_grad(a, 0)}},
                           a->din[0] ? lt_n_elems(a->din[0]) : 0);
}

// ---- swiglu

static __device__ float sigmoid(float g)
{
    // expf may reach infinity: the quotient is then a correct zero
    return __fdividef(1.0F, 1.0F + expf(-g));
}

struct swiglu {
    static constexpr int n_in = 2, n_out = 1;
    __device__ void operator()(const float (&x)[2], float (&y)[1]) const
    {
        y[0] = x[0] * sigmoid(x[0]) * x[1];
    }
};

// d silu(g)/dg = s + g s (1 - s), where s = sigmoid(g)
struct swiglu_backward {
    static constexpr int n_in = 3, n_out = 2; // gate, up, dy; dgate, dup
    __device__ void operator()(const float (&x)[3], float (&y)[2]) const
    {
        const float g = x[0], s = sigmoid(g), d = x[2];
        y[0] = d * x[1] * (s + g * s * (1.0F - s));
        y[1] = d * g * s;
    }
};

lt_status lt_swiglu_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_map<swiglu>(a, {}, {{lt_read(a->in[0]), lt_read(a->in[1])}, {lt_write(a->out[0])}},
                          lt_n_elems(a->in[0]));
}

lt_status lt_swiglu_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    return lt_map<swiglu_backward>(a, {},
                                   {{lt_read(a->in[0]), lt_read(a->in[1]), lt_read(a->dout[0])},
                                    {lt_write_grad(a, 0), lt_write_grad(a, 1)}},
                                   lt_n_elems(a->in[0]));
}

// ---- gelu

// erfc(|x| / sqrt 2) / 2 or one less that: Numerical Recipes' erfcc, whose relative error is below
// 1.2e-7 everywhere, so that digits far to the left are kept
static __device__ float normal_cdf(float x)
{
    const float z = 0.70710678F * fabsf(x), t = __fdividef(1.0F, fmaf(0.5F, z, 1.0F));
    float p = 0.17087277F;
    p = fmaf(p, t, -0.82215223F);
    p = fmaf(p, t, 1.48851587F);
    p = fmaf(p, t, -1.13520398F);
    p = fmaf(p, t, 0.27886807F);
    p = fmaf(p, t, -0.18628806F);
    p = fmaf(p, t, 0.09678418F);
    p = fmaf(p, t, 0.37409196F);
    p = fmaf(p, t, 1.00002368F);
    p = fmaf(p, t, -1.26551223F);
    const float tail = 0.5F * t * expf(fmaf(-z, z, p));
    return x < 0.0F ? tail : 1.0F - tail;
}

// (1 + tanh u) / 2 = sigmoid(2 u): without the difference, which far to the left has no digits
static __device__ float bent_cdf(float x)
{
    return sigmoid(2.0F * 0.79788456F * (x + 0.044715F * x * x * x)); // sqrt(2 / pi)
}

struct gelu_erf {
    static constexpr int n_in = 1, n_out = 1;
    __device__ void operator()(const float (&x)[1], float (&y)[1]) const
    {
        y[0] = x[0] * normal_cdf(x[0]);
    }
};

struct gelu_tanh {
    static constexpr int n_in = 1, n_out = 1;
    __device__ void operator()(const float (&x)[1], float (&y)[1]) const
    {
        y[0] = x[0] * bent_cdf(x[0]);
    }
};

struct gelu_erf_backward {
    static constexpr int n_in = 2, n_out = 1; // x, dy
    __device__ void operator()(const float (&x)[2], float (&y)[1]) const
    {
        const float v = x[0];
        y[0] = x[1] * (normal_cdf(v) + v * 0.39894228F * expf(-0.5F * v * v)); // 1 / sqrt(2 pi)
    }
};

struct gelu_tanh_backward {
    static constexpr int n_in = 2, n_out = 1;
    __device__ void operator()(const float (&x)[2], float (&y)[1]) const
    {
        const float v = x[0], s = bent_cdf(v);
        const float slope = 2.0F * 0.79788456F * (1.0F + 0.134145F * v * v);
        y[0] = x[1] * (s + v * s * (1.0F - s) * slope);
    }
};

static bool by_erf(const lt_op_args *a)
{
    return ((const lt_gelu_attr *)a->attr)->kind == LT_GELU_ERF;
}

lt_status lt_gelu_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = lt_n_elems(a->in[0]);
    const lt_reader x = lt_read(a->in[0]);
    const lt_writer y = lt_write(a->out[0]);
    if (by_erf(a))
        return lt_map<gelu_erf>(a, {}, {{x}, {y}}, n);
    return lt_map<gelu_tanh>(a, {}, {{x}, {y}}, n);
}

lt_status lt_gelu_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = lt_n_elems(a->in[0]);
    const lt_reader x = lt_read(a->in[0]), dy = lt_read(a->dout[0]);
    const lt_writer dx = lt_write_grad(a, 0);
    if (by_erf(a))
        return lt_map<gelu_erf_backward>(a, {}, {{x, dy}, {dx}}, n);
    return lt_map<gelu_tanh_backward>(a, {}, {{x, dy}, {dx}}, n);
}
