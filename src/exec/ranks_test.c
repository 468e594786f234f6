// SPDX-License-Identifier: Apache-2.0
// Steps over several ranks: layouts, prefetch and units move work and change no bit, and all agree
// with one rank that does the work alone.
#include "comm/local.h"
#include "exec/exec.h"

#include "base/rng.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/made_batch.h"

#include <math.h>
#include <string.h>

enum { STEPS = 3, MOST = 4, MOST_MICRO = 8 };

typedef struct setup {
    int32_t copies, across; /* ranks are their product */
    lt_dtype compute;
    bool frozen_tower, early, keep_gathered, few_units, poison, tree, through_host;
    int32_t forward_prefetch, backward_prefetch;
    int64_t n_micro; /* on each rank */
    bool equal;      /* all micro-batches are of one shape, and so are the programs of all ranks */
    uint64_t order_seed;
    lt_state_home home;
    bool muon;    /* matrices */
    bool offload; /* with full recomputation */
} setup;

typedef struct outcome {
    lt_step_result step[STEPS];
    float *weights; /* of the first rank's model */
    int64_t n;
    lt_exec_memory memory[MOST];
    int64_t gathers, reduces; /* of a micro-batch */
} outcome;

typedef struct job {
    const setup *s;
    outcome *out;
} job;

typedef struct world {
    lt_ranks ranks;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
} world;

static lt_status draw_weights(const world *w)
{
    for (int32_t i = 0; i < w->model->n_params; i++) {
        const lt_param *p = &w->model->params[i];
        void *memory = NULL;
        LT_TRY(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(float), "weights"));
        lt_model_init_values(p, 5, 0, p->n_elems, memory);
        for (int64_t k = 0; k < p->n_elems; k++)
            ((float *)memory)[k] += 0.05F * (float)lt_normal(lt_rng_key(11, p->name), (uint64_t)k);
        const lt_status st =
            lt_exec_write(w->exec, i, LT_STATE_VALUE, 0, p->n_elems, LT_F32, memory);
        lt_mem_free(memory);
        LT_TRY(st);
    }
    return LT_OK;
}

static lt_status open_world(lt_group *group, const setup *s, world *w)
{
    static const char *const units[] = {"model.visual", "model.language_model.layers.{*}",
                                        "model.language_model.embed_tokens",
                                        "model.visual.blocks.{*}"};
    static const char *const tower[] = {"model.visual"};
    const lt_mesh_sizes sizes = {s->copies, s->across, 1, 1, 1};
    lt_model_config config;
    LT_TRY(lt_ranks_open(group, &sizes, &w->ranks));
    LT_TRY(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                 &config));
    LT_TRY(lt_model_create(&config, LT_HEAD_AS_CONFIG, &w->model));
    if (s->frozen_tower)
        LT_TRY(lt_model_freeze(w->model, tower, 1, NULL));
    for (int32_t i = 0; s->muon && i < w->model->n_params; i++)
        w->model->params[i].muon = w->model->params[i].rank == 2;
    LT_TRY(lt_units_create(w->model, units, s->few_units ? 1 : 4, NULL, &w->units));
    LT_TRY(lt_cpu_open(NULL, &w->device));
    lt_policy policy[256];
    bool offload[256];
    for (int i = 0; i < 256; i++) {
        policy[i] = s->offload ? LT_FULL : LT_KEEP;
        offload[i] = s->offload;
    }
    const lt_exec_opts o = {
        .device = w->device,
        .model = w->model,
        .units = w->units,
        .compute = s->compute,
        .training = true,
        .ranks = &w->ranks,
        .forward_prefetch = s->forward_prefetch,
        .backward_prefetch = s->backward_prefetch,
        .reshard_after_forward = !s->keep_gathered,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .lr_scale = 1.0},
        .update_early = s->early,
        .tree = s->tree,
        .policy = policy,
        .keep_attention = s->offload,
        .offload = offload,
        .home = s->home,
        .muon = {.momentum = 0.95, .rms = 0.2, .steps = 5},
        .poison = s->poison,
        .through_host = s->through_host,
        .order_seed = s->order_seed};
    LT_TRY(lt_exec_create(&o, &w->exec));
    return draw_weights(w);
}

static void close_world(world *w)
{
    lt_exec_destroy(w->exec);
    lt_units_destroy(w->units);
    lt_model_destroy(w->model);
    lt_device_close(w->device);
    lt_ranks_close(&w->ranks);
}

// Micro-batch k of all: with pictures, of text alone, without a target.
static lt_status batch_of(const world *w, int64_t step, int64_t k, int64_t n_all, bool equal,
                          made_batch *out)
{
    const made_sample kinds[][2] = {{{9, 1, 4, 2}, {5, 2, 2, 4}},
                                    {{8, 0, 0, 0}, {6, 0, 0, 0}},
                                    {{7, 1, 2, 2}, {4, 0, 0, 0}},
                                    {{1, 0, 0, 0}, {1, 1, 2, 2}}};
    LT_TRY(made_batch_create(&w->model->config, kinds[equal ? 0 : k % 4], 2,
                             (uint64_t)(100 * step + k), out));
    const lt_tensor *kappa = &out->view.value[LT_BATCH_KAPPA];
    for (int64_t i = 0; i < lt_n_elems(kappa); i++)
        ((float *)kappa->data)[i] /= (float)n_all;
    return LT_OK;
}

// Dealt as the sampler does: micro-step by micro-step, rank by rank.
static lt_status one_step(const world *w, const setup *s, int64_t step, lt_step_result *r)
{
    made_batch batch[MOST_MICRO];
    lt_batch_view view[MOST_MICRO] = {0};
    const int64_t n = s->n_micro, all = n * w->ranks.dp_size;
    for (int64_t i = 0; i < n; i++) {
        LT_TRY(
            batch_of(w, step, i * w->ranks.dp_size + w->ranks.dp_rank, all, s->equal, &batch[i]));
        view[i] = batch[i].view;
    }
    const lt_status st = lt_exec_step(w->exec, view, n, step + 1, 1e-3, NULL, r);
    for (int64_t i = 0; i < n; i++)
        made_batch_destroy(&batch[i]);
    return st;
}

static lt_status read_weights(const world *w, outcome *out)
{
    if (w->ranks.rank != 0)
        return lt_exec_serve(w->exec);
    for (int64_t i = 0, at = 0; i < w->model->n_params; i++) {
        const int64_t n = w->model->params[i].n_elems;
        LT_ASSERT(at + n <= out->n);
        // in two pieces, neither of which ends where a rank's does
        const int64_t cut = n / 3;
        LT_TRY(
            lt_exec_read(w->exec, (int32_t)i, LT_STATE_VALUE, 0, cut, LT_F32, out->weights + at));
        LT_TRY(lt_exec_read(w->exec, (int32_t)i, LT_STATE_VALUE, cut, n - cut, LT_F32,
                            out->weights + at + cut));
        at += n;
    }
    return lt_exec_release(w->exec);
}

static lt_status count(const world *w, outcome *out)
{
    const lt_extents e = {{32, 2, 16, 4, 2, 20}};
    const lt_program *p = NULL;
    LT_TRY(lt_exec_program(w->exec, LT_MODE_TRAIN, &e, &p));
    for (int64_t i = 0; i < p->actions.n; i++) {
        out->gathers += lt_action_at(p, i)->kind == LT_ACT_GATHER;
        out->reduces += lt_action_at(p, i)->kind == LT_ACT_REDUCE;
    }
    return LT_OK;
}

static lt_status train(world *w, const job *j)
{
    for (int64_t i = 0; i < STEPS; i++) {
        lt_step_result r;
        LT_TRY(one_step(w, j->s, i, &r));
        if (w->ranks.rank == 0)
            j->out->step[i] = r;
    }
    j->out->memory[w->ranks.rank] = lt_exec_memory_of(w->exec);
    if (w->ranks.rank == 0)
        LT_TRY(count(w, j->out));
    return read_weights(w, j->out);
}

static lt_status rank_of(void *ctx, lt_group *group)
{
    const job *j = ctx;
    world w = {0};
    lt_status st = open_world(group, j->s, &w);
    if (st == LT_OK)
        st = train(&w, j);
    close_world(&w);
    return st;
}

static outcome run(void *state, const setup *s)
{
    lt_model_config config;
    lt_model *model = NULL;
    outcome out = {0};
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &model));
    out.n = lt_model_total(model, false);
    lt_model_destroy(model);
    out.weights = lt_test_take(state, (size_t)out.n * sizeof(float));
    job j = {s, &out};
    assert_ok(lt_local_run(s->copies * s->across, rank_of, &j));
    return out;
}

static void assert_same_bits(const outcome *a, const outcome *b)
{
    for (int i = 0; i < STEPS; i++) {
        assert_memory_equal(&a->step[i].loss, &b->step[i].loss, sizeof(double));
        assert_near(a->step[i].grad_norm, b->step[i].grad_norm, 1e-12 * b->step[i].grad_norm);
    }
    assert_memory_equal(a->weights, b->weights, (size_t)a->n * sizeof(float));
}

static void assert_same_weights(const outcome *a, const outcome *b)
{
    for (int i = 0; i < STEPS; i++) {
        assert_near(a->step[i].loss, b->step[i].loss, 1e-14 * fabs(b->step[i].loss));
        assert_near(a->step[i].grad_norm, b->step[i].grad_norm, 1e-12 * b->step[i].grad_norm);
    }
    assert_memory_equal(a->weights, b->weights, (size_t)a->n * sizeof(float));
}

// Sums in another order: AdamW makes a step of lr out of any gradient, however small, so weights
// are held to a fraction of the steps taken.
static void assert_near_outcome(const outcome *a, const outcome *b, double tol)
{
    double worst = 0.0, sum = 0.0;
    for (int i = 0; i < STEPS; i++) {
        assert_near(a->step[i].loss, b->step[i].loss, tol * fabs(b->step[i].loss));
        assert_near(a->step[i].grad_norm, b->step[i].grad_norm, 10 * tol * b->step[i].grad_norm);
    }
    for (int64_t i = 0; i < a->n; i++) {
        const double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        worst = fmax(worst, d);
        sum += d;
    }
    assert_true(worst <= STEPS * 2e-3);
    assert_true(sum / (double)a->n < 100 * tol * 1e-3);
}

static void layouts_of_four_ranks_have_the_same_bits(void **state)
{
    const int32_t layouts[][2] = {{4, 1}, {1, 4}, {2, 2}};
    for (int64_t n_micro = 1; n_micro <= 2; n_micro++) {
        outcome want;
        const setup alone = {.copies = 1, .across = 1, .n_micro = 4 * n_micro};
        const outcome one = run(*state, &alone);
        for (int i = 0; i < 3; i++) {
            const setup s = {.copies = layouts[i][0],
                             .across = layouts[i][1],
                             .n_micro = n_micro,
                             .poison = true};
            const outcome got = run(*state, &s);
            assert_near_outcome(&got, &one, 2e-6);
            if (i == 0)
                want = got;
            else
                assert_same_bits(&got, &want);
        }
    }
}

static void a_number_of_ranks_that_divides_nothing_works(void **state)
{
    const setup three = {.copies = 1, .across = 3, .n_micro = 1, .poison = true},
                alone = {.copies = 1, .across = 1, .n_micro = 3};
    const outcome a = run(*state, &three), b = run(*state, &alone);
    assert_near_outcome(&a, &b, 2e-6);
}

static void prefetch_units_and_giving_up_change_no_bit(void **state)
{
    setup s = {.copies = 1, .across = 2, .n_micro = 1, .poison = true};
    const outcome want = run(*state, &s);
    for (int32_t f = 0; f < 3; f++) {
        s.forward_prefetch = f;
        s.backward_prefetch = 2 - f;
        s.keep_gathered = f == 1;
        s.few_units = f == 2;
        const outcome got = run(*state, &s);
        assert_same_bits(&got, &want);
    }
}

static void units_updated_early_have_the_same_bits(void **state)
{
    for (int dtype = LT_F32; dtype <= LT_BF16; dtype++) {
        setup s = {.copies = 2, .across = 2, .n_micro = 1, .compute = (lt_dtype)dtype};
        const outcome late = run(*state, &s);
        s.early = s.poison = true;
        const outcome early = run(*state, &s);
        assert_same_bits(&early, &late);
        assert_int_equal(early.memory[0].state_part[LT_STATE_GRAD], 0);
    }
}

static void a_frozen_tower_stays_and_is_gathered_once(void **state)
{
    const setup whole = {.copies = 1, .across = 2, .n_micro = 2, .poison = true};
    setup frozen = whole;
    frozen.frozen_tower = true;
    const outcome a = run(*state, &frozen), b = run(*state, &whole);
    assert_memory_equal(&a.step[0].loss, &b.step[0].loss, sizeof(double));
    assert_true(a.step[0].grad_norm < b.step[0].grad_norm);
    assert_true(a.gathers < b.gathers && a.reduces < b.reduces);
}

static void what_waits_on_the_host_changes_no_bit(void **state)
{
    const int32_t layouts[][2] = {{2, 2}, {1, 3}};
    for (int i = 0; i < 2; i++) {
        setup s = {.copies = layouts[i][0],
                   .across = layouts[i][1],
                   .n_micro = 1 + i % 2,
                   .compute = i % 2 ? LT_F32 : LT_BF16};
        const outcome want = run(*state, &s);
        s.poison = s.offload = true;
        for (int home = LT_HOME_SWAP; home <= LT_HOME_HOST; home++) {
            s.home = (lt_state_home)home;
            s.early = s.n_micro == 1 && home == LT_HOME_HOST;
            const outcome got = run(*state, &s);
            assert_same_bits(&got, &want);
            assert_true(got.memory[0].host_state > 0);
            assert_int_equal(got.memory[0].host_used, got.memory[0].host);
            assert_int_equal(got.memory[0].step_used, got.memory[0].step);
            assert_true(got.memory[0].state < want.memory[0].state);
        }
    }
}

// The momentum is gathered from pieces, the rest is done by everyone alike: units and pieces change
// no bit, nor does a state on the host.
static void muon_on_pieces_gives_the_bits_of_muon_on_the_whole(void **state)
{
    const int32_t layouts[][2] = {{4, 1}, {1, 4}, {2, 2}};
    outcome want;
    for (int i = 0; i < 3; i++) {
        setup s = {.copies = layouts[i][0],
                   .across = layouts[i][1],
                   .n_micro = 1,
                   .poison = i > 0,
                   .early = i == 2,
                   .home = i == 1 ? LT_HOME_HOST : LT_HOME_DEVICE,
                   .muon = true};
        const outcome got = run(*state, &s);
        assert_int_equal(got.memory[0].step_used, got.memory[0].step);
        if (i == 0)
            want = got;
        else
            assert_same_bits(&got, &want);
    }
    const setup plain = {.copies = 1, .across = 4, .n_micro = 1};
    const outcome adamw = run(*state, &plain);
    assert_memory_equal(&adamw.step[0].loss, &want.step[0].loss, sizeof(double));
    assert_true(adamw.step[2].loss != want.step[2].loss);
    assert_true(want.memory[0].state < adamw.memory[0].state * 4);
}

// Ranks draw the same order, so that all issue the same collectives.
static void any_order_that_the_queues_allow_gives_the_same_bits(void **state)
{
    setup s = {.copies = 1, .across = 2, .n_micro = 1, .poison = true, .equal = true};
    s.forward_prefetch = s.backward_prefetch = 1;
    const outcome want = run(*state, &s);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        s.order_seed = seed;
        const outcome got = run(*state, &s);
        assert_same_bits(&got, &want);
    }
}

// Up to three, the tree over ranks adds in the order in which one rank adds micro-batches.
static void two_and_three_ranks_have_the_bits_of_one_that_does_all(void **state)
{
    for (int32_t n = 2; n <= 3; n++) {
        const setup one = {.copies = 1, .across = 1, .n_micro = n},
                    all = {.copies = 1, .across = n, .n_micro = 1, .poison = true};
        const outcome a = run(*state, &one), b = run(*state, &all);
        assert_same_bits(&b, &a);
    }
}

// As ranks on one GPU do.
static void tensors_may_go_through_host_memory(void **state)
{
    const int32_t layouts[][2] = {{1, 3}, {2, 2}};
    for (int i = 0; i < 2; i++) {
        setup s = {.copies = layouts[i][0],
                   .across = layouts[i][1],
                   .n_micro = 1 + i % 2,
                   .compute = i % 2 ? LT_BF16 : LT_F32,
                   .forward_prefetch = 1,
                   .poison = true};
        const outcome want = run(*state, &s);
        s.through_host = true;
        const outcome got = run(*state, &s);
        assert_same_bits(&got, &want);
    }
}

// F1 and F8 of the specification's matrix, by its tree: N micro-batches have the same bits on any
// power of two of ranks, however they are laid out. Losses are sums of doubles.
static void the_tree_has_the_same_bits_on_any_power_of_two_of_ranks(void **state)
{
    // copies, across, micro-batches of each rank
    static const int32_t splits[][3] = {{1, 2, 2}, {2, 2, 1}};
    const setup alone = {.copies = 1, .across = 1, .n_micro = 4, .tree = true};
    const outcome want = run(*state, &alone);
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        const setup s = {.copies = splits[i][0],
                         .across = splits[i][1],
                         .n_micro = splits[i][2],
                         .tree = true,
                         .poison = true};
        const outcome got = run(*state, &s);
        assert_same_weights(&got, &want);
    }
    const setup six = {.copies = 1, .across = 1, .n_micro = 6, .tree = true},
                three = {.copies = 1, .across = 2, .n_micro = 3, .tree = true, .poison = true};
    const outcome a = run(*state, &six), b = run(*state, &three);
    assert_same_weights(&a, &b);
}

// Pieces are of whole rows, and begin on 256 bytes: nothing else is added to an equal share.
static void a_rank_holds_its_share_of_the_state(void **state)
{
    const setup one = {.copies = 1, .across = 1, .n_micro = 1},
                four = {.copies = 1, .across = 4, .n_micro = 1};
    const outcome a = run(*state, &one), b = run(*state, &four);
    for (int r = 0; r < 4; r++)
        assert_true((double)b.memory[r].state < 0.4 * (double)a.memory[0].state);
    assert_int_equal(b.memory[0].state, b.memory[3].state);
}

static lt_status open_wrong(void *ctx, lt_group *group)
{
    lt_ranks r;
    return lt_ranks_open(group, ctx, &r);
}

static void meshes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    lt_mesh_sizes s = {2, 2, 1, 1, 1};
    assert_fails(lt_local_run(3, open_wrong, &s), LT_ERR_CONFIG, "the 3 ranks of this run");
    s = (lt_mesh_sizes){1, 1, 2, 1, 1};
    assert_fails(lt_local_run(2, open_wrong, &s), LT_ERR_UNSUPPORTED, "ulysses_parallel_size: 2");
}

LT_TEST_MAIN(LT_TEST(two_and_three_ranks_have_the_bits_of_one_that_does_all),
             LT_TEST(layouts_of_four_ranks_have_the_same_bits),
             LT_TEST(the_tree_has_the_same_bits_on_any_power_of_two_of_ranks),
             LT_TEST(a_number_of_ranks_that_divides_nothing_works),
             LT_TEST(prefetch_units_and_giving_up_change_no_bit),
             LT_TEST(units_updated_early_have_the_same_bits),
             LT_TEST(a_frozen_tower_stays_and_is_gathered_once),
             LT_TEST(what_waits_on_the_host_changes_no_bit),
             LT_TEST(muon_on_pieces_gives_the_bits_of_muon_on_the_whole),
             LT_TEST(any_order_that_the_queues_allow_gives_the_same_bits),
             LT_TEST(tensors_may_go_through_host_memory),
             LT_TEST(a_rank_holds_its_share_of_the_state),
             LT_TEST(meshes_that_do_not_fit_are_refused))
