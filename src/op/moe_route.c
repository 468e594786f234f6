// SPDX-License-Identifier: Apache-2.0
// moe_route: shape rule, reference and table row.
#include "op/moe_route.h"
#include "op/cuda/kernels.h"
#include <math.h>
#include <string.h>

static int64_t k_of(const lt_op_args *a)
{
    return ((const lt_moe_route_attr *)a->attr)->k;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "logits", 2));
    const int64_t tokens = a->in[0]->dim[0], experts = a->in[0]->dim[1], k = k_of(a);
    if (k < 1 || k > experts) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "moe_route needs k from 1 to the number of experts, got %lld "
                       "and logits %s",
                       (long long)k, lt_shape_print(a->in[0]).s);
    }
    if (tokens > INT32_MAX / k)
        return LT_FAIL(LT_ERR_SHAPE, "moe_route needs fewer than 2^31 rows, got %lld times %lld",
                       (long long)tokens, (long long)k);
    *a->out[0] = lt_tensor_2d(a->in[0]->dtype, tokens, k);
    *a->out[1] = lt_tensor_2d(LT_I32, tokens, k);
    *a->out[2] = lt_tensor_2d(LT_I32, tokens, k);
    *a->out[3] = lt_tensor_1d(LT_I32, experts + 1);
    return LT_OK;
}

// The k largest of z, the lower number first among equals; a NaN is never larger than another.
static void pick(const double *z, int64_t n, int64_t k, int32_t *picked)
{
    for (int64_t j = 0; j < k; j++) {
        int64_t best = -1;
        for (int64_t e = 0; e < n; e++) {
            bool taken = false;
            for (int64_t i = 0; i < j && (best < 0 || z[e] > z[best]) && !taken; i++)
                taken = picked[i] == e;
            if (!taken && (best < 0 || z[e] > z[best]))
                best = e;
        }
        picked[j] = (int32_t)best;
    }
}

// sum of exp(z - top) over all experts, or over those picked; top is the largest logit
static double weight_sum(const double *z, int64_t n, const int32_t *picked, int64_t k, double top)
{
    double sum = 0.0;
    for (int64_t i = 0; i < (picked ? k : n); i++)
        sum += exp(z[picked ? picked[i] : i] - top);
    return sum;
}

// Counting: how many copies each expert has, where its rows begin, then each copy's row in order.
static void sort_copies(const lt_op_args *a, int64_t experts, int64_t copies)
{
    const int32_t *picked = a->out[1]->data;
    int32_t *place = a->out[2]->data, *offsets = a->out[3]->data;
    memset(offsets, 0, (size_t)(experts + 1) * sizeof *offsets);
    for (int64_t i = 0; i < copies; i++)
        offsets[picked[i] + 1]++;
    for (int64_t e = 0; e < experts; e++)
        offsets[e + 1] += offsets[e];
    for (int64_t i = 0; i < copies; i++)
        place[i] = offsets[picked[i]]++;
    for (int64_t e = experts; e > 0; e--) // the begin of the next one became its own end
        offsets[e] = offsets[e - 1];
    offsets[0] = 0;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const bool renormalise = ((const lt_moe_route_attr *)a->attr)->renormalise;
    const int64_t tokens = a->in[0]->dim[0], n = a->in[0]->dim[1], k = k_of(a);
    double *z = lt_scratch_f64(a, n);
    for (int64_t t = 0; t < tokens; t++) {
        int32_t *picked = (int32_t *)a->out[1]->data + t * k;
        for (int64_t e = 0; e < n; e++)
            z[e] = lt_load(a->in[0], t * n + e);
        pick(z, n, k, picked);
        const double top = z[picked[0]],
                     sum = weight_sum(z, n, renormalise ? picked : NULL, k, top);
        for (int64_t j = 0; j < k; j++)
            lt_store(a->out[0], t * k + j, exp(z[picked[j]] - top) / sum);
    }
    sort_copies(a, n, tokens * k);
    return LT_OK;
}

// dz_j = w_j (dw_j - sum_i w_i dw_i) on what was picked; without renormalisation the softmax over
// all experts has dz_e = p_e ([e picked] dw_e - sum_i p_i dw_i).
static void row_gradient(const lt_op_args *a, int64_t t, double *z)
{
    const bool renormalise = ((const lt_moe_route_attr *)a->attr)->renormalise;
    const int64_t n = a->in[0]->dim[1], k = k_of(a);
    const int32_t *picked = (const int32_t *)a->out[1]->data + t * k;
    for (int64_t e = 0; e < n; e++)
        z[e] = lt_load(a->in[0], t * n + e);
    const double top = z[picked[0]], sum = weight_sum(z, n, renormalise ? picked : NULL, k, top);
    double mean = 0.0;
    for (int64_t j = 0; j < k; j++)
        mean += exp(z[picked[j]] - top) / sum * lt_dout(a, 0, t * k + j);
    for (int64_t e = 0; e < n; e++) {
        int64_t j = 0;
        while (j < k && picked[j] != e)
            j++;
        const double p = exp(z[e] - top) / sum;
        const double through = j < k ? lt_dout(a, 0, t * k + j) : 0.0;
        lt_put_grad(a, 0, t * n + e, j < k || !renormalise ? p * (through - mean) : 0.0);
    }
}

static lt_status backward_ref(const lt_op_args *a)
{
    if (!a->din[0])
        return LT_OK;
    double *z = lt_scratch_f64(a, a->in[0]->dim[1]);
    for (int64_t t = 0; t < a->in[0]->dim[0]; t++)
        row_gradient(a, t, z);
    return LT_OK;
}

// A row of logits in double.
static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    (void)pass;
    return (size_t)a->in[0]->dim[1] * sizeof(double);
}

const lt_op_def lt_op_moe_route = {
    .name = "moe_route",
    .n_in = 1,
    .n_out = 4,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_route_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_moe_route_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_OUT(1),
    .scratch = scratch,
    .flags = LT_OP_ALWAYS_SAVE,
};

lt_routing lt_moe_route(lt_builder *b, lt_val logits, lt_moe_route_attr attr)
{
    lt_moe_route_attr copy; // compared byte by byte: no stray padding
    memset(&copy, 0, sizeof copy);
    copy.k = attr.k;
    copy.renormalise = attr.renormalise;
    lt_val out[4] = {LT_NONE, LT_NONE, LT_NONE, LT_NONE};
    (void)lt_op_apply(b, &lt_op_moe_route, &logits, 1, &copy, sizeof copy, out);
    return (lt_routing){out[0], out[1], out[2], out[3]};
}
