// SPDX-License-Identifier: Apache-2.0
// Which kernel a column of the op table runs.
#include "graph/op_def.h"

lt_kernel lt_op_kernel(const lt_op_def *def, lt_backend backend, lt_pass pass)
{
    const lt_kernel *column = pass == LT_FORWARD ? def->forward : def->backward;
    if (backend == LT_CPU && !column[LT_CPU])
        return column[LT_REF];
    return column[backend];
}
