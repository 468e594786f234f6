// SPDX-License-Identifier: Apache-2.0
// The program as its users meet it: how fast it starts, their own YAML file, and settings that must
// not change a bit.
#include "base/file.h"
#include "ckpt/hf_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- starting ---- */

enum { TRIES = 7 };

static double fastest(void *state, const char *dir, const char *const *args, int exit_code)
{
    double best = 1e9;
    for (int i = 0; i < TRIES; i++) {
        const lt_run_result r = lt_run(state, dir, &(lt_run_opts){0}, args);
        assert_exit(r, exit_code);
        best = r.seconds < best ? r.seconds : best;
    }
    return best;
}

// 50 ms is what users are promised; four times that is for machines that do other things too.
static void help_and_mistakes_answer_at_once(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const char *const help[] = {"help", NULL}, *const bad[] = {"train", "train.yaml", NULL};
    lt_place_edit(*state, dir, "train.yaml", "lr: 1.0e-2", "lr: fast");
    const double help_s = fastest(*state, dir, help, 0), bad_s = fastest(*state, dir, bad, 2);
    print_message("help takes %.0f ms, a mistake in the configuration %.0f ms\n", help_s * 1e3,
                  bad_s * 1e3);
    if (lt_run_sanitized()) {
        print_message("a sanitizer's own start is not judged\n");
        return;
    }
    assert_true(help_s < 0.2);
    assert_true(bad_s < 0.2);
}

static void devices_are_listed_and_a_missing_gpu_is_explained(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const char *const args[] = {"devices", NULL};
    const lt_run_result list = lt_run(*state, dir, &(lt_run_opts){0}, args);
    assert_exit(list, 0);
    assert_text_contains(list.out, "cpu      ");
    assert_text_contains(list.out, "lathe.device: auto is ");
    if (!strstr(list.out, "auto is cpu"))
        return; // there is a GPU
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "lathe.device=cuda");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "device cuda:0 was asked for, but ");
}

/* ---- the users' file ---- */

static const char user_yaml[] = "tests/golden/yaml/qwen3vl_8B_config_v1.yaml";

static const char *place_of_user(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.layers = 3, .bf16 = true, .untied = true});
    assert_ok(lt_file_copy(user_yaml, lt_test_path(*state, dir, "user.yaml")));
    return dir;
}

// As it stands it asks for nothing that does not exist; but its folders are not here.
static void the_users_file_is_refused_for_its_folders_alone(void **state)
{
    const char *dir = place_of_user(state);
    const lt_run_result r = lt_lathe(*state, dir, "train", "user.yaml");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "there is no folder ckpt/dcp_path/Qwen3-VL-8B-Instruct-dcp");
}

// What was cut off is saved all the same.
static void assert_same_tensor(void **state, const char *dir, const char *name)
{
    lt_hf *source = NULL, *saved = NULL;
    assert_ok(lt_hf_open(lt_test_path(*state, dir, "model"), NULL, &source));
    assert_ok(lt_hf_open(lt_test_path(*state, dir, "out/iter_0000004"), NULL, &saved));
    const lt_st_tensor *a = lt_hf_find(saved, name), *b = lt_hf_find(source, name);
    assert_true(a && b && a->bytes == b->bytes);
    assert_memory_equal(a->data, b->data, b->bytes);
    lt_hf_close(source);
    lt_hf_close(saved);
}

// A trace that viewers read: every action and kernel of the step, with a time.
static void assert_trace(void **state, const char *dir)
{
    const char *text = lt_place_read(*state, dir, "traces/rank_0_steps_3-3.json");
    json_t *root = json_loads(text, 0, NULL), *event = NULL;
    const json_t *events = json_object_get(root, "traceEvents");
    size_t i = 0, kernels = 0, updates = 0;
    assert_true(json_is_array(events));
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name")),
                   *kind = json_string_value(json_object_get(event, "cat"));
        assert_non_null(name);
        if (!kind)
            continue; // of a row's name
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0.0);
        assert_true(json_number_value(json_object_get(event, "dur")) >= 0.0);
        kernels += strcmp(kind, "kernel") == 0;
        updates += strncmp(name, "UPDATE", 6) == 0;
    }
    assert_true(kernels > 50 && updates > 0);
    json_decref(root);
    assert_text_contains(lt_place_read(*state, dir, "traces/rank_0_steps_3-3.txt"), "all kernels");
}

// With load at a Hugging Face folder, and cut to a few layers, it trains, and records the step that
// was asked for.
static void the_users_file_trains(void **state)
{
    const char *dir = place_of_user(state);
    const char *const args[] = {"train",
                                "user.yaml",
                                "training.load=model",
                                "tools.profile.static_param.save_path=traces",
                                "tools.profile.static_param.start_step=2",
                                "tools.profile.static_param.end_step=3",
                                "model.num_hidden_layers=2",
                                "model.vision_depth=1",
                                "model.model_name_or_path=model",
                                "data.dataset_param.preprocess_parameters.model_name_or_path=model",
                                "data.dataset_param.basic_parameters.dataset=data.json",
                                "data.dataset_param.basic_parameters.dataset_dir=pictures",
                                "training.train_iters=4",
                                "training.save=out",
                                NULL};
    const lt_run_result r = lt_run(*state, dir, &(lt_run_opts){0}, args);
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration        4/       4 |");
    assert_text_contains(r.err, "compute bf16");
    assert_text_contains(r.err, "steps 3 to 3 took ");
    assert_trace(state, dir);
    assert_text_contains(r.err, "hints that change no result here: ");
    assert_text_contains(r.err, "model.visual                          0 trained");
    assert_text_contains(lt_place_read(*state, dir, "out/iter_0000004/config.json"),
                         "\"num_hidden_layers\": 3");
    assert_same_tensor(state, dir, "model.language_model.layers.2.mlp.up_proj.weight");
    assert_same_tensor(state, dir, "model.visual.blocks.1.attn.qkv.weight");
}

static void a_policy_that_is_none_is_refused_before_weights_are_read(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "lathe.policy=full:2");
    assert_exit(r, 2);
    assert_text_contains(r.err, "lathe.policy");
    assert_text_contains(r.err, "\"full:2\" is not a policy");
}

/* ---- settings that only move work ---- */

static const char *train_with(void **state, const char *const settings[2])
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", settings[0], settings[1]);
    assert_exit(r, 0);
    return dir;
}

// Rows of two settings each: all must end with the bits of the first.
static void assert_same_bits(void **state, const char *const settings[][2], int n)
{
    const char *want = train_with(state, settings[0]);
    for (int i = 1; i < n; i++) {
        const char *dir = train_with(state, settings[i]);
        lt_run_same_steps(*state, lt_test_path(*state, dir, "out"),
                          lt_test_path(*state, want, "out"), 1, 6);
        lt_run_same_folder(*state, lt_test_path(*state, dir, "out/iter_0000006"),
                           lt_test_path(*state, want, "out/iter_0000006"));
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    static const char *const f32[][2] = {{"lathe.threads=1", "lathe.dtype=f32"},
                                         {"lathe.threads=2", "lathe.dtype=f32"},
                                         {"lathe.threads=4", "lathe.dtype=f32"}};
    static const char *const bf16[][2] = {{"lathe.threads=1", "lathe.dtype=bf16"},
                                          {"lathe.threads=2", "lathe.dtype=bf16"},
                                          {"lathe.threads=4", "lathe.dtype=bf16"}};
    assert_same_bits(state, f32, 3);
    assert_same_bits(state, bf16, 3);
}

static void policies_and_units_do_not_change_a_bit(void **state)
{
    static const char *const rows[][2] = {
        {"lathe.policy=keep", "training.seed=42"},
        {"lathe.policy=full", "training.seed=7"}, // the order of samples does not depend on it
        {"lathe.policy=lean", "model.skip_flash_attn_recompute=true"},
        {"lathe.policy='full:1,lean'", "training.seed=8"},
        {"features.recompute=true",
         "features.recompute_plan.apply_modules=['model.visual.blocks.{*}']"},
        {"parallel.fsdp_plan.apply_modules=['model.language_model.layers.{*}', 'model.visual']",
         "parallel.fsdp_plan.num_to_forward_prefetch=2"}};
    const char *want = train_with(state, rows[0]);
    for (int i = 1; i < 6; i++) {
        const char *dir = train_with(state, rows[i]);
        lt_run_same_steps(*state, lt_test_path(*state, dir, "out"),
                          lt_test_path(*state, want, "out"), 1, 6);
        lt_run_same_file(*state, lt_test_path(*state, dir, "out/iter_0000006/model.safetensors"),
                         lt_test_path(*state, want, "out/iter_0000006/model.safetensors"));
    }
}

/* ---- looking at what was trained ---- */

// One record, learned by heart, is answered word for word.
static void a_model_says_what_it_was_taught(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_place_write(*state, dir, LT_PLACE_DATA,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"<image>What colour?\"}, "
                   "{\"role\": \"assistant\", \"content\": \"the red one\"}], \"images\": "
                   "[\"p1.png\"]}\n");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=60",
                 "training.micro_batch_size=1", "training.gradient_accumulation_steps=1");
    assert_exit(r, 0);
    const char *metrics = lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
    assert_true(lt_run_metric(metrics, 60, "loss") < 0.1 * lt_run_metric(metrics, 1, "loss"));
    const lt_run_result said = lt_lathe(*state, dir, "generate", "out", "--prompt", "What colour?",
                                        "--image", "pictures/p1.png", "--max-pixels", "16384");
    assert_exit(said, 0);
    assert_text_equal(said.out, "the red one\n");
    const lt_run_result judged =
        lt_lathe(*state, dir, "eval", "train.yaml", "--model", "out", "--data", "data.json");
    assert_exit(judged, 0);
    assert_text_contains(judged.out, "exact match 1 of 1 (100.0 %)");
}

LT_TEST_MAIN(LT_TEST(help_and_mistakes_answer_at_once),
             LT_TEST(a_policy_that_is_none_is_refused_before_weights_are_read),
             LT_TEST(devices_are_listed_and_a_missing_gpu_is_explained),
             LT_TEST(the_users_file_is_refused_for_its_folders_alone),
             LT_TEST(the_users_file_trains), LT_TEST(threads_do_not_change_a_bit),
             LT_TEST(policies_and_units_do_not_change_a_bit),
             LT_TEST(a_model_says_what_it_was_taught))
