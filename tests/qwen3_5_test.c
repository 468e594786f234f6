// SPDX-License-Identifier: Apache-2.0
// Whole runs of Qwen3.5 and Qwen3.6 on a tiny model: the users' files, the prediction module, what
// is saved.
#include "base/file.h"
#include "ckpt/hf_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAVED "out/iter_0000002"

static lt_hf *open_folder(void *state, const char *dir, const char *name)
{
    lt_hf *hf = NULL;
    assert_ok(lt_hf_open(lt_test_path(state, dir, name), NULL, &hf));
    return hf;
}

// Turns what a run of random weights saved into the folder that later runs read.
static void keep_as_model(void *state, const char *dir)
{
    assert_ok(lt_file_copy(lt_test_path(state, dir, "out/iter_0000001/model.safetensors"),
                           lt_test_path(state, dir, "model/model.safetensors")));
}

#define train(state, dir, ...)                                                                     \
    do {                                                                                           \
        const lt_run_result run_ = lt_lathe((state), (dir), "train", "train.yaml", __VA_ARGS__);   \
        assert_exit(run_, 0);                                                                      \
    } while (0)

/* ---- the users' files ---- */

static void run_users_file(void *state, const char *name, const char *also)
{
    const char *dir = lt_hybrid_place(state, false);
    char *path = NULL;
    assert_ok(lt_arena_printf(state, &path, "yaml/%s", name));
    assert_ok(lt_file_copy(lt_test_golden(state, path), lt_test_path(state, dir, "user.yaml")));
    const lt_run_result r = lt_lathe(
        state, dir, "train", "user.yaml", "training.load=null", "lathe.init=random",
        "model.num_hidden_layers=3", "model.vision_depth=1", "model.model_name_or_path=model",
        "data.dataset_param.preprocess_parameters.model_name_or_path=model",
        "data.dataset_param.basic_parameters.dataset=data.json",
        "data.dataset_param.basic_parameters.dataset_dir=pictures", "training.train_iters=2",
        "training.save=out", also);
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration        2/       2 |");
    assert_text_contains(r.err, "compute bf16");
    lt_hf *saved = open_folder(state, dir, SAVED);
    const lt_st_tensor *conv =
        lt_hf_find(saved, "model.language_model.layers.0.linear_attn.conv1d.weight");
    assert_non_null(conv);
    assert_int_equal(conv->rank, 3);
    assert_int_equal(conv->dim[0], 2 * 2 * 8 + 4 * 6);
    lt_hf_close(saved);
}

static void the_users_file_of_qwen3_5_trains(void **state)
{
    run_users_file(*state, "qwen3_5_4B_config.yaml", "model.skip_gdn_recompute=true");
}

static void the_users_file_of_qwen3_6_trains(void **state)
{
    run_users_file(*state, "qwen3_6_27B_config.yaml", "training.log_interval=1");
}

static void the_users_file_with_its_state_on_the_host_trains(void **state)
{
    run_users_file(*state, "qwen3_6_27B_offload_config.yaml", "training.micro_batch_size=2");
}

/* ---- policies ---- */

// What is kept and what is computed again does not change a bit.
static void recomputing_linear_attention_changes_nothing(void **state)
{
    static const char *const settings[][2] = {
        {"lathe.policy=keep", "model.skip_gdn_recompute=false"},
        {"lathe.policy=lean", "model.skip_gdn_recompute=false"},
        {"lathe.policy=full", "model.skip_gdn_recompute=false"},
        {"lathe.policy=full", "model.skip_gdn_recompute=true"}};
    double first[2] = {0, 0};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *dir = lt_hybrid_place(*state, i % 2 == 0);
        train(*state, dir, "lathe.init=random", "training.train_iters=2", settings[i][0],
              settings[i][1]);
        const double loss = lt_run_metric(
            lt_run_metrics(*state, lt_test_path(*state, dir, LT_PLACE_OUT)), 2, "loss");
        first[i % 2] = first[i % 2] != 0 ? first[i % 2] : loss;
        assert_true(loss == first[i % 2]);
    }
}

/* ---- the prediction module ---- */

static bool same(const lt_hf *a, const lt_hf *b, const char *name)
{
    const lt_st_tensor *x = lt_hf_find(a, name), *y = lt_hf_find(b, name);
    assert_true(x && y && x->bytes == y->bytes);
    return memcmp(x->data, y->data, x->bytes) == 0;
}

// BR-58: it trains, all of it, and its loss is in the line and in metrics.jsonl. Then BR-65: a run
// that does not train it keeps its bytes.
static void train_and_keep(void *state, bool experts)
{
    const char *dir = lt_hybrid_place(state, experts);
    train(state, dir, "lathe.init=random", "training.train_iters=1", "model.mtp_num_layers=1");
    keep_as_model(state, dir);
    const lt_run_result r =
        lt_lathe(state, dir, "train", "train.yaml", "training.train_iters=2",
                 "model.mtp_num_layers=1", "training.lr_warmup_ratio=0", "training.log_interval=1");
    assert_exit(r, 0);
    assert_text_contains(r.out, " | mtp_1 loss: ");
    const double loss =
        lt_run_metric(lt_run_metrics(state, lt_test_path(state, dir, LT_PLACE_OUT)), 1, "mtp_loss");
    assert_true(loss > 0.5 * log(LT_PLACE_VOCAB) && loss < 2 * log(LT_PLACE_VOCAB));
    lt_hf *model = open_folder(state, dir, "model"), *saved = open_folder(state, dir, SAVED);
    assert_int_equal(lt_hf_count(model), lt_hf_count(saved));
    int64_t of_module = 0;
    for (int64_t i = 0; i < lt_hf_count(model); i++) {
        const char *name = lt_hf_at(model, i)->name;
        if (strncmp(name, "mtp.", 4) != 0)
            continue;
        of_module++;
        if (same(model, saved, name))
            fail_msg("%s has not changed", name);
    }
    assert_int_equal(of_module, experts ? 19 : 15);
    lt_hf_close(saved);
    train(state, dir, "training.train_iters=2", "training.save=again");
    saved = open_folder(state, dir, "again/iter_0000002");
    assert_int_equal(lt_hf_count(model), lt_hf_count(saved));
    for (int64_t i = 0; i < lt_hf_count(model); i++) {
        const char *name = lt_hf_at(model, i)->name;
        if (strncmp(name, "mtp.", 4) == 0)
            assert_true(same(model, saved, name));
    }
    lt_hf_close(saved);
    lt_hf_close(model);
}

static void the_prediction_module_trains_or_is_kept(void **state)
{
    train_and_keep(*state, false);
}

static void the_prediction_module_may_have_experts(void **state)
{
    train_and_keep(*state, true);
}

static void a_lost_module_begins_anew_and_says_so(void **state)
{
    const char *dir = lt_hybrid_place(*state, false);
    train(*state, dir, "lathe.init=random", "training.train_iters=1");
    keep_as_model(*state, dir);
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                                     "model.mtp_num_layers=1");
    assert_exit(r, 0);
    assert_text_contains(r.err, "has no prediction module (mtp.*): it begins with random values");
    lt_hf *saved = open_folder(*state, dir, SAVED);
    assert_non_null(lt_hf_find(saved, "mtp.fc.weight"));
    lt_hf_close(saved);
}

static void what_is_not_built_is_refused(void **state)
{
    const char *dir = lt_hybrid_place(*state, false);
    lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "lathe.init=random", "model.mtp_num_layers=2");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "model.mtp_num_layers");
    r = lt_lathe(*state, dir, "train", "train.yaml", "lathe.init=random", "lathe.device=cuda");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "models of type qwen3_5 train on the CPU alone so far");
    const char *other = lt_place(*state, &(lt_place_opts){.random = true});
    r = lt_lathe(*state, other, "train", "train.yaml", "lathe.init=random",
                 "model.mtp_num_layers=1");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "models of type qwen3_vl have no prediction module");
}

LT_TEST_MAIN(LT_TEST(the_users_file_of_qwen3_5_trains), LT_TEST(the_users_file_of_qwen3_6_trains),
             LT_TEST(the_users_file_with_its_state_on_the_host_trains),
             LT_TEST(recomputing_linear_attention_changes_nothing),
             LT_TEST(the_prediction_module_trains_or_is_kept),
             LT_TEST(the_prediction_module_may_have_experts),
             LT_TEST(a_lost_module_begins_anew_and_says_so), LT_TEST(what_is_not_built_is_refused))
