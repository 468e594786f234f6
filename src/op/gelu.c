// SPDX-License-Identifier: Apache-2.0
// gelu: shape rule, reference and table row.
#include "op/gelu.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

static const double half_root = 0.70710678118654752440;    // 1/sqrt(2)
static const double root_2_by_pi = 0.79788456080286535588; // sqrt(2/pi)
static const double density_0 = 0.39894228040143267794;    // 1/sqrt(2 pi)

static lt_gelu_kind kind_of(const lt_op_args *a)
{
    return ((const lt_gelu_attr *)a->attr)->kind;
}

static lt_status infer(const lt_op_args *a)
{
    if (!a->in[0])
        return LT_FAIL(LT_ERR_SHAPE, "gelu needs x, which is not given");
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

// Phi(x) by erfc, which keeps its digits far to the left.
static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * half_root);
}

static double value(lt_gelu_kind kind, double x)
{
    if (kind == LT_GELU_ERF)
        return x * normal_cdf(x);
    return 0.5 * x * (1.0 + tanh(root_2_by_pi * (x + 0.044715 * x * x * x)));
}

static double slope(lt_gelu_kind kind, double x)
{
    if (kind == LT_GELU_ERF)
        return normal_cdf(x) + x * density_0 * exp(-0.5 * x * x);
    const double t = tanh(root_2_by_pi * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root_2_by_pi * (1.0 + 0.134145 * x * x);
}

static lt_status forward_ref(const lt_op_args *a)
{
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++)
        lt_store(a->out[0], i, value(kind_of(a), lt_load(a->in[0], i)));
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++)
        lt_put_grad(a, 0, i, lt_dout(a, 0, i) * slope(kind_of(a), lt_load(a->in[0], i)));
    return LT_OK;
}

const lt_op_def lt_op_gelu = {
    .name = "gelu",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_gelu_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_gelu_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_gelu_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_gelu_bwd_cuda)},
    .backward_reads = LT_IN(0),
    .flags = LT_OP_CHEAP,
};

lt_val lt_gelu(lt_builder *b, lt_val x, lt_gelu_kind kind)
{
    const lt_gelu_attr attr = {.kind = kind};
    return lt_op_apply(b, &lt_op_gelu, &x, 1, &attr, sizeof attr, NULL);
}
