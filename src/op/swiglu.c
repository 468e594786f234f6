// SPDX-License-Identifier: Apache-2.0
// swiglu: shape rule, reference and table row.
#include "op/swiglu.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_alike(a, 0, "gate", 1, "up"));
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static double sigmoid(double g)
{
    return 1.0 / (1.0 + exp(-g)); // exp may reach infinity: the quotient is then a correct zero
}

// In double, since a reference has to be more exact than the kernels it judges.
static lt_status forward_ref(const lt_op_args *a)
{
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++) {
        const double g = lt_load(a->in[0], i), u = lt_load(a->in[1], i);
        lt_store(a->out[0], i, g * sigmoid(g) * u);
    }
    return LT_OK;
}

// d silu(g)/dg = s + g s (1 - s), where s = sigmoid(g)
static lt_status backward_ref(const lt_op_args *a)
{
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++) {
        const double g = lt_load(a->in[0], i), u = lt_load(a->in[1], i), d = lt_dout(a, 0, i);
        const double s = sigmoid(g);
        lt_put_grad(a, 0, i, d * u * (s + g * s * (1.0 - s)));
        lt_put_grad(a, 1, i, d * g * s);
    }
    return LT_OK;
}

const lt_op_def lt_op_swiglu = {
    .name = "swiglu",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_swiglu_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_swiglu_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_swiglu_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_swiglu_bwd_cuda)},
    .backward_reads = LT_IN(0) | LT_IN(1),
    .flags = LT_OP_CHEAP,
};

lt_val lt_swiglu(lt_builder *b, lt_val gate, lt_val up)
{
    return lt_op_apply(b, &lt_op_swiglu, (const lt_val[]){gate, up}, 2, NULL, 0, NULL);
}
