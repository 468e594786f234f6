// SPDX-License-Identifier: Apache-2.0
// moe_stats and moe_balance: shape rules, references and table rows.
#include "op/cuda/kernels.h"
#include "op/moe_route.h"
#include <math.h>
#include <string.h>

/* ---- moe_stats ---- */

static lt_status infer_stats(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "logits", 2));
    LT_TRY(lt_need_rank(a, 1, "experts", 2));
    LT_TRY(lt_need_dtype(a, 1, "experts", LT_I32));
    const lt_tensor *z = a->in[0];
    const int64_t layers = ((const lt_moe_stats_attr *)a->attr)->layers;
    if (layers < 1 || a->in[1]->dim[0] != z->dim[0]) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "moe_stats needs a layer or more, logits [T, E] and experts [T, k], got "
                       "%lld, %s and %s",
                       (long long)layers, lt_shape_print(z).s, lt_shape_print(a->in[1]).s);
    }
    *a->out[0] = lt_tensor_nd(lt_wide_dtype(z->dtype), 3, (const int64_t[]){layers, 2, z->dim[1]});
    if (a->in[2] && (!lt_same_shape(a->in[2], a->out[0]) || a->in[2]->dtype != a->out[0]->dtype)) {
        return LT_FAIL(LT_ERR_SHAPE, "moe_stats needs the table before it as %s, got %s",
                       lt_shape_print(a->out[0]).s, lt_shape_print(a->in[2]).s);
    }
    return LT_OK;
}

// p of a token
static void softmax(const lt_tensor *logits, int64_t t, double *p)
{
    const int64_t n = logits->dim[1];
    double top = -(double)INFINITY, sum = 0.0;
    for (int64_t e = 0; e < n; e++) {
        p[e] = lt_load(logits, t * n + e);
        top = fmax(top, p[e]);
    }
    for (int64_t e = 0; e < n; e++)
        sum += p[e] = exp(p[e] - top);
    for (int64_t e = 0; e < n; e++)
        p[e] /= sum;
}

static lt_status stats_ref(const lt_op_args *a)
{
    const int64_t tokens = a->in[0]->dim[0], n = a->in[0]->dim[1], k = a->in[1]->dim[1];
    const int64_t row = 2 * n, all = lt_n_elems(a->out[0]);
    const int32_t *picked = a->in[1]->data;
    double *sum = lt_scratch_f64(a, 3 * n), *p = sum + row;
    for (int64_t i = 0; i < row; i++)
        sum[i] = 0.0;
    for (int64_t t = 0; t < tokens; t++) {
        softmax(a->in[0], t, p);
        for (int64_t j = 0; j < k; j++)
            sum[picked[t * k + j]] += 1.0;
        for (int64_t e = 0; e < n; e++)
            sum[n + e] += p[e];
    }
    for (int64_t i = 0; i < row; i++)
        lt_store(a->out[0], i, sum[i]);
    for (int64_t i = row; i < all; i++)
        lt_store(a->out[0], i, a->in[2] ? lt_load(a->in[2], i - row) : 0.0);
    return LT_OK;
}

// dz_e = p_e (dP_e - sum_i p_i dP_i), where P is row 0's sum of probabilities
static lt_status stats_backward_ref(const lt_op_args *a)
{
    const int64_t tokens = a->in[0]->dim[0], n = a->in[0]->dim[1];
    double *p = lt_scratch_f64(a, n);
    for (int64_t t = 0; a->din[0] && t < tokens; t++) {
        double mean = 0.0;
        softmax(a->in[0], t, p);
        for (int64_t e = 0; e < n; e++)
            mean += p[e] * lt_dout(a, 0, n + e);
        for (int64_t e = 0; e < n; e++)
            lt_put_grad(a, 0, t * n + e, p[e] * (lt_dout(a, 0, n + e) - mean));
    }
    const int64_t all = a->din[2] ? lt_n_elems(a->din[2]) : 0;
    for (int64_t i = 0; i < all; i++)
        lt_put_grad(a, 2, i, i + 2 * n < all ? lt_dout(a, 0, i + 2 * n) : 0.0);
    return LT_OK;
}

// Sums and a row of probabilities in double.
static size_t stats_scratch(const lt_op_args *a, lt_pass pass)
{
    (void)pass;
    return (size_t)(3 * a->in[0]->dim[1]) * sizeof(double);
}

const lt_op_def lt_op_moe_stats = {
    .name = "moe_stats",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(1),
    .infer = infer_stats,
    .forward = {[LT_REF] = stats_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_stats_fwd_cuda)},
    .backward = {[LT_REF] = stats_backward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_stats_bwd_cuda)},
    .backward_reads = LT_IN(0),
    .scratch = stats_scratch,
};

lt_val lt_moe_stats(lt_builder *b, lt_val logits, lt_val experts, lt_val before, int64_t layers)
{
    const lt_moe_stats_attr attr = {.layers = layers};
    return lt_op_apply(b, &lt_op_moe_stats, (const lt_val[]){logits, experts, before}, 3, &attr,
                       sizeof attr, NULL);
}

/* ---- moe_balance ---- */

static lt_status infer_balance(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "table", 3));
    LT_TRY(lt_need_1d(a, 1, "weight", LT_F32, 1));
    const lt_tensor *t = a->in[0];
    const int64_t k = ((const lt_moe_balance_attr *)a->attr)->k;
    if (t->dim[0] < 1 || t->dim[1] != 2 || k < 1 || k > t->dim[2]) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "moe_balance needs a table [L, 2, E] and k from 1 to E, got %s and %lld",
                       lt_shape_print(t).s, (long long)k);
    }
    *a->out[0] = *a->out[1] = lt_tensor_1d(lt_wide_dtype(t->dtype), 1);
    *a->out[2] = lt_tensor_like(t);
    return LT_OK;
}

// Sums over layers into picks [E] and p [E]; returns N', the rows of router logits.
static double sum_layers(const lt_op_args *a, double *picks, double *p)
{
    const int64_t layers = a->in[0]->dim[0], n = a->in[0]->dim[2];
    double all = 0.0;
    for (int64_t e = 0; e < n; e++) {
        picks[e] = p[e] = 0.0;
        for (int64_t l = 0; l < layers; l++) {
            picks[e] += lt_load(a->in[0], 2 * l * n + e);
            p[e] += lt_load(a->in[0], (2 * l + 1) * n + e);
        }
        all += picks[e];
    }
    return all / (double)((const lt_moe_balance_attr *)a->attr)->k;
}

// aux, the sums and N' (0: no tokens)
typedef struct balance {
    double value, rows;
    double *picks, *p; // [E]
} balance;

// The outputs are written where they are wanted.
static balance find_balance(const lt_op_args *a)
{
    const int64_t n = a->in[0]->dim[2];
    balance b = {.picks = lt_scratch_f64(a, 2 * n)};
    b.p = b.picks + n;
    b.rows = sum_layers(a, b.picks, b.p);
    for (int64_t e = 0; e < n && b.rows != 0.0; e++)
        b.value += (double)n * (b.picks[e] / b.rows) * (b.p[e] / b.rows);
    if (a->out[0])
        lt_store(a->out[0], 0, lt_load(a->in[1], 0) * b.value);
    if (a->out[1])
        lt_store(a->out[1], 0, b.value);
    for (int64_t i = 0, all = lt_n_elems(a->in[0]); a->out[2] && i < all; i++)
        lt_store(a->out[2], i, lt_load(a->in[0], i));
    return b;
}

static lt_status balance_ref(const lt_op_args *a)
{
    (void)find_balance(a);
    return LT_OK;
}

// The picks have their true derivative too, which moe_stats leaves where it is.
static lt_status balance_backward_ref(const lt_op_args *a)
{
    const int64_t layers = a->in[0]->dim[0], n = a->in[0]->dim[2];
    const balance b = find_balance(a);
    const double weight = lt_load(a->in[1], 0),
                 k = (double)((const lt_moe_balance_attr *)a->attr)->k;
    const double scale = b.rows != 0.0 ? weight * (double)n / b.rows / b.rows : 0.0;
    const double through_rows = b.rows != 0.0 ? 2.0 * weight * b.value / (b.rows * k) : 0.0;
    for (int64_t l = 0; l < layers; l++) {
        for (int64_t e = 0; e < n; e++) {
            lt_put_grad(a, 0, 2 * l * n + e, scale * b.p[e] - through_rows);
            lt_put_grad(a, 0, (2 * l + 1) * n + e, scale * b.picks[e]);
        }
    }
    return LT_OK;
}

static size_t balance_scratch(const lt_op_args *a, lt_pass pass)
{
    (void)pass;
    return (size_t)(2 * a->in[0]->dim[2]) * sizeof(double);
}

const lt_op_def lt_op_moe_balance = {
    .name = "moe_balance",
    .n_in = 2,
    .n_out = 3,
    .dtypes = LT_FLOATS,
    .infer = infer_balance,
    .forward = {[LT_REF] = balance_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_balance_fwd_cuda)},
    .backward =
        {[LT_REF] = balance_backward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_balance_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .scratch = balance_scratch,
    .flags = LT_OP_YIELDS_IN_BACKWARD,
};

lt_val lt_moe_balance(lt_builder *b, lt_val table, lt_val weight, int64_t k, lt_val *outs)
{
    const lt_moe_balance_attr attr = {.k = k};
    return lt_op_apply(b, &lt_op_moe_balance, (const lt_val[]){table, weight}, 2, &attr,
                       sizeof attr, outs);
}
