// SPDX-License-Identifier: Apache-2.0
// attention: shape rule, reference and table row. The reference computes every score anew where it
// needs it.
#include "op/attention.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

// What the loops need, read from the arguments once.
typedef struct shape {
    int64_t tokens, heads, kv_heads, group, d, n_segments;
    double scale;
    bool causal;
    const int32_t *segments;
} shape;

static shape shape_of(const lt_op_args *a)
{
    const lt_attention_attr *attr = a->attr;
    const int64_t d = a->in[0]->dim[1] / attr->heads;
    return (shape){.tokens = a->in[0]->dim[0],
                   .heads = attr->heads,
                   .kv_heads = attr->kv_heads,
                   .group = attr->heads / attr->kv_heads,
                   .d = d,
                   .n_segments = lt_n_elems(a->in[3]) - 1,
                   .scale = attr->scale > 0 ? attr->scale : 1.0 / sqrt((double)d),
                   .causal = attr->causal,
                   .segments = lt_index(a->in[3])};
}

static lt_status infer(const lt_op_args *a)
{
    const lt_attention_attr *attr = a->attr;
    LT_TRY(lt_need_rank(a, 0, "q", 2));
    LT_TRY(lt_need_rank(a, 3, "segments", 1));
    LT_TRY(lt_need_dtype(a, 3, "segments", LT_I32));
    const lt_tensor *q = a->in[0];
    if (attr->heads < 1 || attr->kv_heads < 1 || attr->heads % attr->kv_heads != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "attention needs heads as a multiple of kv_heads, got %d and %d",
                       attr->heads, attr->kv_heads);
    }
    const int64_t d = q->dim[1] / attr->heads;
    if (q->dim[1] % attr->heads != 0 || d < 1 || d > LT_MAX_HEAD_DIM)
        return LT_FAIL(LT_ERR_SHAPE, "attention needs q as %d heads of 1 to %d numbers, got %s",
                       attr->heads, (int)LT_MAX_HEAD_DIM, lt_shape_print(q).s);
    LT_TRY(lt_need_2d(a, 1, "k", q->dtype, q->dim[0], d * attr->kv_heads));
    LT_TRY(lt_need_2d(a, 2, "v", q->dtype, q->dim[0], d * attr->kv_heads));
    if (a->in[3]->dim[0] < 1)
        return LT_FAIL(LT_ERR_SHAPE, "attention needs segments with at least one entry, got %s",
                       lt_shape_print(a->in[3]).s);
    *a->out[0] = lt_tensor_like(q);
    *a->out[1] = lt_tensor_2d(lt_wide_dtype(q->dtype), attr->heads, q->dim[0]);
    return LT_OK;
}

static double score(const lt_op_args *a, const shape *s, int64_t head, int64_t i, int64_t j)
{
    return s->scale * lt_dot(a->in[0], (i * s->heads + head) * s->d, 1, a->in[1],
                             (j * s->kv_heads + head / s->group) * s->d, 1, s->d);
}

// One query row over keys [from, to).
static void attend(const lt_op_args *a, const shape *s, int64_t head, int64_t i, int64_t from,
                   int64_t to)
{
    double o[LT_MAX_HEAD_DIM] = {0.0}, top = -(double)INFINITY, sum = 0.0;
    for (int64_t j = from; j < to; j++)
        top = fmax(top, score(a, s, head, i, j));
    for (int64_t j = from; j < to; j++) {
        const double p = exp(score(a, s, head, i, j) - top);
        const int64_t v = (j * s->kv_heads + head / s->group) * s->d;
        sum += p;
        for (int64_t c = 0; c < s->d; c++)
            o[c] += p * lt_load(a->in[2], v + c);
    }
    for (int64_t c = 0; c < s->d; c++)
        lt_store(a->out[0], (i * s->heads + head) * s->d + c, from < to ? o[c] / sum : 0.0);
    lt_store(a->out[1], head * s->tokens + i, top + log(sum));
}

static lt_status forward_ref(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 3, a->in[0]->dim[0]));
    const shape s = shape_of(a);
    for (int64_t head = 0; head < s.heads; head++) {
        for (int64_t i = 0, seg = 0; i < s.tokens; i++) {
            while (seg < s.n_segments && s.segments[seg + 1] <= i)
                seg++;
            const bool inside = seg < s.n_segments && s.segments[seg] <= i;
            const int64_t from = inside ? s.segments[seg] : i;
            attend(a, &s, head, i, from, !inside ? i : s.causal ? i + 1 : s.segments[seg + 1]);
        }
    }
    return LT_OK;
}

// P_ij, and dS_ij = P_ij (dP_ij - Delta_i) with dP_ij = do_i . v_j and Delta_i = do_i . o_i
static double probability(const lt_op_args *a, const shape *s, int64_t head, int64_t i, int64_t j,
                          double *ds)
{
    const int64_t q = (i * s->heads + head) * s->d, v = (j * s->kv_heads + head / s->group) * s->d;
    const double p = exp(score(a, s, head, i, j) - lt_load(a->out[1], head * s->tokens + i));
    const double dp = lt_dot(a->dout[0], q, 1, a->in[2], v, 1, s->d);
    *ds = p * (dp - lt_dot(a->dout[0], q, 1, a->out[0], q, 1, s->d));
    return p;
}

static void query_gradient(const lt_op_args *a, const shape *s, int64_t head, int64_t i,
                           int64_t from, int64_t to)
{
    double dq[LT_MAX_HEAD_DIM] = {0.0}, ds;
    for (int64_t j = from; a->dout[0] && j < to; j++) {
        (void)probability(a, s, head, i, j, &ds);
        for (int64_t c = 0; c < s->d; c++)
            dq[c] +=
                s->scale * ds * lt_load(a->in[1], (j * s->kv_heads + head / s->group) * s->d + c);
    }
    for (int64_t c = 0; c < s->d; c++)
        lt_put_grad(a, 0, (i * s->heads + head) * s->d + c, dq[c]);
}

// dk and dv of one key row: over the queries [from, to) of all heads that read it
static void key_gradient(const lt_op_args *a, const shape *s, int64_t kv_head, int64_t j,
                         int64_t from, int64_t to)
{
    double dk[LT_MAX_HEAD_DIM] = {0.0}, dv[LT_MAX_HEAD_DIM] = {0.0}, ds;
    for (int64_t head = kv_head * s->group; a->dout[0] && head < (kv_head + 1) * s->group; head++) {
        for (int64_t i = from; i < to; i++) {
            const double p = probability(a, s, head, i, j, &ds);
            const int64_t q = (i * s->heads + head) * s->d;
            for (int64_t c = 0; c < s->d; c++) {
                dk[c] += s->scale * ds * lt_load(a->in[0], q + c);
                dv[c] += p * lt_load(a->dout[0], q + c);
            }
        }
    }
    for (int64_t c = 0; c < s->d; c++) {
        lt_put_grad(a, 1, (j * s->kv_heads + kv_head) * s->d + c, dk[c]);
        lt_put_grad(a, 2, (j * s->kv_heads + kv_head) * s->d + c, dv[c]);
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    const shape s = shape_of(a);
    for (int64_t i = 0, seg = 0; i < s.tokens; i++) {
        while (seg < s.n_segments && s.segments[seg + 1] <= i)
            seg++;
        const bool inside = seg < s.n_segments && s.segments[seg] <= i;
        const int64_t start = inside ? s.segments[seg] : i, end = inside ? s.segments[seg + 1] : i;
        for (int64_t head = 0; a->din[0] && head < s.heads; head++)
            query_gradient(a, &s, head, i, start, inside && s.causal ? i + 1 : end);
        for (int64_t head = 0; (a->din[1] || a->din[2]) && head < s.kv_heads; head++)
            key_gradient(a, &s, head, i, inside && s.causal ? i : start, end);
    }
    return LT_OK;
}

// 2 d for each score and 2 d for each product with v. Without a host twin (planning): one segment
// of all rows.
static int64_t flops(const lt_op_args *a)
{
    const lt_attention_attr *attr = a->attr;
    const int32_t *segments = a->in[3]->host;
    const int64_t n_segments = a->in[3]->dim[0] - 1;
    int64_t pairs = 0;
    for (int64_t i = 0; i < (segments ? n_segments : 1); i++) {
        const int64_t n = segments ? segments[i + 1] - segments[i] : a->in[0]->dim[0];
        pairs += attr->causal ? n * (n + 1) / 2 : n * n;
    }
    return 4 * pairs * a->in[0]->dim[1];
}

#ifndef LATHE_CUDA
// What the fused kernels of a GPU want, about: for plans made by a build without them. Per token
// and head the row's lse and sum; per number of q its gradient's sum in f32 and, where query heads
// share a key head, keys' and values' gradients of every head. source: spec/cuda-notes.md 2.8
static size_t scratch_about(const lt_op_args *a, lt_pass pass)
{
    const lt_attention_attr *attr = a->attr;
    const size_t tokens = (size_t)a->in[0]->dim[0], row = (size_t)a->in[0]->dim[1];
    const size_t table = (size_t)1 << 16, lse = tokens * (size_t)attr->heads * 4;
    if (a->in[0]->dtype != LT_BF16)
        return 0;
    if (pass == LT_FORWARD)
        return table + lse;
    return table + 2 * lse + tokens * row * (attr->heads > attr->kv_heads ? 8 : 4);
}
#define GPU_SCRATCH(a, pass) scratch_about((a), (pass))
#else
#define GPU_SCRATCH(a, pass) lt_attention_scratch_cuda((a), (pass))
#endif

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    return a->backend == LT_CUDA ? GPU_SCRATCH(a, pass) : 0;
}

const lt_op_def lt_op_attention = {
    .name = "attention",
    .n_in = 4,
    .n_out = 2,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(3),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_attention_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_attention_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_attention_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_attention_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3) | LT_OUT(0) | LT_OUT(1),
    .scratch = scratch,
    .flops = flops,
    .flags = LT_OP_MUST_SAVE,
};

lt_val lt_attention(lt_builder *b, lt_val q, lt_val k, lt_val v, lt_attention_attr attr)
{
    const lt_val segments = lt_batch_of(b, attr.tiles    ? LT_BATCH_TILE_SEGMENTS
                                           : attr.vision ? LT_BATCH_FRAME_SEGMENTS
                                                         : LT_BATCH_SEGMENTS);
    return lt_op_apply(b, &lt_op_attention, (const lt_val[]){q, k, v, segments}, 4, &attr,
                       sizeof attr, NULL);
}
