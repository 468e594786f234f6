// SPDX-License-Identifier: Apache-2.0
// Recording spans, and adding them up.
#include "exec/trace.h"

#include "plan/peak.h"

#include <stdlib.h>

struct lt_trace {
    lt_device *device;
    bool on;
    lt_status status; /* of the first span that could not be kept */
    lt_vec spans;     /* lt_trace_span */
    lt_vec timers;    /* lt_event *: all that were ever made */
    int64_t n_timers; /* of those in use */
    lt_event *origin;
    double origin_s;
    int64_t action, kernel; /* spans that are open; LT_NONE */
};

lt_status lt_trace_create(lt_device *device, lt_trace **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_trace), "trace"));
    lt_trace *t = memory;
    t->device = device;
    t->spans = LT_VEC_OF(lt_trace_span);
    t->timers = LT_VEC_OF(lt_event *);
    t->action = t->kernel = LT_NONE;
    *out = t;
    return LT_OK;
}

void lt_trace_destroy(lt_trace *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->timers.n; i++)
        t->device->event_destroy(t->device, LT_AT(&t->timers, lt_event *, i));
    lt_vec_deinit(&t->timers);
    lt_vec_deinit(&t->spans);
    lt_mem_free(t);
}

/* ---- recording ---- */

// A mark in the stream: its own timer, or the time now.
static lt_status mark(lt_trace *t, lt_stream *s, lt_event **event, double *seconds)
{
    lt_device *d = t->device;
    *seconds = lt_clock_now();
    if (!d->timer_create || !s)
        return LT_OK;
    if (t->n_timers == t->timers.n) {
        lt_event *fresh = NULL;
        LT_TRY(d->timer_create(d, &fresh));
        LT_TRY(lt_vec_push(&t->timers, &fresh));
    }
    *event = LT_AT(&t->timers, lt_event *, t->n_timers++);
    return d->event_record(d, *event, s);
}

static lt_status open_span(lt_trace *t, const lt_trace_span *like, lt_stream *s, int64_t *out)
{
    LT_TRY(lt_vec_push(&t->spans, like));
    *out = t->spans.n - 1;
    lt_trace_span *span = &LT_AT(&t->spans, lt_trace_span, *out);
    LT_TRY(mark(t, s, &span->begin, &span->begin_s));
    if (!t->origin && span->begin)
        t->origin = span->begin;
    if (*out == 0)
        t->origin_s = span->begin_s;
    return LT_OK;
}

static lt_status close_span(lt_trace *t, int64_t *open, lt_stream *s)
{
    if (*open == LT_NONE)
        return LT_OK;
    lt_trace_span *span = &LT_AT(&t->spans, lt_trace_span, *open);
    *open = LT_NONE;
    return mark(t, s, &span->end, &span->end_s);
}

static const char *subject_of(const lt_program *p, const lt_action *a)
{
    switch (a->kind) {
    case LT_ACT_FORWARD:
    case LT_ACT_BACKWARD:
        return p->opts.model->blocks[a->subject].name;
    case LT_ACT_GATHER:
    case LT_ACT_REDUCE:
    case LT_ACT_NORM:
    case LT_ACT_UPDATE:
        return a->subject == LT_NONE ? "" : p->opts.units->units[a->subject].name;
    case LT_ACT_COPY:
    case LT_ACT_OFFLOAD:
    case LT_ACT_FETCH:
    case LT_ACT_ADD:
    case LT_ACT_FREE:
        return lt_buffer_kind_name(lt_buffer_at(p, a->subject)->kind);
    case LT_ACT_AGREE:
    case LT_N_ACTIONS:
        break;
    }
    return "";
}

static void keep(lt_trace *t, lt_status st)
{
    if (t->status == LT_OK)
        t->status = st;
}

// FREE does nothing, and GATHER and REDUCE of one rank neither.
static bool is_silent(lt_action_kind kind)
{
    return kind == LT_ACT_FREE || kind == LT_ACT_GATHER || kind == LT_ACT_REDUCE;
}

static void on_action(void *ctx, const lt_program *p, int32_t number, lt_stream *s, bool after)
{
    lt_trace *t = ctx;
    const lt_action *a = lt_action_at(p, number);
    if (after)
        keep(t, close_span(t, &t->action, s));
    if (after || !t->on || t->spans.n >= LT_TRACE_MOST || is_silent(a->kind))
        return;
    const lt_trace_span span = {.program = p,
                                .subject = subject_of(p, a),
                                .kind = a->kind,
                                .queue = a->queue,
                                .flops = a->flops,
                                .bytes = a->bytes};
    keep(t, open_span(t, &span, s, &t->action));
}

// How often a kernel does the forward's work, in halves: attention's five products for two.
static int halves(const lt_trace_span *span)
{
    if (span->pass == LT_FORWARD)
        return 2;
    if (span->op->flags & LT_OP_MUST_SAVE)
        return 5;
    const bool yields = span->op->flags & LT_OP_YIELDS_IN_BACKWARD;
    return 2 * (yields + span->input + span->weight);
}

static lt_trace_span kernel_span(const lt_trace *t, const lt_op_args *a, lt_pass pass)
{
    lt_trace_span span = t->action == LT_NONE ? (lt_trace_span){.subject = ""}
                                              : LT_AT(&t->spans, lt_trace_span, t->action);
    span.op = a->def;
    span.pass = pass;
    span.input = pass == LT_BACKWARD && a->din[0];
    span.weight = pass == LT_BACKWARD && a->din[1];
    span.flops = span.bytes = 0;
    span.begin = span.end = NULL;
    for (int i = 0; i < 2; i++) {
        // A backward kernel is not given what it doesn't read; a gradient has the shape.
        const lt_tensor *x = a->in[i] ? a->in[i] : a->din[i] ? a->din[i] : i ? NULL : a->dout[0];
        if (x)
            span.in[i] = lt_tensor_like(x);
    }
    if (a->def->flops && a->in[0] && a->in[1])
        span.flops = a->def->flops(a) * halves(&span) / 2;
    return span;
}

static void on_kernel(void *ctx, const lt_op_args *a, lt_pass pass, bool after)
{
    lt_trace *t = ctx;
    if (after)
        keep(t, close_span(t, &t->kernel, a->run->stream));
    if (after || !t->on || t->spans.n >= LT_TRACE_MOST)
        return;
    const lt_trace_span span = kernel_span(t, a, pass);
    keep(t, open_span(t, &span, a->run->stream, &t->kernel));
}

lt_watch lt_trace_watch(lt_trace *t)
{
    return (lt_watch){.ctx = t, .action = on_action, .kernel = on_kernel};
}

void lt_trace_start(lt_trace *t)
{
    lt_trace_clear(t);
    t->on = true;
}

void lt_trace_clear(lt_trace *t)
{
    lt_vec_clear(&t->spans);
    t->n_timers = 0;
    t->origin = NULL;
    t->action = t->kernel = LT_NONE;
    t->on = false;
}

static lt_status set_time(const lt_trace *t, lt_event *event, double *seconds)
{
    if (event && t->origin)
        return t->device->timer_seconds(t->device, t->origin, event, seconds);
    *seconds -= t->origin_s;
    return LT_OK;
}

lt_status lt_trace_stop(lt_trace *t)
{
    if (!t->on)
        return LT_OK;
    t->on = false;
    LT_TRY(t->status);
    for (int64_t i = 0; i < t->spans.n; i++) {
        lt_trace_span *span = &LT_AT(&t->spans, lt_trace_span, i);
        LT_TRY(set_time(t, span->begin, &span->begin_s));
        LT_TRY(set_time(t, span->end, &span->end_s));
    }
    return LT_OK;
}

const lt_vec *lt_trace_spans(const lt_trace *t)
{
    return &t->spans;
}

/* ---- sums ---- */

static bool same_kernel(const lt_trace_span *a, const lt_trace_span *b)
{
    return a->op == b->op && a->pass == b->pass && a->weight == b->weight && a->input == b->input &&
           lt_same_shape(&a->in[0], &b->in[0]) && lt_same_shape(&a->in[1], &b->in[1]);
}

static bool same_action(const lt_trace_span *a, const lt_trace_span *b)
{
    return a->kind == b->kind && a->subject == b->subject;
}

static lt_status add_up(const lt_trace *t, bool kernels, lt_vec *sums)
{
    for (int64_t i = 0; i < t->spans.n; i++) {
        const lt_trace_span *span = &LT_AT(&t->spans, lt_trace_span, i);
        lt_trace_sum *sum = NULL;
        if ((span->op != NULL) != kernels)
            continue;
        for (int64_t k = 0; !sum && k < sums->n; k++) {
            lt_trace_sum *old = &LT_AT(sums, lt_trace_sum, k);
            if (kernels ? same_kernel(old->first, span) : same_action(old->first, span))
                sum = old;
        }
        if (!sum) {
            const lt_trace_sum fresh = {.first = span};
            LT_TRY(lt_vec_push(sums, &fresh));
            sum = &LT_AT(sums, lt_trace_sum, sums->n - 1);
        }
        sum->calls++;
        sum->seconds += span->end_s - span->begin_s;
        sum->flops += (double)span->flops;
    }
    return LT_OK;
}

static int dearest_first(const void *x, const void *y)
{
    const lt_trace_sum *a = x, *b = y;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

lt_status lt_trace_by_kernel(const lt_trace *t, lt_vec *sums)
{
    LT_TRY(add_up(t, true, sums));
    qsort(sums->data, (size_t)sums->n, sizeof(lt_trace_sum), dearest_first);
    return LT_OK;
}

lt_status lt_trace_by_action(const lt_trace *t, lt_vec *sums)
{
    return add_up(t, false, sums);
}

typedef struct interval {
    double begin, end;
} interval;

static int earlier_first(const void *x, const void *y)
{
    const interval *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

// The length of a union of intervals.
static double covered(interval *all, int64_t n)
{
    double sum = 0.0, end = 0.0;
    qsort(all, (size_t)n, sizeof *all, earlier_first);
    for (int64_t i = 0; i < n; i++) {
        const double from = i > 0 && all[i].begin < end ? end : all[i].begin;
        if (all[i].end > from)
            sum += all[i].end - from;
        end = i == 0 || all[i].end > end ? all[i].end : end;
    }
    return sum;
}

lt_status lt_trace_busy(const lt_trace *t, lt_trace_share *out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)t->spans.n * sizeof(interval), "times of kernels"));
    interval *all = memory;
    int64_t n = 0;
    double begin = 0.0, end = 0.0;
    for (int64_t i = 0; i < t->spans.n; i++) {
        const lt_trace_span *s = &LT_AT(&t->spans, lt_trace_span, i);
        begin = i == 0 || s->begin_s < begin ? s->begin_s : begin;
        end = i == 0 || s->end_s > end ? s->end_s : end;
        if (s->op || s->kind == LT_ACT_COPY)
            all[n++] = (interval){s->begin_s, s->end_s};
    }
    *out = (lt_trace_share){.all = end - begin, .computing = covered(all, n)};
    lt_mem_free(memory);
    return LT_OK;
}
