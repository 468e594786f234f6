// SPDX-License-Identifier: Apache-2.0
// split_thirds, split_heads, join: shape rules, references and table rows. All three see a tensor
// as pieces of one width, dealt out to the parts in turn.
#include "op/split.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"

enum { THIRDS = 3, PAIR = 2 };

// ---- from one tensor to its parts: the outputs of a split ----

static lt_status infer_thirds(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0];
    if (x->dim[1] % THIRDS != 0)
        return LT_FAIL(LT_ERR_SHAPE, "split_thirds needs x of three equal parts, got %s",
                       lt_shape_print(x).s);
    for (int i = 0; i < THIRDS; i++)
        *a->out[i] = lt_tensor_2d(x->dtype, x->dim[0], x->dim[1] / THIRDS);
    return LT_OK;
}

static lt_status infer_heads(const lt_op_args *a)
{
    const int32_t heads = ((const lt_split_heads_attr *)a->attr)->heads;
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    const lt_tensor *x = a->in[0];
    if (heads < 1 || x->dim[1] % (PAIR * (int64_t)heads) != 0)
        return LT_FAIL(LT_ERR_SHAPE, "split_heads needs x as %d heads of two equal parts, got %s",
                       heads, lt_shape_print(x).s);
    for (int i = 0; i < PAIR; i++)
        *a->out[i] = lt_tensor_2d(x->dtype, x->dim[0], x->dim[1] / PAIR);
    return LT_OK;
}

int64_t lt_split_piece(const lt_op_args *a, const lt_tensor *x)
{
    return a->def == &lt_op_split_heads
               ? x->dim[1] / PAIR / ((const lt_split_heads_attr *)a->attr)->heads
               : x->dim[1] / a->def->n_out;
}

static lt_status split_ref(const lt_op_args *a)
{
    const int64_t piece = lt_split_piece(a, a->in[0]), parts = a->def->n_out;
    for (int64_t k = 0, n = lt_n_elems(a->in[0]); k < n; k++) {
        const int64_t number = k / piece;
        lt_store(a->out[number % parts], number / parts * piece + k % piece, lt_load(a->in[0], k));
    }
    return LT_OK;
}

static lt_status split_back_ref(const lt_op_args *a)
{
    if (!a->din[0])
        return LT_OK;
    const int64_t piece = lt_split_piece(a, a->din[0]), parts = a->def->n_out;
    for (int64_t k = 0, n = lt_n_elems(a->din[0]); k < n; k++) {
        const int64_t number = k / piece;
        lt_put_grad(a, 0, k, lt_dout(a, (int)(number % parts), number / parts * piece + k % piece));
    }
    return LT_OK;
}

const lt_op_def lt_op_split_thirds = {
    .name = "split_thirds",
    .n_in = 1,
    .n_out = THIRDS,
    .dtypes = LT_FLOATS,
    .infer = infer_thirds,
    .forward = {[LT_REF] = split_ref,
                [LT_CPU] = lt_split_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_split_fwd_cuda)},
    .backward = {[LT_REF] = split_back_ref,
                 [LT_CPU] = lt_split_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_split_bwd_cuda)},
    .flags = LT_OP_CHEAP,
};

void lt_split_thirds(lt_builder *b, lt_val x, lt_val *out)
{
    for (int i = 0; i < THIRDS; i++)
        out[i] = LT_NONE;
    (void)lt_op_apply(b, &lt_op_split_thirds, &x, 1, NULL, 0, out);
}

const lt_op_def lt_op_split_heads = {
    .name = "split_heads",
    .n_in = 1,
    .n_out = PAIR,
    .dtypes = LT_FLOATS,
    .infer = infer_heads,
    .forward = {[LT_REF] = split_ref,
                [LT_CPU] = lt_split_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_split_fwd_cuda)},
    .backward = {[LT_REF] = split_back_ref,
                 [LT_CPU] = lt_split_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_split_bwd_cuda)},
    .flags = LT_OP_CHEAP,
};

void lt_split_heads(lt_builder *b, lt_val x, int32_t heads, lt_val *out)
{
    const lt_split_heads_attr attr = {.heads = heads};
    out[0] = out[1] = LT_NONE;
    (void)lt_op_apply(b, &lt_op_split_heads, &x, 1, &attr, sizeof attr, out);
}

// ---- the other way ----

static lt_status infer_join(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "a", 2));
    LT_TRY(lt_need_alike(a, 0, "a", 1, "b"));
    const lt_tensor *x = a->in[0];
    *a->out[0] = lt_tensor_2d(x->dtype, x->dim[0], PAIR * x->dim[1]);
    return LT_OK;
}

static lt_status join_ref(const lt_op_args *a)
{
    const int64_t width = a->in[0]->dim[1];
    for (int64_t k = 0, n = lt_n_elems(a->out[0]); k < n; k++) {
        const int64_t number = k / width;
        lt_store(a->out[0], k, lt_load(a->in[number % PAIR], number / PAIR * width + k % width));
    }
    return LT_OK;
}

static lt_status join_back_ref(const lt_op_args *a)
{
    for (int i = 0; i < PAIR; i++) {
        const int64_t width = a->din[i] ? a->din[i]->dim[1] : 1;
        for (int64_t k = 0, n = a->din[i] ? lt_n_elems(a->din[i]) : 0; k < n; k++)
            lt_put_grad(a, i, k, lt_dout(a, 0, (k / width * PAIR + i) * width + k % width));
    }
    return LT_OK;
}

const lt_op_def lt_op_join = {
    .name = "join",
    .n_in = PAIR,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_join,
    .forward = {[LT_REF] = join_ref,
                [LT_CPU] = lt_join_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_join_fwd_cuda)},
    .backward = {[LT_REF] = join_back_ref,
                 [LT_CPU] = lt_join_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_join_bwd_cuda)},
    .flags = LT_OP_CHEAP,
};

lt_val lt_join(lt_builder *b, lt_val left, lt_val right)
{
    return lt_op_apply(b, &lt_op_join, (const lt_val[]){left, right}, PAIR, NULL, 0, NULL);
}
