// SPDX-License-Identifier: Apache-2.0
#include "ckpt/json_text.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static const char *set(void **state, const char *json, const char *path, const char *value)
{
    lt_buf text = {0};
    char *copy;
    assert_ok(lt_buf_text(&text, json));
    assert_ok(lt_json_set(&text, path, value));
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

static void a_value_is_replaced_and_everything_else_keeps_its_bytes(void **state)
{
    const char *json = "{\n  \"eps\": 1e-06,\n  \"size\": {\"longest_edge\" : 16, \"a\": [1, "
                       "{\"b\":\"x\\\"}\"}]},\n  \"inf\": -Infinity\n}\n";
    assert_text_equal(set(state, json, "size.longest_edge", "[32]"),
                      "{\n  \"eps\": 1e-06,\n  \"size\": {\"longest_edge\" : [32], \"a\": [1, "
                      "{\"b\":\"x\\\"}\"}]},\n  \"inf\": -Infinity\n}\n");
    assert_text_equal(set(state, json, "eps", "1e-06"), json);
    assert_text_equal(set(state, "{\"a\": 1, \"a\": 2}", "a", "3"),
                      "{\"a\": 1, \"a\": 3}"); // the one that readers see
}

static void a_missing_member_is_inserted_in_the_style_of_the_file(void **state)
{
    assert_text_equal(set(state, "{\n    \"x\": 1\n}", "y", "true"),
                      "{\n    \"y\": true,\n    \"x\": 1\n}");
    assert_text_equal(set(state, "{\"x\": 1}", "y", "2"), "{\"y\": 2, \"x\": 1}");
    assert_text_equal(set(state, "{}", "size.edge", "2"), "{\"size\": {\"edge\": 2}}");
    assert_text_equal(set(state, "{\"size\": { }, \"z\": {\"q\": 0}}", "size.a.b", "2"),
                      "{\"size\": { \"a\": {\"b\": 2}}, \"z\": {\"q\": 0}}");
    assert_text_equal(set(state, "{\"\": {\"x\": 1}}", "x", "2"), "{\"x\": 2, \"\": {\"x\": 1}}");
}

static void a_path_through_something_else_is_refused_and_the_text_stays(void **state)
{
    (void)state;
    lt_buf text = {0};
    assert_ok(lt_buf_text(&text, "{\"size\": 5}"));
    assert_fails(lt_json_set(&text, "size.edge", "2"), LT_ERR_FORMAT, "size.edge can't be set");
    assert_text_equal(text.data, "{\"size\": 5}");
    lt_buf_deinit(&text);
}

static void text_that_is_not_json_is_refused_with_its_line(void **state)
{
    static const char *const broken[] = {
        "",     "{",           "{\n\"a\": }",  "{\n\"a\" 1}",    "{\n\"a\": 1,}", "[1, 2",
        "{} x", "{\"a\": \"x", "{\"a\": [1}]", "{\n\"a\": 1 2}", "\"\\",          "{a: 1}"};
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        lt_buf text = {0};
        assert_ok(lt_buf_text(&text, broken[i]));
        assert_fails(lt_json_set(&text, "k", "1"), LT_ERR_FORMAT,
                     strchr(broken[i], '\n') != NULL ? "line 2" : "line 1");
        lt_buf_deinit(&text);
    }
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    lt_buf text = {0};
    for (int i = 0; i < 100000; i++)
        assert_ok(lt_buf_text(&text, "["));
    assert_fails(lt_json_set(&text, "k", "1"), LT_ERR_FORMAT, "nested deeper than 64");
    lt_buf_deinit(&text);
}

static const char *double_numbers_named_n(void *ctx, const char *path, const char *value,
                                          size_t len)
{
    (void)ctx;
    return lt_text_ends(path, ".n") && len == 1 && value[0] == '1' ? "2" : NULL;
}

static void a_visitor_reaches_every_scalar_with_its_path(void **state)
{
    (void)state;
    lt_buf text = {0};
    assert_ok(lt_buf_text(
        &text, "{\"n\": 1, \"m\": 1, \"o\": [{\"n\":1}, {\"n\": 3}, {\"p\": {\"n\" :1 }}]}"));
    assert_ok(lt_json_edit(&text, double_numbers_named_n, NULL));
    assert_text_equal(text.data,
                      "{\"n\": 2, \"m\": 1, \"o\": [{\"n\":2}, {\"n\": 3}, {\"p\": {\"n\" :2 }}]}");
    lt_buf_deinit(&text);
}

static void quoting_escapes_what_json_forbids(void **state)
{
    (void)state;
    lt_buf text = {0};
    assert_ok(lt_json_quote(&text, "a\"b\\c\n\x01\xc3\xa9"));
    assert_text_equal(text.data, "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9\"");
    lt_buf_deinit(&text);
}

LT_TEST_MAIN(LT_TEST(a_value_is_replaced_and_everything_else_keeps_its_bytes),
             LT_TEST(a_missing_member_is_inserted_in_the_style_of_the_file),
             LT_TEST(a_path_through_something_else_is_refused_and_the_text_stays),
             LT_TEST(text_that_is_not_json_is_refused_with_its_line), LT_TEST(nesting_has_a_limit),
             LT_TEST(a_visitor_reaches_every_scalar_with_its_path),
             LT_TEST(quoting_escapes_what_json_forbids))
