// SPDX-License-Identifier: Apache-2.0
// gated_delta on the CPU in chunks, in float and, for tests of the form itself, in double: the same
// text (delta_chunks.inc) over two sets of inner loops.
#ifndef LT_OP_CPU_DELTA_H
#define LT_OP_CPU_DELTA_H

#include "graph/op_def.h"

lt_status lt_delta_fwd_f32(const lt_op_args *a);
lt_status lt_delta_bwd_f32(const lt_op_args *a);
lt_status lt_delta_fwd_f64(const lt_op_args *a);
lt_status lt_delta_bwd_f64(const lt_op_args *a);

/** Zeros in the rows of t that no segment of in[3] holds. */
void lt_delta_clear_outside(const lt_op_args *a, const lt_tensor *t);
#endif
