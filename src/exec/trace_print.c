// SPDX-License-Identifier: Apache-2.0
// A recording as the JSON that Chrome's and Perfetto's viewers read, and as tables.
#include "exec/trace.h"

#include <stdio.h>

static lt_status print_name(const lt_trace_span *s, lt_buf *out)
{
    if (s->op)
        return lt_buf_printf(out, "%s%s", s->op->name, s->pass == LT_BACKWARD ? " backward" : "");
    return lt_buf_printf(out, "%s%s%s", lt_action_name(s->kind), *s->subject ? " " : "",
                         s->subject);
}

static lt_status print_args(const lt_trace_span *s, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "{\"action\": \"%s\", \"subject\": \"%s\"", lt_action_name(s->kind),
                         s->subject));
    for (int i = 0; s->op && i < 2; i++)
        if (s->in[i].rank > 0)
            LT_TRY(lt_buf_printf(out, ", \"in%d\": \"%s\"", i, lt_shape_print(&s->in[i]).s));
    if (s->bytes > 0)
        LT_TRY(lt_buf_printf(out, ", \"bytes\": %lld", (long long)s->bytes));
    if (s->flops > 0)
        LT_TRY(lt_buf_printf(out, ", \"gflop\": %.3f", (double)s->flops * 1e-9));
    return lt_buf_text(out, "}");
}

// "X" is a complete event; those that lie inside another on the same row are drawn below it.
static lt_status print_span(const lt_trace_span *s, int rank, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, ",\n{\"name\": \""));
    LT_TRY(print_name(s, out));
    LT_TRY(lt_buf_printf(out,
                         "\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, "
                         "\"pid\": %d, \"tid\": %d, \"args\": ",
                         s->op ? "kernel" : "action", s->begin_s * 1e6,
                         (s->end_s - s->begin_s) * 1e6, rank, (int)s->queue));
    LT_TRY(print_args(s, out));
    return lt_buf_text(out, "}");
}

lt_status lt_trace_print(const lt_trace *t, int rank, lt_buf *out)
{
    const lt_vec *spans = lt_trace_spans(t);
    LT_TRY(lt_buf_printf(out,
                         "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"name\": "
                         "\"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": "
                         "\"rank %d\"}}",
                         rank, rank));
    for (int q = 0; q < LT_N_QUEUES; q++) {
        LT_TRY(lt_buf_printf(out,
                             ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, "
                             "\"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                             rank, q, lt_queue_name((lt_queue)q)));
    }
    for (int64_t i = 0; i < spans->n; i++)
        LT_TRY(print_span(&LT_AT(spans, lt_trace_span, i), rank, out));
    return lt_buf_text(out, "\n]}\n");
}

/* ---- tables ---- */

static lt_status print_kernel(const lt_trace_sum *s, double all, lt_buf *out)
{
    char pass[16], shapes[200];
    const lt_trace_span *k = s->first;
    (void)snprintf(pass, sizeof pass, "%s%s%s", k->pass == LT_FORWARD ? "forward" : "back",
                   k->input ? " dx" : "", k->weight ? " dw" : "");
    (void)snprintf(shapes, sizeof shapes, "%s %s", lt_shape_print(&k->in[0]).s,
                   k->in[1].rank ? lt_shape_print(&k->in[1]).s : "");
    LT_TRY(lt_buf_printf(out, "%-20s %-10s %-44s %5lld %9.3f %5.1f%%", k->op->name, pass, shapes,
                         (long long)s->calls, s->seconds * 1e3, s->seconds / all * 100.0));
    if (s->flops > 0.0 && s->seconds > 0.0)
        LT_TRY(lt_buf_printf(out, " %9.3f", s->flops / s->seconds * 1e-12));
    return lt_buf_text(out, "\n");
}

static lt_status print_sums(const lt_vec *kernels, const lt_vec *actions, double all, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "%-20s %-10s %-44s %5s %9s %6s %9s\n", "op", "pass", "inputs",
                         "calls", "ms", "share", "TFLOP/s"));
    double busy = 0.0;
    for (int64_t i = 0; i < kernels->n; i++) {
        LT_TRY(print_kernel(&LT_AT(kernels, lt_trace_sum, i), all, out));
        busy += LT_AT(kernels, lt_trace_sum, i).seconds;
    }
    LT_TRY(lt_buf_printf(out, "%-82s %9.3f %5.1f%%\n\n", "all kernels", busy * 1e3,
                         busy / all * 100.0));
    for (int64_t i = 0; i < actions->n; i++) {
        const lt_trace_sum *s = &LT_AT(actions, lt_trace_sum, i);
        LT_TRY(lt_buf_printf(out, "%-10s %-66s %5lld %9.3f %5.1f%%\n",
                             lt_action_name(s->first->kind), s->first->subject, (long long)s->calls,
                             s->seconds * 1e3, s->seconds / all * 100.0));
    }
    return LT_OK;
}

lt_status lt_trace_tables(const lt_trace *t, lt_buf *out)
{
    lt_vec kernels = LT_VEC_OF(lt_trace_sum), actions = LT_VEC_OF(lt_trace_sum);
    lt_trace_share share;
    lt_status st = lt_trace_busy(t, &share);
    if (st == LT_OK)
        st = lt_trace_by_kernel(t, &kernels);
    if (st == LT_OK)
        st = lt_trace_by_action(t, &actions);
    if (st == LT_OK)
        st = print_sums(&kernels, &actions, share.all, out);
    lt_vec_deinit(&kernels);
    lt_vec_deinit(&actions);
    return st;
}
