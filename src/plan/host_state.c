// SPDX-License-Identifier: Apache-2.0
// A state that lies on the host: gradients go down and parameters come back, or moments come up for
// an update and go back.
#include "plan/maker.h"

static int64_t span_bytes(const lt_maker *k, int32_t unit, lt_state_part part)
{
    return lt_state_span(k->p->opts.state, k->m, &k->p->opts.units->units[unit], part).bytes;
}

// Between a buffer on the device and one on the host.
static lt_status way(lt_maker *k, lt_action_kind kind, int32_t device, int32_t host, int64_t bytes)
{
    const bool down = kind == LT_ACT_OFFLOAD;
    LT_TRY(lt_make_action(k, kind, device, down ? LT_QUEUE_D2H : LT_QUEUE_H2D));
    lt_last_action(k)->other = host;
    lt_last_action(k)->bytes = bytes;
    LT_TRY(lt_make_access(k, device, !down));
    return lt_make_access(k, host, down);
}

// Gradients of a micro-batch go down. They join those of the micro-batches before, or are all there
// are.
lt_status lt_make_gradients_down(lt_maker *k, int32_t unit)
{
    lt_program *p = k->p;
    const int64_t bytes = span_bytes(k, unit, LT_STATE_M); // gradients lie as moments do
    LT_TRY(lt_make_buffer(k, LT_BUF_HOST_GRADS, unit, 0, bytes, &p->host_grads[unit]));
    LT_TRY(way(k, LT_ACT_OFFLOAD, p->unit_grads[unit], p->host_grads[unit], bytes));
    if (p->update_early) {
        k->grads[unit] = p->host_grads[unit];
        return LT_OK;
    }
    LT_TRY(lt_make_action(k, LT_ACT_ADD, k->grads[unit], LT_QUEUE_HOST));
    lt_last_action(k)->other = p->host_grads[unit];
    lt_last_action(k)->bytes = 3 * bytes;
    LT_TRY(lt_make_access(k, k->grads[unit], true));
    return lt_make_access(k, p->host_grads[unit], false);
}

lt_status lt_make_values_down(lt_maker *k, int32_t unit)
{
    lt_program *p = k->p;
    const int64_t bytes = span_bytes(k, unit, LT_STATE_VALUE);
    LT_TRY(lt_make_buffer(k, LT_BUF_HOST_VALUES, unit, 0, bytes, &p->host_values[unit]));
    return way(k, LT_ACT_OFFLOAD, k->values[unit], p->host_values[unit], bytes);
}

lt_status lt_make_values_up(lt_maker *k, int32_t unit)
{
    return way(k, LT_ACT_FETCH, k->values[unit], k->p->host_values[unit],
               span_bytes(k, unit, LT_STATE_VALUE));
}

lt_status lt_make_moments_up(lt_maker *k, int32_t unit)
{
    lt_program *p = k->p;
    const int64_t bytes = span_bytes(k, unit, LT_STATE_M) + span_bytes(k, unit, LT_STATE_V);
    if (p->unit_moments[unit] != LT_NONE)
        return LT_OK;
    LT_TRY(lt_make_buffer(k, LT_BUF_UNIT_MOMENTS, unit, 0, bytes, &p->unit_moments[unit]));
    return way(k, LT_ACT_FETCH, p->unit_moments[unit], k->moments[unit], bytes);
}

lt_status lt_make_moments_down(lt_maker *k, int32_t unit)
{
    return way(k, LT_ACT_OFFLOAD, k->p->unit_moments[unit], k->moments[unit],
               lt_buffer_bytes(k, k->p->unit_moments[unit]));
}
