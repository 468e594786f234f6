// SPDX-License-Identifier: Apache-2.0
// lathe check, and what training does with the records that it names.
#include "base/text.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define RECORD(question, answer, images)                                                           \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"" question "\"}, {\"role\": "             \
    "\"assistant\", \"content\": " answer "}], \"images\": [" images "]}\n"
#define GOOD RECORD("<image>What?", "\"Red.\"", "\"p1.png\"")

/** Six records, of which the second to fifth are bad in different ways. */
static const char *bad_place(void **state)
{
    static const char records[] = GOOD RECORD("no tag", "\"a\"", "\"p1.png\"")
        RECORD("<image>", "\"a\"", "\"nowhere.png\"") RECORD(
            "<image>", "\"a\"", "\"half.png\"") "{\"messages\": [{\"role\": \"user\", \"content\": "
                                                "\"q\"}], \"images\": []}\n" GOOD;
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    size_t len = 0;
    const char *pictures = lt_test_path(*state, dir, LT_PLACE_PICTURES);
    const char *png = lt_test_read(*state, lt_test_path(*state, pictures, "p1.png"), &len);
    lt_test_write(lt_test_path(*state, pictures, "half.png"), png, len / 2);
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records, sizeof records - 1);
    return dir;
}

static void good_data_are_summed_up(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml");
    assert_exit(r, 0);
    assert_text_contains(r.out, "== training data: 11 samples");
    assert_text_contains(r.out, "11 can be used, 0 are left out, 0 would stop training\n");
    assert_text_contains(r.out, "\ntokens    ");
    assert_text_contains(r.out, "\nlengths   ");
    assert_text_contains(r.out, "#");
}

static void each_bad_record_is_named(void **state)
{
    const char *dir = bad_place(state);
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml");
    assert_exit(r, 3);
    assert_text_contains(r.out, "stops:    data.json:2: record 2: its turns hold 0 <image> tags, "
                                "but 1 image belongs to it: each image needs one tag");
    assert_text_contains(r.out,
                         "stops:    data.json:3: record 3: image 1, nowhere.png, is not there");
    assert_text_contains(r.out, "stops:    data.json:4: record 4: picture ");
    assert_text_contains(r.out, "half.png cannot be decoded: the file is truncated");
    assert_text_contains(r.out,
                         "left out: data.json:5: record 5: its last turn has no answer: add");
    assert_text_contains(r.out, "2 can be used, 1 are left out, 3 would stop training\n");
    assert_text_contains(r.err, "error: training would stop at these data");
}

static int64_t count(const char *text, const char *word)
{
    int64_t n = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

// Of each kind the first few are named, whatever numbers and names stand in them.
static void many_bad_records_are_counted_by_kind(void **state)
{
    enum { N = 12 };
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_buf records = {0};
    for (int i = 0; i < N; i++) {
        assert_ok(lt_buf_printf(&records, RECORD("<image>", "\"a\"", "\"none%d.png\""), i));
        assert_ok(lt_buf_text(&records, RECORD("no tag", "\"a\"", "\"p1.png\"")));
        assert_ok(lt_buf_text(&records, "{\"messages\": [], \"images\": []}\n"));
    }
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records.data, records.len);
    lt_buf_deinit(&records);
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml");
    assert_exit(r, 3);
    assert_int_equal(count(r.out, ".png, is not there"), 5);
    assert_int_equal(count(r.out, "its turns hold 0 <image> tags"), 5);
    assert_int_equal(count(r.out, "it has no turns"), 5);
    assert_text_contains(r.out, "stops:    7 more like data.json:1: record 1; --all names each");
    assert_text_contains(r.out, "stops:    7 more like data.json:2: record 2; --all names each");
    assert_text_contains(r.out, "left out: 7 more like data.json:3: record 3; --all names each");
    const char *sums = strstr(r.out, "0 can be used, 12 are left out, 24 would stop training\n");
    assert_non_null(sums);
    assert_int_equal(count(sums, "\n"), 1); // they come last
    const lt_run_result all = lt_lathe(*state, dir, "check", "train.yaml", "--all");
    assert_int_equal(count(all.out, ".png, is not there"), N);
    assert_int_equal(count(all.out, "it has no turns"), N);
    assert_null(strstr(all.out, "more like"));
    const lt_run_result json = lt_lathe(*state, dir, "check", "train.yaml", "--json");
    assert_int_equal(count(json.out, "\"message\":"), 3 * N);
}

static int64_t number(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void scripts_get_one_json_object(void **state)
{
    const char *dir = bad_place(state);
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml", "--json");
    assert_exit(r, 3);
    json_t *root = json_loads(r.out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(number(root, "records"), 6);
    assert_int_equal(number(root, "usable"), 2);
    assert_int_equal(number(root, "left_out"), 1);
    assert_int_equal(number(root, "stopping"), 3);
    assert_int_equal(number(root, "images"), 2);
    assert_int_equal(number(root, "tokens"), 2 * number(root, "longest"));
    const json_t *faults = json_object_get(root, "faults");
    assert_int_equal(json_array_size(faults), 4);
    const json_t *last = json_array_get(faults, 3);
    assert_int_equal(number(last, "record"), 5);
    assert_int_equal(number(last, "line"), 5);
    assert_true(json_is_true(json_object_get(last, "left_out")));
    json_decref(root);
}

static void one_record_is_shown_with_its_labels(void **state)
{
    const char *dir = bad_place(state);
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml", "--show", "1");
    assert_exit(r, 0);
    assert_text_contains(r.out, "data.json:1: record 1: ");
    assert_text_contains(r.out, "  image 1: ");
    assert_text_contains(r.out, "<|vision_start|>|<|image_pad|>");
    assert_text_contains(r.out, "|[R"); // what is trained stands in brackets
    assert_text_contains(r.out, "<|im_end|>|\\n\n]\n");
    const lt_run_result bad = lt_lathe(*state, dir, "check", "train.yaml", "--show", "3");
    assert_exit(bad, 3);
    assert_text_contains(bad.err, "data.json:3: record 3: image 1, nowhere.png, is not there");
    const lt_run_result none = lt_lathe(*state, dir, "check", "train.yaml", "--show", "7");
    assert_exit(none, 2);
    assert_text_contains(none.err, "there is no record 7: the data set has 6");
}

#define SKIP "lathe.on_bad_record=skip"
#define ONE                                                                                        \
    "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",                       \
        "training.train_iters=6"

// Two records are found bad when the set is opened; the half picture only in the middle of a run.
static void training_skips_or_stops_as_asked(void **state)
{
    const char *dir = bad_place(state);
    const lt_run_result stop = lt_lathe(*state, dir, "train", "train.yaml", ONE);
    assert_exit(stop, 3);
    assert_text_contains(stop.err, "data.json:2: record 2: its turns hold 0 <image> tags");
    const lt_run_result check = lt_lathe(*state, dir, "check", "train.yaml", SKIP);
    assert_exit(check, 0);
    assert_text_contains(check.out, "2 can be used, 4 are left out, 0 would stop training\n");
    const lt_run_result skip = lt_lathe(*state, dir, "train", "train.yaml", ONE, SKIP);
    assert_exit(skip, 0);
    assert_text_contains(skip.err, "left out: data.json:2: record 2: its turns hold 0 <image>");
    assert_text_contains(skip.err, "3 of 6 records are left out; `lathe check` names each");
    assert_text_contains(
        skip.err, "skipped, the next record takes its place: data.json:4: record 4: picture ");
    assert_text_contains(skip.out, " iteration        6/       6");
}

// The file that basic_parameters.val_dataset names, with val_max_samples of its records.
static void a_validation_file_is_checked_and_validated_on(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result check =
        lt_lathe(*state, dir, "check", "train.yaml", "--validation",
                 "data.dataset_param.basic_parameters.val_dataset=data.json",
                 "data.dataset_param.basic_parameters.val_max_samples=3");
    assert_exit(check, 0);
    assert_null(strstr(check.out, "training data"));
    assert_text_contains(check.out, "== validation data: 3 samples");
    const lt_run_result train =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                 "training.val_interval=2", "training.val_micro_batch_size=1",
                 "data.dataset_param.basic_parameters.val_dataset=data.json",
                 "data.dataset_param.basic_parameters.val_max_samples=3");
    assert_exit(train, 0);
    assert_text_contains(train.out, "| validation steps: 3 |");
}

// BR-47: a model whose own template knows no thoughts, and a template that trains empty ones.
static void a_template_that_the_checkpoint_does_not_know_is_warned_of(void **state)
{
    static const char warning[] = "the chat template of model knows no thoughts";
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_place_write(*state, dir, "model/chat_template.jinja", "%s", "<|im_start|>{{ role }}");
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml",
                                     "data.dataset_param.basic_parameters.template=qwen3_vl");
    assert_exit(r, 0);
    assert_text_contains(r.err, warning);
    const lt_run_result plain = lt_lathe(*state, dir, "check", "train.yaml");
    assert_null(strstr(plain.err, warning));
    lt_place_write(*state, dir, "model/chat_template.jinja", "%s", "<think>{{ thought }}</think>");
    const lt_run_result thinking =
        lt_lathe(*state, dir, "check", "train.yaml",
                 "data.dataset_param.basic_parameters.template=qwen3_vl");
    assert_null(strstr(thinking.err, warning));
}

// Threads and batches ahead are settings, and no result depends on them.
static void data_threads_change_no_result(void **state)
{
    const char *a = lt_place(*state, &(lt_place_opts){0}),
               *b = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result one =
        lt_lathe(*state, a, "train", "train.yaml", "lathe.data_threads=1", "lathe.data_ahead=1");
    const lt_run_result five =
        lt_lathe(*state, b, "train", "train.yaml", "lathe.data_threads=5", "lathe.data_ahead=9");
    assert_exit(one, 0);
    assert_exit(five, 0);
    lt_run_same_steps(*state, lt_test_path(*state, a, "out"), lt_test_path(*state, b, "out"), 1, 6);
}

// A video as a list of pictures, beside records with images and with text alone.
static void videos_of_pictures_are_trained(void **state)
{
    static const char records[] =
        GOOD "{\"messages\": [{\"role\": \"user\", \"content\": \"<video>What moves, and "
             "<image>what not?\"}, {\"role\": \"assistant\", \"content\": \"All.\"}], \"videos\": "
             "[[\"f1.png\", \"f2.png\", \"f3.png\"]], \"images\": [\"p1.png\"]}\n";
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    for (int i = 1; i <= 3; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "pictures/f%d.png", i);
        lt_place_png(*state, lt_test_path(*state, dir, name), 64, 48, i);
    }
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records, sizeof records - 1);
    const lt_run_result check = lt_lathe(*state, dir, "check", "train.yaml",
                                         "data.dataset_param.attr.videos=videos", "--show", "2");
    assert_exit(check, 0);
    assert_text_contains(check.out, "  video 1: pictures/f1.png, 4 frames; ");
    assert_text_contains(check.out, "seconds 0.2 1.0\n"); // 0 and 1/2 s; 1 s and again 1 s
    assert_text_contains(check.out, "  image 2: pictures/p1.png");
    assert_text_contains(check.out, "<|vision_start|>|<|video_pad|>");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "data.dataset_param.attr.videos=videos",
                 "training.train_iters=2", "training.micro_batch_size=1",
                 "training.gradient_accumulation_steps=2");
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration        2/       2");
}

// Row 56 of spec data-pipeline 16.1: blanks around names are dropped, and files follow each other.
static void several_files_in_one_text_follow_each_other(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r =
        lt_lathe(*state, dir, "check", "train.yaml",
                 "data.dataset_param.basic_parameters.dataset='data.json, data.json'");
    assert_exit(r, 0);
    assert_text_contains(r.out, "22 can be used, 0 are left out, 0 would stop training\n");
}

static void tags_for_media_can_be_renamed(void **state)
{
    static const char records[] = RECORD("[img] and <image>", "\"a\"", "\"p1.png\"");
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records, sizeof records - 1);
    const lt_run_result r =
        lt_lathe(*state, dir, "check", "train.yaml", "--show", "1", "lathe.image_tag='[img]'");
    assert_exit(r, 0);
    assert_text_contains(r.out, "|<|vision_end|>| |an|d| |<|i|m|a|g|e|>|"); // the usual tag is text
    const lt_run_result none = lt_lathe(*state, dir, "check", "train.yaml", "lathe.image_tag=''");
    assert_exit(none, 2);
}

static void packed_rows_are_counted(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml",
                                     "data.dataset_param.basic_parameters.packing=true",
                                     "data.dataset_param.basic_parameters.cutoff_len=100001");
    assert_exit(r, 0);
    assert_text_contains(r.out, "\npacked    1 rows of at most 100000 tokens, ");
}

// BR-32: boxes beyond the scale of the models are counted.
static void boxes_beyond_the_scale_are_counted(void **state)
{
    static const char records[] =
        RECORD("<image>", "\"[{\\\"bbox_2d\\\": [10, 20.5, 999, 1000]}]\"", "\"p1.png\"")
            RECORD("<image>", "\"[{\\\"bbox_2d\\\": [10, 20, 30, 1200]}]\"", "\"p1.png\"")
                RECORD("<image>", "\"<|box_start|>(1,2),(1500,4)<|box_end|>\"", "\"p1.png\"")
                    RECORD("<image>", "\"In 2026 there were 5000.\"", "\"p1.png\"");
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_test_write(lt_test_path(*state, dir, LT_PLACE_DATA), records, sizeof records - 1);
    const lt_run_result r = lt_lathe(*state, dir, "check", "train.yaml");
    assert_exit(r, 0);
    assert_text_contains(r.out, "\nboxes     2 records have values above 1000: ");
}

// BR-77: pictures are decoded as they are needed; what they take does not grow with their number.
static void large_pictures_take_no_lasting_memory(void **state)
{
    const char *small = lt_place(*state, &(lt_place_opts){0}),
               *large = lt_place(*state, &(lt_place_opts){0});
    for (int i = 1; i < LT_PLACE_PICTURE_COUNT; i++) { // 11 MB each, 24 of them in six steps
        char name[64];
        (void)snprintf(name, sizeof name, "pictures/p%d.png", i);
        lt_place_png(*state, lt_test_path(*state, large, name), 1700, 2200, i);
    }
    const lt_run_result a = lt_lathe(*state, small, "train", "train.yaml");
    const lt_run_result b = lt_lathe(*state, large, "train", "train.yaml");
    assert_exit(a, 0);
    assert_exit(b, 0);
    // Two threads with a picture each, twice: before and after its first resize.
    if (!lt_run_sanitized())
        assert_true(b.anonymous - a.anonymous < INT64_C(100) << 20);
}

LT_TEST_MAIN(LT_TEST(good_data_are_summed_up), LT_TEST(each_bad_record_is_named),
             LT_TEST(many_bad_records_are_counted_by_kind), LT_TEST(scripts_get_one_json_object),
             LT_TEST(one_record_is_shown_with_its_labels),
             LT_TEST(training_skips_or_stops_as_asked),
             LT_TEST(a_validation_file_is_checked_and_validated_on),
             LT_TEST(a_template_that_the_checkpoint_does_not_know_is_warned_of),
             LT_TEST(data_threads_change_no_result), LT_TEST(videos_of_pictures_are_trained),
             LT_TEST(several_files_in_one_text_follow_each_other),
             LT_TEST(tags_for_media_can_be_renamed), LT_TEST(packed_rows_are_counted),
             LT_TEST(boxes_beyond_the_scale_are_counted),
             LT_TEST(large_pictures_take_no_lasting_memory))
