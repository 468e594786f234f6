// SPDX-License-Identifier: Apache-2.0
// A recording of what runs: actions of the step program, and the kernels inside them. Times are the
// wall clock's, on a device with queues those of the device.
#ifndef LT_EXEC_TRACE_H
#define LT_EXEC_TRACE_H

#include "exec/exec.h"

/** An action, or a kernel of the action that stands before it. */
typedef struct lt_trace_span {
    const lt_program *program; /* the action's; alive as long as the executor keeps it */
    const char *subject;       /* block, unit or buffer kind; "" when there is none */
    lt_action_kind kind;
    lt_queue queue;
    const lt_op_def *op; /* NULL: an action */
    lt_pass pass;
    bool weight, input; /* a backward kernel: which of the first two gradients are asked for */
    lt_tensor in[2];    /* shapes of its first two inputs */
    int64_t flops, bytes;
    double begin_s, end_s; /* since the recording began */
    lt_event *begin, *end; /* the device's, before the times are known */
} lt_trace_span;

typedef struct lt_trace lt_trace;
/** Records nothing until lt_trace_start. The device is kept. */
LT_NODISCARD lt_status lt_trace_create(lt_device *device, lt_trace **out);
void lt_trace_destroy(lt_trace *t);
/** What the executor calls. Kept by the options of lt_exec_create. */
lt_watch lt_trace_watch(lt_trace *t);
void lt_trace_start(lt_trace *t);
/**
 * Everything that was recorded has run: times become known.
 * errors   the first of the recording; the device's
 */
LT_NODISCARD lt_status lt_trace_stop(lt_trace *t);
/** lt_trace_span, in the order of issue; what came after the first LT_TRACE_MOST is not there. */
enum { LT_TRACE_MOST = 1 << 20 };
const lt_vec *lt_trace_spans(const lt_trace *t);
void lt_trace_clear(lt_trace *t);

/** One line of a sum over spans. */
typedef struct lt_trace_sum {
    const lt_trace_span *first; /* one of them */
    int64_t calls;
    double seconds;
    double flops;
} lt_trace_sum;
/** Kernels by op, pass and shapes, the dearest first: pushes lt_trace_sum. */
LT_NODISCARD lt_status lt_trace_by_kernel(const lt_trace *t, lt_vec *sums);
/** Actions by kind and subject, in the order of issue: pushes lt_trace_sum. */
LT_NODISCARD lt_status lt_trace_by_action(const lt_trace *t, lt_vec *sums);

/** Seconds from the first span's begin to the last one's end; and in which a kernel or copy ran. */
typedef struct lt_trace_share {
    double all, computing;
} lt_trace_share;
LT_NODISCARD lt_status lt_trace_busy(const lt_trace *t, lt_trace_share *out);
/** Tables: kernels by op, pass and shapes, the dearest first; then actions by block or unit. */
LT_NODISCARD lt_status lt_trace_tables(const lt_trace *t, lt_buf *out);
/**
 * The recording in the trace event format of Chrome and Perfetto: a row for each queue, actions,
 * and kernels inside them.
 */
LT_NODISCARD lt_status lt_trace_print(const lt_trace *t, int rank, lt_buf *out);
#endif
