// SPDX-License-Identifier: Apache-2.0
// Packing and streaming in whole runs: the loss of a packed row, and going on after a kill. That
// samples of a row do not see each other is tests/no_leak_test.c.
#include "base/text.h"
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

// BR-03: nothing is padded, so no length has to be a multiple of anything.
static void odd_lengths_pack_like_any_others(void **state)
{
    static const char *const lengths[] = {"data.dataset_param.basic_parameters.cutoff_len=1234",
                                          "data.dataset_param.basic_parameters.cutoff_len=97",
                                          "data.dataset_param.basic_parameters.cutoff_len=101"};
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    for (int i = 0; i < 3; i++) {
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", PACKED, lengths[i],
                                         "training.train_iters=1", "training.micro_batch_size=1",
                                         "training.gradient_accumulation_steps=1");
        assert_exit(r, 0);
        assert_true(metric(state, dir, 1, "targets") > 0);
    }
}

// ---------------------------------------------------------------- file order

#define BASE "data.dataloader_param.dataloader_mode=base"
#define STREAMING "data.dataset_param.basic_parameters.streaming=true"

// One sample at a time in the order of the file, resumable like any other run.
static void streaming_reads_in_file_order_and_resumes(void **state)
{
    const char *plain = lt_place(*state, &(lt_place_opts){0}),
               *stream = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result want =
        lt_lathe(*state, plain, "train", "train.yaml", STEPS, "training.micro_batch_size=1",
                 "data.dataloader_param.shuffle=false");
    assert_exit(want, 0);
    const lt_run_opts kill = {.signal = SIGKILL, .until = " iteration        5/"};
    const char *const args[] = {
        "train", "train.yaml", STEPS, BASE, STREAMING, "training.micro_batch_size=1", NULL};
    const lt_run_result killed = lt_run(*state, stream, &kill, args);
    assert_exit(killed, -1);
    assert_text_contains(killed.err, "dataloader_mode: base reads in the order of the files");
    const lt_run_result on = lt_lathe(*state, stream, "train", "train.yaml", STEPS, BASE, STREAMING,
                                      "training.micro_batch_size=1", "training.load=out");
    assert_exit(on, 0);
    lt_run_same_steps(*state, lt_test_path(*state, plain, "out"),
                      lt_test_path(*state, stream, "out"), 1, 8);
    const lt_run_result two = lt_lathe(*state, stream, "train", "train.yaml", STEPS, BASE);
    assert_exit(two, 2);
    assert_text_contains(two.err, "dataloader_mode: base reads one sample at a time: set it to 1");
}

#define PRETRAIN                                                                                   \
    "data.dataset_param.basic_parameters.stage=pretrain", "data.dataset_param.attr.images=null",   \
        "data.dataset_param.attr.formatting=alpaca", "data.dataset_param.attr.prompt=text"

// Blocks of texts end to end: every token but the first of a block is a target.
static void pretraining_learns_from_whole_texts(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_buf records = {0};
    for (int i = 0; i < 40; i++)
        assert_ok(lt_buf_printf(&records, "{\"text\": \"Text number %d, of a few words.\"}\n", i));
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records.data, records.len);
    lt_buf_deinit(&records);
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", PRETRAIN,
                 "data.dataset_param.basic_parameters.cutoff_len=64", "training.micro_batch_size=1",
                 "training.train_iters=3", "training.gradient_accumulation_steps=1");
    assert_exit(r, 0);
    assert_text_contains(r.err, "40 samples in ");
    for (int step = 1; step <= 3; step++)
        assert_near(metric(state, dir, step, "targets"), 63, 0);
    const lt_run_result check = lt_lathe(*state, dir, "check", "train.yaml", PRETRAIN,
                                         "data.dataset_param.basic_parameters.cutoff_len=64");
    assert_exit(check, 0);
    assert_text_contains(check.out, " rows of at most 64 tokens, ");
    const lt_run_result rm = lt_lathe(*state, dir, "check", "train.yaml",
                                      "data.dataset_param.basic_parameters.stage=rm");
    assert_exit(rm, 2);
    assert_text_contains(rm.err, "the training stage rm does not exist in lathe yet");
}

LT_TEST_MAIN(LT_TEST(packed_loss_is_the_token_mean_of_the_samples),
             LT_TEST(a_packed_run_that_was_killed_goes_on_with_the_same_bits),
             LT_TEST(odd_lengths_pack_like_any_others),
             LT_TEST(streaming_reads_in_file_order_and_resumes),
             LT_TEST(pretraining_learns_from_whole_texts))
