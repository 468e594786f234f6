// SPDX-License-Identifier: Apache-2.0
// The program compiler: which actions a step has, in which order, on which queue, and what memory
// each touches.
#include "plan/program.h"

#include "graph/pack.h"
#include "op/adamw.h"
#include "plan/compile_blocks.h"
#include "plan/maker.h"
#include "plan/memory.h"
#include "plan/waits.h"

const char *lt_action_name(lt_action_kind kind)
{
    static const char *const names[] = {
#define LT_ACTION_NAME(name) #name,
        LT_ACTION_LIST(LT_ACTION_NAME)
#undef LT_ACTION_NAME
    };
    return names[kind];
}

const char *lt_queue_name(lt_queue queue)
{
    static const char *const names[] = {"compute", "gather", "reduce", "h2d", "d2h", "host"};
    return names[queue];
}

static lt_status forward(lt_maker *k, int32_t block)
{
    lt_program *p = k->p;
    const lt_block *b = &k->m->blocks[block];
    const lt_compiled *c = p->compiled[block];
    LT_TRY(lt_make_gathers(k, block, &k->forward));
    LT_TRY(lt_make_offload(k, block));
    LT_TRY(lt_make_action(k, LT_ACT_FORWARD, block, LT_QUEUE_COMPUTE));
    lt_last_action(k)->flops = c->forward_flops;
    LT_TRY(lt_make_param_accesses(k, block));
    LT_TRY(lt_make_batch_accesses(k, block));
    for (int32_t i = 0; i < b->kind->n_in; i++)
        LT_TRY(lt_make_access(k, *lt_edge_buffer(p, b->inputs[i]), false));
    for (int32_t i = 0; i < b->kind->n_out; i++) {
        LT_TRY(lt_make_edge(k, block, i));
        LT_TRY(lt_make_access(k, p->edge_buffer[block * LT_MAX_OUT + i], true));
    }
    if (k->needs[block] && c->saved_bytes > 0) {
        LT_TRY(lt_make_buffer(k, LT_BUF_SAVED, block, 0, c->saved_bytes, &p->saved_buffer[block]));
        LT_TRY(lt_make_access(k, p->saved_buffer[block], true));
    }
    LT_TRY(lt_make_work(k, block, c->forward_bytes));
    return lt_make_offload_saved(k, block);
}

static lt_status copy_in(lt_maker *k, int32_t buffer, lt_queue queue)
{
    LT_TRY(lt_make_action(k, LT_ACT_COPY, buffer, queue));
    lt_last_action(k)->bytes = LT_AT(&k->p->buffers, lt_buffer, buffer).bytes;
    return lt_make_access(k, buffer, true);
}

static lt_status copy_batch(lt_maker *k)
{
    lt_program *p = k->p;
    for (int32_t b = 0; b < k->m->n_blocks; b++) {
        for (int64_t v = 0; lt_program_uses(p, b) && v < p->compiled[b]->graph.values.n; v++) {
            const lt_value *value = &LT_AT(&p->compiled[b]->graph.values, lt_value, v);
            if (value->kind != LT_VALUE_BATCH || p->batch_buffer[value->index] != LT_NONE)
                continue;
            LT_TRY(lt_make_buffer(k, LT_BUF_BATCH, value->index, 0,
                                  (int64_t)lt_tensor_bytes(&value->tensor),
                                  &p->batch_buffer[value->index]));
            LT_TRY(copy_in(k, p->batch_buffer[value->index], LT_QUEUE_H2D));
        }
    }
    return LT_OK;
}

static lt_status micro(lt_maker *k)
{
    const bool train = k->p->opts.mode == LT_MODE_TRAIN;
    LT_TRY(copy_batch(k));
    for (int32_t b = 0; b < k->m->n_blocks; b++) {
        const lt_block_role role = k->m->blocks[b].role;
        if (!lt_program_uses(k->p, b) || (train && role == LT_BLOCK_LOSS))
            continue;
        LT_TRY(forward(k, b));
        if (role == LT_BLOCK_LOSS || role == LT_BLOCK_LOGITS)
            LT_TRY(lt_make_result(k, b));
    }
    if (!train)
        return LT_OK;
    return lt_make_backward(k);
}

static lt_status prologue(lt_maker *k)
{
    lt_program *p = k->p;
    if (p->opts.mode != LT_MODE_TRAIN)
        return LT_OK;
    LT_TRY(lt_make_action(k, LT_ACT_AGREE, LT_NONE, LT_QUEUE_HOST));
    LT_TRY(lt_make_buffer(k, LT_BUF_SCALARS, 0, 0, LT_N_SCALARS * (int64_t)sizeof(double),
                          &p->scalars_buffer));
    LT_TRY(lt_make_buffer(k, LT_BUF_NORM, 0, 0, (int64_t)sizeof(double), &p->norm_buffer));
    // The queue of batches may be a step ahead; the scalars must not be.
    return copy_in(k, p->scalars_buffer,
                   p->host_update        ? LT_QUEUE_HOST
                   : p->opts.batch_apart ? LT_QUEUE_COMPUTE
                                         : LT_QUEUE_H2D);
}

int64_t lt_unit_part_bytes(const lt_maker *k, int32_t unit, lt_state_part part)
{
    int64_t bytes = 0;
    const lt_unit *u = &k->p->opts.units->units[unit];
    const int64_t size = (int64_t)lt_dtype_bytes(lt_state_dtype(k->p->opts.compute, part));
    for (int32_t i = 0; i < u->n_params; i++)
        if (lt_state_offset(k->p->opts.state, u->params[i], part) >= 0)
            bytes += lt_shard_owned(&k->m->params[u->params[i]], k->p->opts.state->shard).n * size;
    return bytes;
}

// Where each gradient lies in its unit's buffer of the step pool, and how large that is.
static int64_t place_gradients(lt_maker *k, int32_t unit)
{
    int64_t bytes = 0;
    const lt_unit *u = &k->p->opts.units->units[unit];
    const int64_t size = (int64_t)lt_dtype_bytes(lt_state_dtype(k->p->opts.compute, LT_STATE_GRAD));
    for (int32_t i = 0; i < u->n_params; i++) {
        const lt_param *param = &k->m->params[u->params[i]];
        if (!param->trainable)
            continue;
        k->p->grad_offset[param->id] = bytes;
        bytes += lt_round_up(lt_shard_room(param, k->p->opts.state->shard) * size, LT_ALIGN);
    }
    return bytes;
}

// Where each gathered parameter lies in its unit's buffer.
static void place_values(lt_maker *k, int32_t unit)
{
    int64_t bytes = 0;
    const lt_unit *u = &k->p->opts.units->units[unit];
    const int64_t size = (int64_t)lt_dtype_bytes(k->p->opts.compute);
    for (int32_t i = 0; i < u->n_params; i++) {
        const lt_param *param = &k->m->params[u->params[i]];
        if (lt_state_offset(k->p->opts.state, param->id, LT_STATE_VALUE) < 0)
            continue;
        k->p->full_offset[param->id] = bytes;
        bytes += lt_round_up(lt_shard_room(param, k->p->opts.state->shard) * size, LT_ALIGN);
    }
    k->full_bytes[unit] = bytes;
}

static lt_status unit_buffers(lt_maker *k, int32_t u)
{
    lt_program *p = k->p;
    const int64_t moments = lt_unit_part_bytes(k, u, LT_STATE_M) +
                            lt_unit_part_bytes(k, u, LT_STATE_V) +
                            lt_unit_part_bytes(k, u, LT_STATE_LOW);
    LT_TRY(lt_make_buffer(k, LT_BUF_VALUES, u, 0, lt_unit_part_bytes(k, u, LT_STATE_VALUE),
                          &k->values[u]));
    LT_TRY(
        lt_make_buffer(k, p->pooled ? LT_BUF_UNIT_GRADS : LT_BUF_GRADS, u, 0,
                       p->pooled ? place_gradients(k, u) : lt_unit_part_bytes(k, u, LT_STATE_GRAD),
                       &p->unit_grads[u]));
    k->grads[u] = p->unit_grads[u];
    if (p->pooled && !p->update_early)
        LT_TRY(lt_make_buffer(k, LT_BUF_GRADS, u, 0, lt_unit_part_bytes(k, u, LT_STATE_GRAD),
                              &k->grads[u]));
    LT_TRY(lt_make_buffer(k, LT_BUF_MOMENTS, u, 0, moments, &k->moments[u]));
    k->full[u] = k->values[u];
    place_values(k, u);
    return LT_OK;
}

static void add_to_order(const lt_maker *k, int32_t block, lt_unit_order *order)
{
    const lt_block *b = &k->m->blocks[block];
    for (int32_t i = 0; lt_program_uses(k->p, block) && i < b->kind->n_params; i++) {
        const int32_t unit = k->p->opts.units->of_param[b->params[i]];
        if (lt_place_in_order(order, unit) == order->n)
            order->unit[order->n++] = unit;
    }
}

static lt_status state_buffers(lt_maker *k)
{
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++)
        LT_TRY(unit_buffers(k, u));
    for (int32_t b = 0; b < k->m->n_blocks; b++)
        add_to_order(k, b, &k->forward);
    for (int32_t b = k->m->n_blocks - 1; b >= 0; b--)
        if (k->needs[b] || k->m->blocks[b].role == LT_BLOCK_LOSS)
            add_to_order(k, b, &k->backward);
    k->forward.ahead = k->p->opts.forward_prefetch;
    k->backward.ahead = k->p->opts.backward_prefetch;
    return LT_OK;
}

static lt_status make_sections(lt_maker *k)
{
    static lt_status (*const parts[LT_N_SECTIONS])(lt_maker *) = {prologue, micro, lt_make_update};
    static const char *const names[LT_N_SECTIONS] = {"prologue", "micro-batch", "epilogue"};
    for (int s = 0; s < LT_N_SECTIONS; s++) {
        k->p->section[s] = (lt_section){names[s], lt_int(k->p->actions.n), 0};
        LT_TRY(parts[s](k));
        k->p->section[s].end = lt_int(k->p->actions.n);
    }
    return LT_OK;
}

static lt_status int_table(int32_t **out, int64_t n, int32_t fill)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * sizeof(int32_t), "program tables"));
    *out = memory;
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = fill;
    return LT_OK;
}

static lt_status make_tables(lt_maker *k)
{
    lt_program *p = k->p;
    const int64_t blocks = k->m->n_blocks, units = p->opts.units->n_units;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)blocks * sizeof(lt_compiled *), "program tables"));
    p->compiled = memory;
    for (int32_t b = 0; b < blocks; b++)
        p->max_params = (int32_t)lt_max_i64(p->max_params, k->m->blocks[b].kind->n_params);
    // At most a COPY, FORWARD, BACKWARD, two ways of input and saved values, and an ADD per input
    // for a block, a few actions per unit, and the ends.
    const int64_t most = blocks * (8 + LT_MAX_IN) + units * 12 + LT_N_BATCH_VALUES + 16;
    LT_TRY(
        lt_mem_alloc(&memory, (size_t)(most * p->max_params) * sizeof(bool), "gradient add flags"));
    p->grad_add = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)blocks * sizeof(bool), "program tables"));
    k->needs = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)blocks * sizeof(bool), "program tables"));
    k->offload = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)units * sizeof(bool), "program tables"));
    k->gathered = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)units * sizeof(bool), "program tables"));
    k->updated = memory;
    LT_TRY(int_table(&p->edge_buffer, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&p->grad_buffer, blocks * LT_MAX_IN, LT_NONE));
    LT_TRY(int_table(&p->grad_from, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&p->saved_buffer, blocks, LT_NONE));
    LT_TRY(int_table(&p->edge_fetched, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&p->saved_fetched, blocks, LT_NONE));
    LT_TRY(int_table(&k->edge_host, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&k->saved_host, blocks, LT_NONE));
    LT_TRY(int_table(&k->values, units, LT_NONE));
    LT_TRY(int_table(&p->unit_grads, units, LT_NONE));
    LT_TRY(int_table(&p->unit_moments, units, LT_NONE));
    LT_TRY(int_table(&p->host_grads, units, LT_NONE));
    LT_TRY(int_table(&p->host_values, units, LT_NONE));
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->m->n_params * sizeof(int64_t), "program tables"));
    p->grad_offset = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->m->n_params * sizeof(int64_t), "program tables"));
    p->full_offset = memory;
    for (int32_t i = 0; i < k->m->n_params; i++)
        p->grad_offset[i] = p->full_offset[i] = LT_NONE;
    LT_TRY(int_table(&k->moments, units, LT_NONE));
    LT_TRY(int_table(&k->grads, units, LT_NONE));
    LT_TRY(int_table(&k->full, units, LT_NONE));
    LT_TRY(int_table(&k->forward.unit, units, LT_NONE));
    LT_TRY(int_table(&k->backward.unit, units, LT_NONE));
    LT_TRY(lt_mem_alloc(&memory, (size_t)units * sizeof(int64_t), "program tables"));
    k->full_bytes = memory;
    LT_TRY(int_table(&k->writer, units, LT_NONE));
    for (int v = 0; v < LT_N_BATCH_VALUES; v++)
        p->batch_buffer[v] = LT_NONE;
    p->scalars_buffer = p->norm_buffer = LT_NONE;
    return LT_OK;
}

static lt_status make(lt_maker *k)
{
    LT_TRY(make_tables(k));
    if (k->p->opts.mode == LT_MODE_TRAIN)
        lt_model_needs_grad(k->m, k->needs);
    LT_TRY(lt_compile_blocks(k->p, k->policy, k->needs));
    lt_choose_offloads(k);
    LT_TRY(state_buffers(k));
    LT_TRY(make_sections(k));
    LT_TRY(lt_program_lay_out(k->p));
    LT_TRY(lt_place_waits(k->p));
    return lt_program_check(k->p);
}

lt_status lt_program_create(const lt_program_opts *opts, lt_program **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_program), "program"));
    lt_program *p = memory;
    p->opts = *opts;
    p->opts.policy = NULL;
    p->results.balance = p->results.next = -1;
    p->update_early = opts->mode == LT_MODE_TRAIN && opts->state->mode == LT_STATE_WITHOUT_GRADS;
    p->host_update = opts->mode == LT_MODE_TRAIN && opts->state->home == LT_HOME_HOST;
    p->pooled = p->update_early || p->host_update || (opts->mode == LT_MODE_TRAIN && opts->reduced);
    p->actions = LT_VEC_OF(lt_action);
    p->waits = LT_VEC_OF(int32_t);
    p->accesses = LT_VEC_OF(lt_access);
    p->buffers = LT_VEC_OF(lt_buffer);
    p->owned = LT_VEC_OF(lt_compiled *);
    lt_maker k = {.p = p, .m = opts->model, .policy = opts->policy};
    const lt_status st = make(&k);
    p->opts.offload = NULL;
    lt_mem_free(k.needs);
    lt_mem_free(k.offload);
    lt_mem_free(k.edge_host);
    lt_mem_free(k.saved_host);
    lt_mem_free(k.gathered);
    lt_mem_free(k.values);
    lt_mem_free(k.updated);
    lt_mem_free(k.moments);
    lt_mem_free(k.grads);
    lt_mem_free(k.full);
    lt_mem_free(k.full_bytes);
    lt_mem_free(k.forward.unit);
    lt_mem_free(k.backward.unit);
    lt_mem_free(k.writer);
    if (st != LT_OK)
        lt_program_destroy(p);
    else
        *out = p;
    return st;
}

void lt_program_destroy(lt_program *p)
{
    if (!p)
        return;
    for (int64_t i = 0; i < p->owned.n; i++)
        lt_compiled_destroy(LT_AT(&p->owned, lt_compiled *, i));
    lt_vec_deinit(&p->owned);
    lt_vec_deinit(&p->actions);
    lt_vec_deinit(&p->waits);
    lt_vec_deinit(&p->accesses);
    lt_vec_deinit(&p->buffers);
    lt_mem_free(p->compiled);
    lt_mem_free(p->grad_add);
    lt_mem_free(p->unit_grads);
    lt_mem_free(p->unit_moments);
    lt_mem_free(p->host_grads);
    lt_mem_free(p->host_values);
    lt_mem_free(p->grad_offset);
    lt_mem_free(p->full_offset);
    lt_mem_free(p->edge_buffer);
    lt_mem_free(p->grad_buffer);
    lt_mem_free(p->grad_from);
    lt_mem_free(p->saved_buffer);
    lt_mem_free(p->edge_fetched);
    lt_mem_free(p->saved_fetched);
    lt_mem_free(p->work_buffer);
    lt_mem_free(p);
}
