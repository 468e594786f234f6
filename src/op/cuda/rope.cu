// SPDX-License-Identifier: Apache-2.0
// The rotary tables, split_qkv_rope and qk_norm_rope.
#include "op/cuda/columns.cuh"
#include <math.h>
extern "C" {
#include "op/qk_norm_rope.h"
#include "op/rope.h"
}

// ---- tables

enum { MAX_ANGLES = 256 }; // half of the widest rotary width

// What turns angle i of a row: a frequency, and which row of the positions it multiplies. A
// kernel's argument.
struct turns {
    float f[MAX_ANGLES];
    unsigned char axis[MAX_ANGLES];
};

__global__ static void fill_table(const int32_t *pos, turns how, lt_writer table, int64_t n,
                                  int64_t angles)
{
    const int64_t k = lt_thread_number(), t = k / angles, i = k % angles;
    if (t >= n)
        return;
    const float angle = (float)pos[how.axis[i] * n + t] *
                        how.f[i]; // one fp32 product, as the reference programs have it
    double s, c;
    sincos((double)angle, &s, &c);
    table.put(t * 2 * angles + i, (float)c);
    table.put(t * 2 * angles + angles + i, (float)s);
}

// theta^(-2i/width) in fp32: the exponent, the power and its inverse each rounded.
static float frequency(double theta, int64_t i, int64_t width)
{
    return 1.0F / (float)pow(theta, (double)((float)(2 * i) / (float)width));
}

static lt_status check_angles(const lt_op_args *a, int32_t width)
{
    LT_TRY(lt_cuda_begin(a));
    if (width / 2 > MAX_ANGLES)
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "op %s turns up to %d numbers of a head on a GPU, not %d", a->def->name,
                       2 * (int)MAX_ANGLES, width);
    return LT_OK;
}

static lt_status make_table(const lt_op_args *a, const turns *how, int32_t width)
{
    const int64_t n = a->in[0]->dim[1];
    return lt_launch_each(a, fill_table, n * (width / 2), lt_read_index(a->in[0]), *how,
                          lt_write(a->out[0]), n, (int64_t)(width / 2));
}

// Which of the positions' three rows turns frequency i.
static unsigned char axis_of(const lt_rope_table_attr *attr, int32_t i)
{
    if (attr->interleaved) {
        const int axis = i % 3;
        return (unsigned char)(axis != 0 && i < 3 * attr->section[axis] ? axis : 0);
    }
    if (i < attr->section[0])
        return 0;
    return i < attr->section[0] + attr->section[1] ? 1 : 2;
}

lt_status lt_rope_table_fwd_cuda(const lt_op_args *a)
{
    const lt_rope_table_attr *attr = (const lt_rope_table_attr *)a->attr;
    LT_TRY(check_angles(a, attr->width));
    turns how = {};
    for (int32_t i = 0; i < attr->width / 2; i++) {
        how.f[i] = frequency(attr->theta, i, attr->width);
        how.axis[i] = axis_of(attr, i);
    }
    return make_table(a, &how, attr->width);
}

lt_status lt_vision_rope_table_fwd_cuda(const lt_op_args *a)
{
    const lt_vision_rope_table_attr *attr = (const lt_vision_rope_table_attr *)a->attr;
    LT_TRY(check_angles(a, attr->width));
    turns how = {};
    for (int32_t i = 0, m = attr->width / 4; i < 2 * m; i++) {
        how.f[i] = frequency(attr->theta, i % m, attr->width / 2);
        how.axis[i] = (unsigned char)(i / m); // rows, then columns
    }
    return make_table(a, &how, attr->width);
}

// ---- split_qkv_rope

struct split_shape {
    int64_t n, width, d; // patches, width of q, width of a head
};

__global__ static void split(lt_reader qkv, lt_reader table, lt_writer q, lt_writer k, lt_writer v,
                             split_shape s)
{
    const int64_t at = lt_thread_number(), row = at / s.width, j = at % s.width, m = s.d / 2;
    if (row >= s.n)
        return;
    const int64_t i = j % s.d % m, from = row * 3 * s.width + j;
    const bool low = j % s.d < m;
    const float c = table[row * s.d + i], sine = table[row * s.d + m + i];
    q.put(at, qkv[from] * c + (low ? -qkv[from + m] : qkv[from - m]) * sine);
    k.put(at, qkv[from + s.width] * c +
                  (low ? -qkv[from + s.width + m] : qkv[from + s.width - m]) * sine);
    v.put(at, qkv[from + 2 * s.width]);
}

// The rotation by the opposite angle.
__global__ static void split_backward(lt_reader dq, lt_reader dk, lt_reader dv, lt_reader table,
                                      lt_writer dqkv, split_shape s)
{
    const int64_t at = lt_thread_number(), row = at / s.width, j = at % s.width, m = s.d / 2;
    if (row >= s.n)
        return;
    const int64_t i = j % s.d % m, to = row * 3 * s.width + j;
    const bool low = j % s.d < m;
    const float c = table[row * s.d + i], sine = table[row * s.d + m + i];
    dqkv.put(to, dq[at] * c + (low ? dq[at + m] : -dq[at - m]) * sine);
    dqkv.put(to + s.width, dk[at] * c + (low ? dk[at + m] : -dk[at - m]) * sine);
    dqkv.put(to + 2 * s.width, dv[at]);
}

static split_shape split_shape_of(const lt_op_args *a, const lt_tensor *qkv)
{
    const int64_t width = qkv->dim[1] / 3;
    return {qkv->dim[0], width, width / ((const lt_split_qkv_rope_attr *)a->attr)->heads};
}

lt_status lt_split_qkv_rope_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const split_shape s = split_shape_of(a, a->in[0]);
    return lt_launch_each(a, split, s.n * s.width, lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_write(a->out[0]), lt_write(a->out[1]), lt_write(a->out[2]), s);
}

lt_status lt_split_qkv_rope_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    const split_shape s = split_shape_of(a, a->din[0]);
    return lt_launch_each(a, split_backward, s.n * s.width, lt_read(a->dout[0]),
                          lt_read(a->dout[1]), lt_read(a->dout[2]), lt_read(a->in[1]),
                          lt_write_grad(a, 0), s);
}

// ---- qk_norm_rope: a warp for each head

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

lt_status lt_qk_norm_rope_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const heads_of h = heads_in(a);
    return lt_launch_each(a, norm_rope, h.n * 32, h, lt_write(a->out[0]));
}

lt_status lt_qk_norm_rope_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const heads_of h = heads_in(a);
    float *r = (float *)a->run->scratch;
    LT_TRY(lt_launch_each(a, norm_rope_backward, h.n * 32, h, lt_write_grad(a, 0), r));
    return lt_sum_columns(a, head_term{h, r}, h.n, h.d, lt_write_grad(a, 1));
}
