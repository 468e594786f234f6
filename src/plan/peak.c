// SPDX-License-Identifier: Apache-2.0
// Adding up what is alive at each action.
#include "plan/peak.h"

#include "graph/pack.h"

const char *lt_buffer_kind_name(lt_buffer_kind kind)
{
    static const char *const names[] = {[LT_BUF_BATCH] = "batch",
                                        [LT_BUF_EDGE] = "block outputs",
                                        [LT_BUF_GRAD] = "gradients of block outputs",
                                        [LT_BUF_SAVED] = "saved values",
                                        [LT_BUF_WORK] = "workspace",
                                        [LT_BUF_UNIT_GRADS] = "gradients of parameters",
                                        [LT_BUF_UNIT_VALUES] = "gathered parameters",
                                        [LT_BUF_UNIT_MOMENTS] = "moments of an update",
                                        [LT_BUF_UNIT_WORK] = "workspace of an update",
                                        [LT_BUF_HOST_GRADS] = "gradients on the host",
                                        [LT_BUF_HOST_VALUES] = "parameters on the host",
                                        [LT_BUF_SCALARS] = "step scalars",
                                        [LT_BUF_NORM] = "gradient norm",
                                        [LT_BUF_RESULT] = "results",
                                        [LT_BUF_HOST] = "values on the host",
                                        [LT_BUF_VALUES] = "parameters",
                                        [LT_BUF_GRADS] = "gradients",
                                        [LT_BUF_MOMENTS] = "moments"};
    return names[kind];
}

static lt_peak alive_at(const lt_program *p, int32_t action)
{
    lt_peak peak = {.action = action};
    for (int64_t b = 0; b < p->buffers.n; b++) {
        const lt_buffer *x = lt_buffer_at(p, b);
        const bool always = x->kind == LT_BUF_SCALARS || x->kind == LT_BUF_NORM;
        if (!lt_in_step_pool(p, x) || x->begin < 0 ||
            !(always || (x->begin <= action && action <= x->end)))
            continue;
        const int64_t bytes = lt_round_up(x->bytes, LT_ALIGN);
        peak.alive += bytes;
        peak.kind[x->kind] += bytes;
    }
    return peak;
}

lt_peak lt_program_peak(const lt_program *p)
{
    lt_peak most = {0};
    for (int32_t i = 0; i < p->actions.n; i++) {
        const lt_peak here = alive_at(p, i);
        if (here.alive > most.alive)
            most = here;
    }
    return most;
}
