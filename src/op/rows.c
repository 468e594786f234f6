// SPDX-License-Identifier: Apache-2.0
// scatter_rows, scatter_add_rows and gather_rows: shape rules, references and table rows.
#include "op/rows.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <string.h>

static lt_status infer_scatter(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "f", 2));
    LT_TRY(lt_need_rank(a, 2, "rows", 1));
    const lt_tensor *x = a->in[0], *f = a->in[1], *rows = a->in[2];
    if (!lt_dtype_is_float(f->dtype))
        return LT_FAIL(LT_ERR_DTYPE, "%s needs f as a float, got %s", a->def->name,
                       lt_shape_print(f).s);
    if (f->dim[1] != x->dim[1] || f->dim[0] != rows->dim[0]) {
        return LT_FAIL(LT_ERR_SHAPE, "%s needs x [T, H], f [M, H] and rows [M], got %s, %s and %s",
                       a->def->name, lt_shape_print(x).s, lt_shape_print(f).s,
                       lt_shape_print(rows).s);
    }
    *a->out[0] = lt_tensor_like(x);
    return LT_OK;
}

// y = x, which may be the same memory
static void copy_x(const lt_op_args *a)
{
    if (lt_n_elems(a->in[0]) > 0 && a->out[0]->data != a->in[0]->data)
        memcpy(a->out[0]->data, a->in[0]->data, lt_tensor_bytes(a->in[0]));
}

static lt_status scatter_ref(const lt_op_args *a)
{
    const int32_t *rows = lt_index(a->in[2]);
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    copy_x(a);
    for (int64_t m = 0; m < a->in[2]->dim[0]; m++)
        lt_copy_row(a->out[0], rows[m], a->in[1], m);
    return LT_OK;
}

static lt_status scatter_backward_ref(const lt_op_args *a)
{
    const int32_t *rows = lt_index(a->in[2]);
    const int64_t n_rows = a->in[2]->dim[0];
    if (a->din[0]) {
        const int64_t width = a->din[0]->dim[1];
        for (int64_t t = 0, m = 0; t < a->din[0]->dim[0]; t++) {
            const bool replaced = m < n_rows && rows[m] == t;
            for (int64_t j = 0; j < width; j++)
                lt_put_grad(a, 0, t * width + j, replaced ? 0.0 : lt_dout(a, 0, t * width + j));
            m += replaced;
        }
    }
    if (a->din[1]) {
        const int64_t width = a->din[1]->dim[1];
        for (int64_t m = 0; m < n_rows; m++)
            for (int64_t j = 0; j < width; j++)
                lt_put_grad(a, 1, m * width + j, lt_dout(a, 0, rows[m] * width + j));
    }
    return LT_OK;
}

const lt_op_def lt_op_scatter_rows = {
    .name = "scatter_rows",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer_scatter,
    .forward = {[LT_REF] = scatter_ref,
                [LT_CPU] = lt_scatter_rows_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_scatter_rows_fwd_cuda)},
    .backward = {[LT_REF] = scatter_backward_ref,
                 [LT_CPU] = lt_scatter_rows_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_scatter_rows_bwd_cuda)},
    .backward_reads = LT_IN(2),
    .flags = LT_OP_CHEAP | LT_OP_IN_PLACE,
};

lt_val lt_scatter_rows(lt_builder *b, lt_val x, lt_val f, lt_val rows)
{
    return lt_op_apply(b, &lt_op_scatter_rows, (const lt_val[]){x, f, rows}, 3, NULL, 0, NULL);
}

static lt_status infer_scatter_add(const lt_op_args *a)
{
    LT_TRY(infer_scatter(a));
    return lt_need_dtype(a, 1, "f", a->in[0]->dtype);
}

static lt_status scatter_add_ref(const lt_op_args *a)
{
    const int32_t *rows = lt_index(a->in[2]);
    const int64_t width = a->in[0]->dim[1];
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    copy_x(a);
    for (int64_t m = 0; m < a->in[2]->dim[0]; m++) {
        for (int64_t j = 0; j < width; j++) {
            const int64_t k = rows[m] * width + j;
            lt_store(a->out[0], k, lt_load(a->out[0], k) + lt_load(a->in[1], m * width + j));
        }
    }
    return LT_OK;
}

static lt_status grad_scatter_add(lt_builder *b, const lt_node *node, const lt_val *dout,
                                  lt_val *din)
{
    din[0] = dout[0];
    if (dout[0] != LT_NONE && lt_value_needs_grad(b, node->in[1]))
        din[1] = lt_gather_rows(b, dout[0], node->in[2]);
    return lt_builder_status(b);
}

const lt_op_def lt_op_scatter_add_rows = {
    .name = "scatter_add_rows",
    .n_in = 3,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(2),
    .infer = infer_scatter_add,
    .forward = {[LT_REF] = scatter_add_ref,
                [LT_CPU] = lt_scatter_add_rows_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_scatter_add_rows_fwd_cuda)},
    .grad = grad_scatter_add,
    .flags = LT_OP_CHEAP | LT_OP_IN_PLACE,
};

lt_val lt_scatter_add_rows(lt_builder *b, lt_val x, lt_val f, lt_val rows)
{
    return lt_op_apply(b, &lt_op_scatter_add_rows, (const lt_val[]){x, f, rows}, 3, NULL, 0, NULL);
}

static lt_status infer_gather(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(lt_need_rank(a, 1, "rows", 1));
    *a->out[0] = lt_tensor_2d(a->in[0]->dtype, a->in[1]->dim[0], a->in[0]->dim[1]);
    return LT_OK;
}

static lt_status gather_ref(const lt_op_args *a)
{
    const int32_t *rows = lt_index(a->in[1]);
    LT_TRY(lt_need_ascending(a, 1, "rows", a->in[0]->dim[0]));
    for (int64_t m = 0; m < a->in[1]->dim[0]; m++)
        lt_copy_row(a->out[0], m, a->in[0], rows[m]);
    return LT_OK;
}

static lt_status gather_backward_ref(const lt_op_args *a)
{
    if (!a->din[0])
        return LT_OK;
    const int32_t *rows = lt_index(a->in[1]);
    const int64_t width = a->din[0]->dim[1];
    lt_zero_grad(a, 0);
    for (int64_t m = 0; m < a->in[1]->dim[0]; m++)
        for (int64_t j = 0; j < width; j++)
            lt_add_grad(a, 0, rows[m] * width + j, lt_dout(a, 0, m * width + j));
    return LT_OK;
}

const lt_op_def lt_op_gather_rows = {
    .name = "gather_rows",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(1),
    .infer = infer_gather,
    .forward = {[LT_REF] = gather_ref,
                [LT_CPU] = lt_gather_rows_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_gather_rows_fwd_cuda)},
    .backward = {[LT_REF] = gather_backward_ref,
                 [LT_CPU] = lt_gather_rows_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_gather_rows_bwd_cuda)},
    .backward_reads = LT_IN(1),
    .flags = LT_OP_CHEAP,
};

lt_val lt_gather_rows(lt_builder *b, lt_val x, lt_val rows)
{
    return lt_op_apply(b, &lt_op_gather_rows, (const lt_val[]){x, rows}, 2, NULL, 0, NULL);
}

static lt_status infer_shift(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    *a->out[0] = lt_tensor_like(a->in[0]);
    return LT_OK;
}

static int64_t shift_of(const lt_op_args *a)
{
    return ((const lt_shift_rows_attr *)a->attr)->by;
}

static lt_status shift_ref(const lt_op_args *a)
{
    const int64_t rows = a->in[0]->dim[0], width = a->in[0]->dim[1];
    for (int64_t k = 0; k < rows * width; k++) {
        const int64_t from = k / width + shift_of(a);
        lt_store(a->out[0], k,
                 from >= 0 && from < rows ? lt_load(a->in[0], k + shift_of(a) * width) : 0.0);
    }
    return LT_OK;
}

static lt_status shift_backward_ref(const lt_op_args *a)
{
    const int64_t rows = a->din[0] ? a->din[0]->dim[0] : 0,
                  width = a->din[0] ? a->din[0]->dim[1] : 0;
    for (int64_t k = 0; k < rows * width; k++) {
        const int64_t to = k / width - shift_of(a);
        lt_put_grad(a, 0, k, to >= 0 && to < rows ? lt_dout(a, 0, k - shift_of(a) * width) : 0.0);
    }
    return LT_OK;
}

const lt_op_def lt_op_shift_rows = {
    .name = "shift_rows",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_shift,
    .forward = {[LT_REF] = shift_ref, [LT_CPU] = lt_shift_rows_fwd_cpu},
    .backward = {[LT_REF] = shift_backward_ref, [LT_CPU] = lt_shift_rows_bwd_cpu},
    .flags = LT_OP_CHEAP,
};

lt_val lt_shift_rows(lt_builder *b, lt_val x, int32_t by)
{
    const lt_shift_rows_attr attr = {.by = by};
    return lt_op_apply(b, &lt_op_shift_rows, &x, 1, &attr, sizeof attr, NULL);
}
