// SPDX-License-Identifier: Apache-2.0
// lathe prove: several ranks beside one, as a user runs it, and the comparison itself.
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include "train/prove.h"

#include <string.h>
#include <unistd.h>

#define UNITS "parallel.fsdp_plan.apply_modules=[model.visual,\"model.language_model.layers.{*}\"]"

static void layouts_are_proved(void **state)
{
    static const char *const layouts[][3] = {
        {"-n2", "parallel.fully_shard_parallel_size=auto", "lathe.dtype=f32"},
        {"-n3", "parallel.fully_shard_parallel_size=auto", "lathe.policy=full"},
        {"-n4", "parallel.fully_shard_parallel_size=2", "training.micro_batch_size=1"},
        {"-n4", "parallel.fully_shard_parallel_size=1", "training.clip_grad=0"},
        {"-n2", "model.freeze=[model.visual]", "lathe.dtype=bf16"}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *dir = lt_place(*state, &(lt_place_opts){.records = 40});
        const lt_run_result r = lt_lathe(*state, dir, "prove", "train.yaml", UNITS, layouts[i][0],
                                         layouts[i][1], layouts[i][2]);
        assert_exit(r, 0);
        assert_text_contains(r.out, "step 2: loss ");
        assert_text_contains(r.out, "proved: ");
    }
}

// The loss is a sum of two: its order is one. Every figure is printed, and counted once.
static void what_was_compared_is_said(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 40});
    const lt_run_result r = lt_lathe(*state, dir, "prove", "train.yaml", UNITS,
                                     "training.gradient_accumulation_steps=1");
    assert_exit(r, 0);
    assert_text_contains(r.out, "one rank with 2 micro-batches a step beside 2 ranks with 1 each");
    assert_text_contains(r.out, "on 2 (the same bits)\nstep 1: gradient norm ");
    assert_text_contains(r.out, "step 2: 63 gradients, ");
    assert_text_contains(r.out, "step 2: 63 weights, ");
    assert_text_contains(r.out, "proved: 193 figures, ");
}

/* ---- a parallel step that is wrong ---- */

static void count_differences(void *ctx, const char *text)
{
    *(int *)ctx += strstr(text, " differs by ") != NULL;
}

// Whether a weight that is wrong from some step on (0: never) is found.
static lt_proof proof_with(void **state, int64_t step, const char *dtype, int *lines)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 40});
    const char *const overrides[] = {UNITS, dtype, "lathe.device=cpu"};
    const lt_config_opts o = {.overrides = overrides, .n_overrides = 3, .world_size = 2};
    const lt_proof_sinks sinks = {.ctx = lines,
                                  .line = count_differences,
                                  .spoil_step = step,
                                  .spoil_param = 4,
                                  .spoil_value = 3.0F};
    lt_config *cfg = NULL;
    lt_proof proof;
    assert_int_equal(chdir(dir), 0);
    assert_ok(lt_config_load("train.yaml", &o, NULL, &cfg));
    assert_ok(lt_prove(cfg, &sinks, &proof));
    lt_config_destroy(cfg);
    return proof;
}

static void a_wrong_weight_is_found(void **state)
{
    static const char *const dtypes[] = {"lathe.dtype=f32", "lathe.dtype=bf16"};
    for (int i = 0; i < 2; i++) {
        int lines[3] = {0};
        const lt_proof right = proof_with(state, 0, dtypes[i], &lines[0]),
                       first = proof_with(state, 1, dtypes[i], &lines[1]),
                       second = proof_with(state, 2, dtypes[i], &lines[2]);
        assert_true(right.differ == 0 && right.compared > 80 && lines[0] == 0);
        assert_true(first.differ > 1 && lines[1] > 1);
        assert_text_contains(first.first, "step 1: ");
        assert_true(second.differ > 1 && lines[2] > 1);
        assert_text_contains(second.first, "step 2: ");
    }
}

static void what_cannot_be_proved_is_refused(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 40});
    const lt_run_result one = lt_lathe(*state, dir, "prove", "train.yaml", "-n1");
    assert_exit(one, 2);
    const lt_run_result r = lt_lathe(*state, dir, "prove", "train.yaml", "training.trian_iters=2");
    assert_exit(r, 2);
    assert_text_contains(r.err, "train_iters");
}

LT_TEST_MAIN(LT_TEST(layouts_are_proved), LT_TEST(what_was_compared_is_said),
             LT_TEST(a_wrong_weight_is_found), LT_TEST(what_cannot_be_proved_is_refused))
