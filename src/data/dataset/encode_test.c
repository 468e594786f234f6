// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/encode.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct fixture {
    lt_tokenizer *tokenizer;
    lt_encode_opts opts;
} fixture;

static fixture *set_up(void **state)
{
    fixture *f = lt_test_take(*state, sizeof *f);
    const char *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    assert_ok(lt_tokenizer_open(golden, &f->tokenizer));
    f->opts = lt_encode_opts_default();
    f->opts.render.tokenizer = f->tokenizer;
    assert_ok(lt_template_find("qwen3_vl_nothink", &f->opts.render.chat));
    return f;
}

// Turns of single-token texts: q0 a0 q1 a1 ...
static lt_sample encode(void **state, const fixture *f, int64_t pairs)
{
    static const char *const texts[] = {"a", "b", "c", "d", "e", "f"};
    lt_turn turns[6];
    for (int64_t i = 0; i < 2 * pairs; i++)
        turns[i] = (lt_turn){i % 2 == 0 ? LT_ROLE_USER : LT_ROLE_ASSISTANT, {texts[i], 1}};
    const lt_conversation c = {.turns = turns, .n_turns = 2 * pairs, .system = {"s", 1}};
    lt_encoder *e;
    lt_sample s;
    assert_ok(lt_encoder_create(&f->opts, &e));
    assert_ok(lt_encode(e, &c, (lt_record_place){"d.json", 1, 1}, *state, &s, NULL));
    lt_encoder_destroy(e);
    return s;
}

// The sample's text with [] around what is trained.
static const char *shown(void **state, const fixture *f, const lt_sample *s)
{
    lt_buf text = {0};
    char *copy;
    for (int64_t i = 0; i < s->n; i++) {
        const bool trained = s->labels[i] != LT_IGNORE_LABEL,
                   before = i > 0 && s->labels[i - 1] != LT_IGNORE_LABEL;
        if (trained != before)
            assert_ok(lt_buf_text(&text, trained ? "[" : "]"));
        assert_ok(lt_tokenizer_decode(f->tokenizer, &s->ids[i], 1, 0, &text));
    }
    if (s->n > 0 && s->labels[s->n - 1] != LT_IGNORE_LABEL)
        assert_ok(lt_buf_text(&text, "]"));
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

#define SYSTEM "<|im_start|>system\ns<|im_end|>\n"
#define USER(t) "<|im_start|>user\n" t "<|im_end|>\n<|im_start|>assistant\n"

static void answers_are_trained_and_nothing_else(void **state)
{
    fixture *f = set_up(state);
    const lt_sample s = encode(state, f, 2);
    assert_text_equal(shown(state, f, &s),
                      SYSTEM USER("a") "[b<|im_end|>\n]" USER("c") "[d<|im_end|>\n]");
    lt_tokenizer_close(f->tokenizer);
}

static void mask_history_trains_the_last_answer(void **state)
{
    fixture *f = set_up(state);
    f->opts.mask_history = true;
    const lt_sample s = encode(state, f, 3);
    assert_text_equal(shown(state, f, &s), SYSTEM USER("a") "b<|im_end|>\n" USER(
                                               "c") "d<|im_end|>\n" USER("e") "[f<|im_end|>\n]");
    lt_tokenizer_close(f->tokenizer);
}

static void train_on_prompt_trains_questions_too(void **state)
{
    fixture *f = set_up(state);
    f->opts.train_on_prompt = true;
    const lt_sample s = encode(state, f, 1);
    assert_text_equal(shown(state, f, &s), "[" SYSTEM USER("a") "b<|im_end|>\n]");
    lt_tokenizer_close(f->tokenizer);
}

static void reasoning_templates_train_an_empty_thought(void **state)
{
    fixture *f = set_up(state);
    assert_ok(lt_template_find("qwen3_vl", &f->opts.render.chat));
    const lt_sample s = encode(state, f, 1);
    assert_text_equal(shown(state, f, &s),
                      SYSTEM USER("a") "[<think>\n\n</think>\n\nb<|im_end|>\n]");
    lt_tokenizer_close(f->tokenizer);
}

// A conversation of two pairs whose first answer thinks.
static const char *thinking(void **state, fixture *f)
{
    const lt_turn turns[] = {{LT_ROLE_USER, {"a", 1}},
                             {LT_ROLE_ASSISTANT, {"<think>\nt\n</think>\n\nb", 21}},
                             {LT_ROLE_USER, {"c", 1}},
                             {LT_ROLE_ASSISTANT, {"d", 1}}};
    lt_turn copy[4];
    memcpy(copy, turns, sizeof copy);
    const lt_conversation c = {.turns = copy, .n_turns = 4, .system = {"s", 1}};
    lt_encoder *e;
    lt_sample s;
    assert_ok(lt_encoder_create(&f->opts, &e));
    assert_ok(lt_encode(e, &c, (lt_record_place){"d.json", 1, 1}, *state, &s, NULL));
    lt_encoder_destroy(e);
    return shown(state, f, &s);
}

// BR-46: the empty thought is trained, masked or left out, as asked for.
static void thoughts_follow_the_template_and_the_settings(void **state)
{
    fixture *f = set_up(state);
    const struct {
        const char *chat;
        bool no_thinking, mask_history;
        lt_empty_thought empty;
        const char *text;
    } cases[] = {
        {"qwen3_5", false, false, LT_THOUGHT_AUTO,
         SYSTEM USER("a") "[<think>\nt\n</think>\n\nb<|im_end|>\n]" USER(
             "c") "[<think>\n\n</think>\n\nd<|im_end|>\n]"},
        {"qwen3_5", true, false, LT_THOUGHT_AUTO,
         SYSTEM USER("a") "<think>\n\n</think>\n\n[b<|im_end|>\n]" USER(
             "c") "<think>\n\n</think>\n\n[d<|im_end|>\n]"},
        {"qwen3_5", false, true, LT_THOUGHT_AUTO,
         SYSTEM USER("a") "b<|im_end|>\n" USER("c") "[<think>\n\n</think>\n\nd<|im_end|>\n]"},
        {"qwen3_6", true, false, LT_THOUGHT_AUTO, // row 34: MindSpeed-MM doesn't look
         SYSTEM USER("a") "[<think>\nt\n</think>\n\nb<|im_end|>\n]" USER(
             "c") "[<think>\n\n</think>\n\nd<|im_end|>\n]"},
        {"qwen3_6", false, false, LT_THOUGHT_MASK,
         SYSTEM USER("a") "[<think>\nt\n</think>\n\nb<|im_end|>\n]" USER(
             "c") "<think>\n\n</think>\n\n[d<|im_end|>\n]"},
        {"qwen3_6", false, false, LT_THOUGHT_OMIT,
         SYSTEM USER("a") "[<think>\nt\n</think>\n\nb<|im_end|>\n]" USER("c") "[d<|im_end|>\n]"},
        {"qwen3_5_nothink", true, false, LT_THOUGHT_TRAIN,
         SYSTEM USER("a") "[<think>\nt\n</think>\n\nb<|im_end|>\n]" USER("c") "[d<|im_end|>\n]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(lt_template_find(cases[i].chat, &f->opts.render.chat));
        f->opts.render.no_thinking = cases[i].no_thinking;
        f->opts.render.empty_thought = cases[i].empty;
        f->opts.mask_history = cases[i].mask_history;
        assert_text_equal(thinking(state, f), cases[i].text);
    }
    lt_tokenizer_close(f->tokenizer);
}

static void pairs_past_the_limit_vanish_from_the_end_that_is_walked_last(void **state)
{
    fixture *f = set_up(state);
    const int64_t full = encode(state, f, 1).n, two = encode(state, f, 2).n;
    f->opts.cutoff_len = full;
    lt_sample s = encode(state, f, 3);
    assert_text_equal(shown(state, f, &s), SYSTEM USER("a") "[b<|im_end|>\n]");
    f->opts.mask_history = true;
    f->opts.cutoff_len = two - full; // one pair without the system text
    s = encode(state, f, 3);
    assert_text_equal(shown(state, f, &s), USER("e") "[f<|im_end|>\n]");
    for (f->opts.cutoff_len = 1; f->opts.cutoff_len < two; f->opts.cutoff_len++)
        assert_true(encode(state, f, 3).n <= f->opts.cutoff_len);
    lt_tokenizer_close(f->tokenizer);
}

// Rows of golden/sequence/infer_seqlen.json, which the reference's own function made.
static void lengths_are_cut_as_the_reference_cuts_them(void **state)
{
    static const int64_t rows[][5] = {
        {0, 0, 1, 0, 0},     {0, 100, 1, 0, 1},      {100, 3, 50, 47, 3},
        {3, 100, 50, 3, 47}, {100, 100, 50, 25, 25}, {100, 50, 100, 67, 33},
    };
    int64_t s, t;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lt_cut_lengths(rows[i][0], rows[i][1], rows[i][2], &s, &t);
        assert_int_equal(s, rows[i][3]);
        assert_int_equal(t, rows[i][4]);
    }
    const char *path = lt_test_golden(*state, "sequence/infer_seqlen.json");
    if (!path)
        return;
    json_t *root = json_load_file(path, 0, NULL), *row;
    size_t i;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "rows"), i, row)
    {
        lt_cut_lengths(json_integer_value(json_array_get(row, 0)),
                       json_integer_value(json_array_get(row, 1)),
                       json_integer_value(json_array_get(row, 2)), &s, &t);
        assert_int_equal(s, json_integer_value(json_array_get(row, 3)));
        assert_int_equal(t, json_integer_value(json_array_get(row, 4)));
    }
    assert_true(i > 100);
    json_decref(root);
}

static void settings_that_cannot_be_are_refused(void **state)
{
    fixture *f = set_up(state);
    lt_encoder *e;
    f->opts.cutoff_len = 0;
    assert_fails(lt_encoder_create(&f->opts, &e), LT_ERR_CONFIG, "cutoff_len is 0");
    lt_tokenizer_close(f->tokenizer);
}

// Two slices of 2 x 2 patches, one token each.
static lt_status clip_of(void *ctx, const lt_video_ref *video, lt_arena *arena, lt_media *out)
{
    static const double stamps[] = {0.25, 1.25};
    static const lt_clip clip = {.stamps = stamps, .n = 4};
    (void)ctx, (void)arena;
    *out = (lt_media){LT_MEDIA_VIDEO, video->path, {2, 2, 2}, &clip};
    return LT_OK;
}

static void videos_are_counted_and_placed(void **state)
{
    fixture *f = set_up(state);
    lt_turn turns[] = {{LT_ROLE_USER, {"<video>", 7}}, {LT_ROLE_ASSISTANT, {"y", 1}}};
    const char *file = lt_test_path(*state, lt_test_dir(*state), "v.mp4");
    lt_video_ref video = {.path = file};
    lt_conversation c = {.turns = turns, .n_turns = 2, .videos = &video, .n_videos = 1};
    const lt_record_place at = {"d.json", 4, 9};
    lt_encoder *e;
    lt_sample s;
    f->opts.clip_of = clip_of;
    assert_ok(lt_encoder_create(&f->opts, &e));
    assert_fails(lt_encode(e, &c, at, *state, &s, NULL), LT_ERR_NOT_FOUND,
                 "d.json:9: record 4: video 1, ");
    lt_test_write(file, "x", 1);
    assert_ok(lt_encode(e, &c, at, *state, &s, NULL));
    assert_int_equal(s.n_media, 1);
    assert_int_equal(s.media[0].kind, LT_MEDIA_VIDEO);
    assert_text_contains(shown(state, f, &s),
                         "<0.2 seconds><|vision_start|><|video_pad|><|vision_end|>"
                         "<1.2 seconds><|vision_start|><|video_pad|><|vision_end|>");
    c.n_videos = 0;
    assert_fails(lt_encode(e, &c, at, *state, &s, NULL), LT_ERR_DATA,
                 "1 <video> tag, but 0 videos belong to it");
    c.n_videos = 1;
    lt_encoder_destroy(e);
    f->opts.refuse_cut_images = true;
    f->opts.cutoff_len = s.n - 3 - 12; // the answer stays, the second slice does not
    assert_ok(lt_encoder_create(&f->opts, &e));
    assert_fails(lt_encode(e, &c, at, *state, &s, NULL), LT_ERR_DATA, "cuts through video 1");
    lt_encoder_destroy(e);
    lt_tokenizer_close(f->tokenizer);
}

// The reference looks the stamps up by the number of the message, and fails.
static void row_61_a_video_in_the_second_turn_has_its_own_times(void **state)
{
    fixture *f = set_up(state);
    lt_turn turns[] = {{LT_ROLE_USER, {"hello", 5}},
                       {LT_ROLE_ASSISTANT, {"x", 1}},
                       {LT_ROLE_USER, {"<video>", 7}},
                       {LT_ROLE_ASSISTANT, {"y", 1}}};
    const char *file = lt_test_path(*state, lt_test_dir(*state), "v.mp4");
    lt_video_ref video = {.path = file};
    lt_conversation c = {.turns = turns, .n_turns = 4, .videos = &video, .n_videos = 1};
    lt_encoder *e;
    lt_sample s;
    lt_test_write(file, "x", 1);
    f->opts.clip_of = clip_of;
    assert_ok(lt_encoder_create(&f->opts, &e));
    assert_ok(lt_encode(e, &c, (lt_record_place){"d.json", 4, 9}, *state, &s, NULL));
    assert_int_equal(s.n_media, 1);
    assert_text_contains(shown(state, f, &s),
                         "<0.2 seconds><|vision_start|><|video_pad|><|vision_end|>"
                         "<1.2 seconds><|vision_start|><|video_pad|><|vision_end|>");
    lt_encoder_destroy(e);
    lt_tokenizer_close(f->tokenizer);
}

LT_TEST_MAIN(LT_TEST(answers_are_trained_and_nothing_else),
             LT_TEST(mask_history_trains_the_last_answer),
             LT_TEST(train_on_prompt_trains_questions_too),
             LT_TEST(reasoning_templates_train_an_empty_thought),
             LT_TEST(thoughts_follow_the_template_and_the_settings),
             LT_TEST(pairs_past_the_limit_vanish_from_the_end_that_is_walked_last),
             LT_TEST(lengths_are_cut_as_the_reference_cuts_them),
             LT_TEST(settings_that_cannot_be_are_refused), LT_TEST(videos_are_counted_and_placed),
             LT_TEST(row_61_a_video_in_the_second_turn_has_its_own_times))
