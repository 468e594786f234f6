// SPDX-License-Identifier: Apache-2.0
// Runs that save distributed checkpoints: resumed on any number of ranks, killed, written while
// training goes on.
#include "base/file.h"
#include "ckpt/dcp.h"
#include "ckpt/run_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DCP "training.save_format=dcp"
#define LOAD "training.load=out"
#define ONE "training.micro_batch_size=1"
#define STEPS "training.train_iters=4"
#define EVERY_2 "training.save_interval=2"
#define EACH "training.save_interval=1"

static const char *sub(void **state, const char *dir, const char *name)
{
    return lt_test_path(*state, dir, name);
}

// An epoch is not over within 4 steps: where it ends depends on the number of ranks.
static const char *place(void **state)
{
    return lt_place(*state, &(lt_place_opts){.records = 120, .untied = true});
}

// 24 samples a step, whatever the number of ranks.
static const char *steps_of(void **state, int ranks)
{
    char *text = lt_test_take(*state, 64);
    (void)snprintf(text, 64, "training.gradient_accumulation_steps=%d", 24 / ranks);
    return text;
}

static lt_run_result train(void **state, const char *dir, int ranks, const char *more,
                           const char *even_more)
{
    char *n = lt_test_take(*state, 16);
    (void)snprintf(n, 16, "%d", ranks);
    const char *const args[] = {
        "train", "train.yaml", "-n",    n,    ONE,       steps_of(state, ranks),
        STEPS,   DCP,          EVERY_2, more, even_more, NULL};
    return lt_run(*state, dir, &(lt_run_opts){0}, args);
}

static void trains(void **state, const char *dir, int ranks, const char *more,
                   const char *even_more)
{
    const lt_run_result r = train(state, dir, ranks, more, even_more);
    assert_exit(r, 0);
}

static void copy_folder(void **state, const char *from, const char *to)
{
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_make(to));
    assert_ok(lt_dir_list(from, *state, &names));
    for (int64_t i = 0; i < names.n; i++) {
        const char *name = LT_AT(&names, char *, i);
        const char *a = sub(state, from, name), *b = sub(state, to, name);
        if (lt_file_is_dir(a))
            copy_folder(state, a, b);
        else
            assert_ok(lt_file_copy(a, b));
    }
    lt_vec_deinit(&names);
}

static void four_ranks_save_and_any_number_goes_on_with_the_same_losses(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    const char *dir = place(state);
    trains(state, dir, 4, "lathe.keep_last=0", NULL);
    const char *want = lt_run_metrics(*state, sub(state, dir, "out"));
    assert_true(lt_file_exists(sub(state, dir, "out/iter_0000002/__3_0.distcp")));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *next = place(state);
        copy_folder(state, sub(state, dir, "out/iter_0000002"), sub(state, next, "from"));
        const lt_run_result r = train(state, next, counts[i], "training.load=from", NULL);
        assert_exit(r, 0);
        assert_text_contains(r.out, "Loaded checkpoint from from\n");
        assert_null(strstr(r.out, " iteration        2/"));
        for (int64_t k = 3; k <= 4; k++) {
            const char *got = lt_run_metrics(*state, sub(state, next, "out"));
            const double w = lt_run_metric(want, k, "loss"), g = lt_run_metric(got, k, "loss");
            assert_near(g, w, fabs(w) * 2e-6); // sums of other orders; fp32 has 6e-8
            assert_near(lt_run_metric(got, k, "grad_norm"), lt_run_metric(want, k, "grad_norm"),
                        lt_run_metric(want, k, "grad_norm") * 1e-4);
        }
        if (counts[i] == 4) // nothing is regrouped: the same bits
            lt_run_same_folder(*state, sub(state, next, "out/iter_0000004"),
                               sub(state, dir, "out/iter_0000004"));
    }
}

// BR-67: 320 rows of vocabulary on 3 ranks are 107, 107 and 106. BR-70: each rank writes its own.
static void uneven_pieces_go_on_with_the_same_bits(void **state)
{
    const char *dir = place(state), *next = place(state);
    trains(state, dir, 3, NULL, NULL);
    copy_folder(state, sub(state, dir, "out/iter_0000002"), sub(state, next, "from"));
    trains(state, next, 3, "training.load=from", NULL);
    lt_run_same_folder(*state, sub(state, next, "out/iter_0000004"),
                       sub(state, dir, "out/iter_0000004"));
    assert_true(lt_file_exists(sub(state, dir, "out/iter_0000004/__2_0.distcp")));
}

// The text of a value, or the number of an entry's elements, by key.
static void assert_key(const lt_dcp *d, const char *key, bool tensor)
{
    const lt_dcp_entry *e = lt_dcp_find(d, key);
    if (!e || (e->tensor != NULL) != tensor)
        fail_msg("%s is missing, or not of that kind", key);
    if (tensor)
        assert_ok(lt_dcp_check(d, e, NULL));
}

static void a_checkpoint_has_the_keys_that_other_tools_look_for(void **state)
{
    static const char *const hyper[] = {"lr",
                                        "betas",
                                        "eps",
                                        "weight_decay",
                                        "amsgrad",
                                        "maximize",
                                        "foreach",
                                        "capturable",
                                        "fused",
                                        "differentiable",
                                        "params",
                                        "initial_lr",
                                        "decoupled_weight_decay"};
    const char *dir = place(state), *w = "model.language_model.norm.weight";
    lt_dcp *d;
    char key[256];
    trains(state, dir, 3, "training.save_interval=4", NULL);
    assert_ok(lt_dcp_open(sub(state, dir, "out/iter_0000004"), &d));
    for (size_t i = 0; i < sizeof hyper / sizeof *hyper; i++) {
        (void)snprintf(key, sizeof key, "optimizer.param_groups.0.%s", hyper[i]);
        assert_key(d, key, false);
    }
    (void)snprintf(key, sizeof key, "model.%s", w);
    assert_key(d, key, true);
    static const char *const parts[] = {"exp_avg", "exp_avg_sq", "step"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(key, sizeof key, "optimizer.state.%s.%s", w, parts[i]);
        assert_key(d, key, true);
    }
    lt_dcp_close(d);
    for (int r = 0; r < 3; r++) {
        lt_torch_mapped *f;
        int64_t n = 0;
        (void)snprintf(key, sizeof key, "out/iter_0000004/extra_state/extra_state_rank_%d.pt", r);
        assert_ok(lt_torch_open(sub(state, dir, key), &f));
        assert_true(lt_pickle_int(lt_pickle_get(f->file.root, "iteration"), &n));
        assert_int_equal(n, 4);
        const lt_pickle *s = lt_pickle_get(f->file.root, "lr_scheduler");
        assert_true(lt_pickle_int(lt_pickle_get(s, "_step_count"), &n));
        assert_int_equal(n, 5);
        lt_torch_close(f);
    }
}

static void saving_while_training_goes_on_writes_the_same(void **state)
{
    const char *a = place(state), *b = place(state);
    trains(state, a, 2, EACH, "training.save_async=false");
    const lt_run_result r = train(state, b, 2, EACH, "training.save_async=true");
    assert_exit(r, 0);
    assert_text_contains(r.out, "Saved checkpoint to out/iter_0000004\n");
    static const char *const names[] = {"out/iter_0000001", "out/iter_0000003", "out/iter_0000004"};
    for (int i = 0; i < 3; i++)
        lt_run_same_folder(*state, sub(state, a, names[i]), sub(state, b, names[i]));
    assert_string_equal(lt_place_read(*state, b, "out/" LT_RUN_TRACKER), "4");
}

static void old_checkpoints_go_when_only_some_are_kept(void **state)
{
    const char *dir = place(state);
    trains(state, dir, 1, EACH, "lathe.keep_last=2");
    assert_false(lt_file_exists(sub(state, dir, "out/iter_0000002")));
    assert_true(lt_file_exists(sub(state, dir, "out/iter_0000003")));
    assert_true(lt_file_exists(sub(state, dir, "out/iter_0000004")));
}

static void either_kind_is_loaded_and_the_wrong_format_is_named(void **state)
{
    const char *dir = place(state);
    trains(state, dir, 1, EVERY_2, NULL);
    lt_run_result r = train(state, dir, 1, LOAD, "training.load_format=hf");
    assert_exit(r, 2);
    assert_text_contains(r.err, "is a distributed checkpoint (auto takes both)");
    r = train(state, dir, 1, "training.load=model", "training.load_format=dcp");
    assert_exit(r, 2);
    assert_text_contains(r.err, "is a Hugging Face folder");
    // From there on as a Hugging Face folder, in the files of the model's own one.
    r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=5", LOAD, ONE,
                 "training.gradient_accumulation_steps=24", "training.save=hf",
                 "training.save_format=hf");
    assert_exit(r, 0);
    assert_true(lt_file_exists(sub(state, dir, "hf/iter_0000005/model.safetensors")));
    // And what was saved without the optimizer says so when it is wanted.
    r = train(state, dir, 1, "training.no_save_optim=true", "training.save=bare");
    assert_exit(r, 0);
    r = train(state, dir, 1, "training.load=bare", "training.train_iters=5");
    assert_exit(r, 3);
    assert_text_contains(r.err, "training.no_load_optim=true goes on from it");
    r = train(state, dir, 1, "training.load=bare", "training.no_load_optim=true");
    assert_exit(r, 0);
}

// Every rank at any moment: what the tracker names is whole, and nothing half written is in place.
static void killed_at_any_moment_the_last_checkpoint_is_whole(void **state)
{
    enum { KILLS = 10 };
    const char *dir = place(state);
    const char *tracker = sub(state, dir, "out/" LT_RUN_TRACKER);
    for (int i = 0; i < KILLS; i++) {
        const bool saved = lt_file_exists(tracker);
        const char *const args[] = {"train",
                                    "train.yaml",
                                    "-n",
                                    "2",
                                    ONE,
                                    "training.gradient_accumulation_steps=1",
                                    "training.train_iters=1000",
                                    DCP,
                                    EACH,
                                    i % 2 ? "training.save_async=true"
                                          : "training.save_async=false",
                                    saved ? LOAD : NULL,
                                    NULL};
        const lt_run_opts later = {.signal = SIGKILL, .until = "is in place"};
        const lt_run_opts kill = {.signal = SIGKILL, .after_s = 0.1 + 0.031 * i};
        const lt_run_result r = lt_run(*state, dir, i % 3 == 0 ? &later : &kill, args);
        assert_exit(r, -1);
        if (!lt_file_exists(tracker))
            continue;
        lt_run_found found;
        lt_dcp *d;
        assert_ok(lt_run_resolve(sub(state, dir, "out"), NULL, *state, &found));
        assert_ok(lt_dcp_open(found.dir, &d));
        for (int64_t k = 0; k < lt_dcp_count(d); k++)
            if (lt_dcp_at(d, k)->tensor)
                assert_ok(lt_dcp_check(d, lt_dcp_at(d, k), NULL));
        lt_dcp_close(d);
    }
}

LT_TEST_MAIN(LT_TEST(four_ranks_save_and_any_number_goes_on_with_the_same_losses),
             LT_TEST(uneven_pieces_go_on_with_the_same_bits),
             LT_TEST(a_checkpoint_has_the_keys_that_other_tools_look_for),
             LT_TEST(saving_while_training_goes_on_writes_the_same),
             LT_TEST(old_checkpoints_go_when_only_some_are_kept),
             LT_TEST(either_kind_is_loaded_and_the_wrong_format_is_named),
             LT_TEST(killed_at_any_moment_the_last_checkpoint_is_whole))
