// SPDX-License-Identifier: Apache-2.0
// adamw and sum_squares: checks, references and table rows.
#include "op/adamw.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

enum { P, M, V, LO }; /* the in-out tensors */

static lt_status need_state(const lt_op_args *a, int i, const char *name, lt_dtype dtype)
{
    const lt_tensor *t = a->out[i], *grad = a->in[0];
    if (!t || !lt_same_shape(t, grad))
        return LT_FAIL(LT_ERR_SHAPE, "adamw needs %s and grad of one shape, got %s and %s", name,
                       t ? lt_shape_print(t).s : "nothing", lt_shape_print(grad).s);
    if (t->dtype != dtype)
        return LT_FAIL(LT_ERR_DTYPE, "adamw needs %s as %s beside grad %s, got %s", name,
                       lt_dtype_name(dtype), lt_shape_print(grad).s, lt_shape_print(t).s);
    return LT_OK;
}

static lt_status infer(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "grad", 1));
    LT_TRY(lt_need_1d(a, 1, "scalars", LT_F64, LT_N_SCALARS));
    const lt_dtype wide = a->in[0]->dtype;
    const bool split = a->out[P] && a->out[P]->dtype == LT_BF16;
    if (wide != LT_F32 && wide != LT_F64)
        return LT_FAIL(LT_ERR_DTYPE, "adamw needs grad as f32 or f64, got %s",
                       lt_shape_print(a->in[0]).s);
    LT_TRY(need_state(a, P, "p", split && wide == LT_F32 ? LT_BF16 : wide));
    LT_TRY(need_state(a, M, "m", wide));
    LT_TRY(need_state(a, V, "v", wide));
    return split ? need_state(a, LO, "lo", LT_I16) : LT_OK;
}

static double load_master(const lt_op_args *a, int64_t i)
{
    if (a->out[P]->dtype != LT_BF16)
        return lt_load(a->out[P], i);
    return (double)lt_join_f32(((const uint16_t *)a->out[P]->data)[i],
                               ((const int16_t *)a->out[LO]->data)[i]);
}

static void store_master(const lt_op_args *a, int64_t i, double p)
{
    if (a->out[P]->dtype != LT_BF16)
        lt_store(a->out[P], i, p);
    else
        lt_split_f32((float)p, &((uint16_t *)a->out[P]->data)[i],
                     &((int16_t *)a->out[LO]->data)[i]);
}

static lt_status forward_ref(const lt_op_args *a)
{
    const lt_adamw_attr *c = a->attr;
    const double lr = lt_load(a->in[1], LT_SCALAR_LR) * c->lr_scale,
                 clip = lt_load(a->in[1], LT_SCALAR_CLIP);
    const double m_correction = lt_load(a->in[1], LT_SCALAR_M_CORRECTION);
    const double v_correction = lt_load(a->in[1], LT_SCALAR_V_CORRECTION);
    for (int64_t i = 0, n = lt_n_elems(a->in[0]); i < n; i++) {
        const double g = lt_load(a->in[0], i) * clip;
        const double m = c->beta1 * lt_load(a->out[M], i) + (1.0 - c->beta1) * g;
        const double v = c->beta2 * lt_load(a->out[V], i) + (1.0 - c->beta2) * g * g;
        const double step = m * m_correction / (sqrt(v * v_correction) + c->eps);
        store_master(a, i, load_master(a, i) * (1.0 - lr * c->weight_decay) - lr * step);
        lt_store(a->out[M], i, m);
        lt_store(a->out[V], i, v);
    }
    return LT_OK;
}

const lt_op_def lt_op_adamw = {
    .name = "adamw",
    .n_in = 2,
    .n_out = 4,
    .dtypes = LT_DTYPE_BIT(LT_F32) | LT_DTYPE_BIT(LT_F64),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref,
                [LT_CPU] = lt_adamw_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_adamw_fwd_cuda)},
};

static lt_status infer_sum(const lt_op_args *a)
{
    if (!a->in[0])
        return LT_FAIL(LT_ERR_SHAPE, "sum_squares needs g, which is not given");
    *a->out[0] = lt_tensor_1d(LT_F64, 1);
    return LT_OK;
}

static lt_status sum_ref(const lt_op_args *a)
{
    const int64_t n = lt_n_elems(a->in[0]);
    double all = 0.0;
    for (int64_t from = 0; from < n; from += LT_SUM_BLOCK)
        all += lt_dot(a->in[0], from, 1, a->in[0], from, 1, lt_min_i64(LT_SUM_BLOCK, n - from));
    double *out = a->out[0]->data;
    *out = (a->add & LT_IN(0)) ? *out + all : all;
    return LT_OK;
}

const lt_op_def lt_op_sum_squares = {
    .name = "sum_squares",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .infer = infer_sum,
    .forward = {[LT_REF] = sum_ref,
                [LT_CPU] = lt_sum_squares_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_sum_squares_fwd_cuda)},
};
