// SPDX-License-Identifier: Apache-2.0
// rms_norm and add_rms_norm: rows in registers where they are whole eights of one dtype, else a
// block for each row.
#include "op/cuda/columns.cuh"
#include "op/cuda/eight.cuh"
extern "C" {
#include "op/rms_norm.h"
}

// One call, forward or backward. Without an addition `extra` and `x2` are NULL.
struct norm_call {
    const lt_tensor *x, *extra, *w, *x2, *y; // backward: x is the sum x2
    const lt_tensor *dy, *through;
    lt_writer dx, da, dw;
    int64_t rows, width;
    float eps;
};

// ---- any width and mixture of dtypes

// y = w * (x2 r), x2 = x + extra as it was narrowed. Without an addition x2 is x and not written.
__global__ static void plain_forward(lt_reader x, lt_reader extra, lt_reader w, lt_writer x2,
                                     lt_writer y, int64_t width, float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    float sum = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const float v = lt_narrow(x.bf16, x[from + j] + extra[from + j]);
        sum += v * v;
        x2.put(from + j, v);
    }
    const float r = rsqrtf(lt_block_sum(sum) / (float)width + eps);
    const lt_reader summed = {x2.data ? x2.data : x.data, x.bf16};
    for (int64_t j = threadIdx.x; j < width;
         j += blockDim.x) // each thread reads what it wrote itself
        y.put(from + j, w[j] * lt_narrow(x.bf16, summed[from + j] * r));
}

// dx = through + r (g - xhat mean(g xhat)) with g = dy w, xhat = x r; r is left for the weight's
// gradient
__global__ static void plain_backward(lt_reader x, lt_reader w, lt_reader dy, lt_reader through,
                                      lt_writer dx, lt_writer da, float *r_out, int64_t width,
                                      float eps)
{
    const int64_t from = (int64_t)blockIdx.x * width;
    float square = 0.0F, product = 0.0F;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        square += x[from + j] * x[from + j];
        product += dy[from + j] * w[j] * x[from + j];
    }
    const float r = rsqrtf(lt_block_sum(square) / (float)width + eps);
    const float mean = lt_block_sum(product) * r / (float)width;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const float d = through[from + j] + r * (dy[from + j] * w[j] - x[from + j] * r * mean);
        dx.put(from + j, d);
        da.put(from + j, d);
    }
    if (threadIdx.x == 0)
        r_out[blockIdx.x] = r;
}

struct weight_term {
    lt_reader x, dy;
    const float *r;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j] * x[row * width + j] * r[row];
    }
};

static lt_status forward_plainly(const lt_op_args *a, const norm_call &c)
{
    return lt_launch(a, plain_forward, c.rows, LT_BLOCK, 0, lt_read(c.x), lt_read(c.extra),
                     lt_read(c.w), lt_write(c.x2), lt_write(c.y), c.width, c.eps);
}

static lt_status backward_plainly(const lt_op_args *a, const norm_call &c)
{
    float *r = (float *)a->run->scratch;
    const lt_reader x = lt_read(c.x), dy = lt_read(c.dy);
    LT_TRY(lt_launch(a, plain_backward, c.rows, LT_BLOCK, 0, x, lt_read(c.w), dy,
                     lt_read(c.through), c.dx, c.da, r, c.width, c.eps));
    return lt_sum_columns(a, weight_term{x, dy, r, c.width}, c.rows, c.width, c.dw);
}

// ---- rows in registers

struct forward_rows {
    const void *x, *extra, *w;
    void *x2, *y;
    int64_t rows;
    int eights;
    float width, eps;
};

template <typename T, int N, int WARPS, bool ADD>
__global__ static void __launch_bounds__((lt_team<N, WARPS>::threads))
    forward_in_registers(forward_rows a)
{
    typedef lt_team<N, WARPS> team;
    const int64_t row = team::number(), first = row * a.eights;
    if (row >= a.rows)
        return;
    lt_eight<T> x[N];
    team::load(x, a.x, first, a.eights);
    if (ADD) {
        lt_eight<T> extra[N];
        team::load(extra, a.extra, first, a.eights);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float v[8];
#pragma unroll
            for (int k = 0; k < 8; k++)
                v[k] = x[i][k] + extra[i][k];
            x[i].set(v);
            if (team::lane() + i * team::size < a.eights)
                x[i].store(a.x2, first + team::lane() + i * team::size);
        }
    }
    float sum[1] = {0.0F};
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[0] += x[i][k] * x[i][k];
    team::sum(sum, 0);
    const float r = rsqrtf(sum[0] / a.width + a.eps);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = team::lane() + i * team::size;
        if (at >= a.eights)
            continue;
        lt_eight<T> w;
        float v[8];
        w.fetch(a.w, at);
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = x[i][k] * r;
        x[i].set(v); // the narrowing between the two products
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = w[k] * x[i][k];
        x[i].set(v);
        x[i].store(a.y, first + at);
    }
}

struct backward_rows {
    const void *x, *w, *dy, *through;
    lt_sink dx, da;
    float *sums; // of the weight's gradient, for each part; NULL: nobody asks
    int64_t rows, rows_each, parts;
    int eights;
    float width, eps;
};

// A team goes through a part of the rows and keeps its sums of the weight's gradient.
template <typename T, int N, int WARPS, int BLOCKS>
__global__ static void __launch_bounds__((lt_team<N, WARPS>::threads), BLOCKS)
    backward_in_registers(backward_rows a)
{
    typedef lt_team<N, WARPS> team;
    const int64_t part = team::number();
    if (part >= a.parts)
        return;
    float dw[N][8] = {};
    constexpr bool anew = N * WARPS > 10; // wide rows: w is not kept, for the registers' sake
    lt_eight<T> w[N], x[N], dy[N], through[N];
    team::load(w, a.w, 0, a.eights);
    const int64_t from = part * a.rows_each,
                  to = from + a.rows_each < a.rows ? from + a.rows_each : a.rows;
    for (int64_t row = from; row < to; row++) {
        const int64_t first = row * a.eights;
        team::load(x, a.x, first, a.eights);
        team::load(dy, a.dy, first, a.eights);
        if (anew)
            team::refetch(w, a.w, a.eights);
        team::load(through, a.through, first, a.through ? a.eights : 0);
        float sum[2] = {0.0F, 0.0F}; // x^2, g x
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int k = 0; k < 8; k++) {
                sum[0] += x[i][k] * x[i][k];
                sum[1] += dy[i][k] * w[i][k] * x[i][k];
            }
        }
        team::sum(sum, (int)(row % 2));
        const float r = rsqrtf(sum[0] / a.width + a.eps), mean = sum[1] * r / a.width;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int at = team::lane() + i * team::size;
            float d[8];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                d[k] = through[i][k] + r * (dy[i][k] * w[i][k] - x[i][k] * r * mean);
                dw[i][k] += dy[i][k] * x[i][k] * r;
            }
            if (at < a.eights) {
                a.dx.put<T>(first + at, d);
                a.da.put<T>(first + at, d);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = team::lane() + i * team::size;
        if (a.sums && at < a.eights)
            lt_sink{a.sums, false}.put<float>(part * a.eights + at, dw[i]);
    }
}

// ---- which form of the fast kernels a width takes

template <typename T, bool ADD, int N, int WARPS> static constexpr lt_row_kernel<forward_rows> fwd()
{
    return {N * lt_team<N, WARPS>::size, lt_team<N, WARPS>::threads, lt_team<N, WARPS>::per_block,
            0, forward_in_registers<T, N, WARPS, ADD>};
}

template <typename T, int N, int WARPS, int BLOCKS>
static constexpr lt_row_kernel<backward_rows> bwd()
{
    return {N * lt_team<N, WARPS>::size, lt_team<N, WARPS>::threads, lt_team<N, WARPS>::per_block,
            BLOCKS * LT_ROW_SMS * lt_team<N, WARPS>::per_block,
            backward_in_registers<T, N, WARPS, BLOCKS>};
}

template <typename T, bool ADD>
static const lt_row_kernel<forward_rows> *forward_for(int64_t eights)
{
    static const lt_row_kernel<forward_rows> kernels[] = {
        fwd<T, ADD, 1, 1>(), fwd<T, ADD, 2, 1>(), fwd<T, ADD, 4, 1>(),
        fwd<T, ADD, 5, 1>(), fwd<T, ADD, 8, 1>(), fwd<T, ADD, 10, 1>(),
        fwd<T, ADD, 4, 4>(), fwd<T, ADD, 5, 4>(), fwd<T, ADD, 4, 8>()};
    return lt_row_kernel_for(kernels, eights);
}

template <typename T> static const lt_row_kernel<backward_rows> *backward_for(int64_t eights)
{
    static const lt_row_kernel<backward_rows> kernels[] = {bwd<T, 1, 1, 3>(),
                                                           bwd<T, 1, 4, 7>(),
                                                           bwd<T, 1, 5, 6>(),
                                                           bwd<T, 2, 4, 5>(),
                                                           bwd<T, 2, 5, 4>(),
                                                           bwd < T,
                                                           2,
                                                           8,
                                                           sizeof(T) == 2 ? 3 : 2 > (),
                                                           bwd<T, 3, 8, 1>(),
                                                           bwd<T, 4, 8, 1>()};
    return lt_row_kernel_for(kernels, eights);
}

template <typename T> static lt_status forward(const lt_op_args *a, const norm_call &c)
{
    const lt_row_kernel<forward_rows> *k =
        c.extra ? forward_for<T, true>(c.width / 8) : forward_for<T, false>(c.width / 8);
    const forward_rows rows = {c.x->data,
                               c.extra ? c.extra->data : NULL,
                               c.w->data,
                               c.x2 ? c.x2->data : NULL,
                               c.y->data,
                               c.rows,
                               (int)(c.width / 8),
                               (float)c.width,
                               c.eps};
    if (!k || c.width % 8 != 0 || !lt_aligned({rows.x, rows.extra, rows.w, rows.x2, rows.y}))
        return forward_plainly(a, c);
    return lt_launch(a, k->run, lt_ceil_div(c.rows, k->per_block), k->threads, 0, rows);
}

template <typename T> static lt_status backward(const lt_op_args *a, const norm_call &c)
{
    const lt_row_kernel<backward_rows> *k = backward_for<T>(c.width / 8);
    backward_rows rows = {};
    rows.x = c.x->data, rows.w = c.w->data;
    rows.dy = c.dy ? c.dy->data : NULL;
    rows.through = c.through ? c.through->data : NULL;
    rows.dx = lt_sink_of(c.dx), rows.da = lt_sink_of(c.da);
    if (c.dx.add && c.dx.data && !rows.through &&
        !c.da.data) { // what is there is read with the rest
        rows.through = c.dx.data;
        rows.dx.add = false;
    }
    if (!k || !c.dy || c.width % 8 != 0 || !lt_has_dtype(c.dx, c.x->dtype) ||
        !lt_has_dtype(c.da, c.x->dtype) ||
        !lt_aligned({rows.x, rows.w, rows.dy, rows.through, c.dx.data, c.da.data}))
        return backward_plainly(a, c);
    lt_parts p;
    LT_TRY(lt_take_parts(a, c.rows, c.width, k->parts, &p));
    rows.sums = c.dw.data ? p.sums : NULL;
    rows.rows = c.rows, rows.rows_each = p.rows_each, rows.parts = p.n;
    rows.eights = (int)(c.width / 8), rows.width = (float)c.width, rows.eps = c.eps;
    LT_TRY(lt_launch(a, k->run, lt_ceil_div(p.n, k->per_block), k->threads, 0, rows));
    return lt_add_parts(a, p, 0, c.width, c.dw);
}

// ---- the table's entries

static lt_status run(const lt_op_args *a, norm_call c, bool back)
{
    LT_TRY(lt_cuda_begin(a));
    if (((const lt_rms_norm_attr *)a->attr)->plus_one)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: a scale of 1 + w has no CUDA kernel yet",
                       a->def->name);
    c.rows = lt_rows(c.x), c.width = lt_width(c.x);
    c.eps = (float)((const lt_rms_norm_attr *)a->attr)->eps;
    if (c.x->dtype == LT_BF16)
        return back ? backward<lt_bf16>(a, c) : forward<lt_bf16>(a, c);
    return back ? backward<float>(a, c) : forward<float>(a, c);
}

lt_status lt_rms_norm_fwd_cuda(const lt_op_args *a)
{
    norm_call c = {};
    c.x = a->in[0], c.w = a->in[1], c.y = a->out[0];
    return run(a, c, false);
}

lt_status lt_rms_norm_bwd_cuda(const lt_op_args *a)
{
    norm_call c = {};
    c.x = a->in[0], c.w = a->in[1], c.dy = a->dout[0];
    c.dx = lt_write_grad(a, 0), c.dw = lt_write_grad(a, 1);
    return run(a, c, true);
}

lt_status lt_add_rms_norm_fwd_cuda(const lt_op_args *a)
{
    norm_call c = {};
    c.x = a->in[0], c.extra = a->in[1], c.w = a->in[2], c.x2 = a->out[0], c.y = a->out[1];
    return run(a, c, false);
}

lt_status lt_add_rms_norm_bwd_cuda(const lt_op_args *a)
{
    norm_call c = {};
    c.x = a->out[0], c.w = a->in[2], c.dy = a->dout[1], c.through = a->dout[0];
    c.dx = lt_write_grad(a, 0), c.da = lt_write_grad(a, 1), c.dw = lt_write_grad(a, 2);
    return run(a, c, true);
}
