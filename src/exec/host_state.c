// SPDX-License-Identifier: Apache-2.0
// The state's part on the host: gradients come down, parameters go down and up, moments up and
// down.
#include "exec/exec_impl.h"
#include "op/add.h"

#include <string.h>

unsigned char *lt_exec_part_memory(const lt_exec *e, lt_state_part part)
{
    return lt_state_on_host(e->layout->home, part) ? e->host_state : e->state;
}

static lt_state_range span_of(const lt_pass_state *s, int32_t unit, lt_state_part part)
{
    return lt_state_span(s->e->layout, s->e->o.model, &s->e->o.units->units[unit], part);
}

// Where a parameter's part lies in a buffer that holds its unit's.
static unsigned char *in_unit(const lt_pass_state *s, int32_t buffer, int32_t param,
                              lt_state_part part)
{
    const int32_t unit = s->e->o.units->of_param[param];
    const int64_t at = lt_state_offset(s->e->layout, param, part);
    return at < 0 ? NULL : lt_pass_at(s, buffer) + (at - span_of(s, unit, part).first);
}

// A gradient on the host, come down just now: it lies as moments do.
lt_tensor lt_pass_come_down(const lt_pass_state *s, int32_t param)
{
    lt_tensor t = lt_exec_part(s->e, param, LT_STATE_M);
    const int32_t buffer = s->l->program->host_grads[s->e->o.units->of_param[param]];
    t.data = buffer == LT_NONE ? NULL : in_unit(s, buffer, param, LT_STATE_M);
    return t;
}

lt_tensor lt_pass_state_part(const lt_pass_state *s, int32_t param, lt_state_part part)
{
    const lt_program *p = s->l->program;
    const int32_t unit = s->e->o.units->of_param[param];
    lt_tensor t = lt_exec_part(s->e, param, part);
    if (!t.data)
        return t;
    if (part == LT_STATE_VALUE && p->host_update)
        t.data = in_unit(s, p->host_values[unit], param, part);
    if ((part == LT_STATE_M || part == LT_STATE_V) && p->unit_moments[unit] != LT_NONE) {
        t.data = in_unit(s, p->unit_moments[unit], param, part);
        if (part == LT_STATE_V) // second moments lie behind the first ones
            t.data = (unsigned char *)t.data + span_of(s, unit, LT_STATE_M).bytes;
    }
    return t;
}

static lt_status copy_way(const lt_pass_state *s, const lt_action *a, void *device, void *host,
                          size_t bytes)
{
    lt_device *d = s->e->o.device;
    const bool down = a->kind == LT_ACT_OFFLOAD;
    return d->copy(d, s->e->stream[a->queue], down ? host : device, down ? device : host, bytes,
                   down ? LT_COPY_DEVICE_TO_HOST : LT_COPY_HOST_TO_DEVICE);
}

// This rank's pieces of a unit's gradients.
static lt_status gradients_down(const lt_pass_state *s, const lt_action *a, int32_t unit)
{
    const lt_unit *u = &s->e->o.units->units[unit];
    for (int32_t k = 0; k < u->n_params; k++) {
        const lt_tensor from = lt_pass_written(s, u->params[k]),
                        to = lt_pass_come_down(s, u->params[k]);
        if (!from.data || !to.data)
            continue;
        const size_t first = (size_t)lt_exec_owned(s->e, u->params[k]).first;
        LT_TRY(copy_way(s, a, (unsigned char *)from.data + first * lt_dtype_bytes(from.dtype),
                        to.data, lt_tensor_bytes(&to)));
    }
    return LT_OK;
}

static lt_status moments_way(const lt_pass_state *s, const lt_action *a, int32_t unit)
{
    const lt_state_range m = span_of(s, unit, LT_STATE_M), v = span_of(s, unit, LT_STATE_V);
    unsigned char *here = lt_pass_at(s, a->subject);
    LT_TRY(copy_way(s, a, here, s->e->host_state + m.first, (size_t)m.bytes));
    return copy_way(s, a, here + m.bytes, s->e->host_state + v.first, (size_t)v.bytes);
}

lt_status lt_run_state_way(lt_pass_state *s, const lt_action *a)
{
    const lt_buffer *here = lt_buffer_at(s->l->program, a->subject);
    if (here->kind == LT_BUF_UNIT_GRADS)
        return gradients_down(s, a, here->a);
    if (here->kind == LT_BUF_UNIT_MOMENTS)
        return moments_way(s, a, here->a);
    const lt_state_range v = span_of(s, here->a, LT_STATE_VALUE);
    return copy_way(s, a, s->e->state + v.first, lt_pass_at(s, a->other), (size_t)v.bytes);
}

// The sum over micro-batches, or its beginning.
lt_status lt_run_host_sum(lt_pass_state *s, const lt_action *a)
{
    const lt_unit *u = &s->e->o.units->units[lt_buffer_at(s->l->program, a->subject)->a];
    for (int32_t k = 0; k < u->n_params; k++) {
        lt_tensor total = lt_exec_part(s->e, u->params[k], LT_STATE_GRAD),
                  part = lt_pass_come_down(s, u->params[k]);
        if (!total.data || !part.data || lt_n_elems(&total) == 0)
            continue;
        if (s->micro == 0) {
            memcpy(total.data, part.data, lt_tensor_bytes(&part));
            continue;
        }
        lt_op_args args = {.def = &lt_op_add, .in = {&total, &part}, .out = {&total}};
        LT_TRY(lt_pass_launch(s, a, &args));
    }
    return LT_OK;
}
