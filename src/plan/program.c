// SPDX-License-Identifier: Apache-2.0
// The program compiler: which actions a step has, in which order, on which queue, and what memory
// each touches.
#include "plan/program.h"

#include "op/adamw.h"
#include "plan/compile_blocks.h"
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

// The program under construction.
typedef struct maker {
    lt_program *p;
    const lt_model *m;
    bool *needs;     /* [n_blocks] */
    int32_t *values; /* [n_units] buffers of the state */
    int32_t *grads, *moments;
    bool *gathered;  /* [n_units] in this micro-batch */
    int32_t *writer; /* [n_units] the block whose backward is the last to write its gradients */
    int32_t *order;  /* units in order of first use */
    int32_t n_order;
} maker;

static lt_status new_buffer(maker *k, lt_buffer_kind kind, int32_t a, int32_t b, int64_t bytes,
                            int32_t *out)
{
    const lt_buffer buffer = {.kind = kind, .a = a, .b = b, .bytes = bytes, .begin = -1, .end = -1};
    LT_TRY(lt_vec_push(&k->p->buffers, &buffer));
    *out = lt_int(k->p->buffers.n - 1);
    return LT_OK;
}

static lt_status begin(maker *k, lt_action_kind kind, int32_t subject, lt_queue queue)
{
    const lt_action action = {.kind = kind,
                              .subject = subject,
                              .other = LT_NONE,
                              .queue = queue,
                              .access = lt_int(k->p->accesses.n)};
    return lt_vec_push(&k->p->actions, &action);
}

static lt_action *last(maker *k)
{
    return &LT_AT(&k->p->actions, lt_action, k->p->actions.n - 1);
}

// The action begun last touches a buffer. LT_NONE is nothing.
static lt_status touch(maker *k, int32_t buffer, bool write)
{
    if (buffer == LT_NONE)
        return LT_OK;
    lt_action *a = last(k);
    for (int32_t i = 0; i < a->n_access; i++) {
        lt_access *old = &LT_AT(&k->p->accesses, lt_access, a->access + i);
        if (old->buffer == buffer) {
            old->write = old->write || write;
            return LT_OK;
        }
    }
    const lt_access access = {buffer, write};
    LT_TRY(lt_vec_push(&k->p->accesses, &access));
    last(k)->n_access++;
    lt_buffer *b = &LT_AT(&k->p->buffers, lt_buffer, buffer);
    const int32_t at = lt_int(k->p->actions.n - 1);
    if (b->begin < 0)
        b->begin = at;
    b->end = at;
    return LT_OK;
}

static lt_status gather(maker *k, int32_t unit)
{
    if (k->gathered[unit])
        return LT_OK;
    k->gathered[unit] = true;
    LT_TRY(begin(k, LT_ACT_GATHER, unit, LT_QUEUE_GATHER));
    last(k)->bytes = LT_AT(&k->p->buffers, lt_buffer, k->values[unit]).bytes;
    return touch(k, k->values[unit], true);
}

static int32_t place_in_order(const maker *k, int32_t unit)
{
    for (int32_t i = 0; i < k->n_order; i++)
        if (k->order[i] == unit)
            return i;
    return k->n_order;
}

// The units of a block, and those that execution reaches next, as many as the YAML asks for.
static lt_status gather_for(maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    int32_t reach = -1;
    for (int32_t i = 0; i < b->kind->n_params; i++) {
        const int32_t unit = k->p->opts.units->of_param[b->params[i]];
        LT_TRY(gather(k, unit));
        reach = (int32_t)lt_max_i64(reach, place_in_order(k, unit));
    }
    for (int32_t i = 1; reach >= 0 && i <= k->p->opts.forward_prefetch && reach + i < k->n_order;
         i++)
        LT_TRY(gather(k, k->order[reach + i]));
    return LT_OK;
}

static lt_status touch_params(maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    for (int32_t i = 0; i < b->kind->n_params; i++)
        LT_TRY(touch(k, k->values[k->p->opts.units->of_param[b->params[i]]], false));
    return LT_OK;
}

static lt_status touch_batch(maker *k, int32_t block)
{
    const lt_graph *g = &k->p->compiled[block]->graph;
    for (int64_t v = 0; v < g->values.n; v++) {
        const lt_value *value = &LT_AT(&g->values, lt_value, v);
        if (value->kind == LT_VALUE_BATCH)
            LT_TRY(touch(k, k->p->batch_buffer[value->index], false));
    }
    return LT_OK;
}

static int32_t *edge_of(const lt_program *p, lt_edge e)
{
    return &p->edge_buffer[e.block * LT_MAX_OUT + e.output];
}

static lt_status work(maker *k, int32_t block, int64_t bytes)
{
    int32_t buffer = LT_NONE;
    LT_TRY(new_buffer(k, LT_BUF_WORK, block, 0, bytes, &buffer));
    return touch(k, buffer, true);
}

static lt_status new_edge(maker *k, int32_t block, int32_t output)
{
    const lt_graph *g = &k->p->compiled[block]->graph;
    const size_t bytes = lt_tensor_bytes(&LT_AT(&g->values, lt_value, g->edge_out[output]).tensor);
    return new_buffer(k, LT_BUF_EDGE, block, output, (int64_t)bytes,
                      &k->p->edge_buffer[block * LT_MAX_OUT + output]);
}

static lt_status forward(maker *k, int32_t block)
{
    lt_program *p = k->p;
    const lt_block *b = &k->m->blocks[block];
    const lt_compiled *c = p->compiled[block];
    LT_TRY(gather_for(k, block));
    LT_TRY(begin(k, LT_ACT_FORWARD, block, LT_QUEUE_COMPUTE));
    last(k)->flops = c->forward_flops;
    LT_TRY(touch_params(k, block));
    LT_TRY(touch_batch(k, block));
    for (int32_t i = 0; i < b->kind->n_in; i++)
        LT_TRY(touch(k, *edge_of(p, b->inputs[i]), false));
    for (int32_t i = 0; i < b->kind->n_out; i++) {
        LT_TRY(new_edge(k, block, i));
        LT_TRY(touch(k, p->edge_buffer[block * LT_MAX_OUT + i], true));
    }
    if (k->needs[block] && c->saved_bytes > 0) {
        LT_TRY(new_buffer(k, LT_BUF_SAVED, block, 0, c->saved_bytes, &p->saved_buffer[block]));
        LT_TRY(touch(k, p->saved_buffer[block], true));
    }
    return work(k, block, c->forward_bytes);
}

// The gradients that consumers gave an output meet in the first of them, in the order in which they
// were made.
static lt_status meet(maker *k, int32_t block, int32_t output)
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
            LT_TRY(begin(k, LT_ACT_ADD, sum, LT_QUEUE_COMPUTE));
            last(k)->other = part;
            last(k)->bytes = 3 * LT_AT(&p->buffers, lt_buffer, sum).bytes;
            LT_TRY(touch(k, sum, true));
            LT_TRY(touch(k, part, false));
        }
    }
    p->grad_from[block * LT_MAX_OUT + output] = sum;
    return LT_OK;
}

static lt_status backward(maker *k, int32_t block, bool *written)
{
    lt_program *p = k->p;
    const lt_block *b = &k->m->blocks[block];
    const lt_compiled *c = p->compiled[block];
    for (int32_t i = 0; i < b->kind->n_out; i++)
        LT_TRY(meet(k, block, i));
    LT_TRY(begin(k, LT_ACT_BACKWARD, block, LT_QUEUE_COMPUTE));
    last(k)->flops = c->backward_flops + c->again_flops;
    LT_TRY(touch_params(k, block));
    LT_TRY(touch_batch(k, block));
    for (int32_t i = 0; i < b->kind->n_in; i++)
        if (c->reads_edge_in[i])
            LT_TRY(touch(k, *edge_of(p, b->inputs[i]), false));
    for (int32_t i = 0; i < b->kind->n_out; i++) {
        LT_TRY(touch(k, p->grad_from[block * LT_MAX_OUT + i], false));
        if (c->yields)
            LT_TRY(new_edge(k, block, i));
        if (c->reads_edge_out[i])
            LT_TRY(touch(k, p->edge_buffer[block * LT_MAX_OUT + i], c->yields));
    }
    LT_TRY(touch(k, p->saved_buffer[block], false));
    for (int32_t i = 0; i < b->kind->n_in; i++) {
        if (!c->grad_edge_in[i])
            continue;
        // edges are the first values
        const lt_tensor *t = &LT_AT(&c->graph.values, lt_value, i).tensor;
        int32_t *buffer = &p->grad_buffer[block * LT_MAX_IN + i];
        LT_TRY(new_buffer(k, LT_BUF_GRAD, block, i, (int64_t)lt_tensor_bytes(t), buffer));
        LT_TRY(touch(k, *buffer, true));
    }
    const int64_t row = (p->actions.n - 1) * p->max_params;
    for (int32_t i = 0; i < b->kind->n_params; i++) {
        if (!c->grad_param[i])
            continue;
        p->grad_add[row + i] = written[b->params[i]];
        written[b->params[i]] = true;
        LT_TRY(touch(k, k->grads[p->opts.units->of_param[b->params[i]]], true));
    }
    return work(k, block, c->backward_bytes);
}

static bool unit_trains(const maker *k, int32_t unit)
{
    const lt_unit *u = &k->p->opts.units->units[unit];
    for (int32_t i = 0; i < u->n_params; i++)
        if (k->m->params[u->params[i]].trainable)
            return true;
    return false;
}

// The last backward that writes into a unit is that of the earliest block, in forward order, that
// reads one of its parameters.
static void find_last_writers(maker *k)
{
    for (int32_t b = k->m->n_blocks - 1; b >= 0; b--) {
        for (int32_t i = 0;
             lt_program_uses(k->p, b) && k->needs[b] && i < k->m->blocks[b].kind->n_params; i++)
            if (k->p->compiled[b]->grad_param[i])
                k->writer[k->p->opts.units->of_param[k->m->blocks[b].params[i]]] = b;
    }
}

static lt_status reduce_after(maker *k, int32_t block)
{
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++) {
        if (k->writer[u] != block || !unit_trains(k, u))
            continue;
        LT_TRY(begin(k, LT_ACT_REDUCE, u, LT_QUEUE_REDUCE));
        last(k)->bytes = LT_AT(&k->p->buffers, lt_buffer, k->grads[u]).bytes;
        LT_TRY(touch(k, k->grads[u], true));
    }
    return LT_OK;
}

static lt_status copy_in(maker *k, int32_t buffer)
{
    LT_TRY(begin(k, LT_ACT_COPY, buffer, LT_QUEUE_H2D));
    last(k)->bytes = LT_AT(&k->p->buffers, lt_buffer, buffer).bytes;
    return touch(k, buffer, true);
}

static lt_status copy_batch(maker *k)
{
    lt_program *p = k->p;
    for (int32_t b = 0; b < k->m->n_blocks; b++) {
        for (int64_t v = 0; lt_program_uses(p, b) && v < p->compiled[b]->graph.values.n; v++) {
            const lt_value *value = &LT_AT(&p->compiled[b]->graph.values, lt_value, v);
            if (value->kind != LT_VALUE_BATCH || p->batch_buffer[value->index] != LT_NONE)
                continue;
            LT_TRY(new_buffer(k, LT_BUF_BATCH, value->index, 0,
                              (int64_t)lt_tensor_bytes(&value->tensor),
                              &p->batch_buffer[value->index]));
            LT_TRY(copy_in(k, p->batch_buffer[value->index]));
        }
    }
    return LT_OK;
}

static lt_status copy_result(maker *k, int32_t block)
{
    int32_t result = LT_NONE;
    const int32_t edge = *edge_of(k->p, (lt_edge){block, 0});
    const int64_t bytes = LT_AT(&k->p->buffers, lt_buffer, edge).bytes;
    LT_TRY(new_buffer(k, LT_BUF_RESULT, block, 0, bytes, &result));
    LT_TRY(begin(k, LT_ACT_COPY, result, LT_QUEUE_D2H));
    last(k)->bytes = bytes;
    LT_TRY(touch(k, edge, false));
    return touch(k, result, true);
}

static lt_status backward_part(maker *k)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->m->n_params * sizeof(bool), "written gradients"));
    bool *written = memory;
    lt_status st = LT_OK;
    find_last_writers(k);
    for (int32_t b = k->m->n_blocks - 1; st == LT_OK && b >= 0; b--) {
        if (!lt_program_uses(k->p, b) || !(k->needs[b] || k->m->blocks[b].role == LT_BLOCK_LOSS))
            continue;
        st = backward(k, b, written);
        if (st == LT_OK && k->m->blocks[b].role == LT_BLOCK_LOSS)
            st = copy_result(k, b);
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

static lt_status micro(maker *k)
{
    const bool train = k->p->opts.mode == LT_MODE_TRAIN;
    LT_TRY(copy_batch(k));
    for (int32_t b = 0; b < k->m->n_blocks; b++) {
        const lt_block_role role = k->m->blocks[b].role;
        if (!lt_program_uses(k->p, b) || (train && role == LT_BLOCK_LOSS))
            continue;
        LT_TRY(forward(k, b));
        if (role != LT_BLOCK_BODY)
            LT_TRY(copy_result(k, b));
    }
    if (!train)
        return LT_OK;
    if (k->p->opts.reshard_after_forward)
        for (int32_t u = 0; u < k->p->opts.units->n_units; u++)
            k->gathered[u] = false;
    // The loss reads the head, so it is gathered here; other units again only where they were given
    // up.
    for (int32_t b = k->m->n_blocks - 1; b >= 0; b--)
        if (lt_program_uses(k->p, b) && (k->needs[b] || k->m->blocks[b].role == LT_BLOCK_LOSS))
            LT_TRY(gather_for(k, b));
    return backward_part(k);
}

static lt_status epilogue(maker *k)
{
    lt_program *p = k->p;
    if (p->opts.mode != LT_MODE_TRAIN)
        return LT_OK;
    LT_TRY(begin(k, LT_ACT_NORM, LT_NONE, LT_QUEUE_COMPUTE));
    LT_TRY(touch(k, p->norm_buffer, true));
    LT_TRY(touch(k, p->scalars_buffer, true));
    for (int32_t u = 0; u < p->opts.units->n_units; u++)
        if (unit_trains(k, u))
            LT_TRY(touch(k, k->grads[u], false));
    for (int32_t u = 0; u < p->opts.units->n_units; u++) {
        if (!unit_trains(k, u))
            continue;
        LT_TRY(begin(k, LT_ACT_UPDATE, u, LT_QUEUE_COMPUTE));
        last(k)->bytes = LT_AT(&p->buffers, lt_buffer, k->values[u]).bytes +
                         LT_AT(&p->buffers, lt_buffer, k->grads[u]).bytes +
                         LT_AT(&p->buffers, lt_buffer, k->moments[u]).bytes;
        LT_TRY(touch(k, k->values[u], true));
        LT_TRY(touch(k, k->grads[u], false));
        LT_TRY(touch(k, k->moments[u], true));
        LT_TRY(touch(k, p->scalars_buffer, false));
    }
    int32_t result = LT_NONE;
    LT_TRY(new_buffer(k, LT_BUF_RESULT, LT_NONE, 0, (int64_t)sizeof(double), &result));
    LT_TRY(begin(k, LT_ACT_COPY, result, LT_QUEUE_D2H));
    last(k)->bytes = (int64_t)sizeof(double);
    LT_TRY(touch(k, p->norm_buffer, false));
    return touch(k, result, true);
}

static lt_status prologue(maker *k)
{
    lt_program *p = k->p;
    if (p->opts.mode != LT_MODE_TRAIN)
        return LT_OK;
    LT_TRY(begin(k, LT_ACT_AGREE, LT_NONE, LT_QUEUE_HOST));
    LT_TRY(new_buffer(k, LT_BUF_SCALARS, 0, 0, LT_N_SCALARS * (int64_t)sizeof(double),
                      &p->scalars_buffer));
    LT_TRY(new_buffer(k, LT_BUF_NORM, 0, 0, (int64_t)sizeof(double), &p->norm_buffer));
    return copy_in(k, p->scalars_buffer);
}

static int64_t part_bytes(const maker *k, int32_t unit, lt_state_part part)
{
    int64_t bytes = 0;
    const lt_unit *u = &k->p->opts.units->units[unit];
    const int64_t size = (int64_t)lt_dtype_bytes(lt_state_dtype(k->p->opts.compute, part));
    for (int32_t i = 0; i < u->n_params; i++)
        if (lt_state_offset(k->p->opts.state, u->params[i], part) >= 0)
            bytes += k->m->params[u->params[i]].n_elems * size;
    return bytes;
}

static lt_status state_buffers(maker *k)
{
    for (int32_t u = 0; u < k->p->opts.units->n_units; u++) {
        const int64_t moments = part_bytes(k, u, LT_STATE_M) + part_bytes(k, u, LT_STATE_V) +
                                part_bytes(k, u, LT_STATE_LOW);
        LT_TRY(new_buffer(k, LT_BUF_VALUES, u, 0, part_bytes(k, u, LT_STATE_VALUE), &k->values[u]));
        LT_TRY(new_buffer(k, LT_BUF_GRADS, u, 0, part_bytes(k, u, LT_STATE_GRAD), &k->grads[u]));
        LT_TRY(new_buffer(k, LT_BUF_MOMENTS, u, 0, moments, &k->moments[u]));
    }
    for (int32_t b = 0; b < k->m->n_blocks; b++) {
        for (int32_t i = 0; lt_program_uses(k->p, b) && i < k->m->blocks[b].kind->n_params; i++) {
            const int32_t unit = k->p->opts.units->of_param[k->m->blocks[b].params[i]];
            if (place_in_order(k, unit) == k->n_order)
                k->order[k->n_order++] = unit;
        }
    }
    return LT_OK;
}

static lt_status make_sections(maker *k)
{
    static lt_status (*const parts[LT_N_SECTIONS])(maker *) = {prologue, micro, epilogue};
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

static lt_status make_tables(maker *k)
{
    lt_program *p = k->p;
    const int64_t blocks = k->m->n_blocks, units = p->opts.units->n_units;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)blocks * sizeof(lt_compiled *), "program tables"));
    p->compiled = memory;
    for (int32_t b = 0; b < blocks; b++)
        p->max_params = (int32_t)lt_max_i64(p->max_params, k->m->blocks[b].kind->n_params);
    // At most a COPY, FORWARD, BACKWARD and an ADD per input for a block, a few actions per unit,
    // and the ends.
    const int64_t most = blocks * (4 + LT_MAX_IN) + units * 4 + LT_N_BATCH_VALUES + 16;
    LT_TRY(
        lt_mem_alloc(&memory, (size_t)(most * p->max_params) * sizeof(bool), "gradient add flags"));
    p->grad_add = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)blocks * sizeof(bool), "program tables"));
    k->needs = memory;
    LT_TRY(lt_mem_alloc(&memory, (size_t)units * sizeof(bool), "program tables"));
    k->gathered = memory;
    LT_TRY(int_table(&p->edge_buffer, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&p->grad_buffer, blocks * LT_MAX_IN, LT_NONE));
    LT_TRY(int_table(&p->grad_from, blocks * LT_MAX_OUT, LT_NONE));
    LT_TRY(int_table(&p->saved_buffer, blocks, LT_NONE));
    LT_TRY(int_table(&k->values, units, LT_NONE));
    LT_TRY(int_table(&k->grads, units, LT_NONE));
    LT_TRY(int_table(&k->moments, units, LT_NONE));
    LT_TRY(int_table(&k->order, units, LT_NONE));
    LT_TRY(int_table(&k->writer, units, LT_NONE));
    for (int v = 0; v < LT_N_BATCH_VALUES; v++)
        p->batch_buffer[v] = LT_NONE;
    p->scalars_buffer = p->norm_buffer = LT_NONE;
    return LT_OK;
}

static lt_status make(maker *k, const lt_policy *policy)
{
    LT_TRY(make_tables(k));
    if (k->p->opts.mode == LT_MODE_TRAIN)
        lt_model_needs_grad(k->m, k->needs);
    LT_TRY(lt_compile_blocks(k->p, policy, k->needs));
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
    p->actions = LT_VEC_OF(lt_action);
    p->waits = LT_VEC_OF(int32_t);
    p->accesses = LT_VEC_OF(lt_access);
    p->buffers = LT_VEC_OF(lt_buffer);
    p->owned = LT_VEC_OF(lt_compiled *);
    maker k = {.p = p, .m = opts->model};
    const lt_status st = make(&k, opts->policy);
    lt_mem_free(k.needs);
    lt_mem_free(k.gathered);
    lt_mem_free(k.values);
    lt_mem_free(k.grads);
    lt_mem_free(k.moments);
    lt_mem_free(k.order);
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
    lt_mem_free(p->edge_buffer);
    lt_mem_free(p->grad_buffer);
    lt_mem_free(p->grad_from);
    lt_mem_free(p->saved_buffer);
    lt_mem_free(p->work_buffer);
    lt_mem_free(p);
}
