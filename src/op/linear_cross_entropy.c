// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy: shape rule, reference and table row.
#include "op/linear_cross_entropy.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "h", 2));
    LT_TRY(lt_need_rank(a, 1, "w", 2));
    const lt_tensor *h = a->in[0], *w = a->in[1];
    LT_TRY(lt_need_2d(a, 1, "w", h->dtype, w->dim[0], h->dim[1]));
    LT_TRY(lt_need_1d(a, 2, "targets", LT_I32, h->dim[0]));
    LT_TRY(lt_need_1d(a, 3, "kappa", LT_F32, h->dim[0]));
    if (w->dim[0] < 1 || ((const lt_linear_cross_entropy_attr *)a->attr)->chunk < 0) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "linear_cross_entropy needs a vocabulary and no negative chunk, got w %s "
                       "and chunk %lld",
                       lt_shape_print(w).s,
                       (long long)((const lt_linear_cross_entropy_attr *)a->attr)->chunk);
    }
    *a->out[0] = lt_tensor_1d(lt_wide_dtype(h->dtype), 1);
    return LT_OK;
}

// Logits of row t into z; gives LSE(z) - z[target].
static double row_loss(const lt_op_args *a, int64_t t, double *z, double *lse)
{
    const lt_tensor *h = a->in[0], *w = a->in[1];
    const int64_t vocab = w->dim[0], k = h->dim[1];
    double top = -(double)INFINITY, sum = 0.0;
    for (int64_t v = 0; v < vocab; v++) {
        z[v] = lt_narrowed(h->dtype, lt_dot(h, t * k, 1, w, v * k, 1, k));
        top = fmax(top, z[v]);
    }
    for (int64_t v = 0; v < vocab; v++)
        sum += exp(z[v] - top);
    *lse = top + log(sum);
    return (top - z[lt_index(a->in[2])[t]]) + log(sum); // near 0 no digits are lost
}

// z becomes delta = kappa (softmax(z) - onehot(target))
static void row_delta(const lt_op_args *a, int64_t t, double *z, double lse)
{
    const int32_t target = lt_index(a->in[2])[t];
    const double kappa = lt_load(a->in[3], t);
    for (int64_t v = 0, vocab = a->in[1]->dim[0]; v < vocab; v++)
        z[v] = lt_narrowed(a->in[0]->dtype, kappa * (exp(z[v] - lse) - (v == target ? 1.0 : 0.0)));
}

// dh of a row: delta W, summed in acc [H]
static void row_gradient(const lt_op_args *a, int64_t t, const double *delta, double *acc)
{
    const int64_t k = a->in[0]->dim[1];
    for (int64_t c = 0; c < k; c++)
        acc[c] = 0.0;
    for (int64_t v = 0, vocab = a->in[1]->dim[0]; v < vocab; v++)
        for (int64_t c = 0; c < k; c++)
            acc[c] += delta[v] * lt_load(a->in[1], v * k + c);
    for (int64_t c = 0; c < k; c++)
        lt_put_grad(a, 0, t * k + c, acc[c]);
}

// dw += delta^T h over n rows from t
static void add_weight_gradient(const lt_op_args *a, int64_t t, int64_t n, const double *delta)
{
    const int64_t k = a->in[0]->dim[1], vocab = a->in[1]->dim[0];
    for (int64_t v = 0; v < vocab; v++) {
        for (int64_t c = 0; c < k; c++) {
            double sum = 0.0;
            for (int64_t i = 0; i < n; i++)
                sum += delta[i * vocab + v] * lt_load(a->in[0], (t + i) * k + c);
            lt_add_grad(a, 1, v * k + c, sum);
        }
    }
}

static lt_status check_targets(const lt_op_args *a)
{
    return lt_need_indices(a, 2, "targets", a->in[1]->dim[0]);
}

static lt_status forward_ref(const lt_op_args *a)
{
    LT_TRY(check_targets(a));
    const int64_t n = a->in[0]->dim[0];
    double *z = lt_scratch_f64(a, n > 0 ? a->in[1]->dim[0] : 0), loss = 0.0, lse;
    for (int64_t t = 0; t < n; t++)
        loss += lt_load(a->in[3], t) * row_loss(a, t, z, &lse);
    lt_store(a->out[0], 0, loss);
    return LT_OK;
}

// As many rows together as the scratch holds in double.
static lt_status backward_ref(const lt_op_args *a)
{
    LT_TRY(check_targets(a));
    const int64_t n = a->in[0]->dim[0], k = a->in[0]->dim[1], vocab = a->in[1]->dim[0];
    lt_zero_grad(a, 1);
    double loss = 0.0, lse;
    if (n > 0) {
        double *acc = lt_scratch_f64(a, k + vocab), *z = acc + k;
        const int64_t room = (int64_t)(a->run->scratch_bytes / sizeof(double) - (size_t)k) / vocab;
        for (int64_t t = 0; t < n; t += room) {
            const int64_t rows = lt_min_i64(room, n - t);
            for (int64_t i = 0; i < rows; i++) {
                loss += lt_load(a->in[3], t + i) * row_loss(a, t + i, z + i * vocab, &lse);
                row_delta(a, t + i, z + i * vocab, lse);
                if (a->din[0])
                    row_gradient(a, t + i, z + i * vocab, acc);
            }
            if (a->din[1])
                add_weight_gradient(a, t, rows, z);
        }
    }
    if (a->out[0])
        lt_store(a->out[0], 0, loss);
    return LT_OK;
}

#ifndef LATHE_CUDA
// For plans made by a build without a GPU's kernels: a loss for each row, a chunk of logits.
static size_t scratch_about(const lt_op_args *a, lt_pass pass)
{
    enum { LOSS_ROWS = 1024 };
    int64_t rows = lt_loss_chunk(a->attr, LT_CUDA);
    if (pass == LT_FORWARD)
        rows = lt_min_i64(rows, LOSS_ROWS);
    rows = lt_min_i64(rows, a->in[0]->dim[0]);
    return (size_t)(lt_round_up(a->in[0]->dim[0] * (int64_t)sizeof(double), 256) +
                    rows * a->in[1]->dim[0] * (int64_t)lt_dtype_bytes(a->in[0]->dtype));
}
#define GPU_SCRATCH(a, pass) scratch_about((a), (pass))
#else
#define GPU_SCRATCH(a, pass) lt_linear_cross_entropy_scratch_cuda((a), (pass))
#endif

// For the reference a row of logits and one of dh, in double; for the CPU as many rows of logits as
// a chunk has.
static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    const size_t rows = (size_t)(a->in[1]->dim[0] + a->in[0]->dim[1]) * sizeof(double);
    const size_t cpu = lt_linear_cross_entropy_scratch_cpu(a, pass);
    if (a->in[0]->dim[0] == 0)
        return 0;
    if (a->backend == LT_CUDA)
        return GPU_SCRATCH(a, pass);
    return rows > cpu ? rows : cpu;
}

static int64_t flops(const lt_op_args *a)
{
    return 2 * lt_n_elems(a->in[0]) * a->in[1]->dim[0];
}

const lt_op_def lt_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .n_in = 4,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_linear_cross_entropy_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_linear_cross_entropy_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_linear_cross_entropy_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_linear_cross_entropy_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3),
    .scratch = scratch,
    .flops = flops,
    .flags = LT_OP_YIELDS_IN_BACKWARD,
};

lt_val lt_linear_cross_entropy(lt_builder *b, lt_val h, lt_val w, lt_val targets, lt_val kappa,
                               int64_t chunk)
{
    const lt_linear_cross_entropy_attr attr = {.chunk = chunk};
    return lt_op_apply(b, &lt_op_linear_cross_entropy, (const lt_val[]){h, w, targets, kappa}, 4,
                       &attr, sizeof attr, NULL);
}
