// SPDX-License-Identifier: Apache-2.0
// gated_delta on the CPU: which of its two forms a call takes.
#include "op/cpu/delta.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/op.h"
#include <string.h>

void lt_delta_clear_outside(const lt_op_args *a, const lt_tensor *t)
{
    const int32_t *segments = lt_index(a->in[3]);
    const int64_t rows = t->dim[0], width = t->dim[1], n = lt_n_elems(a->in[3]);
    const int64_t first = n > 0 ? segments[0] : rows, last = n > 0 ? segments[n - 1] : rows;
    const size_t bytes = (size_t)width * lt_dtype_bytes(t->dtype);
    if (first > 0)
        memset(t->data, 0, (size_t)first * bytes);
    if (last < rows)
        memset(lt_at(t, last * width), 0, (size_t)(rows - last) * bytes);
}

lt_status lt_gated_delta_fwd_cpu(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 3, a->in[0]->dim[0]));
    lt_delta_clear_outside(a, a->out[0]);
    return a->in[0]->dtype == LT_F64 ? lt_delta_fwd_f64(a) : lt_delta_fwd_f32(a);
}

lt_status lt_gated_delta_bwd_cpu(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 3, a->in[0]->dim[0]));
    for (int i = 0; i < 3; i++) {
        if (!a->dout[0])
            LT_TRY(lt_cpu_zero(a, i));
        else if (a->din[i] && !(a->add & LT_IN(i)))
            lt_delta_clear_outside(a, a->din[i]);
    }
    if (!a->dout[0])
        return LT_OK;
    return a->in[0]->dtype == LT_F64 ? lt_delta_bwd_f64(a) : lt_delta_bwd_f32(a);
}
