// SPDX-License-Identifier: Apache-2.0
// Rows by number: embedding, gather_rows, scatter_rows, scatter_add_rows, pos_embed_add. Where
// several rows meet in one, a block takes the place and adds them in order.
#include "op/cuda/common.cuh"
extern "C" {
#include "op/pos_embed.h"
}

// ---- one row from many

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

// ---- embedding

__global__ static void look_up(const int32_t *ids, lt_reader w, lt_writer x, int64_t n,
                               int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n * width)
        x.put(i, w[ids[i / width] * width + i % width]);
}

// Block (t, tile of columns) sums the gradients of all tokens that have token t's id, if t is the
// first of them.
__global__ static void look_up_backward(const int32_t *ids, lt_reader dx, lt_writer dw, int64_t n,
                                        int64_t width, int64_t tiles)
{
    const int64_t t = blockIdx.x / tiles, j = blockIdx.x % tiles * LT_BLOCK + threadIdx.x;
    const int32_t id = ids[t];
    bool earlier = false;
    for (int64_t s = threadIdx.x; s < t; s += LT_BLOCK)
        earlier = earlier || ids[s] == id;
    if (__syncthreads_or(earlier))
        return;
    const float sum =
        ordered_sum(ids, t, n, id, [&](int64_t s) { return j < width ? dx[s * width + j] : 0.0F; });
    if (j < width)
        dw.put(id * width + j, sum);
}

lt_status lt_embedding_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_indices(a, 0, "ids", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0], width = a->in[1]->dim[1];
    return lt_launch_each(a, look_up, n * width, lt_read_index(a->in[0]), lt_read(a->in[1]),
                          lt_write(a->out[0]), n, width);
}

lt_status lt_embedding_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[1])
        return LT_OK;
    LT_TRY(lt_need_indices(a, 0, "ids", a->din[1]->dim[0]));
    LT_TRY(lt_zero_grad_cuda(a, 1));
    const int64_t n = a->in[0]->dim[0], width = a->din[1]->dim[1],
                  tiles = lt_ceil_div(width, LT_BLOCK);
    lt_writer dw = lt_write_grad(a, 1);
    dw.add = true; // to the zeros
    return lt_launch(a, look_up_backward, a->dout[0] ? n * tiles : 0, LT_BLOCK, 0,
                     lt_read_index(a->in[0]), lt_read(a->dout[0]), dw, n, width, tiles);
}

// ---- gather_rows, scatter_rows, scatter_add_rows: `rows` ascend, so no two threads write one
// place

__global__ static void from_rows(const int32_t *rows, lt_reader x, lt_writer y, int64_t n,
                                 int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n * width)
        y.put(i, x[rows[i / width] * width + i % width]);
}

__global__ static void to_rows(const int32_t *rows, lt_reader x, lt_writer y, int64_t n,
                               int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n * width)
        y.put(rows[i / width] * width + i % width, x[i]);
}

lt_status lt_gather_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 1, "rows", a->in[0]->dim[0]));
    const int64_t n = a->in[1]->dim[0], width = a->in[0]->dim[1];
    return lt_launch_each(a, from_rows, n * width, lt_read_index(a->in[1]), lt_read(a->in[0]),
                          lt_write(a->out[0]), n, width);
}

lt_status lt_gather_rows_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    LT_TRY(lt_zero_grad_cuda(a, 0));
    const int64_t n = a->in[1]->dim[0], width = a->din[0]->dim[1];
    lt_writer dx = lt_write_grad(a, 0);
    dx.add = true;
    return lt_launch_each(a, to_rows, a->dout[0] ? n * width : 0, lt_read_index(a->in[1]),
                          lt_read(a->dout[0]), dx, n, width);
}

lt_status lt_scatter_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    LT_TRY(lt_copy_input(a));
    const int64_t n = a->in[2]->dim[0], width = a->in[0]->dim[1];
    return lt_launch_each(a, to_rows, n * width, lt_read_index(a->in[2]), lt_read(a->in[1]),
                          lt_write(a->out[0]), n, width);
}

static __device__ bool contains(const int32_t *rows, int64_t n, int64_t row)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (rows[mid] < row)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && rows[low] == row;
}

__global__ static void without_rows(const int32_t *rows, int64_t n_rows, lt_reader dy, lt_writer dx,
                                    int64_t n, int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n * width)
        dx.put(i, contains(rows, n_rows, i / width) ? 0.0F : dy[i]);
}

lt_status lt_scatter_rows_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int32_t *rows = lt_read_index(a->in[2]);
    const int64_t n_rows = a->in[2]->dim[0];
    const lt_reader dy = lt_read(a->dout[0]);
    if (a->din[0])
        LT_TRY(lt_launch_each(a, without_rows, lt_n_elems(a->din[0]), rows, n_rows, dy,
                              lt_write_grad(a, 0), a->din[0]->dim[0], a->din[0]->dim[1]));
    if (a->din[1])
        LT_TRY(lt_launch_each(a, from_rows, lt_n_elems(a->din[1]), rows, dy, lt_write_grad(a, 1),
                              n_rows, a->din[1]->dim[1]));
    return LT_OK;
}

lt_status lt_scatter_add_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    LT_TRY(lt_copy_input(a));
    const int64_t n = a->in[2]->dim[0], width = a->in[0]->dim[1];
    lt_writer y = lt_write(a->out[0]);
    y.add = true;
    return lt_launch_each(a, to_rows, n * width, lt_read_index(a->in[2]), lt_read(a->in[1]), y, n,
                          width);
}

// ---- pos_embed_add

enum { CORNERS = 4 };

__global__ static void blend(lt_reader z, lt_reader p, const int32_t *corners, lt_reader weights,
                             lt_writer y, int64_t n, int64_t width)
{
    const int64_t i = lt_thread_number(), row = i / width, j = i % width;
    if (row >= n)
        return;
    float pos = 0.0F;
    for (int64_t k = row * CORNERS; k < (row + 1) * CORNERS; k++)
        pos += weights[k] * p[corners[k] * width + j];
    y.put(i, z[i] + pos);
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

__global__ static void pass_on(lt_reader dy, lt_writer dx, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        dx.put(i, dy[i]);
}

lt_status lt_pos_embed_add_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_indices(a, 2, "corners", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0], width = a->in[0]->dim[1];
    return lt_launch_each(a, blend, n * width, lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_read_index(a->in[2]), lt_read(a->in[3]), lt_write(a->out[0]), n,
                          width);
}

lt_status lt_pos_embed_add_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_reader dy = lt_read(a->dout[0]);
    if (a->din[0])
        LT_TRY(lt_launch_each(a, pass_on, lt_n_elems(a->din[0]), dy, lt_write_grad(a, 0),
                              lt_n_elems(a->din[0])));
    if (!a->din[1])
        return LT_OK;
    const int64_t n = a->in[2]->dim[0], width = a->din[1]->dim[1],
                  tiles = lt_ceil_div(width, LT_BLOCK);
    return lt_launch(a, blend_backward, a->din[1]->dim[0] * tiles, LT_BLOCK, 0, dy,
                     lt_read_index(a->in[2]), lt_read(a->in[3]), lt_write_grad(a, 1), n, width,
                     tiles);
}
