// SPDX-License-Identifier: Apache-2.0
// What a step does to parameters: adamw, sum_squares, clip.
#include "op/cuda/common.cuh"
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

__global__ static void adamw(const float *grad, const double *scalars, master p, float *m, float *v,
                             lt_adamw_attr c, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const double lr = scalars[LT_SCALAR_LR] * c.lr_scale;
    const float keep = (float)(1.0 - lr * c.weight_decay), beta1 = (float)c.beta1,
                beta2 = (float)c.beta2;
    const float g = grad[i] * (float)scalars[LT_SCALAR_CLIP];
    const float m_new = beta1 * m[i] + (float)(1.0 - c.beta1) * g;
    const float v_new = beta2 * v[i] + (float)(1.0 - c.beta2) * g * g;
    const float m_hat = m_new * (float)scalars[LT_SCALAR_M_CORRECTION],
                v_hat = v_new * (float)scalars[LT_SCALAR_V_CORRECTION];
    p.store(i, p.load(i) * keep - (float)lr * (m_hat / (sqrtf(v_hat) + (float)c.eps)));
    m[i] = m_new;
    v[i] = v_new;
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
    return lt_launch_each(a, adamw, n, (const float *)a->in[0]->data,
                          (const double *)a->in[1]->data, p, (float *)a->out[M]->data,
                          (float *)a->out[V]->data, *(const lt_adamw_attr *)a->attr, n);
}

// ---- sum_squares: a block for each LT_SUM_BLOCK numbers, then one block for their sums

static __device__ double block_sum(double v)
{
    __shared__ double part[LT_BLOCK];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = LT_BLOCK / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

__global__ static void square_blocks(lt_reader g, int64_t n, double *sums)
{
    const int64_t from = (int64_t)blockIdx.x * LT_SUM_BLOCK,
                  to = from + LT_SUM_BLOCK < n ? from + LT_SUM_BLOCK : n;
    double sum = 0.0;
    for (int64_t i = from + threadIdx.x; i < to; i += LT_BLOCK)
        sum += (double)g[i] * (double)g[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

__global__ static void add_blocks(const double *sums, int64_t n, double *out, bool add)
{
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += LT_BLOCK)
        sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out = add ? *out + sum : sum;
}

lt_status lt_sum_squares_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_use(a->run->device));
    const int64_t n = lt_n_elems(a->in[0]), blocks = lt_ceil_div(n, LT_SUM_BLOCK);
    if (a->in[0]->dtype != LT_BF16)
        LT_TRY(need_dtype(a, a->in[0], LT_F32));
    if (blocks > LT_CUDA_WORKSPACE_BYTES / (int64_t)sizeof(double))
        return LT_FAIL(
            LT_ERR_UNSUPPORTED, "op sum_squares on a GPU takes up to %lld numbers, got %s",
            (long long)LT_CUDA_WORKSPACE_BYTES / 8 * LT_SUM_BLOCK, lt_shape_print(a->in[0]).s);
    void *sums;
    LT_TRY(lt_cuda_workspace(a->run->device, a->run->stream, &sums));
    LT_TRY(lt_launch(a, square_blocks, blocks, LT_BLOCK, 0, lt_read(a->in[0]), n, (double *)sums));
    return lt_launch(a, add_blocks, 1, LT_BLOCK, 0, (const double *)sums, blocks,
                     (double *)a->out[0]->data, (a->add & LT_IN(0)) != 0);
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
