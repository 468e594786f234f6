// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy on the CPU. In training: logits of a chunk of rows by one product, turned
// into their gradients in place, then two more products. Forward alone: tile by tile over the
// vocabulary, with a running maximum and sum.
#include "device/gemm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/linear_cross_entropy.h"
#include "op/op.h"
#include <math.h>

enum { VOCAB_TILE = 4096 };

// What a row's loss is made from.
typedef struct row_state {
    double sum; // of exp(z - top)
    float top, target;
} row_state;

typedef struct chunk {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    int64_t vocab, width;        // of w
    int64_t row, n, col, n_cols; // rows of the chunk; columns whose logits are at hand
    const int32_t *targets;
    const float *kappa;
    bool bf16, with_gradient;
    char *z;          // logits [n, n_cols] in h's dtype
    row_state *state; // [n]
    float *dh;        // sums of dh [n, width]
} chunk;

static lt_dtype dtype_of(const chunk *c)
{
    return c->bf16 ? LT_BF16 : LT_F32;
}

static void *row_of(const chunk *c, int64_t i)
{
    return c->z + (size_t)(i * c->n_cols) * lt_dtype_bytes(dtype_of(c));
}

static int64_t rows_together(const lt_op_args *a)
{
    return lt_min_i64(lt_loss_chunk(a->attr, LT_CPU), a->in[0]->dim[0]);
}

static int64_t columns_together(const lt_op_args *a, lt_pass pass)
{
    return pass == LT_BACKWARD ? a->in[1]->dim[0] : lt_min_i64(VOCAB_TILE, a->in[1]->dim[0]);
}

size_t lt_linear_cross_entropy_scratch_cpu(const lt_op_args *a, lt_pass pass)
{
    const int64_t n = rows_together(a), logit = (int64_t)lt_dtype_bytes(a->in[0]->dtype);
    const int64_t dh = pass == LT_BACKWARD ? n * a->in[0]->dim[1] * (int64_t)sizeof(float) : 0;
    return (size_t)(n * (int64_t)sizeof(row_state) + dh + n * columns_together(a, pass) * logit);
}

static chunk chunk_of(const lt_op_args *a, lt_pass pass)
{
    chunk c = {.a = a,
               .rows = lt_cpu_rows(a),
               .vocab = a->in[1]->dim[0],
               .width = a->in[1]->dim[1],
               .targets = lt_index(a->in[2]),
               .kappa = a->in[3]->data,
               .bf16 = a->in[0]->dtype == LT_BF16};
    const int64_t n = rows_together(a);
    LT_ASSERT(a->run->scratch_bytes >= lt_linear_cross_entropy_scratch_cpu(a, pass));
    c.state = a->run->scratch;
    c.dh = (float *)(void *)(c.state + n);
    c.z = (char *)(c.dh + (pass == LT_BACKWARD ? n * c.width : 0));
    return c;
}

// z = h W^T for the chunk's rows and columns
static lt_status logits(const chunk *c)
{
    const lt_gemm g = {.m = c->n,
                       .n = c->n_cols,
                       .k = c->width,
                       .lda = c->width,
                       .ldb = c->width,
                       .ldc = c->n_cols,
                       .trans_b = true,
                       .ab_dtype = dtype_of(c),
                       .c_dtype = dtype_of(c),
                       .a = lt_at(c->a->in[0], c->row * c->width),
                       .b = lt_at(c->a->in[1], c->col * c->width),
                       .c = c->z};
    return lt_cpu_gemm(lt_cpu_pool(c->a), &g);
}

static float logit(const chunk *c, int64_t i, int64_t col)
{
    return c->bf16 ? lt_bf16_to_f32(((const uint16_t *)row_of(c, i))[col])
                   : ((const float *)row_of(c, i))[col];
}

// The row's logits become kappa (softmax - onehot).
static void row_gradient(const chunk *c, int64_t i, double lse)
{
    const int64_t target = c->targets[c->row + i];
    const float kappa = c->kappa[c->row + i];
    const double at_target =
        (double)kappa * expm1((double)c->state[i].target - lse); // keeps its digits near 0
    c->rows->delta(row_of(c, i), c->bf16, (float)lse, kappa, c->vocab);
    if (c->bf16)
        ((uint16_t *)row_of(c, i))[target] = lt_f32_to_bf16((float)at_target);
    else
        ((float *)row_of(c, i))[target] = (float)at_target;
}

static lt_status see_row(void *ctx, int64_t piece, int64_t i, int64_t to)
{
    (void)piece, (void)to;
    const chunk *c = ctx;
    row_state *s = &c->state[i];
    const int64_t target = c->targets[c->row + i] - c->col;
    if (target >= 0 && target < c->n_cols)
        s->target = logit(c, i, target);
    c->rows->lse(row_of(c, i), c->bf16, c->n_cols, &s->top, &s->sum);
    if (c->with_gradient)
        row_gradient(c, i, (double)s->top + log(s->sum));
    return LT_OK;
}

static void start_rows(const chunk *c)
{
    for (int64_t i = 0; i < c->n; i++)
        c->state[i] = (row_state){.top = -INFINITY};
}

// sum of kappa (LSE - z[target]), rows in order; near 0 no digits are lost
static double sum_rows(const chunk *c)
{
    double loss = 0.0;
    for (int64_t i = 0; i < c->n; i++) {
        const row_state *s = &c->state[i];
        loss += (double)c->kappa[c->row + i] * (((double)s->top - (double)s->target) + log(s->sum));
    }
    return loss;
}

lt_status lt_linear_cross_entropy_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_indices(a, 2, "targets", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0];
    double loss = 0.0;
    if (n > 0) {
        chunk c = chunk_of(a, LT_FORWARD);
        for (c.row = 0; c.row < n; c.row += c.n) {
            c.n = lt_min_i64(rows_together(a), n - c.row);
            start_rows(&c);
            for (c.col = 0; c.col < c.vocab; c.col += VOCAB_TILE) {
                c.n_cols = lt_min_i64(VOCAB_TILE, c.vocab - c.col);
                LT_TRY(logits(&c));
                LT_TRY(lt_cpu_pieces(a, c.n, 1, see_row, &c));
            }
            loss += sum_rows(&c);
        }
    }
    lt_store(a->out[0], 0, loss);
    return LT_OK;
}

static lt_status put_dh(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const chunk *c = ctx;
    c->rows->convert(lt_sink_at(lt_cpu_sink(c->a, 0), (c->row + from) * c->width),
                     c->dh + from * c->width, false, (to - from) * c->width);
    return LT_OK;
}

// dh = delta W, in fp32, over tiles of the vocabulary in order
static lt_status input_gradient(chunk *c)
{
    for (int64_t col = 0; col < c->vocab; col += VOCAB_TILE) {
        const lt_gemm g = {.m = c->n,
                           .n = c->width,
                           .k = lt_min_i64(VOCAB_TILE, c->vocab - col),
                           .lda = c->vocab,
                           .ldb = c->width,
                           .ldc = c->width,
                           .accumulate = col > 0,
                           .ab_dtype = dtype_of(c),
                           .c_dtype = LT_F32,
                           .a = (char *)row_of(c, 0) + (size_t)col * lt_dtype_bytes(dtype_of(c)),
                           .b = lt_at(c->a->in[1], col * c->width),
                           .c = c->dh};
        LT_TRY(lt_cpu_gemm(lt_cpu_pool(c->a), &g));
    }
    return lt_cpu_pieces(c->a, c->n, lt_cpu_rows_step(c->width), put_dh, c);
}

// dw (+)= delta^T h
static lt_status weight_gradient(const chunk *c)
{
    const lt_gemm g = {.m = c->vocab,
                       .n = c->width,
                       .k = c->n,
                       .lda = c->vocab,
                       .ldb = c->width,
                       .ldc = c->width,
                       .trans_a = true,
                       .stream = c->vocab * c->width >= LT_CPU_STREAM_FROM,
                       .accumulate = c->row > 0 || (c->a->add & LT_IN(1)),
                       .ab_dtype = dtype_of(c),
                       .c_dtype = c->a->din[1]->dtype,
                       .a = c->z,
                       .b = lt_at(c->a->in[0], c->row * c->width),
                       .c = c->a->din[1]->data};
    return lt_cpu_gemm(lt_cpu_pool(c->a), &g);
}

static lt_status train_chunk(chunk *c)
{
    start_rows(c);
    LT_TRY(logits(c));
    LT_TRY(lt_cpu_pieces(c->a, c->n, 1, see_row, c));
    if (c->a->din[0])
        LT_TRY(input_gradient(c));
    return c->a->din[1] ? weight_gradient(c) : LT_OK;
}

lt_status lt_linear_cross_entropy_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1)))
        return lt_cpu_reference(a, LT_BACKWARD);
    LT_TRY(lt_need_indices(a, 2, "targets", a->in[1]->dim[0]));
    const int64_t n = a->in[0]->dim[0];
    double loss = 0.0;
    if (n == 0)
        LT_TRY(lt_cpu_zero(a, 1));
    if (n > 0) {
        chunk c = chunk_of(a, LT_BACKWARD);
        c.n_cols = c.vocab;
        c.with_gradient = a->din[0] || a->din[1];
        for (c.row = 0; c.row < n; c.row += c.n) {
            c.n = lt_min_i64(rows_together(a), n - c.row);
            LT_TRY(train_chunk(&c));
            loss += sum_rows(&c);
        }
    }
    if (a->out[0])
        lt_store(a->out[0], 0, loss);
    return LT_OK;
}
