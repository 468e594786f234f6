// SPDX-License-Identifier: Apache-2.0
// The rotary tables, and split_qkv_rope.
#include "op/cuda/eight.cuh"
#include <math.h>
extern "C" {
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

// Three matrices [n, width] with rows `stride` numbers apart: q, k and v.
struct three {
    lt_sink part[3];
    int64_t stride;
};

// Both at once, with E neighbours of either half of a head to a thread; sign -1 turns back.
template <typename T, int E>
__global__ static void turn_packs(three from, three to, const void *table, split_shape s,
                                  float sign)
{
    const uint32_t d = (uint32_t)s.d, per_head = d / 2 / E, per_row = (uint32_t)s.width / 2 / E,
                   number = blockIdx.x * LT_BLOCK + threadIdx.x, row = number / per_row,
                   head = number % per_row / per_head, pack = number % per_head;
    if (row >= s.n)
        return;
    const int64_t low = head * (d / E) + pack, high = low + per_head; // packs of a row
    lt_pack<T, E> in[3][2];
    lt_pack<float, E> c, sine;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        in[i][0].load(from.part[i].data, row * (from.stride / E) + low);
        in[i][1].load(from.part[i].data, row * (from.stride / E) + high);
    }
    c.load(table, row * (s.d / E) + pack);
    sine.load(table, row * (s.d / E) + per_head + pack);
#pragma unroll
    for (int i = 0; i < 3; i++) {
        float l[E], h[E];
#pragma unroll
        for (int k = 0; k < E; k++) {
            const float x = in[i][0][k], y = in[i][1][k];
            l[k] = i == 2 ? x : x * c[k] - y * (sign * sine[k]);
            h[k] = i == 2 ? y : y * c[k] + x * (sign * sine[k]);
        }
        to.part[i].put<T>(row * (to.stride / E) + low, l);
        to.part[i].put<T>(row * (to.stride / E) + high, h);
    }
}

static split_shape split_shape_of(const lt_op_args *a, const lt_tensor *qkv)
{
    const int64_t width = qkv->dim[1] / 3;
    return {qkv->dim[0], width, width / ((const lt_split_qkv_rope_attr *)a->attr)->heads};
}

static three side_by_side(const lt_tensor *qkv, bool add, int64_t width)
{
    char *from = (char *)qkv->data;
    const size_t bytes = (size_t)width * lt_dtype_bytes(qkv->dtype);
    return {{{from, add}, {from + bytes, add}, {from + 2 * bytes, add}}, 3 * width};
}

static three apart(const lt_tensor *q, const lt_tensor *k, const lt_tensor *v, int64_t width)
{
    return {{{q->data, false}, {k->data, false}, {v->data, false}}, width};
}

// Neighbours that a thread may take: 8, 4, or 0 where turn_packs cannot.
static int neighbours(const three &from, const three &to, const lt_tensor *table, split_shape s)
{
    for (int i = 0; i < 3; i++) // of a slice of qkv too: its width is a multiple of eight
        if (!lt_aligned({from.part[i].data, to.part[i].data}))
            return 0;
    if (!lt_aligned({table->data}) || s.n * s.width / 8 > INT32_MAX)
        return 0;
    return s.d % 16 == 0 ? 8 : s.d % 8 == 0 ? 4 : 0;
}

template <typename T>
static lt_status turn(const lt_op_args *a, const three &from, const three &to, split_shape s, int e,
                      float sign)
{
    return lt_launch_each(a, e == 8 ? turn_packs<T, 8> : turn_packs<T, 4>, s.n * s.width / 2 / e,
                          from, to, (const void *)a->in[1]->data, s, sign);
}

lt_status lt_split_qkv_rope_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const split_shape s = split_shape_of(a, a->in[0]);
    const three from = side_by_side(a->in[0], false, s.width),
                to = apart(a->out[0], a->out[1], a->out[2], s.width);
    const int e = neighbours(from, to, a->in[1], s);
    if (e > 0)
        return a->in[0]->dtype == LT_BF16 ? turn<lt_bf16>(a, from, to, s, e, 1.0F)
                                          : turn<float>(a, from, to, s, e, 1.0F);
    return lt_launch_each(a, split, s.n * s.width, lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_write(a->out[0]), lt_write(a->out[1]), lt_write(a->out[2]), s);
}

lt_status lt_split_qkv_rope_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    const split_shape s = split_shape_of(a, a->din[0]);
    if (a->dout[0] && a->dout[1] && a->dout[2] && a->dout[0]->dtype == a->din[0]->dtype) {
        const three from = apart(a->dout[0], a->dout[1], a->dout[2], s.width),
                    to = side_by_side(a->din[0], (a->add & LT_IN(0)) != 0, s.width);
        const int e = neighbours(from, to, a->in[1], s);
        if (e > 0)
            return a->din[0]->dtype == LT_BF16 ? turn<lt_bf16>(a, from, to, s, e, -1.0F)
                                               : turn<float>(a, from, to, s, e, -1.0F);
    }
    return lt_launch_each(a, split_backward, s.n * s.width, lt_read(a->dout[0]),
                          lt_read(a->dout[1]), lt_read(a->dout[2]), lt_read(a->in[1]),
                          lt_write_grad(a, 0), s);
}
