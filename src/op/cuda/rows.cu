// SPDX-License-Identifier: Apache-2.0
// Rows by number: embedding (its gradient is in row_sums.cu), gather_rows, scatter_rows,
// scatter_add_rows.
#include "op/cuda/eight.cuh"

// ---- a row to a row

// Row i of n goes from row from[i] to row to[i]; NULL: i itself. Rows that are written differ, so
// that no two threads write one place.
struct row_move {
    const int32_t *from, *to;
    int64_t n, width;
};

__global__ static void move_numbers(row_move m, lt_reader x, lt_writer y)
{
    const int64_t i = lt_thread_number();
    if (i >= m.n * m.width)
        return;
    const int64_t row = i / m.width, j = i % m.width;
    y.put((m.to ? m.to[row] : row) * m.width + j, x[(m.from ? m.from[row] : row) * m.width + j]);
}

// threadIdx.y counts a block's rows; m.width counts eights.
template <typename T> __global__ static void move_eights(row_move m, const void *x, lt_sink y)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= m.n)
        return;
    const int64_t from = (m.from ? m.from[row] : row) * m.width,
                  to = (m.to ? m.to[row] : row) * m.width;
    for (int64_t j = threadIdx.x; j < m.width; j += blockDim.x) {
        lt_eight<T> e;
        e.load(x, from + j);
        if (y.add) {
            float v[8];
#pragma unroll
            for (int k = 0; k < 8; k++)
                v[k] = e[k];
            y.put<T>(to + j, v);
        } else {
            e.store(y.data, to + j);
        }
    }
}

// The row's dtype may differ from the target's only in move_numbers.
static lt_status move_rows(const lt_op_args *a, row_move m, lt_reader x, lt_writer y)
{
    if (m.n == 0 || m.width == 0 || !y.data)
        return LT_OK;
    if (m.width % 8 != 0 || x.bf16 != y.bf16 || !lt_aligned({x.data, y.data}))
        return lt_launch_each(a, move_numbers, m.n * m.width, m, x, y);
    m.width /= 8;
    const dim3 block = lt_row_block(m.width);
    return lt_launch_block(a, x.bf16 ? move_eights<lt_bf16> : move_eights<float>,
                           lt_ceil_div(m.n, block.y), block, 0, m, x.data, lt_sink_of(y));
}

lt_status lt_embedding_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_indices(a, 0, "ids", a->in[1]->dim[0]));
    return move_rows(a, {lt_read_index(a->in[0]), NULL, a->in[0]->dim[0], a->in[1]->dim[1]},
                     lt_read(a->in[1]), lt_write(a->out[0]));
}

// ---- gather_rows, scatter_rows, scatter_add_rows: `rows` ascend

lt_status lt_gather_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 1, "rows", a->in[0]->dim[0]));
    return move_rows(a, {lt_read_index(a->in[1]), NULL, a->in[1]->dim[0], a->in[0]->dim[1]},
                     lt_read(a->in[0]), lt_write(a->out[0]));
}

lt_status lt_gather_rows_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    LT_TRY(lt_zero_grad_cuda(a, 0));
    if (!a->dout[0])
        return LT_OK;
    return move_rows(a, {NULL, lt_read_index(a->in[1]), a->in[1]->dim[0], a->din[0]->dim[1]},
                     lt_read(a->dout[0]), lt_write_grad(a, 0));
}

lt_status lt_scatter_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    LT_TRY(lt_copy_input(a));
    return move_rows(a, {NULL, lt_read_index(a->in[2]), a->in[2]->dim[0], a->in[0]->dim[1]},
                     lt_read(a->in[1]), lt_write(a->out[0]));
}

lt_status lt_scatter_add_rows_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    LT_TRY(lt_copy_input(a));
    lt_writer y = lt_write(a->out[0]);
    y.add = true;
    return move_rows(a, {NULL, lt_read_index(a->in[2]), a->in[2]->dim[0], a->in[0]->dim[1]},
                     lt_read(a->in[1]), y);
}

// ---- the gradient of a scatter's x: that of y without the rows that were replaced

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

__global__ static void without_numbers(const int32_t *rows, int64_t n_rows, lt_reader dy,
                                       lt_writer dx, int64_t n, int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n * width)
        dx.put(i, contains(rows, n_rows, i / width) ? 0.0F : dy[i]);
}

// dx is a copy of dy already.
template <typename T>
__global__ static void clear_eights(const int32_t *rows, int64_t n_rows, void *dx, int64_t eights)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= n_rows)
        return;
    lt_eight<T> zero;
    zero.clear();
    for (int64_t j = threadIdx.x; j < eights; j += blockDim.x)
        zero.store(dx, rows[row] * eights + j);
}

static lt_status without_rows(const lt_op_args *a)
{
    const int32_t *rows = lt_read_index(a->in[2]);
    const int64_t n_rows = a->in[2]->dim[0], n = a->din[0]->dim[0], width = a->din[0]->dim[1];
    const lt_reader dy = lt_read(a->dout[0]);
    const lt_writer dx = lt_write_grad(a, 0);
    if (n * width == 0)
        return LT_OK;
    if (width % 8 != 0 || !dy.data || dx.add || dy.bf16 != dx.bf16 || !lt_aligned({dx.data}))
        return lt_launch_each(a, without_numbers, n * width, rows, n_rows, dy, dx, n, width);
    if (dx.data != dy.data)
        LT_TRY(lt_cuda_check(cudaMemcpyAsync(dx.data, dy.data, lt_tensor_bytes(a->din[0]),
                                             cudaMemcpyDeviceToDevice, lt_queue_of(a)),
                             a->def->name));
    const dim3 block = lt_row_block(width / 8);
    return lt_launch_block(a, dy.bf16 ? clear_eights<lt_bf16> : clear_eights<float>,
                           lt_ceil_div(n_rows, block.y), block, 0, rows, n_rows, dx.data,
                           width / 8);
}

lt_status lt_scatter_rows_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (a->din[0])
        LT_TRY(without_rows(a));
    if (!a->din[1])
        return LT_OK;
    if (!a->dout[0])
        return lt_zero_grad_cuda(a, 1);
    return move_rows(a, {lt_read_index(a->in[2]), NULL, a->in[2]->dim[0], a->din[1]->dim[1]},
                     lt_read(a->dout[0]), lt_write_grad(a, 1));
}
