// SPDX-License-Identifier: Apache-2.0
#include "exec/trace.h"

#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"

#include <string.h>

typedef struct world {
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
    lt_trace *trace;
    made_batch batch;
} world;

static void open_world(world *w)
{
    const made_sample samples[] = {{9, 1, 4, 2}, {5, 0, 0, 0}};
    lt_model_config config;
    *w = (world){0};
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w->model));
    assert_ok(lt_units_create(w->model, NULL, 0, NULL, &w->units));
    assert_ok(lt_cpu_open(NULL, &w->device));
    assert_ok(lt_trace_create(w->device, &w->trace));
    const lt_exec_opts o = {.device = w->device,
                            .model = w->model,
                            .units = w->units,
                            .compute = LT_F32,
                            .training = true,
                            .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .lr_scale = 1.0},
                            .watch = lt_trace_watch(w->trace)};
    assert_ok(lt_exec_create(&o, &w->exec));
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        void *memory = NULL;
        assert_ok(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(float), "weights"));
        lt_model_init_values(p, 5, 0, p->n_elems, memory);
        assert_ok(lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, memory));
        lt_mem_free(memory);
    }
    assert_ok(made_batch_create(&w->model->config, samples, 2, 1, &w->batch));
}

static void close_world(world *w)
{
    made_batch_destroy(&w->batch);
    lt_exec_destroy(w->exec);
    lt_trace_destroy(w->trace);
    lt_device_close(w->device);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
}

static void step(const world *w, int64_t number)
{
    lt_step_result r;
    assert_ok(lt_exec_step(w->exec, &w->batch.view, 1, number, 1e-3, NULL, &r));
}

static void nothing_is_recorded_outside_the_window(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    step(&w, 1);
    assert_int_equal(lt_trace_spans(w.trace)->n, 0);
    lt_trace_start(w.trace);
    step(&w, 2);
    assert_ok(lt_trace_stop(w.trace));
    const int64_t n = lt_trace_spans(w.trace)->n;
    assert_true(n > 0);
    step(&w, 3);
    assert_int_equal(lt_trace_spans(w.trace)->n, n);
    close_world(&w);
}

// A kernel lies in the action before it; on one device of one queue actions follow each other.
static void kernels_lie_in_their_actions(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    lt_trace_start(w.trace);
    step(&w, 1);
    assert_ok(lt_trace_stop(w.trace));
    const lt_vec *spans = lt_trace_spans(w.trace);
    const lt_trace_span *action = &LT_AT(spans, lt_trace_span, 0); // an action is the first
    double end = 0.0;
    assert_null(action->op);
    for (int64_t i = 0; i < spans->n; i++) {
        const lt_trace_span *s = &LT_AT(spans, lt_trace_span, i);
        assert_true(s->begin_s >= 0.0 && s->end_s >= s->begin_s);
        if (s->op) {
            assert_true(s->begin_s >= action->begin_s && s->end_s <= action->end_s);
            assert_ptr_equal(s->subject, action->subject);
        } else {
            assert_true(s->begin_s >= end);
            end = s->end_s;
            action = s;
        }
    }
    lt_trace_share share;
    assert_ok(lt_trace_busy(w.trace, &share));
    assert_true(share.computing > 0.0 && share.computing <= share.all);
    close_world(&w);
}

static void sums_add_up(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    lt_trace_start(w.trace);
    step(&w, 1);
    assert_ok(lt_trace_stop(w.trace));
    const lt_vec *spans = lt_trace_spans(w.trace);
    lt_vec sums[2] = {LT_VEC_OF(lt_trace_sum), LT_VEC_OF(lt_trace_sum)};
    assert_ok(lt_trace_by_kernel(w.trace, &sums[0]));
    assert_ok(lt_trace_by_action(w.trace, &sums[1]));
    int64_t calls = 0;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < sums[k].n; i++)
            calls += LT_AT(&sums[k], lt_trace_sum, i).calls;
        lt_vec_deinit(&sums[k]);
    }
    assert_int_equal(calls, spans->n);
    close_world(&w);
}

LT_TEST_MAIN(LT_TEST(nothing_is_recorded_outside_the_window), LT_TEST(kernels_lie_in_their_actions),
             LT_TEST(sums_add_up))
