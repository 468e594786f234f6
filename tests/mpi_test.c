// SPDX-License-Identifier: Apache-2.0
// mpirun lathe train: ranks as processes train like ranks as threads, and a rank that fails ends
// all of them with its sentence. Skipped where there is no mpirun.
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"

#include "base/file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ONE "training.micro_batch_size=1"
#define K1 "training.gradient_accumulation_steps=1"
#define UNITS "parallel.fsdp_plan.apply_modules=[model.visual,\"model.language_model.layers.{*}\"]"
#define LONG "training.train_iters=100000"
#define TRAIN "train", "train.yaml", ONE, K1, UNITS

static const char *place(void **state)
{
    return lt_place(*state, &(lt_place_opts){.records = 24});
}

static void skip_without_mpirun(void)
{
    if (lt_run_has_mpirun())
        return;
    print_message("skipped: mpirun is not installed\n");
    skip();
}

#define run_ranks(state, dir, opts, ...)                                                           \
    lt_run(*(state), (dir), (opts), (const char *const[]){TRAIN, __VA_ARGS__})

static const lt_run_opts on_2 = {.ranks = 2}, on_3 = {.ranks = 3}, on_4 = {.ranks = 4};

static void processes_train_and_save_the_bits_of_threads(void **state)
{
    static const char *const shards[] = {"parallel.fully_shard_parallel_size=auto",
                                         "parallel.fully_shard_parallel_size=2",
                                         "parallel.fully_shard_parallel_size=1"};
    skip_without_mpirun();
    for (int i = 0; i < 3; i++) {
        const char *a = place(state), *b = place(state);
        const lt_run_result threads = lt_lathe(*state, a, TRAIN, shards[i], "-n4");
        assert_exit(threads, 0);
        const lt_run_result r = run_ranks(state, b, &on_4, shards[i], NULL);
        assert_exit(r, 0);
        lt_run_same_folder(*state, lt_test_path(*state, a, "out/iter_0000006"),
                           lt_test_path(*state, b, "out/iter_0000006"));
        lt_run_same_steps(*state, lt_test_path(*state, a, "out"), lt_test_path(*state, b, "out"), 1,
                          6);
        // Each line is said once, by the first rank.
        const char *line = strstr(r.out, " iteration        1/");
        assert_non_null(line);
        assert_null(strstr(line + 1, " iteration        1/"));
        assert_text_contains(r.err, "4 ranks with 1 threads each");
    }
}

static void a_wrong_key_is_said_once(void **state)
{
    skip_without_mpirun();
    const lt_run_result r = run_ranks(state, place(state), &on_3, "training.lrr=1", NULL);
    assert_exit(r, 2);
    const char *said = strstr(r.err, "unknown key");
    assert_non_null(said);
    assert_null(strstr(said + 1, "unknown key"));
}

// What the last rank alone does, the sentence that it ends with, and the exit code.
static void a_rank_that_differs_ends_all_with_its_sentence(void **state)
{
    static const struct {
        const char *command, *says, *why;
        int code;
    } cases[] = {
        {"exec \"$0\" \"$@\" training.lr=0.5", "rank 2 of 3 on ", "the configuration differs", 2},
        {"cp -r . other; cd other; exec \"$0\" train nowhere.yaml", "rank 2 of 3 on ",
         "cannot open nowhere.yaml", 3},
        {"cp -r . other; cd other; rm data.json; exec \"$0\" \"$@\"", "rank 2 of 3 on ",
         "data.json", 3},
        {"cp -r . other; cd other; rm -r model; exec \"$0\" \"$@\"", "rank 2 of 3 on ", "model", 3},
    };
    skip_without_mpirun();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lt_run_opts opts = {.ranks = 3, .last_rank = cases[i].command};
        const lt_run_result r = run_ranks(state, place(state), &opts, NULL);
        assert_exit(r, cases[i].code);
        assert_text_contains(r.err, cases[i].says);
        assert_text_contains(r.err, cases[i].why);
        assert_null(strstr(r.out, " iteration "));
    }
}

// The wait is bounded by lt_run's minute. No message of ours can say more than mpirun's, since the
// rank is gone.
static void a_killed_rank_ends_all(void **state)
{
    skip_without_mpirun();
    const lt_run_opts opts = {.ranks = 3,
                              .last_rank = "(sleep 2; kill -9 $$) & exec \"$0\" \"$@\""};
    const lt_run_result r = run_ranks(state, place(state), &opts, LONG, NULL);
    assert_exit(r, 128 + SIGKILL);
    assert_text_contains(r.err, "signal 9");
}

// mpirun hands SIGUSR1 on to all ranks. After a Ctrl-C it leaves them a second, which is too little
// to be tested.
static void a_signal_saves_and_stops_all_processes(void **state)
{
    skip_without_mpirun();
    const char *dir = place(state);
    const lt_run_opts opts = {.ranks = 3, .signal = SIGUSR1, .until = " iteration        2/"};
    const lt_run_result r = run_ranks(state, dir, &opts, LONG, NULL);
    assert_exit(r, 130);
    assert_text_contains(r.err, "stopped after step");
    assert_text_contains(r.err, "training.load=out goes on from there");
}

// Record 6 is the second rank's in the third step: both stop, and what was done is saved.
static void a_bad_record_of_one_process_keeps_what_was_done(void **state)
{
    skip_without_mpirun();
    const char *dir = place(state), *path = lt_test_path(*state, dir, "pictures/late.png");
    size_t n = 0;
    lt_place_png(*state, path, 64, 64, 1);
    const char *png = lt_test_read(*state, path, &n);
    lt_test_write(path, png, n - 30); // its header, which is looked at before the run, is whole
    lt_place_edit(*state, dir, LT_PLACE_DATA, "\"p1.png\", \"p2.png\"", "\"p1.png\", \"late.png\"");
    const lt_run_result r =
        run_ranks(state, dir, &on_2, "data.dataloader_param.shuffle=false", NULL);
    assert_exit(r, 3);
    assert_text_contains(r.err, "late.png");
    assert_text_contains(r.err, "rank 1 of 2 on ");
    assert_text_contains(r.out, "Saved checkpoint to out/iter_0000002");
    assert_true(lt_file_exists(lt_test_path(*state, dir, "out/iter_0000002/config.json")));
}

static void other_commands_are_run_by_the_first_rank(void **state)
{
    skip_without_mpirun();
    const char *dir = place(state);
    const char *const plan[] = {"plan", "train.yaml", ONE, K1, UNITS, NULL};
    const lt_run_result r = lt_run(*state, dir, &on_2, plan);
    assert_exit(r, 0);
    const char *said = strstr(r.out, "the first of 2 ranks");
    assert_non_null(said);
    assert_null(strstr(said + 1, "the first of 2 ranks"));
    const lt_run_result again = run_ranks(state, dir, &on_2, "-n4", NULL);
    assert_exit(again, 2);
    assert_text_contains(again.err, "has started 2 ranks already");
}

LT_TEST_MAIN(LT_TEST(processes_train_and_save_the_bits_of_threads),
             LT_TEST(a_wrong_key_is_said_once),
             LT_TEST(a_rank_that_differs_ends_all_with_its_sentence),
             LT_TEST(a_killed_rank_ends_all), LT_TEST(a_signal_saves_and_stops_all_processes),
             LT_TEST(a_bad_record_of_one_process_keeps_what_was_done),
             LT_TEST(other_commands_are_run_by_the_first_rank))
