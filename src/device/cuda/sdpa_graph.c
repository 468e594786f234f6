// SPDX-License-Identifier: Apache-2.0
// Attention written as a cuDNN graph. The library runs its fused kernels where it recognises the
// pattern, so the order of operations, which of them have memory and where masks stand are as its
// matcher wants them.
#include "device/cuda/sdpa_graph.h"
#include <string.h>

enum { NUMBER_ALIGNMENT = 4 }; // calls begin at any token or head

// The tensors that both passes share.
typedef struct writer {
    lt_dnn_graph *g;
    const lt_sdpa_shape *s;
    lt_dnn at_q, at_kv, at_lse, length; // NULL where not packed
    lt_dnn scale, hidden;
    int64_t scores[4];
} writer;

// ---- tensors with memory

static lt_dnn table(writer *w, lt_sdpa_tensor which, int64_t n)
{
    if (!w->s->packed)
        return NULL;
    return lt_dnn_tensor_of(w->g, &(lt_dnn_tensor){.id = 1 + (int64_t)which,
                                                   .type = CUDNN_DATA_INT32,
                                                   .dim = {n, 1, 1, 1},
                                                   .stride = {1, 1, 1, 1},
                                                   .alignment = NUMBER_ALIGNMENT});
}

static lt_dnn number(writer *w, int64_t id)
{
    return lt_dnn_tensor_of(w->g, &(lt_dnn_tensor){.id = id,
                                                   .type = CUDNN_DATA_FLOAT,
                                                   .dim = {1, 1, 1, 1},
                                                   .stride = {1, 1, 1, 1},
                                                   .by_value = true});
}

// [batch, heads, length, head_dim] of rows that are `row` numbers apart.
static lt_dnn rows(writer *w, lt_sdpa_tensor which, cudnnDataType_t type, int64_t heads,
                   int64_t row, lt_dnn ragged)
{
    const lt_sdpa_shape *s = w->s;
    return lt_dnn_tensor_of(w->g, &(lt_dnn_tensor){.id = 1 + (int64_t)which,
                                                   .type = type,
                                                   .dim = {s->batch, heads, s->length, s->head_dim},
                                                   .stride = {s->length * row, s->head_dim, row, 1},
                                                   .ragged = ragged});
}

static lt_dnn query_rows(writer *w, lt_sdpa_tensor which)
{
    return rows(w, which, CUDNN_DATA_BFLOAT16, w->s->heads, w->s->row_q, w->at_q);
}

static lt_dnn key_rows(writer *w, lt_sdpa_tensor which)
{
    return rows(w, which, CUDNN_DATA_BFLOAT16, w->s->kv_heads, w->s->row_kv, w->at_kv);
}

// The same memory as columns: [batch, heads, head_dim, length].
static lt_dnn key_columns(writer *w, lt_sdpa_tensor which)
{
    const lt_sdpa_shape *s = w->s;
    return lt_dnn_tensor_of(
        w->g, &(lt_dnn_tensor){.id = 1 + (int64_t)which,
                               .type = CUDNN_DATA_BFLOAT16,
                               .dim = {s->batch, s->kv_heads, s->head_dim, s->length},
                               .stride = {s->length * s->row_kv, s->head_dim, 1, s->row_kv},
                               .ragged = w->at_kv});
}

// A number for each query and head, laid out as lse is.
static lt_dnn query_numbers(writer *w, lt_sdpa_tensor which)
{
    const lt_sdpa_shape *s = w->s;
    lt_dnn_tensor t = {.id = 1 + (int64_t)which,
                       .type = CUDNN_DATA_FLOAT,
                       .dim = {s->batch, s->heads, s->length, 1},
                       .stride = {s->length, s->lse_head_stride, 1, 1},
                       .ragged = w->at_lse,
                       .alignment = NUMBER_ALIGNMENT};
    if (s->packed) {
        t.stride[0] = s->length * s->lse_heads;
        t.stride[1] = 1;
        t.stride[2] = s->lse_heads;
    }
    return lt_dnn_tensor_of(w->g, &t);
}

static writer start(lt_dnn_graph *g, const lt_sdpa_shape *s)
{
    writer w = {.g = g, .s = s, .scores = {s->batch, s->heads, s->length, s->length}};
    w.at_q = table(&w, LT_SDPA_AT_Q, s->batch + 1);
    w.at_kv = table(&w, LT_SDPA_AT_KV, s->batch + 1);
    w.at_lse = table(&w, LT_SDPA_AT_LSE, s->batch + 1);
    w.length = table(&w, LT_SDPA_LENGTH, s->batch);
    w.scale = number(&w, LT_SDPA_ID_SCALE);
    if (s->packed || s->causal)
        w.hidden = number(&w, LT_SDPA_ID_HIDDEN);
    return w;
}

// ---- operations on scores, which are virtual

static lt_dnn scores_of(writer *w)
{
    return lt_dnn_virtual(w->g, CUDNN_DATA_FLOAT, w->scores);
}

// The result of an operation on scores: f32, of their shape.
static lt_dnn on_scores(writer *w, cudnnPointwiseMode_t mode, lt_dnn x, lt_dnn b)
{
    const lt_dnn y = scores_of(w);
    lt_dnn_add_pointwise(
        w->g,
        &(lt_dnn_pointwise){.mode = mode, .compute = CUDNN_DATA_FLOAT, .x = x, .b = b, .y = y});
    return y;
}

static lt_dnn index_of(writer *w, lt_dnn scores, int64_t axis)
{
    const lt_dnn y = lt_dnn_virtual(w->g, CUDNN_DATA_INT32, w->scores);
    lt_dnn_add_pointwise(w->g, &(lt_dnn_pointwise){.mode = CUDNN_POINTWISE_GEN_INDEX,
                                                   .compute = CUDNN_DATA_INT32,
                                                   .x = scores,
                                                   .y = y,
                                                   .axis = axis});
    return y;
}

static lt_dnn truth(writer *w, cudnnPointwiseMode_t mode, lt_dnn x, lt_dnn b)
{
    const lt_dnn y = lt_dnn_virtual(w->g, CUDNN_DATA_BOOLEAN, w->scores);
    lt_dnn_add_pointwise(
        w->g,
        &(lt_dnn_pointwise){.mode = mode, .compute = CUDNN_DATA_BOOLEAN, .x = x, .b = b, .y = y});
    return y;
}

static lt_dnn where(writer *w, lt_dnn seen, lt_dnn scores)
{
    const lt_dnn y = scores_of(w);
    lt_dnn_add_pointwise(w->g, &(lt_dnn_pointwise){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                   .compute = CUDNN_DATA_FLOAT,
                                                   .x = scores,
                                                   .b = w->hidden,
                                                   .t = seen,
                                                   .y = y});
    return y;
}

// Rows and columns beyond a sequence's length.
static lt_dnn mask_padding(writer *w, lt_dnn scores)
{
    if (!w->s->packed)
        return scores;
    const lt_dnn row = index_of(w, scores, 2), column = index_of(w, scores, 3),
                 row_in = truth(w, CUDNN_POINTWISE_CMP_LT, row, w->length),
                 column_in = truth(w, CUDNN_POINTWISE_CMP_LT, column, w->length);
    return where(w, truth(w, CUDNN_POINTWISE_LOGICAL_AND, row_in, column_in), scores);
}

static lt_dnn mask_future(writer *w, lt_dnn scores)
{
    if (!w->s->causal)
        return scores;
    const lt_dnn row = index_of(w, scores, 2), column = index_of(w, scores, 3);
    return where(w, truth(w, CUDNN_POINTWISE_CMP_GE, row, column), scores);
}

static lt_dnn scaled_scores(writer *w, lt_dnn q, lt_dnn k_columns)
{
    const lt_dnn raw = scores_of(w);
    lt_dnn_add_matmul(
        w->g, &(lt_dnn_matmul){.a = q, .b = k_columns, .c = raw, .m = w->length, .n = w->length});
    return on_scores(w, CUDNN_POINTWISE_MUL, raw, w->scale);
}

// ---- forward

// A number for each row of the scores, virtual.
static lt_dnn row_numbers(writer *w)
{
    return lt_dnn_virtual(w->g, CUDNN_DATA_FLOAT,
                          (const int64_t[]){w->s->batch, w->s->heads, w->s->length, 1});
}

static lt_dnn reduce_rows(writer *w, cudnnReduceTensorOp_t op, lt_dnn x)
{
    const lt_dnn y = row_numbers(w);
    lt_dnn_add_reduction(w->g, op, x, y);
    return y;
}

static void write_forward(writer *w)
{
    const lt_dnn q = query_rows(w, LT_SDPA_Q), k = key_columns(w, LT_SDPA_K),
                 v = key_rows(w, LT_SDPA_V), o = query_rows(w, LT_SDPA_O),
                 lse = query_numbers(w, LT_SDPA_LSE);
    const lt_dnn scores = mask_future(w, mask_padding(w, scaled_scores(w, q, k)));
    const lt_dnn top = reduce_rows(w, CUDNN_REDUCE_TENSOR_MAX, scores);
    const lt_dnn e =
        on_scores(w, CUDNN_POINTWISE_EXP, on_scores(w, CUDNN_POINTWISE_SUB, scores, top), NULL);
    const lt_dnn sum = reduce_rows(w, CUDNN_REDUCE_TENSOR_ADD, e), log = row_numbers(w);
    lt_dnn_add_pointwise(
        w->g, &(lt_dnn_pointwise){
                  .mode = CUDNN_POINTWISE_LOG, .compute = CUDNN_DATA_FLOAT, .x = sum, .y = log});
    lt_dnn_add_pointwise(w->g, &(lt_dnn_pointwise){.mode = CUDNN_POINTWISE_ADD,
                                                   .compute = CUDNN_DATA_FLOAT,
                                                   .x = top,
                                                   .b = log,
                                                   .y = lse});
    const lt_dnn p = lt_dnn_virtual(w->g, CUDNN_DATA_BFLOAT16, w->scores);
    lt_dnn_add_pointwise(
        w->g,
        &(lt_dnn_pointwise){
            .mode = CUDNN_POINTWISE_DIV, .compute = CUDNN_DATA_FLOAT, .x = e, .b = sum, .y = p});
    lt_dnn_add_matmul(w->g,
                      &(lt_dnn_matmul){.a = p, .b = v, .c = o, .m = w->length, .k = w->length});
}

// ---- backward

// do . o for each query, in memory of ours.
static lt_dnn row_sum(writer *w, lt_dnn d_out, lt_dnn o)
{
    const lt_sdpa_shape *s = w->s;
    const lt_dnn product = lt_dnn_virtual(
        w->g, CUDNN_DATA_FLOAT, (const int64_t[]){s->batch, s->heads, s->length, s->head_dim});
    lt_dnn_add_pointwise(w->g, &(lt_dnn_pointwise){.mode = CUDNN_POINTWISE_MUL,
                                                   .compute = CUDNN_DATA_FLOAT,
                                                   .x = d_out,
                                                   .b = o,
                                                   .y = product});
    const lt_dnn sum = reduce_rows(w, CUDNN_REDUCE_TENSOR_ADD, product);
    const lt_dnn one = number(w, LT_SDPA_ID_ONE);
    const lt_dnn y =
        s->packed && !s->padded_sums
            ? query_numbers(w, LT_SDPA_ROW_SUM)
            : lt_dnn_tensor_of(w->g, &(lt_dnn_tensor){.id = 1 + LT_SDPA_ROW_SUM,
                                                      .type = CUDNN_DATA_FLOAT,
                                                      .dim = {s->batch, s->heads, s->length, 1}});
    lt_dnn_add_pointwise(
        w->g,
        &(lt_dnn_pointwise){
            .mode = CUDNN_POINTWISE_MUL, .compute = CUDNN_DATA_FLOAT, .x = sum, .b = one, .y = y});
    return y;
}

// x^T y over the queries, where x are scores: dv and dk. Shared key heads get the sum of theirs.
static void give_keys(writer *w, lt_dnn x, lt_dnn y, lt_sdpa_tensor each, lt_sdpa_tensor result)
{
    const lt_sdpa_shape *s = w->s;
    const int64_t n = s->length, turned[4] = {s->batch, s->heads, n, n};
    const lt_dnn xt =
        lt_dnn_tensor_of(w->g, &(lt_dnn_tensor){.type = CUDNN_DATA_BFLOAT16,
                                                .dim = {turned[0], turned[1], turned[2], turned[3]},
                                                .stride = {s->heads * n * n, n * n, 1, n}});
    lt_dnn_add_reshape(w->g, x, xt);
    const bool shared = s->heads != s->kv_heads;
    const lt_dnn out = key_rows(w, result);
    lt_dnn heads = out;
    if (shared && s->packed && !s->padded_sums)
        heads = rows(w, each, CUDNN_DATA_BFLOAT16, s->heads, s->row_q, w->at_kv);
    else if (shared)
        heads = lt_dnn_virtual(w->g, CUDNN_DATA_BFLOAT16,
                               (const int64_t[]){s->batch, s->heads, n, s->head_dim});
    lt_dnn_add_matmul(
        w->g, &(lt_dnn_matmul){.a = xt, .b = y, .c = heads, .m = w->length, .k = w->length});
    if (shared)
        lt_dnn_add_reduction(w->g, CUDNN_REDUCE_TENSOR_ADD, heads, out);
}

// ds k: summed in f32 in the order that blocks finish in, unless it has to be the same each time.
static void give_queries(writer *w, lt_dnn ds, lt_dnn k_columns)
{
    const lt_sdpa_shape *s = w->s;
    lt_dnn_tensor rows_of_k = {.type = CUDNN_DATA_BFLOAT16,
                               .dim = {s->batch, s->kv_heads, s->length, s->head_dim}};
    if (s->deterministic) { // a product of its own, which goes by these strides
        const int64_t stride[4] = {s->length * s->row_kv, s->head_dim, s->row_kv, 1};
        memcpy(rows_of_k.stride, stride, sizeof stride);
    }
    const lt_dnn k = lt_dnn_tensor_of(w->g, &rows_of_k);
    const lt_dnn dq = query_rows(w, LT_SDPA_DQ);
    lt_dnn_add_reshape(w->g, k_columns, k);
    lt_dnn sum = dq;
    if (s->packed && !s->padded_sums) {
        sum = rows(w, LT_SDPA_DQ_SUM, CUDNN_DATA_FLOAT, s->heads, s->row_q, w->at_q);
    } else if (!s->deterministic) {
        sum = lt_dnn_tensor_of(
            w->g, &(lt_dnn_tensor){.id = 1 + LT_SDPA_DQ_SUM,
                                   .type = CUDNN_DATA_FLOAT,
                                   .dim = {s->batch, s->heads, s->length, s->head_dim}});
    }
    lt_dnn_add_matmul(w->g,
                      &(lt_dnn_matmul){.a = ds, .b = k, .c = sum, .m = w->length, .k = w->length});
    if (!s->deterministic) {
        lt_dnn_add_pointwise(w->g, &(lt_dnn_pointwise){.mode = CUDNN_POINTWISE_IDENTITY,
                                                       .compute = CUDNN_DATA_FLOAT,
                                                       .x = sum,
                                                       .y = dq});
    }
}

static void write_backward(writer *w)
{
    const lt_dnn q = query_rows(w, LT_SDPA_Q), k = key_columns(w, LT_SDPA_K),
                 v = key_columns(w, LT_SDPA_V), o = query_rows(w, LT_SDPA_O),
                 d_out = query_rows(w, LT_SDPA_DO), lse = query_numbers(w, LT_SDPA_LSE);
    const lt_dnn sum = row_sum(w, d_out, o);
    const lt_dnn scores = mask_padding(w, scaled_scores(w, q, k));
    const lt_dnn above = mask_future(w, on_scores(w, CUDNN_POINTWISE_SUB, scores, lse));
    const lt_dnn p = on_scores(w, CUDNN_POINTWISE_EXP, above, NULL);
    give_keys(w, p, d_out, LT_SDPA_DV_HEADS, LT_SDPA_DV);
    const lt_dnn dp = scores_of(w);
    lt_dnn_add_matmul(
        w->g, &(lt_dnn_matmul){.a = d_out, .b = v, .c = dp, .m = w->length, .n = w->length});
    const lt_dnn ds = on_scores(
        w, CUDNN_POINTWISE_MUL,
        on_scores(w, CUDNN_POINTWISE_MUL, on_scores(w, CUDNN_POINTWISE_SUB, dp, sum), p), w->scale);
    give_keys(w, ds, q, LT_SDPA_DK_HEADS, LT_SDPA_DK);
    give_queries(w, ds, k);
}

void lt_sdpa_write_graph(lt_dnn_graph *g, const lt_sdpa_shape *shape)
{
    writer w = start(g, shape);
    if (shape->backward)
        write_backward(&w);
    else
        write_forward(&w);
}
