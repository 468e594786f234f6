// SPDX-License-Identifier: Apache-2.0
// Actions, accesses and buffers of a program under construction.
#include "plan/maker.h"

lt_status lt_make_buffer(lt_maker *k, lt_buffer_kind kind, int32_t a, int32_t b, int64_t bytes,
                         int32_t *out)
{
    const lt_buffer buffer = {.kind = kind, .a = a, .b = b, .bytes = bytes, .begin = -1, .end = -1};
    LT_TRY(lt_vec_push(&k->p->buffers, &buffer));
    *out = lt_int(k->p->buffers.n - 1);
    return LT_OK;
}

lt_status lt_make_action(lt_maker *k, lt_action_kind kind, int32_t subject, lt_queue queue)
{
    const lt_action action = {.kind = kind,
                              .subject = subject,
                              .other = LT_NONE,
                              .queue = queue,
                              .access = lt_int(k->p->accesses.n)};
    return lt_vec_push(&k->p->actions, &action);
}

lt_action *lt_last_action(const lt_maker *k)
{
    return &LT_AT(&k->p->actions, lt_action, k->p->actions.n - 1);
}

// The action begun last touches a buffer. LT_NONE is nothing.
lt_status lt_make_access(lt_maker *k, int32_t buffer, bool write)
{
    if (buffer == LT_NONE)
        return LT_OK;
    lt_action *a = lt_last_action(k);
    for (int32_t i = 0; i < a->n_access; i++) {
        lt_access *old = &LT_AT(&k->p->accesses, lt_access, a->access + i);
        if (old->buffer == buffer) {
            old->write = old->write || write;
            return LT_OK;
        }
    }
    const lt_access access = {buffer, write};
    LT_TRY(lt_vec_push(&k->p->accesses, &access));
    lt_last_action(k)->n_access++;
    lt_buffer *b = &LT_AT(&k->p->buffers, lt_buffer, buffer);
    const int32_t at = lt_int(k->p->actions.n - 1);
    if (b->begin < 0)
        b->begin = at;
    b->end = at;
    return LT_OK;
}

lt_status lt_make_param_accesses(lt_maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    for (int32_t i = 0; i < b->kind->n_params; i++)
        LT_TRY(lt_make_access(k, k->full[k->p->opts.units->of_param[b->params[i]]], false));
    return LT_OK;
}

lt_status lt_make_batch_accesses(lt_maker *k, int32_t block)
{
    const lt_graph *g = &k->p->compiled[block]->graph;
    for (int64_t v = 0; v < g->values.n; v++) {
        const lt_value *value = &LT_AT(&g->values, lt_value, v);
        if (value->kind == LT_VALUE_BATCH)
            LT_TRY(lt_make_access(k, k->p->batch_buffer[value->index], false));
    }
    return LT_OK;
}

lt_status lt_make_work(lt_maker *k, int32_t block, int64_t bytes)
{
    int32_t buffer = LT_NONE;
    LT_TRY(lt_make_buffer(k, LT_BUF_WORK, block, 0, bytes, &buffer));
    return lt_make_access(k, buffer, true);
}

lt_status lt_make_edge(lt_maker *k, int32_t block, int32_t output)
{
    const lt_graph *g = &k->p->compiled[block]->graph;
    const size_t bytes = lt_tensor_bytes(&LT_AT(&g->values, lt_value, g->edge_out[output]).tensor);
    return lt_make_buffer(k, LT_BUF_EDGE, block, output, (int64_t)bytes,
                          &k->p->edge_buffer[block * LT_MAX_OUT + output]);
}

static lt_status copy_out(lt_maker *k, int32_t block, int32_t output, int64_t *place)
{
    int32_t result = LT_NONE;
    lt_program *p = k->p;
    const int32_t edge = *lt_edge_buffer(p, (lt_edge){block, output});
    const int64_t bytes = LT_AT(&p->buffers, lt_buffer, edge).bytes;
    *place = p->results.bytes;
    p->results.bytes += lt_round_up(bytes, 8);
    LT_TRY(lt_make_buffer(k, LT_BUF_RESULT, block, output, bytes, &result));
    LT_AT(&p->buffers, lt_buffer, result).offset = *place;
    LT_TRY(lt_make_action(k, LT_ACT_COPY, result, LT_QUEUE_D2H));
    lt_last_action(k)->bytes = bytes;
    LT_TRY(lt_make_access(k, edge, false));
    return lt_make_access(k, result, true);
}

lt_status lt_make_result(lt_maker *k, int32_t block)
{
    lt_result_places *r = &k->p->results;
    if (block == k->m->next_block)
        return copy_out(k, block, 0, &r->next);
    if (block != k->m->balance_block)
        return copy_out(k, block, 0, &r->first);
    const lt_moe_config *moe = &k->m->config.text.moe;
    const lt_graph *g = &k->p->compiled[block]->graph;
    r->layers = LT_AT(&g->values, lt_value, g->edge_out[2]).tensor.dim[0];
    r->experts = moe->experts;
    LT_TRY(copy_out(k, block, 0, &r->balance));
    LT_TRY(copy_out(k, block, 1, &r->value));
    return copy_out(k, block, 2, &r->table);
}

int64_t lt_unit_elems(const lt_maker *k, int32_t unit, bool trained)
{
    const lt_unit *u = &k->p->opts.units->units[unit];
    int64_t n = 0;
    for (int32_t i = 0; i < u->n_params; i++)
        if (!trained || k->m->params[u->params[i]].trainable)
            n += k->m->params[u->params[i]].n_elems;
    return n;
}

bool lt_unit_trains(const lt_maker *k, int32_t unit)
{
    const lt_unit *u = &k->p->opts.units->units[unit];
    for (int32_t i = 0; i < u->n_params; i++)
        if (k->m->params[u->params[i]].trainable)
            return true;
    return false;
}

int32_t lt_place_in_order(const lt_unit_order *order, int32_t unit)
{
    for (int32_t i = 0; i < order->n; i++)
        if (order->unit[i] == unit)
            return i;
    return order->n;
}

// From the shards into a buffer of its own; without shards the state is at hand, and stays so.
static lt_status gather(lt_maker *k, int32_t unit)
{
    if (k->gathered[unit])
        return LT_OK;
    k->gathered[unit] = true;
    const bool cut = lt_is_cut(k->p->opts.state->shard);
    LT_TRY(lt_make_action(k, LT_ACT_GATHER, unit, LT_QUEUE_GATHER));
    lt_last_action(k)->bytes =
        lt_unit_elems(k, unit, false) * (int64_t)lt_dtype_bytes(k->p->opts.compute);
    LT_TRY(lt_make_access(k, k->values[unit], !cut));
    if (!cut)
        return LT_OK;
    LT_TRY(lt_make_buffer(k, LT_BUF_UNIT_VALUES, unit, 0, k->full_bytes[unit], &k->full[unit]));
    return lt_make_access(k, k->full[unit], true);
}

lt_status lt_make_gathers(lt_maker *k, int32_t block, const lt_unit_order *order)
{
    const lt_block *b = &k->m->blocks[block];
    int32_t reach = -1;
    for (int32_t i = 0; i < b->kind->n_params; i++) {
        const int32_t unit = k->p->opts.units->of_param[b->params[i]];
        LT_TRY(gather(k, unit));
        reach = (int32_t)lt_max_i64(reach, lt_place_in_order(order, unit));
    }
    for (int32_t i = 1; reach >= 0 && i <= order->ahead && reach + i < order->n; i++)
        LT_TRY(gather(k, order->unit[reach + i]));
    return LT_OK;
}
