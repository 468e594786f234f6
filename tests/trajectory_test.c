// SPDX-License-Identifier: Apache-2.0
// BR-40: fifty steps of a tiny Qwen3-VL, the fused projection and loss on the CPU in f32 beside the
// reference in f64, and at every step beside the plain way: all logits, then softmax. Weights are
// compared, not only losses.
#include "exec/exec.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"
#include <math.h>
#include <string.h>

enum { STEPS = 50, BATCHES = 4 };

typedef struct world {
    lt_pool *pool;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
} world;

static void open_world(world *w, void *state, lt_dtype compute)
{
    lt_model_config config;
    *w = (world){0};
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w->model));
    assert_ok(lt_units_create(w->model, NULL, 0, NULL, &w->units));
    assert_ok(lt_pool_create(2, &w->pool));
    assert_ok(compute == LT_F64 ? lt_ref_open(&w->device) : lt_cpu_open(w->pool, &w->device));
    const lt_exec_opts o = {.device = w->device,
                            .model = w->model,
                            .units = w->units,
                            .compute = compute,
                            .training = true,
                            .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .lr_scale = 1.0},
                            .clip_grad = 1.0};
    assert_ok(lt_exec_create(&o, &w->exec));
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        float *values = lt_test_take(state, (size_t)p->n_elems * sizeof *values);
        lt_model_init_values(p, 5, 0, p->n_elems, values);
        assert_ok(lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, values));
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

// sum of kappa (log sum exp z - z[target]) over logits that all exist.
static double plain_loss(world *w, const lt_batch_view *v)
{
    lt_tensor z;
    assert_ok(lt_exec_logits(w->exec, v, &z));
    const int32_t *targets = v->value[LT_BATCH_TARGETS].data;
    const float *kappa = v->value[LT_BATCH_KAPPA].data;
    const int64_t vocab = w->model->vocab;
    double loss = 0.0;
    for (int64_t t = 0; t < v->extents.n[LT_EXT_TARGETS]; t++) {
        double most = -HUGE_VAL, sum = 0.0;
        for (int64_t k = 0; k < vocab; k++)
            most = fmax(most, lt_load(&z, t * vocab + k));
        for (int64_t k = 0; k < vocab; k++)
            sum += exp(lt_load(&z, t * vocab + k) - most);
        loss += (double)kappa[t] * (most + log(sum) - lt_load(&z, t * vocab + targets[t]));
    }
    return loss;
}

// Largest difference over largest magnitude of the worst parameter.
static double weights_apart(void *state, world *a, world *b)
{
    double worst = 0.0;
    for (int32_t i = 0; i < a->model->n_params; i++) {
        const int64_t n = a->model->params[i].n_elems;
        double *x = lt_test_take(state, (size_t)n * sizeof *x);
        double *y = lt_test_take(state, (size_t)n * sizeof *y);
        assert_ok(lt_exec_read(a->exec, i, LT_STATE_VALUE, 0, n, LT_F64, x));
        assert_ok(lt_exec_read(b->exec, i, LT_STATE_VALUE, 0, n, LT_F64, y));
        double apart = 0.0, most = 0.0;
        for (int64_t k = 0; k < n; k++) {
            apart = fmax(apart, fabs(x[k] - y[k]));
            most = fmax(most, fabs(y[k]));
        }
        worst = fmax(worst, apart / fmax(most, 1e-30));
    }
    return worst;
}

static void fifty_steps_of_the_fused_loss_follow_the_plain_way(void **state)
{
    const made_sample samples[] = {{9, 1, 4, 2}, {14, 0, 0, 0}};
    made_batch batches[BATCHES];
    world cpu, ref;
    open_world(&cpu, *state, LT_F32);
    open_world(&ref, *state, LT_F64);
    for (int i = 0; i < BATCHES; i++)
        assert_ok(made_batch_create(&cpu.model->config, samples, 2, 10 + (uint64_t)i, &batches[i]));
    double first = 0.0, last = 0.0, losses = 0.0, norms = 0.0, apart[2] = {0};
    for (int step = 0; step < STEPS; step++) {
        const lt_batch_view *v = &batches[step % BATCHES].view;
        lt_step_result a, b;
        const double plain = plain_loss(&cpu, v);
        assert_ok(lt_exec_step(cpu.exec, v, 1, step + 1, 2e-3, NULL, &a));
        assert_ok(lt_exec_step(ref.exec, v, 1, step + 1, 2e-3, NULL, &b));
        assert_near(a.loss, plain, 1e-6 * plain);
        losses = fmax(losses, fabs(a.loss - b.loss) / b.loss);
        norms = fmax(norms, fabs(a.grad_norm - b.grad_norm) / b.grad_norm);
        first = step == 0 ? b.loss : first;
        last = b.loss;
        if (step == 9 || step == STEPS - 1)
            apart[step > 9] = weights_apart(*state, &cpu, &ref);
    }
    print_message("loss %.3f to %.3f; apart at most: loss %.1e, norm %.1e, weights %.1e after 10 "
                  "steps, %.1e after %d\n",
                  first, last, losses, norms, apart[0], apart[1], (int)STEPS);
    // A few times what was measured. AdamW divides gradients by their own size, so that rounding in
    // the smallest moves weights by a share of the rate.
    assert_true(last < 0.7 * first);
    assert_true(losses < 1e-5 && norms < 5e-4);
    assert_true(apart[0] < 3e-3 && apart[1] < 3e-3);
    for (int i = 0; i < BATCHES; i++)
        made_batch_destroy(&batches[i]);
    close_world(&cpu);
    close_world(&ref);
}

LT_TEST_MAIN(LT_TEST(fifty_steps_of_the_fused_loss_follow_the_plain_way))
