// SPDX-License-Identifier: Apache-2.0
// The program as text.
#include "plan/program.h"

#include <stdio.h>

lt_buffer_text lt_buffer_name(const lt_program *p, int32_t buffer)
{
    lt_buffer_text out = {0};
    const lt_buffer *b = lt_buffer_at(p, buffer);
    const lt_model *m = p->opts.model;
    const char *block =
        b->kind >= LT_BUF_EDGE && b->kind <= LT_BUF_WORK ? m->blocks[b->a].name : "";
    const bool of_unit = b->kind >= LT_BUF_HOST_GRADS ||
                         (b->kind >= LT_BUF_UNIT_GRADS && b->kind <= LT_BUF_UNIT_WORK);
    const char *unit = of_unit ? p->opts.units->units[b->a].name : "";
    if (of_unit && *unit == 0)
        unit = "the root unit";
    switch (b->kind) {
    case LT_BUF_BATCH:
        (void)snprintf(out.s, sizeof out.s, "batch %s", lt_batch_value_name((lt_batch_value)b->a));
        break;
    case LT_BUF_EDGE:
        (void)snprintf(out.s, sizeof out.s, "output %d of %s", b->b, block);
        break;
    case LT_BUF_GRAD:
        (void)snprintf(out.s, sizeof out.s, "gradient of input %d of %s", b->b, block);
        break;
    case LT_BUF_SAVED:
        (void)snprintf(out.s, sizeof out.s, "saved values of %s", block);
        break;
    case LT_BUF_WORK:
        (void)snprintf(out.s, sizeof out.s, "workspace of %s", block);
        break;
    case LT_BUF_SCALARS:
        (void)snprintf(out.s, sizeof out.s, "step scalars");
        break;
    case LT_BUF_NORM:
        (void)snprintf(out.s, sizeof out.s, "gradient norm");
        break;
    case LT_BUF_RESULT:
        (void)snprintf(out.s, sizeof out.s, "result %s",
                       b->a == LT_NONE ? "gradient norm" : m->blocks[b->a].name);
        break;
    case LT_BUF_HOST:
        (void)snprintf(out.s, sizeof out.s,
                       b->b == LT_NONE ? "saved values of %s on the host"
                                       : "output of %s on the host",
                       m->blocks[b->a].name);
        break;
    case LT_BUF_UNIT_VALUES:
        (void)snprintf(out.s, sizeof out.s, "gathered parameters of %s", unit);
        break;
    case LT_BUF_VALUES:
        (void)snprintf(out.s, sizeof out.s, "parameters of %s", unit);
        break;
    case LT_BUF_GRADS:
    case LT_BUF_UNIT_GRADS:
        (void)snprintf(out.s, sizeof out.s, "gradients of %s", unit);
        break;
    case LT_BUF_UNIT_WORK:
        (void)snprintf(out.s, sizeof out.s, "workspace of the update of %s", unit);
        break;
    case LT_BUF_HOST_GRADS:
        (void)snprintf(out.s, sizeof out.s, "gradients of %s on the host", unit);
        break;
    case LT_BUF_HOST_VALUES:
        (void)snprintf(out.s, sizeof out.s, "parameters of %s on the host", unit);
        break;
    case LT_BUF_UNIT_MOMENTS:
    case LT_BUF_MOMENTS:
        (void)snprintf(out.s, sizeof out.s, "moments of %s", unit);
        break;
    case LT_N_BUFFER_KINDS:
        break;
    }
    return out;
}

static lt_status print_subject(const lt_program *p, const lt_action *a, lt_buf *out)
{
    const lt_model *m = p->opts.model;
    switch (a->kind) {
    case LT_ACT_FORWARD:
    case LT_ACT_BACKWARD:
        return lt_buf_printf(out, " %s", m->blocks[a->subject].name);
    case LT_ACT_NORM:
    case LT_ACT_GATHER:
    case LT_ACT_REDUCE:
    case LT_ACT_UPDATE: {
        if (a->subject == LT_NONE)
            return LT_OK;
        const char *unit = p->opts.units->units[a->subject].name;
        return lt_buf_printf(out, " %s", *unit ? unit : "(root)");
    }
    case LT_ACT_ADD:
        return lt_buf_printf(out, " %s += %s", lt_buffer_name(p, a->subject).s,
                             lt_buffer_name(p, a->other).s);
    case LT_ACT_COPY:
    case LT_ACT_OFFLOAD:
    case LT_ACT_FETCH:
    case LT_ACT_FREE:
        return lt_buf_printf(out, " %s", lt_buffer_name(p, a->subject).s);
    case LT_ACT_AGREE:
    case LT_N_ACTIONS:
        break;
    }
    return LT_OK;
}

static lt_status print_action(const lt_program *p, int32_t i, lt_buf *out)
{
    const lt_action *a = lt_action_at(p, i);
    LT_TRY(
        lt_buf_printf(out, "%5d %-8s %-8s", i, lt_queue_name(a->queue), lt_action_name(a->kind)));
    LT_TRY(print_subject(p, a, out));
    if (a->bytes > 0)
        LT_TRY(lt_buf_printf(out, "  %lld B", (long long)a->bytes));
    if (a->flops > 0)
        LT_TRY(lt_buf_printf(out, "  %.3f GFLOP", (double)a->flops * 1e-9));
    for (int32_t k = 0; k < a->n_wait; k++)
        LT_TRY(lt_buf_printf(out, "%s%d", k ? " " : "  waits ",
                             LT_AT(&p->waits, int32_t, a->wait + k)));
    return lt_buf_text(out, "\n");
}

lt_status lt_program_print(const lt_program *p, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "step pool %lld bytes; ", (long long)p->step_bytes));
    if (p->host_bytes > 0)
        LT_TRY(lt_buf_printf(out, "on the host %lld bytes; ", (long long)p->host_bytes));
    LT_TRY(lt_buf_text(out, "capacity:"));
    for (int e = 0; e < LT_N_EXTENTS; e++)
        LT_TRY(lt_buf_printf(out, " %s %lld", lt_extent_name((lt_extent)e),
                             (long long)p->opts.capacity.n[e]));
    LT_TRY(lt_buf_text(out, "\n"));
    for (int s = 0; s < LT_N_SECTIONS; s++) {
        LT_TRY(lt_buf_printf(out, "%s:\n", p->section[s].name));
        for (int32_t i = p->section[s].begin; i < p->section[s].end; i++)
            LT_TRY(print_action(p, i, out));
    }
    return LT_OK;
}
