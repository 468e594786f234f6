// SPDX-License-Identifier: Apache-2.0
// A recording as the JSON that Chrome's and Perfetto's viewers read.
#include "exec/trace.h"

static lt_status print_name(const lt_span *s, lt_buf *out)
{
    if (s->op)
        return lt_buf_printf(out, "%s%s", s->op->name, s->pass == LT_BACKWARD ? " backward" : "");
    return lt_buf_printf(out, "%s%s%s", lt_action_name(s->kind), *s->subject ? " " : "",
                         s->subject);
}

static lt_status print_args(const lt_span *s, lt_buf *out)
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
static lt_status print_span(const lt_span *s, int rank, lt_buf *out)
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
    for (int q = 0; q < LT_N_QUEUES; q++)
        LT_TRY(lt_buf_printf(out,
                             ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, "
                             "\"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                             rank, q, lt_queue_name((lt_queue)q)));
    for (int64_t i = 0; i < spans->n; i++)
        LT_TRY(print_span(&LT_AT(spans, lt_span, i), rank, out));
    return lt_buf_text(out, "\n]}\n");
}
