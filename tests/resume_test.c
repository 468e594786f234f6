// SPDX-License-Identifier: Apache-2.0
// A run that was stopped, in whatever way, goes on from its checkpoint as if nothing had happened.
#include "base/file.h"
#include "ckpt/run_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 8 steps of 2 x 2 samples out of 11, of which an epoch uses 10: it ends in the middle of step 3.
#define STEPS "training.train_iters=8"
#define EVERY_3 "training.save_interval=3"
#define LOAD "training.load=out"
#define LAST "out/iter_0000008"

static const char *sub(void **state, const char *dir, const char *name)
{
    return lt_test_path(*state, dir, name);
}

// The run that nothing happens to, in a place of its own.
static const char *unbroken(void **state, const char *dtype)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", STEPS, EVERY_3, dtype);
    assert_exit(r, 0);
    return dir;
}

static void assert_same_end(void **state, const char *dir, const char *want, int64_t from)
{
    lt_run_same_steps(*state, sub(state, dir, "out"), sub(state, want, "out"), from, 8);
    lt_run_same_folder(*state, sub(state, dir, LAST), sub(state, want, LAST));
    assert_string_equal(lt_place_read(*state, dir, "out/" LT_RUN_TRACKER), "8");
}

static void kill_and_resume(void **state, const char *dtype)
{
    const char *want = unbroken(state, dtype), *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_opts kill = {.signal = SIGKILL, .until = " iteration        5/"};
    const char *const args[] = {"train", "train.yaml", STEPS, EVERY_3, dtype, NULL};
    const lt_run_result killed = lt_run(*state, dir, &kill, args);
    assert_exit(killed, -1);
    assert_string_equal(lt_place_read(*state, dir, "out/" LT_RUN_TRACKER), "3");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", STEPS, EVERY_3, dtype, LOAD);
    assert_exit(r, 0);
    assert_text_contains(r.out, "Loaded checkpoint from out/iter_0000003\n");
    assert_null(strstr(r.out, " iteration        3/"));
    assert_same_end(state, dir, want, 1);
}

static void a_killed_run_goes_on_with_the_same_bits_in_f32(void **state)
{
    kill_and_resume(state, "lathe.dtype=f32");
}

static void a_killed_run_goes_on_with_the_same_bits_in_bf16(void **state)
{
    kill_and_resume(state, "lathe.dtype=bf16");
}

static void other_optimizers_and_homes_go_on_with_the_same_bits(void **state)
{
    kill_and_resume(state, "training.optimizer=muon");
    kill_and_resume(state, "parallel.fsdp_plan.cpu_offload=true");
}

// Saving after every step and killed at moments that fall anywhere, in saves too.
static void a_run_killed_at_any_moment_can_go_on(void **state)
{
    enum { KILLS = 6 };
    const char *want = unbroken(state, "lathe.dtype=f32");
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const char *const fresh[] = {"train", "train.yaml", STEPS, "training.save_interval=1", NULL};
    const char *const again[] = {"train", "train.yaml", STEPS, "training.save_interval=1",
                                 LOAD,    NULL};
    const char *tracker = sub(state, dir, "out/" LT_RUN_TRACKER);
    lt_run_result r = {.exit_code = -1};
    for (int i = 0; i < KILLS && r.exit_code != 0; i++) {
        // From the first line of the run on, so that slow machines get as far.
        const lt_run_opts kill = {.signal = SIGKILL, .after_s = 0.05 + 0.023 * i};
        const lt_run_opts later = {.signal = SIGKILL, .until = "is in place"};
        const bool saved = lt_file_exists(tracker);
        r = lt_run(*state, dir, i % 2 ? &later : &kill, saved ? again : fresh);
        assert_true(r.exit_code == -1 || r.exit_code == 0);
    }
    const bool saved = lt_file_exists(tracker);
    const lt_run_result last = lt_run(*state, dir, &(lt_run_opts){0}, saved ? again : fresh);
    assert_exit(last, 0);
    assert_same_end(state, dir, want, 1);
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(sub(state, dir, "out"), *state, &names));
    for (int64_t i = 0; i < names.n; i++) // nothing half written stays
        if (strstr(LT_AT(&names, char *, i), ".tmp") || strstr(LT_AT(&names, char *, i), ".old"))
            fail_msg("%s was left behind", LT_AT(&names, char *, i));
    lt_vec_deinit(&names);
}

static void ctrl_c_saves_and_stops(void **state)
{
    const char *want = unbroken(state, "lathe.dtype=f32");
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_opts interrupt = {.signal = SIGINT, .until = " iteration        2/"};
    const char *const args[] = {"train", "train.yaml", STEPS, NULL};
    const lt_run_result r = lt_run(*state, dir, &interrupt, args);
    assert_exit(r, 130); // as `lathe help` says
    assert_text_contains(r.err, "training.load=out goes on from there");
    const int64_t done = strtoll(lt_place_read(*state, dir, "out/" LT_RUN_TRACKER), NULL, 10);
    assert_in_range((uint64_t)done, 2, 7);
    const lt_run_result on = lt_lathe(*state, dir, "train", "train.yaml", STEPS, LOAD);
    assert_exit(on, 0);
    assert_same_end(state, dir, want, 1);
    const lt_run_result help = lt_lathe(*state, dir, "help");
    assert_text_contains(help.out, "  130        interrupted (Ctrl-C), after saving\n");
}

static void a_resumed_run_may_save_elsewhere(void **state)
{
    const char *dir = unbroken(state, "lathe.dtype=f32");
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", STEPS, EVERY_3,
                                     "training.load=out/iter_0000006", "training.save=elsewhere");
    assert_exit(r, 0);
    lt_run_same_steps(*state, sub(state, dir, "elsewhere"), sub(state, dir, "out"), 7, 8);
    lt_run_same_folder(*state, sub(state, dir, "elsewhere/iter_0000008"), sub(state, dir, LAST));
}

// 4 records in their order: after two steps of 2 the order begins again, so that a resume without
// moments must equal a fresh start from the weights, bias corrections included.
static void without_moments_a_resume_is_a_fresh_optimizer(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 4});
    static const char *const plain[] = {
        "training.lr_decay_style=constant", "training.lr_warmup_ratio=0",
        "training.gradient_accumulation_steps=1", "data.dataloader_param.shuffle=false"};
    const lt_run_result first = lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1],
                                         plain[2], plain[3], "training.train_iters=2");
    assert_exit(first, 0);
    const lt_run_result resumed =
        lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1], plain[2], plain[3],
                 "training.train_iters=4", LOAD, "training.no_load_optim=true");
    assert_exit(resumed, 0);
    assert_text_contains(resumed.out, " iteration        3/       4 |");
    assert_int_equal(remove(sub(state, dir, "out/iter_0000002/" LT_RUN_STATE)), 0);
    const lt_run_result fresh =
        lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1], plain[2], plain[3],
                 "training.train_iters=2", "training.load=out/iter_0000002", "training.save=new");
    assert_exit(fresh, 0);
    lt_run_same_file(*state, sub(state, dir, "out/iter_0000004/model.safetensors"),
                     sub(state, dir, "new/iter_0000002/model.safetensors"));
}

static void a_run_that_is_done_changes_nothing(void **state)
{
    const char *dir = unbroken(state, "lathe.dtype=f32");
    const char *before = lt_place_read(*state, dir, "out/metrics.jsonl");
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", STEPS, LOAD);
    assert_exit(r, 0);
    assert_text_contains(r.err, "nothing is left to be done after step 8");
    assert_null(strstr(r.out, "Saved checkpoint"));
    assert_text_equal(lt_place_read(*state, dir, "out/metrics.jsonl"), before);
}

static void a_checkpoint_without_moments_says_so(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result first = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=1", "training.no_save_optim=true");
    assert_exit(first, 0);
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", LOAD);
    assert_exit(r, 3);
    assert_text_contains(r.err, "training.no_load_optim=true goes on from it");
    const lt_run_result on =
        lt_lathe(*state, dir, "train", "train.yaml", LOAD, "training.no_load_optim=true");
    assert_exit(on, 0);
}

LT_TEST_MAIN(LT_TEST(a_killed_run_goes_on_with_the_same_bits_in_f32),
             LT_TEST(a_killed_run_goes_on_with_the_same_bits_in_bf16),
             LT_TEST(other_optimizers_and_homes_go_on_with_the_same_bits),
             LT_TEST(a_run_killed_at_any_moment_can_go_on), LT_TEST(ctrl_c_saves_and_stops),
             LT_TEST(a_resumed_run_may_save_elsewhere),
             LT_TEST(without_moments_a_resume_is_a_fresh_optimizer),
             LT_TEST(a_run_that_is_done_changes_nothing),
             LT_TEST(a_checkpoint_without_moments_says_so))
