// SPDX-License-Identifier: Apache-2.0
// gated_rms_norm and sigmoid_gate: shape rules, references and table rows.
#include "op/gated_norm.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <math.h>

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

// ---- gated_rms_norm: rows are heads ----

static lt_status infer_norm(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_alike(a, 0, "x", 1, "z"));
    LT_TRY(lt_need_rank(a, 2, "w", 1));
    const lt_tensor *x = a->in[0], *w = a->in[2];
    LT_TRY(lt_need_dtype(a, 2, "w", x->dtype));
    if (w->dim[0] < 1 || x->dim[1] % w->dim[0] != 0)
        return LT_FAIL(LT_ERR_SHAPE, "gated_rms_norm needs x as heads of w's width, got %s and %s",
                       lt_shape_print(x).s, lt_shape_print(w).s);
    *a->out[0] = lt_tensor_like(x);
    return LT_OK;
}

static double root(const lt_op_args *a, int64_t head, int64_t width)
{
    const double eps = ((const lt_rms_norm_attr *)a->attr)->eps;
    const lt_tensor *x = a->in[0];
    return 1.0 / sqrt(lt_dot(x, head * width, 1, x, head * width, 1, width) / (double)width + eps);
}

static lt_status norm_ref(const lt_op_args *a)
{
    const int64_t width = a->in[2]->dim[0], heads = lt_n_elems(a->in[0]) / width;
    for (int64_t head = 0; head < heads; head++) {
        const double r = root(a, head, width);
        for (int64_t j = 0, k = head * width; j < width; j++, k++) {
            const double z = lt_load(a->in[1], k);
            lt_store(a->out[0], k,
                     lt_load(a->in[2], j) * lt_load(a->in[0], k) * r * z * sigmoid(z));
        }
    }
    return LT_OK;
}

// Gradients of one head; sums[width] go on with dw.
static void norm_head_back(const lt_op_args *a, int64_t head, int64_t width, double *sums)
{
    const double r = root(a, head, width);
    double mean = 0.0;
    for (int64_t j = 0, k = head * width; j < width; j++, k++) {
        const double z = lt_load(a->in[1], k), s = sigmoid(z), dy = lt_dout(a, 0, k);
        const double w = lt_load(a->in[2], j), xhat = lt_load(a->in[0], k) * r;
        mean += dy * w * z * s * xhat / (double)width;
        sums[j] += dy * xhat * z * s;
        lt_put_grad(a, 1, k, dy * w * xhat * s * (1.0 + z * (1.0 - s)));
    }
    for (int64_t j = 0, k = head * width; j < width; j++, k++) {
        const double z = lt_load(a->in[1], k), g = lt_dout(a, 0, k) * lt_load(a->in[2], j);
        lt_put_grad(a, 0, k, r * (g * z * sigmoid(z) - lt_load(a->in[0], k) * r * mean));
    }
}

static lt_status norm_back_ref(const lt_op_args *a)
{
    const int64_t width = a->in[2]->dim[0], heads = lt_n_elems(a->in[0]) / width;
    double *sums = lt_scratch_f64(a, width);
    for (int64_t j = 0; j < width; j++)
        sums[j] = 0.0;
    for (int64_t head = 0; head < heads; head++)
        norm_head_back(a, head, width, sums);
    for (int64_t j = 0; j < width; j++)
        lt_put_grad(a, 2, j, sums[j]);
    return LT_OK;
}

static size_t norm_scratch(const lt_op_args *a, lt_pass pass)
{
    const int64_t width = a->in[2]->dim[0];
    const size_t sums = (size_t)width * sizeof(double),
                 parts = lt_cpu_part_bytes(lt_n_elems(a->in[0]) / width, width);
    return pass == LT_FORWARD ? 0 : sums > parts ? sums : parts;
}

const lt_op_def lt_op_gated_rms_norm = {
    .name = "gated_rms_norm",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_norm,
    .forward = {[LT_REF] = norm_ref, [LT_CPU] = lt_gated_rms_norm_fwd_cpu},
    .backward = {[LT_REF] = norm_back_ref, [LT_CPU] = lt_gated_rms_norm_bwd_cpu},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2),
    .scratch = norm_scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_gated_rms_norm(lt_builder *b, lt_val x, lt_val z, lt_val w, double eps)
{
    const lt_rms_norm_attr attr = {.eps = eps};
    return lt_op_apply(b, &lt_op_gated_rms_norm, (const lt_val[]){x, z, w}, 3, &attr, sizeof attr,
                       NULL);
}

// ---- sigmoid_gate ----

static lt_status infer_gate(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "gate", 2));
    const lt_tensor *x = a->in[0];
    LT_TRY(lt_need_2d(a, 1, "gate", x->dtype, x->dim[0], a->in[1]->dim[1] == 1 ? 1 : x->dim[1]));
    *a->out[0] = lt_tensor_like(x);
    return LT_OK;
}

static lt_status gate_ref(const lt_op_args *a)
{
    const int64_t per_gate = a->in[0]->dim[1] / lt_max_i64(a->in[1]->dim[1], 1);
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++) {
        const double s = sigmoid(lt_load(a->in[1], k / per_gate));
        lt_store(a->out[0], k, lt_load(a->in[0], k) * lt_narrowed(a->in[0]->dtype, s));
    }
    return LT_OK;
}

static lt_status gate_back_ref(const lt_op_args *a)
{
    const int64_t gates = lt_n_elems(a->in[1]), width = a->in[0]->dim[1],
                  per_gate = width / lt_max_i64(a->in[1]->dim[1], 1);
    for (int64_t g = 0; g < gates; g++) {
        const double s = sigmoid(lt_load(a->in[1], g));
        double sum = 0.0;
        for (int64_t k = g * per_gate; k < (g + 1) * per_gate; k++) {
            const double dy = lt_dout(a, 0, k);
            sum += dy * lt_load(a->in[0], k);
            lt_put_grad(a, 0, k, dy * s);
        }
        lt_put_grad(a, 1, g, sum * s * (1.0 - s));
    }
    return LT_OK;
}

const lt_op_def lt_op_sigmoid_gate = {
    .name = "sigmoid_gate",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_gate,
    .forward = {[LT_REF] = gate_ref, [LT_CPU] = lt_sigmoid_gate_fwd_cpu},
    .backward = {[LT_REF] = gate_back_ref, [LT_CPU] = lt_sigmoid_gate_bwd_cpu},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .flags = LT_OP_CHEAP,
};

lt_val lt_sigmoid_gate(lt_builder *b, lt_val x, lt_val gate)
{
    return lt_op_apply(b, &lt_op_sigmoid_gate, (const lt_val[]){x, gate}, 2, NULL, 0, NULL);
}
