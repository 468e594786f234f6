// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes: seconds of every kernel call, added up by op, pass and shapes.
#ifndef LT_BENCH_OP_TIMES_H
#define LT_BENCH_OP_TIMES_H

#include "base/memory.h"
#include "graph/compile.h"

typedef struct op_times {
    lt_vec rows;
    lt_status status; /* of the first row that could not be kept */
} op_times;
op_times op_times_none(void);
void op_times_deinit(op_times *t);
void op_times_clear(op_times *t);
/** For lt_tap.timed, with the op_times as its ctx. */
void op_times_add(void *ctx, const char *block, const lt_op_args *a, lt_pass pass, double seconds);
/** The dearest first: op, shapes, calls and ms a step, share, and GFLOP/s of those that count FLOPs. step_s: what a share is of. */
void op_times_print(op_times *t, int steps, double step_s);
#endif
