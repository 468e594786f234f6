// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, one for each column: gradients of biases and of norm weights.
#ifndef LT_OP_CUDA_COLUMNS_CUH
#define LT_OP_CUDA_COLUMNS_CUH

#include "op/cuda/common.cuh"

enum { LT_COLUMNS = 32, LT_COLUMN_LANES = 32 };

// A block takes 32 columns; lane l of a column sums rows l, l + 32, ... and the lanes are then
// added in order.
template <typename F>
__global__ void lt_column_sums(F term, int64_t rows, int64_t width, lt_writer out)
{
    __shared__ float part[LT_COLUMN_LANES][LT_COLUMNS + 1];
    const int column = (int)threadIdx.x % LT_COLUMNS, lane = (int)threadIdx.x / LT_COLUMNS;
    const int64_t j = (int64_t)blockIdx.x * LT_COLUMNS + column;
    float sum = 0.0F;
    for (int64_t row = lane; j < width && row < rows; row += LT_COLUMN_LANES)
        sum += term(row, j);
    part[lane][column] = sum;
    __syncthreads();
    if (lane != 0 || j >= width)
        return;
    for (int l = 1; l < LT_COLUMN_LANES; l++)
        sum += part[l][column];
    out.put(j, sum);
}

/**
 * out[j] = sum over rows of term(row, j): a struct of readers with a device operator(). Zero rows
 * give zeros.
 */
template <typename F>
static lt_status lt_sum_columns(const lt_op_args *a, F term, int64_t rows, int64_t width,
                                lt_writer out)
{
    if (!out.data)
        return LT_OK;
    return lt_launch(a, lt_column_sums<F>, lt_ceil_div(width, LT_COLUMNS),
                     LT_COLUMNS * LT_COLUMN_LANES, 0, term, rows, width, out);
}

/** The term of a bias's gradient. */
struct lt_plain_term {
    lt_reader dy;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j];
    }
};
#endif
