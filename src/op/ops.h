// SPDX-License-Identifier: Apache-2.0
// The op table: every row that this build knows.
#ifndef LT_OP_OPS_H
#define LT_OP_OPS_H

#include "base/text.h"
#include "op/op.h"

/** All rows, in the order of src/op/ops.c. out: *n rows; the list is constant */
const lt_op_def *const *lt_ops_all(int *n);
/** The row of that name, NULL when there is none. */
const lt_op_def *lt_op_find(const char *name);
/**
 * The table for people, one line per row: inputs and outputs at most, what each column has (f
 * forward, b backward, - nothing; the CPU says "ref" where it runs the reference), where the
 * gradient comes from, flags.
 */
LT_NODISCARD lt_status lt_ops_print(lt_buf *out);
#endif
