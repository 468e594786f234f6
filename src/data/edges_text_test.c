// SPDX-License-Identifier: Apache-2.0
// Inputs on which naive readers of conversations differ: the rows of spec data-pipeline 16.1, by
// their numbers. Orders and padding are in sampler_test.c and collate_golden_test.c (60), 56 in
// tests/check_test.c, 61 in dataset/encode_test.c, 62 and 63 in video/video_test.c, 64 in
// dataset/dataset_test.c, InternVL's 57, 58 and 69 in template/intern_test.c.
#include "data/dataset/dataset.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    lt_tokenizer *tokenizer;
    lt_dataset_opts opts;
    const char *dir, *file;
    const char *files[1];
} place;

// A picture called N.png has N x 2 patches, N / 2 tokens.
static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    const char *name = strrchr(path, '/');
    (void)ctx, (void)n_images;
    *out = (lt_grid){1, strtol(name ? name + 1 : path, NULL, 10), 2};
    return LT_OK;
}

static place set_up(void **state, const char *chat)
{
    place p = {.opts = lt_dataset_opts_default()};
    const char *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    assert_ok(lt_tokenizer_open(golden, &p.tokenizer));
    p.dir = lt_test_dir(*state);
    p.file = lt_test_path(*state, p.dir, "d.jsonl");
    for (int i = 2; i <= 8; i += 2) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d.png", i);
        lt_test_write(lt_test_path(*state, p.dir, name), "x", 1);
    }
    p.opts.n_files = 1;
    p.opts.attr.images = "images";
    p.opts.encode.media_dir = p.dir;
    p.opts.encode.grid_of = grid_of;
    p.opts.encode.refuse_cut_images = true;
    p.opts.encode.render.literals = LT_LITERAL_REFUSE;
    p.opts.encode.render.tokenizer = p.tokenizer;
    assert_ok(lt_template_find(chat, &p.opts.encode.render.chat));
    return p;
}

static void tear_down(place *p)
{
    lt_tokenizer_close(p->tokenizer);
}

static lt_status open_one(place *p, const char *record, lt_dataset **out)
{
    lt_test_write(p->file, record, strlen(record));
    p->files[0] = p->file;
    p->opts.files = p->files;
    return lt_dataset_open(&p->opts, NULL, NULL, out);
}

/** Text of the sample, [] around what is trained, runs of pads as <N>. */
static const char *shown(void **state, const place *p, const lt_dataset *d, const lt_sample *s)
{
    const int32_t pad = lt_encoder_ids(lt_dataset_encoder(d))->vision.image_pad;
    lt_buf text = {0};
    char *copy;
    bool open = false;
    for (int64_t i = 0, n = 1; i < s->n; i += n) {
        const bool trained = s->labels[i] != LT_IGNORE_LABEL;
        if (trained != open)
            assert_ok(lt_buf_text(&text, trained ? "[" : "]"));
        open = trained;
        for (n = 1; s->ids[i] == pad && i + n < s->n && s->ids[i + n] == pad;)
            n++;
        if (s->ids[i] == pad)
            assert_ok(lt_buf_printf(&text, "<%lld>", (long long)n));
        else
            assert_ok(lt_tokenizer_decode(p->tokenizer, &s->ids[i], 1, 0, &text));
    }
    assert_ok(lt_buf_text(&text, open ? "]" : ""));
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

#define HUMAN(t) "{\"from\": \"human\", \"value\": " t "}"
#define GPT(t) "{\"from\": \"gpt\", \"value\": " t "}"
#define SYSTEM(t) "{\"from\": \"system\", \"value\": " t "}"
#define RECORD(images, turns) "{\"images\": [" images "], \"conversations\": [" turns "]}"
#define U(t) "<|im_start|>user\n" t "<|im_end|>\n<|im_start|>assistant\n"
#define A(t) "[" t "<|im_end|>\n]"
#define PIC(n) "<|vision_start|><" #n "><|vision_end|>"

typedef struct edge {
    const char *record, *text; /* text NULL: dropped */
    const char *error;         /* instead of both */
} edge;

static void check_edges(void **state, const char *chat, const edge *edges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        place p = set_up(state, chat);
        lt_dataset *d = NULL;
        if (edges[i].error || !edges[i].text) {
            const lt_status st = open_one(&p, edges[i].record, &d);
            assert_true(st == LT_ERR_DATA || st == LT_ERR_FORMAT || st == LT_ERR_NOT_FOUND);
            assert_text_contains(lt_error_message(), edges[i].error
                                                         ? edges[i].error
                                                         : "none of the 1 records can be used");
        } else {
            lt_sample s;
            assert_ok(open_one(&p, edges[i].record, &d));
            assert_ok(lt_dataset_encode(d, 0, *state, &s));
            assert_text_equal(shown(state, &p, d, &s), edges[i].text);
            lt_dataset_close(d);
        }
        tear_down(&p);
    }
}
#define CHECK(chat, edges) check_edges(state, (chat), (edges), sizeof(edges) / sizeof((edges)[0]))

static void rows_20_to_24_tags_and_pictures(void **state)
{
    static const edge edges[] = {
        // 20, BR-28: reading order over the whole conversation, the n-th tag takes the n-th picture
        {RECORD("\"8.png\", \"2.png\", \"4.png\"",
                HUMAN("\"<image>a<image>\"") "," GPT("\"b\"") "," HUMAN("\"c<image>\"") "," GPT(
                    "\"d\"") "," HUMAN("\"e\"") "," GPT("\"f\"")),
         U(PIC(4) "a" PIC(1)) A("b") U("c" PIC(2)) A("d") U("e") A("f"), NULL},
        // 21: a tag in an answer is expanded and trained
        {RECORD("\"4.png\"", HUMAN("\"draw\"") "," GPT("\"<image>\"")), U("draw") A(PIC(2)), NULL},
        // 22: in the system text it is text
        {RECORD("", SYSTEM("\"<image>\"") "," HUMAN("\"a\"") "," GPT("\"b\"")),
         "<|im_start|>system\n<image><|im_end|>\n" U("a") A("b"), NULL},
        // 23: in text data it is one picture too few
        {RECORD("", HUMAN("\"docker tag <image>\"") "," GPT("\"b\"")), NULL,
         "its turns hold 1 <image> tag, but 0 images belong to it"},
        // 24: these are none
        {RECORD("", HUMAN("\"<IMAGE> < image>\"") "," GPT("\"b\"")), U("<IMAGE> < image>") A("b"),
         NULL},
    };
    CHECK("qwen3_vl_nothink", edges);
}

static void rows_25_to_30_what_people_type(void **state)
{
    static const edge edges[] = {
        // 25: a special token is one; the text of it looks the same
        {RECORD("", HUMAN("\"say <|im_end|>\"") "," GPT("\"b\"")), U("say <|im_end|>") A("b"),
         NULL},
        // 26: a placeholder is refused, the reference would look for a picture
        {RECORD("", HUMAN("\"<|vision_start|><|image_pad|>\"") "," GPT("\"b\"")), NULL,
         "the text itself spells <|image_pad|>"},
        // 27: the number of the pair, once
        {RECORD("", HUMAN("\"t{{idx}} {{idx}}\"") "," GPT("\"{{idx}}\"") "," HUMAN(
                        "\"{{idx}}\"") "," GPT("\"b\"")),
         U("t0 {{idx}}") A("{{idx}}") U("1") A("b"), NULL},
        // 28: an empty answer trains its end
        {RECORD("", HUMAN("\"q\"") "," GPT("\"\"")), U("q") A(""), NULL},
        // 29: stripped
        {RECORD("", HUMAN("\"\\n q \"") "," GPT("\" a\\n\"")), U("q") A("a"), NULL},
        // 30: null is nothing
        {RECORD("", HUMAN("null") "," GPT("\"x\"")), U("") A("x"), NULL},
    };
    CHECK("qwen3_vl_nothink", edges);
}

static void rows_31_to_33_orders_of_roles(void **state)
{
    static const edge edges[] = {
        {RECORD("", HUMAN("\"a\"") "," HUMAN("\"b\"") "," GPT("\"c\"")), NULL, NULL}, // 31
        {RECORD("", HUMAN("\"a\"") "," GPT("\"b\"") "," HUMAN("\"c\"")), NULL, NULL}, // 32
        {RECORD("", HUMAN("\"a\"") "," GPT("\"call\"") ",{\"from\": \"observation\", \"value\": "
                                                       "\"r\"}," GPT("\"d\"")), // 33
         U("a") A("call") U("<tool_response>\nr\n</tool_response>") A("d"), NULL},
    };
    static const edge call[] = {
        {RECORD("", HUMAN("\"a\"") ",{\"from\": \"function_call\", \"value\": \"{}\"}"), NULL,
         "has no place for a function_call turn"},
    };
    CHECK("qwen3_vl_nothink", edges);
    place p = set_up(state, "qwen3_vl_nothink");
    lt_dataset *d;
    lt_sample s;
    assert_ok(open_one(&p, call[0].record, &d)); // it is met when the record is encoded
    assert_fails(lt_dataset_encode(d, 0, *state, &s), LT_ERR_DATA, call[0].error);
    assert_text_contains(lt_error_message(), "d.jsonl:1: record 1: ");
    lt_dataset_close(d);
    tear_down(&p);
}

static void row_31_openai_joins_users(void **state)
{
    place p = set_up(state, "qwen3_vl_nothink");
    lt_dataset *d;
    lt_sample s;
    p.opts.attr.formatting = "openai";
    assert_ok(open_one(&p, RECORD("", HUMAN("\"a\"") "," HUMAN("\"b\"") "," GPT("\"c\"")), &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_text_equal(shown(state, &p, d, &s), U("a\nb") A("c"));
    lt_dataset_close(d);
    tear_down(&p);
}

static void rows_34_and_35_thoughts(void **state)
{
    static const edge edges[] = {
        {RECORD("", HUMAN("\"q\"") "," GPT("\"a\"")), // 34, whatever enable_thinking says
         U("q") A("<think>\n\n</think>\n\na"), NULL},
        {RECORD("", HUMAN("\"q\"") "," GPT("\"a</think>b\"")), U("q") A("a</think>b"), NULL}, // 35
    };
    CHECK("qwen3_vl", edges);
}

static void cut_at(void **state, int64_t cutoff, const char *record, const char *text,
                   const char *error)
{
    place p = set_up(state, "qwen3_vl_nothink");
    lt_dataset *d;
    lt_sample s;
    p.opts.encode.cutoff_len = cutoff;
    assert_ok(open_one(&p, record, &d));
    if (error) {
        assert_fails(lt_dataset_encode(d, 0, *state, &s), LT_ERR_DATA, error);
    } else {
        assert_ok(lt_dataset_encode(d, 0, *state, &s));
        assert_true(s.n <= cutoff);
        assert_text_equal(shown(state, &p, d, &s), text);
        assert_int_equal(lt_dataset_counted(d).cut, 1);
    }
    lt_dataset_close(d);
    tear_down(&p);
}

// BR-24: never inside a vision span, and always counted.
static void rows_36_to_39_cuts(void **state)
{
    static const char picture[] = RECORD("\"8.png\"", HUMAN("\"<image>\"") "," GPT("\"a\"")),
                      plain[] = RECORD("", HUMAN("\"a,b,c,d,e,f,g,h,i\"") "," GPT("\"z\""));
    // "<|im_start|>", "user" in its pieces and the newline come before the picture.
    place p = set_up(state, "qwen3_vl_nothink");
    lt_vec head = LT_VEC_OF(int32_t);
    assert_ok(lt_tokenizer_encode(p.tokenizer, "<|im_start|>user\n", 17, 0, &head));
    const int64_t n = head.n;
    lt_vec_deinit(&head);
    tear_down(&p);
    cut_at(state, n + 3 + 3, picture, NULL, "cuts through image 1");  // 36: two of four pads
    cut_at(state, n + 1 + 3, picture, NULL, "cuts through image 1");  // 37: the start token alone
    cut_at(state, n + 3, picture, "<|im_start|>user\n" A("a"), NULL); // the whole picture is gone
    cut_at(state, 1, plain, "<|im_start|>",
           NULL); // 38: 1 * (3 / (source + 3)) tokens of the answer
    cut_at(state, n + 1 + 3, plain, "<|im_start|>user\na" A("z"), NULL); // 39: no header is left
}

// ---------------------------------------------------------------- text as such

/** The pieces of a text, "a|b|c". */
static const char *pieces(void **state, const lt_tokenizer *t, const char *text)
{
    lt_buf normal = {0}, out = {0};
    lt_vec ends = LT_VEC_OF(int64_t);
    char *copy;
    int64_t from = 0;
    assert_ok(lt_tokenizer_pieces(t, text, strlen(text), &normal, &ends));
    for (int64_t i = 0; i < ends.n; i++) {
        const int64_t end = LT_AT(&ends, int64_t, i);
        assert_ok(lt_buf_text(&out, i > 0 ? "|" : ""));
        assert_ok(lt_buf_append(&out, normal.data + from, (size_t)(end - from)));
        from = end;
    }
    assert_ok(lt_arena_text(*state, out.data ? out.data : "", out.len, &copy));
    lt_buf_deinit(&normal);
    lt_buf_deinit(&out);
    lt_vec_deinit(&ends);
    return copy;
}

static void rows_40_to_45_and_68_pieces(void **state)
{
    place p = set_up(state, "qwen3_vl_nothink");
    static const char *const cases[][2] = {
        {"e\u0301x", "\u00e9x"},                                        // 40: composed
        {"\U0001F469\u200D\U0001F469!", "\U0001F469\u200D\U0001F469!"}, // 41: one piece
        {"\U0001F600a", "\U0001F600a"},                // 41: a symbol joins letters
        {"\u0915\u093F\u0915", "\u0915|\u093F\u0915"}, // 42: before each mark
        {"123", "1|2|3"},                              // 43
        {"\u0661\u0662", "\u0661|\u0662"},             // 43: in every script
        {"a\r\n\r\nb", "a|\r\n\r\n|b"},                // 44
        {"a\rb", "a|\r|b"},                            // 44: alone it is one too
        {"\uFEFFab", "\uFEFFab"},                      // 45
        {"it'\u017F so", "it|'\u017F| so"},            // 68: long s
        {"\u212A", "K"},                               // 68: KELVIN SIGN
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_text_equal(pieces(state, p.tokenizer, cases[i][0]), cases[i][1]);
    // 40: a gap that begins with a mark does not join what stands before the special token
    lt_vec ids = LT_VEC_OF(int32_t);
    static const char marked[] = "e<|im_end|>\u0301";
    assert_ok(lt_tokenizer_encode(p.tokenizer, marked, strlen(marked), 0, &ids));
    lt_buf back = {0};
    assert_ok(lt_tokenizer_decode(p.tokenizer, ids.data, ids.n, 0, &back));
    assert_text_equal(back.data, marked);
    lt_buf_deinit(&back);
    lt_vec_deinit(&ids);
    tear_down(&p);
}

static void row_46_text_that_is_not_unicode_never_gets_in(void **state)
{
    static const edge edges[] = {
        {RECORD("", HUMAN("\"\\ud800\"") "," GPT("\"b\"")), NULL, "d.jsonl:1: record 1: "},
        {RECORD("", HUMAN("\"\xff\"") "," GPT("\"b\"")), NULL, "d.jsonl:1: record 1: "},
    };
    CHECK("qwen3_vl_nothink", edges);
}

static void row_47_a_million_letters_are_no_trouble(void **state)
{
    enum { N = 1000000 };
    place p = set_up(state, "qwen3_vl_nothink");
    char *text = lt_test_take(*state, N + 1);
    lt_vec ids = LT_VEC_OF(int32_t);
    for (int i = 0; i < N; i++)
        text[i] = (char)('a' + i * 7 % 13);
    const double begin = lt_clock_now();
    assert_ok(lt_tokenizer_encode(p.tokenizer, text, N, 0, &ids));
    assert_true(lt_clock_now() - begin < 20); // quadratic, it would take hours
    lt_vec_deinit(&ids);
    tear_down(&p);
}

static void rows_48_65_66_67_values(void **state)
{
    static const edge edges[] = {
        {RECORD("", HUMAN("\"a\\u0000b\"") "," GPT("\"c\"")), U("a"), NULL}, // 48, see below
        {RECORD("", HUMAN("5") "," GPT("\"b\"")), NULL,                      // 65
         "d.jsonl:1: record 1: \"value\" of turn 1 is a number; a string is expected"},
        {"{\"images\": \"4.png\", \"conversations\": [" HUMAN("\"<image>\"") "," GPT("\"b\"") "]}",
         U(PIC(2)) A("b"), NULL}, // 66: one path
    };
    check_edges(state, "qwen3_vl_nothink", edges + 1, 2);
    place p = set_up(state, "qwen3_vl_nothink");
    lt_dataset *d;
    lt_sample s;
    assert_ok(open_one(&p, edges[0].record, &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    lt_buf text = {0};
    assert_ok(lt_tokenizer_decode(p.tokenizer, s.ids, s.n, 0, &text));
    assert_non_null(memmem(text.data, text.len, "\na\0b<|im_end|>", 14)); // 48: all of it is there
    lt_buf_deinit(&text);
    lt_dataset_close(d);
    // 67: an absolute path stands for itself
    char record[4200];
    (void)snprintf(record, sizeof record,
                   RECORD("\"%s/4.png\"", HUMAN("\"<image>\"") "," GPT("\"b\"")), p.dir);
    p.opts.encode.media_dir = "/nowhere";
    assert_ok(open_one(&p, record, &d));
    lt_dataset_close(d);
    tear_down(&p);
}

static void row_59_arguments_are_not_filled_up_with_null(void **state)
{
    place p = set_up(state, "qwen3_6_nothink");
    lt_dataset *d;
    lt_sample s;
    p.opts.attr.formatting = "openai";
    p.opts.attr.images = NULL;
#define CALL(arguments)                                                                            \
    "{\"conversations\": [" HUMAN(                                                                 \
        "\"a\"") ",{\"from\": \"gpt\", \"value\": \"\", \"tool_calls\": "                          \
                 "[{\"function\": {\"name\": \"f\", "                                              \
                 "\"arguments\": " arguments "}}]}]}\n"
    assert_ok(open_one(&p, CALL("{\"x\": 1}") CALL("{\"y\": \"z\"}"), &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_text_equal(shown(state, &p, d, &s),
                      U("a") A("<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n"
                               "</function>\n</tool_call>"));
    lt_dataset_close(d);
    tear_down(&p);
}

// BR-48: a thought in a key of its own is part of what is trained.
static void br_48_reasoning_is_rendered_and_trained(void **state)
{
    place p = set_up(state, "qwen3_6");
    lt_dataset *d;
    lt_sample s;
    p.opts.attr.formatting = "openai";
    p.opts.attr.images = NULL;
    assert_ok(open_one(
        &p,
        "{\"conversations\": [" HUMAN("\"a\"") ",{\"from\": \"gpt\", \"value\": "
                                               "\"b\", \"reasoning_content\": \"\\nwhy\\n\"}]}",
        &d));
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_text_equal(shown(state, &p, d, &s), U("a") A("<think>\nwhy\n</think>\n\nb"));
    lt_dataset_close(d);
    tear_down(&p);
}

static void row_55_more_max_samples_than_records_is_all_of_them(void **state)
{
    place p = set_up(state, "qwen3_vl_nothink");
    lt_dataset *d;
    p.opts.max_samples = 5;
    assert_ok(open_one(&p, RECORD("", HUMAN("\"a\"") "," GPT("\"b\"")), &d));
    assert_int_equal(lt_dataset_rows(d), 1);
    lt_dataset_close(d);
    tear_down(&p);
}

LT_TEST_MAIN(LT_TEST(rows_20_to_24_tags_and_pictures), LT_TEST(rows_25_to_30_what_people_type),
             LT_TEST(rows_31_to_33_orders_of_roles), LT_TEST(row_31_openai_joins_users),
             LT_TEST(rows_34_and_35_thoughts), LT_TEST(rows_36_to_39_cuts),
             LT_TEST(rows_40_to_45_and_68_pieces),
             LT_TEST(row_46_text_that_is_not_unicode_never_gets_in),
             LT_TEST(row_47_a_million_letters_are_no_trouble), LT_TEST(rows_48_65_66_67_values),
             LT_TEST(row_59_arguments_are_not_filled_up_with_null),
             LT_TEST(br_48_reasoning_is_rendered_and_trained),
             LT_TEST(row_55_more_max_samples_than_records_is_all_of_them))
