// SPDX-License-Identifier: Apache-2.0
// Packing in whole runs: the loss of a packed row, and going on after a kill. That samples of a row
// do not see each other is tests/no_leak_test.c.
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <signal.h>
#include <string.h>

#define PACKED "data.dataset_param.basic_parameters.packing=true"
#define NEAT "data.dataset_param.basic_parameters.neat_packing=true"

static double metric(void **state, const char *dir, int64_t step, const char *key)
{
    return lt_run_metric(lt_run_metrics(*state, lt_test_path(*state, dir, "out")), step, key);
}

// The token mean over all records, from a run that sees them one by one and changes nothing.
static double token_mean(void **state, const char *dir, double *targets)
{
    double sum = 0, n = 0;
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.lr=0", "training.train_iters=11",
                 "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",
                 "data.dataloader_param.shuffle=false");
    assert_exit(r, 0);
    for (int i = 1; i <= LT_PLACE_RECORDS; i++) {
        n += metric(state, dir, i, "targets");
        sum += metric(state, dir, i, "loss") * metric(state, dir, i, "targets");
    }
    *targets = n;
    return sum / n;
}

static void packed_loss_is_the_token_mean_of_the_samples(void **state)
{
    static const char *const kinds[] = {PACKED, NEAT};
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    double targets;
    const double mean = token_mean(state, dir, &targets);
    for (int i = 0; i < 2; i++) {
        const lt_run_result r =
            lt_lathe(*state, dir, "train", "train.yaml", "training.lr=0", "training.train_iters=1",
                     "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",
                     kinds[i], "data.dataset_param.basic_parameters.cutoff_len=100000");
        assert_exit(r, 0);
        assert_text_contains(r.err, "11 samples in 1 packed rows");
        assert_near(metric(state, dir, 1, "targets"), targets, 0);
        assert_near(metric(state, dir, 1, "loss"), mean, 2e-6 * mean);
    }
}

#define ROWS                                                                                       \
    PACKED, "data.dataset_param.basic_parameters.cutoff_len=120", "training.micro_batch_size=1"
#define STEPS "training.train_iters=8", "training.save_interval=3"

// What the sampler counts are packed rows; a killed run goes on where it was, bit for bit.
static void a_packed_run_that_was_killed_goes_on_with_the_same_bits(void **state)
{
    const char *a = lt_place(*state, &(lt_place_opts){0}),
               *b = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result whole = lt_lathe(*state, a, "train", "train.yaml", STEPS, ROWS);
    assert_exit(whole, 0);
    assert_text_contains(whole.err, "11 samples in ");
    assert_null(strstr(whole.err, "in 1 packed rows"));
    const lt_run_opts kill = {.signal = SIGKILL, .until = " iteration        5/"};
    const char *const args[] = {"train", "train.yaml", STEPS, ROWS, NULL};
    const lt_run_result killed = lt_run(*state, b, &kill, args);
    assert_exit(killed, -1);
    const lt_run_result on =
        lt_lathe(*state, b, "train", "train.yaml", STEPS, ROWS, "training.load=out");
    assert_exit(on, 0);
    lt_run_same_steps(*state, lt_test_path(*state, a, "out"), lt_test_path(*state, b, "out"), 1, 8);
}

LT_TEST_MAIN(LT_TEST(packed_loss_is_the_token_mean_of_the_samples),
             LT_TEST(a_packed_run_that_was_killed_goes_on_with_the_same_bits))
