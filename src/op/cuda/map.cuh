// SPDX-License-Identifier: Apache-2.0
// Ops that work number by number: one kernel template over what is done with a number.
#ifndef LT_OP_CUDA_MAP_CUH
#define LT_OP_CUDA_MAP_CUH

#include "op/cuda/eight.cuh"

template <typename F> struct lt_map_args {
    lt_reader in[F::n_in];
    lt_writer out[F::n_out];
};

enum { LT_MAP_EIGHTS = 2 }; // alive in a thread of a map with one input

// TI and TO: dtypes of all inputs and of all outputs. n is a multiple of eight.
template <typename TI, typename TO, typename F>
__global__ void lt_map_eights(F f, lt_map_args<F> a, int64_t n)
{
    constexpr int per_thread = F::n_in == 1 ? LT_MAP_EIGHTS : 1;
    const int64_t eights = n / 8, first = (int64_t)blockIdx.x * LT_BLOCK * per_thread + threadIdx.x;
    lt_eight<TI> in[per_thread][F::n_in];
#pragma unroll
    for (int p = 0; p < per_thread; p++)
#pragma unroll
        for (int i = 0; i < F::n_in; i++)
            if (first + p * LT_BLOCK < eights)
                in[p][i].load(a.in[i].data, first + p * LT_BLOCK);
#pragma unroll
    for (int p = 0; p < per_thread; p++) {
        const int64_t at = first + p * LT_BLOCK;
        if (at < eights) {
            float out[F::n_out][8];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                float x[F::n_in], y[F::n_out];
#pragma unroll
                for (int i = 0; i < F::n_in; i++)
                    x[i] = in[p][i][k];
                f(x, y);
#pragma unroll
                for (int o = 0; o < F::n_out; o++)
                    out[o][k] = y[o];
            }
#pragma unroll
            for (int o = 0; o < F::n_out; o++)
                lt_sink{a.out[o].data, a.out[o].add}.put<TO>(at, out[o]);
        }
    }
}

// Any mixture of dtypes and places, inputs that are not given.
template <typename F> __global__ void lt_map_numbers(F f, lt_map_args<F> a, int64_t from, int64_t n)
{
    const int64_t at = from + lt_thread_number();
    if (at >= n)
        return;
    float x[F::n_in], y[F::n_out];
    for (int i = 0; i < F::n_in; i++)
        x[i] = a.in[i][at];
    f(x, y);
    for (int o = 0; o < F::n_out; o++)
        a.out[o].put(at, y[o]);
}

/** Inputs of one dtype and outputs of one dtype, all given (outputs need not be) and aligned. */
template <typename F> static bool lt_map_by_eights(const lt_map_args<F> &a)
{
    bool ok = true;
    for (int i = 0; i < F::n_in; i++)
        ok = ok && a.in[i].data && lt_aligned({a.in[i].data}) && a.in[i].bf16 == a.in[0].bf16;
    bool bf16 = false;
    for (int o = 0; o < F::n_out; o++)
        bf16 = a.out[o].data ? a.out[o].bf16 : bf16;
    for (int o = 0; o < F::n_out; o++)
        ok = ok && lt_aligned({a.out[o].data}) && (!a.out[o].data || a.out[o].bf16 == bf16);
    return ok;
}

template <typename TI, typename F>
static auto lt_map_kernel(bool bf16) -> void (*)(F, lt_map_args<F>, int64_t)
{
    return bf16 ? lt_map_eights<TI, lt_bf16, F> : lt_map_eights<TI, float, F>;
}

/**
 * out[i] = f(in[i]) for n numbers. f: a struct with n_in, n_out and a device
 * operator()(const float (&)[n_in], float (&)[n_out]).
 */
template <typename F>
static lt_status lt_map(const lt_op_args *op, F f, const lt_map_args<F> &a, int64_t n)
{
    int64_t whole = 0;
    if (n >= 8 && lt_map_by_eights(a)) {
        whole = n / 8 * 8;
        bool bf16 = false;
        for (int o = 0; o < F::n_out; o++)
            bf16 = bf16 || (a.out[o].data && a.out[o].bf16);
        const int64_t per_block = (int64_t)LT_BLOCK * (F::n_in == 1 ? LT_MAP_EIGHTS : 1);
        LT_TRY(lt_launch(
            op, a.in[0].bf16 ? lt_map_kernel<lt_bf16, F>(bf16) : lt_map_kernel<float, F>(bf16),
            lt_ceil_div(whole / 8, per_block), LT_BLOCK, 0, f, a, whole));
    }
    return lt_launch(op, lt_map_numbers<F>, lt_ceil_div(n - whole, LT_BLOCK), LT_BLOCK, 0, f, a,
                     whole, n);
}
#endif
