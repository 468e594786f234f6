// SPDX-License-Identifier: Apache-2.0
// gdn_gates: shape rule, reference and table row.
#include "op/gdn_gates.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <math.h>

double lt_gdn_decay(double a, double a_log, double dt_bias)
{
    const double x = a + dt_bias, g = -exp(a_log) * (x > 20.0 ? x : log1p(exp(x)));
    return g < LT_LOWEST_DECAY ? LT_LOWEST_DECAY : g; // a NaN stays
}

double lt_gdn_decay_slope(double a, double a_log, double dt_bias)
{
    const double x = a + dt_bias, slope = -exp(a_log) / (1.0 + exp(-x));
    return slope < LT_LOWEST_DECAY ? LT_LOWEST_DECAY : slope;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "a", 2));
    LT_TRY(lt_need_alike(a, 0, "a", 1, "b"));
    const lt_tensor *x = a->in[0];
    LT_TRY(lt_need_1d(a, 2, "A_log", x->dtype, x->dim[1]));
    LT_TRY(lt_need_1d(a, 3, "dt_bias", x->dtype, x->dim[1]));
    *a->out[0] = lt_tensor_2d(lt_wide_dtype(x->dtype), x->dim[0], x->dim[1]);
    *a->out[1] = lt_tensor_2d(lt_wide_dtype(x->dtype), x->dim[0], x->dim[1]);
    return LT_OK;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static lt_status forward_ref(const lt_op_args *a)
{
    const int64_t heads = a->in[0]->dim[1];
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++) {
        lt_store(a->out[0], k,
                 lt_gdn_decay(lt_load(a->in[0], k), lt_load(a->in[2], k % heads),
                              lt_load(a->in[3], k % heads)));
        lt_store(a->out[1], k, sigmoid(lt_load(a->in[1], k)));
    }
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    const int64_t rows = a->in[0]->dim[0], heads = a->in[0]->dim[1];
    for (int64_t h = 0; h < heads; h++) {
        const double a_log = lt_load(a->in[2], h), dt = lt_load(a->in[3], h);
        double sum_log = 0.0, sum_dt = 0.0;
        for (int64_t k = h; k < rows * heads; k += heads) {
            const double x = lt_load(a->in[0], k), dg = lt_dout(a, 0, k),
                         s = sigmoid(lt_load(a->in[1], k));
            const double da = dg * lt_gdn_decay_slope(x, a_log, dt);
            sum_log += dg * lt_gdn_decay(x, a_log, dt);
            sum_dt += da;
            lt_put_grad(a, 0, k, da);
            lt_put_grad(a, 1, k, lt_dout(a, 1, k) * s * (1.0 - s));
        }
        lt_put_grad(a, 2, h, sum_log);
        lt_put_grad(a, 3, h, sum_dt);
    }
    return LT_OK;
}

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    return pass == LT_FORWARD ? 0 : lt_cpu_part_bytes(a->in[0]->dim[0], 2 * a->in[0]->dim[1]);
}

const lt_op_def lt_op_gdn_gates = {
    .name = "gdn_gates",
    .n_in = 4,
    .n_out = 2,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CPU] = lt_gdn_gates_fwd_cpu},
    .backward = {[LT_REF] = backward_ref, [LT_CPU] = lt_gdn_gates_bwd_cpu},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3),
    .scratch = scratch,
    .flags = LT_OP_CHEAP,
};

void lt_gdn_gates(lt_builder *b, lt_val a, lt_val beta_logits, lt_val a_log, lt_val dt_bias,
                  lt_val *out)
{
    out[0] = out[1] = LT_NONE;
    (void)lt_op_apply(b, &lt_op_gdn_gates, (const lt_val[]){a, beta_logits, a_log, dt_bias}, 4,
                      NULL, 0, out);
}
