// SPDX-License-Identifier: Apache-2.0
// What all CUDA kernels share: tensors of either dtype as numbers, sums over a block, launches.
#ifndef LT_OP_CUDA_COMMON_CUH
#define LT_OP_CUDA_COMMON_CUH

#include <cuda_bf16.h>

#include "device/cuda/cuda.h"
#include "op/cuda/kernels.h"
extern "C" {
#include "op/op.h"
}

enum { LT_BLOCK = 256 }; // threads of a block where nothing speaks for another number

// ---- tensors

/**
 * What a tensor holds, as floats. One that is not given reads as zeros: a gradient that nobody
 * sent.
 */
struct lt_reader {
    const void *data;
    bool bf16;
    __device__ float operator[](int64_t i) const
    {
        if (!data)
            return 0.0F;
        return bf16 ? __bfloat162float(((const __nv_bfloat16 *)data)[i]) : ((const float *)data)[i];
    }
};

/** Where results go, narrowed to nearest even. Nothing happens where nobody asks. */
struct lt_writer {
    void *data;
    bool bf16, add;
    __device__ void put(int64_t i, float v) const
    {
        if (!data)
            return;
        if (bf16) {
            __nv_bfloat16 *at = (__nv_bfloat16 *)data + i;
            *at = __float2bfloat16_rn(add ? __bfloat162float(*at) + v : v);
        } else {
            float *at = (float *)data + i;
            *at = add ? *at + v : v;
        }
    }
};

/** t may be NULL. */
static inline lt_reader lt_read(const lt_tensor *t)
{
    return {t ? t->data : NULL, t && t->dtype == LT_BF16};
}

static inline lt_writer lt_write(const lt_tensor *t)
{
    return {t ? t->data : NULL, t && t->dtype == LT_BF16, false};
}

/** Gradient i: overwrites, or adds where its bit is set. */
static inline lt_writer lt_write_grad(const lt_op_args *a, int i)
{
    return {a->din[i] ? a->din[i]->data : NULL, a->din[i] && a->din[i]->dtype == LT_BF16,
            (a->add & LT_IN(i)) != 0};
}

static inline const int32_t *lt_read_index(const lt_tensor *t)
{
    return (const int32_t *)t->data;
}

/** v as it reads after a store in bf16, if that is the dtype. */
static __device__ inline float lt_narrow(bool bf16, float v)
{
    return bf16 ? __bfloat162float(__float2bfloat16_rn(v)) : v;
}

// ---- sums

static __device__ inline float lt_warp_sum(float v)
{
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffU, v, step);
    return v;
}

static __device__ inline float lt_warp_max(float v)
{
    for (int step = 16; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, step));
    return v;
}

/** Sum over the threads of a block, the same for all of them; all must call it. Whole warps. */
static __device__ inline float lt_block_sum(float v)
{
    __shared__ float part[32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    v = lt_warp_sum(v);
    __syncthreads(); // of a sum before this one
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    return lt_warp_sum(lane < (int)blockDim.x / 32 ? part[lane] : 0.0F);
}

static __device__ inline float lt_block_max(float v)
{
    __shared__ float part[32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    v = lt_warp_max(v);
    __syncthreads();
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    return lt_warp_max(lane < (int)blockDim.x / 32 ? part[lane] : -INFINITY);
}

/** The same in double, for a block of LT_BLOCK; once in a kernel. */
static __device__ inline double lt_block_sum_f64(double v)
{
    __shared__ double part[LT_BLOCK / 32];
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffU, v, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int warp = 1; warp < LT_BLOCK / 32; warp++)
        v += part[warp];
    return v;
}

// ---- launches

static inline cudaStream_t lt_queue_of(const lt_op_args *a)
{
    return a->run->stream->queue;
}

/**
 * First in every kernel: makes the device current, and refuses dtypes that these kernels do not
 * read.
 */
static inline lt_status lt_cuda_begin(const lt_op_args *a)
{
    const lt_tensor *t[2 * (LT_MAX_IN + LT_MAX_OUT)];
    int n = 0;
    for (int i = 0; i < LT_MAX_IN; i++) {
        t[n++] = a->in[i];
        t[n++] = a->din[i];
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        t[n++] = a->out[i];
        t[n++] = a->dout[i];
    }
    for (int i = 0; i < n; i++)
        if (t[i] && (t[i]->dtype == LT_F64 || t[i]->dtype == LT_F16))
            return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s works in f32 and bf16 on a GPU, not in %s",
                           a->def->name, lt_dtype_name(t[i]->dtype));
    return lt_cuda_use(a->run->device);
}

enum { LT_SHARED_WITHOUT_ASKING = 48 << 10 }; // bytes a block gets by itself

/**
 * Queue a kernel on the call's stream. No blocks: nothing to do. shared: bytes of dynamic shared
 * memory.
 */
template <typename... P, typename... A>
static lt_status lt_launch_block(const lt_op_args *a, void (*kernel)(P...), int64_t blocks,
                                 dim3 threads, size_t shared, A... args)
{
    if (blocks == 0)
        return LT_OK;
    if (blocks > INT32_MAX)
        return LT_FAIL(LT_ERR_SHAPE,
                       "op %s would need %lld blocks on a GPU, which starts 2147483647 at most",
                       a->def->name, (long long)blocks);
    if (shared > LT_SHARED_WITHOUT_ASKING)
        LT_TRY(lt_cuda_check(cudaFuncSetAttribute((const void *)kernel,
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  (int)shared),
                             a->def->name));
    kernel<<<(unsigned)blocks, threads, shared, lt_queue_of(a)>>>(args...);
    return lt_cuda_check(cudaGetLastError(), a->def->name);
}

template <typename... P, typename... A>
static lt_status lt_launch(const lt_op_args *a, void (*kernel)(P...), int64_t blocks, int threads,
                           size_t shared, A... args)
{
    return lt_launch_block(a, kernel, blocks, dim3((unsigned)threads), shared, args...);
}

/** One thread for each of n elements. */
template <typename... P, typename... A>
static lt_status lt_launch_each(const lt_op_args *a, void (*kernel)(P...), int64_t n, A... args)
{
    return lt_launch(a, kernel, lt_ceil_div(n, LT_BLOCK), LT_BLOCK, 0, args...);
}

static __device__ inline int64_t lt_thread_number()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/** Zeros into gradient i unless it is added to. */
static inline lt_status lt_zero_grad_cuda(const lt_op_args *a, int i)
{
    if (!a->din[i] || (a->add & LT_IN(i)) || lt_n_elems(a->din[i]) == 0)
        return LT_OK;
    return lt_cuda_check(
        cudaMemsetAsync(a->din[i]->data, 0, lt_tensor_bytes(a->din[i]), lt_queue_of(a)),
        a->def->name);
}

/** out[0] becomes a copy of in[0], which may be the same memory. */
static inline lt_status lt_copy_input(const lt_op_args *a)
{
    const size_t bytes = lt_tensor_bytes(a->in[0]);
    if (bytes == 0 || a->out[0]->data == a->in[0]->data)
        return LT_OK;
    return lt_cuda_check(cudaMemcpyAsync(a->out[0]->data, a->in[0]->data, bytes,
                                         cudaMemcpyDeviceToDevice, lt_queue_of(a)),
                         a->def->name);
}
#endif
