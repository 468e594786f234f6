// SPDX-License-Identifier: Apache-2.0
// InternVL with pictures, from its own records and from LLaMA-Factory's form: check, train, save,
// go on, answer, judge; and what is refused.
#include "tests/kit/intern_place.h"
#include "tests/kit/run_kit.h"
#include <string.h>

// A tile of 28 x 28 is 4 patches on a side and 4 tokens.
static void check_shows_tiles_tokens_and_labels(void **state)
{
    const char *dir = lt_intern_pictures(*state, LT_INTERN_REMOTE, false);
    lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml");
    assert_exit(r, 0);
    assert_text_contains(r.out, "template internvl2_5, cutoff_len 256; pictures: 1 to 4 tiles of "
                                "28 x 28 and a thumbnail, shared by the pictures of a record");
    assert_text_contains(r.out, "images    5, with 60 tokens"); // 1 + (3 + 3) + 5 + 3 tiles
    r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "1");
    assert_exit(r, 0);
    assert_text_contains(r.out, "32 x 32 pixels; 1 tile of 28 x 28, 4 tokens");
    assert_text_contains(r.out, "<img>|<IMG_CONTEXT> x 4|</img>");
    assert_text_contains(r.out, "[R|e|d|.|<|im_end|>|]\\n");
    r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "3");
    assert_exit(r, 0);
    // 100 : 70 is nearest to 1 : 1 and, among these, more than half of 2 x 2 tiles
    assert_text_contains(r.out, "100 x 70 pixels; 5 tiles of 28 x 28, 20 tokens");
    assert_text_contains(r.out, "<img>|<IMG_CONTEXT> x 20|</img>");
}

static void pictures_are_trained_saved_and_gone_on_from(void **state)
{
    for (int experts = 0; experts <= 1; experts++) {
        const char *dir = lt_intern_pictures(*state, LT_INTERN_NEWER, experts);
        lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=4",
                                   "training.save_interval=2");
        assert_exit(r, 0);
        const char *whole = lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
        const double last = lt_run_metric(whole, 4, "loss");
        assert_true(lt_run_metric(whole, 4, "loss") < lt_run_metric(whole, 1, "loss"));
        r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=4",
                     "training.load=out/iter_0000002", "training.save=again");
        assert_exit(r, 0);
        const char *again = lt_run_metrics(*state, lt_test_path(*state, dir, "again"));
        assert_near(lt_run_metric(again, 4, "loss"), last, 0);
    }
}

// Two ranks with a record each have the loss of one with two; samples of a packed row are as alone.
static void ranks_and_packed_rows_take_tiles_too(void **state)
{
    static const char *const runs[][3] = {
        {"training.gradient_accumulation_steps=2", "-n", "1"},
        {"training.gradient_accumulation_steps=1", "-n", "2"},
    };
    double loss[2];
    for (int i = 0; i < 2; i++) {
        const char *dir = lt_intern_pictures(*state, LT_INTERN_NEWER, true);
        const lt_run_result r =
            lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                     "training.micro_batch_size=1", runs[i][0], runs[i][1], runs[i][2]);
        assert_exit(r, 0);
        loss[i] =
            lt_run_metric(lt_run_metrics(*state, lt_test_path(*state, dir, "out")), 2, "loss");
    }
    assert_near(loss[1], loss[0], 1e-6 * loss[0]);
    const char *dir = lt_intern_pictures(*state, LT_INTERN_NEWER, false);
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1",
                 "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",
                 "data.dataset_param.basic_parameters.packing=true",
                 "data.dataset_param.basic_parameters.cutoff_len=600");
    assert_exit(r, 0);
    assert_text_contains(r.err, "4 samples in 2 packed rows");
}

// BR-31: a checkpoint says how its pictures were cut, not how its base's were.
static void a_checkpoint_says_how_its_pictures_were_cut(void **state)
{
    const char *dir = lt_intern_pictures(*state, LT_INTERN_REMOTE, false);
    lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1");
    assert_exit(r, 0);
    const char *text = lt_place_read(*state, dir, "out/iter_0000001/config.json");
    assert_text_contains(text, "\"dynamic_image_size\": true");
    assert_text_contains(text, "\"use_thumbnail\": true");
    assert_text_contains(text, "\"max_dynamic_patch\": 4");
    assert_null(strstr(text, "min_dynamic_patch"));
    assert_null(strstr(text, "pad2square"));
    // Nothing asked for: the tiles of the checkpoint's config.json.
    lt_place_edit(*state, dir, "train.yaml", "    max_dynamic_patch: 4\n", "");
    lt_place_edit(*state, dir, "train.yaml", "    dynamic_image_size: true\n", "");
    r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "3");
    assert_text_contains(r.out, "1 tile of 28 x 28");
    r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "3",
                 "model.model_name_or_path=out/iter_0000001");
    assert_exit(r, 0);
    assert_text_contains(r.out, "5 tiles of 28 x 28");
}

static void answers_and_judgements_see_the_pictures(void **state)
{
    const char *dir = lt_intern_pictures(*state, LT_INTERN_OLDER, false);
    lt_run_result r = lt_lathe(*state, dir, "generate", "model", "--prompt", "What is it?",
                               "--image", "pictures/p0.png", "--max-tokens", "3");
    assert_exit(r, 0);
    r = lt_lathe(*state, dir, "eval", "train.yaml", "--model", "model", "--data", "data.jsonl",
                 "--max-tokens", "3");
    assert_exit(r, 0);
    assert_text_contains(r.out, "exact match");
    assert_text_contains(r.out, "expected Red.");
    r = lt_lathe(*state, dir, "generate", "model", "--prompt", "What?", "--image",
                 "pictures/p0.png", "--template", "qwen3_vl_nothink");
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, "pictures/p0.png: the template belongs to Qwen models");
}

// LLaMA-Factory's form: records and columns as for Qwen, budget, one tile, or crop_to_patches.
static void the_port_takes_records_of_the_usual_form(void **state)
{
    const char *dir = lt_intern_place(*state, LT_INTERN_NEWER, false, false);
    lt_place_write(*state, dir, "data.json",
                   "[{\"messages\": [{\"role\": \"user\", \"content\": \"<image> What?\"}, "
                   "{\"role\": \"assistant\", \"content\": \"Red.\"}], \"images\": [\"p3.png\"]}, "
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"Text?\"}, {\"role\": "
                   "\"assistant\", \"content\": \"Alone.\"}], \"images\": []}]\n");
    lt_place_edit(*state, dir, "train.yaml", "template: qwen3_vl_nothink", "template: intern_vl");
    lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "1");
    assert_exit(r, 0);
    assert_text_contains(r.out, "100 x 70 pixels; 1 tile of 28 x 28, 4 tokens");
    assert_text_contains(r.out, "[R|e|d|.|<|im_end|>|\\n"); // its newline is trained
    lt_place_edit(*state, dir, "train.yaml",
                  "image_max_pixels:", "crop_to_patches: true, image_max_pixels:");
    r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "1");
    assert_exit(r, 0);
    assert_text_contains(r.out, " tiles of 28 x 28, ");
    r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                 "training.gradient_accumulation_steps=1");
    assert_exit(r, 0);
}

// lathe train ARGS fails with this sentence.
static void assert_refused(void *state, const char *dir, const char *override, const char *message)
{
    const lt_run_result r =
        lt_lathe(state, dir, "train", "train.yaml", "training.train_iters=1", override);
    assert_true(r.exit_code != 0);
    assert_text_contains(r.err, message);
}

static void bad_records_and_settings_are_named(void **state)
{
    static const struct {
        const char *record, *message;
    } records[] = {
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}",
         "data.jsonl:1: record 1: it has no \"image\""},
        {"{\"video\": \"v.mp4\", \"conversations\": []}", "videos of InternVL models"},
        {"{\"image\": \"p0.png\", \"conversations\": [{\"from\": \"user\", \"value\": \"a\"}]}",
         "entry 1 of \"conversations\" is by \"user\"; human, gpt"},
        {"{\"image\": [\"p0.png\", \"p1.png\"], \"conversations\": [{\"from\": \"human\", "
         "\"value\": \"<image>\"}, {\"from\": \"gpt\", \"value\": \"<image>\"}]}",
         "its turns hold"},
        {"{\"image\": \"p0.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
         "\"<image><IMG_CONTEXT>\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}",
         "the text itself spells <IMG_CONTEXT>"},
        {"{\"image\": \"none.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
         "\"<image>\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}",
         "image 1, none.png, is not there"},
    };
    const char *dir = lt_intern_pictures(*state, LT_INTERN_NEWER, false);
    static const char *const settings[][2] = {
        {"data.dataset_param.basic_parameters.cutoff_len=30",
         "cutoff_len 30 cuts through image 1 of 2"},
        {"data.dataset_param.basic_parameters.train_on_prompt=true",
         "train_on_prompt: true does not go with the template internvl2_5"},
        {"data.dataset_param.basic_parameters.dataset=x.json", "another word for dataset"},
        {"data.dataset_param.basic_parameters.template=intern_vl",
         "dataset_type internvl3_5 has the template internvl2_5"},
        {"data.dataset_param.min_dynamic_patch=5", "5 is above max_dynamic_patch, which is 4"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_refused(*state, dir, settings[i][0], settings[i][1]);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        lt_place_write(*state, dir, "data.jsonl", "%s\n", records[i].record);
        assert_refused(*state, dir, "training.gradient_accumulation_steps=1", records[i].message);
    }
}

// Row 57 of spec data-pipeline 16.1: # is token 2 of most vocabularies, and InternVL's pad_id.
static void row_57_a_pad_id_that_is_an_ordinary_token_is_warned_of(void **state)
{
    const char *dir = lt_intern_pictures(*state, LT_INTERN_NEWER, false);
    lt_place_edit(*state, dir, "train.yaml", "pin_memory: true",
                  "pin_memory: true, collate_param: {model_name: internvl, pad_id: 35}");
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1");
    assert_exit(r, 0);
    assert_text_contains(r.err, "collate_param.pad_id 35 is an ordinary token, \"#\"");
}

LT_TEST_MAIN(LT_TEST(check_shows_tiles_tokens_and_labels),
             LT_TEST(pictures_are_trained_saved_and_gone_on_from),
             LT_TEST(ranks_and_packed_rows_take_tiles_too),
             LT_TEST(a_checkpoint_says_how_its_pictures_were_cut),
             LT_TEST(answers_and_judgements_see_the_pictures),
             LT_TEST(the_port_takes_records_of_the_usual_form),
             LT_TEST(bad_records_and_settings_are_named),
             LT_TEST(row_57_a_pad_id_that_is_an_ordinary_token_is_warned_of))
