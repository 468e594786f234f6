// SPDX-License-Identifier: Apache-2.0
// clip: shape rule, reference and table row.
#include "op/clip.h"
#include "op/cuda/kernels.h"

#include "op/adamw.h"

#include <math.h>

static lt_status infer(const lt_op_args *a)
{
    const lt_tensor *norm = a->out[0], *scalars = a->out[1];
    if (norm->dtype != LT_F64 || scalars->dtype != LT_F64)
        return LT_FAIL(LT_ERR_DTYPE, "clip works on f64, got %s and %s", lt_shape_print(norm).s,
                       lt_shape_print(scalars).s);
    if (lt_n_elems(norm) != 1 || lt_n_elems(scalars) != LT_N_SCALARS)
        return LT_FAIL(LT_ERR_SHAPE, "clip needs f64[1] and f64[%d], got %s and %s", LT_N_SCALARS,
                       lt_shape_print(norm).s, lt_shape_print(scalars).s);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const double clip = ((const lt_clip_attr *)a->attr)->clip;
    const double norm = sqrt(lt_load(a->out[0], 0));
    const double factor = clip / (norm + 1e-6);
    lt_store(a->out[0], 0, norm);
    lt_store(a->out[1], LT_SCALAR_CLIP, clip > 0.0 && factor < 1.0 ? factor : 1.0);
    return LT_OK;
}

const lt_op_def lt_op_clip = {
    .name = "clip",
    .n_in = 0,
    .n_out = 2,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_clip_fwd_cuda)},
};
