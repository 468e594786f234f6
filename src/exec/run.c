// SPDX-License-Identifier: Apache-2.0
// Running a program: each action on its queue, after what it waits for.
#include "exec/exec_impl.h"

#include "base/rng.h"
#include "op/add.h"

#include <string.h>

unsigned char *lt_pass_at(const lt_pass_state *s, int32_t buffer)
{
    if (buffer == LT_NONE)
        return NULL;
    const lt_buffer *b = lt_buffer_at(s->l->program, buffer);
    switch (lt_room_of(s->l->program, b)) {
    case LT_ROOM_STEP:
        return s->e->step + b->offset;
    case LT_ROOM_HOST:
        return s->e->host + b->offset;
    case LT_ROOM_OWN:
        break;
    }
    LT_ASSERT(b->kind == LT_BUF_BATCH);
    return s->batch_at + b->offset;
}

static lt_tensor batch_tensor(const lt_pass_state *s, int v)
{
    lt_tensor t = s->batch->value[v];
    t.host = t.data; // the host's own copy; kernels take counts from it
    t.data = lt_pass_at(s, s->l->program->batch_buffer[v]);
    return t;
}

static lt_tensor *edge(const lt_pass_state *s, lt_edge e)
{
    return &s->edge[e.block * LT_MAX_OUT + e.output];
}

static lt_tensor full_tensor(const lt_param *p, lt_dtype dtype, unsigned char *data)
{
    lt_tensor t = lt_tensor_nd(dtype, p->rank, p->dim);
    t.data = data;
    return t;
}

static unsigned char *in_pool(const lt_pass_state *s, int32_t param)
{
    const lt_program *p = s->l->program;
    return p->grad_offset[param] == LT_NONE
               ? NULL
               : lt_pass_at(s, p->unit_grads[s->e->o.units->of_param[param]]) +
                     p->grad_offset[param];
}

lt_tensor lt_pass_written(const lt_pass_state *s, int32_t param)
{
    const lt_exec *e = s->e;
    if (!s->l->program->pooled)
        return lt_exec_part(e, param, LT_STATE_GRAD);
    return full_tensor(&e->o.model->params[param], lt_state_dtype(e->o.compute, LT_STATE_GRAD),
                       in_pool(s, param));
}

lt_tensor lt_pass_gradient(const lt_pass_state *s, int32_t param)
{
    const lt_exec *e = s->e;
    lt_tensor t = lt_exec_part(e, param, LT_STATE_GRAD);
    if (s->l->program->update_early && s->l->program->host_update)
        return lt_pass_come_down(s, param);
    unsigned char *pool = s->l->program->update_early ? in_pool(s, param) : NULL;
    if (pool) // this rank's piece of it
        t.data = pool + (size_t)lt_exec_owned(e, param).first * lt_dtype_bytes(t.dtype);
    return t;
}

int32_t lt_gathered_buffer(const lt_program *p, const lt_action *a, int32_t unit)
{
    for (int32_t k = 0; k < a->n_access; k++) {
        const int32_t number = LT_AT(&p->accesses, lt_access, a->access + k).buffer;
        const lt_buffer *b = lt_buffer_at(p, number);
        if (b->kind == LT_BUF_UNIT_VALUES && b->a == unit)
            return number;
    }
    return LT_NONE;
}

// What a block reads: the parameter whole.
static lt_tensor value_of(const lt_pass_state *s, const lt_action *a, int32_t param)
{
    const lt_exec *e = s->e;
    const lt_program *p = s->l->program;
    if (!lt_is_cut(lt_exec_shard(e)))
        return lt_exec_part(e, param, LT_STATE_VALUE);
    const int32_t buffer = lt_gathered_buffer(p, a, e->o.units->of_param[param]);
    return full_tensor(&e->o.model->params[param], e->o.compute,
                       lt_pass_at(s, buffer) + p->full_offset[param]);
}

// Tensors of a block's run; sized for the largest block.
typedef struct block_tensors {
    lt_tensor batch[LT_N_BATCH_VALUES], edge_in[LT_MAX_IN], grad_out[LT_MAX_OUT];
    void *edge_out[LT_MAX_OUT], *grad_in[LT_MAX_IN];
    lt_tensor *param, *grad_param; /* [n_params] */
    bool *add;
} block_tensors;

static void bind(const lt_pass_state *s, const lt_action *a, int32_t action, block_tensors *t)
{
    const lt_program *p = s->l->program;
    const int32_t number = a->subject;
    const lt_block *block = &s->e->o.model->blocks[number];
    for (int v = 0; v < LT_N_BATCH_VALUES; v++)
        t->batch[v] = batch_tensor(s, v);
    for (int32_t i = 0; i < block->kind->n_in; i++) {
        t->edge_in[i] = *edge(s, block->inputs[i]);
        if (a->kind == LT_ACT_BACKWARD)
            t->edge_in[i].data = lt_pass_at(s, lt_edge_again(p, block->inputs[i]));
        t->grad_in[i] = lt_pass_at(s, p->grad_buffer[number * LT_MAX_IN + i]);
    }
    for (int32_t i = 0; i < block->kind->n_out; i++) {
        t->edge_out[i] =
            lt_pass_at(s, a->kind == LT_ACT_BACKWARD ? lt_edge_again(p, (lt_edge){number, i})
                                                     : p->edge_buffer[number * LT_MAX_OUT + i]);
        t->grad_out[i] = (lt_tensor){.data = lt_pass_at(s, p->grad_from[number * LT_MAX_OUT + i])};
    }
    for (int32_t i = 0; i < block->kind->n_params; i++) {
        t->param[i] = value_of(s, a, block->params[i]);
        t->grad_param[i] = lt_pass_written(s, block->params[i]);
        t->add[i] = (s->micro > 0 && !p->pooled) || lt_program_grad_add(p, action, i);
    }
}

static lt_status run_bound(lt_pass_state *s, const lt_action *a, int32_t action,
                           const block_tensors *t)
{
    const lt_program *p = s->l->program;
    const lt_block *block = &s->e->o.model->blocks[a->subject];
    const lt_pass pass = a->kind == LT_ACT_FORWARD ? LT_FORWARD : LT_BACKWARD;
    const lt_bindings b = {.block_name = block->name,
                           .device = s->e->o.device,
                           .stream = s->e->stream[a->queue],
                           .batch = t->batch,
                           .param = t->param,
                           .edge_in = t->edge_in,
                           .edge_out = t->edge_out,
                           .grad_out = t->grad_out,
                           .grad_in = t->grad_in,
                           .grad_param = t->grad_param,
                           .grad_param_add = t->add,
                           .work = lt_pass_at(s, p->work_buffer[action]),
                           .saved =
                               lt_pass_at(s, pass == LT_BACKWARD ? lt_saved_again(p, a->subject)
                                                                 : p->saved_buffer[a->subject]),
                           .tap = s->e->o.tap,
                           .around = s->e->o.watch.kernel,
                           .around_ctx = s->e->o.watch.ctx};
    lt_tensor out[LT_MAX_OUT] = {0};
    LT_TRY(lt_compiled_run(p->compiled[a->subject], pass, &b, out));
    if (pass == LT_FORWARD || p->compiled[a->subject]->yields)
        for (int32_t i = 0; i < block->kind->n_out; i++)
            s->edge[a->subject * LT_MAX_OUT + i] = out[i];
    return LT_OK;
}

static lt_status run_block(lt_pass_state *s, const lt_action *a, int32_t action)
{
    const int32_t n = s->e->o.model->blocks[a->subject].kind->n_params;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (2 * sizeof(lt_tensor) + sizeof(bool)),
                        "parameters of a block"));
    block_tensors t;
    t.param = memory;
    t.grad_param = t.param + n;
    t.add = (bool *)(t.grad_param + n);
    bind(s, a, action, &t);
    const lt_status st = run_bound(s, a, action, &t);
    lt_mem_free(memory);
    return st;
}

lt_status lt_pass_launch(const lt_pass_state *s, const lt_action *a, lt_op_args *args)
{
    return lt_pass_launch_in(s, a, args, NULL, 0);
}

lt_status lt_pass_launch_in(const lt_pass_state *s, const lt_action *a, lt_op_args *args,
                            void *scratch, size_t bytes)
{
    lt_device *d = lt_doer(s->e, a);
    const lt_run run = {
        .device = d, .stream = s->e->stream[a->queue], .scratch = scratch, .scratch_bytes = bytes};
    const lt_kernel kernel = lt_op_kernel(args->def, d->backend, LT_FORWARD);
    if (!kernel)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s has no kernel for %s", args->def->name, d->name);
    args->run = &run;
    const lt_watch *watch = &s->e->o.watch;
    if (watch->kernel)
        watch->kernel(watch->ctx, args, LT_FORWARD, false);
    const lt_status st = kernel(args);
    if (watch->kernel)
        watch->kernel(watch->ctx, args, LT_FORWARD, true);
    return st;
}

static lt_status run_add(lt_pass_state *s, const lt_action *a)
{
    const lt_buffer *grad = lt_buffer_at(s->l->program, a->subject);
    if (grad->kind == LT_BUF_GRADS)
        return lt_run_host_sum(s, a);
    const lt_tensor *like = edge(s, s->e->o.model->blocks[grad->a].inputs[grad->b]);
    lt_tensor x = *like, y = *like;
    x.data = lt_pass_at(s, a->subject);
    y.data = lt_pass_at(s, a->other);
    lt_op_args args = {.def = &lt_op_add, .in = {&x, &y}, .out = {&x}};
    return lt_pass_launch(s, a, &args);
}

static lt_status run_copy(lt_pass_state *s, const lt_action *a)
{
    lt_exec *e = s->e;
    lt_device *d = lt_doer(e, a);
    lt_stream *stream = e->stream[a->queue];
    const lt_program *p = s->l->program;
    const lt_buffer *b = lt_buffer_at(p, a->subject);
    if (b->kind == LT_BUF_BATCH) {
        const lt_tensor *t = &s->batch->value[b->a];
        return d->copy(d, stream, lt_pass_at(s, a->subject), t->data, lt_tensor_bytes(t),
                       LT_COPY_HOST_TO_DEVICE);
    }
    if (b->kind == LT_BUF_SCALARS)
        return d->copy(d, stream, lt_pass_at(s, a->subject), s->slot, sizeof s->scalars,
                       LT_COPY_HOST_TO_DEVICE);
    unsigned char *results = s->slot + LT_SLOT_RESULTS;
    if (b->a == LT_NONE)
        return d->copy(d, stream, results + s->n_micro * p->results.bytes,
                       lt_pass_at(s, p->norm_buffer), sizeof(double), LT_COPY_DEVICE_TO_HOST);
    const lt_tensor *t = edge(s, (lt_edge){b->a, b->b});
    unsigned char *to = results + s->micro * p->results.bytes + b->offset;
    return d->copy(d, stream, to, t->data, lt_tensor_bytes(t), LT_COPY_DEVICE_TO_HOST);
}

// Of an output as many bytes as this batch has, of saved values all.
static lt_status run_way(lt_pass_state *s, const lt_action *a)
{
    lt_device *d = s->e->o.device;
    const lt_buffer *host = lt_buffer_at(s->l->program, a->other);
    if (host->kind != LT_BUF_HOST)
        return lt_run_state_way(s, a);
    const bool down = a->kind == LT_ACT_OFFLOAD;
    const size_t bytes = host->b == LT_NONE ? (size_t)host->bytes
                                            : lt_tensor_bytes(edge(s, (lt_edge){host->a, host->b}));
    void *here = lt_pass_at(s, a->subject), *there = lt_pass_at(s, a->other);
    return d->copy(d, s->e->stream[a->queue], down ? there : here, down ? here : there, bytes,
                   down ? LT_COPY_DEVICE_TO_HOST : LT_COPY_HOST_TO_DEVICE);
}

static lt_status poison(lt_pass_state *s, lt_queue queue, int32_t buffer)
{
    lt_device *d = s->e->o.device;
    if (!s->e->o.poison || buffer == LT_NONE ||
        (d->backend == LT_CUDA &&
         lt_room_of(s->l->program, lt_buffer_at(s->l->program, buffer)) == LT_ROOM_HOST))
        return LT_OK;
    return d->fill(d, s->e->stream[queue], lt_pass_at(s, buffer), 0xff,
                   (size_t)lt_buffer_at(s->l->program, buffer)->bytes);
}

static lt_status run_kind(lt_pass_state *s, const lt_action *a, int32_t action)
{
    switch (a->kind) {
    case LT_ACT_AGREE:
        return s->agree && s->agree->fn ? s->agree->fn(s->agree->ctx) : LT_OK;
    case LT_ACT_COPY:
        return run_copy(s, a);
    case LT_ACT_GATHER:
        return lt_run_gather(s, a);
    case LT_ACT_REDUCE:
        return lt_run_reduce(s, a);
    case LT_ACT_FORWARD:
    case LT_ACT_BACKWARD:
        LT_TRY(poison(s, a->queue, s->l->program->work_buffer[action]));
        LT_TRY(run_block(s, a, action));
        return poison(s, a->queue, s->l->program->work_buffer[action]);
    case LT_ACT_ADD:
        return run_add(s, a);
    case LT_ACT_NORM:
        return lt_run_norm(s, a);
    case LT_ACT_UPDATE:
        return s->update ? lt_run_update(s, a) : LT_OK;
    case LT_ACT_OFFLOAD:
    case LT_ACT_FETCH:
        return run_way(s, a);
    case LT_ACT_FREE:
        return poison(s, a->queue, a->subject);
    case LT_N_ACTIONS:
        break;
    }
    return LT_FAIL(LT_ERR_INTERNAL, "action %d has no meaning", action);
}

static void note_use(lt_pass_state *s, const lt_action *a)
{
    const lt_program *p = s->l->program;
    for (int32_t k = 0; k < a->n_access; k++) {
        const lt_buffer *b = lt_buffer_at(p, LT_AT(&p->accesses, lt_access, a->access + k).buffer);
        const int64_t end = lt_round_up(b->offset + b->bytes, 256);
        if (lt_room_of(p, b) == LT_ROOM_STEP)
            s->e->step_used = lt_max_i64(s->e->step_used, end);
        if (lt_room_of(p, b) == LT_ROOM_HOST)
            s->e->host_used = lt_max_i64(s->e->host_used, end);
    }
}

static lt_status run_action(lt_pass_state *s, int32_t action)
{
    lt_exec *e = s->e;
    lt_device *d = e->o.device;
    const lt_action *a = lt_action_at(s->l->program, action);
    for (int32_t k = 0; k < a->n_wait; k++) {
        lt_event *event = s->l->events[LT_AT(&s->l->program->waits, int32_t, a->wait + k)];
        if (a->queue == LT_QUEUE_HOST)
            LT_TRY(d->event_sync(d, event));
        else
            LT_TRY(d->stream_wait(d, e->stream[a->queue], event));
    }
    atomic_store(&e->now, lt_action_name(a->kind));
    const double begin = lt_clock_now();
    const lt_watch *watch = &e->o.watch;
    if (watch->action)
        watch->action(watch->ctx, s->l->program, action, e->stream[a->queue], false);
    const lt_status st = run_kind(s, a, action);
    if (watch->action)
        watch->action(watch->ctx, s->l->program, action, e->stream[a->queue], true);
    e->seconds[a->kind] += lt_clock_now() - begin;
    if (st != LT_OK) {
        lt_error_note("action %d (%s)", action, lt_action_name(a->kind));
        return st;
    }
    note_use(s, a);
    if (s->l->events[action] && a->queue != LT_QUEUE_HOST)
        LT_TRY(d->event_record(d, s->l->events[action], e->stream[a->queue]));
    return LT_OK;
}

// All queues wait for all others; but batches that lie apart may come ahead of what uses them.
static lt_status meet(lt_exec *e, bool batch_apart)
{
    lt_device *d = e->o.device;
    for (int q = 0; q < LT_N_QUEUES; q++)
        if (q != LT_QUEUE_HOST)
            LT_TRY(d->event_record(d, e->meet[q], e->stream[q]));
    for (int q = 0; q < LT_N_QUEUES; q++) {
        for (int other = 0; other < LT_N_QUEUES; other++) {
            if (q != LT_QUEUE_HOST && other != LT_QUEUE_HOST && q != other &&
                !(batch_apart && q == LT_QUEUE_H2D))
                LT_TRY(d->stream_wait(d, e->stream[q], e->meet[other]));
        }
    }
    return LT_OK;
}

// Whether everything that the queues and waits put before an action is done.
static bool is_ready(const lt_program *p, const lt_section *sec, const bool *done, int32_t i)
{
    const lt_action *a = lt_action_at(p, i);
    for (int32_t k = i - 1; k >= sec->begin; k--) {
        if (lt_action_at(p, k)->queue == a->queue) {
            if (!done[k - sec->begin])
                return false;
            break;
        }
    }
    for (int32_t k = 0; k < a->n_wait; k++)
        if (!done[LT_AT(&p->waits, int32_t, a->wait + k) - sec->begin])
            return false;
    return true;
}

// For tests: the next action is drawn among those that are ready.
static lt_status run_shuffled(lt_pass_state *s, const lt_section *sec)
{
    const lt_program *p = s->l->program;
    const int32_t n = sec->end - sec->begin;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (sizeof(bool) + sizeof(int32_t)), "order of actions"));
    int32_t *ready = memory;
    bool *done = (bool *)(ready + n);
    lt_status st = LT_OK;
    for (int32_t k = 0; st == LT_OK && k < n; k++) {
        int32_t n_ready = 0;
        for (int32_t i = sec->begin; i < sec->end; i++)
            if (!done[i - sec->begin] && is_ready(p, sec, done, i))
                ready[n_ready++] = i;
        LT_ASSERT(n_ready > 0);
        const int32_t pick =
            (int32_t)(lt_uniform(s->e->o.order_seed, s->e->order_draws++) * n_ready);
        st = run_action(s, ready[pick]);
        done[ready[pick] - sec->begin] = true;
    }
    lt_mem_free(memory);
    return st;
}

static lt_status run_section(lt_pass_state *s, int number)
{
    const lt_section *sec = &s->l->program->section[number];
    LT_TRY(meet(s->e, s->l->program->opts.batch_apart));
    if (s->e->o.order_seed != 0)
        return run_shuffled(s, sec);
    for (int32_t i = sec->begin; i < sec->end; i++)
        LT_TRY(run_action(s, i));
    return LT_OK;
}

static lt_status run_micro(lt_pass_state *s, const lt_batch_view *batch)
{
    lt_batch_view staged;
    LT_TRY(lt_stage_batch(s->e, s->l->program, batch, &staged));
    s->batch = &staged;
    s->batch_at = s->e->stage[s->e->n_staged % LT_N_STAGES].device;
    const lt_status st = run_section(s, LT_SECTION_MICRO);
    s->batch = NULL;
    return st == LT_OK ? lt_unstage(s->e) : st;
}

lt_status lt_run_program(lt_pass_state *s, const lt_batch_view *batches)
{
    lt_device *d = s->e->o.device;
    memcpy(s->slot, s->scalars, sizeof s->scalars);
    if (s->e->o.poison)
        LT_TRY(
            d->fill(d, s->e->stream[LT_QUEUE_COMPUTE], s->e->step, 0xff, (size_t)s->e->step_bytes));
    LT_TRY(run_section(s, LT_SECTION_PROLOGUE));
    for (s->micro = 0; s->micro < s->n_micro; s->micro++)
        LT_TRY(run_micro(s, &batches[s->micro]));
    return run_section(s, LT_SECTION_EPILOGUE);
}

lt_status lt_exec_sync(lt_exec *e)
{
    for (int q = 0; q < LT_N_QUEUES; q++)
        if (e->stream[q])
            LT_TRY(e->o.device->stream_sync(e->o.device, e->stream[q]));
    return LT_OK;
}
