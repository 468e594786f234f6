// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.h"

#include "tests/kit/lt_qwen.h"

#include <math.h>
#include <string.h>

typedef struct world {
    lt_model *model;
    lt_units *units;
    lt_state_layout *state;
    lt_program *p;
} world;

static world open_world(lt_policy policy, bool offload, int32_t shards)
{
    static const char *const patterns[] = {"model.language_model.layers.{*}"};
    lt_policy all[128];
    bool away[128];
    lt_model_config config;
    world w = {0};
    for (int i = 0; i < 128; i++) {
        all[i] = policy;
        away[i] = offload;
    }
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w.model));
    assert_ok(lt_units_create(w.model, patterns, 1, NULL, &w.units));
    assert_ok(lt_state_layout_create(w.model, w.units, LT_BF16, LT_STATE_WHOLE, LT_HOME_DEVICE,
                                     (lt_shard){shards, 0}, &w.state));
    const lt_program_opts opts = {.model = w.model,
                                  .units = w.units,
                                  .state = w.state,
                                  .mode = LT_MODE_TRAIN,
                                  .compute = LT_BF16,
                                  .backend = LT_CUDA,
                                  .capacity = {{[LT_EXT_TOKENS] = 4096,
                                                [LT_EXT_SAMPLES] = 16,
                                                [LT_EXT_PATCHES] = 256,
                                                [LT_EXT_MERGED] = 64,
                                                [LT_EXT_FRAMES] = 16,
                                                [LT_EXT_TARGETS] = 1024}},
                                  .policy = all,
                                  .offload = away,
                                  .batch_apart = true,
                                  .reduced = shards > 1,
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

static lt_cost cost_of(const world *w, const lt_rates *rates, int32_t ranks, int64_t n_micro)
{
    const lt_cost_opts o = {.rates = rates,
                            .ranks = ranks,
                            .shards = ranks,
                            .n_micro = n_micro,
                            .samples = 1,
                            .frames = 4};
    lt_cost c;
    double sum = 0.0;
    assert_ok(lt_program_cost(w->p, &o, NULL, &c));
    for (int i = 0; i < LT_N_CAUSES; i++) {
        assert_true(c.cause[i] >= 0.0);
        sum += c.cause[i];
    }
    assert_near(sum, c.step_s, 1e-9 * c.step_s); // every moment has a cause
    return c;
}

static void every_moment_has_a_cause_and_micro_batches_add_up(void **state)
{
    (void)state;
    const lt_rates *h200 = lt_rates_find("h200"), *a100 = lt_rates_find("a100");
    assert_null(lt_rates_find("abacus"));
    world w = open_world(LT_KEEP, false, 1);
    const lt_cost one = cost_of(&w, h200, 1, 1), three = cost_of(&w, h200, 1, 3);
    assert_true(one.step_s > 0.0 && one.gathered == 0.0 && one.reduced == 0.0);
    assert_true(one.cause[LT_CAUSE_AGAIN] == 0.0);
    assert_near(three.cause[LT_CAUSE_ATTENTION], 3 * one.cause[LT_CAUSE_ATTENTION], 1e-12);
    assert_near(three.cause[LT_CAUSE_OPTIMIZER], one.cause[LT_CAUSE_OPTIMIZER], 1e-12);
    assert_true(cost_of(&w, a100, 1, 1).step_s > one.step_s);
    close_world(&w);
}

static void what_is_computed_again_is_paid_for(void **state)
{
    (void)state;
    const lt_rates *h200 = lt_rates_find("h200");
    double seconds[LT_N_POLICIES];
    for (int p = LT_KEEP; p < LT_N_POLICIES; p++) {
        world w = open_world((lt_policy)p, false, 1);
        seconds[p] = cost_of(&w, h200, 1, 1).step_s;
        close_world(&w);
    }
    assert_true(seconds[LT_KEEP] < seconds[LT_LEAN] && seconds[LT_LEAN] < seconds[LT_FULL]);
}

// A fast link hides what a slow one shows; the bytes are the same.
static void copies_that_a_slow_link_cannot_hide_are_waited_for(void **state)
{
    (void)state;
    lt_rates slow = *lt_rates_find("h200"), fast = slow;
    slow.link = 1e6;
    fast.link = 1e15;
    world w = open_world(LT_FULL, true, 1);
    const lt_cost a = cost_of(&w, &slow, 1, 1), b = cost_of(&w, &fast, 1, 1);
    assert_true(a.down > 0.0 && a.up > 0.0 && a.down == b.down && a.up == b.up);
    assert_true(a.cause[LT_CAUSE_COPIES] > 0.5 * a.step_s);
    assert_true(b.cause[LT_CAUSE_COPIES] < 1e-3 * b.step_s);
    close_world(&w);
}

// Of 4 ranks each gets three quarters of the parameters twice and sends as much of its gradients.
static void a_rank_sends_what_the_others_lack(void **state)
{
    (void)state;
    world w = open_world(LT_KEEP, false, 4);
    const lt_cost c = cost_of(&w, lt_rates_find("h200"), 4, 1);
    double all = 0.0;
    for (int32_t i = 0; i < w.model->n_params; i++)
        all += (double)w.model->params[i].n_elems;
    assert_true(c.gathered > 0.75 * 2.0 * all && c.gathered <= 2 * 0.75 * 2.0 * all);
    assert_near(c.reduced, 0.75 * 4.0 * (double)lt_model_total(w.model, true), 1.0);
    close_world(&w);
}

LT_TEST_MAIN(LT_TEST(every_moment_has_a_cause_and_micro_batches_add_up),
             LT_TEST(what_is_computed_again_is_paid_for),
             LT_TEST(copies_that_a_slow_link_cannot_hide_are_waited_for),
             LT_TEST(a_rank_sends_what_the_others_lack))
