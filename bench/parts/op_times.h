// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes: wall and CPU time of every kernel call, added up by op, pass and
// shapes.
#ifndef LT_BENCH_OP_TIMES_H
#define LT_BENCH_OP_TIMES_H

#include "base/memory.h"
#include "graph/compile.h"

typedef struct op_times {
    lt_vec rows;
    double wall, cpu; /* when the present kernel began */
    lt_status status; /* of the first row that could not be kept */
} op_times;
op_times op_times_none(void);
void op_times_deinit(op_times *t);
void op_times_clear(op_times *t);
/** For lt_tap.around, with the op_times as its ctx. */
void op_times_add(void *ctx, const lt_op_args *a, lt_pass pass, bool after);
/**
 * The dearest first, on stderr: op, shapes, calls, milliseconds of wall and of CPU time a step,
 * share of the step's CPU time, and GFLOP/s by CPU time shared out over the threads, for ops that
 * count FLOPs.
 */
void op_times_print(op_times *t, int steps, double step_cpu_s, int threads);
#endif
