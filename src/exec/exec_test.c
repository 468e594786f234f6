// SPDX-License-Identifier: Apache-2.0
// Whole steps of a tiny Qwen3-VL: what must not change a bit (policies, orders, threads, poisoned
// memory), and accumulation.
#include "exec/exec.h"

#include "base/rng.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"

#include <math.h>
#include <string.h>

// A model, its weights in an executor, and how it is to run.
typedef struct world {
    lt_pool *pool;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
} world;

typedef struct setup {
    lt_dtype compute;
    lt_policy policy;
    bool keep_attention, ref, poison, frozen_tower, offload;
    int threads;
    uint64_t order_seed;
    int64_t steps;      /* 0: 3 */
    bool queues;        /* copies through pinned memory, as for a GPU */
    bool single, early; /* one micro-batch, nothing clipped; and updated unit by unit */
    lt_state_home home;
} setup;

static void open_world(world *w, const setup *s)
{
    lt_model_config config;
    *w = (world){0};
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w->model));
    const char *tower[] = {"model.visual"};
    if (s->frozen_tower)
        assert_ok(lt_model_freeze(w->model, tower, 1, NULL));
    const char *patterns[] = {"model.language_model.layers.{*}", "model.visual",
                              "model.language_model.embed_tokens"};
    assert_ok(lt_units_create(w->model, patterns, 3, NULL, &w->units));
    assert_ok(lt_pool_create(s->threads ? s->threads : 1, &w->pool));
    if (s->ref)
        assert_ok(lt_ref_open(&w->device));
    else
        assert_ok(lt_cpu_open(w->pool, &w->device));
    w->device->queues = s->queues;
    lt_policy policy[256];
    bool offload[256];
    for (int32_t b = 0; b < w->model->n_blocks; b++) {
        policy[b] = s->policy;
        offload[b] = s->offload;
    }
    const lt_exec_opts o = {
        .device = w->device,
        .model = w->model,
        .units = w->units,
        .compute = s->compute,
        .training = true,
        .policy = policy,
        .keep_attention = s->keep_attention,
        .offload = offload,
        .forward_prefetch = 1,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .lr_scale = 1.0},
        .clip_grad = s->single ? 0.0 : 1.0,
        .update_early = s->early,
        .home = s->home,
        .poison = s->poison,
        .order_seed = s->order_seed};
    assert_ok(lt_exec_create(&o, &w->exec));
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        void *memory = NULL;
        assert_ok(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(float), "weights"));
        lt_model_init_values(p, 5, 0, p->n_elems, memory);
        for (int64_t k = 0; k < p->n_elems;
             k++) // larger than a real start, so that every gradient path shows
            ((float *)memory)[k] += 0.05F * (float)lt_normal(lt_rng_key(11, p->name), (uint64_t)k);
        assert_ok(lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, memory));
        lt_mem_free(memory);
    }
}

static void close_world(world *w)
{
    lt_exec_destroy(w->exec);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
    lt_device_close(w->device);
    lt_pool_destroy(w->pool);
}

static made_batch mixed_batch(const world *w, uint64_t seed)
{
    const made_sample samples[] = {{9, 1, 4, 2}, {5, 0, 0, 0}, {6, 2, 2, 4}};
    made_batch b;
    assert_ok(made_batch_create(&w->model->config, samples, 3, seed, &b));
    return b;
}

// Loss, norm and all weights after a few steps.
typedef struct outcome {
    lt_step_result step[3];
    float *weights;
    int64_t n;
} outcome;

static outcome train(void *state, const setup *s)
{
    world w;
    open_world(&w, s);
    outcome out = {.n = lt_model_total(w.model, false)};
    out.weights = lt_test_take(state, (size_t)out.n * sizeof(float));
    for (int64_t i = 0; i < (s->steps ? s->steps : 3); i++) {
        made_batch a = mixed_batch(&w, 100 + (uint64_t)i), b = mixed_batch(&w, 200 + (uint64_t)i);
        const lt_batch_view both[] = {a.view, b.view};
        assert_ok(lt_exec_step(w.exec, both, s->single ? 1 : 2, i + 1, 1e-3, NULL, &out.step[i]));
        assert_true(isfinite(out.step[i].loss) && isfinite(out.step[i].grad_norm));
        made_batch_destroy(&a);
        made_batch_destroy(&b);
    }
    for (int64_t i = 0, at = 0; i < w.model->n_params; i++) {
        const int64_t n = w.model->params[i].n_elems;
        assert_ok(lt_exec_read(w.exec, (int32_t)i, LT_STATE_VALUE, 0, n, LT_F32, out.weights + at));
        at += n;
    }
    const lt_exec_memory m = lt_exec_memory_of(w.exec);
    assert_int_equal(m.step_used, m.step); // what the plan asked for is what was touched
    assert_int_equal(m.host_used, m.host);
    assert_int_equal(m.host > 0, s->offload || s->home == LT_HOME_HOST);
    assert_int_equal(m.host_state > 0, s->home != LT_HOME_DEVICE);
    close_world(&w);
    return out;
}

static void assert_same_bits(const outcome *a, const outcome *b)
{
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&a->step[i].loss, &b->step[i].loss, sizeof(double));
        assert_memory_equal(&a->step[i].grad_norm, &b->step[i].grad_norm, sizeof(double));
    }
    assert_memory_equal(a->weights, b->weights, (size_t)a->n * sizeof(float));
}

static void every_policy_gives_the_bits_of_keep(void **state)
{
    for (int dtype = LT_F32; dtype <= LT_BF16; dtype++) {
        const setup keep = {.compute = (lt_dtype)dtype};
        const outcome want = train(*state, &keep);
        for (int policy = LT_KEEP; policy < LT_N_POLICIES; policy++) {
            for (int attention = 0; attention < 2; attention++) {
                const setup s = {.compute = (lt_dtype)dtype,
                                 .policy = (lt_policy)policy,
                                 .keep_attention = attention,
                                 .poison = true};
                const outcome got = train(*state, &s);
                assert_same_bits(&got, &want);
            }
        }
    }
}

static void inputs_that_wait_on_the_host_come_back_as_they_were(void **state)
{
    const setup keep = {.compute = LT_BF16};
    const outcome want = train(*state, &keep);
    for (int i = 0; i < 4; i++) {
        const setup s = {.compute = LT_BF16,
                         .policy = (lt_policy)(i < 3 ? i : LT_FULL),
                         .keep_attention = i == 3,
                         .offload = true,
                         .queues = i % 2,
                         .poison = true};
        const outcome got = train(*state, &s);
        assert_same_bits(&got, &want);
    }
}

static void inputs_on_the_host_survive_every_legal_order(void **state)
{
    setup s = {.compute = LT_F32, .policy = LT_FULL, .steps = 1};
    const outcome want = train(*state, &s);
    s.offload = s.poison = s.keep_attention = true;
    for (s.order_seed = 1; s.order_seed <= 6; s.order_seed++) {
        s.queues = s.order_seed % 2;
        const outcome got = train(*state, &s);
        assert_same_bits(&got, &want);
    }
}

// Weights to the bit. The norm's sum is another order of the same squares in double.
static void assert_same_update(const outcome *late, outcome *early)
{
    for (int i = 0; i < 3; i++) {
        const double norm = late->step[i].grad_norm;
        assert_near(early->step[i].grad_norm, norm, 1e-12 * norm);
        early->step[i].grad_norm = norm;
    }
    assert_same_bits(early, late);
}

static void a_state_on_the_host_gives_the_same_bits(void **state)
{
    for (int home = LT_HOME_SWAP; home <= LT_HOME_HOST; home++) {
        const setup near = {.compute = home == LT_HOME_HOST ? LT_BF16 : LT_F32, .single = true};
        const outcome want = train(*state, &near);
        setup s = near;
        s.home = (lt_state_home)home;
        s.poison = s.queues = s.offload = true;
        s.policy = LT_FULL;
        const outcome late = train(*state, &s);
        assert_same_bits(&late, &want);
        s.early = true;
        outcome early = train(*state, &s);
        assert_same_update(&want, &early);
    }
}

// With accumulation a device adds where kernels write, the host whole sums of micro-batches: the
// same numbers in another order.
static void sums_on_the_host_agree_with_those_on_the_device(void **state)
{
    setup s = {.compute = LT_F32, .poison = true};
    const outcome near = train(*state, &s);
    s.home = LT_HOME_SWAP;
    const outcome swapped = train(*state, &s);
    assert_same_bits(&swapped, &near);
    s.home = LT_HOME_HOST;
    const outcome far = train(*state, &s);
    for (int i = 0; i < 3; i++) {
        assert_near(far.step[i].loss, near.step[i].loss, 1e-6 * near.step[i].loss);
        assert_near(far.step[i].grad_norm, near.step[i].grad_norm, 1e-4 * near.step[i].grad_norm);
    }
}

static void a_state_on_the_host_survives_every_legal_order(void **state)
{
    for (int i = 0; i < 4; i++) {
        setup s = {.compute = LT_F32, .steps = 1, .single = true, .early = i > 1};
        s.home = i % 2 ? LT_HOME_HOST : LT_HOME_SWAP;
        const outcome want = train(*state, &s);
        s.poison = true;
        for (s.order_seed = 1; s.order_seed <= 3; s.order_seed++) {
            s.queues = s.order_seed % 2;
            const outcome got = train(*state, &s);
            assert_same_bits(&got, &want);
        }
    }
}

// As the trainer does on a GPU: a step is begun before the one before it has ended, and its batches
// go at once.
static void steps_in_flight_give_the_same_bits(void **state)
{
    const setup plain = {.compute = LT_F32}, queued = {.compute = LT_F32, .queues = true};
    const outcome want = train(*state, &plain), alone = train(*state, &queued);
    assert_same_bits(&alone, &want);
    world w;
    lt_step_result r[3];
    open_world(&w, &queued);
    for (int i = 0; i < 3; i++) {
        made_batch a = mixed_batch(&w, 100 + (uint64_t)i), b = mixed_batch(&w, 200 + (uint64_t)i);
        const lt_batch_view both[] = {a.view, b.view};
        assert_ok(lt_exec_begin(w.exec, both, 2, i + 1, 1e-3, NULL));
        if (i > 0)
            assert_ok(lt_exec_end(w.exec, &r[i - 1]));
        assert_fails(lt_exec_loss(w.exec, &a.view, &r[i].loss), LT_ERR_INTERNAL, "in flight");
        made_batch_destroy(&a);
        made_batch_destroy(&b);
    }
    assert_ok(lt_exec_end(w.exec, &r[2]));
    assert_fails(lt_exec_end(w.exec, &r[2]), LT_ERR_INTERNAL, "no step is in flight");
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&r[i].loss, &want.step[i].loss, sizeof(double));
        assert_memory_equal(&r[i].grad_norm, &want.step[i].grad_norm, sizeof(double));
    }
    close_world(&w);
}

static void no_more_steps_than_promised_are_in_flight(void **state)
{
    (void)state;
    const setup s = {.compute = LT_F32, .queues = true};
    world w;
    open_world(&w, &s);
    made_batch b = mixed_batch(&w, 1);
    for (int i = 0; i < LT_EXEC_AHEAD; i++)
        assert_ok(lt_exec_begin(w.exec, &b.view, 1, i + 1, 1e-3, NULL));
    assert_int_equal(lt_exec_in_flight(w.exec), LT_EXEC_AHEAD);
    assert_fails(lt_exec_begin(w.exec, &b.view, 1, 3, 1e-3, NULL), LT_ERR_INTERNAL, "in flight");
    made_batch_destroy(&b);
    close_world(&w);
}

static void an_early_update_changes_no_weight(void **state)
{
    for (int dtype = LT_F32; dtype <= LT_BF16; dtype++) {
        for (int policy = LT_KEEP; policy < LT_N_POLICIES; policy++) {
            const setup late = {.compute = (lt_dtype)dtype,
                                .policy = (lt_policy)policy,
                                .frozen_tower = policy == LT_LEAN,
                                .single = true};
            setup early = late;
            early.early = early.poison = true;
            const outcome want = train(*state, &late);
            outcome got = train(*state, &early);
            assert_same_update(&want, &got);
        }
    }
}

static void early_updates_in_any_legal_order_are_the_same(void **state)
{
    setup s = {.compute = LT_F32,
               .single = true,
               .early = true,
               .poison = true,
               .queues = true,
               .steps = 1};
    const outcome want = train(*state, &s);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        s.order_seed = seed;
        const outcome got = train(*state, &s);
        assert_same_bits(&got, &want);
    }
}

// Gradients live in the step pool, a unit's at a time: the tied table's all through the backward.
static void an_early_update_needs_no_memory_for_all_gradients(void **state)
{
    (void)state;
    setup s = {.compute = LT_F32, .single = true};
    lt_exec_memory m[2];
    for (int early = 0; early < 2; early++) {
        world w;
        s.early = early;
        open_world(&w, &s);
        made_batch b = mixed_batch(&w, 1);
        lt_step_result r;
        assert_ok(lt_exec_step(w.exec, &b.view, 1, 1, 1e-3, NULL, &r));
        if (early)
            assert_fails(lt_exec_gradients(w.exec, &b.view, 1, &r), LT_ERR_INTERNAL,
                         "updates early");
        m[early] = lt_exec_memory_of(w.exec);
        made_batch_destroy(&b);
        close_world(&w);
    }
    assert_true(m[0].state_part[LT_STATE_GRAD] > 0);
    assert_int_equal(m[1].state_part[LT_STATE_GRAD], 0);
    assert_true(m[1].state + m[1].step < m[0].state + m[0].step);
}

static void threads_do_not_change_a_bit(void **state)
{
    for (int dtype = LT_F32; dtype <= LT_BF16; dtype++) {
        const setup one = {.compute = (lt_dtype)dtype, .threads = 1};
        const outcome want = train(*state, &one);
        for (int threads = 2; threads <= 4; threads += 2) {
            const setup s = {.compute = (lt_dtype)dtype, .threads = threads};
            const outcome got = train(*state, &s);
            assert_same_bits(&got, &want);
        }
    }
}

static void a_hundred_legal_orders_with_poisoned_memory_change_nothing(void **state)
{
    for (int policy = LT_KEEP; policy < LT_N_POLICIES; policy++) {
        const setup plain = {.compute = LT_F32, .policy = (lt_policy)policy, .steps = 1};
        const outcome want = train(*state, &plain);
        for (uint64_t seed = 1; seed <= 34; seed++) {
            const setup s = {.compute = LT_F32,
                             .policy = (lt_policy)policy,
                             .poison = true,
                             .steps = 1,
                             .order_seed = seed};
            const outcome got = train(*state, &s);
            assert_same_bits(&got, &want);
        }
    }
}

static void a_frozen_tower_keeps_its_weights_and_costs_no_backward(void **state)
{
    const setup frozen = {.compute = LT_F32, .frozen_tower = true, .poison = true},
                whole = {.compute = LT_F32};
    const outcome a = train(*state, &frozen), b = train(*state, &whole);
    assert_true(fabs(a.step[0].loss - b.step[0].loss) < 1e-6);
    assert_true(a.step[0].grad_norm < b.step[0].grad_norm);
    world w;
    open_world(&w, &frozen);
    const lt_extents e = {{64, 2, 64, 16, 2, 20}};
    const lt_program *p = NULL;
    assert_ok(lt_exec_program(w.exec, LT_MODE_TRAIN, &e, &p));
    for (int64_t i = 0; i < p->actions.n; i++) {
        const lt_action *x = lt_action_at(p, i);
        if (x->kind == LT_ACT_BACKWARD)
            assert_null(strstr(w.model->blocks[x->subject].name, "visual"));
    }
    close_world(&w);
}

static void the_reference_in_f64_agrees_with_the_cpu(void **state)
{
    const setup ref = {.compute = LT_F64, .ref = true}, cpu = {.compute = LT_F32};
    const outcome a = train(*state, &ref), b = train(*state, &cpu);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(a.step[i].loss - b.step[i].loss) < 2e-6 * fabs(a.step[i].loss));
        assert_true(fabs(a.step[i].grad_norm - b.step[i].grad_norm) < 1e-4 * a.step[i].grad_norm);
    }
}

// The whole model's gradient along a random direction against a central difference, in f64.
static void the_gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    const setup ref = {.compute = LT_F64, .ref = true};
    world w;
    open_world(&w, &ref);
    made_batch b = mixed_batch(&w, 7);
    for (int32_t i = 0; i < w.model->n_params; i++) {
        const lt_param *p = &w.model->params[i];
        const size_t bytes = (size_t)p->n_elems * sizeof(double);
        double *value = lt_test_take(*state, bytes), *moved = lt_test_take(*state, bytes),
               *grad = lt_test_take(*state, bytes);
        lt_step_result r;
        double loss[2], slope = 0.0;
        assert_ok(lt_exec_gradients(w.exec, &b.view, 1, &r));
        assert_ok(lt_exec_read(w.exec, i, LT_STATE_GRAD, 0, p->n_elems, LT_F64, grad));
        assert_ok(lt_exec_read(w.exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F64, value));
        const double step = 1e-5;
        for (int side = 0; side < 2; side++) {
            for (int64_t k = 0; k < p->n_elems; k++)
                moved[k] = value[k] + (side ? step : -step) * lt_normal(99, (uint64_t)k);
            assert_ok(lt_exec_write(w.exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F64, moved));
            assert_ok(lt_exec_loss(w.exec, &b.view, &loss[side]));
        }
        assert_ok(lt_exec_write(w.exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F64, value));
        double scale = 0.0;
        for (int64_t k = 0; k < p->n_elems; k++) {
            slope += grad[k] * lt_normal(99, (uint64_t)k);
            scale += fabs(grad[k] * lt_normal(99, (uint64_t)k));
        }
        // The loss goes through f64, its weights and pixels through f32; the difference's own error
        // is about step^2.
        assert_near((loss[1] - loss[0]) / (2 * step), slope, 1e-5 * scale + 1e-9);
    }
    made_batch_destroy(&b);
    close_world(&w);
}

static void accumulation_over_micro_batches_is_the_sum(void **state)
{
    (void)state;
    const setup s = {.compute = LT_F32, .poison = true};
    world w;
    open_world(&w, &s);
    made_batch a = mixed_batch(&w, 1), b = mixed_batch(&w, 2);
    const lt_batch_view both[] = {a.view, b.view};
    lt_step_result ra, rb, sum;
    const int64_t n = w.model->params[w.model->embed_param].n_elems;
    float *ga = lt_test_take(*state, (size_t)n * 4), *gb = lt_test_take(*state, (size_t)n * 4),
          *gs = lt_test_take(*state, (size_t)n * 4);
    assert_ok(lt_exec_gradients(w.exec, &both[0], 1, &ra));
    assert_ok(lt_exec_read(w.exec, w.model->embed_param, LT_STATE_GRAD, 0, n, LT_F32, ga));
    assert_ok(lt_exec_gradients(w.exec, &both[1], 1, &rb));
    assert_ok(lt_exec_read(w.exec, w.model->embed_param, LT_STATE_GRAD, 0, n, LT_F32, gb));
    assert_ok(lt_exec_gradients(w.exec, both, 2, &sum));
    assert_ok(lt_exec_read(w.exec, w.model->embed_param, LT_STATE_GRAD, 0, n, LT_F32, gs));
    assert_near(sum.loss, ra.loss + rb.loss, 1e-6 * sum.loss);
    for (int64_t i = 0; i < n; i++)
        assert_near((double)gs[i], (double)ga[i] + (double)gb[i], 1e-6);
    made_batch_destroy(&a);
    made_batch_destroy(&b);
    close_world(&w);
}

static void batches_without_pictures_or_targets_run_the_same_program(void **state)
{
    (void)state;
    const setup s = {.compute = LT_F32, .poison = true};
    world w;
    open_world(&w, &s);
    const made_sample text[] = {{12, 0, 0, 0}}, silent[] = {{1, 1, 2, 2}};
    made_batch a, b;
    assert_ok(made_batch_create(&w.model->config, text, 1, 3, &a));
    assert_ok(made_batch_create(&w.model->config, silent, 1, 4, &b));
    lt_step_result r;
    assert_ok(lt_exec_step(w.exec, &a.view, 1, 1, 1e-3, NULL,
                           &r)); // the tower's gradients are zeros, not garbage
    assert_true(isfinite(r.loss) && isfinite(r.grad_norm) && r.loss > 0.0);
    assert_ok(lt_exec_step(w.exec, &b.view, 1, 2, 1e-3, NULL, &r));
    assert_true(r.loss == 0.0 && r.grad_norm == 0.0);
    const lt_batch_view both[] = {a.view, b.view};
    assert_ok(lt_exec_step(w.exec, both, 2, 3, 1e-3, NULL, &r));
    assert_true(isfinite(r.loss) && isfinite(r.grad_norm));
    made_batch_destroy(&a);
    made_batch_destroy(&b);
    close_world(&w);
}

static void a_batch_that_breaks_the_rules_is_refused(void **state)
{
    (void)state;
    const setup s = {.compute = LT_F32};
    world w;
    open_world(&w, &s);
    made_batch b = mixed_batch(&w, 1);
    lt_step_result r;
    ((int32_t *)b.view.value[LT_BATCH_IDS].data)[2] = (int32_t)w.model->vocab;
    assert_fails(lt_exec_step(w.exec, &b.view, 1, 1, 1e-3, NULL, &r), LT_ERR_DATA, "ids[2]");
    made_batch_destroy(&b);
    close_world(&w);
}

LT_TEST_MAIN(LT_TEST(every_policy_gives_the_bits_of_keep),
             LT_TEST(inputs_that_wait_on_the_host_come_back_as_they_were),
             LT_TEST(inputs_on_the_host_survive_every_legal_order),
             LT_TEST(a_state_on_the_host_gives_the_same_bits),
             LT_TEST(sums_on_the_host_agree_with_those_on_the_device),
             LT_TEST(a_state_on_the_host_survives_every_legal_order),
             LT_TEST(threads_do_not_change_a_bit),
             LT_TEST(a_hundred_legal_orders_with_poisoned_memory_change_nothing),
             LT_TEST(steps_in_flight_give_the_same_bits),
             LT_TEST(no_more_steps_than_promised_are_in_flight),
             LT_TEST(an_early_update_changes_no_weight),
             LT_TEST(early_updates_in_any_legal_order_are_the_same),
             LT_TEST(an_early_update_needs_no_memory_for_all_gradients),
             LT_TEST(a_frozen_tower_keeps_its_weights_and_costs_no_backward),
             LT_TEST(the_reference_in_f64_agrees_with_the_cpu),
             LT_TEST(the_gradient_is_the_slope_of_the_loss),
             LT_TEST(accumulation_over_micro_batches_is_the_sum),
             LT_TEST(batches_without_pictures_or_targets_run_the_same_program),
             LT_TEST(a_batch_that_breaks_the_rules_is_refused))
