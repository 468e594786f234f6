// SPDX-License-Identifier: Apache-2.0
// The files that users write, for Qwen3-VL, Qwen3.5, their models with experts and InternVL3.5:
// read as they are, with a tiny model of the same family in place of theirs, and run to their end
// on the CPU.
#include "tests/kit/intern_place.h"
#include "tests/kit/run_kit.h"
#include <string.h>

typedef enum place_kind {
    QWEN,
    QWEN_EXPERTS,
    HYBRID,
    HYBRID_EXPERTS,
    INTERN,
    INTERN_EXPERTS
} place_kind;

static const char *make_place(void *state, place_kind kind)
{
    if (kind == INTERN || kind == INTERN_EXPERTS)
        return lt_intern_pictures(state, LT_INTERN_REMOTE, kind == INTERN_EXPERTS);
    if (kind == HYBRID || kind == HYBRID_EXPERTS)
        return lt_hybrid_place(state, kind == HYBRID_EXPERTS);
    const char *dir = lt_place(state, &(lt_place_opts){.random = true, .layers = 3});
    const char *model = lt_test_path(state, dir, LT_PLACE_MODEL);
    if (kind == QWEN)
        return dir;
    lt_place_edit(state, model, "config.json", "\"qwen3_vl\"", "\"qwen3_vl_moe\"");
    lt_place_edit(state, model, "config.json", "\"hidden_size\": 32,",
                  "\"hidden_size\": 32, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
                  "\"moe_intermediate_size\": 12,");
    return dir;
}

#define FOLDERS                                                                                    \
    "model.model_name_or_path=model",                                                              \
        "data.dataset_param.preprocess_parameters.model_name_or_path=model", "training.save=out",  \
        "lathe.init=random", "lathe.device=cpu", "lathe.threads=2"

static lt_run_result run_file(void *state, const char *dir, bool intern, const char *iterations,
                              const char *load, const char *format)
{
    if (intern) {
        return lt_lathe(state, dir, "train", "user.yaml", FOLDERS, iterations, load, format,
                        "data.dataset_param.basic_parameters.data_path=data.jsonl",
                        "data.dataset_param.basic_parameters.data_folder=pictures");
    }
    return lt_lathe(state, dir, "train", "user.yaml", FOLDERS, iterations, load, format,
                    "data.dataset_param.basic_parameters.dataset=data.json",
                    "data.dataset_param.basic_parameters.dataset_dir=pictures");
}

static void examples_run_to_their_end(void **state)
{
    static const struct {
        const char *file;
        place_kind kind;
    } files[] = {
        {"examples/qwen3vl/qwen3vl_8B.yaml", QWEN},
        {"examples/qwen3vl/qwen3vl_4B_all.yaml", QWEN},
        {"examples/qwen3vl_moe/qwen3vl_30B_A3B.yaml", QWEN_EXPERTS},
        {"examples/qwen3vl_moe/qwen3vl_235B_A22B.yaml", QWEN_EXPERTS},
        {"examples/qwen3_5/qwen3_5_4B.yaml", HYBRID},
        {"examples/qwen3_5/qwen3_5_35B_A3B.yaml", HYBRID_EXPERTS},
        {"examples/qwen3_6/qwen3_6_27B.yaml", HYBRID},
        {"examples/qwen3_6/qwen3_6_35B_A3B.yaml", HYBRID_EXPERTS},
        {"examples/internvl3_5/internvl3_5_8B.yaml", INTERN},
        {"examples/internvl3_5/internvl3_5_30B_A3B.yaml", INTERN_EXPERTS},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *dir = make_place(*state, files[i].kind);
        const bool intern = files[i].kind >= INTERN;
        lt_place_write(*state, dir, "user.yaml", "%s", lt_test_read(*state, files[i].file, NULL));
        const lt_run_result r = run_file(*state, dir, intern, "training.train_iters=2",
                                         "training.load=null", "training.load_format=auto");
        assert_exit(r, 0);
        assert_text_contains(r.out, " iteration        2/       2 |");
        assert_text_contains(r.out, "Saved checkpoint to out/iter_0000002");
    }
}

// Up to the step behind the window that tools.profile asks for. Its checkpoint is a distributed
// one that is not here.
static void the_users_file_of_8b_runs_to_its_end(void **state)
{
    const char *path = lt_test_golden(*state, "../yaml/qwen3vl_8B_config_v1.yaml");
    if (!path)
        path = lt_test_golden(*state, "yaml/qwen3vl_8B_config_v1.yaml");
    assert_non_null(path);
    const char *dir = make_place(*state, QWEN);
    lt_place_write(*state, dir, "user.yaml", "%s", lt_test_read(*state, path, NULL));
    const lt_run_result r = run_file(*state, dir, false, "training.train_iters=12",
                                     "training.load=null", "training.load_format=auto");
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration       12/      12 |");
}

// The excerpts have no data section. InternVL's, with one, runs where its ranks are one.
static void the_excerpt_of_internvl_is_understood(void **state)
{
    const char *path = lt_test_golden(*state, "../yaml/internvl3_5_excerpt.yaml");
    if (!path)
        path = lt_test_golden(*state, "yaml/internvl3_5_excerpt.yaml");
    assert_non_null(path);
    const char *dir = make_place(*state, INTERN_EXPERTS);
    const char *text = lt_place_read(*state, dir, "train.yaml");
    const char *end = strstr(text, "model: {");
    assert_non_null(end);
    lt_place_write(*state, dir, "user.yaml", "%s%.*s", lt_test_read(*state, path, NULL),
                   (int)(end - text), text);
    lt_run_result r = run_file(*state, dir, true, "training.train_iters=2", "training.load=null",
                               "training.load_format=auto");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "parallel.ulysses_parallel_size: 1 ranks cannot be cut");
    assert_text_contains(r.err, "parallel.expert_parallel_size: 2 does not divide the 1 ranks");
    lt_place_edit(*state, dir, "user.yaml", "ulysses_parallel_size: 2", "ulysses_parallel_size: 1");
    lt_place_edit(*state, dir, "user.yaml", "expert_parallel_size: 2", "expert_parallel_size: 1");
    r = run_file(*state, dir, true, "training.train_iters=2", "training.load=null",
                 "training.load_format=auto");
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration        2/       2 |");
}

// tests/whole_run.sh takes these to the end; here they begin.
static void the_small_models_of_all_families_begin_to_learn_the_shapes(void **state)
{
    static const char *const families[][2] = {
        {"qwen3_vl", "qwen3_vl_nothink"},
        {"qwen3_vl_moe", "qwen3_vl_nothink"},
        {"internvl3_5", "intern_vl"},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *dir = lt_test_dir(*state);
        char *id = NULL, *chat = NULL;
        lt_run_result r = lt_lathe(*state, dir, "data", "shapes", ".", "--family", families[i][0],
                                   "--train", "8", "--held-out", "2");
        assert_exit(r, 0);
        lt_place_write(*state, dir, "user.yaml", "%s",
                       lt_test_read(*state, "examples/shapes/train.yaml", NULL));
        assert_ok(lt_arena_printf(*state, &id, "model.model_id=%s", families[i][0]));
        assert_ok(lt_arena_printf(*state, &chat, "data.dataset_param.basic_parameters.template=%s",
                                  families[i][1]));
        r = lt_lathe(*state, dir, "train", "user.yaml", FOLDERS, id, chat,
                     "data.dataset_param.basic_parameters.dataset=train.json",
                     "data.dataset_param.basic_parameters.val_dataset=held_out.json",
                     "data.dataset_param.basic_parameters.dataset_dir=.",
                     "parallel.fsdp_plan.apply_modules=[]", "training.train_iters=1",
                     "training.micro_batch_size=4");
        assert_exit(r, 0);
        assert_text_contains(r.out, " iteration        1/       1 |");
    }
    const lt_run_result r =
        lt_lathe(*state, lt_test_dir(*state), "data", "shapes", ".", "--family", "llava");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "there is no small model of a family llava; there are qwen3_vl,");
}

LT_TEST_MAIN(LT_TEST(examples_run_to_their_end), LT_TEST(the_users_file_of_8b_runs_to_its_end),
             LT_TEST(the_excerpt_of_internvl_is_understood),
             LT_TEST(the_small_models_of_all_families_begin_to_learn_the_shapes))
