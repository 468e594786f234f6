// SPDX-License-Identifier: Apache-2.0
// What a step computes, seen from outside: loss types, accumulation, batches that teach nothing,
// numbers that blow up, frozen parts, rates, clipping.
#include "base/file.h"
#include "ckpt/hf_folder.h"
#include "ckpt/run_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4 };
#define IN_ORDER "data.dataloader_param.shuffle=false"
#define STEADY "training.lr_decay_style=constant"
#define NO_WARM_UP "training.lr_warmup_ratio=0"

// Four records of text and pictures with these answers.
static const char *place_with(void **state, const char *const answers[N])
{
    static const char *const questions[N] = {"<image>What?", "How many boxes are there, and where?",
                                             "<image>And<image>?", "Which colour?"};
    static const char *const images[N] = {"\"p1.png\"", "", "\"p2.png\", \"p3.png\"", ""};
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_buf json = {0};
    for (int i = 0; i < N; i++) {
        assert_ok(lt_buf_printf(&json,
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, "
                                "{\"role\": \"assistant\", \"content\": \"%s\"}], \"images\": "
                                "[%s]}\n",
                                questions[i], answers[i], images[i]));
    }
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), json.data, json.len);
    lt_buf_deinit(&json);
    return dir;
}
static const char *const unequal[N] = {"Red", "There are three of them, all on the left.", "No.",
                                       "A bit of everything"};
static const char *const equal[N] = {"Red.", "Red.", "Red.", "Red."};

static const char *metrics(void **state, const char *dir)
{
    return lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
}

/* ---- loss types ---- */

// Each sample's mean loss and number of targets, from a run that sees them one by one and changes
// nothing.
static void look_at_samples(void **state, const char *dir, double *loss, double *targets)
{
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.lr=0", "training.train_iters=4",
                 "training.micro_batch_size=1", "training.gradient_accumulation_steps=1", IN_ORDER);
    assert_exit(r, 0);
    for (int i = 0; i < N; i++) {
        loss[i] = lt_run_metric(metrics(state, dir), i + 1, "loss");
        targets[i] = lt_run_metric(metrics(state, dir), i + 1, "targets");
        assert_true(loss[i] > 1 && targets[i] > 1);
    }
    assert_true(targets[0] != targets[1] && targets[2] != targets[3]);
}

static double loss_of_type(void **state, const char *dir, const char *type)
{
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.lr=0",
                                     "training.train_iters=1", "training.micro_batch_size=2",
                                     "training.gradient_accumulation_steps=2", IN_ORDER, type);
    assert_exit(r, 0);
    return lt_run_metric(metrics(state, dir), 1, "loss");
}

// Worked by hand from the four samples: l are their mean losses, n their targets. The tolerance is
// the rounding of losses in f32.
static void the_four_loss_types_weigh_samples_as_they_say(void **state)
{
    const char *dir = place_with(state, unequal);
    double l[N], n[N];
    look_at_samples(state, dir, l, n);
    const double first = (l[0] * n[0] + l[1] * n[1]) / (n[0] + n[1]);
    const double second = (l[2] * n[2] + l[3] * n[3]) / (n[2] + n[3]);
    const double sum = l[0] * n[0] + l[1] * n[1] + l[2] * n[2] + l[3] * n[3];
    const double per_token = sum / (n[0] + n[1] + n[2] + n[3]);
    const double per_sample = (l[0] + l[1] + l[2] + l[3]) / 4;
    const double tol = 2e-6 * first;
    assert_near(loss_of_type(state, dir, "features.loss_cfg.loss_type=raw"), (first + second) / 2,
                tol);
    assert_near(loss_of_type(state, dir, "features.loss_cfg.loss_type=default"),
                (first + second) / 2, tol);
    assert_near(loss_of_type(state, dir, "features.loss_cfg.loss_type=per_sample_loss"), per_sample,
                tol);
    assert_near(loss_of_type(state, dir, "features.loss_cfg.loss_type=per_token_loss"), per_token,
                tol);
    assert_true(fabs(per_token - per_sample) > 1e-3 &&
                fabs(per_token - (first + second) / 2) > 1e-3); // they can be told apart
}

// Loss, gradient norm and what one step makes of the weights, over 4 x 1, 2 x 2 and 1 x 4 samples.
static void assert_split_changes_nothing(void **state, const char *const *answers, const char *type)
{
    static const char *const splits[3][2] = {
        {"training.micro_batch_size=4", "training.gradient_accumulation_steps=1"},
        {"training.micro_batch_size=2", "training.gradient_accumulation_steps=2"},
        {"training.micro_batch_size=1", "training.gradient_accumulation_steps=4"}};
    double loss[3], norm[3];
    for (int i = 0; i < 3; i++) {
        const char *dir = place_with(state, answers);
        const lt_run_result r =
            lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=3", splits[i][0],
                     splits[i][1], type, NO_WARM_UP);
        assert_exit(r, 0);
        loss[i] = lt_run_metric(metrics(state, dir), 1, "loss");
        norm[i] = lt_run_metric(metrics(state, dir), 1, "grad_norm");
        assert_near(loss[i], loss[0], 2e-6 * loss[0]);
        assert_near(norm[i], norm[0], 2e-5 * norm[0]);
    }
}

// BR-35: the accumulation count divides once.
static void accumulation_changes_neither_loss_nor_norm(void **state)
{
    assert_split_changes_nothing(state, equal, "features.loss_cfg.loss_type=raw");
    assert_split_changes_nothing(state, equal, "features.loss_cfg.loss_type=default");
    assert_split_changes_nothing(state, unequal, "features.loss_cfg.loss_type=per_token_loss");
    assert_split_changes_nothing(state, unequal, "features.loss_cfg.loss_type=per_sample_loss");
}

static double number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    assert_non_null(at);
    return strtod(at + strlen(words), NULL);
}

// BR-35: training and evaluation print one scale.
static void evaluation_prints_the_scale_of_training(void **state)
{
    const char *dir = place_with(state, equal);
    double l[N], n[N];
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.lr=0", "training.train_iters=4",
                 "training.micro_batch_size=1", "training.gradient_accumulation_steps=1", IN_ORDER);
    assert_exit(r, 0);
    for (int i = 0; i < N; i++) {
        l[i] = lt_run_metric(metrics(state, dir), i + 1, "loss");
        n[i] = lt_run_metric(metrics(state, dir), i + 1, "targets");
        assert_true(n[i] == n[0]);
    }
    const lt_run_result e =
        lt_lathe(*state, dir, "eval", "train.yaml", "--data", "data.json", "--max-tokens", "2");
    assert_exit(e, 0);
    assert_text_contains(e.out, " over 4 samples");
    assert_near(number_after(e.out, "loss "), (l[0] + l[1] + l[2] + l[3]) / 4, 2e-6);
}

/* ---- nothing to learn, and too much: BR-43 ---- */

// Four tokens of a long question are left of each record, and nothing of the answer.
static void a_step_without_labels_warns_and_counts_as_zero(void **state)
{
    const char *dir = place_with(state, equal);
    lt_place_edit(*state, dir, LT_PLACE_DATA, "<image>What?", "What?");
    lt_place_edit(*state, dir, LT_PLACE_DATA, "<image>And<image>?", "And?");
    lt_place_edit(*state, dir, LT_PLACE_DATA, "\"p1.png\"", "");
    lt_place_edit(*state, dir, LT_PLACE_DATA, "\"p2.png\", \"p3.png\"", "");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                 "training.micro_batch_size=2", "training.gradient_accumulation_steps=1",
                 NO_WARM_UP, "data.dataset_param.basic_parameters.cutoff_len=4");
    assert_exit(r, 0);
    assert_text_contains(r.err, "warning: step 1 has no token that carries loss");
    assert_text_contains(r.out, "| loss: 0.000000E+00 | grad norm: 0.000 |");
    assert_near(lt_run_metric(metrics(state, dir), 2, "targets"), 0, 0);
    assert_near(lt_run_metric(metrics(state, dir), 2, "loss"), 0, 0);
}

static void assert_last_good(void **state, const char *dir, const char *steps)
{
    lt_vec names = LT_VEC_OF(char *);
    assert_string_equal(lt_place_read(*state, dir, "out/" LT_RUN_TRACKER), steps);
    assert_ok(lt_dir_list(lt_test_path(*state, dir, "out"), *state, &names));
    assert_int_equal(names.n, 5); // a checkpoint, tracker, metrics.jsonl, loss.svg, tensorboard
    lt_vec_deinit(&names);
    const lt_run_result on = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=4",
                                      STEADY, NO_WARM_UP, "training.load=out");
    assert_exit(on, 0);
}

static void weights_that_are_not_finite_are_never_saved(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result good =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2", STEADY, NO_WARM_UP);
    assert_exit(good, 0);
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=4", STEADY, NO_WARM_UP,
                 "training.load=out", "training.lr=1e39", "training.save_interval=1");
    assert_exit(r, 6);
    assert_text_contains(r.err, "nothing is saved over the last good checkpoint");
    assert_last_good(state, dir, "2");
}

static void a_loss_that_is_not_finite_stops_the_run(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result good =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2", STEADY, NO_WARM_UP);
    assert_exit(good, 0);
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=9",
                                     STEADY, NO_WARM_UP, "training.load=out", "training.lr=1e38");
    assert_exit(r, 6);
    assert_text_contains(r.err, "error: step 4: loss is ");
    assert_text_contains(r.out, "NAN");
    assert_last_good(state, dir, "2");
}

/* ---- frozen parts ---- */

static bool prints(const char *text, const char *action, const char *block)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        const char *a = strstr(line, action), *b = a ? strstr(a, block) : NULL;
        if (b && b < line + n)
            return true;
    }
    return false;
}

static void a_frozen_tower_has_no_backward(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result all = lt_lathe(*state, dir, "plan", "train.yaml", "--program");
    const lt_run_result frozen =
        lt_lathe(*state, dir, "plan", "train.yaml", "--program", "model.freeze=[model.visual]");
    assert_exit(all, 0);
    assert_exit(frozen, 0);
    assert_true(prints(all.out, "BACKWARD", "model.visual.blocks.1"));
    assert_true(prints(frozen.out, "FORWARD", "model.visual.blocks.1"));
    assert_false(prints(frozen.out, "BACKWARD", "model.visual"));
    assert_true(prints(frozen.out, "BACKWARD", "model.language_model.layers.0"));
}

// A frozen decoder still hands gradients down to the tower.
static void a_frozen_decoder_still_teaches_the_tower(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1", NO_WARM_UP,
                 "training.clip_grad=0", "model.freeze=[model.language_model, lm_head]");
    assert_exit(r, 0);
    assert_true(lt_run_metric(metrics(state, dir), 1, "grad_norm") > 0);
    assert_text_contains(r.err, "model.language_model                  0 trained");
}

static void a_dead_freeze_pattern_is_a_note(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1",
                                     "model.freeze=[model.visual, mtp]");
    assert_exit(r, 0);
    assert_text_contains(r.err, "note: model.freeze: pattern mtp matches no module");
}

/* ---- rates and clipping ---- */

static float first_value(void **state, const char *dir, const char *folder, const char *tensor)
{
    lt_hf *hf = NULL;
    float x = NAN;
    assert_ok(lt_hf_open(lt_test_path(*state, dir, folder), NULL, &hf));
    const lt_st_tensor *t = lt_hf_find(hf, tensor);
    assert_non_null(t);
    assert_ok(lt_st_read(t, 0, 1, LT_F32, &x));
    lt_hf_close(hf);
    return x;
}

// The first update of AdamW without decay is the rate times a sign, to one part in eps / gradient.
static void lr_scaling_plan_sets_rates_by_name(void **state)
{
    static const char norm[] = "model.language_model.norm.weight",
                      layer[] = "model.language_model.layers.1.mlp.up_proj.weight",
                      visual[] = "model.visual.merger.linear_fc2.weight";
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_place_edit(*state, dir, "train.yaml", "  clip_grad: 1.0\n",
                  "  clip_grad: 0.0\n  lr_scaling_plan:\n"
                  "    - {match: model.visual, scale: 0.0}\n"
                  "    - {match: 'model\\..*layers\\.[12]', scale: 0.5}\n");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1", NO_WARM_UP,
                 "training.weight_decay=0", "training.adam_eps=1e-12");
    assert_exit(r, 0);
    const char *const names[] = {norm, layer, visual};
    const double want[] = {1e-2, 0.5e-2, 0};
    for (int i = 0; i < 3; i++) {
        const float before = first_value(state, dir, "model", names[i]),
                    after = first_value(state, dir, "out/iter_0000001", names[i]);
        assert_near(fabs((double)after - (double)before), want[i], 1e-6);
    }
}

// Vectors of spec/config-trainer-checkpoint.md, section 7.3.
static void schedules_reach_the_log(void **state)
{
    static const struct {
        const char *settings[4], *rates[4];
    } rows[] = {
        {{"training.lr=1e-5", "training.lr_decay_style=cosine", "training.train_iters=10",
          "training.lr_warmup_ratio=0.1"},
         {"0.000000E+00", "1.000000E-05", "9.698463E-06", "8.830222E-06"}},
        {{"training.lr=1", "training.lr_decay_style=linear", "training.train_iters=4",
          "training.lr_warmup_ratio=0.25"},
         {"0.000000E+00", "1.000000E+00", "6.666667E-01", "3.333333E-01"}},
        {{"training.lr=2e-3", STEADY, "training.train_iters=4", "training.lr_warmup_ratio=0"},
         {"2.000000E-03", "2.000000E-03", "2.000000E-03", "2.000000E-03"}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const char *dir = lt_place(*state, &(lt_place_opts){0});
        const char *const *s = rows[k].settings;
        // A rate of 1 ruins the weights, which is another test: here nothing is learned.
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", s[0], s[1], s[2], s[3],
                                         "training.adam_eps=1e9", "training.weight_decay=0");
        assert_exit(r, 0);
        const char *at = r.out;
        for (int i = 0; i < 4; i++) {
            char want[64];
            (void)snprintf(want, sizeof want, "| learning rate: %s |", rows[k].rates[i]);
            at = strstr(at, "| learning rate: ");
            assert_non_null(at);
            if (strncmp(at, want, strlen(want)) != 0)
                fail_msg("step %d of row %zu: want %s, got %.40s", i + 1, k, want, at);
            at++;
        }
    }
}

// With an eps that dwarfs gradients the first update is proportional to the clipped gradient.
static double first_update(void **state, const char *clip, double *norm)
{
    static const char tensor[] = "model.language_model.norm.weight";
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    char setting[64];
    (void)snprintf(setting, sizeof setting, "training.clip_grad=%s", clip);
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", setting, "training.train_iters=1", NO_WARM_UP,
                 "training.lr=1e3", "training.adam_eps=1e3", "training.weight_decay=0");
    assert_exit(r, 0);
    *norm = lt_run_metric(metrics(state, dir), 1, "grad_norm");
    return (double)first_value(state, dir, "out/iter_0000001", tensor) -
           (double)first_value(state, dir, "model", tensor);
}

static void clip_grad_shrinks_what_is_larger(void **state)
{
    double norm = 0, clipped_norm = 0;
    char half[32], twice[32];
    const double free_update = first_update(state, "0", &norm);
    assert_true(fabs(free_update) > 1e-4);
    (void)snprintf(half, sizeof half, "%.17g", norm / 2);
    (void)snprintf(twice, sizeof twice, "%.17g", norm * 2);
    const double update = first_update(state, half, &clipped_norm);
    assert_near(clipped_norm, norm, 0); // what is printed is the norm before
    assert_near(update / free_update, 0.5, 1e-3);
    assert_near(first_update(state, twice, &clipped_norm), free_update, 0);
}

LT_TEST_MAIN(LT_TEST(the_four_loss_types_weigh_samples_as_they_say),
             LT_TEST(accumulation_changes_neither_loss_nor_norm),
             LT_TEST(evaluation_prints_the_scale_of_training),
             LT_TEST(a_step_without_labels_warns_and_counts_as_zero),
             LT_TEST(weights_that_are_not_finite_are_never_saved),
             LT_TEST(a_loss_that_is_not_finite_stops_the_run),
             LT_TEST(a_frozen_tower_has_no_backward),
             LT_TEST(a_frozen_decoder_still_teaches_the_tower),
             LT_TEST(a_dead_freeze_pattern_is_a_note), LT_TEST(lr_scaling_plan_sets_rates_by_name),
             LT_TEST(schedules_reach_the_log), LT_TEST(clip_grad_shrinks_what_is_larger))
