// SPDX-License-Identifier: Apache-2.0
// Seconds of actions from the FLOPs and bytes of their kernels; a step's from playing them out.
#include "plan/cost.h"

#include "graph/differentiate.h"

const char *lt_cause_name(lt_cause cause)
{
    static const char *const names[] = {
#define LT_CAUSE_TEXT(name, text) text,
        LT_CAUSE_LIST(LT_CAUSE_TEXT)
#undef LT_CAUSE_TEXT
    };
    return names[cause];
}

/* ---- what one block's pass takes ---- */

// By cause; only the first four of them.
typedef struct pass_cost {
    double s[LT_CAUSE_OPTIMIZER];
} pass_cost;

typedef struct costing {
    const lt_program *p;
    const lt_cost_opts *o;
    lt_compiled **known;  /* [n_known] */
    pass_cost (*cost)[2]; /* [n_known][pass] */
    int64_t n_known;
} costing;

static double bytes_of(const lt_compiled *c, const lt_val *v, int n)
{
    double bytes = 0.0;
    for (int i = 0; i < n; i++)
        if (v[i] != LT_NONE)
            bytes += (double)lt_tensor_bytes(&lt_value_at(&c->graph, v[i])->tensor);
    return bytes;
}

// Samples of a batch share its tokens evenly, images its patches: attention stays within each.
static double segments_of(const lt_cost_opts *o, const lt_compiled *c, const lt_instr *x)
{
    const lt_node *node = lt_node_at(&c->graph, x->node);
    for (int i = 0; i < x->def->n_in; i++) {
        const lt_value *v = node->in[i] == LT_NONE ? NULL : lt_value_at(&c->graph, node->in[i]);
        if (v && v->kind == LT_VALUE_BATCH)
            return (double)lt_max_i64(1, v->index == LT_BATCH_SEGMENTS ? o->samples : o->frames);
    }
    return 1.0;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static void add_kernel(const costing *k, const lt_compiled *c, const lt_instr *x, pass_cost *cost)
{
    const lt_rates *r = k->o->rates;
    const bool narrow = k->p->opts.compute == LT_BF16, attends = x->def->flags & LT_OP_MUST_SAVE;
    const double bytes = bytes_of(c, x->in, LT_MAX_IN) + bytes_of(c, x->out, LT_MAX_OUT) +
                         bytes_of(c, x->dout, LT_MAX_OUT) + bytes_of(c, x->din, LT_MAX_IN);
    double flops = (double)lt_instr_flops(c, x), rate = r->product[narrow];
    if (attends) {
        const double wide = r->product[0] / r->product[1]; // in f32 as much slower as products are
        flops *= (x->pass == LT_BACKWARD ? 1.25 : 1.0) / segments_of(k->o, c, x);
        rate = r->attention[x->pass == LT_BACKWARD] * (narrow ? 1.0 : wide);
    }
    const lt_cause cause = x->again && !c->yields  ? LT_CAUSE_AGAIN // a loss has no FORWARD
                           : attends               ? LT_CAUSE_ATTENTION
                           : x->def->flops != NULL ? LT_CAUSE_PRODUCTS
                                                   : LT_CAUSE_OTHER;
    cost->s[cause] += most(flops / rate, bytes / r->stream) + r->launch_s;
}

static void cost_pass(const costing *k, const lt_compiled *c, lt_pass pass, pass_cost *out)
{
    const lt_vec *list = pass == LT_FORWARD ? &c->forward : &c->backward;
    for (int64_t i = 0; i < list->n; i++)
        add_kernel(k, c, &LT_AT(list, lt_instr, i), out);
}

static lt_status cost_blocks(costing *k)
{
    const lt_program *p = k->p;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory,
                        (size_t)(p->owned.n + 1) * (sizeof(lt_compiled *) + 2 * sizeof(pass_cost)),
                        "costs of blocks"));
    k->cost = memory;
    k->known = (lt_compiled **)(k->cost + p->owned.n + 1);
    for (; k->n_known < p->owned.n; k->n_known++) {
        k->known[k->n_known] = LT_AT(&p->owned, lt_compiled *, k->n_known);
        for (int pass = 0; pass < 2; pass++)
            cost_pass(k, k->known[k->n_known], (lt_pass)pass, &k->cost[k->n_known][pass]);
    }
    return LT_OK;
}

static const pass_cost *cost_of(const costing *k, const lt_action *a)
{
    static const pass_cost none = {0};
    for (int64_t i = 0; i < k->n_known; i++)
        if (k->known[i] == k->p->compiled[a->subject])
            return &k->cost[i][a->kind == LT_ACT_BACKWARD];
    return &none;
}

/* ---- what one action takes ---- */

// Bytes that a rank sends to have all pieces of so many.
static double share_of_others(int32_t n)
{
    return n > 1 ? (double)(n - 1) / n : 0.0;
}

static double wire(const costing *k)
{
    return k->o->ranks > k->o->rates->ranks_inside ? k->o->rates->between : k->o->rates->inside;
}

// Between shards a sum is sent once; between copies of the model it comes back, too.
static double reduced_bytes(const costing *k, const lt_action *a)
{
    const int32_t shards = k->o->shards;
    return (double)a->bytes *
           (share_of_others(shards) + 2.0 / shards * share_of_others(k->o->ranks / shards));
}

static double gathered_bytes(const costing *k, const lt_action *a)
{
    return (double)a->bytes * share_of_others(k->o->shards);
}

static bool is_ahead(const lt_program *p, const lt_action *a)
{
    return p->opts.batch_apart && lt_buffer_at(p, a->subject)->kind == LT_BUF_BATCH;
}

static double seconds_of(const costing *k, const lt_action *a)
{
    const lt_rates *r = k->o->rates;
    double sum = 0.0;
    switch (a->kind) {
    case LT_ACT_FORWARD:
    case LT_ACT_BACKWARD:
        for (int c = 0; c < LT_CAUSE_OPTIMIZER; c++)
            sum += cost_of(k, a)->s[c];
        return sum;
    case LT_ACT_GATHER:
        return gathered_bytes(k, a) / wire(k);
    case LT_ACT_REDUCE:
        return reduced_bytes(k, a) / wire(k);
    case LT_ACT_COPY: // a batch that lies apart has come while the step before was worked on
        return is_ahead(k->p, a) ? 0.0 : (double)a->bytes / r->link;
    case LT_ACT_OFFLOAD:
    case LT_ACT_FETCH:
        return (double)a->bytes / r->link;
    case LT_ACT_ADD:
        return (double)a->bytes / r->stream;
    case LT_ACT_NORM:
    case LT_ACT_UPDATE:
        return (double)a->bytes / (a->queue == LT_QUEUE_HOST ? r->host_update : r->update) +
               (double)a->flops / r->product[1];
    case LT_ACT_AGREE:
    case LT_ACT_FREE:
    case LT_N_ACTIONS:
        break;
    }
    return 0.0;
}

/* ---- a step, played out ---- */

typedef struct clock {
    double free_s[LT_N_QUEUES]; /* when each queue has done what was put on it */
    double *end_s;              /* [actions] */
    double *action_s, *begin_s; /* [actions]; begin_s may be NULL */
} clock;

static lt_cause cause_of_wait(lt_queue queue)
{
    switch (queue) {
    case LT_QUEUE_GATHER:
        return LT_CAUSE_GATHER;
    case LT_QUEUE_REDUCE:
        return LT_CAUSE_REDUCE;
    case LT_QUEUE_H2D:
    case LT_QUEUE_D2H:
        return LT_CAUSE_COPIES;
    case LT_QUEUE_COMPUTE:
    case LT_QUEUE_HOST:
    case LT_N_QUEUES:
        break;
    }
    return LT_CAUSE_HOST;
}

static void add_own_time(const costing *k, const lt_action *a, double seconds, lt_cost *out)
{
    const bool block = a->kind == LT_ACT_FORWARD || a->kind == LT_ACT_BACKWARD;
    for (int c = 0; block && c < LT_CAUSE_OPTIMIZER; c++)
        out->cause[c] += cost_of(k, a)->s[c];
    if (!block)
        out->cause[a->kind == LT_ACT_ADD ? LT_CAUSE_OTHER : LT_CAUSE_OPTIMIZER] += seconds;
}

static void count_traffic(const costing *k, const lt_action *a, lt_cost *out)
{
    if (a->kind == LT_ACT_GATHER)
        out->gathered += gathered_bytes(k, a);
    if (a->kind == LT_ACT_REDUCE)
        out->reduced += reduced_bytes(k, a);
    if (a->queue == LT_QUEUE_D2H)
        out->down += (double)a->bytes;
    if (a->queue == LT_QUEUE_H2D)
        out->up += (double)a->bytes;
}

// The compute queue's time is the step's: while it waits, the last of those it waits for is blamed.
static void play(const costing *k, clock *t, int32_t number, lt_cost *out)
{
    const lt_action *a = lt_action_at(k->p, number);
    double start = t->free_s[a->queue];
    lt_queue blame = a->queue;
    for (int32_t i = 0; i < a->n_wait; i++) {
        const int32_t w = LT_AT(&k->p->waits, int32_t, a->wait + i);
        if (t->end_s[w] > start) {
            start = t->end_s[w];
            blame = lt_action_at(k->p, w)->queue;
        }
    }
    if (a->queue == LT_QUEUE_COMPUTE) {
        out->cause[cause_of_wait(blame)] += start - t->free_s[a->queue];
        add_own_time(k, a, t->action_s[number], out);
    }
    count_traffic(k, a, out);
    if (t->begin_s)
        t->begin_s[number] = start;
    t->end_s[number] = t->free_s[a->queue] = start + t->action_s[number];
}

// All queues meet; batches that lie apart may come ahead of it.
static void meet(const lt_program *p, clock *t, lt_cost *out)
{
    double last = t->free_s[LT_QUEUE_COMPUTE];
    lt_queue blame = LT_QUEUE_COMPUTE;
    for (int q = 0; q < LT_N_QUEUES; q++) {
        if (t->free_s[q] > last) {
            last = t->free_s[q];
            blame = (lt_queue)q;
        }
    }
    out->cause[cause_of_wait(blame)] += last - t->free_s[LT_QUEUE_COMPUTE];
    for (int q = 0; q < LT_N_QUEUES; q++)
        if (!(p->opts.batch_apart && q == LT_QUEUE_H2D))
            t->free_s[q] = last;
}

static void play_step(const costing *k, clock *t, lt_cost *out)
{
    const lt_program *p = k->p;
    for (int s = 0; s < LT_N_SECTIONS; s++) {
        const int64_t times = s == LT_SECTION_MICRO ? k->o->n_micro : 1;
        for (int64_t n = 0; n < times; n++) {
            for (int32_t i = p->section[s].begin; i < p->section[s].end; i++)
                play(k, t, i, out);
            meet(p, t, out);
        }
    }
    out->step_s = t->free_s[LT_QUEUE_COMPUTE];
}

lt_status lt_program_cost(const lt_program *p, const lt_cost_opts *o, double *begin_s, lt_cost *out)
{
    costing k = {.p = p, .o = o};
    void *memory = NULL;
    *out = (lt_cost){0};
    LT_TRY(cost_blocks(&k));
    const lt_status st =
        lt_mem_alloc(&memory, (size_t)(2 * p->actions.n + 1) * sizeof(double), "costs of actions");
    if (st == LT_OK) {
        clock t = {
            .end_s = memory, .action_s = (double *)memory + p->actions.n, .begin_s = begin_s};
        for (int32_t i = 0; i < p->actions.n; i++)
            t.action_s[i] = seconds_of(&k, lt_action_at(p, i));
        play_step(&k, &t, out);
    }
    lt_mem_free(memory);
    lt_mem_free(k.cost);
    return st;
}
