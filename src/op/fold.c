// SPDX-License-Identifier: Apache-2.0
// fold_rows and unfold_rows: shape rules and table rows. Their output is their input's memory, so
// they have no kernels.
#include "op/fold.h"

static lt_val apply(lt_builder *b, const lt_op_def *def, lt_val x, int64_t group)
{
    const lt_fold_attr attr = {.group = group};
    return lt_op_apply(b, def, &x, 1, &attr, sizeof attr, NULL);
}

static lt_status infer_of(const lt_op_args *a, int split, int join)
{
    const int64_t group = ((const lt_fold_attr *)a->attr)->group;
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0];
    if (group < 1 || x->dim[split] % group != 0)
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s in groups of %lld, got %s", a->def->name,
                       split == 0 ? "rows" : "columns", (long long)group, lt_shape_print(x).s);
    *a->out[0] = lt_tensor_like(x);
    a->out[0]->dim[split] /= group;
    a->out[0]->dim[join] *= group;
    return LT_OK;
}

static lt_status infer_fold(const lt_op_args *a)
{
    return infer_of(a, 0, 1);
}

static lt_status infer_unfold(const lt_op_args *a)
{
    return infer_of(a, 1, 0);
}

static lt_status grad_other(lt_builder *b, const lt_node *node, const lt_val *dout, lt_val *din,
                            const lt_op_def *other)
{
    if (dout[0] != LT_NONE)
        din[0] = apply(b, other, dout[0], ((const lt_fold_attr *)(const void *)node->attr)->group);
    return lt_builder_status(b);
}

static lt_status grad_fold(lt_builder *b, const lt_node *node, const lt_val *dout, lt_val *din)
{
    return grad_other(b, node, dout, din, &lt_op_unfold_rows);
}

static lt_status grad_unfold(lt_builder *b, const lt_node *node, const lt_val *dout, lt_val *din)
{
    return grad_other(b, node, dout, din, &lt_op_fold_rows);
}

const lt_op_def lt_op_fold_rows = {
    .name = "fold_rows",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_fold,
    .grad = grad_fold,
    .flags = LT_OP_VIEW | LT_OP_CHEAP,
};

const lt_op_def lt_op_unfold_rows = {
    .name = "unfold_rows",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_unfold,
    .grad = grad_unfold,
    .flags = LT_OP_VIEW | LT_OP_CHEAP,
};

lt_val lt_fold_rows(lt_builder *b, lt_val x, int64_t group)
{
    return apply(b, &lt_op_fold_rows, x, group);
}

lt_val lt_unfold_rows(lt_builder *b, lt_val x, int64_t group)
{
    return apply(b, &lt_op_unfold_rows, x, group);
}
