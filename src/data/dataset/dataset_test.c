// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/dataset.h"
#include "tests/kit/lt_test.h"
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    lt_tokenizer *tokenizer;
    lt_dataset_opts opts;
    const char *dir, *files[1];
    lt_log log;
    lt_buf logged;
} fixture;

// A picture called N.png has N x 2 patches.
static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    const char *name = strrchr(path, '/');
    (void)ctx, (void)n_images;
    *out = (lt_grid){1, strtol(name ? name + 1 : path, NULL, 10), 2};
    return LT_OK;
}

static void take_log(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)level;
    (void)area;
    assert_ok(lt_buf_printf(ctx, "%s\n", text));
}

static fixture *set_up(void **state, const char *records)
{
    fixture *f = lt_test_take(*state, sizeof *f);
    const char *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    assert_ok(lt_tokenizer_open(golden, &f->tokenizer));
    f->opts = lt_dataset_opts_default();
    f->opts.encode.render.tokenizer = f->tokenizer;
    assert_ok(lt_template_find("qwen3_vl_nothink", &f->opts.encode.render.chat));
    f->dir = lt_test_dir(*state);
    f->files[0] = lt_test_path(*state, f->dir, "data.jsonl");
    lt_test_write(f->files[0], records, strlen(records));
    lt_test_write(lt_test_path(*state, f->dir, "4.png"), "x", 1);
    lt_test_write(lt_test_path(*state, f->dir, "40.png"), "x", 1);
    f->opts.files = f->files;
    f->opts.n_files = 1;
    f->opts.attr.images = "images";
    f->opts.encode.media_dir = f->dir;
    f->opts.encode.grid_of = grid_of;
    f->log = (lt_log){take_log, &f->logged};
    return f;
}

static void tear_down(fixture *f)
{
    lt_tokenizer_close(f->tokenizer);
    lt_buf_deinit(&f->logged);
}

#define TURNS(q, a)                                                                                \
    "\"conversations\": [{\"from\": \"human\", \"value\": \"" q                                    \
    "\"}, {\"from\": \"gpt\", \"value\": \"" a "\"}]"
#define GOOD "{\"images\": [\"4.png\"], " TURNS("<image>q", "a") "}\n"

static void assert_refused(void **state, const char *records, lt_literal literals, lt_status code,
                           const char *message)
{
    fixture *f = set_up(state, records);
    lt_dataset *d = NULL;
    f->opts.encode.render.literals = literals;
    assert_fails(lt_dataset_open(&f->opts, NULL, NULL, &d), code, message);
    assert_null(d);
    tear_down(f);
}

// Row 64 of spec data-pipeline 16.1: a bad record never counts among the rows, so that the order is
// that of the prepared mode; nothing here knows preprocess_on_fly.
static void rows_are_those_that_are_not_dropped(void **state)
{
    fixture *f = set_up(
        state, GOOD
        "{\"images\": [], \"conversations\": [{\"from\": \"human\", \"value\": \"q\"}]}\n" GOOD);
    lt_dataset *d;
    lt_sample s;
    assert_ok(lt_dataset_open(&f->opts, NULL, &f->log, &d));
    assert_int_equal(lt_dataset_rows(d), 2);
    assert_int_equal(lt_dataset_dropped(d), 1);
    assert_text_contains(f->logged.data,
                         "data.jsonl:2: record 2: its last turn has no answer: add one, or "
                         "take that turn away\n");
    assert_text_contains(f->logged.data, "1 of 3 records are left out; `lathe check` names each\n");
    assert_ok(lt_dataset_encode(d, 1, *state, &s));
    assert_int_equal(s.record, 3);
    assert_text_equal(s.file, f->files[0]);
    assert_int_equal(s.n_media, 1);
    assert_text_contains(s.media[0].path, "/4.png");
    assert_int_equal(lt_dataset_counted(d).encoded, 1);
    assert_int_equal(lt_dataset_counted(d).tokens, s.n);
    lt_dataset_close(d);
    tear_down(f);
}

#define NO_ANSWER "{\"images\": [], \"conversations\": [{\"from\": \"human\", \"value\": \"q\"}]}\n"
#define NO_FILE "{\"images\": [\"5.png\"], " TURNS("<image>q", "a") "}\n"

static void bad_records_stop_or_are_skipped_as_asked(void **state)
{
    fixture *f = set_up(state, GOOD NO_ANSWER NO_FILE GOOD);
    lt_dataset *d;
    assert_fails(lt_dataset_open(&f->opts, NULL, NULL, &d), LT_ERR_NOT_FOUND,
                 "data.jsonl:3: record 3: image 1, 5.png, is not there");
    f->opts.on_bad = LT_BAD_STOP;
    f->opts.files = f->files;
    assert_fails(lt_dataset_open(&f->opts, NULL, NULL, &d), LT_ERR_DATA,
                 "data.jsonl:2: record 2: its last turn has no answer");
    f->opts.on_bad = LT_BAD_SKIP;
    assert_ok(lt_dataset_open(&f->opts, NULL, &f->log, &d));
    assert_int_equal(lt_dataset_rows(d), 2);
    assert_int_equal(lt_dataset_dropped(d), 2);
    assert_text_contains(f->logged.data, "data.jsonl:3: record 3: image 1, 5.png, is not there");
    assert_text_contains(f->logged.data, "2 of 4 records are left out");
    lt_dataset_close(d);
    f->opts.on_bad = LT_BAD_KEEP;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_int_equal(lt_dataset_rows(d), 4);
    lt_sample s;
    assert_fails(lt_dataset_encode(d, 1, *state, &s), LT_ERR_DATA, "its last turn has no answer");
    lt_dataset_close(d);
    tear_down(f);
}

// Twelve tokens each, in bins of 40 - 1: three a row. Groups of four records, the dropped one
// counted.
static void packed_rows_hold_what_fits_and_never_cross_groups(void **state)
{
    fixture *f = set_up(state, GOOD GOOD NO_ANSWER GOOD GOOD GOOD GOOD GOOD GOOD);
    lt_dataset *d;
    lt_sample one;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &one));
    lt_dataset_close(d);
    f->opts.packing = true;
    f->opts.pack_batch = 4;
    f->opts.encode.cutoff_len = 3 * one.n + 1; // three fit, since packing takes one away
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    static const int64_t want[][4] = {{3, 4, 2, 1}, {3, 8, 7, 6}, {1, 5}, {1, 9}};
    assert_int_equal(lt_dataset_samples(d), 8);
    assert_int_equal(lt_dataset_rows(d), 4);
    lt_vec samples = LT_VEC_OF(lt_sample);
    for (int64_t row = 0; row < 4; row++) {
        lt_vec_clear(&samples);
        assert_ok(lt_dataset_encode_row(d, row, *state, &samples));
        assert_int_equal(samples.n, want[row][0]);
        for (int64_t i = 0; i < samples.n; i++) {
            assert_int_equal(LT_AT(&samples, lt_sample, i).record, want[row][i + 1]);
            assert_int_equal(LT_AT(&samples, lt_sample, i).labels[0], LT_IGNORE_LABEL);
        }
    }
    lt_vec_deinit(&samples);
    lt_dataset_close(d);
    tear_down(f);
}

static void labels_cover_the_answer_alone(void **state)
{
    fixture *f = set_up(state, GOOD);
    lt_dataset *d;
    lt_sample s;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    const lt_template_ids *ids = lt_encoder_ids(lt_dataset_encoder(d));
    int64_t pads = 0, labelled = 0;
    for (int64_t i = 0; i < s.n; i++) {
        pads += s.ids[i] == ids->vision.image_pad;
        labelled += s.labels[i] != LT_IGNORE_LABEL;
        assert_true(s.labels[i] == LT_IGNORE_LABEL || s.labels[i] == s.ids[i]);
    }
    assert_int_equal(pads, 2);     // 4 x 2 patches, 2 x 2 a token
    assert_int_equal(labelled, 3); // "a", <|im_end|>, newline
    assert_int_equal(s.labels[s.n - 2], ids->stop);
    lt_dataset_close(d);
    tear_down(f);
}

// BR-27: the message names file, record number, marker count and image count.
static void images_without_a_marker_are_refused_with_both_counts(void **state)
{
    const char *records = GOOD GOOD "{\"images\": [\"4.png\"], " TURNS("q", "a") "}\n" GOOD GOOD;
    assert_refused(
        state, records, LT_LITERAL_KEEP, LT_ERR_DATA,
        "data.jsonl:3: record 3: its turns hold 0 <image> tags, but 1 image belongs to it");
    assert_refused(
        state, GOOD "{\"images\": [\"4.png\"], " TURNS("<image><image>", "<image>") "}\n",
        LT_LITERAL_KEEP, LT_ERR_DATA,
        "data.jsonl:2: record 2: its turns hold 3 <image> tags, but 1 image belongs to it");
}

static void tags_without_a_column_point_to_the_setting(void **state)
{
    fixture *f = set_up(state, GOOD);
    lt_dataset *d;
    f->opts.attr.images = NULL;
    assert_fails(
        lt_dataset_open(&f->opts, NULL, NULL, &d), LT_ERR_DATA,
        "1 <image> tag, but 0 images belong to it: each image needs one tag in the text, in "
        "their order; attr.images is not set, so it doesn't read the column images");
    tear_down(f);
}

// BR-25: text that spells the placeholder never becomes one.
static void a_literal_placeholder_is_refused_before_training(void **state)
{
    const char *records = GOOD "{" TURNS("what is <|image_pad|>?", "a") "}\n";
    assert_refused(state, records, LT_LITERAL_REFUSE, LT_ERR_DATA,
                   "data.jsonl:2: record 2: the text itself spells <|image_pad|>");
}

static void bad_records_are_one_sentence_with_their_place(void **state)
{
    assert_refused(
        state, GOOD "{\"images\": [\"4.png\"]}\n", LT_LITERAL_KEEP, LT_ERR_DATA,
        "data.jsonl:2: record 2: there is no \"conversations\" (attr.messages); there are: images");
    assert_refused(state, GOOD "{\"images\": 3, " TURNS("q", "a") "}\n", LT_LITERAL_KEEP,
                   LT_ERR_DATA, "data.jsonl:2: record 2: \"images\" is a number");
    assert_refused(state, GOOD "{\"images\": [\"5.png\"], " TURNS("<image>", "a") "}\n",
                   LT_LITERAL_KEEP, LT_ERR_NOT_FOUND,
                   "data.jsonl:2: record 2: image 1, 5.png, is not there (nor in /");
    assert_refused(state, GOOD "{\"images\": [\n", LT_LITERAL_KEEP, LT_ERR_FORMAT,
                   "data.jsonl:2: record 2: ");
    assert_refused(state, "[]", LT_LITERAL_KEEP, LT_ERR_DATA, "the data set has no records");
    assert_refused(state, "{\"images\": [], \"conversations\": []}", LT_LITERAL_KEEP, LT_ERR_CONFIG,
                   "attr.content_tag names \"value\"");
    assert_refused(state,
                   "{\"images\": [], \"conversations\": [{\"from\": \"gpt\", \"value\": \"\"}]}",
                   LT_LITERAL_KEEP, LT_ERR_DATA, "none of the 1 records can be used");
    assert_refused(state, "{" TURNS("q", "a") "}", LT_LITERAL_KEEP, LT_ERR_CONFIG,
                   "attr.images names \"images\", which no record of the data set has");
}

static void the_first_bad_record_is_reported_whatever_the_threads(void **state)
{
    lt_buf records = {0};
    for (int i = 0; i < 500; i++)
        assert_ok(lt_buf_text(&records, i == 201 || i > 300 ? "{\"images\": 3}\n" : GOOD));
    fixture *f = set_up(state, records.data);
    lt_pool *pool;
    lt_dataset *d;
    assert_ok(lt_pool_create(4, &pool));
    for (int round = 0; round < 5; round++)
        assert_fails(lt_dataset_open(&f->opts, pool, NULL, &d), LT_ERR_DATA,
                     "data.jsonl:202: record 202: ");
    f->opts.max_samples = 200;
    assert_ok(
        lt_dataset_open(&f->opts, pool, NULL, &d)); // what lies behind max_samples isn't looked at
    assert_int_equal(lt_dataset_rows(d), 200);
    lt_dataset_close(d);
    lt_pool_destroy(pool);
    lt_buf_deinit(&records);
    tear_down(f);
}

static void a_cut_through_an_image_is_an_error_where_that_is_asked_for(void **state)
{
    fixture *f =
        set_up(state, "{\"images\": [\"4.png\", \"40.png\"], " TURNS("<image><image>q", "a") "}\n");
    lt_dataset *d;
    lt_sample s;
    f->opts.encode.cutoff_len = 20;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_int_equal(s.n, 20);
    assert_int_equal(s.n_media, 2); // as it stands: the second image is there in part
    assert_int_equal(lt_dataset_counted(d).cut, 1);
    assert_int_equal(lt_dataset_counted(d).cut_images, 1);
    lt_dataset_close(d);
    f->opts.encode.refuse_cut_images = true;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_fails(lt_dataset_encode(d, 0, *state, &s), LT_ERR_DATA,
                 "data.jsonl:1: record 1: cutoff_len 20 cuts through image 2 (");
    assert_text_contains(lt_error_message(), "40.png, 20 tokens");
    lt_dataset_close(d);
    tear_down(f);
}

static void an_image_that_is_cut_off_whole_leaves_the_sample(void **state)
{
    fixture *f = set_up(state, "{\"images\": [\"4.png\", \"40.png\"], " TURNS(
                                   "<image>0123456789 0123456789<image>q", "a") "}\n");
    lt_dataset *d;
    lt_sample s;
    f->opts.encode.cutoff_len = 20;
    f->opts.encode.refuse_cut_images = true;
    assert_ok(lt_dataset_open(&f->opts, NULL, NULL, &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_int_equal(s.n_media, 1);
    assert_text_contains(s.media[0].path, "/4.png");
    assert_int_equal(lt_dataset_counted(d).lost_images, 1);
    lt_dataset_close(d);
    tear_down(f);
}

LT_TEST_MAIN(LT_TEST(rows_are_those_that_are_not_dropped),
             LT_TEST(bad_records_stop_or_are_skipped_as_asked),
             LT_TEST(packed_rows_hold_what_fits_and_never_cross_groups),
             LT_TEST(labels_cover_the_answer_alone),
             LT_TEST(images_without_a_marker_are_refused_with_both_counts),
             LT_TEST(tags_without_a_column_point_to_the_setting),
             LT_TEST(a_literal_placeholder_is_refused_before_training),
             LT_TEST(bad_records_are_one_sentence_with_their_place),
             LT_TEST(the_first_bad_record_is_reported_whatever_the_threads),
             LT_TEST(a_cut_through_an_image_is_an_error_where_that_is_asked_for),
             LT_TEST(an_image_that_is_cut_off_whole_leaves_the_sample))
