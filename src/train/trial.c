// SPDX-License-Identifier: Apache-2.0
// Trying settings on paper, and choosing among them.
#include "train/trial.h"

#include "plan/policy.h"

#include <math.h>
#include <string.h>

lt_status lt_trial_state(const lt_engine *e, lt_state_layout **out)
{
    const lt_state_mode mode = lt_engine_updates_early(e) ? LT_STATE_WITHOUT_GRADS : LT_STATE_WHOLE;
    return lt_state_layout_create(e->model, e->units, e->compute, mode, e->home, lt_engine_shard(e),
                                  out);
}

lt_status lt_trial_program(const lt_engine *e, const lt_state_layout *state, lt_program_mode mode,
                           const lt_extents *capacity, lt_program **out)
{
    const lt_engine_opts opts = {.training = true};
    const lt_exec_opts x = lt_engine_exec_opts(e, &opts);
    const lt_program_opts o = {.model = e->model,
                               .units = e->units,
                               .state = state,
                               .mode = mode,
                               .compute = e->compute,
                               .backend = e->device->backend,
                               .capacity = *capacity,
                               .policy = e->policy,
                               .keep_attention = x.keep_attention,
                               .keep_scans = x.keep_scans,
                               .offload = x.offload,
                               .batch_apart = e->device->queues,
                               .forward_prefetch = x.forward_prefetch,
                               .muon_steps = x.muon.steps,
                               .backward_prefetch = x.backward_prefetch,
                               .reduced = x.ranks && x.ranks->size > 1,
                               .reshard_after_forward = x.reshard_after_forward};
    return lt_program_create(&o, out);
}

lt_cost_opts lt_trial_cost_opts(const lt_engine *e, const lt_extents *batch, const lt_rates *rates)
{
    const lt_shard shard = lt_engine_shard(e);
    return (lt_cost_opts){.rates = rates,
                          .ranks = e->ranks ? e->ranks->size : 1,
                          .shards = shard.size > 1 ? shard.size : 1,
                          .samples = batch->n[LT_EXT_SAMPLES],
                          .frames = batch->n[LT_EXT_FRAMES],
                          .n_micro = e->cfg ? e->cfg->training.gradient_accumulation_steps : 1};
}

const lt_rates *lt_trial_rates(const lt_engine *e)
{
    const lt_rates *own = lt_rates_find(e->device->name);
    if (own)
        return own;
    return lt_rates_find(strstr(e->device->description, "A100") ? "a100" : "h200");
}

lt_status lt_trial_run(const lt_engine *e, const lt_extents *batch, const lt_rates *rates,
                       lt_trial *out)
{
    const lt_extents capacity = lt_extents_bucket(batch);
    const lt_cost_opts o = lt_trial_cost_opts(e, batch, rates);
    lt_state_layout *state = NULL;
    lt_program *p = NULL;
    lt_cost cost = {0};
    lt_status st = lt_trial_state(e, &state);
    if (st == LT_OK)
        st = lt_trial_program(e, state, LT_MODE_TRAIN, &capacity, &p);
    if (st == LT_OK)
        st = lt_program_cost(p, &o, NULL, &cost);
    if (st == LT_OK) {
        const int64_t batches = LT_BATCHES_APART * p->batch_bytes;
        *out = (lt_trial){state->bytes + p->step_bytes + batches, p->host_bytes + state->host_bytes,
                          cost.step_s};
    }
    lt_program_destroy(p);
    lt_state_layout_destroy(state);
    return st;
}

/* ---- lathe.policy: auto ---- */

// So many layers from the first on are full, the next ones lean, the rest keep all; what is no
// layer goes with the last of them.
typedef struct mix {
    int64_t full, lean;
    bool offload; /* inputs of full layers */
} mix;

static int64_t n_layers(const lt_model *m)
{
    int64_t n = 0;
    for (int32_t b = 0; b < m->n_blocks; b++)
        n += lt_is_decoder_layer(&m->blocks[b]);
    return n;
}

static lt_status set_mix(lt_engine *e, mix x)
{
    const lt_model *m = e->model;
    const int64_t layers = n_layers(m);
    void *memory = NULL;
    int64_t layer = 0;
    if (!e->offload && x.offload) {
        LT_TRY(lt_arena_take(e->arena, (size_t)m->n_blocks * sizeof(bool), &memory));
        e->offload = memory;
    }
    for (int32_t b = 0; b < m->n_blocks; b++) {
        const bool counts = lt_is_decoder_layer(&m->blocks[b]);
        const bool all_full = x.full == layers, all_lean = x.full + x.lean == layers;
        e->policy[b] = (counts ? layer < x.full : all_full)            ? LT_FULL
                       : (counts ? layer < x.full + x.lean : all_lean) ? LT_LEAN
                                                                       : LT_KEEP;
        if (e->offload)
            e->offload[b] = x.offload && counts && layer < x.full;
        layer += counts;
    }
    return LT_OK;
}

typedef struct search {
    lt_engine *e;
    const lt_extents *batch;
    const lt_rates *rates;
    int64_t limit, layers;
    mix best, least; /* the fastest that fits; the one with the least memory */
    double best_s;
    int64_t least_bytes;
} search;

static lt_status try_mix(search *s, mix x, bool *fits)
{
    lt_trial t;
    LT_TRY(set_mix(s->e, x));
    LT_TRY(lt_trial_run(s->e, s->batch, s->rates, &t));
    *fits = s->limit <= 0 || t.device <= s->limit;
    if (t.device < s->least_bytes) {
        s->least_bytes = t.device;
        s->least = x;
    }
    if (*fits && t.step_s < s->best_s) {
        s->best_s = t.step_s;
        s->best = x;
    }
    return LT_OK;
}

// The fewest lean layers with so many full ones that fit: more of them only take more time.
static lt_status try_full(search *s, int64_t full, bool offload)
{
    int64_t low = 0, high = s->layers - full;
    bool fits = false;
    LT_TRY(try_mix(s, (mix){full, high, offload}, &fits));
    while (fits && low < high) {
        const int64_t mid = (low + high) / 2;
        bool there = false;
        LT_TRY(try_mix(s, (mix){full, mid, offload}, &there));
        if (there)
            high = mid;
        else
            low = mid + 1;
    }
    return LT_OK;
}

lt_status lt_trial_choose(lt_engine *e, const lt_extents *batch, int64_t limit,
                          const lt_rates *rates)
{
    enum { STEPS = 16 };
    search s = {.e = e,
                .batch = batch,
                .rates = rates,
                .limit = limit,
                .layers = n_layers(e->model),
                .best_s = HUGE_VAL,
                .least_bytes = INT64_MAX};
    bool fits = false;
    LT_TRY(try_mix(&s, (mix){0}, &fits));
    if (fits)
        return LT_OK; // nothing is faster than to keep all
    const int64_t step = lt_ceil_div(s.layers, STEPS);
    for (int offload = 0; offload < (e->device->queues ? 2 : 1); offload++) {
        for (int64_t full = 0; full < s.layers + step; full += step)
            LT_TRY(try_full(&s, lt_min_i64(full, s.layers), offload));
    }
    return set_mix(e, s.best_s < HUGE_VAL ? s.best : s.least);
}

lt_status lt_trial_policy_text(const lt_engine *e, lt_buf *out)
{
    int32_t n = 0;
    lt_policy now = e->policy[e->model->n_blocks - 1];
    for (int32_t b = 0; b < e->model->n_blocks; b++) {
        if (!lt_is_decoder_layer(&e->model->blocks[b]))
            continue;
        if (n > 0 && e->policy[b] != now) {
            LT_TRY(lt_buf_printf(out, "%s:%d,", lt_policy_name(now), n));
            n = 0;
        }
        now = e->policy[b];
        n++;
    }
    return lt_buf_text(out, lt_policy_name(now));
}
