// SPDX-License-Identifier: Apache-2.0
// scale_add: shape rule, reference and table row.
#include "op/scale_add.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/cuda/kernels.h"

enum { X, SCALE, BRANCH };

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, X, "x", 2));
    LT_TRY(lt_need_alike(a, X, "x", BRANCH, "f"));
    LT_TRY(lt_need_1d(a, SCALE, "s", a->in[X]->dtype, a->in[X]->dim[1]));
    *a->out[0] = lt_tensor_like(a->in[X]);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const int64_t width = a->in[X]->dim[1];
    for (int64_t i = 0, n = lt_n_elems(a->in[X]); i < n; i++) {
        lt_store(a->out[0], i,
                 lt_load(a->in[X], i) +
                     lt_load(a->in[SCALE], i % width) * lt_load(a->in[BRANCH], i));
    }
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    const int64_t width = a->in[BRANCH]->dim[1], n = lt_n_elems(a->in[BRANCH]);
    for (int64_t i = 0; i < n; i++) {
        lt_put_grad(a, X, i, lt_dout(a, 0, i));
        lt_put_grad(a, BRANCH, i, lt_dout(a, 0, i) * lt_load(a->in[SCALE], i % width));
    }
    for (int64_t j = 0; a->din[SCALE] && j < width; j++) {
        double sum = 0.0;
        for (int64_t i = j; i < n; i += width)
            sum += lt_dout(a, 0, i) * lt_load(a->in[BRANCH], i);
        lt_put_grad(a, SCALE, j, sum);
    }
    return LT_OK;
}

static size_t scratch(const lt_op_args *a, lt_pass pass)
{
    return pass == LT_BACKWARD ? lt_cpu_part_bytes(lt_rows(a->in[BRANCH]), lt_width(a->in[BRANCH]))
                               : 0;
}

const lt_op_def lt_op_scale_add = {
    .name = "scale_add",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_scale_add_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_scale_add_fwd_cuda)},
    .backward = {[LT_REF] = backward_ref,
                 [LT_CPU] = lt_scale_add_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_scale_add_bwd_cuda)},
    .backward_reads = LT_IN(SCALE) | LT_IN(BRANCH),
    .scratch = scratch,
    .flags = LT_OP_CHEAP | LT_OP_IN_PLACE,
};

lt_val lt_scale_add(lt_builder *b, lt_val x, lt_val s, lt_val f)
{
    return lt_op_apply(b, &lt_op_scale_add, (const lt_val[]){x, s, f}, 3, NULL, 0, NULL);
}
