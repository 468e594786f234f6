// SPDX-License-Identifier: Apache-2.0
// pos_embed_add: positions blended from four rows of a table. In the table's gradient many
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

enum {
    HITS = 1024,
    HITS_TOGETHER = 8
}; // patches in a block's list; rows whose loads are under way

// A patch that touches the block's row, and the weight of the row in it.
struct hit {
    int32_t patch;
    float weight;
};

// Adds the rows of dy that the list names, in its order. Column pack j.
template <typename T, int E>
static __device__ void add_hits(const hit *list, int n, const void *dy, int64_t packs, int64_t j,
                                float (&sum)[E])
{
    for (int base = 0; base < n; base += HITS_TOGETHER) {
        lt_pack<T, E> row[HITS_TOGETHER];
#pragma unroll
        for (int i = 0; i < HITS_TOGETHER; i++)
            if (base + i < n)
                row[i].load(dy, list[base + i].patch * packs + j);
#pragma unroll
        for (int i = 0; i < HITS_TOGETHER; i++)
            for (int k = 0; k < E && base + i < n; k++)
                sum[k] += list[base + i].weight * row[i][k];
    }
}

// Block (row of the table, tile of columns): a list of the patches that touch the row, in their
// order, and their sum whenever the list is full. A thread looks at a patch of each LT_BLOCK, and
// puts it behind those of the threads before it.
template <typename T, int E>
__global__ static void blend_backward(const void *dy, const int32_t *corners, const float *weights,
                                      lt_writer dp, int64_t n, int64_t packs, int64_t tiles)
{
    __shared__ hit list[HITS];
    __shared__ int found[2][LT_BLOCK / 32];
    const int64_t row = blockIdx.x / tiles, j = blockIdx.x % tiles * LT_BLOCK + threadIdx.x;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float sum[E] = {};
    int held = 0, turn = 0;
    for (int64_t base = 0; base < n; base += LT_BLOCK, turn ^= 1) {
        const int64_t patch = base + threadIdx.x;
        bool touches = false;
        float weight = 0.0F;
        for (int k = 0; k < CORNERS && patch < n; k++) {
            if (corners[patch * CORNERS + k] != row)
                continue;
            touches = true;
            weight += weights[patch * CORNERS + k];
        }
        const unsigned mask = __ballot_sync(0xffffffffU, touches);
        found[turn][warp] = __popc(mask); // the same from all lanes
        __syncthreads();
        int before = held + __popc(mask & ((1U << lane) - 1));
        for (int w = 0; w < LT_BLOCK / 32; w++) {
            before += w < warp ? found[turn][w] : 0;
            held += found[turn][w];
        }
        if (touches)
            list[before] = {(int32_t)patch, weight};
        if (held <= HITS - LT_BLOCK && base + LT_BLOCK < n)
            continue;
        __syncthreads(); // the list is written
        if (j < packs)
            add_hits<T>(list, held, dy, packs, j, sum);
        held = 0; // it is written anew behind the next barrier
    }
    if (j < packs) {
        const lt_sink to = {dp.data, dp.add};
        if (dp.bf16)
            to.put<lt_bf16>(row * packs + j, sum);
        else
            to.put<float>(row * packs + j, sum);
    }
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
    if (!dy.data)
        return lt_zero_grad_cuda(a, 1);
    const int64_t n = a->in[2]->dim[0], width = a->din[1]->dim[1];
    const bool by_eights = width % 8 == 0 && lt_aligned({dy.data, a->din[1]->data});
    const int64_t packs = by_eights ? width / 8 : width, tiles = lt_ceil_div(packs, LT_BLOCK);
    return lt_launch(a,
                     dy.bf16 ? (by_eights ? blend_backward<lt_bf16, 8> : blend_backward<lt_bf16, 1>)
                             : (by_eights ? blend_backward<float, 8> : blend_backward<float, 1>),
                     a->din[1]->dim[0] * tiles, LT_BLOCK, 0, dy.data, lt_read_index(a->in[2]),
                     (const float *)a->in[3]->data, lt_write_grad(a, 1), n, packs, tiles);
}
