// SPDX-License-Identifier: Apache-2.0
// top1: shape rule, reference and table row.
#include "op/top1.h"
#include "op/cuda/kernels.h"
#include <math.h>

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    if (a->in[0]->dim[1] < 1)
        return LT_FAIL(LT_ERR_SHAPE, "top1 needs at least one column, got %s",
                       lt_shape_print(a->in[0]).s);
    *a->out[0] = lt_tensor_1d(LT_I32, a->in[0]->dim[0]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const int64_t width = a->in[0]->dim[1];
    for (int64_t r = 0; r < a->in[0]->dim[0]; r++) {
        int64_t best = 0;
        double top = lt_load(a->in[0], r * width);
        for (int64_t j = 1; j < width && !isnan(top); j++) {
            const double v = lt_load(a->in[0], r * width + j);
            if (v > top || isnan(v)) {
                top = v;
                best = j;
            }
        }
        ((int32_t *)a->out[0]->data)[r] = lt_int(best);
    }
    return LT_OK;
}

const lt_op_def lt_op_top1 = {
    .name = "top1",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_top1_fwd_cuda)},
};

lt_val lt_top1(lt_builder *b, lt_val x)
{
    return lt_op_apply(b, &lt_op_top1, &x, 1, NULL, 0, NULL);
}
