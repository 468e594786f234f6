// SPDX-License-Identifier: Apache-2.0
// The backward half of a step, and the update: where gradients meet, when a unit's are complete.
#include "plan/compile_blocks.h"
#include "plan/maker.h"
#include "plan/muon.h"

// The gradients that consumers gave an output meet in the first of them, in the order in which they
// were made.
static lt_status meet(lt_maker *k, int32_t block, int32_t output)
{
    lt_program *p = k->p;
    int32_t sum = LT_NONE;
    for (int32_t c = k->m->n_blocks - 1; c > block; c--) {
        for (int32_t i = 0; lt_program_uses(p, c) && i < k->m->blocks[c].kind->n_in; i++) {
            const lt_edge e = k->m->blocks[c].inputs[i];
            const int32_t part = p->grad_buffer[c * LT_MAX_IN + i];
            if (e.block != block || e.output != output || part == LT_NONE)
                continue;
            if (sum == LT_NONE) {
                sum = part;
                continue;
            }
            LT_TRY(lt_make_action(k, LT_ACT_ADD, sum, LT_QUEUE_COMPUTE));
            lt_last_action(k)->other = part;
            lt_last_action(k)->bytes = 3 * LT_AT(&p->buffers, lt_buffer, sum).bytes;
            LT_TRY(lt_make_access(k, sum, true));
            LT_TRY(lt_make_access(k, part, false));
        }
    }
    p->grad_from[block * LT_MAX_OUT + output] = sum;
    return LT_OK;
}

// A weight that was updated already must not be read by a backward that belongs to the old one.
static lt_status check_not_updated(const lt_maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    for (int32_t i = 0; i < b->kind->n_params; i++) {
        const lt_param *param = &k->m->params[b->params[i]];
        if (param->trainable && k->updated[k->p->opts.units->of_param[param->id]])
            return LT_FAIL(LT_ERR_INTERNAL, "%s is updated before the backward of %s has read it",
                           param->name, b->name);
    }
    return LT_OK;
}

static lt_status backward(lt_maker *k, int32_t block, bool *written)
{
    lt_program *p = k->p;
    const lt_block *b = &k->m->blocks[block];
    const lt_compiled *c = p->compiled[block];
    LT_TRY(check_not_updated(k, block));
    for (int32_t i = 0; i < b->kind->n_out; i++)
        LT_TRY(meet(k, block, i));
    LT_TRY(lt_make_action(k, LT_ACT_BACKWARD, block, LT_QUEUE_COMPUTE));
    lt_last_action(k)->flops = c->backward_flops + c->again_flops;
    LT_TRY(lt_make_param_accesses(k, block));
    LT_TRY(lt_make_batch_accesses(k, block));
    for (int32_t i = 0; i < b->kind->n_in; i++)
        if (c->reads_edge_in[i])
            LT_TRY(lt_make_access(k, lt_edge_again(p, b->inputs[i]), false));
    for (int32_t i = 0; i < b->kind->n_out; i++) {
        LT_TRY(lt_make_access(k, p->grad_from[block * LT_MAX_OUT + i], false));
        if (c->yields)
            LT_TRY(lt_make_edge(k, block, i));
        if (c->reads_edge_out[i])
            LT_TRY(lt_make_access(k, lt_edge_again(p, (lt_edge){block, i}), c->yields));
    }
    LT_TRY(lt_make_access(k, lt_saved_again(p, block), false));
    for (int32_t i = 0; i < b->kind->n_in; i++) {
        if (!c->grad_edge_in[i])
            continue;
        // edges are the first values
        const lt_tensor *t = &LT_AT(&c->graph.values, lt_value, i).tensor;
        int32_t *buffer = &p->grad_buffer[block * LT_MAX_IN + i];
        LT_TRY(lt_make_buffer(k, LT_BUF_GRAD, block, i, (int64_t)lt_tensor_bytes(t), buffer));
        LT_TRY(lt_make_access(k, *buffer, true));
    }
    const int64_t row = (p->actions.n - 1) * p->max_params;
    for (int32_t i = 0; i < b->kind->n_params; i++) {
        if (!c->grad_param[i])
            continue;
        p->grad_add[row + i] = written[b->params[i]];
        written[b->params[i]] = true;
        LT_TRY(lt_make_access(k, p->unit_grads[p->opts.units->of_param[b->params[i]]], true));
    }
    return lt_make_work(k, block, c->backward_bytes);
}

// The last backward that writes into a unit is that of the earliest block, in forward order, that
// reads one of its parameters.
static void find_last_writers(lt_maker *k)
{
    for (int32_t b = k->m->n_blocks - 1; b >= 0; b--) {
        for (int32_t i = 0;
             lt_program_uses(k->p, b) && k->needs[b] && i < k->m->blocks[b].kind->n_params; i++)
            if (k->p->compiled[b]->grad_param[i])
                k->writer[k->p->opts.units->of_param[k->m->blocks[b].params[i]]] = b;
    }
}

static lt_queue optimizer_queue(const lt_maker *k)
{
    return k->p->host_update ? LT_QUEUE_HOST : LT_QUEUE_COMPUTE;
}

// The squares of a unit's gradients join the norm. Without clipping it is only measured, so that
// the update need not wait for it.
static lt_status norm_of_unit(lt_maker *k, int32_t unit)
{
    bool first = true;
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++)
        first = first && !k->updated[u];
    LT_TRY(lt_make_action(k, LT_ACT_NORM, unit, optimizer_queue(k)));
    lt_last_action(k)->other = first ? 0 : 1;
    lt_last_action(k)->bytes = lt_buffer_bytes(k, k->grads[unit]);
    LT_TRY(lt_make_access(k, k->p->norm_buffer, true));
    return lt_make_access(k, k->grads[unit], false);
}

// Muon wants whole matrices, one at a time.
static lt_status make_muon_work(lt_maker *k, int32_t unit)
{
    const lt_unit *u = &k->p->opts.units->units[unit];
    int32_t buffer = LT_NONE;
    int64_t most = 0;
    for (int32_t i = 0; i < u->n_params; i++) {
        const lt_param *param = &k->m->params[u->params[i]];
        if (!param->muon || !param->trainable)
            continue;
        most = lt_max_i64(most, lt_muon_place(param, k->p->opts.state->shard).bytes);
        lt_last_action(k)->flops += lt_muon_flops(param, k->p->opts.muon_steps);
    }
    if (most == 0)
        return LT_OK;
    LT_TRY(lt_make_buffer(k, LT_BUF_UNIT_WORK, unit, 0, most, &buffer));
    return lt_make_access(k, buffer, true);
}

// The optimizer on a unit, where gradients and moments are at hand.
static lt_status work_on(lt_maker *k, int32_t unit)
{
    lt_program *p = k->p;
    const int32_t values = p->host_update ? p->host_values[unit] : k->values[unit];
    LT_TRY(lt_make_action(k, LT_ACT_UPDATE, unit, optimizer_queue(k)));
    lt_last_action(k)->bytes = 2 * lt_buffer_bytes(k, k->values[unit]) + // read and written
                               lt_unit_part_bytes(k, unit, LT_STATE_M) + // gradients have the size
                               2 * lt_buffer_bytes(k, k->moments[unit]);
    LT_TRY(lt_make_access(k, values, true));
    LT_TRY(lt_make_access(k, k->grads[unit], false));
    LT_TRY(lt_make_access(k, k->moments[unit], true));
    LT_TRY(lt_make_access(k, p->unit_moments[unit], true));
    LT_TRY(lt_make_access(k, p->scalars_buffer, false));
    LT_TRY(make_muon_work(k, unit));
    k->updated[unit] = true;
    return LT_OK;
}

// What an update wants to have near.
static lt_status bring(lt_maker *k, int32_t unit)
{
    if (k->p->host_update)
        return lt_make_values_down(k, unit);
    return k->p->opts.state->home == LT_HOME_SWAP ? lt_make_moments_up(k, unit) : LT_OK;
}

static lt_status take_back(lt_maker *k, int32_t unit)
{
    if (k->p->host_update)
        return lt_make_values_up(k, unit);
    return k->p->opts.state->home == LT_HOME_SWAP ? lt_make_moments_down(k, unit) : LT_OK;
}

static lt_status update(lt_maker *k, int32_t unit)
{
    LT_TRY(bring(k, unit));
    LT_TRY(work_on(k, unit));
    return take_back(k, unit);
}

static lt_status reduce_after(lt_maker *k, int32_t block)
{
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++) {
        if (k->writer[u] != block || !lt_unit_trains(k, u))
            continue;
        LT_TRY(lt_make_action(k, LT_ACT_REDUCE, u, LT_QUEUE_REDUCE));
        lt_last_action(k)->bytes =
            lt_unit_elems(k, u, true) *
            (int64_t)lt_dtype_bytes(lt_state_dtype(k->p->opts.compute, LT_STATE_GRAD));
        LT_TRY(lt_make_access(k, k->p->unit_grads[u], true));
        if (k->p->host_update)
            LT_TRY(lt_make_gradients_down(k, u));
        else
            LT_TRY(lt_make_access(k, k->grads[u], true)); // where it adds up over micro-batches
        if (k->p->update_early) {
            LT_TRY(norm_of_unit(k, u));
            LT_TRY(update(k, u));
        }
    }
    return LT_OK;
}

// Moments that an early update will want come up while the backward before it works.
static lt_status bring_moments(lt_maker *k, int32_t block)
{
    if (!k->p->update_early || k->p->opts.state->home != LT_HOME_SWAP)
        return LT_OK;
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++)
        if (k->writer[u] == block && lt_unit_trains(k, u))
            LT_TRY(lt_make_moments_up(k, u));
    return LT_OK;
}

static bool runs_backward(const lt_maker *k, int32_t block)
{
    return lt_program_uses(k->p, block) &&
           (k->needs[block] || k->m->blocks[block].role == LT_BLOCK_LOSS);
}

// What the next backward reads is asked for before this one's gradients are sent away: they may
// share a wire.
static lt_status gather_next(lt_maker *k, int32_t block)
{
    int32_t next = block - 1;
    while (next >= 0 && !runs_backward(k, next))
        next--;
    return next < 0 ? LT_OK : lt_make_gathers(k, next, &k->backward);
}

// The root unit stays: the backward begins with it.
static void give_up_gathered(lt_maker *k)
{
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++)
        if (*k->p->opts.units->units[u].name != 0)
            k->gathered[u] = false;
}

lt_status lt_make_backward(lt_maker *k)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->m->n_params * sizeof(bool), "written gradients"));
    bool *written = memory;
    lt_status st = LT_OK;
    find_last_writers(k);
    if (k->p->opts.reshard_after_forward)
        give_up_gathered(k);
    for (int32_t b = k->m->n_blocks - 1; st == LT_OK && b >= 0; b--) {
        if (!runs_backward(k, b))
            continue;
        st = lt_make_gathers(k, b, &k->backward);
        if (st == LT_OK)
            st = lt_make_fetches(k, b);
        if (st == LT_OK)
            st = bring_moments(k, b);
        if (st == LT_OK)
            st = backward(k, b, written);
        if (st == LT_OK && k->m->blocks[b].role == LT_BLOCK_LOSS)
            st = lt_make_result(k, b);
        if (st == LT_OK)
            st = gather_next(k, b);
        if (st == LT_OK)
            st = reduce_after(k, b);
    }
    for (int32_t i = 0; st == LT_OK && i < k->m->n_params; i++) {
        if (k->m->params[i].trainable && !written[i]) {
            st = LT_FAIL(LT_ERR_INTERNAL,
                         "parameter %s is trainable, but no block's backward writes its gradient",
                         k->m->params[i].name);
        }
    }
    lt_mem_free(memory);
    return st;
}

// The next unit's way begins before this one's work.
static lt_status update_rest(lt_maker *k)
{
    int32_t now = LT_NONE;
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++) {
        if (!lt_unit_trains(k, u) || k->updated[u])
            continue;
        LT_TRY(bring(k, u));
        if (now != LT_NONE) {
            LT_TRY(work_on(k, now));
            LT_TRY(take_back(k, now));
        }
        now = u;
    }
    if (now == LT_NONE)
        return LT_OK;
    LT_TRY(work_on(k, now));
    return take_back(k, now);
}

lt_status lt_make_update(lt_maker *k)
{
    lt_program *p = k->p;
    if (p->opts.mode != LT_MODE_TRAIN)
        return LT_OK;
    LT_TRY(lt_make_action(k, LT_ACT_NORM, LT_NONE, optimizer_queue(k)));
    LT_TRY(lt_make_access(k, p->norm_buffer, true));
    LT_TRY(lt_make_access(k, p->scalars_buffer, true));
    for (int32_t u = 0; u < p->opts.units->n_units; u++)
        if (lt_unit_trains(k, u) && !k->updated[u])
            LT_TRY(lt_make_access(k, k->grads[u], false));
    LT_TRY(update_rest(k));
    int32_t result = LT_NONE;
    LT_TRY(lt_make_buffer(k, LT_BUF_RESULT, LT_NONE, 0, (int64_t)sizeof(double), &result));
    LT_TRY(lt_make_action(k, LT_ACT_COPY, result, p->host_update ? LT_QUEUE_HOST : LT_QUEUE_D2H));
    lt_last_action(k)->bytes = (int64_t)sizeof(double);
    LT_TRY(lt_make_access(k, p->norm_buffer, false));
    return lt_make_access(k, result, true);
}
