// SPDX-License-Identifier: Apache-2.0
// qk_norm_rope: the norm of each head and its rotation, in registers where a head is turned as a
// whole and its width is 64, 128 or 256, else a warp for each head.
#include "op/cuda/columns.cuh"
#include "op/cuda/eight.cuh"
extern "C" {
#include "op/qk_norm_rope.h"
}

// ---- heads of any width: a warp for each

// One op's numbers, as device functions read them. `head` counts through all rows.
struct heads_of {
    lt_reader x, w, table, dy;
    int64_t n, per_row, d, m; // heads in all, in a row, their width, half the rotary width
    float eps;

    // (mean x^2 + eps)^-1/2 of a head
    __device__ float root(int64_t head) const
    {
        float sum = 0.0F;
        for (int64_t j = threadIdx.x % 32; j < d; j += 32)
            sum += x[head * d + j] * x[head * d + j];
        return rsqrtf(lt_warp_sum(sum) / (float)d + eps);
    }

    // Number j of a normalised head, with the narrowings of a bf16 rms_norm.
    __device__ float normed(int64_t head, int64_t j, float r) const
    {
        return lt_narrow(x.bf16, w[j] * lt_narrow(x.bf16, x[head * d + j] * r));
    }

    // Cosine and sine for number j; false for those that are not rotated.
    __device__ bool angle(int64_t head, int64_t j, float *c, float *s) const
    {
        if (j >= 2 * m)
            return false;
        const int64_t at = head / per_row * 2 * m + j % m;
        *c = lt_narrow(x.bf16, table[at]);
        *s = lt_narrow(x.bf16, table[at + m]);
        return true;
    }

    // Gradient of the normalised number j: dy turned back by the angle.
    __device__ float turned_back(int64_t head, int64_t j) const
    {
        const float g = dy[head * d + j];
        float c, s;
        if (!angle(head, j, &c, &s))
            return g;
        return g * c + (j < m ? dy[head * d + j + m] : -dy[head * d + j - m]) * s;
    }
};

__global__ static void norm_rope(heads_of h, lt_writer y)
{
    const int64_t head = lt_thread_number() / 32;
    if (head >= h.n)
        return;
    const float r = h.root(head);
    for (int64_t j = threadIdx.x % 32; j < h.d; j += 32) {
        float v = h.normed(head, j, r), c, s;
        if (h.angle(head, j, &c, &s))
            v = v * c + (j < h.m ? -h.normed(head, j + h.m, r) : h.normed(head, j - h.m, r)) * s;
        y.put(head * h.d + j, v);
    }
}

__global__ static void norm_rope_backward(heads_of h, lt_writer dx, float *r_out)
{
    const int64_t head = lt_thread_number() / 32;
    if (head >= h.n)
        return;
    const float r = h.root(head);
    float sum = 0.0F;
    for (int64_t j = threadIdx.x % 32; j < h.d; j += 32)
        sum += h.turned_back(head, j) * h.w[j] * h.x[head * h.d + j];
    const float mean = lt_warp_sum(sum) * r / (float)h.d;
    for (int64_t j = threadIdx.x % 32; j < h.d; j += 32)
        dx.put(head * h.d + j,
               r * (h.turned_back(head, j) * h.w[j] - h.x[head * h.d + j] * r * mean));
    if (threadIdx.x % 32 == 0)
        r_out[head] = r;
}

struct head_term {
    heads_of h;
    const float *r;
    __device__ float operator()(int64_t head, int64_t j) const
    {
        return h.turned_back(head, j) * h.x[head * h.d + j] * r[head];
    }
};

static heads_of heads_in(const lt_op_args *a)
{
    const lt_qk_norm_rope_attr *attr = (const lt_qk_norm_rope_attr *)a->attr;
    heads_of h = {};
    h.x = lt_read(a->in[0]), h.w = lt_read(a->in[1]), h.table = lt_read(a->in[2]),
    h.dy = lt_read(a->dout[0]);
    h.per_row = attr->heads;
    h.n = a->in[0]->dim[0] * attr->heads;
    h.d = a->in[0]->dim[1] / attr->heads;
    h.m = a->in[2]->dim[1] / 2;
    h.eps = (float)attr->eps;
    return h;
}

static lt_status forward_plainly(const lt_op_args *a)
{
    const heads_of h = heads_in(a);
    return lt_launch_each(a, norm_rope, h.n * 32, h, lt_write(a->out[0]));
}

static lt_status backward_plainly(const lt_op_args *a)
{
    const heads_of h = heads_in(a);
    float *r = (float *)a->run->scratch;
    LT_TRY(lt_launch_each(a, norm_rope_backward, h.n * 32, h, lt_write_grad(a, 0), r));
    return lt_sum_columns(a, head_term{h, r}, h.n, h.d, lt_write_grad(a, 1));
}

// ---- heads in registers: LANES lanes hold a head, an eight of its lower half and the eight of its
// upper half that turns with it; a warp takes the heads of a token

struct tokens {
    const void *x, *w, *dy;
    const void *table; // f32
    lt_sink to;
    float *sums;            // backward: of the weight's gradient, for each part; NULL: nobody asks
    int64_t n, each, parts; // tokens, of a part, and how many parts
    int heads;
    float width, eps;
};

template <typename T, int LANES> struct head_lanes {
    static constexpr int at_once = 32 / LANES; // heads
    lt_eight<T> low, high;

    static __device__ int lane()
    {
        return (int)threadIdx.x % LANES;
    }
    static __device__ int head()
    {
        return (int)threadIdx.x % 32 / LANES;
    }
    __device__ void load(const void *from, int64_t number, bool live)
    {
        if (live) {
            low.load(from, number * 2 * LANES + lane());
            high.load(from, number * 2 * LANES + LANES + lane());
        } else {
            low.clear();
            high.clear();
        }
    }
    static __device__ float sum(float v)
    {
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            v += __shfl_xor_sync(0xffffffffU, v, step);
        return v;
    }
    __device__ float square() const
    {
        float v = 0.0F;
#pragma unroll
        for (int k = 0; k < 8; k++)
            v += low[k] * low[k] + high[k] * high[k];
        return sum(v);
    }
};

// Cosines and sines of a token, narrowed as the activations are.
template <typename T> struct angles {
    lt_eight<T> c, s;
    __device__ void load(const void *table, int64_t token, int lanes, int lane)
    {
        lt_eight<float> wide;
        float v[8];
        wide.load(table, token * 2 * lanes + lane);
        for (int k = 0; k < 8; k++)
            v[k] = wide[k];
        c.set(v);
        wide.load(table, token * 2 * lanes + lanes + lane);
        for (int k = 0; k < 8; k++)
            v[k] = wide[k];
        s.set(v);
    }
};

// w (x r), narrowed twice
template <typename T>
static __device__ lt_eight<T> normed(const lt_eight<T> &x, const lt_eight<T> &w, float r)
{
    lt_eight<T> n;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; k++)
        v[k] = x[k] * r;
    n.set(v);
#pragma unroll
    for (int k = 0; k < 8; k++)
        v[k] = w[k] * n[k];
    n.set(v);
    return n;
}

// Heads of a lane whose loads are under way at once; blocks on a processor.
enum { HEADS_TOGETHER = 2, FORWARD_BLOCKS = 3, BACKWARD_BLOCKS = 2 };

template <typename T, int LANES>
__global__ static void __launch_bounds__(LT_BLOCK, FORWARD_BLOCKS) forward_in_registers(tokens a)
{
    typedef head_lanes<T, LANES> heads;
    const int64_t token = lt_thread_number() / 32;
    if (token >= a.n)
        return;
    angles<T> turn;
    heads w, x[HEADS_TOGETHER];
    turn.load(a.table, token, LANES, heads::lane());
    w.load(a.w, 0, true);
    for (int base = 0; base < a.heads; base += heads::at_once * HEADS_TOGETHER) {
#pragma unroll
        for (int i = 0; i < HEADS_TOGETHER; i++) {
            const int head = base + i * heads::at_once + heads::head();
            x[i].load(a.x, token * a.heads + head, head < a.heads);
        }
#pragma unroll
        for (int i = 0; i < HEADS_TOGETHER; i++) {
            const int head = base + i * heads::at_once + heads::head();
            const float r = rsqrtf(x[i].square() / a.width + a.eps);
            const lt_eight<T> low = normed(x[i].low, w.low, r), high = normed(x[i].high, w.high, r);
            float l[8], h[8];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                l[k] = low[k] * turn.c[k] - high[k] * turn.s[k];
                h[k] = high[k] * turn.c[k] + low[k] * turn.s[k];
            }
            if (head < a.heads) {
                const int64_t at = (token * a.heads + head) * 2 * LANES + heads::lane();
                a.to.put<T>(at, l);
                a.to.put<T>(at + LANES, h);
            }
        }
    }
}

// One head's dx, and what it adds to the weight's gradient.
template <typename T, int LANES>
static __device__ void turn_back(const tokens &a, const head_lanes<T, LANES> &x,
                                 const head_lanes<T, LANES> &dy, const head_lanes<T, LANES> &w,
                                 const angles<T> &turn, float (&dw)[2][8], int64_t number,
                                 bool live)
{
    float low[8], high[8], product = 0.0F;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        low[k] = dy.low[k] * turn.c[k] + dy.high[k] * turn.s[k];
        high[k] = dy.high[k] * turn.c[k] - dy.low[k] * turn.s[k];
        product += low[k] * w.low[k] * x.low[k] + high[k] * w.high[k] * x.high[k];
    }
    const float r = rsqrtf(x.square() / a.width + a.eps),
                mean = head_lanes<T, LANES>::sum(product) * r / a.width;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        dw[0][k] += low[k] * x.low[k] * r;
        dw[1][k] += high[k] * x.high[k] * r;
        low[k] = r * (low[k] * w.low[k] - x.low[k] * r * mean);
        high[k] = r * (high[k] * w.high[k] - x.high[k] * r * mean);
    }
    if (live) {
        const int64_t at = number * 2 * LANES + head_lanes<T, LANES>::lane();
        a.to.put<T>(at, low);
        a.to.put<T>(at + LANES, high);
    }
}

// The sums of a block's warps and of the heads in them, in order.
template <int LANES> static __device__ void add_up(const float (&dw)[2][8], float *sums)
{
    __shared__ float all[LT_BLOCK / LANES][16 * LANES];
    const int lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        all[group][lane * 8 + k] = dw[0][k];
        all[group][8 * LANES + lane * 8 + k] = dw[1][k];
    }
    __syncthreads();
    for (int j = (int)threadIdx.x; j < 16 * LANES; j += LT_BLOCK) {
        float sum = 0.0F;
        for (int g = 0; g < LT_BLOCK / LANES; g++)
            sum += all[g][j];
        sums[(int64_t)blockIdx.x * 16 * LANES + j] = sum;
    }
}

template <typename T, int LANES>
__global__ static void __launch_bounds__(LT_BLOCK, BACKWARD_BLOCKS) backward_in_registers(tokens a)
{
    typedef head_lanes<T, LANES> heads;
    float dw[2][8] = {};
    angles<T> turn;
    heads w, x[HEADS_TOGETHER], dy[HEADS_TOGETHER];
    w.load(a.w, 0, true);
    const int64_t from = blockIdx.x * a.each, to = from + a.each < a.n ? from + a.each : a.n;
    for (int64_t token = from + threadIdx.x / 32; token < to; token += LT_BLOCK / 32) {
        turn.load(a.table, token, LANES, heads::lane());
        for (int base = 0; base < a.heads; base += heads::at_once * HEADS_TOGETHER) {
#pragma unroll
            for (int i = 0; i < HEADS_TOGETHER; i++) {
                const int head = base + i * heads::at_once + heads::head();
                x[i].load(a.x, token * a.heads + head, head < a.heads);
                dy[i].load(a.dy, token * a.heads + head, head < a.heads);
            }
#pragma unroll
            for (int i = 0; i < HEADS_TOGETHER; i++) {
                const int head = base + i * heads::at_once + heads::head();
                turn_back(a, x[i], dy[i], w, turn, dw, token * a.heads + head, head < a.heads);
            }
        }
    }
    if (a.sums)
        add_up<LANES>(dw, a.sums);
}

typedef void (*token_kernel)(tokens);

// The kernels for heads of that width; NULL when there are none.
template <typename T> static token_kernel forward_for(int64_t d)
{
    return d == 64    ? forward_in_registers<T, 4>
           : d == 128 ? forward_in_registers<T, 8>
           : d == 256 ? forward_in_registers<T, 16>
                      : (token_kernel)NULL;
}

template <typename T> static token_kernel backward_for(int64_t d)
{
    return d == 64    ? backward_in_registers<T, 4>
           : d == 128 ? backward_in_registers<T, 8>
           : d == 256 ? backward_in_registers<T, 16>
                      : (token_kernel)NULL;
}

// The call in these kernels' terms; false when they cannot take it.
static bool tokens_of(const lt_op_args *a, lt_writer to, bool back, tokens *out)
{
    const lt_tensor *x = a->in[0];
    const int heads = ((const lt_qk_norm_rope_attr *)a->attr)->heads;
    const int64_t d = x->dim[1] / heads;
    tokens t = {};
    t.x = x->data, t.w = a->in[1]->data, t.table = a->in[2]->data;
    t.dy = a->dout[0] ? a->dout[0]->data : NULL;
    t.to = lt_sink_of(to);
    t.n = x->dim[0], t.heads = heads;
    t.width = (float)d, t.eps = (float)((const lt_qk_norm_rope_attr *)a->attr)->eps;
    *out = t;
    return a->in[2]->dim[1] == d && (t.dy || !back) && lt_has_dtype(to, x->dtype) &&
           lt_aligned({t.x, t.w, t.table, t.dy, to.data});
}

static lt_status begin(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (((const lt_qk_norm_rope_attr *)a->attr)->plus_one)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: a scale of 1 + w has no CUDA kernel yet",
                       a->def->name);
    return LT_OK;
}

lt_status lt_qk_norm_rope_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(begin(a));
    tokens t;
    const bool fits = tokens_of(a, lt_write(a->out[0]), false, &t);
    const int64_t d = (int64_t)t.width;
    const token_kernel kernel =
        a->in[0]->dtype == LT_BF16 ? forward_for<lt_bf16>(d) : forward_for<float>(d);
    if (!fits || !kernel)
        return forward_plainly(a);
    return lt_launch_each(a, kernel, t.n * 32, t);
}

lt_status lt_qk_norm_rope_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(begin(a));
    tokens t;
    const bool fits = tokens_of(a, lt_write_grad(a, 0), true, &t);
    const int64_t d = (int64_t)t.width;
    const token_kernel kernel =
        a->in[0]->dtype == LT_BF16 ? backward_for<lt_bf16>(d) : backward_for<float>(d);
    if (!fits || !kernel)
        return backward_plainly(a);
    lt_parts p;
    LT_TRY(lt_take_parts(a, t.n, d, LT_ROW_SMS * BACKWARD_BLOCKS, &p));
    t.sums = a->din[1] ? p.sums : NULL;
    t.each = p.rows_each, t.parts = p.n;
    LT_TRY(lt_launch(a, kernel, p.n, LT_BLOCK, 0, t));
    return lt_add_parts(a, p, 0, d, lt_write_grad(a, 1));
}
