// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/plain_json.h"
#include "tests/kit/lt_test.h"
#include <string.h>

/** What both parsers make of a text: the same value, or ours gives up. */
static bool parsed_alike(const char *text, size_t len)
{
    lt_buf scratch = {0};
    json_error_t error;
    json_t *ours = lt_plain_json(text, len, &scratch),
           *theirs = json_loadb(text, len, JSON_ALLOW_NUL, &error);
    const bool found = ours != NULL;
    if (ours) {
        assert_non_null(theirs);
        assert_true(json_equal(ours, theirs));
    }
    json_decref(ours);
    json_decref(theirs);
    lt_buf_deinit(&scratch);
    return found;
}

static void common_json_is_parsed_as_jansson_does(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " { \"a\" : [ 1 , -2 , 0 , 999999999999999999 ] , \"b\" : { } }\n",
        "{\"t\": true, \"f\": false, \"n\": null}",
        "{\"s\": \"\", \"t\": \"plain\", \"u\": \"caf\u00e9 \u4e2d\u6587 \U0001F600\"}",
        "{\"e\": \"a\\n\\t\\\"\\\\\\/\\b\\f\\rz\", \"\\n\": 1}",
        "{\"a\": 1, \"a\": 2}",
        "[[[[[[[[1]]]]]]]]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_true(parsed_alike(texts[i], strlen(texts[i])));
}

static void all_else_is_left_to_jansson(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\"}",
        "{\"a\": }",
        "{a: 1}",
        "[1] x",
        "1.5",
        "[1e3]",
        "[-0]",
        "[01]",
        "[+1]",
        "[--1]",
        "[-]",
        "\"\\u0041\"",
        "\"\\x\"",
        "\"a",
        "\"a\\",
        "\"\n\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "[1000000000000000000]",
        "tru",
        "nulls",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(parsed_alike(texts[i], strlen(texts[i])));
    assert_false(parsed_alike("\"\0\"", 3));
    char deep[200];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    assert_false(parsed_alike(deep, 200));
}

// Random texts over the characters that matter, whole and broken.
static void random_texts_never_differ(void **state)
{
    static const char *const parts[] = {
        "{", "}", "[",  "]",   ":",  ",",    "\"",       "\"a\"", "1",    "-",      "0",      ".",
        "e", " ", "\\", "\\n", "\n", "\xc3", "\xc3\xa9", "true",  "null", "\"k\":", "\"s\",", "x"};
    enum { N = sizeof parts / sizeof parts[0] };
    uint64_t r = 1;
    int found = 0;
    (void)state;
    lt_buf text = {0};
    for (int i = 0; i < 200000; i++) {
        lt_buf_clear(&text);
        assert_ok(lt_buf_text(&text, "["));
        r = r * 6364136223846793005U + 1442695040888963407U;
        for (uint64_t k = 0, n = r >> 60; k <= n; k++) {
            r = r * 6364136223846793005U + 1442695040888963407U;
            assert_ok(lt_buf_text(&text, parts[(r >> 33) % N]));
        }
        assert_ok(lt_buf_text(&text, "]"));
        found += parsed_alike(text.data, text.len);
    }
    lt_buf_deinit(&text);
    assert_true(found > 500);
}

LT_TEST_MAIN(LT_TEST(common_json_is_parsed_as_jansson_does), LT_TEST(all_else_is_left_to_jansson),
             LT_TEST(random_texts_never_differ))
