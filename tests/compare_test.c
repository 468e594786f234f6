// SPDX-License-Identifier: Apache-2.0
// lathe compare: BR-44, the same data and two settings; where do the runs part?
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <stdio.h>
#include <string.h>

static const char *trained(void **state, const char *setting)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", setting,
                                     "training.save_interval=2", "training.train_iters=6");
    assert_exit(r, 0);
    return lt_test_path(*state, dir, "out");
}

static lt_run_result compared(void **state, const char *a, const char *b, const char *within)
{
    return lt_lathe(*state, lt_test_dir(*state), "compare", a, b, "--within", within);
}

static void br_44_runs_that_part_are_named_by_step_and_by_weight(void **state)
{
    const char *a = trained(state, "training.lr_warmup_ratio=0"),
               *b = trained(state, "model.freeze=[model.language_model.layers.1.mlp]");
    const lt_run_result same = compared(state, a, a, "0");
    assert_exit(same, 0);
    assert_text_contains(same.out, "6 steps in both logs, 6 of them the same\n");
    const lt_run_result r = compared(state, a, b, "0");
    assert_exit(r, 3);
    assert_text_contains(r.out, "step 1: grad_norm "); // the first loss is the same
    assert_text_contains(r.err, "the runs part at step 1; the first weight that differs: model.");
    assert_text_contains(r.out, "elements differ, by at most ");
    const lt_run_result wide = compared(state, a, b, "1e9");
    assert_exit(wide, 0);
    const lt_run_result logs = compared(state, lt_test_path(*state, a, "metrics.jsonl"),
                                        lt_test_path(*state, b, "metrics.jsonl"), "0");
    assert_exit(logs, 3);
    assert_null(strstr(logs.out, "tensors"));
}

// In the order of a forward pass: of what was trained, layer 0 comes first.
static void the_first_weight_is_the_first_that_a_forward_pass_meets(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(
        *state, dir, "train", "train.yaml", "training.train_iters=1", "training.lr_warmup_ratio=0",
        "model.freeze=[model.visual,model.language_model.embed_tokens]");
    assert_exit(r, 0);
    const lt_run_result c =
        compared(state, lt_test_path(*state, dir, "model"), lt_test_path(*state, dir, "out"), "0");
    assert_exit(c, 3);
    assert_text_contains(c.err, "the weights differ, first of all model.language_model.layers.0.");
}

static void what_cannot_be_compared_is_said(void **state)
{
    const char *dir = lt_test_dir(*state);
    const lt_run_result none = compared(state, dir, dir, "0");
    assert_exit(none, 3);
    assert_text_contains(none.err, "have neither a metrics.jsonl nor weights to compare");
    const lt_run_result negative = compared(state, dir, dir, "-1");
    assert_exit(negative, 2);
}

LT_TEST_MAIN(LT_TEST(br_44_runs_that_part_are_named_by_step_and_by_weight),
             LT_TEST(the_first_weight_is_the_first_that_a_forward_pass_meets),
             LT_TEST(what_cannot_be_compared_is_said))
