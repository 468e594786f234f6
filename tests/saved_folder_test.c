// SPDX-License-Identifier: Apache-2.0
// What a run saves is the folder that it came from: names, shapes, dtypes, files, small files; only
// what was trained has other bytes.
#include "base/file.h"
#include "ckpt/hf_folder.h"
#include "ckpt/run_folder.h"
#include "tests/kit/lt_qwen.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <stdio.h>
#include <string.h>

#define SAVED "out/iter_0000001"
static const char *const small_files[] = {
    "config.json",    "generation_config.json", "preprocessor_config.json",
    "tokenizer.json", "tokenizer_config.json",  "chat_template.jinja"};
enum { N_SMALL_FILES = sizeof small_files / sizeof *small_files };

static lt_hf *open_folder(void **state, const char *dir, const char *name)
{
    lt_hf *hf = NULL;
    assert_ok(lt_hf_open(lt_test_path(*state, dir, name), NULL, &hf));
    return hf;
}

static bool same_bytes(const lt_st_tensor *a, const lt_st_tensor *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

// Same files, and in each the same names, shapes and dtypes in the same order.
static void assert_same_layout(const lt_hf *got, const lt_hf *want)
{
    assert_int_equal(lt_hf_n_files(got), lt_hf_n_files(want));
    assert_int_equal(lt_hf_has_index(got), lt_hf_has_index(want));
    assert_int_equal(lt_hf_count(got), lt_hf_count(want));
    for (int64_t f = 0; f < lt_hf_n_files(want); f++) {
        assert_string_equal(lt_hf_file_name(got, f), lt_hf_file_name(want, f));
        assert_int_equal(lt_st_count(lt_hf_file(got, f)), lt_st_count(lt_hf_file(want, f)));
    }
    for (int64_t i = 0; i < lt_hf_count(want); i++) {
        const lt_st_tensor *a = lt_hf_at(got, i), *b = lt_hf_at(want, i);
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->dtype_text, b->dtype_text);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->dim, b->dim, (size_t)b->rank * sizeof *b->dim);
    }
}

// How many tensors whose names begin with `prefix` have other bytes than before, of *all.
static int64_t count_changed(const lt_hf *got, const lt_hf *want, const char *prefix, int64_t *all)
{
    int64_t changed = 0;
    *all = 0;
    for (int64_t i = 0; i < lt_hf_count(want); i++) {
        const lt_st_tensor *b = lt_hf_at(want, i);
        if (!lt_text_starts(b->name, prefix))
            continue;
        changed += !same_bytes(lt_hf_find(got, b->name), b);
        ++*all;
    }
    return changed;
}

static void assert_all_changed(const lt_hf *got, const lt_hf *want, const char *prefix)
{
    int64_t all = 0;
    const int64_t changed = count_changed(got, want, prefix, &all);
    assert_true(all > 20);
    assert_int_equal(changed, all);
}

static void assert_small_files(void **state, const char *dir)
{
    for (int i = 0; i < N_SMALL_FILES; i++) {
        lt_run_same_file(*state,
                         lt_test_path(*state, lt_test_path(*state, dir, SAVED), small_files[i]),
                         lt_test_path(*state, lt_test_path(*state, dir, "model"), small_files[i]));
    }
}

/* Every kind of source: f32 in one file, bf16 in shards; a tied head and one of its own. */
static const lt_place_opts kinds[] = {
    {.extra = true},
    {.untied = true, .extra = true},
    {.bf16 = true, .files = 3, .extra = true},
    {.bf16 = true, .files = 3, .untied = true, .extra = true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

// BR-62 (a tied base whose index has no head entry), BR-63 (names, shapes and index as published),
// BR-65 (mtp.* is carried over).
static void a_saved_folder_is_laid_out_as_its_source(void **state)
{
    for (int i = 0; i < N_KINDS; i++) {
        const char *dir = lt_place(*state, &kinds[i]);
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=1", "training.lr_warmup_ratio=0");
        int64_t all = 0;
        assert_exit(r, 0);
        assert_text_contains(r.err, "2 tensors of model are not used; they are kept");
        lt_hf *saved = open_folder(state, dir, SAVED), *source = open_folder(state, dir, "model");
        assert_same_layout(saved, source);
        assert_int_equal(count_changed(saved, source, "mtp.", &all), 0);
        assert_int_equal(all, 2);
        assert_all_changed(saved, source, "model.language_model.");
        assert_true(lt_hf_find(source, "lm_head.weight") == NULL || kinds[i].untied);
        assert_small_files(state, dir);
        lt_hf_close(saved);
        lt_hf_close(source);
    }
}

// What a rate of 0 leaves as it was goes through masters, halves of masters and back.
static void what_did_not_change_is_saved_byte_for_byte(void **state)
{
    static const char *const dtypes[] = {"lathe.dtype=f32", "lathe.dtype=bf16"};
    for (int i = 0; i < N_KINDS * 2; i++) {
        const char *dir = lt_place(*state, &kinds[i / 2]);
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", dtypes[i % 2],
                                         "training.train_iters=1", "training.lr=0");
        int64_t all = 0;
        assert_exit(r, 0);
        lt_hf *saved = open_folder(state, dir, SAVED), *source = open_folder(state, dir, "model");
        assert_int_equal(count_changed(saved, source, "", &all), 0);
        assert_true(all > 50);
        lt_hf_close(saved);
        lt_hf_close(source);
    }
}

// In bf16 graphs read narrowed weights; the file's own bytes are what is saved all the same.
static void frozen_weights_keep_their_bytes(void **state)
{
    for (int i = 0; i < N_KINDS; i++) {
        const char *dir = lt_place(*state, &kinds[i]);
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "lathe.dtype=bf16",
                                         "training.train_iters=2", "training.save_interval=1",
                                         "model.freeze=[model.visual]");
        int64_t all = 0;
        assert_exit(r, 0);
        lt_hf *saved = open_folder(state, dir, "out/iter_0000002");
        lt_hf *source = open_folder(state, dir, "model");
        assert_int_equal(count_changed(saved, source, "model.visual.", &all), 0);
        assert_true(all > 20);
        assert_all_changed(saved, source, "model.language_model.");
        lt_hf_close(saved);
        lt_hf_close(source);
    }
}

// A frozen model that is resumed reads its frozen weights from the checkpoint, and saves them
// again.
static void frozen_weights_keep_their_bytes_over_a_resume(void **state)
{
    const char *dir = lt_place(*state, &kinds[2]);
    static const char freeze[] = "model.freeze=[model.visual]";
    const lt_run_result first =
        lt_lathe(*state, dir, "train", "train.yaml", freeze, "training.train_iters=1");
    assert_exit(first, 0);
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", freeze,
                                     "training.train_iters=2", "training.load=out");
    int64_t all = 0;
    assert_exit(r, 0);
    lt_hf *saved = open_folder(state, dir, "out/iter_0000002");
    lt_hf *source = open_folder(state, dir, "model");
    assert_same_layout(saved, source);
    assert_int_equal(count_changed(saved, source, "model.visual.", &all), 0);
    assert_int_equal(count_changed(saved, source, "mtp.", &all), 0);
    lt_hf_close(saved);
    lt_hf_close(source);
}

static void save_ckpt_dtype_changes_floats_and_says_so(void **state)
{
    static const struct {
        const char *setting, *text, *config;
    } rows[] = {{"training.save_ckpt_dtype=fp32", "F32", "\"dtype\": \"float32\""},
                {"training.save_ckpt_dtype=bf16", "BF16", "\"dtype\": \"bfloat16\""},
                {"training.save_ckpt_dtype=fp16", "F16", "\"dtype\": \"float16\""}};
    for (size_t k = 0; k < 3; k++) {
        int64_t all = 0;
        const char *dir = lt_place(*state, &kinds[2]);
        const lt_run_result r =
            lt_lathe(*state, dir, "train", "train.yaml", rows[k].setting, "training.train_iters=1");
        assert_exit(r, 0);
        lt_hf *saved = open_folder(state, dir, SAVED), *source = open_folder(state, dir, "model");
        assert_int_equal(lt_hf_count(saved), lt_hf_count(source));
        for (int64_t i = 0; i < lt_hf_count(saved); i++)
            if (!lt_text_starts(lt_hf_at(saved, i)->name, "mtp."))
                assert_string_equal(lt_hf_at(saved, i)->dtype_text, rows[k].text);
        assert_int_equal(count_changed(saved, source, "mtp.", &all), 0);
        assert_text_contains(lt_place_read(*state, dir, SAVED "/config.json"), rows[k].config);
        lt_hf_close(saved);
        lt_hf_close(source);
        const lt_run_result again =
            lt_lathe(*state, dir, "train", "train.yaml", "training.load=out",
                     "training.train_iters=2"); // it is read again
        assert_exit(again, 0);
    }
}

/* ---- tied and untied, whatever the flags say: BR-59 ---- */

// The next step's loss after a resume, and after a start from the saved weights alone.
static void assert_no_jump(void **state, const char *dir)
{
    static const char *const plain[] = {
        "training.lr_decay_style=constant", "training.lr_warmup_ratio=0",
        "training.gradient_accumulation_steps=1", "data.dataloader_param.shuffle=false"};
    const lt_run_result first = lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1],
                                         plain[2], plain[3], "training.train_iters=2");
    assert_exit(first, 0);
    const lt_run_result on =
        lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1], plain[2], plain[3],
                 "training.train_iters=3", "training.load=out");
    assert_exit(on, 0);
    assert_int_equal(remove(lt_test_path(*state, dir, "out/iter_0000002/" LT_RUN_STATE)), 0);
    const lt_run_result fresh =
        lt_lathe(*state, dir, "train", "train.yaml", plain[0], plain[1], plain[2], plain[3],
                 "training.train_iters=1", "training.load=out/iter_0000002", "training.save=new");
    assert_exit(fresh, 0);
    const char *out = lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
    const char *new = lt_run_metrics(*state, lt_test_path(*state, dir, "new"));
    assert_near(lt_run_metric(new, 1, "loss"), lt_run_metric(out, 3, "loss"), 0);
    assert_true(lt_run_metric(out, 3, "loss") < lt_run_metric(out, 1, "loss"));
}

static void flip_flags(void **state, const char *dir, const char *from, const char *to)
{
    for (int i = 0; i < 2; i++) // at the top and in text_config
        lt_place_edit(*state, dir, "model/config.json", from, to);
}
#define TIED "\"tie_word_embeddings\": true"
#define UNTIED "\"tie_word_embeddings\": false"

// config.json says untied, the checkpoint has no head: one buffer, no head in the file, and the
// saved flag says what is true. 4 records in order: step 3 sees what step 1 saw.
static void a_head_that_is_not_there_is_tied(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 4});
    flip_flags(state, dir, TIED, UNTIED);
    assert_no_jump(state, dir);
    lt_hf *saved = open_folder(state, dir, "out/iter_0000003");
    assert_null(lt_hf_find(saved, "lm_head.weight"));
    assert_text_contains(lt_place_read(*state, dir, "out/iter_0000003/config.json"), TIED);
    lt_hf_close(saved);
}

// config.json says tied, the checkpoint has a head: one buffer, saved under both names.
static void a_head_of_a_tied_model_is_saved_with_the_embedding(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 4, .untied = true});
    flip_flags(state, dir, UNTIED, TIED);
    assert_no_jump(state, dir);
    lt_hf *saved = open_folder(state, dir, "out/iter_0000003");
    const lt_st_tensor *head = lt_hf_find(saved, "lm_head.weight");
    assert_non_null(head);
    assert_true(same_bytes(head, lt_hf_find(saved, "model.language_model.embed_tokens.weight")));
    lt_hf_close(saved);
}

static void a_head_of_its_own_does_not_jump_either(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.records = 4, .untied = true});
    assert_no_jump(state, dir);
}

/* ---- a model that transformers wrote: BR-63 ---- */

static void a_published_model_keeps_its_names_and_shapes(void **state)
{
    const char *golden = lt_test_golden(*state, "model/qwen3_vl/model.safetensors");
    if (!golden) {
        print_message("golden/model/qwen3_vl isn't here\n");
        skip();
    }
    const char *dir = lt_place(*state, &(lt_place_opts){.random = true});
    assert_ok(lt_file_copy(golden, lt_test_path(*state, dir, "model/model.safetensors")));
    assert_ok(lt_file_copy(lt_test_golden(*state, "model/qwen3_vl/config.json"),
                           lt_test_path(*state, dir, "model/config.json")));
    lt_place_edit(*state, dir, "model/preprocessor_config.json", "\"patch_size\": 16",
                  "\"patch_size\": 8");
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1",
                                     "training.lr_warmup_ratio=0", "training.load_strict=true");
    assert_exit(r, 0);
    lt_hf *saved = open_folder(state, dir, SAVED), *source = open_folder(state, dir, "model");
    assert_same_layout(saved, source);
    assert_all_changed(saved, source, "");
    lt_hf_close(saved);
    lt_hf_close(source);
}

static void load_strict_refuses_tensors_of_no_use(void **state)
{
    const char *dir = lt_place(*state, &kinds[0]);
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.load_strict=true");
    assert_exit(r, 3);
    assert_text_contains(r.err, "mtp.layers.0.weight");
    assert_text_contains(r.err, "training.load_strict");
}

// Random weights: one file in the dtype of the computation, the folder's small files beside it.
static void random_weights_are_saved_as_a_whole_model(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.random = true});
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "lathe.init=random", "training.train_iters=1");
    assert_exit(r, 0);
    assert_small_files(state, dir);
    const lt_run_result again = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=2", "training.load=out/iter_0000001",
                                         "training.load_strict=true", "training.save=new");
    assert_exit(again, 0);
    const lt_run_result said = lt_lathe(*state, dir, "generate", SAVED, "--prompt", "Hello",
                                        "--image", "pictures/p1.png", "--max-tokens", "3");
    assert_exit(said, 0);
}

LT_TEST_MAIN(LT_TEST(a_saved_folder_is_laid_out_as_its_source),
             LT_TEST(what_did_not_change_is_saved_byte_for_byte),
             LT_TEST(frozen_weights_keep_their_bytes),
             LT_TEST(frozen_weights_keep_their_bytes_over_a_resume),
             LT_TEST(save_ckpt_dtype_changes_floats_and_says_so),
             LT_TEST(a_head_that_is_not_there_is_tied),
             LT_TEST(a_head_of_a_tied_model_is_saved_with_the_embedding),
             LT_TEST(a_head_of_its_own_does_not_jump_either),
             LT_TEST(a_published_model_keeps_its_names_and_shapes),
             LT_TEST(load_strict_refuses_tensors_of_no_use),
             LT_TEST(random_weights_are_saved_as_a_whole_model))
