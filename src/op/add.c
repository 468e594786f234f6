// SPDX-License-Identifier: Apache-2.0
// add and copy: shape rules, references and table rows.
#include "op/add.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <string.h>

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_alike(a, 0, "a", 1, "b"));
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++)
        lt_store(a->out[0], k, lt_load(a->in[0], k) + lt_load(a->in[1], k));
    return LT_OK;
}

static lt_status grad(lt_builder *b, const lt_node *node, const lt_val *dout, lt_val *din)
{
    (void)b;
    for (int i = 0; i < node->def->n_in; i++)
        din[i] = dout[0];
    return LT_OK;
}

const lt_op_def lt_op_add = {
    .name = "add",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_add_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_add_fwd_cuda)},
    .grad = grad,
    .flags = LT_OP_CHEAP | LT_OP_IN_PLACE,
};

lt_val lt_add(lt_builder *b, lt_val x, lt_val y)
{
    return lt_op_apply(b, &lt_op_add, (const lt_val[]){x, y}, 2, NULL, 0, NULL);
}

static lt_status infer_copy(const lt_op_args *a)
{
    if (!a->in[0])
        return LT_FAIL(LT_ERR_SHAPE, "copy needs x, which is not given");
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static lt_status copy_ref(const lt_op_args *a)
{
    if (lt_n_elems(a->in[0]) > 0)
        memcpy(a->out[0]->data, a->in[0]->data, lt_tensor_bytes(a->in[0]));
    return LT_OK;
}

const lt_op_def lt_op_copy = {
    .name = "copy",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_copy,
    .forward = {[LT_REF] = copy_ref,
                [LT_CPU] = lt_copy_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_copy_fwd_cuda)},
    .grad = grad,
    .flags = LT_OP_CHEAP,
};

lt_val lt_copy(lt_builder *b, lt_val x)
{
    return lt_op_apply(b, &lt_op_copy, &x, 1, NULL, 0, NULL);
}
