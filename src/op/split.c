// SPDX-License-Identifier: Apache-2.0
// split_thirds: shape rule, reference and table row.
#include "op/split.h"
#include "op/cpu/kernels.h"

enum { PARTS = 3 };

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0];
    if (x->dim[1] % PARTS != 0)
        return LT_FAIL(LT_ERR_SHAPE, "split_thirds needs x of three equal parts, got %s",
                       lt_shape_print(x).s);
    for (int i = 0; i < PARTS; i++)
        *a->out[i] = lt_tensor_2d(x->dtype, x->dim[0], x->dim[1] / PARTS);
    return LT_OK;
}

static lt_status forward_ref(const lt_op_args *a)
{
    const int64_t width = a->out[0]->dim[1];
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++) {
        const int64_t row = k / (PARTS * width), at = k % (PARTS * width);
        lt_store(a->out[at / width], row * width + at % width, lt_load(a->in[0], k));
    }
    return LT_OK;
}

static lt_status backward_ref(const lt_op_args *a)
{
    if (!a->din[0])
        return LT_OK;
    const int64_t width = a->din[0]->dim[1] / PARTS;
    for (int64_t k = 0, n = lt_n_elems(a->din[0]); k < n; k++) {
        const int64_t row = k / (PARTS * width), at = k % (PARTS * width);
        lt_put_grad(a, 0, k, lt_dout(a, (int)(at / width), row * width + at % width));
    }
    return LT_OK;
}

const lt_op_def lt_op_split_thirds = {
    .name = "split_thirds",
    .n_in = 1,
    .n_out = PARTS,
    .dtypes = LT_FLOATS,
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CPU] = lt_split_thirds_fwd_cpu},
    .backward = {[LT_REF] = backward_ref, [LT_CPU] = lt_split_thirds_bwd_cpu},
    .flags = LT_OP_CHEAP,
};

void lt_split_thirds(lt_builder *b, lt_val x, lt_val *out)
{
    for (int i = 0; i < PARTS; i++)
        out[i] = LT_NONE;
    (void)lt_op_apply(b, &lt_op_split_thirds, &x, 1, NULL, 0, out);
}
