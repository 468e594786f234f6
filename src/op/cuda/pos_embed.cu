// SPDX-License-Identifier: Apache-2.0
// pos_embed_add: positions blended from four rows of a table. In the table's gradient several
// patches meet in one row: a block takes the row and adds them in order.
#include "op/cuda/map.cuh"
extern "C" {
#include "op/pos_embed.h"
}

enum { CORNERS = 4 };

__global__ static void blend_numbers(lt_reader z, lt_reader p, const int32_t *corners,
                                     lt_reader weights, lt_writer y, int64_t n, int64_t width)
{
    const int64_t i = lt_thread_number(), row = i / width, j = i % width;
    if (row >= n)
        return;
    float pos = 0.0F;
    for (int64_t k = row * CORNERS; k < (row + 1) * CORNERS; k++)
        pos += weights[k] * p[corners[k] * width + j];
    y.put(i, z[i] + pos);
}

// threadIdx.y counts a block's rows.
template <typename T>
__global__ static void blend_eights(const void *z, const void *p, const int32_t *corners,
                                    const float *weights, void *y, int64_t n, int64_t eights)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= n)
        return;
    for (int64_t j = threadIdx.x; j < eights; j += blockDim.x) {
        lt_eight<T> out, corner[CORNERS];
        float pos[8] = {};
        out.load(z, row * eights + j);
#pragma unroll
        for (int k = 0; k < CORNERS; k++)
            corner[k].load(p, corners[row * CORNERS + k] * eights + j);
#pragma unroll
        for (int k = 0; k < CORNERS; k++) {
            const float weight = weights[row * CORNERS + k];
#pragma unroll
            for (int i = 0; i < 8; i++)
                pos[i] += weight * corner[k][i];
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            pos[i] = out[i] + pos[i];
        out.set(pos);
        out.store(y, row * eights + j);
    }
}

lt_status lt_pos_embed_add_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_indices(a, 2, "corners", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0], width = a->in[0]->dim[1];
    if (width == 0 || width % 8 != 0 ||
        !lt_aligned({a->in[0]->data, a->in[1]->data, a->out[0]->data}))
        return lt_launch_each(a, blend_numbers, n * width, lt_read(a->in[0]), lt_read(a->in[1]),
                              lt_read_index(a->in[2]), lt_read(a->in[3]), lt_write(a->out[0]), n,
                              width);
    const dim3 block = lt_row_block(width / 8);
    return lt_launch_block(a,
                           a->in[0]->dtype == LT_BF16 ? blend_eights<lt_bf16> : blend_eights<float>,
                           lt_ceil_div(n, block.y), block, 0, (const void *)a->in[0]->data,
                           (const void *)a->in[1]->data, lt_read_index(a->in[2]),
                           (const float *)a->in[3]->data, (void *)a->out[0]->data, n, width / 8);
}

// ---- backward

// Sum of term(k) over the k in [from, n) with keys[k] == key, k ascending, the same in every
// thread's column. All threads of a block of LT_BLOCK call it.
template <typename F>
static __device__ float ordered_sum(const int32_t *keys, int64_t from, int64_t n, int32_t key,
                                    F term)
{
    __shared__ bool hit[LT_BLOCK];
    float sum = 0.0F;
    for (int64_t base = from; base < n; base += LT_BLOCK) {
        const int64_t mine = base + threadIdx.x;
        const bool found = mine < n && keys[mine] == key;
        hit[threadIdx.x] = found;
        if (!__syncthreads_or(found))
            continue;
        for (int i = 0; i < LT_BLOCK; i++)
            if (hit[i])
                sum += term(base + i);
        __syncthreads(); // before the flags are written anew
    }
    return sum;
}

// Block (row of the table, tile of columns) sums over the patches that touch the row.
__global__ static void blend_backward(lt_reader dy, const int32_t *corners, lt_reader weights,
                                      lt_writer dp, int64_t n, int64_t width, int64_t tiles)
{
    const int64_t row = blockIdx.x / tiles, j = blockIdx.x % tiles * LT_BLOCK + threadIdx.x;
    const float sum = ordered_sum(corners, 0, n * CORNERS, (int32_t)row, [&](int64_t k) {
        return j < width ? weights[k] * dy[k / CORNERS * width + j] : 0.0F;
    });
    if (j < width)
        dp.put(row * width + j, sum);
}

struct same_as {
    static constexpr int n_in = 1, n_out = 1;
    __device__ void operator()(const float (&x)[1], float (&y)[1]) const
    {
        y[0] = x[0];
    }
};

lt_status lt_pos_embed_add_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_reader dy = lt_read(a->dout[0]);
    if (a->din[0])
        LT_TRY(lt_map<same_as>(a, {}, {{dy}, {lt_write_grad(a, 0)}}, lt_n_elems(a->din[0])));
    if (!a->din[1])
        return LT_OK;
    const int64_t n = a->in[2]->dim[0], width = a->din[1]->dim[1],
                  tiles = lt_ceil_div(width, LT_BLOCK);
    return lt_launch(a, blend_backward, a->din[1]->dim[0] * tiles, LT_BLOCK, 0, dy,
                     lt_read_index(a->in[2]), lt_read(a->in[3]), lt_write_grad(a, 1), n, width,
                     tiles);
}
