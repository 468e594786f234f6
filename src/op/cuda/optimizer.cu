// SPDX-License-Identifier: Apache-2.0
// What a step does to parameters: adamw, sum_squares, clip.
#include "op/cuda/eight.cuh"
extern "C" {
#include "op/adamw.h"
#include "op/clip.h"
}

enum { P, M, V, LO }; // the in-out tensors of adamw

// ---- adamw

// An fp32 master: itself, or as a bf16 half and a signed remainder.
struct master {
    float *whole;
    uint16_t *hi;
    int16_t *lo;
    __device__ float load(int64_t i) const
    {
        if (whole)
            return whole[i];
        return __uint_as_float(((uint32_t)hi[i] << 16) + (uint32_t)(int32_t)lo[i]);
    }
    __device__ void store(int64_t i, float v) const
    {
        if (whole) {
            whole[i] = v;
            return;
        }
        const uint32_t bits = __float_as_uint(v), half = (bits + 0x8000U) >> 16;
        hi[i] = (uint16_t)half;
        lo[i] = (int16_t)(uint16_t)(bits - (half << 16));
    }
};

enum : uint32_t { HIGH = 0xffff0000U };

// `high` is a bf16 in the upper half of a word; the remainder lies in the upper half of `low`.
static __device__ float joined(uint32_t high, uint32_t low)
{
    return __uint_as_float(high + (uint32_t)((int32_t)low >> 16));
}

static __device__ uint32_t rounded(float v)
{
    return (__float_as_uint(v) + 0x8000U) & HIGH;
}

static __device__ uint32_t hi_pair(float a, float b)
{
    return (rounded(a) >> 16) | rounded(b);
}

// The remainders of two numbers: the lower halves of what is left of their bits.
static __device__ uint32_t lo_pair(float a, float b)
{
    return ((__float_as_uint(a) - rounded(a)) & 0xffffU) |
           ((__float_as_uint(b) - rounded(b)) << 16);
}

// What a step does to a number, the same for all numbers of a tensor.
struct rates {
    float clip, keep, lr, beta1, beta2, rest1, rest2, m_correction, v_correction, eps;
    __device__ rates(const double *scalars, const lt_adamw_attr &c)
    {
        const double rate = scalars[LT_SCALAR_LR] * c.lr_scale;
        clip = (float)scalars[LT_SCALAR_CLIP];
        keep = (float)(1.0 - rate * c.weight_decay), lr = (float)rate;
        beta1 = (float)c.beta1, beta2 = (float)c.beta2;
        rest1 = (float)(1.0 - c.beta1), rest2 = (float)(1.0 - c.beta2);
        m_correction = (float)scalars[LT_SCALAR_M_CORRECTION];
        v_correction = (float)scalars[LT_SCALAR_V_CORRECTION];
        eps = (float)c.eps;
    }
    /** m and v become the new ones; gives the new p. */
    __device__ float step(float grad, float p, float &m, float &v) const
    {
        const float g = grad * clip;
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        const float m_hat = m * m_correction, v_hat = v * v_correction;
        return p * keep - lr * (m_hat / (sqrtf(v_hat) + eps));
    }
};

__global__ static void adamw(const float *grad, const double *scalars, master p, float *m, float *v,
                             lt_adamw_attr c, int64_t from, int64_t n)
{
    const int64_t i = from + lt_thread_number();
    if (i < n)
        p.store(i, rates(scalars, c).step(grad[i], p.load(i), m[i], v[i]));
}

// Four numbers to a thread; n counts fours. SPLIT: the master is in two halves.
template <bool SPLIT>
__global__ static void adamw_fours(const float *grad, const double *scalars, master p, float *m,
                                   float *v, lt_adamw_attr c, int64_t n)
{
    const int64_t at = lt_thread_number();
    if (at >= n)
        return;
    float4 g = ((const float4 *)grad)[at], m4 = ((float4 *)m)[at], v4 = ((float4 *)v)[at], p4;
    uint2 hi, lo;
    if (SPLIT) {
        hi = ((const uint2 *)p.hi)[at];
        lo = ((const uint2 *)p.lo)[at];
        p4 = make_float4(joined(hi.x << 16, lo.x << 16), joined(hi.x & HIGH, lo.x),
                         joined(hi.y << 16, lo.y << 16), joined(hi.y & HIGH, lo.y));
    } else {
        p4 = ((const float4 *)p.whole)[at];
    }
    const rates r(scalars, c);
    p4.x = r.step(g.x, p4.x, m4.x, v4.x);
    p4.y = r.step(g.y, p4.y, m4.y, v4.y);
    p4.z = r.step(g.z, p4.z, m4.z, v4.z);
    p4.w = r.step(g.w, p4.w, m4.w, v4.w);
    ((float4 *)m)[at] = m4;
    ((float4 *)v)[at] = v4;
    if (SPLIT) {
        ((uint2 *)p.hi)[at] = make_uint2(hi_pair(p4.x, p4.y), hi_pair(p4.z, p4.w));
        ((uint2 *)p.lo)[at] = make_uint2(lo_pair(p4.x, p4.y), lo_pair(p4.z, p4.w));
    } else {
        ((float4 *)p.whole)[at] = p4;
    }
}

static lt_status need_dtype(const lt_op_args *a, const lt_tensor *t, lt_dtype dtype)
{
    if (t && t->dtype == dtype)
        return LT_OK;
    return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s on a GPU needs %s, got %s", a->def->name,
                   lt_dtype_name(dtype), t ? lt_shape_print(t).s : "nothing");
}

lt_status lt_adamw_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_use(a->run->device));
    const bool split = a->out[P]->dtype == LT_BF16;
    LT_TRY(need_dtype(a, a->in[0], LT_F32));
    LT_TRY(need_dtype(a, a->out[M], LT_F32));
    LT_TRY(need_dtype(a, a->out[V], LT_F32));
    LT_TRY(split ? need_dtype(a, a->out[LO], LT_I16) : need_dtype(a, a->out[P], LT_F32));
    master p = {};
    if (split) {
        p.hi = (uint16_t *)a->out[P]->data;
        p.lo = (int16_t *)a->out[LO]->data;
    } else {
        p.whole = (float *)a->out[P]->data;
    }
    const int64_t n = lt_n_elems(a->in[0]);
    const float *grad = (const float *)a->in[0]->data;
    const double *scalars = (const double *)a->in[1]->data;
    float *m = (float *)a->out[M]->data, *v = (float *)a->out[V]->data;
    const lt_adamw_attr attr = *(const lt_adamw_attr *)a->attr;
    const int64_t fours = lt_aligned({grad, p.whole, p.hi, p.lo, m, v}) ? n / 4 : 0;
    LT_TRY(lt_launch_each(a, split ? adamw_fours<true> : adamw_fours<false>, fours, grad, scalars,
                          p, m, v, attr, fours));
    return lt_launch_each(a, adamw, n - 4 * fours, grad, scalars, p, m, v, attr, 4 * fours, n);
}

// ---- sum_squares: blocks of numbers, then one block for their sums; a single block is the sum

enum { SQUARE_BLOCKS = 1056 }; // at most: eight on each of 132 processors

static __device__ double square(float v)
{
    return (double)v * (double)v;
}

// A block takes `each` numbers, a multiple of LT_SUM_BLOCK.
template <typename T, int E>
__global__ static void square_blocks(const void *g, int64_t n, int64_t each, double *sums, bool add)
{
    const int64_t from = (int64_t)blockIdx.x * each, to = from + each < n ? from + each : n;
    double sum = 0.0;
#pragma unroll 4
    for (int64_t at = from / E + threadIdx.x; at < to / E; at += LT_BLOCK) {
        lt_pack<T, E> p;
        p.load(g, at);
#pragma unroll
        for (int k = 0; k < E; k++)
            sum += square(p[k]);
    }
    if (threadIdx.x < to % E) { // behind the last whole pack of all
        lt_pack<T, 1> p;
        p.load(g, to - to % E + threadIdx.x);
        sum += square(p[0]);
    }
    sum = lt_block_sum_f64(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = add ? sums[blockIdx.x] + sum : sum;
}

__global__ static void add_blocks(const double *sums, int64_t n, double *out, bool add)
{
    double sum = 0.0;
#pragma unroll 5
    for (int64_t i = threadIdx.x; i < n; i += LT_BLOCK)
        sum += sums[i];
    sum = lt_block_sum_f64(sum);
    if (threadIdx.x == 0)
        *out = add ? *out + sum : sum;
}

lt_status lt_sum_squares_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_use(a->run->device));
    const lt_tensor *g = a->in[0];
    const int64_t n = lt_n_elems(g), least = lt_ceil_div(n, LT_SUM_BLOCK),
                  each = lt_ceil_div(least, SQUARE_BLOCKS) * LT_SUM_BLOCK,
                  blocks = each > 0 ? lt_ceil_div(n, each) : 0;
    if (g->dtype != LT_BF16)
        LT_TRY(need_dtype(a, g, LT_F32));
    const bool aligned = lt_aligned({g->data}), add = (a->add & LT_IN(0)) != 0;
    void (*kernel)(const void *, int64_t, int64_t, double *, bool) =
        g->dtype == LT_BF16 ? (aligned ? square_blocks<lt_bf16, 8> : square_blocks<lt_bf16, 1>)
                            : (aligned ? square_blocks<float, 4> : square_blocks<float, 1>);
    double *out = (double *)a->out[0]->data;
    if (blocks == 1)
        return lt_launch(a, kernel, 1, LT_BLOCK, 0, (const void *)g->data, n, each, out, add);
    void *memory;
    LT_TRY(lt_cuda_workspace(a->run->device, a->run->stream, &memory));
    double *sums = (double *)memory;
    LT_TRY(lt_launch(a, kernel, blocks, LT_BLOCK, 0, (const void *)g->data, n, each, sums, false));
    return lt_launch(a, add_blocks, 1, LT_BLOCK, 0, (const double *)sums, blocks, out, add);
}

// ---- clip

__global__ static void clip_factor(double *norm, double *scalars, double clip)
{
    *norm = sqrt(*norm);
    const double factor = clip / (*norm + 1e-6);
    scalars[LT_SCALAR_CLIP] = clip > 0.0 && factor < 1.0 ? factor : 1.0;
}

lt_status lt_clip_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_use(a->run->device));
    return lt_launch(a, clip_factor, 1, 1, 0, (double *)a->out[0]->data, (double *)a->out[1]->data,
                     ((const lt_clip_attr *)a->attr)->clip);
}
