// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/python_json.h"
#include "data/dataset/records.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static lt_records *scan(const char *text)
{
    lt_records *r = NULL;
    assert_ok(lt_records_scan(text, strlen(text), "d.json", &r));
    return r;
}

static int64_t number(const lt_records *r, int64_t i)
{
    json_t *json;
    assert_ok(lt_records_parse(r, i, &json));
    const int64_t a = json_integer_value(json_object_get(json, "a"));
    json_decref(json);
    return a;
}

static void records_are_found_with_their_lines_in_both_forms(void **state)
{
    static const char *const texts[] = {
        "[{\"a\": 1},\n {\"a\":\n2},\n\n{\"a\": 3, \"s\": \"]}\\\"{\"}]\n",
        "{\"a\": 1}\n{\"a\": 2}\r\n\n  {\"a\": 3, \"s\": \"]}\\\"{\"}",
        "\xEF\xBB\xBF [ {\"a\": 1},\n {\"a\": 2}\n\n,{\"a\": 3} ]",
    };
    static const int64_t lines[][3] = {{1, 2, 5}, {1, 2, 4}, {1, 2, 4}};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        lt_records *r = scan(texts[t]);
        assert_int_equal(lt_records_count(r), 3);
        for (int64_t i = 0; i < 3; i++) {
            assert_int_equal(number(r, i), i + 1);
            assert_int_equal(lt_records_place(r, i).line, lines[t][i]);
            assert_int_equal(lt_records_place(r, i).record, i + 1);
        }
        lt_records_close(r);
    }
}

static void an_empty_array_has_no_records(void **state)
{
    (void)state;
    lt_records *r = scan(" [ ] \n");
    assert_int_equal(lt_records_count(r), 0);
    lt_records_close(r);
}

static void a_file_of_neither_form_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "d.json: the file is empty"},
        {" \n ", "d.json: the file is empty"},
        {"\n\"text\"", "d.json:2: neither an array of records nor one record a line"},
        {"[1]", "d.json:1: record 1 is not an object: it begins with '1'"},
        {"\xFF\xFE[", "d.json:1: neither an array of records nor one record a line: it is UTF-16"},
        {"[{},\n[]]", "d.json:2: record 2 is not an object: it begins with '['"},
        {"[{},\n]", "d.json:2: record 2 is not an object: it begins with ']'"},
        {"[{},\n", "d.json:2: the file ends where record 2 of its array should stand"},
        {"[{}\n{}]", "d.json:2: behind record 1 there is neither a comma nor the array's ]"},
        {"[{}]\nx", "d.json:2: something follows the array's closing ]"},
        {"[{\"a\": 1,\n\"b\": \"x}\n]", "d.json:2: record 1 (it begins in line 1): "},
        {"[{\"a\": [1}\n,{}", "d.json:1: record 1 (it begins in line 1): "},
        {"{\n\"a\": 1\n}", "d.json:2: record 2 is not an object: it begins with '\"' (in a file "
                           "that isn't one array"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_records *r = NULL;
        assert_fails(lt_records_scan(cases[i].text, strlen(cases[i].text), "d.json", &r),
                     LT_ERR_FORMAT, cases[i].message);
        assert_null(r);
    }
}

static void a_json_error_names_file_line_and_record(void **state)
{
    static const struct {
        const char *text;
        int64_t record;
        const char *message;
    } cases[] = {
        {"[{\"a\": 1},\n{\"a\":\n tru}]", 1, "d.json:3: record 2: "},
        {"{\"a\": 1}\n{\"a\": 1,}\n", 1, "d.json:2: record 2: "},
        {"{}\nnull\n[1]\n{}", 1, "d.json:2: record 2 is not an object: it begins with 'n' (in a"},
        {"{}\nnull\n[1]\n{}", 2, "d.json:3: record 3 is not an object: it begins with '['"},
        {"{\"a\": \"\xFF\"}", 0, "d.json:1: record 1: "},
        {"{\"a\": \"\\ud800\"}", 0, "d.json:1: record 1: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *json = NULL;
        lt_records *r = scan(cases[i].text);
        assert_fails(lt_records_parse(r, cases[i].record, &json), LT_ERR_FORMAT, cases[i].message);
        lt_records_close(r);
    }
}

static void zeros_and_huge_numbers_in_records_are_read(void **state)
{
    (void)state;
    lt_records *r = scan("{\"s\": \"a\\u0000b\", \"id\": 123456789012345678901234567890}\n");
    json_t *json;
    assert_ok(lt_records_parse(r, 0, &json));
    assert_int_equal(json_string_length(json_object_get(json, "s")), 3);
    json_decref(json);
    lt_records_close(r);
}

// Tool calls may have such names for their arguments; they are two members, not one.
static void zeros_in_keys_are_read(void **state)
{
    (void)state;
    lt_records *r = scan("{\"a\\u0000b\": \"\\u0000\", \"a\": 2, \"\\u0001\": 3}");
    json_t *json = NULL;
    lt_buf text = {0};
    assert_ok(lt_records_parse(r, 0, &json));
    assert_int_equal(json_object_size(json), 3);
    assert_ok(lt_python_json(json, &text));
    assert_text_equal(text.data, "{\"a\\u0000b\": \"\\u0000\", \"a\": 2, \"\\u0001\": 3}");
    lt_buf_deinit(&text);
    json_decref(json);
    lt_records_close(r);
}

static void deep_nesting_is_an_error_and_no_crash(void **state)
{
    enum { N = 100000 };
    const char start[] = {'[', '{', '"', 'a', '"', ':'};
    char *text = lt_test_take(*state, N);
    memset(text, '[', N);
    memcpy(text, start, sizeof start);
    lt_records *r;
    assert_fails(lt_records_scan(text, N, "deep.json", &r), LT_ERR_FORMAT, "deep.json:1: record 1");
}

static void several_files_follow_each_other_up_to_the_limit(void **state)
{
    const char *dir = lt_test_dir(*state);
    const char *files[] = {lt_test_path(*state, dir, "a.json"),
                           lt_test_path(*state, dir, "b.jsonl")};
    lt_test_write(files[0], "[{\"a\": 1}, {\"a\": 2}]", 20);
    lt_test_write(files[1], "{\"a\": 3}\n{\"a\": 4}\n", 18);
    lt_records *r;
    assert_ok(lt_records_open(files, 2, 3, &r));
    assert_int_equal(lt_records_count(r), 3);
    assert_int_equal(lt_records_total(r), 4);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(number(r, i), i + 1);
    assert_text_equal(lt_records_place(r, 2).file, files[1]);
    assert_int_equal(lt_records_place(r, 2).record, 1);
    lt_records_close(r);
    assert_fails(lt_records_open(files, 0, 0, &r), LT_ERR_CONFIG, "between 1 and");
    files[1] = lt_test_path(*state, dir, "not-there.json");
    assert_fails(lt_records_open(files, 2, 0, &r), LT_ERR_NOT_FOUND, "not-there.json");
}

LT_TEST_MAIN(LT_TEST(records_are_found_with_their_lines_in_both_forms),
             LT_TEST(an_empty_array_has_no_records),
             LT_TEST(a_file_of_neither_form_is_refused_with_its_line),
             LT_TEST(a_json_error_names_file_line_and_record),
             LT_TEST(zeros_and_huge_numbers_in_records_are_read), LT_TEST(zeros_in_keys_are_read),
             LT_TEST(deep_nesting_is_an_error_and_no_crash),
             LT_TEST(several_files_follow_each_other_up_to_the_limit))
