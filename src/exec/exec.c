// SPDX-License-Identifier: Apache-2.0
// The executor's memory: the state, the step pool, the programs by shape.
#include "exec/exec_impl.h"

#include <math.h>
#include <string.h>

lt_tensor lt_exec_part(const lt_exec *e, int32_t param, lt_state_part part)
{
    const lt_param *p = &e->o.model->params[param];
    lt_tensor t = lt_tensor_nd(lt_state_dtype(e->o.compute, part), p->rank, p->dim);
    const int64_t offset = lt_state_offset(e->layout, param, part);
    if (lt_is_cut(lt_exec_shard(e)) && p->rank > 0)
        t.dim[0] =
            p->n_elems > 0 ? lt_shard_owned(p, lt_exec_shard(e)).n * p->dim[0] / p->n_elems : 0;
    t.data = offset < 0 ? NULL : lt_exec_part_memory(e, part) + offset;
    return t;
}

lt_owned lt_exec_owned(const lt_exec *e, int32_t param)
{
    return lt_shard_owned(&e->o.model->params[param], lt_exec_shard(e));
}

bool lt_exec_has(const lt_exec *e, int32_t param, lt_state_part part)
{
    return lt_state_offset(e->layout, param, part) >= 0;
}

// step_bytes: of the step pool, and of batches.
static lt_status check_budget(const lt_exec *e, int64_t step_bytes)
{
    const int64_t limit = e->o.memory_budget > 0 ? e->o.memory_budget : e->o.device->memory_bytes;
    const int64_t want = e->layout->bytes + step_bytes;
    if (limit <= 0 || want <= limit)
        return LT_OK;
    return LT_FAIL(LT_ERR_MEMORY,
                   "the run needs %s on %s (%s of parameters, gradients and moments, %s for a "
                   "step), but may use %s: recompute more "
                   "(features.recompute), shorten data.dataset_param.basic_parameters.cutoff_len, "
                   "or raise lathe.memory_budget",
                   lt_bytes_text(want).s, e->o.device->name, lt_bytes_text(e->layout->bytes).s,
                   lt_bytes_text(step_bytes).s, lt_bytes_text(limit).s);
}

static lt_status copy_options(lt_exec *e)
{
    const lt_model *m = e->o.model;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)m->n_blocks * sizeof(lt_policy), "policies"));
    e->policy = memory;
    for (int32_t b = 0; b < m->n_blocks; b++)
        e->policy[b] = e->o.policy ? e->o.policy[b] : LT_KEEP;
    if (e->o.offload) {
        LT_TRY(lt_mem_alloc(&memory, (size_t)m->n_blocks * sizeof(bool), "policies"));
        e->offload = memory;
        memcpy(e->offload, e->o.offload, (size_t)m->n_blocks * sizeof(bool));
    }
    LT_TRY(lt_mem_alloc(&memory, (size_t)m->n_params * sizeof(double), "learning rate scales"));
    e->lr_scale = memory;
    for (int32_t i = 0; i < m->n_params; i++)
        e->lr_scale[i] = e->o.lr_scale ? e->o.lr_scale[i] : 1.0;
    return LT_OK;
}

static lt_status open_queues(lt_exec *e)
{
    lt_device *d = e->o.device;
    for (int q = 0; q < LT_N_QUEUES; q++) {
        if (q == LT_QUEUE_HOST)
            continue; // the host itself
        LT_TRY(d->stream_create(d, &e->stream[q]));
        LT_TRY(d->event_create(d, &e->meet[q]));
    }
    return LT_OK;
}

// Moments start at zero; poisoned runs see garbage wherever nothing was promised.
static lt_status clear_state(lt_exec *e)
{
    lt_device *d = e->o.device;
    lt_stream *s = e->stream[LT_QUEUE_COMPUTE];
    if (e->o.poison)
        LT_TRY(d->fill(d, s, e->state, 0xff, (size_t)e->layout->bytes));
    if (e->o.poison && e->host_state)
        memset(e->host_state, 0xff, (size_t)e->layout->host_bytes);
    for (int32_t i = 0; i < e->o.model->n_params; i++) {
        for (int part = LT_STATE_M; part <= LT_STATE_V; part++) {
            const lt_tensor t = lt_exec_part(e, i, (lt_state_part)part);
            if (t.data && lt_state_on_host(e->layout->home, (lt_state_part)part))
                memset(t.data, 0, lt_tensor_bytes(&t));
            else if (t.data)
                LT_TRY(d->fill(d, s, t.data, 0, lt_tensor_bytes(&t)));
        }
    }
    return d->stream_sync(d, s);
}

static lt_status open_links(lt_exec *e)
{
    const lt_ranks *r = e->o.ranks;
    if (!r)
        return LT_OK;
    LT_TRY(lt_link_open(e->o.device, r->sharers, e->o.through_host, &e->gathers));
    LT_TRY(lt_link_open(e->o.device, r->sharers, e->o.through_host, &e->sums));
    LT_TRY(lt_link_open(e->o.device, r->replicas, e->o.through_host, &e->copies));
    if (e->o.device->queues && (lt_link_kind_of(e->sums) == LT_LINK_THROUGH_HOST ||
                                lt_link_kind_of(e->copies) == LT_LINK_THROUGH_HOST))
        LT_NOTE(e->o.log, "ranks",
                "several ranks share a GPU: tensors go between them through host memory, slowly");
    return LT_OK;
}

static lt_status open_host_state(lt_exec *e)
{
    lt_device *d = e->o.device;
    void *memory = NULL;
    e->host_device = d;
    if (e->layout->home == LT_HOME_DEVICE)
        return LT_OK;
    if (d->queues)
        LT_TRY(lt_cpu_open(d->pool, &e->host_device));
    LT_TRY(d->alloc_pinned(d, (size_t)e->layout->host_bytes, "the state on the host", &memory));
    e->host_state = memory;
    return LT_OK;
}

static lt_status create(lt_exec *e)
{
    LT_ASSERT(!e->o.update_early || e->o.clip_grad <= 0.0);
    lt_device *d = e->o.device;
    void *memory = NULL;
    const lt_state_mode mode = !e->o.training      ? LT_STATE_VALUES_ONLY
                               : e->o.update_early ? LT_STATE_WITHOUT_GRADS
                                                   : LT_STATE_WHOLE;
    const lt_shard shard = e->o.ranks ? e->o.ranks->shard : (lt_shard){0};
    LT_TRY(copy_options(e));
    LT_TRY(lt_state_layout_create(e->o.model, e->o.units, e->o.compute, mode,
                                  e->o.training ? e->o.home : LT_HOME_DEVICE, shard, &e->layout));
    LT_TRY(check_budget(e, 0));
    LT_TRY(open_queues(e));
    LT_TRY(open_links(e));
    LT_TRY(d->alloc(d, (size_t)e->layout->bytes, "parameters, gradients and moments", &memory));
    e->state = memory;
    LT_TRY(open_host_state(e));
    return clear_state(e);
}

lt_status lt_exec_create(const lt_exec_opts *opts, lt_exec **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_exec), "executor"));
    lt_exec *e = memory;
    e->o = *opts;
    e->programs = LT_VEC_OF(lt_loaded);
    atomic_store(&e->now, "starting");
    const lt_status st = create(e);
    if (st != LT_OK)
        lt_exec_destroy(e);
    else
        *out = e;
    return st;
}

static void unload(lt_exec *e, lt_loaded *l)
{
    for (int64_t i = 0; l->events && i < l->program->actions.n; i++)
        if (l->events[i])
            e->o.device->event_destroy(e->o.device, l->events[i]);
    lt_mem_free(l->events);
    lt_program_destroy(l->program);
}

void lt_exec_destroy(lt_exec *e)
{
    if (!e)
        return;
    lt_device *d = e->o.device;
    if (lt_exec_sync(e) != LT_OK)
        lt_error_clear(); // what was queued is given up; a device in trouble has said so before
    for (int64_t i = 0; i < e->programs.n; i++)
        unload(e, &LT_AT(&e->programs, lt_loaded, i));
    lt_vec_deinit(&e->programs);
    lt_link_close(e->gathers);
    lt_link_close(e->sums);
    lt_link_close(e->copies);
    d->free(d, e->state);
    d->free(d, e->step);
    d->free(d, e->level);
    d->free_pinned(d, e->host_state);
    if (e->host_device != d)
        lt_device_close(e->host_device);
    d->free_pinned(d, e->host);
    d->free_pinned(d, e->result);
    lt_stages_free(e);
    lt_lanes_free(e);
    for (int i = 0; i < LT_EXEC_AHEAD; i++)
        if (e->flight[i].done)
            d->event_destroy(d, e->flight[i].done);
    for (int q = 0; q < LT_N_QUEUES; q++) {
        if (e->meet[q])
            d->event_destroy(d, e->meet[q]);
        if (e->stream[q])
            d->stream_destroy(d, e->stream[q]);
    }
    lt_state_layout_destroy(e->layout);
    lt_mem_free(e->policy);
    lt_mem_free(e->offload);
    lt_mem_free(e->lr_scale);
    lt_mem_free(e);
}

/* ---- programs ---- */

// Events for the actions that somebody on another queue waits for.
static lt_status make_events(lt_exec *e, lt_loaded *l)
{
    const lt_program *p = l->program;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)p->actions.n * sizeof(lt_event *), "events"));
    l->events = memory;
    for (int64_t i = 0; i < p->waits.n; i++) {
        lt_event **event = &l->events[LT_AT(&p->waits, int32_t, i)];
        if (!*event)
            LT_TRY(e->o.device->event_create(e->o.device, event));
    }
    return LT_OK;
}

// The memory of a micro-batch that lies apart, twice.
static lt_status grow_batches(lt_exec *e, int64_t bytes)
{
    lt_device *d = e->o.device;
    if (bytes <= e->batch_bytes)
        return LT_OK;
    LT_TRY(check_budget(e, e->step_bytes + LT_N_STAGES * bytes));
    LT_TRY(lt_exec_sync(e));
    e->batch_bytes = 0;
    for (int i = 0; i < LT_N_STAGES; i++) {
        void *memory = NULL;
        d->free(d, e->stage[i].device);
        e->stage[i].device = NULL;
        LT_TRY(d->alloc(d, (size_t)bytes, "batches", &memory));
        e->stage[i].device = memory;
    }
    e->batch_bytes = bytes;
    return LT_OK;
}

static lt_status grow_host(lt_exec *e, int64_t bytes)
{
    lt_device *d = e->o.device;
    void *memory = NULL;
    if (bytes <= e->host_bytes)
        return LT_OK;
    LT_TRY(lt_exec_sync(e));
    d->free_pinned(d, e->host);
    e->host = NULL;
    e->host_bytes = 0;
    LT_TRY(d->alloc_pinned(d, (size_t)bytes, "the step's pool on the host", &memory));
    e->host = memory;
    e->host_bytes = bytes;
    LT_INFO(e->o.log, "memory", "pool on the host %s", lt_bytes_text(bytes).s);
    return LT_OK;
}

static lt_status grow(lt_exec *e, const lt_program *p)
{
    lt_device *d = e->o.device;
    LT_TRY(grow_batches(e, p->batch_bytes));
    LT_TRY(grow_host(e, p->host_bytes));
    if (p->step_bytes > e->step_bytes) {
        void *memory = NULL;
        LT_TRY(check_budget(e, p->step_bytes + LT_N_STAGES * e->batch_bytes));
        LT_TRY(lt_exec_sync(e));
        d->free(d, e->step); // nothing is alive between steps
        e->step = NULL;
        e->step_bytes = 0;
        LT_TRY(d->alloc(d, (size_t)p->step_bytes, "the step pool", &memory));
        e->step = memory;
        e->step_bytes = p->step_bytes;
        LT_INFO(e->o.log, "memory", "step pool %s, state %s", lt_bytes_text(e->step_bytes).s,
                lt_bytes_text(e->layout->bytes).s);
    }
    return LT_OK;
}

enum { MAX_PROGRAMS = 256 };

static lt_status load(lt_exec *e, lt_program_mode mode, const lt_extents *real, lt_loaded *out)
{
    const lt_extents capacity = lt_extents_bucket(real);
    for (int64_t i = 0; i < e->programs.n; i++) {
        *out = LT_AT(&e->programs, lt_loaded, i);
        if (out->program->opts.mode == mode &&
            lt_extents_equal(&out->program->opts.capacity, &capacity))
            return LT_OK;
    }
    const lt_program_opts opts = {.model = e->o.model,
                                  .units = e->o.units,
                                  .state = e->layout,
                                  .mode = mode,
                                  .compute = e->o.compute,
                                  .backend = e->o.device->backend,
                                  .capacity = capacity,
                                  .policy = e->policy,
                                  .keep_attention = e->o.keep_attention,
                                  .keep_scans = e->o.keep_scans,
                                  .offload = e->offload,
                                  .batch_apart = e->o.device->queues,
                                  .forward_prefetch = e->o.forward_prefetch,
                                  .muon_steps = e->o.muon.steps,
                                  .backward_prefetch = e->o.backward_prefetch,
                                  .reduced = e->o.tree || (e->o.ranks && e->o.ranks->size > 1),
                                  .reshard_after_forward = e->o.reshard_after_forward};
    *out = (lt_loaded){0};
    LT_TRY(lt_program_create(&opts, &out->program));
    if (e->programs.n == MAX_PROGRAMS) { // the oldest goes
        unload(e, &LT_AT(&e->programs, lt_loaded, 0));
        memmove(e->programs.data, &LT_AT(&e->programs, lt_loaded, 1),
                (MAX_PROGRAMS - 1) * sizeof(lt_loaded));
        e->programs.n--;
    }
    lt_status st = make_events(e, out);
    if (st == LT_OK)
        st = lt_vec_push(&e->programs, out);
    if (st != LT_OK)
        unload(e, out);
    return st;
}

lt_status lt_exec_program(lt_exec *e, lt_program_mode mode, const lt_extents *real,
                          const lt_program **out)
{
    lt_loaded l;
    LT_TRY(load(e, mode, real, &l));
    *out = l.program;
    return LT_OK;
}

/* ---- steps ---- */

static unsigned char *slot_of(const lt_exec *e, int64_t number)
{
    return e->result + (size_t)(number % LT_EXEC_AHEAD) * (LT_SLOT_RESULTS + e->result_bytes);
}

// Room for the results of a run in every slot.
static lt_status want_results(lt_exec *e, size_t bytes)
{
    lt_device *d = e->o.device;
    bytes = (size_t)lt_round_up((int64_t)bytes, 8);
    if (bytes <= e->result_bytes)
        return LT_OK;
    if (lt_exec_in_flight(e) > 0)
        return LT_FAIL(LT_ERR_INTERNAL, "a step of more micro-batches was begun before the one "
                                        "before it has ended");
    void *memory = NULL;
    d->free_pinned(d, e->result);
    e->result = NULL;
    e->result_bytes = 0;
    LT_TRY(d->alloc_pinned(d, LT_EXEC_AHEAD * (LT_SLOT_RESULTS + bytes), "results", &memory));
    e->result = memory;
    e->result_bytes = bytes;
    return LT_OK;
}

// Queue a run.
static lt_status queue(lt_exec *e, lt_program_mode mode, const lt_batch_view *batches, int64_t n,
                       lt_pass_state *s)
{
    lt_extents all = batches[0].extents;
    for (int64_t i = 0; i < n; i++) {
        LT_TRY(lt_batch_check(&batches[i], e->o.model->pixel_width, e->o.model->vocab));
        all = lt_extents_max(&all, &batches[i].extents);
    }
    lt_loaded l;
    LT_TRY(load(e, mode, &all, &l));
    LT_TRY(grow(e, l.program));
    s->places = l.program->results;
    LT_TRY(want_results(e, (size_t)(n * s->places.bytes) + sizeof(double)));
    s->slot = slot_of(e, e->n_begun);
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)e->o.model->n_blocks * LT_MAX_OUT * sizeof(lt_tensor),
                        "edges"));
    s->e = e;
    s->l = &l;
    s->n_micro = n;
    s->edge = memory;
    const lt_status st = lt_run_program(s, batches);
    lt_mem_free(memory);
    s->l = NULL; // what they point to ends here
    s->edge = NULL;
    atomic_store(&e->now, "waiting for the next batch");
    return st;
}

// A run of its own.
static lt_status run(lt_exec *e, lt_program_mode mode, const lt_batch_view *batches, int64_t n,
                     lt_pass_state *s)
{
    if (lt_exec_in_flight(e) > 0)
        return LT_FAIL(LT_ERR_INTERNAL, "a step is in flight, and something else is to be run");
    LT_TRY(queue(e, mode, batches, n, s));
    return lt_exec_sync(e);
}

static double number_at(const unsigned char *at, lt_dtype dtype)
{
    float f;
    double d;
    if (dtype == LT_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    memcpy(&f, at, sizeof f);
    return (double)f;
}

// Of this rank.
static lt_step_result own_result(const lt_exec *e, const unsigned char *slot, int64_t n,
                                 const lt_result_places *places)
{
    const lt_dtype wide = lt_state_dtype(e->o.compute, LT_STATE_GRAD);
    const unsigned char *results = slot + LT_SLOT_RESULTS;
    lt_step_result r = {.grad_norm = number_at(results + n * places->bytes, LT_F64)};
    for (int64_t i = 0; i < n; i++)
        r.loss += number_at(results + i * places->bytes + places->first, wide);
    for (int64_t i = 0; i < n && places->next >= 0; i++)
        r.next_loss += number_at(results + i * places->bytes + places->next, wide);
    for (int64_t i = 0; i < n && places->balance >= 0; i++) {
        r.loss += number_at(results + i * places->bytes + places->balance, wide);
        r.balance += number_at(results + i * places->bytes + places->value, wide) / (double)n;
    }
    if (places->balance >= 0) {
        r.use = (lt_expert_use){.layers = places->layers,
                                .experts = places->experts,
                                .n = n,
                                .stride = places->bytes,
                                .dtype = wide,
                                .tables = results + places->table};
    }
    return r;
}

static lt_status step_result(const lt_exec *e, const unsigned char *slot, int64_t n,
                             const lt_result_places *places, lt_step_result *out)
{
    *out = own_result(e, slot, n, places);
    if (!e->o.ranks)
        return LT_OK;
    double sums[] = {out->loss, out->balance, out->next_loss};
    LT_TRY(lt_all_reduce_f64(e->o.ranks->world, sums, 3));
    out->next_loss = sums[2];
    out->loss = sums[0];
    out->balance = sums[1] / (double)e->o.ranks->dp_size;
    return LT_OK;
}

// Number `i` of a layer's row, summed over micro-batches; the table has the last layer first.
static double use_at(const lt_expert_use *u, int64_t layer, int64_t i)
{
    const int64_t at = (u->layers - 1 - layer) * 2 * u->experts + i;
    double sum = 0.0;
    for (int64_t k = 0; k < u->n; k++)
        sum +=
            number_at(u->tables + k * u->stride + at * (int64_t)lt_dtype_bytes(u->dtype), u->dtype);
    return sum;
}

double lt_expert_picks(const lt_expert_use *u, int64_t layer, int64_t expert)
{
    return use_at(u, layer, expert);
}

double lt_expert_probability(const lt_expert_use *u, int64_t layer, int64_t expert)
{
    return use_at(u, layer, u->experts + expert);
}

static lt_status check_step(const lt_exec *e, int64_t n, bool update)
{
    if (!e->o.training)
        return LT_FAIL(LT_ERR_INTERNAL, "this executor was made without gradients");
    if (e->o.update_early && (n != 1 || !update))
        return LT_FAIL(LT_ERR_INTERNAL, "this executor updates early: a step is one micro-batch, "
                                        "and gradients cannot be kept");
    return LT_OK;
}

lt_status lt_exec_begin(lt_exec *e, const lt_batch_view *batches, int64_t n, int64_t number,
                        double lr, const lt_agree *agree)
{
    lt_flight *f = &e->flight[e->n_begun % LT_EXEC_AHEAD];
    lt_device *d = e->o.device;
    lt_pass_state s = {.update = true, .agree = agree};
    s.scalars[LT_SCALAR_LR] = lr;
    s.scalars[LT_SCALAR_M_CORRECTION] = 1.0 / (1.0 - pow(e->o.adamw.beta1, (double)number));
    s.scalars[LT_SCALAR_V_CORRECTION] = 1.0 / (1.0 - pow(e->o.adamw.beta2, (double)number));
    s.scalars[LT_SCALAR_CLIP] = 1.0;
    if (lt_exec_in_flight(e) == LT_EXEC_AHEAD)
        return LT_FAIL(LT_ERR_INTERNAL, "%d steps are in flight already", (int)LT_EXEC_AHEAD);
    LT_TRY(check_step(e, n, true));
    if (!f->done)
        LT_TRY(d->event_create(d, &f->done));
    LT_TRY(queue(e, LT_MODE_TRAIN, batches, n, &s));
    f->n_micro = n;
    f->places = s.places;
    LT_TRY(d->event_record(d, f->done, e->stream[LT_QUEUE_D2H]));
    e->n_begun++;
    return LT_OK;
}

lt_status lt_exec_end(lt_exec *e, lt_step_result *out)
{
    const lt_flight *f = &e->flight[e->n_ended % LT_EXEC_AHEAD];
    if (lt_exec_in_flight(e) == 0)
        return LT_FAIL(LT_ERR_INTERNAL, "no step is in flight");
    atomic_store(&e->now, "waiting for the device");
    LT_TRY(e->o.device->event_sync(e->o.device, f->done));
    atomic_store(&e->now, "waiting for the next batch");
    const int64_t number = e->n_ended++;
    return step_result(e, slot_of(e, number), f->n_micro, &f->places, out);
}

int64_t lt_exec_in_flight(const lt_exec *e)
{
    return e->n_begun - e->n_ended;
}

double lt_exec_waited_s(const lt_exec *e)
{
    return e->waited_s;
}

lt_status lt_exec_step(lt_exec *e, const lt_batch_view *batches, int64_t n, int64_t number,
                       double lr, const lt_agree *agree, lt_step_result *out)
{
    if (lt_exec_in_flight(e) > 0)
        return LT_FAIL(LT_ERR_INTERNAL, "a step is in flight, and another is to be run alone");
    LT_TRY(lt_exec_begin(e, batches, n, number, lr, agree));
    LT_TRY(lt_exec_end(e, out));
    return lt_exec_sync(e);
}

lt_status lt_exec_gradients(lt_exec *e, const lt_batch_view *batches, int64_t n,
                            lt_step_result *out)
{
    lt_pass_state s = {.update = false};
    s.scalars[LT_SCALAR_CLIP] = 1.0;
    LT_TRY(check_step(e, n, false));
    LT_TRY(run(e, LT_MODE_TRAIN, batches, n, &s));
    return step_result(e, s.slot, n, &s.places, out);
}

lt_status lt_exec_loss(lt_exec *e, const lt_batch_view *batch, double *loss)
{
    lt_pass_state s = {.update = false};
    LT_TRY(run(e, LT_MODE_LOSS, batch, 1, &s));
    *loss = own_result(e, s.slot, 1, &s.places).loss;
    return LT_OK;
}

lt_status lt_exec_logits(lt_exec *e, const lt_batch_view *batch, lt_tensor *logits)
{
    lt_pass_state s = {.update = false};
    *logits = lt_tensor_2d(e->o.compute, batch->extents.n[LT_EXT_TARGETS], e->o.model->vocab);
    LT_TRY(run(e, LT_MODE_LOGITS, batch, 1, &s));
    logits->data = s.slot + LT_SLOT_RESULTS;
    return LT_OK;
}

lt_exec_memory lt_exec_memory_of(const lt_exec *e)
{
    lt_exec_memory m = {.state = e->layout->bytes,
                        .step = e->step_bytes,
                        .step_used = e->step_used,
                        .batch = LT_N_STAGES * e->batch_bytes,
                        .host = e->host_bytes,
                        .host_used = e->host_used,
                        .host_state = e->layout->host_bytes};
    for (int p = 0; p < LT_N_STATE_PARTS; p++)
        m.state_part[p] = e->layout->part_bytes[p];
    return m;
}

const double *lt_exec_seconds(const lt_exec *e)
{
    return e->seconds;
}

const char *lt_exec_now(const lt_exec *e)
{
    return atomic_load(&e->now);
}
