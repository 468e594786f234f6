// SPDX-License-Identifier: Apache-2.0
// InternVL's records, and their encoding in its own form and in LLaMA-Factory's; rows 58 and 69 of
// spec data-pipeline 16.1 on the way from a record.
#include "data/dataset/encode.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static const lt_record_place here = {"d.jsonl", 4, 4};

/** A picture of n tiles is called n.png; a tile is 4 x 4 patches, 4 tokens. */
static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    const char *name = strrchr(path, '/');
    int64_t *seen = ctx;
    *seen = n_images;
    *out = (lt_grid){name[1] - '0', 4, 4};
    return LT_OK;
}

typedef struct fixture {
    lt_tokenizer *tokenizer;
    lt_encode_opts opts;
    lt_attr attr;
    int64_t n_images; // as the last picture was asked for
} fixture;

static fixture *set_up(void **state, const char *template, const char *formatting)
{
    fixture *f = lt_test_take(*state, sizeof *f);
    const char *dir = lt_test_dir(*state), *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    assert_ok(lt_tokenizer_open(golden, &f->tokenizer));
    for (int i = 1; i <= 3; i++) {
        const char name[] = {(char)('0' + i), '.', 'p', 'n', 'g', '\0'};
        lt_test_write(lt_test_path(*state, dir, name), "x", 1);
    }
    f->attr = lt_attr_default();
    f->attr.formatting = formatting;
    f->attr.images = "image";
    f->opts = lt_encode_opts_default();
    f->opts.render.tokenizer = f->tokenizer;
    f->opts.render.literals = LT_LITERAL_REFUSE;
    f->opts.refuse_cut_images = true;
    f->opts.media_dir = dir;
    f->opts.grid_of = grid_of;
    f->opts.grid_ctx = &f->n_images;
    assert_ok(lt_template_find(template, &f->opts.render.chat));
    return f;
}

static lt_status convert(void **state, const fixture *f, const char *record, lt_conversation *out)
{
    json_t *json = json_loads(record, 0, NULL);
    assert_non_null(json);
    const lt_status st = lt_convert_record(&f->attr, json, *state, out);
    json_decref(json);
    return st;
}

static lt_status encode(void **state, const fixture *f, const char *record, lt_sample *out,
                        lt_cut *cut)
{
    lt_conversation c;
    lt_encoder *e = NULL;
    LT_TRY(convert(state, f, record, &c));
    LT_TRY(lt_encoder_create(&f->opts, &e));
    lt_status st = lt_encode_check(e, &c, here, *state);
    if (st == LT_OK)
        st = lt_encode(e, &c, here, *state, out, cut);
    lt_encoder_destroy(e);
    return st;
}

/** The text, [] around what is trained, <N> for N placeholders. */
static const char *shown(void **state, const fixture *f, const lt_sample *s)
{
    lt_buf text = {0};
    char *copy;
    int64_t pads = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const bool trained = s->labels[i] != LT_IGNORE_LABEL,
                   before = i > 0 && s->labels[i - 1] != LT_IGNORE_LABEL;
        if (trained != before)
            assert_ok(lt_buf_text(&text, trained ? "[" : "]"));
        const bool pad = strcmp(lt_tokenizer_name(f->tokenizer, s->ids[i]), "<IMG_CONTEXT>") == 0;
        pads += pad;
        if (!pad && pads > 0) {
            assert_ok(lt_buf_printf(&text, "<%lld>", (long long)pads));
            pads = 0;
        }
        if (!pad)
            assert_ok(lt_tokenizer_decode(f->tokenizer, &s->ids[i], 1, 0, &text));
    }
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

#define H(text) "{\"from\": \"human\", \"value\": \"" text "\"}"
#define G(text) "{\"from\": \"gpt\", \"value\": \"" text "\"}"
#define S(text) "{\"from\": \"system\", \"value\": \"" text "\"}"
#define RECORD(image, turns) "{\"image\": " image ", \"conversations\": [" turns "]}"
#define ONE "\"2.png\""
#define SEGMENT(who, text) "<|im_start|>" who "\n" text "<|im_end|>\n"
#define ANSWER(text) "<|im_start|>assistant\n[" text "<|im_end|>]\n"

static void records_become_segments(void **state)
{
    static const struct {
        const char *record, *text;
        int64_t n_media;
    } cases[] = {
        // Nothing is stripped; a missing tag goes in front of a single image's first entry.
        {RECORD(ONE, S("s") "," H("<image>a ") "," G(" b\\n")), "", 1},
        {RECORD(ONE, H("a") "," G("b")), SEGMENT("user", "<img><8></img>\na") ANSWER("b"), 1},
        // Row 58: a tag too many is text, and so is one in an answer.
        {RECORD("[\"1.png\", \"3.png\"]", H("<image><image> <image>") "," G("<image>")),
         SEGMENT("user", "<img><4></img><img><12></img> <image>") ANSWER("<image>"), 2},
        // Turns in any order.
        {RECORD(ONE, H("<image>") "," H("a") "," G("b") "," G("c")),
         SEGMENT("user", "<img><8></img>") SEGMENT("user", "a") ANSWER("b") ANSWER("c"), 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture *f = set_up(state, "internvl2_5", "internvl");
        lt_sample s;
        assert_ok(encode(state, f, cases[i].record, &s, NULL));
        assert_int_equal(s.n_media, cases[i].n_media);
        assert_int_equal(s.n_images, cases[i].n_media);
        assert_int_equal(f->n_images, cases[i].n_media);
        assert_text_contains(shown(state, f, &s), cases[i].text);
        lt_tokenizer_close(f->tokenizer);
    }
}

// An own system text, empty or not, stands in place of the standard one.
static void a_system_entry_replaces_the_sentence(void **state)
{
    fixture *f = set_up(state, "internvl2_5", "internvl");
    lt_sample s;
    assert_ok(encode(state, f, RECORD(ONE, S("") "," H("<image>") "," G("b")), &s, NULL));
    // The reference puts the tag that a first entry lacks even into a system text.
    assert_text_contains(shown(state, f, &s),
                         SEGMENT("system", "<image>\n") SEGMENT("user", "<img><8></img>"));
    assert_ok(encode(state, f, RECORD("[\"1.png\", \"1.png\"]", S("") "," H("<image><image>")), &s,
                     NULL));
    assert_text_contains(shown(state, f, &s), SEGMENT("system", "") "<|im_start|>user");
    lt_tokenizer_close(f->tokenizer);
}

static void row_69_and_other_bad_records_are_errors(void **state)
{
    static const struct {
        const char *record, *message;
        lt_status code;
    } cases[] = {
        {RECORD(ONE, S("s") "," H("a") "," G("b")), "its turns hold 0 <image> tags, but 1 image",
         LT_ERR_DATA},
        {RECORD("null", H("a") "," G("b")), "it has no \"image\"", LT_ERR_DATA},
        {RECORD("[]", H("a") "," G("b")), "it has no \"image\"", LT_ERR_DATA},
        {"{\"video\": \"v\", \"conversations\": []}", "videos of InternVL", LT_ERR_UNSUPPORTED},
        {RECORD(ONE, H("<image>") "," S("s")), "entry 2 of \"conversations\" is a system text",
         LT_ERR_DATA},
        {RECORD(ONE, H("<image>") ",{\"from\": \"bot\", \"value\": \"\"}"), "is by \"bot\"",
         LT_ERR_DATA},
        {RECORD(ONE, H("<image>") ",{\"from\": null, \"value\": \"\"}"), "is by \"null\"",
         LT_ERR_DATA},
        {RECORD("[\"1.png\", \"1.png\"]", H("<image>") "," G("<image>")), "its turns hold",
         LT_ERR_DATA},
        {RECORD(ONE, H("<image><IMG_CONTEXT>") "," G("b")), "spells <IMG_CONTEXT>", LT_ERR_DATA},
        {RECORD("5", H("<image>") "," G("b")), "\"image\" is a number", LT_ERR_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture *f = set_up(state, "internvl2_5", "internvl");
        lt_sample s;
        assert_fails(encode(state, f, cases[i].record, &s, NULL), cases[i].code, cases[i].message);
        lt_tokenizer_close(f->tokenizer);
    }
}

// The end is cut off: tokens of text simply go, those of an image only where that is allowed.
static void cuts_take_the_end(void **state)
{
    static const char record[] = RECORD(ONE, S("") "," H("<image> a") "," G("b c"));
    fixture *f = set_up(state, "internvl2_5", "internvl");
    lt_sample s;
    lt_cut cut;
    assert_ok(encode(state, f, record, &s, &cut));
    const int64_t full = s.n;
    assert_int_equal(cut.full_len, full);
    f->opts.cutoff_len = full - 2;
    assert_ok(encode(state, f, record, &s, &cut));
    assert_int_equal(s.n, full - 2);
    assert_int_equal(cut.full_len, full);
    f->opts.cutoff_len = full - 16;
    assert_fails(encode(state, f, record, &s, &cut), LT_ERR_DATA, "cuts through image 1 (");
    assert_text_contains(lt_error_message(), "or lower max_dynamic_patch");
    f->opts.refuse_cut_images = false;
    assert_ok(encode(state, f, record, &s, &cut));
    assert_int_equal(cut.cut_images, 1);
    f->opts.cutoff_len = 4;
    assert_ok(encode(state, f, record, &s, &cut));
    assert_int_equal(s.n_media, 0);
    assert_int_equal(cut.lost_images, 1);
    f->opts.mask_history = true;
    assert_fails(encode(state, f, record, &s, &cut), LT_ERR_CONFIG, "mask_history: true");
    lt_tokenizer_close(f->tokenizer);
}

// LLaMA-Factory's: pairs, stripped texts as MindSpeed-MM has them, the newline trained.
static void the_ports_template_has_slots(void **state)
{
    fixture *f = set_up(state, "intern_vl", "sharegpt");
    lt_sample s;
    assert_ok(encode(state, f, RECORD(ONE, H(" <image>a") "," G("b ")), &s, NULL));
    assert_text_contains(
        shown(state, f, &s),
        SEGMENT("user", "<img><8></img>a") "<|im_start|>assistant\n[b<|im_end|>\n");
    assert_text_contains(shown(state, f, &s), "InternVL");
    assert_fails(encode(state, f, RECORD(ONE, H("a") "," G("b")), &s, NULL), LT_ERR_DATA,
                 "its turns hold 0 <image> tags");
    f->attr.formatting = "openai";
    f->attr.tools = "tools";
    f->attr.observation_tag = "tool";
    assert_fails(
        encode(state, f,
               "{\"image\": [], \"tools\": [{}], \"conversations\": [" H("a") "," G("b") "]}", &s,
               NULL),
        LT_ERR_DATA, "it has tools, for which the template intern_vl has no place");
    lt_tokenizer_close(f->tokenizer);
}

LT_TEST_MAIN(LT_TEST(records_become_segments), LT_TEST(a_system_entry_replaces_the_sentence),
             LT_TEST(row_69_and_other_bad_records_are_errors), LT_TEST(cuts_take_the_end),
             LT_TEST(the_ports_template_has_slots))
