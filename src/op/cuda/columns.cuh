// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, one for each column: gradients of biases and of norm weights.
// Rows are cut into parts, the sums of a part wait in the stream's workspace, and are then added
// in the order of parts. How rows are cut follows from shapes alone.
#ifndef LT_OP_CUDA_COLUMNS_CUH
#define LT_OP_CUDA_COLUMNS_CUH

#include "op/cuda/common.cuh"

enum { LT_COLUMNS = 32, LT_COLUMN_LANES = 32 };

// A block takes 32 columns of a part; lane l of a column sums the part's rows l, l + 32, ... and
// the lanes are then added in order.
template <typename F>
__global__ void __launch_bounds__(LT_COLUMNS *LT_COLUMN_LANES)
    lt_column_sums(F term, int64_t rows, int64_t rows_each, int64_t width, int64_t tiles,
                   lt_writer out)
{
    __shared__ float lanes[LT_COLUMN_LANES][LT_COLUMNS + 1];
    const int column = (int)threadIdx.x % LT_COLUMNS, lane = (int)threadIdx.x / LT_COLUMNS;
    const int64_t j = blockIdx.x % tiles * LT_COLUMNS + column, part = blockIdx.x / tiles;
    const int64_t from = part * rows_each, to = from + rows_each < rows ? from + rows_each : rows;
    float sum = 0.0F;
    if (j < width) {
#pragma unroll 2
        for (int64_t row = from + lane; row < to; row += LT_COLUMN_LANES)
            sum += term(row, j);
    }
    lanes[lane][column] = sum;
    __syncthreads();
    if (lane != 0 || j >= width)
        return;
    for (int l = 1; l < LT_COLUMN_LANES; l++)
        sum += lanes[l][column];
    out.put(part * width + j, sum);
}

/** Rows cut into n parts of rows_each (the last may be shorter), and room for `width` sums each. */
struct lt_parts {
    float *sums; // [n, width], 256-aligned
    int64_t n, rows_each, width;
};

/** At most `most` parts, fewer where the workspace is small for the width. No rows: no parts. */
static inline lt_status lt_take_parts(const lt_op_args *a, int64_t rows, int64_t width,
                                      int64_t most, lt_parts *out)
{
    const int64_t room = LT_CUDA_WORKSPACE_BYTES / (int64_t)sizeof(float) / lt_max_i64(width, 1);
    if (room < 1)
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "op %s on a GPU adds up rows of at most %lld numbers, not %lld",
                       a->def->name, (long long)LT_CUDA_WORKSPACE_BYTES / 4, (long long)width);
    void *memory = NULL;
    LT_TRY(lt_cuda_workspace(a->run->device, a->run->stream, &memory));
    out->sums = (float *)memory;
    out->width = width;
    out->rows_each = lt_max_i64(lt_ceil_div(rows, lt_min_i64(most, room)), 1);
    out->n = lt_ceil_div(rows, out->rows_each);
    return LT_OK;
}

struct lt_part_term {
    const float *sums;
    int64_t width;
    __device__ float operator()(int64_t part, int64_t j) const
    {
        return sums[part * width + j];
    }
};

/** out[j] = the sum over parts of column first + j, for n columns. No parts give zeros. */
static inline lt_status lt_add_parts(const lt_op_args *a, const lt_parts &p, int64_t first,
                                     int64_t n, lt_writer out)
{
    const int64_t tiles = lt_ceil_div(n, LT_COLUMNS);
    if (!out.data)
        return LT_OK;
    return lt_launch(a, lt_column_sums<lt_part_term>, tiles, LT_COLUMNS * LT_COLUMN_LANES, 0,
                     lt_part_term{p.sums + first, p.width}, p.n, p.n, n, tiles, out);
}

enum { LT_COLUMN_ROWS = 1024, LT_COLUMN_PARTS = 64 }; // least rows of a part, most parts

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
    const int64_t tiles = lt_ceil_div(width, LT_COLUMNS),
                  most = lt_min_i64(rows / LT_COLUMN_ROWS, LT_COLUMN_PARTS);
    if (most < 2)
        return lt_launch(a, lt_column_sums<F>, tiles, LT_COLUMNS * LT_COLUMN_LANES, 0, term, rows,
                         rows, width, tiles, out);
    lt_parts p;
    LT_TRY(lt_take_parts(a, rows, width, most, &p));
    LT_TRY(lt_launch(a, lt_column_sums<F>, p.n * tiles, LT_COLUMNS * LT_COLUMN_LANES, 0, term, rows,
                     p.rows_each, width, tiles, lt_writer{p.sums, false, false}));
    return lt_add_parts(a, p, 0, width, out);
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
