// SPDX-License-Identifier: Apache-2.0
#include "plan/program.h"

#include "base/rng.h"
#include "graph/pack.h"
#include "tests/kit/lt_qwen.h"

#include <string.h>

enum { GRAIN = LT_ALIGN };

typedef struct world {
    lt_model *model;
    lt_units *units;
    lt_state_layout *state;
    lt_program *p;
} world;

static world open_world(bool offload)
{
    static const char *const patterns[] = {"model.language_model.layers.{*}",
                                           "model.visual.blocks.{*}"};
    lt_model_config config;
    lt_policy policy[128] = {LT_KEEP};
    bool wanted[128];
    world w = {0};
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w.model));
    assert_ok(lt_units_create(w.model, patterns, 2, NULL, &w.units));
    assert_ok(lt_state_layout_create(w.model, w.units, LT_F32, LT_STATE_WHOLE, LT_HOME_DEVICE,
                                     (lt_shard){0}, &w.state));
    for (int i = 0; i < 128; i++) {
        wanted[i] = offload;
        policy[i] = offload ? LT_FULL : LT_KEEP;
    }
    const lt_program_opts opts = {.model = w.model,
                                  .units = w.units,
                                  .state = w.state,
                                  .mode = LT_MODE_TRAIN,
                                  .compute = LT_F32,
                                  .capacity = {{[LT_EXT_TOKENS] = 32,
                                                [LT_EXT_SAMPLES] = 2,
                                                [LT_EXT_PATCHES] = 64,
                                                [LT_EXT_MERGED] = 16,
                                                [LT_EXT_FRAMES] = 2,
                                                [LT_EXT_TARGETS] = 16}},
                                  .policy = policy,
                                  .keep_attention = offload,
                                  .offload = wanted,
                                  .forward_prefetch = 1,
                                  .reshard_after_forward = true};
    assert_ok(lt_program_create(&opts, &w.p));
    return w;
}

static void close_world(world *w)
{
    lt_program_destroy(w->p);
    lt_state_layout_destroy(w->state);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
}

static void drop_every_wait(bool offload)
{
    world w = open_world(offload);
    int32_t dropped = 0;
    assert_true(w.p->waits.n > 10);
    for (int64_t i = 0; i < w.p->actions.n; i++) {
        lt_action *a = &LT_AT(&w.p->actions, lt_action, i);
        int32_t *wait = (int32_t *)w.p->waits.data + a->wait;
        for (int32_t k = 0; k < a->n_wait; k++) {
            const int32_t kept = wait[k];
            wait[k] = wait[--a->n_wait]; // without wait k
            assert_fails(lt_program_check(w.p), LT_ERR_INTERNAL, "may run at once");
            wait[a->n_wait++] = wait[k];
            wait[k] = kept;
            dropped++;
        }
    }
    assert_int_equal(dropped, w.p->waits.n);
    assert_ok(lt_program_check(w.p));
    close_world(&w);
}

static void every_wait_is_needed(void **state)
{
    (void)state;
    drop_every_wait(false);
    drop_every_wait(true);
}

// The input of a layer that is at work and that of the next one: all others wait on the host. Of
// the first layers the tower's features are alive as well.
static void at_most_two_inputs_of_layers_are_on_the_device(void **state)
{
    (void)state;
    world w = open_world(true);
    int64_t most = 0, ways[2] = {0};
    for (int32_t i = 0; i < w.p->actions.n; i++) {
        int64_t alive = 0;
        for (int64_t b = 0; b < w.p->buffers.n; b++) {
            const lt_buffer *x = lt_buffer_at(w.p, b);
            alive += x->kind == LT_BUF_EDGE && x->begin <= i && i <= x->end && x->b == 0 &&
                     strstr(w.model->blocks[x->a].name, "layers.");
        }
        most = lt_max_i64(most, alive);
        ways[0] += lt_action_at(w.p, i)->kind == LT_ACT_OFFLOAD;
        ways[1] += lt_action_at(w.p, i)->kind == LT_ACT_FETCH;
    }
    assert_int_equal(most, 2);
    assert_true(ways[0] > 4);
    assert_int_equal(ways[0], ways[1]);
    assert_true(w.p->host_bytes > 0);
    close_world(&w);
}

/* ---- the oracle: every grain of the pool, every pair of actions ---- */

typedef struct oracle {
    const lt_program *p;
    bool *before;  /* [actions, actions] */
    int32_t *last; /* [grains] access that wrote last, or LT_NONE */
    int64_t grains;
} oracle;

static void order(oracle *o)
{
    const int64_t n = o->p->actions.n;
    memset(o->before, 0, (size_t)(n * n));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < j; i++) {
            const lt_action *b = lt_action_at(o->p, j);
            bool direct = lt_action_at(o->p, i)->queue == b->queue;
            for (int32_t k = 0; k < b->n_wait; k++)
                direct = direct || LT_AT(&o->p->waits, int32_t, b->wait + k) == i;
            for (int64_t h = 0; direct && h <= i; h++)
                o->before[h * n + j] |= h == i || o->before[h * n + i];
        }
    }
}

static bool in_pool(const lt_buffer *b)
{
    return b->kind <= LT_BUF_NORM && b->bytes > 0;
}

static bool meet(const lt_buffer *a, const lt_buffer *b)
{
    return in_pool(a) && in_pool(b) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static lt_access access_at(const lt_program *p, const lt_action *a, int32_t k)
{
    return LT_AT(&p->accesses, lt_access, a->access + k);
}

static bool pair_races(const oracle *o, int64_t i, int64_t j)
{
    const lt_action *a = lt_action_at(o->p, i), *b = lt_action_at(o->p, j);
    for (int32_t x = 0; x < a->n_access; x++) {
        for (int32_t y = i == j ? x + 1 : 0; y < b->n_access; y++) {
            const lt_access u = access_at(o->p, a, x), v = access_at(o->p, b, y);
            const bool together = meet(lt_buffer_at(o->p, u.buffer), lt_buffer_at(o->p, v.buffer));
            if (together &&
                (i == j || ((u.write || v.write) && !o->before[i * o->p->actions.n + j])))
                return true;
        }
    }
    return false;
}

// Reads find what their own buffer's last writer left. Works on list order, which the races above
// make binding.
static bool reads_something_else(oracle *o, const lt_section *s)
{
    for (int64_t g = 0; g < o->grains; g++)
        o->last[g] = LT_NONE;
    for (int32_t i = s->begin; i < s->end; i++) {
        const lt_action *a = lt_action_at(o->p, i);
        for (int32_t k = 0; k < a->n_access; k++) {
            const lt_access x = access_at(o->p, a, k);
            const lt_buffer *b = lt_buffer_at(o->p, x.buffer);
            for (int64_t g = b->offset / GRAIN;
                 in_pool(b) && g < (b->offset + b->bytes + GRAIN - 1) / GRAIN; g++) {
                if (!x.write && o->last[g] != x.buffer &&
                    !(b->kind == LT_BUF_SCALARS && o->last[g] == LT_NONE))
                    return true;
                o->last[g] = x.write ? (a->kind == LT_ACT_FREE ? LT_NONE : x.buffer) : o->last[g];
            }
        }
    }
    return false;
}

static bool is_sound(oracle *o)
{
    const lt_program *p = o->p;
    for (int s = 0; s < LT_N_SECTIONS; s++) {
        for (int64_t j = p->section[s].begin; j < p->section[s].end; j++) {
            for (int64_t i = p->section[s].begin; i <= j; i++)
                if (pair_races(o, i, j))
                    return false;
        }
        if (reads_something_else(o, &p->section[s]))
            return false;
    }
    for (int64_t x = 0; x < p->buffers.n;
         x++) { // the scalars and the norm live through all sections
        for (int64_t y = 0; y < p->buffers.n; y++) {
            if (x != y &&
                (lt_buffer_at(p, x)->kind == LT_BUF_SCALARS ||
                 lt_buffer_at(p, x)->kind == LT_BUF_NORM) &&
                meet(lt_buffer_at(p, x), lt_buffer_at(p, y)))
                return false;
        }
    }
    return true;
}

static void moved_buffers_are_judged_like_trying_all_pairs(void **state)
{
    enum { MOVES = 150 };
    world w = open_world(false);
    const int64_t n = w.p->actions.n, n_grains = w.p->step_bytes / GRAIN;
    oracle o = {.p = w.p, .grains = 2 * n_grains};
    o.before = lt_test_take(*state, (size_t)(n * n));
    o.last = lt_test_take(*state, (size_t)o.grains * sizeof(int32_t));
    order(&o);
    assert_true(is_sound(&o));
    int sound = 0;
    uint64_t draws = 0;
    for (int move = 0; move < MOVES; move++) {
        lt_buffer *b = &LT_AT(&w.p->buffers, lt_buffer,
                              (int64_t)(lt_uniform(3, draws++) * (double)w.p->buffers.n));
        if (!in_pool(b) || b->begin < 0)
            continue;
        const int64_t was = b->offset;
        b->offset = (int64_t)(lt_uniform(3, draws++) * (double)n_grains) * GRAIN;
        const bool right = is_sound(&o);
        sound += right;
        if (right)
            assert_ok(lt_program_check(w.p));
        else
            assert_int_equal(lt_program_check(w.p), LT_ERR_INTERNAL);
        b->offset = was;
    }
    assert_true(sound > 3 && sound < MOVES / 2); // both kinds were met
    close_world(&w);
}

static void a_read_of_what_nobody_wrote_is_named(void **state)
{
    (void)state;
    world w = open_world(false);
    // the vision tower's first output is never written
    for (int64_t i = 0; i < w.p->accesses.n; i++) {
        lt_access *x = &LT_AT(&w.p->accesses, lt_access, i);
        const lt_buffer *b = lt_buffer_at(w.p, x->buffer);
        if (b->kind == LT_BUF_EDGE && x->write) {
            x->write = false;
            break;
        }
    }
    assert_fails(lt_program_check(w.p), LT_ERR_INTERNAL, "which nothing before it has written");
    close_world(&w);
}

LT_TEST_MAIN(LT_TEST(every_wait_is_needed), LT_TEST(at_most_two_inputs_of_layers_are_on_the_device),
             LT_TEST(moved_buffers_are_judged_like_trying_all_pairs),
             LT_TEST(a_read_of_what_nobody_wrote_is_named))
