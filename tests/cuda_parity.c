// SPDX-License-Identifier: Apache-2.0
// cuda_parity: whole steps of small Qwen3-VLs on the GPU beside the same steps on the CPU: every
// gradient, five AdamW steps, with text alone and with pictures, in f32 and bf16. Then what must
// not change a bit on the GPU: policies, a second run, random legal orders of the program with
// freed memory poisoned. Exit code 1 when something is outside its limit, 77 when there is no GPU.
#include "exec/exec.h"

#include "base/rng.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 5, ORDERS = 12 };

// grad: largest difference over the tensor's largest magnitude; moved: |difference of weights| over
// |how far training moved them|. f32: sums in another order, through a dozen layers (an H200 stays
// below a fifth). bf16: both machines round activations to 2^-8, not always alike; the norms are
// those of weights that five such steps have led apart (each is up to 1e-2 from the f32 curve).
typedef struct limits {
    double loss, grad, norm, moved;
} limits;
static const limits limits_of[] = {
    [LT_F32] = {1e-6, 2e-5, 2e-6, 1e-4}, [LT_BF16] = {1e-3, 4e-2, 4e-2, 1e-1}};

typedef struct tally {
    int passed, failed;
} tally;

static void judge(tally *t, const char *where, const char *what, double error, double limit)
{
    const bool ok = error <= limit; // false for a NaN
    ok ? t->passed++ : t->failed++;
    printf("%s %s %s: %.3g (limit %.3g)\n", ok ? "ok  " : "FAIL", where, what, error, limit);
}

// ---- models and batches

/*
 * Widths as published models have them: heads of 128 and 72, more tokens than a tile, a loss in
 * chunks.
 */
static const char wide_config[] =
    "{\"model_type\": \"qwen3_vl\", \"tie_word_embeddings\": false, \"image_token_id\": 9000,\n"
    "\"video_token_id\": 9001, \"vision_start_token_id\": 9002, \"vision_end_token_id\": 9003,\n"
    "\"text_config\": {\"hidden_size\": 512, \"intermediate_size\": 1536, \"num_hidden_layers\": "
    "2,\n"
    "  \"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"head_dim\": 128,\n"
    "  \"vocab_size\": 9100, \"rms_norm_eps\": 1e-06, \"pad_token_id\": null,\n"
    "  \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5000000.0,\n"
    "    \"mrope_section\": [24, 20, 20], \"mrope_interleaved\": true}},\n"
    "\"vision_config\": {\"depth\": 2, \"hidden_size\": 288, \"intermediate_size\": 430, "
    "\"num_heads\": 4,\n"
    "  \"in_channels\": 3, \"patch_size\": 16, \"spatial_merge_size\": 2, \"temporal_patch_size\": "
    "2,\n"
    "  \"out_hidden_size\": 512, \"num_position_embeddings\": 256, \"deepstack_visual_indexes\": "
    "[0],\n"
    "  \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"axial\"}}}\n";

enum { SAMPLES = 3 };
typedef struct subject {
    const char *name, *config;
    made_sample samples[SAMPLES];
    bool orders; /* small enough for many runs */
} subject;
static const subject subjects[] = {
    {"text", lt_qwen_odd_config, {{9, 0, 0, 0}, {33, 0, 0, 0}, {2, 0, 0, 0}}, true},
    {"pictures", lt_qwen_odd_config, {{9, 1, 4, 2}, {25, 0, 0, 0}, {6, 2, 2, 4}}, true},
    {"wide", wide_config, {{700, 1, 16, 12}, {400, 0, 0, 0}, {100, 2, 8, 10}}, false},
};

// ---- a model in an executor

typedef struct setup {
    const subject *subject;
    lt_device *device;
    lt_dtype compute;
    lt_policy policy;
    bool poison;
    uint64_t order_seed;
    bool single, early; // steps of one micro-batch, nothing clipped; units updated early
} setup;

typedef struct world {
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
} world;

static void close_world(world *w)
{
    lt_exec_destroy(w->exec);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
    *w = (world){0};
}

// Weights larger than a real start, so that every gradient path shows.
static lt_status write_weights(const world *w)
{
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        void *memory = NULL;
        LT_TRY(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(float), "weights"));
        float *value = memory;
        lt_model_init_values(p, 5, 0, p->n_elems, value);
        for (int64_t k = 0; k < p->n_elems; k++)
            value[k] += 0.05F * (float)lt_normal(lt_rng_key(11, p->name), (uint64_t)k);
        const lt_status st =
            lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, value);
        lt_mem_free(memory);
        LT_TRY(st);
    }
    return LT_OK;
}

static lt_status open_parts(const setup *s, world *w)
{
    lt_model_config config;
    const char *units[] = {"model.language_model.layers.{*}", "model.visual",
                           "model.language_model.embed_tokens"};
    const char *text = s->subject->config;
    LT_TRY(lt_model_config_parse(text, strlen(text), s->subject->name, NULL, &config));
    config.text.deterministic = config.vision.deterministic = true;
    LT_TRY(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w->model));
    LT_TRY(lt_units_create(w->model, units, 3, NULL, &w->units));
    lt_policy policy[LT_MAX_BLOCKS];
    for (int32_t b = 0; b < w->model->n_blocks; b++)
        policy[b] = s->policy;
    const lt_exec_opts o = {
        .device = s->device,
        .model = w->model,
        .units = w->units,
        .compute = s->compute,
        .training = true,
        .policy = policy,
        .forward_prefetch = 1,
        // eps: a gradient that is zero but for rounding shall not move its
        // weight
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-5, .weight_decay = 0.01, .lr_scale = 1.0},
        .clip_grad = s->single ? 0.0 : 1.0,
        .update_early = s->early,
        .poison = s->poison,
        .order_seed = s->order_seed};
    LT_TRY(lt_exec_create(&o, &w->exec));
    return write_weights(w);
}

static lt_status open_world(const setup *s, world *w)
{
    *w = (world){0};
    const lt_status st = open_parts(s, w);
    if (st != LT_OK)
        close_world(w);
    return st;
}

// ---- what a run gives

typedef struct outcome {
    double first_loss;       // of the forward alone
    lt_step_result gradient; // its norm is left undefined
    lt_step_result step[STEPS];
    double *grad, *before, *after; // [n] all parameters, one after another
    int64_t n;
} outcome;

static lt_status read_all(const world *w, lt_state_part part, double *to)
{
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const int64_t n = w->model->params[i].n_elems;
        if (lt_exec_has(w->exec, i, part))
            LT_TRY(lt_exec_read(w->exec, i, part, 0, n, LT_F64, to));
        to += n;
    }
    return LT_OK;
}

static lt_status run_steps(const world *w, const made_sample *samples, outcome *out)
{
    made_batch a = {0}, b = {0};
    lt_status st;
    LT_TRY_GOTO(st, made_batch_create(&w->model->config, samples, SAMPLES, 100, &a), done);
    LT_TRY_GOTO(st, made_batch_create(&w->model->config, samples, SAMPLES - 1, 200, &b), done);
    const lt_batch_view both[] = {a.view, b.view};
    LT_TRY_GOTO(st, read_all(w, LT_STATE_VALUE, out->before), done);
    LT_TRY_GOTO(st, lt_exec_loss(w->exec, &both[0], &out->first_loss), done);
    LT_TRY_GOTO(st, lt_exec_gradients(w->exec, both, 2, &out->gradient), done);
    LT_TRY_GOTO(st, read_all(w, LT_STATE_GRAD, out->grad), done);
    for (int64_t i = 0; i < STEPS; i++)
        LT_TRY_GOTO(st, lt_exec_step(w->exec, both, 2, i + 1, 1e-3, NULL, &out->step[i]), done);
    st = read_all(w, LT_STATE_VALUE, out->after);
done:
    made_batch_destroy(&a);
    made_batch_destroy(&b);
    return st;
}

static lt_status run(const setup *s, lt_arena *arena, outcome *out)
{
    world w;
    void *memory = NULL;
    *out = (outcome){0};
    LT_TRY(open_world(s, &w));
    out->n = lt_model_total(w.model, false);
    lt_status st = lt_arena_take(arena, (size_t)out->n * 3 * sizeof(double), &memory);
    if (st == LT_OK) {
        out->grad = memory;
        out->before = out->grad + out->n;
        out->after = out->before + out->n;
        st = run_steps(&w, s->subject->samples, out);
    }
    close_world(&w);
    return st;
}

// ---- comparisons

static double relative(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-30);
}

static double norm_of(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++)
        sum += x[k] * x[k];
    return sqrt(sum);
}

static void compare_gradients(tally *t, const char *where, const lt_model *m, const outcome *gpu,
                              const outcome *cpu, double limit)
{
    const double *g = gpu->grad, *c = cpu->grad;
    const double floor = 1e-4 * norm_of(cpu->grad, cpu->n);
    double worst = 0.0;
    const char *name = "none";
    for (int32_t i = 0; i < m->n_params; i++) {
        const int64_t n = m->params[i].n_elems;
        double most = 0.0, magnitude = 0.0;
        for (int64_t k = 0; k < n; k++) {
            const double d = fabs(g[k] - c[k]);
            most = d > most || isnan(d) ? d : most;
            magnitude = fmax(magnitude, fabs(c[k]));
        }
        // A tensor whose gradient is nothing beside the others' (keys' biases: rounding alone) is
        // held to the others.
        const double error = most / fmax(magnitude, floor);
        if (error > worst || isnan(error)) {
            worst = error;
            name = m->params[i].name;
        }
        g += n, c += n;
    }
    char what[600];
    (void)snprintf(what, sizeof what, "gradients of %d parameters, worst %s", m->n_params, name);
    judge(t, where, what, worst, limit);
}

static void compare_outcomes(tally *t, const char *where, const lt_model *m, const outcome *gpu,
                             const outcome *cpu, limits limit)
{
    double loss = 0.0, norm = 0.0, apart = 0.0, moved = 0.0;
    judge(t, where, "loss (forward)", relative(gpu->first_loss, cpu->first_loss), limit.loss);
    judge(t, where, "loss (training)", relative(gpu->gradient.loss, cpu->gradient.loss),
          limit.loss);
    compare_gradients(t, where, m, gpu, cpu, limit.grad);
    for (int i = 0; i < STEPS; i++) {
        loss = fmax(loss, relative(gpu->step[i].loss, cpu->step[i].loss));
        norm = fmax(norm, relative(gpu->step[i].grad_norm, cpu->step[i].grad_norm));
    }
    judge(t, where, "loss of five AdamW steps", loss, 5 * limit.loss);
    judge(t, where, "gradient norm of five AdamW steps", norm, limit.norm);
    judge(t, where, "the fifth loss is below the first",
          gpu->step[STEPS - 1].loss / gpu->step[0].loss, 0.999);
    for (int64_t k = 0; k < gpu->n; k++) {
        apart += (gpu->after[k] - cpu->after[k]) * (gpu->after[k] - cpu->after[k]);
        moved += (cpu->after[k] - cpu->before[k]) * (cpu->after[k] - cpu->before[k]);
    }
    judge(t, where, "weights after five AdamW steps", sqrt(apart / moved), limit.moved);
}

static bool same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0; // of numbers on purpose: 0 and -0 differ
}

static double different_bits(const outcome *a, const outcome *b)
{
    const size_t bytes = (size_t)a->n * sizeof(double);
    const bool same = same_bits(&a->first_loss, &b->first_loss, sizeof a->first_loss) &&
                      same_bits(&a->gradient.loss, &b->gradient.loss, sizeof a->gradient.loss) &&
                      same_bits(a->step, b->step, sizeof a->step) &&
                      same_bits(a->grad, b->grad, bytes) && same_bits(a->after, b->after, bytes);
    return same ? 0.0 : 1.0;
}

// want: the plain run's. s: the plain run's setup.
static lt_status check_bits(tally *t, const char *where, setup s, lt_arena *arena,
                            const outcome *want)
{
    char what[64];
    outcome got;
    s.poison = true;
    for (int policy = LT_KEEP; policy < LT_N_POLICIES; policy++) {
        s.policy = (lt_policy)policy;
        LT_TRY(run(&s, arena, &got));
        (void)snprintf(what, sizeof what, "same bits by policy %s", lt_policy_name(s.policy));
        judge(t, where, what, different_bits(&got, want), 0.0);
    }
    if (!s.subject->orders)
        return LT_OK;
    double different = 0.0;
    for (s.order_seed = 1; s.order_seed <= ORDERS; s.order_seed++) {
        s.policy = (lt_policy)(s.order_seed % LT_N_POLICIES);
        LT_TRY(run(&s, arena, &got));
        different += different_bits(&got, want);
    }
    (void)snprintf(what, sizeof what, "same bits in %d random orders, memory poisoned",
                   (int)ORDERS);
    judge(t, where, what, different, 0.0);
    return LT_OK;
}

// Steps of one micro-batch, as the trainer runs them: one is begun before the one before it ends.
static lt_status run_in_flight(const world *w, const made_sample *samples, outcome *out)
{
    made_batch a = {0};
    lt_status st = made_batch_create(&w->model->config, samples, SAMPLES, 100, &a);
    for (int64_t i = 0; st == LT_OK && i < STEPS; i++) {
        st = lt_exec_begin(w->exec, &a.view, 1, i + 1, 1e-3, NULL);
        if (st == LT_OK && i > 0)
            st = lt_exec_end(w->exec, &out->step[i - 1]);
    }
    if (st == LT_OK)
        st = lt_exec_end(w->exec, &out->step[STEPS - 1]);
    if (st == LT_OK)
        st = read_all(w, LT_STATE_VALUE, out->after);
    made_batch_destroy(&a);
    return st;
}

static lt_status run_single(setup s, lt_arena *arena, outcome *out)
{
    world w;
    void *memory = NULL;
    *out = (outcome){0};
    s.single = true;
    LT_TRY(open_world(&s, &w));
    out->n = lt_model_total(w.model, false);
    lt_status st = lt_arena_take(arena, (size_t)out->n * sizeof(double), &memory);
    out->after = memory;
    if (st == LT_OK)
        st = run_in_flight(&w, s.subject->samples, out);
    close_world(&w);
    return st;
}

// A unit's update right after its gradients gives the weights of an update at the end.
static lt_status check_early(tally *t, const char *where, setup s, lt_arena *arena)
{
    outcome late, early;
    double norm = 0.0;
    LT_TRY(run_single(s, arena, &late));
    s.early = s.poison = true;
    LT_TRY(run_single(s, arena, &early));
    const size_t bytes = (size_t)late.n * sizeof(double);
    judge(t, where, "same weights by an early update",
          same_bits(late.after, early.after, bytes) ? 0.0 : 1.0, 0.0);
    for (int i = 0; i < STEPS; i++)
        norm = fmax(norm, relative(early.step[i].grad_norm, late.step[i].grad_norm));
    judge(t, where, "its gradient norm", norm, 1e-12);
    return LT_OK;
}

static lt_status check_case(tally *t, const char *where, setup g, lt_device *cpu)
{
    lt_arena *arena = NULL;
    world names = {0};
    outcome on_gpu, on_cpu;
    lt_status st;
    setup c = g;
    c.device = cpu;
    LT_TRY(lt_arena_create(&arena, "outcomes"));
    LT_TRY_GOTO(st, run(&c, arena, &on_cpu), done);
    LT_TRY_GOTO(st, run(&g, arena, &on_gpu), done);
    LT_TRY_GOTO(st, open_world(&c, &names), done);
    compare_outcomes(t, where, names.model, &on_gpu, &on_cpu, limits_of[g.compute]);
    LT_TRY_GOTO(st, check_bits(t, where, g, arena, &on_gpu), done);
    st = check_early(t, where, g, arena);
done:
    close_world(&names);
    lt_arena_destroy(arena);
    return st;
}

static void check_subject(tally *t, const subject *s, lt_dtype dtype, lt_device *gpu,
                          lt_device *cpu)
{
    char where[64];
    const setup g = {.subject = s, .device = gpu, .compute = dtype};
    (void)snprintf(where, sizeof where, "%s %s", s->name, lt_dtype_name(dtype));
    if (check_case(t, where, g, cpu) == LT_OK)
        return;
    printf("FAIL %s: %s\n", where, lt_error_message());
    t->failed++;
}

// only: the name of one subject, or NULL.
static void check_all(tally *t, const char *only, lt_device *gpu, lt_device *cpu)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        if (only && strcmp(only, subjects[i].name) != 0)
            continue;
        check_subject(t, &subjects[i], LT_F32, gpu, cpu);
        check_subject(t, &subjects[i], LT_BF16, gpu, cpu);
    }
}

int main(int argc, char **argv)
{
    lt_device *gpu = NULL, *cpu = NULL;
    lt_pool *pool = NULL;
    tally t = {0};
    if (lt_cuda_open(0, NULL, &gpu) != LT_OK) {
        printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    printf("%s: %s\n", gpu->name, gpu->description);
    if (lt_pool_create(0, &pool) == LT_OK && lt_cpu_open(pool, &cpu) == LT_OK) {
        printf("%s: %s\n", cpu->name, cpu->description);
        check_all(&t, argc > 1 ? argv[1] : NULL, gpu, cpu);
    } else {
        printf("FAIL %s\n", lt_error_message());
        t.failed++;
    }
    lt_device_close(gpu);
    lt_device_close(cpu);
    lt_pool_destroy(pool);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0;
}
