// SPDX-License-Identifier: Apache-2.0
#include "base/pool.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/kit/lt_test.h"
#include <jansson.h>
#include <string.h>

static lt_tokenizer *small(void **state)
{
    lt_tokenizer *t = NULL;
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    assert_ok(lt_tokenizer_open(dir, &t));
    return t;
}

static lt_vec ids_of(const lt_tokenizer *t, const char *text, size_t len, unsigned flags)
{
    lt_vec ids = LT_VEC_OF(int32_t);
    assert_ok(lt_tokenizer_encode(t, text, len, flags, &ids));
    return ids;
}

static void assert_ids(const lt_vec *got, const json_t *want, const char *line)
{
    bool equal = (int64_t)json_array_size(want) == got->n;
    for (int64_t i = 0; equal && i < got->n; i++)
        equal = json_integer_value(json_array_get(want, (size_t)i)) == LT_AT(got, int32_t, i);
    if (!equal)
        fail_msg("other ids for %.200s", line);
}

static void assert_decodes(const lt_tokenizer *t, const lt_vec *ids, unsigned flags,
                           const json_t *want)
{
    lt_buf text = {0};
    assert_ok(lt_tokenizer_decode(t, ids->data, ids->n, flags, &text));
    assert_int_equal(text.len, json_string_length(want));
    assert_memory_equal(text.data, json_string_value(want), text.len);
    lt_buf_deinit(&text);
}

static void check_row(const lt_tokenizer *t, const json_t *row, const char *line)
{
    const json_t *text = json_object_get(row, "text"), *want = json_object_get(row, "ids");
    const json_t *skip = json_object_get(row, "skip_special_tokens");
    lt_vec ids = LT_VEC_OF(int32_t);
    if (skip) {
        for (size_t i = 0; i < json_array_size(want); i++) {
            const int32_t id = (int32_t)json_integer_value(json_array_get(want, i));
            assert_ok(lt_vec_push(&ids, &id));
        }
        assert_decodes(t, &ids, json_is_true(skip) ? LT_SKIP_SPECIAL : 0, text);
    } else {
        const bool split = json_is_true(json_object_get(row, "split_special_tokens"));
        ids = ids_of(t, json_string_value(text), json_string_length(text),
                     split ? LT_SPLIT_SPECIAL : 0);
        assert_ids(&ids, want, line);
        assert_decodes(t, &ids, 0, json_object_get(row, "decoded"));
        assert_decodes(t, &ids, LT_SKIP_SPECIAL, json_object_get(row, "decoded_skip"));
    }
    lt_vec_deinit(&ids);
}

// small.jsonl was written by the Rust library, tokenizers 0.22.2, over small/tokenizer.json.
static void ids_and_decodings_equal_the_reference_library(void **state)
{
    lt_tokenizer *t = small(state);
    const char *path = lt_test_golden(*state, "tokenizer/small.jsonl");
    assert_non_null(path);
    char *text = lt_test_read(*state, path, NULL);
    int rows = 0;
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_row(t, row, line);
        json_decref(row);
        line = end + 1;
        rows++;
    }
    assert_true(rows > 150);
    lt_tokenizer_close(t);
}

static void names_and_ids_are_found(void **state)
{
    lt_tokenizer *t = small(state);
    int32_t id = -1, other;
    assert_true(lt_tokenizer_id(t, "<|im_end|>", &id));
    assert_text_equal(lt_tokenizer_name(t, id), "<|im_end|>");
    assert_true(lt_tokenizer_is_special(t, id));
    assert_true(lt_tokenizer_id(t, "<think>", &other));
    assert_false(lt_tokenizer_is_special(t, other));
    assert_false(lt_tokenizer_id(t, "<|no_such|>", &other));
    assert_text_equal(lt_tokenizer_name(t, -1), "");
    assert_text_equal(lt_tokenizer_name(t, INT32_MAX), "");
    assert_int_equal(lt_tokenizer_size(t), 670);
    lt_tokenizer_close(t);
}

static void a_text_that_is_not_utf8_is_refused_with_the_place(void **state)
{
    lt_tokenizer *t = small(state);
    lt_vec ids = LT_VEC_OF(int32_t);
    assert_fails(lt_tokenizer_encode(t,
                                     "ab\xFF"
                                     "c",
                                     4, 0, &ids),
                 LT_ERR_DATA, "not UTF-8 at its byte 3");
    assert_fails(lt_tokenizer_encode(t, "\xED\xA0\x80", 3, 0, &ids), LT_ERR_DATA,
                 "not UTF-8 at its byte 1");
    lt_vec_deinit(&ids);
    lt_tokenizer_close(t);
}

static void three_hundred_thousand_letters_without_a_blank_come_back(void **state)
{
    enum { N = 300000 };
    lt_tokenizer *t = small(state);
    char *text = lt_test_take(*state, N + 1);
    for (int i = 0; i < N; i++)
        text[i] = (char)('a' + (i % 977 * 7919 >> 4) % 26);
    lt_vec ids = ids_of(t, text, N, 0); // one piece: a quadratic way would take minutes
    lt_buf back = {0};
    assert_ok(lt_tokenizer_decode(t, ids.data, ids.n, 0, &back));
    assert_int_equal(back.len, N);
    assert_memory_equal(back.data, text, N);
    lt_buf_deinit(&back);
    lt_vec_deinit(&ids);
    lt_tokenizer_close(t);
}

typedef struct shared {
    const lt_tokenizer *t;
    const char *text;
    size_t len;
    const lt_vec *want;
} shared;

static lt_status encode_and_compare(void *ctx, int64_t i, int thread)
{
    const shared *s = ctx;
    lt_vec ids = LT_VEC_OF(int32_t);
    (void)i;
    (void)thread;
    lt_status st = lt_tokenizer_encode(s->t, s->text, s->len, 0, &ids);
    if (st == LT_OK && (ids.n != s->want->n ||
                        memcmp(ids.data, s->want->data, (size_t)ids.n * sizeof(int32_t)) != 0))
        st = LT_FAIL(LT_ERR_INTERNAL, "a thread got other ids");
    lt_vec_deinit(&ids);
    return st;
}

static void many_threads_share_one_tokenizer(void **state)
{
    lt_tokenizer *t = small(state);
    const char text[] =
        "<|im_start|>user\nHow many red squares? e\u0301 \u4E2D\u6587 0123<|im_end|>\n";
    lt_vec want = ids_of(t, text, sizeof text - 1, 0);
    shared s = {t, text, sizeof text - 1, &want};
    lt_pool *pool;
    assert_ok(lt_pool_create(4, &pool));
    assert_ok(lt_pool_run(pool, 400, encode_and_compare, &s));
    lt_pool_destroy(pool);
    lt_vec_deinit(&want);
    lt_tokenizer_close(t);
}

// The small tokenizer's text with one part exchanged.
static char *edited(void **state, const char *from, const char *to)
{
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    char *text = lt_test_read(*state, lt_test_path(*state, dir, "tokenizer.json"), NULL),
         *at = strstr(text, from), *out;
    assert_non_null(at);
    assert_ok(
        lt_arena_printf(*state, &out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    return out;
}

static void what_is_not_of_the_qwen_form_is_refused_by_name(void **state)
{
    static const struct {
        const char *from, *to;
        lt_status code;
        const char *message;
    } cases[] = {
        {"\"NFC\"", "\"NFKC\"", LT_ERR_UNSUPPORTED, "the normalizer is not NFC"},
        {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", LT_ERR_UNSUPPORTED, "model.type is not BPE"},
        {"\"dropout\":null", "\"dropout\":0.1", LT_ERR_UNSUPPORTED, "model.dropout is set"},
        {"\"byte_fallback\":false", "\"byte_fallback\":true", LT_ERR_UNSUPPORTED,
         "model.byte_fallback is set"},
        {"\"ignore_merges\":false", "\"ignore_merges\":true", LT_ERR_UNSUPPORTED,
         "model.ignore_merges is set"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", LT_ERR_UNSUPPORTED,
         "add_prefix_space"},
        {"\"use_regex\": false", "\"use_regex\": true", LT_ERR_UNSUPPORTED, "use_regex"},
        {"\"Isolated\"", "\"Removed\"", LT_ERR_UNSUPPORTED, "not an Isolated one"},
        {"\"lstrip\": false", "\"lstrip\": true", LT_ERR_UNSUPPORTED,
         "\"<|endoftext|>\" has lstrip set"},
        {"|\\\\p{N}|", "|\\\\p{Lu}|", LT_ERR_UNSUPPORTED, "\\p{Lu}"},
        {"|\\\\p{N}|", "|\\\\w|", LT_ERR_UNSUPPORTED, "the Split expression uses \\w"},
        {"|\\\\p{N}|", "|(|", LT_ERR_FORMAT, "the Split expression is wrong at its character"},
        {"|\\\\p{N}|", "||", LT_ERR_UNSUPPORTED, "can match an empty text"},
        {"\"id\": 641", "\"id\": -1", LT_ERR_FORMAT, "\"<|im_start|>\" needs an id between 0 and"},
        {"\"id\": 641", "\"id\": 4000000000", LT_ERR_FORMAT,
         "\"<|im_start|>\" needs an id between 0 and"},
        {"\"id\": 641", "\"id\": 640", LT_ERR_FORMAT, "id 640 belongs to both"},
        {"\"content\": \"<|im_start|>\"", "\"content\": \"\"", LT_ERR_FORMAT,
         "added_tokens[1] has no content"},
        {"\"merges\":[[", "\"merges\":[[\"a\"],[", LT_ERR_FORMAT, "model.merges[0] is neither"},
        {"\"merges\":[[", "\"merges\":[\"a b c\",[", LT_ERR_FORMAT, "model.merges[0] is neither"},
        {"\"merges\":[[", "\"merges\":[\"a Q\",[", LT_ERR_FORMAT,
         "model.merges[0] joins \"a Q\" and \"Q\""},
        {"\"vocab\":{\"!\": 0, ", "\"vocab\":{", LT_ERR_UNSUPPORTED, "no token for the byte 0x21"},
        {"\"vocab\":{", "\"vocab\":[", LT_ERR_FORMAT, "small.json:"},
        {"\"added_tokens\":[", "\"added_tokens\":[]]", LT_ERR_FORMAT, "small.json:2: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *json = edited(state, cases[i].from, cases[i].to);
        lt_tokenizer *t = NULL;
        assert_fails(lt_tokenizer_parse(json, strlen(json), "small.json", &t), cases[i].code,
                     cases[i].message);
        assert_text_contains(lt_error_message(), "small.json");
        assert_null(t);
    }
}

static void merges_may_be_written_as_strings(void **state)
{
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    json_t *root = json_load_file(lt_test_path(*state, dir, "tokenizer.json"), 0, NULL);
    json_t *model = json_object_get(root, "model"), *old = json_object_get(model, "merges"), *merge;
    json_t *fresh = json_array();
    size_t i;
    json_array_foreach(old, i, merge) json_array_append_new(
        fresh, json_sprintf("%s %s", json_string_value(json_array_get(merge, 0)),
                            json_string_value(json_array_get(merge, 1))));
    json_object_set_new(model, "merges", fresh);
    char *json = json_dumps(root, 0);
    lt_tokenizer *strings, *arrays = small(state);
    assert_ok(lt_tokenizer_parse(json, strlen(json), "strings.json", &strings));
    const char text[] = "The picture shows two red squares and the answer.";
    lt_vec a = ids_of(arrays, text, sizeof text - 1, 0),
           b = ids_of(strings, text, sizeof text - 1, 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, (size_t)a.n * sizeof(int32_t));
    assert_true(lt_tokenizer_hash(arrays) != lt_tokenizer_hash(strings));
    lt_vec_deinit(&a);
    lt_vec_deinit(&b);
    lt_tokenizer_close(arrays);
    lt_tokenizer_close(strings);
    free(json);
    json_decref(root);
}

static void a_missing_file_is_named(void **state)
{
    lt_tokenizer *t;
    const char *dir = lt_test_dir(*state);
    assert_fails(lt_tokenizer_open(dir, &t), LT_ERR_NOT_FOUND, "tokenizer.json");
}

LT_TEST_MAIN(LT_TEST(ids_and_decodings_equal_the_reference_library),
             LT_TEST(names_and_ids_are_found),
             LT_TEST(a_text_that_is_not_utf8_is_refused_with_the_place),
             LT_TEST(three_hundred_thousand_letters_without_a_blank_come_back),
             LT_TEST(many_threads_share_one_tokenizer),
             LT_TEST(what_is_not_of_the_qwen_form_is_refused_by_name),
             LT_TEST(merges_may_be_written_as_strings), LT_TEST(a_missing_file_is_named))
