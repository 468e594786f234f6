// SPDX-License-Identifier: Apache-2.0
// cast: shape rule, reference and table row.
#include "op/cast.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"

static lt_status infer(const lt_op_args *a)
{
    const lt_dtype to = ((const lt_cast_attr *)a->attr)->dtype;
    if (!a->in[0])
        return LT_FAIL(LT_ERR_SHAPE, "cast needs x, which is not given");
    if (to != LT_F64 && to != LT_F32 && to != LT_BF16)
        return LT_FAIL(LT_ERR_DTYPE, "cast goes to f64, f32 or bf16, not to %s", lt_dtype_name(to));
    *a->out[0] = lt_tensor_as(a->in[0], to);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    lt_convert(a->out[0]->data, a->out[0]->dtype, a->in[0]->data, a->in[0]->dtype,
               lt_n_elems(a->in[0]));
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    for (int64_t i = 0, n = a->din[0] ? lt_n_elems(a->din[0]) : 0; i < n; i++)
        lt_put_grad(a, 0, i, lt_dout(a, 0, i));
    return LT_OK;
}

const lt_op_def lt_op_cast = {
    .name = "cast",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_cast_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_cast_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_cast_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_cast_bwd_cuda)},
    .flags = LT_OP_CHEAP,
};

lt_val lt_cast(lt_builder *b, lt_val x, lt_dtype dtype)
{
    const lt_cast_attr attr = {.dtype = dtype};
    if (x != LT_NONE && lt_value_tensor(b, x).dtype == dtype)
        return x;
    return lt_op_apply(b, &lt_op_cast, &x, 1, &attr, sizeof attr, NULL);
}
