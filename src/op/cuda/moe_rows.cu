// SPDX-License-Identifier: Apache-2.0
// Rows of experts: to them and back (moe_permute, moe_combine), their products (grouped_linear),
// and swiglu over the halves of a product.
#include "op/cuda/common.cuh"

// ---- moe_permute, moe_combine: one thread a number

struct rows_args {
    lt_reader x, weights; // weights.data NULL: all 1
    lt_writer y;
    const int32_t *place; // [tokens, k]
    int64_t tokens, k, width;
};

// y[place[t, j]] = w[t, j] x[t]
__global__ static void to_experts(rows_args r)
{
    const int64_t i = lt_thread_number();
    if (i >= r.tokens * r.k * r.width)
        return;
    const int64_t copy = i / r.width, c = i % r.width;
    const float w = r.weights.data ? r.weights[copy] : 1.0F;
    r.y.put(r.place[copy] * r.width + c, w * r.x[copy / r.k * r.width + c]);
}

// y[t] = sum over j, in order, of w[t, j] x[place[t, j]]
__global__ static void from_experts(rows_args r)
{
    const int64_t i = lt_thread_number();
    if (i >= r.tokens * r.width)
        return;
    const int64_t t = i / r.width, c = i % r.width;
    float sum = 0.0F;
    for (int64_t j = 0; j < r.k; j++) {
        const int64_t copy = t * r.k + j;
        const float w = r.weights.data ? r.weights[copy] : 1.0F;
        sum += w * r.x[r.place[copy] * r.width + c];
    }
    r.y.put(i, sum);
}

static lt_status run_to_experts(const lt_op_args *a, rows_args r)
{
    return lt_launch_each(a, to_experts, r.y.data ? r.tokens * r.k * r.width : 0, r);
}

static lt_status run_from_experts(const lt_op_args *a, rows_args r)
{
    return lt_launch_each(a, from_experts, r.y.data ? r.tokens * r.width : 0, r);
}

lt_status lt_moe_permute_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *place = a->in[1];
    return run_to_experts(a,
                          {lt_read(a->in[0]), lt_read(NULL), lt_write(a->out[0]),
                           lt_read_index(place), place->dim[0], place->dim[1], a->in[0]->dim[1]});
}

lt_status lt_moe_permute_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *place = a->in[1];
    if (!a->din[0])
        return LT_OK;
    if (!a->dout[0])
        return lt_zero_grad_cuda(a, 0);
    return run_from_experts(a, {lt_read(a->dout[0]), lt_read(NULL), lt_write_grad(a, 0),
                                lt_read_index(place), place->dim[0], place->dim[1],
                                a->din[0]->dim[1]});
}

lt_status lt_moe_combine_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *w = a->in[1];
    return run_from_experts(a, {lt_read(a->in[0]), lt_read(w), lt_write(a->out[0]),
                                lt_read_index(a->in[2]), w->dim[0], w->dim[1], a->in[0]->dim[1]});
}

// A block a copy: dw = dy[t] . x[place]
__global__ static void weight_gradients(rows_args r, lt_reader dy)
{
    const int64_t copy = blockIdx.x, row = r.place[copy] * r.width, token = copy / r.k * r.width;
    float sum = 0.0F;
    for (int64_t c = threadIdx.x; c < r.width; c += blockDim.x)
        sum += dy[token + c] * r.x[row + c];
    sum = lt_block_sum(sum);
    if (threadIdx.x == 0)
        r.y.put(copy, sum);
}

lt_status lt_moe_combine_bwd_cuda(const lt_op_args *a)
{
    enum { THREADS = 128 };
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *w = a->in[1];
    rows_args r = {lt_read(a->dout[0]), lt_read(w), lt_write_grad(a, 0), lt_read_index(a->in[2]),
                   w->dim[0],           w->dim[1],  a->in[0]->dim[1]};
    LT_TRY(run_to_experts(a, r));
    r.x = lt_read(a->in[0]);
    r.y = lt_write_grad(a, 1);
    return lt_launch(a, weight_gradients, a->din[1] ? r.tokens * r.k : 0, THREADS, 0, r,
                     lt_read(a->dout[0]));
}

// ---- grouped_linear: tiles of one expert's product

// Tiles of 64 x 64 by 256 threads, 4 x 4 numbers each; 16 of the inner dimension at a time.
enum { TILE = 64, INNER = 16, EACH = 4, SIDE = TILE / EACH };

// A matrix of the product: element (i, j) is at i * row + j * column. One of both is 1.
struct operand {
    lt_reader data;
    int64_t first, row, column;
    __device__ float at(int64_t i, int64_t j) const
    {
        return data[first + i * row + j * column];
    }
};

// The tile of x y whose corner is (i0, j0): x [m, inner], y [inner, n]; what is outside is zero.
static __device__ void tile_product(const operand &x, const operand &y, int64_t m, int64_t n,
                                    int64_t inner, int64_t i0, int64_t j0, float (&sum)[EACH][EACH])
{
    __shared__ float xs[INNER][TILE + 1], ys[INNER][TILE + 1];
    const int column = (int)threadIdx.x % SIDE, row = (int)threadIdx.x / SIDE;
    for (int64_t k0 = 0; k0 < inner; k0 += INNER) {
        __syncthreads(); // the piece before is read
        for (int at = (int)threadIdx.x; at < TILE * INNER; at += LT_BLOCK) {
            const int xi = x.column == 1 ? at / INNER : at % TILE,
                      xk = x.column == 1 ? at % INNER : at / TILE,
                      yj = y.column == 1 ? at % TILE : at / INNER,
                      yk = y.column == 1 ? at / TILE : at % INNER;
            xs[xk][xi] = i0 + xi < m && k0 + xk < inner ? x.at(i0 + xi, k0 + xk) : 0.0F;
            ys[yk][yj] = j0 + yj < n && k0 + yk < inner ? y.at(k0 + yk, j0 + yj) : 0.0F;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < INNER; k++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = fmaf(xs[k][row * EACH + i], ys[k][column * EACH + j], sum[i][j]);
    }
}

static __device__ void put_tile(const lt_writer &out, int64_t first, int64_t m, int64_t n,
                                int64_t i0, int64_t j0, const float (&sum)[EACH][EACH])
{
    const int64_t i1 = i0 + (int64_t)(threadIdx.x / SIDE) * EACH,
                  j1 = j0 + (int64_t)(threadIdx.x % SIDE) * EACH;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            if (i1 + i < m && j1 + j < n)
                out.put(first + (i1 + i) * n + j1 + j, sum[i][j]);
}

// y[r] = x[r] M_e, where M_e is W_e^T (forward: row 1 of it is W's column) or W_e (dx).
struct group_args {
    lt_reader x, w;
    lt_writer y;
    const int32_t *offsets; // [experts + 1]
    int64_t experts, inner, n, w_row, w_column;
    int64_t row_tiles; // most that all experts together have
};

// The expert and the first row of a row tile; false: there is no such tile. Each expert begins a
// tile of its own.
static __device__ bool find_rows(const group_args &g, int64_t tile, int64_t *expert, int64_t *from)
{
    for (int64_t e = 0; e < g.experts; e++) {
        const int64_t rows = g.offsets[e + 1] - g.offsets[e], tiles = (rows + TILE - 1) / TILE;
        if (tile < tiles) {
            *expert = e;
            *from = tile * TILE;
            return true;
        }
        tile -= tiles;
    }
    return false;
}

__global__ static void __launch_bounds__(LT_BLOCK) rows_product(group_args g)
{
    int64_t e = 0, i0 = 0;
    if (!find_rows(g, blockIdx.x % g.row_tiles, &e, &i0))
        return; // all threads of a block alike
    const int64_t j0 = blockIdx.x / g.row_tiles * TILE, m = g.offsets[e + 1] - g.offsets[e];
    const operand x = {g.x, g.offsets[e] * g.inner, g.inner, 1},
                  w = {g.w, e * g.inner * g.n, g.w_row, g.w_column};
    float sum[EACH][EACH] = {};
    tile_product(x, w, m, g.n, g.inner, i0, j0, sum);
    put_tile(g.y, g.offsets[e] * g.n, m, g.n, i0, j0, sum);
}

static lt_status run_rows(const lt_op_args *a, group_args g, int64_t rows)
{
    if (rows == 0 || !g.y.data)
        return LT_OK;
    g.row_tiles = rows / TILE + g.experts;
    return lt_launch(a, rows_product, g.row_tiles * lt_ceil_div(g.n, TILE), LT_BLOCK, 0, g);
}

lt_status lt_grouped_linear_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *x = a->in[0], *w = a->in[1];
    const int64_t k = w->dim[2], m = w->dim[1];
    return run_rows(a,
                    {lt_read(x), lt_read(w), lt_write(a->out[0]), lt_read_index(a->in[2]),
                     w->dim[0], k, m, 1, k, 0},
                    x->dim[0]);
}

// dW_e [m, k] = dy^T x over the rows of e; zeros where there are none.
struct weight_args {
    lt_reader dy, x;
    lt_writer dw;
    const int32_t *offsets;
    int64_t m, k, tiles, across; // tiles of a matrix, and in a row of them
};

__global__ static void __launch_bounds__(LT_BLOCK) weights_product(weight_args g)
{
    const int64_t e = blockIdx.x / g.tiles, tile = blockIdx.x % g.tiles,
                  i0 = tile / g.across * TILE, j0 = tile % g.across * TILE, from = g.offsets[e],
                  rows = g.offsets[e + 1] - from;
    const operand dy = {g.dy, from * g.m, 1, g.m}, x = {g.x, from * g.k, g.k, 1};
    float sum[EACH][EACH] = {};
    tile_product(dy, x, g.m, g.k, rows, i0, j0, sum);
    put_tile(g.dw, e * g.m * g.k, g.m, g.k, i0, j0, sum);
}

lt_status lt_grouped_linear_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const lt_tensor *w = a->in[1];
    const int64_t k = w->dim[2], m = w->dim[1], across = lt_ceil_div(k, TILE),
                  tiles = lt_ceil_div(m, TILE) * across;
    if (!a->dout[0]) {
        LT_TRY(lt_zero_grad_cuda(a, 0));
        return lt_zero_grad_cuda(a, 1);
    }
    const int32_t *offsets = lt_read_index(a->in[2]);
    LT_TRY(run_rows(
        a,
        {lt_read(a->dout[0]), lt_read(w), lt_write_grad(a, 0), offsets, w->dim[0], m, k, k, 1, 0},
        a->in[0]->dim[0]));
    return lt_launch(a, weights_product, a->din[1] ? w->dim[0] * tiles : 0, LT_BLOCK, 0,
                     weight_args{lt_read(a->dout[0]), lt_read(a->in[0]), lt_write_grad(a, 1),
                                 offsets, m, k, tiles, across});
}

// ---- swiglu_halves

static __device__ float sigmoid(float g)
{
    return __fdividef(1.0F, 1.0F + expf(-g)); // expf may reach infinity: a correct zero
}

__global__ static void halves(lt_reader x, lt_writer y, int64_t n, int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t at = i + i / width * width;
    y.put(i, x[at] * sigmoid(x[at]) * x[at + width]);
}

__global__ static void halves_back(lt_reader x, lt_reader dy, lt_writer dx, int64_t n,
                                   int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t at = i + i / width * width;
    const float g = x[at], u = x[at + width], s = sigmoid(g), d = dy[i];
    dx.put(at, d * u * (s + g * s * (1.0F - s)));
    dx.put(at + width, d * g * s);
}

lt_status lt_swiglu_halves_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = lt_n_elems(a->out[0]);
    return lt_launch_each(a, halves, n, lt_read(a->in[0]), lt_write(a->out[0]), n,
                          a->out[0]->dim[1]);
}

lt_status lt_swiglu_halves_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = lt_n_elems(a->in[0]) / 2;
    return lt_launch_each(a, halves_back, a->din[0] ? n : 0, lt_read(a->in[0]), lt_read(a->dout[0]),
                          lt_write_grad(a, 0), n, a->in[0]->dim[1] / 2);
}
