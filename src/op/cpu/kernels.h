// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels of the op table, for f32 and bf16; what else comes (f64) goes to the reference. Bits depend neither on the
// number of threads nor, for a row of an activation, on the number of rows.
#ifndef LT_OP_CPU_KERNELS_H
#define LT_OP_CPU_KERNELS_H

#include "graph/op_def.h"

lt_status lt_linear_fwd_cpu(const lt_op_args *a);
lt_status lt_linear_bwd_cpu(const lt_op_args *a);
#endif
