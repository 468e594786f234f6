// SPDX-License-Identifier: Apache-2.0
// The actions NORM and UPDATE. Parameters of a unit that lie behind one another in every part of
// the state are worked on as one: a layer is a kernel, not a dozen.
#include "exec/exec_impl.h"
#include "op/clip.h"

static const int64_t most_at_once = INT64_C(1) << 30; // elements of one kernel

// What AdamW reads and writes of a parameter, or of several as one.
typedef struct parts {
    lt_tensor grad, value, m, v, low; // low.data NULL: the master is not split
    double lr_scale;
} parts;

static parts parts_of(const lt_pass_state *s, int32_t param)
{
    const lt_exec *e = s->e;
    return (parts){.grad = lt_pass_gradient(s, param),
                   .value = lt_pass_state_part(s, param, LT_STATE_VALUE),
                   .m = lt_pass_state_part(s, param, LT_STATE_M),
                   .v = lt_pass_state_part(s, param, LT_STATE_V),
                   .low = lt_pass_state_part(s, param, LT_STATE_LOW),
                   .lr_scale = e->lr_scale[param]};
}

static bool follows(const lt_tensor *a, const lt_tensor *b)
{
    return !a->data || (unsigned char *)a->data + lt_tensor_bytes(a) == (unsigned char *)b->data;
}

static lt_tensor join(const lt_tensor *a, const lt_tensor *b)
{
    lt_tensor t = lt_tensor_1d(a->dtype, lt_n_elems(a) + lt_n_elems(b));
    t.data = a->data;
    return t;
}

static bool join_parts(parts *a, const parts *b)
{
    if (!b->grad.data || !b->v.data || a->lr_scale != b->lr_scale || !follows(&a->grad, &b->grad) ||
        !follows(&a->value, &b->value) || !follows(&a->m, &b->m) || !follows(&a->v, &b->v) ||
        !follows(&a->low, &b->low) || lt_n_elems(&a->grad) + lt_n_elems(&b->grad) > most_at_once)
        return false;
    *a = (parts){.grad = join(&a->grad, &b->grad),
                 .value = join(&a->value, &b->value),
                 .m = join(&a->m, &b->m),
                 .v = join(&a->v, &b->v),
                 .low = join(&a->low, &b->low),
                 .lr_scale = a->lr_scale};
    return true;
}

static lt_status update(const lt_pass_state *s, const lt_action *a, parts *p)
{
    lt_tensor scalars = lt_tensor_1d(LT_F64, LT_N_SCALARS);
    scalars.data = lt_pass_at(s, s->l->program->scalars_buffer);
    lt_adamw_attr attr = s->e->o.adamw;
    attr.lr_scale = p->lr_scale;
    lt_op_args args = {.def = &lt_op_adamw,
                       .attr = &attr,
                       .in = {&p->grad, &scalars},
                       .out = {&p->value, &p->m, &p->v, p->low.data ? &p->low : NULL}};
    return lt_pass_launch(s, a, &args);
}

lt_status lt_run_update(lt_pass_state *s, const lt_action *a)
{
    const lt_unit *unit = &s->e->o.units->units[a->subject];
    for (int32_t k = 0; k < unit->n_params;) {
        const int32_t param = unit->params[k++];
        parts p = parts_of(s, param);
        if (!p.grad.data)
            continue;
        if (s->e->o.model->params[param].muon) {
            LT_TRY(lt_run_muon(s, a, param));
            continue;
        }
        for (; k < unit->n_params; k++) {
            const parts next = parts_of(s, unit->params[k]);
            if (!join_parts(&p, &next))
                break;
        }
        LT_TRY(update(s, a, &p));
    }
    return LT_OK;
}

// Adds the squares of a gradient to the norm, or begins it.
static lt_status add_squares(const lt_pass_state *s, const lt_action *a, lt_tensor *grad,
                             bool first)
{
    lt_tensor norm = lt_tensor_1d(LT_F64, 1);
    norm.data = lt_pass_at(s, s->l->program->norm_buffer);
    lt_op_args args = {
        .def = &lt_op_sum_squares, .in = {grad}, .out = {&norm}, .add = first ? 0 : 1};
    return lt_pass_launch(s, a, &args);
}

// Of a unit that is updated early: nothing depends on the last bits of this norm.
static lt_status run_norm_of_unit(const lt_pass_state *s, const lt_action *a)
{
    const lt_unit *unit = &s->e->o.units->units[a->subject];
    bool first = a->other == 0;
    for (int32_t k = 0; k < unit->n_params;) {
        lt_tensor grad = lt_pass_gradient(s, unit->params[k++]);
        if (!grad.data)
            continue;
        for (; k < unit->n_params; k++) {
            const lt_tensor next = lt_pass_gradient(s, unit->params[k]);
            if (!next.data || !follows(&grad, &next) ||
                lt_n_elems(&grad) + lt_n_elems(&next) > most_at_once)
                break;
            grad = join(&grad, &next);
        }
        LT_TRY(add_squares(s, a, &grad, first));
        first = false;
    }
    return LT_OK;
}

// Of all gradients, parameter by parameter, so that its bits don't depend on units; then the root
// and the clip factor.
lt_status lt_run_norm(lt_pass_state *s, const lt_action *a)
{
    lt_exec *e = s->e;
    if (a->subject != LT_NONE)
        return run_norm_of_unit(s, a);
    const bool early = s->l->program->update_early;
    lt_tensor norm = lt_tensor_1d(LT_F64, 1), scalars = lt_tensor_1d(LT_F64, LT_N_SCALARS);
    norm.data = lt_pass_at(s, s->l->program->norm_buffer);
    scalars.data = lt_pass_at(s, s->l->program->scalars_buffer);
    bool first = !early;
    for (int32_t i = 0; !early && i < e->o.model->n_params; i++) {
        lt_tensor grad = lt_pass_gradient(s, i);
        if (!grad.data)
            continue;
        LT_TRY(add_squares(s, a, &grad, first));
        first = false;
    }
    if (first)
        LT_TRY(
            lt_doer(e, a)->fill(lt_doer(e, a), e->stream[a->queue], norm.data, 0, sizeof(double)));
    if (e->o.ranks) { // each rank has the squares of what it owns; copies are not counted twice
        const lt_pieces cut = {.full = norm.data, .total = 1};
        LT_TRY(lt_link_all_reduce(e->sums, e->stream[a->queue], &cut, 1, LT_F64));
    }
    const lt_clip_attr attr = {.clip = e->o.clip_grad};
    lt_op_args args = {.def = &lt_op_clip, .attr = &attr, .out = {&norm, &scalars}};
    return lt_pass_launch(s, a, &args);
}
