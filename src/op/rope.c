// SPDX-License-Identifier: Apache-2.0
// The rotary tables and split_qkv_rope: shape rules, references and table rows.
#include "op/rope.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

// theta^(-2i/width) in fp32 as the reference programs have it: the exponent, the power and its
// inverse each rounded.
static double frequency(double theta, int64_t i, int64_t width)
{
    const float power = (float)pow(theta, (double)((float)(2 * i) / (float)width));
    return (double)(1.0F / power);
}

// Cosine and sine of pos * f: the product is fp32 in an fp32 table, exact in the f64 one.
static void store_angle(lt_tensor *table, int64_t row, int64_t i, int64_t pos, double f)
{
    const int64_t width = table->dim[1], at = row * width + i;
    double angle = (double)pos * f;
    if (table->dtype != LT_F64)
        angle = (double)((float)pos * (float)f);
    lt_store(table, at, cos(angle));
    lt_store(table, at + width / 2, sin(angle));
}

static lt_status check_table(const lt_op_args *a, const char *name, int64_t rows, int32_t width,
                             int32_t multiple, lt_dtype dtype)
{
    LT_TRY(lt_need_rank(a, 0, name, 2));
    LT_TRY(lt_need_dtype(a, 0, name, LT_I32));
    if (a->in[0]->dim[0] != rows)
        return LT_FAIL(LT_ERR_SHAPE, "%s needs %s with %lld rows, got %s", a->def->name, name,
                       (long long)rows, lt_shape_print(a->in[0]).s);
    if (width < multiple || width % multiple != 0)
        return LT_FAIL(LT_ERR_CONFIG, "%s: the rotary width must be a multiple of %d, and is %d",
                       a->def->name, multiple, width);
    if (dtype != LT_F32 && dtype != LT_F64)
        return LT_FAIL(LT_ERR_DTYPE, "%s makes an f32 or f64 table, not %s", a->def->name,
                       lt_dtype_name(dtype));
    *a->out[0] = lt_tensor_2d(dtype, a->in[0]->dim[1], width);
    return LT_OK;
}

static lt_status infer_text(const lt_op_args *a)
{
    const lt_rope_table_attr *attr = a->attr;
    LT_TRY(check_table(a, "positions", 3, attr->width, 2, attr->dtype));
    const int32_t *s = attr->section;
    if (s[0] < 0 || s[1] < 0 || s[2] < 0 || (int64_t)s[0] + s[1] + s[2] != attr->width / 2) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "rope_table: the sections [%d, %d, %d] must sum to half the rotary width %d",
                       s[0], s[1], s[2], attr->width);
    }
    return LT_OK;
}

// Which of the positions' three rows turns frequency i.
static int axis_of(const lt_rope_table_attr *attr, int32_t i)
{
    if (attr->interleaved) {
        const int axis = i % 3;
        return axis != 0 && i < 3 * attr->section[axis] ? axis : 0;
    }
    if (i < attr->section[0])
        return 0;
    return i < attr->section[0] + attr->section[1] ? 1 : 2;
}

static lt_status text_ref(const lt_op_args *a)
{
    const lt_rope_table_attr *attr = a->attr;
    const int32_t *pos = lt_index(a->in[0]);
    const int64_t n = a->in[0]->dim[1];
    for (int32_t i = 0; i < attr->width / 2; i++) {
        const double f = frequency(attr->theta, i, attr->width);
        const int axis = axis_of(attr, i);
        for (int64_t t = 0; t < n; t++)
            store_angle(a->out[0], t, i, pos[axis * n + t], f);
    }
    return LT_OK;
}

const lt_op_def lt_op_rope_table = {
    .name = "rope_table",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_INDEX,
    .index_in = LT_IN(0),
    .infer = infer_text,
    .forward = {[LT_REF] = text_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_rope_table_fwd_cuda)},
    .flags = LT_OP_CHEAP,
};

lt_val lt_rope_table(lt_builder *b, lt_val positions, lt_rope_table_attr attr)
{
    attr.dtype = lt_wide_dtype(lt_builder_compute(b));
    return lt_op_apply(b, &lt_op_rope_table, &positions, 1, &attr, sizeof attr, NULL);
}

static lt_status infer_vision(const lt_op_args *a)
{
    const lt_vision_rope_table_attr *attr = a->attr;
    return check_table(a, "patch_pos", 2, attr->width, 4, attr->dtype);
}

static lt_status vision_ref(const lt_op_args *a)
{
    const lt_vision_rope_table_attr *attr = a->attr;
    const int32_t *pos = lt_index(a->in[0]);
    const int64_t n = a->in[0]->dim[1], m = attr->width / 4;
    for (int64_t i = 0; i < m; i++) {
        const double f = frequency(attr->theta, i, attr->width / 2);
        for (int64_t t = 0; t < n; t++) {
            store_angle(a->out[0], t, i, pos[t], f);
            store_angle(a->out[0], t, m + i, pos[n + t], f);
        }
    }
    return LT_OK;
}

const lt_op_def lt_op_vision_rope_table = {
    .name = "vision_rope_table",
    .n_in = 1,
    .n_out = 1,
    .dtypes = LT_INDEX,
    .index_in = LT_IN(0),
    .infer = infer_vision,
    .forward = {[LT_REF] = vision_ref, [LT_CUDA] = LT_CUDA_KERNEL(lt_vision_rope_table_fwd_cuda)},
    .flags = LT_OP_CHEAP,
};

lt_val lt_vision_rope_table(lt_builder *b, lt_val patch_pos, double theta, int32_t width)
{
    const lt_vision_rope_table_attr attr = {
        .theta = theta, .width = width, .dtype = lt_wide_dtype(lt_builder_compute(b))};
    return lt_op_apply(b, &lt_op_vision_rope_table, &patch_pos, 1, &attr, sizeof attr, NULL);
}

static int64_t heads_of(const lt_op_args *a)
{
    return ((const lt_split_qkv_rope_attr *)a->attr)->heads;
}

static lt_status infer_split(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "qkv", 2));
    const lt_tensor *qkv = a->in[0];
    const int64_t heads = heads_of(a);
    if (heads < 1 || qkv->dim[1] % (6 * heads) != 0) {
        return LT_FAIL(
            LT_ERR_SHAPE,
            "split_qkv_rope needs qkv as three times %lld heads of an even width, got %s",
            (long long)heads, lt_shape_print(qkv).s);
    }
    const int64_t width = qkv->dim[1] / 3;
    LT_TRY(lt_need_2d(a, 1, "table", lt_wide_dtype(qkv->dtype), qkv->dim[0], width / heads));
    for (int i = 0; i < 3; i++)
        *a->out[i] = lt_tensor_2d(qkv->dtype, qkv->dim[0], width);
    return LT_OK;
}

static lt_status split_ref(const lt_op_args *a)
{
    const lt_tensor *qkv = a->in[0], *table = a->in[1];
    const int64_t width = qkv->dim[1] / 3, d = width / heads_of(a), m = d / 2;
    for (int64_t n = 0; n < qkv->dim[0]; n++) {
        for (int64_t j = 0; j < width; j++) {
            const int64_t i = j % d % m, from = n * 3 * width, to = n * width + j;
            const bool low = j % d < m;
            const double c = lt_load(table, n * d + i), s = lt_load(table, n * d + m + i);
            for (int part = 0; part < 2; part++) {
                const int64_t at = from + part * width + j;
                const double turned = low ? -lt_load(qkv, at + m) : lt_load(qkv, at - m);
                lt_store(a->out[part], to, lt_load(qkv, at) * c + turned * s);
            }
            lt_store(a->out[2], to, lt_load(qkv, from + 2 * width + j));
        }
    }
    return LT_OK;
}

// The rotation by the opposite angle.
static lt_status split_backward_ref(const lt_op_args *a)
{
    if (!a->din[0])
        return LT_OK;
    const lt_tensor *table = a->in[1];
    const int64_t width = a->din[0]->dim[1] / 3, d = width / heads_of(a), m = d / 2;
    for (int64_t n = 0; n < a->din[0]->dim[0]; n++) {
        for (int64_t j = 0; j < width; j++) {
            const int64_t i = j % d % m, to = n * 3 * width + j, from = n * width + j;
            const bool low = j % d < m;
            const double c = lt_load(table, n * d + i), s = lt_load(table, n * d + m + i);
            for (int part = 0; part < 2; part++) {
                const double turned =
                    low ? lt_dout(a, part, from + m) : -lt_dout(a, part, from - m);
                lt_put_grad(a, 0, to + part * width, lt_dout(a, part, from) * c + turned * s);
            }
            lt_put_grad(a, 0, to + 2 * width, lt_dout(a, 2, from));
        }
    }
    return LT_OK;
}

const lt_op_def lt_op_split_qkv_rope = {
    .name = "split_qkv_rope",
    .n_in = 2,
    .n_out = 3,
    .dtypes = LT_FLOATS,
    .infer = infer_split,
    .forward = {[LT_REF] = split_ref,
                [LT_CPU] = lt_split_qkv_rope_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_split_qkv_rope_fwd_cuda)},
    .backward = {[LT_REF] = split_backward_ref,
                 [LT_CPU] = lt_split_qkv_rope_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_split_qkv_rope_bwd_cuda)},
    .backward_reads = LT_IN(1),
    .flags = LT_OP_CHEAP,
};

void lt_split_qkv_rope(lt_builder *b, lt_val qkv, lt_val table, int32_t heads, lt_val *out)
{
    const lt_split_qkv_rope_attr attr = {.heads = heads};
    for (int i = 0; i < 3; i++)
        out[i] = LT_NONE;
    (void)lt_op_apply(b, &lt_op_split_qkv_rope, (const lt_val[]){qkv, table}, 2, &attr, sizeof attr,
                      out);
}
