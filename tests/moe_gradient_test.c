// SPDX-License-Identifier: Apache-2.0
// A model with experts as a whole: its gradients in f64 against differences of its loss (with the
// balance loss of all layers), the CPU in f32 against f64, and bits that nothing may change.
#include "base/rng.h"
#include "base/text.h"
#include "exec/exec.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"
#include <math.h>
#include <string.h>

// Six experts of which three are picked; layers 0, 2, 3 and 4 are sparse, the first with deepstack.
static const char fields[] =
    "\"text_config\": {\"num_experts\": 6, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": "
    "12, \"mlp_only_layers\": [1], \"norm_topk_prob\": ";

typedef struct setup {
    lt_dtype compute;
    bool renormalise, poison;
    bool equal; // the router's scores: the first three experts get every token, the others none
    lt_policy policy;
    int threads;
    uint64_t order_seed;
} setup;

typedef struct world {
    lt_pool *pool;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
    made_batch batch;
    lt_batch_view view;
    float balance;
} world;

static lt_model *make_model(void *state, bool renormalise)
{
    char *text_config = NULL;
    lt_model_config config;
    lt_model *model = NULL;
    assert_ok(
        lt_arena_printf(state, &text_config, "%s%s, ", fields, renormalise ? "true" : "false"));
    const char *text =
        lt_test_replace(state, lt_qwen_odd_config, "\"qwen3_vl\"", "\"qwen3_vl_moe\"");
    text = lt_test_replace(state, text, "\"text_config\": {", text_config);
    assert_ok(lt_model_config_parse(text, strlen(text), "odd", NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &model));
    return model;
}

static void fill(const world *w, void *state, bool equal)
{
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        float *values = lt_test_take(state, (size_t)p->n_elems * sizeof *values);
        lt_model_init_values(p, 5, 0, p->n_elems, values);
        for (int64_t k = 0; k < p->n_elems; k++) // larger than a real start: every path shows
            values[k] += 0.1F * (float)lt_normal(lt_rng_key(11, p->name), (uint64_t)k);
        if (equal && lt_text_ends(p->name, "mlp.gate.weight"))
            memset(values, 0, (size_t)p->n_elems * sizeof *values);
        assert_ok(lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, values));
    }
}

static void open_world(world *w, void *state, const setup *s)
{
    static const made_sample samples[] = {{9, 1, 4, 2}, {5, 0, 0, 0}, {6, 2, 2, 4}};
    *w = (world){.model = make_model(state, s->renormalise), .balance = 0.3F};
    assert_ok(lt_units_create(w->model, NULL, 0, NULL, &w->units));
    assert_ok(lt_pool_create(s->threads ? s->threads : 1, &w->pool));
    assert_ok(s->compute == LT_F64 ? lt_ref_open(&w->device) : lt_cpu_open(w->pool, &w->device));
    lt_policy policy[256];
    for (int32_t b = 0; b < w->model->n_blocks; b++)
        policy[b] = s->policy;
    const lt_exec_opts o = {.device = w->device,
                            .model = w->model,
                            .units = w->units,
                            .compute = s->compute,
                            .training = true,
                            .policy = policy,
                            .poison = s->poison,
                            .order_seed = s->order_seed,
                            .adamw = {.lr_scale = 1.0}};
    assert_ok(lt_exec_create(&o, &w->exec));
    fill(w, state, s->equal);
    assert_ok(made_batch_create(&w->model->config, samples, 3, 7, &w->batch));
    w->view = w->batch.view;
    w->view.value[LT_BATCH_BALANCE].data = &w->balance;
}

static void close_world(world *w)
{
    made_batch_destroy(&w->batch);
    lt_exec_destroy(w->exec);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
    lt_device_close(w->device);
    lt_pool_destroy(w->pool);
}

static double *read_part(void *state, const world *w, int32_t param, lt_state_part part)
{
    const int64_t n = w->model->params[param].n_elems;
    double *values = lt_test_take(state, (size_t)n * sizeof *values);
    assert_ok(lt_exec_read(w->exec, param, part, 0, n, LT_F64, values));
    return values;
}

// The loss with a parameter moved by h along a direction.
static double moved_loss(world *w, void *state, int32_t param, const double *at, double h)
{
    const lt_param *p = &w->model->params[param];
    double loss = 0.0, *x = lt_test_take(state, (size_t)p->n_elems * sizeof *x);
    for (int64_t k = 0; k < p->n_elems; k++)
        x[k] = at[k] + h * lt_normal(lt_rng_key(23, p->name), (uint64_t)k);
    assert_ok(lt_exec_write(w->exec, param, LT_STATE_VALUE, 0, p->n_elems, LT_F64, x));
    assert_ok(lt_exec_loss(w->exec, &w->view, &loss));
    return loss;
}

static void check_param(world *w, void *state, int32_t param)
{
    const double h = 1e-6;
    const lt_param *p = &w->model->params[param];
    const double *at = read_part(state, w, param, LT_STATE_VALUE),
                 *grad = read_part(state, w, param, LT_STATE_GRAD);
    double slope = 0.0, size = 0.0;
    for (int64_t k = 0; k < p->n_elems; k++) {
        slope += grad[k] * lt_normal(lt_rng_key(23, p->name), (uint64_t)k);
        size += grad[k] * grad[k];
    }
    const double up = moved_loss(w, state, param, at, h),
                 down = moved_loss(w, state, param, at, -h);
    assert_ok(lt_exec_write(w->exec, param, LT_STATE_VALUE, 0, p->n_elems, LT_F64, at));
    const double numeric = (up - down) / (2.0 * h);
    if (!(fabs(numeric - slope) <= 1e-5 * sqrt(size) + 1e-8))
        fail_msg("%s: slope %.12g, by differences %.12g", p->name, slope, numeric);
}

static void all_gradients_are_those_of_the_loss(void **state)
{
    for (int renormalise = 0; renormalise < 2; renormalise++) {
        world w;
        lt_step_result r;
        open_world(&w, *state, &(setup){.compute = LT_F64, .renormalise = renormalise});
        assert_ok(lt_exec_gradients(w.exec, &w.view, 1, &r));
        assert_true(r.balance > 0.0);
        double loss = 0.0;
        assert_ok(lt_exec_loss(w.exec, &w.view, &loss));
        assert_near(loss, r.loss, 1e-12);
        for (int32_t i = 0; i < w.model->n_params; i++) {
            if (w.model->params[i].trainable &&
                (renormalise || strstr(w.model->params[i].name, ".mlp.")))
                check_param(&w, *state, i);
        }
        close_world(&w);
    }
}

static void the_cpu_agrees_with_the_reference(void **state)
{
    for (int i = 0; i < 3; i++) {
        world a, b;
        lt_step_result x, y;
        setup s = {.compute = LT_F32, .renormalise = i > 0, .equal = i > 1};
        open_world(&a, *state, &s);
        s.compute = LT_F64;
        open_world(&b, *state, &s);
        assert_ok(lt_exec_gradients(a.exec, &a.view, 1, &x));
        assert_ok(lt_exec_gradients(b.exec, &b.view, 1, &y));
        assert_near(x.loss, y.loss, 1e-6 * fabs(y.loss));
        assert_near(x.balance, y.balance, 1e-6 * y.balance);
        for (int32_t n = 0; n < a.model->n_params; n++) {
            const lt_param *p = &a.model->params[n];
            if (!p->trainable)
                continue;
            const double *got = read_part(*state, &a, n, LT_STATE_GRAD),
                         *want = read_part(*state, &b, n, LT_STATE_GRAD);
            double most = 0.0, off = 0.0;
            for (int64_t k = 0; k < p->n_elems; k++) {
                most = fmax(most, fabs(want[k]));
                off = fmax(off, fabs(got[k] - want[k]));
            }
            if (!(off <= 5e-5 * most + 1e-9))
                fail_msg("%s: off by %g of %g", p->name, off, most);
        }
        close_world(&a);
        close_world(&b);
    }
}

// Equal scores: of each token's experts the lower numbers win. Who gets nothing has no gradient.
static void of_equal_scores_the_first_experts_get_all_and_the_others_no_gradient(void **state)
{
    world w;
    lt_step_result r;
    int64_t seen = 0;
    open_world(&w, *state, &(setup){.compute = LT_F32, .renormalise = true, .equal = true});
    assert_ok(lt_exec_gradients(w.exec, &w.view, 1, &r));
    const double tokens = (double)w.view.extents.n[LT_EXT_TOKENS];
    for (int64_t l = 0; l < r.use.layers; l++)
        for (int64_t e = 0; e < r.use.experts; e++)
            assert_near(lt_expert_picks(&r.use, l, e), e < 3 ? tokens : 0.0, 0);
    for (int32_t i = 0; i < w.model->n_params; i++) {
        const lt_param *p = &w.model->params[i];
        if (!strstr(p->name, ".mlp.experts."))
            continue;
        const double *grad = read_part(*state, &w, i, LT_STATE_GRAD);
        for (int64_t k = 0, half = p->n_elems / 2; k < half; k++)
            assert_true(grad[half + k] == 0.0);
        seen++;
    }
    assert_int_equal(seen, 8); // two matrices in each of four layers
    close_world(&w);
}

// All gradients of a run, one behind the other.
static float *gradients(void *state, const setup *s, lt_step_result *r)
{
    world w;
    open_world(&w, state, s);
    assert_ok(lt_exec_gradients(w.exec, &w.view, 1, r));
    float *all = lt_test_take(state, (size_t)lt_model_total(w.model, false) * sizeof *all);
    for (int64_t i = 0, at = 0; i < w.model->n_params; i++) {
        const lt_param *p = &w.model->params[i];
        if (!p->trainable)
            continue;
        assert_ok(lt_exec_read(w.exec, (int32_t)i, LT_STATE_GRAD, 0, p->n_elems, LT_F32, all + at));
        at += p->n_elems;
    }
    close_world(&w);
    return all;
}

static void policies_orders_and_threads_change_no_bit(void **state)
{
    static const setup others[] = {
        {.policy = LT_LEAN, .poison = true, .threads = 2},
        {.policy = LT_FULL, .poison = true, .threads = 4},
        {.policy = LT_KEEP, .poison = true, .threads = 2, .order_seed = 3},
        {.policy = LT_FULL, .poison = true, .threads = 1, .order_seed = 4},
    };
    for (int n = 0; n < 3; n++) {
        lt_step_result want, got;
        const setup plain = {
            .compute = n == 1 ? LT_BF16 : LT_F32, .renormalise = true, .equal = n == 2};
        lt_model *m = make_model(*state, true);
        size_t bytes = 0;
        for (int32_t i = 0; i < m->n_params; i++)
            bytes += m->params[i].trainable ? (size_t)m->params[i].n_elems * sizeof(float) : 0;
        lt_model_destroy(m);
        const float *a = gradients(*state, &plain, &want);
        const size_t runs = plain.equal ? 2 : sizeof others / sizeof *others;
        for (size_t i = 0; i < runs; i++) {
            setup s = others[i];
            s.compute = plain.compute;
            s.renormalise = true;
            s.equal = plain.equal;
            const float *b = gradients(*state, &s, &got);
            assert_memory_equal(a, b, bytes);
            assert_true(got.loss == want.loss && got.balance == want.balance);
        }
    }
}

LT_TEST_MAIN(LT_TEST(all_gradients_are_those_of_the_loss),
             LT_TEST(the_cpu_agrees_with_the_reference),
             LT_TEST(of_equal_scores_the_first_experts_get_all_and_the_others_no_gradient),
             LT_TEST(policies_orders_and_threads_change_no_bit))
