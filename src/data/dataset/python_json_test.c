// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/python_json.h"
#include "tests/kit/lt_test.h"
#include <math.h>
#include <string.h>

static void floats_print_as_python_prints_them(void **state)
{
    static const struct {
        double value;
        const char *text; // repr(value)
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {100.0, "100.0"},
        {1.5, "1.5"},
        {0.1, "0.1"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e-4, "0.0001"},
        {0.00012345, "0.00012345"},
        {1e-5, "1e-05"},
        {2.5e-7, "2.5e-07"},
        {1e100, "1e+100"},
        {-12345.678, "-12345.678"},
        {5e-324, "5e-324"},
        {9999999999999998.0, "9999999999999998.0"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {HUGE_VAL, "Infinity"},
        {-HUGE_VAL, "-Infinity"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_buf out = {0};
        assert_ok(lt_python_float(cases[i].value, &out));
        assert_text_equal(out.data, cases[i].text);
        lt_buf_deinit(&out);
    }
}

static void values_print_as_json_dumps_prints_them(void **state)
{
    static const struct {
        const char *in, *out; // json.dumps(json.loads(in), ensure_ascii=False); NULL: not JSON
    } cases[] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"{\"a\":1,\"b\":[true,false,null]}", "{\"a\": 1, \"b\": [true, false, null]}"},
        {"\"\\u00e9\\u4e2d/\\/\\u007f\"", "\"\u00E9\u4E2D//\x7F\""},
        {"\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\""},
        {"[1.0,1e2,-0,-0.0,1E-7,12345678901234567890123]",
         "[1.0, 100.0, 0, -0.0, 1e-07, 12345678901234567890123]"},
        {"[NaN,Infinity,-Infinity,1e999]", "[NaN, Infinity, -Infinity, Infinity]"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"},
        {"{\"a\\u0000b\":1,\"a\":2,\"\\u00010\":3,\"\\\\u0000\" : 4}",
         "{\"a\\u0000b\": 1, \"a\": 2, \"\\u00010\": 3, \"\\\\u0000\": 4}"},
        {"{\"\\u0000\":\"\\u0000:\"}", "{\"\\u0000\": \"\\u0000:\"}"},
        {"3", "3"},
        {"", NULL},
        {"{", NULL},
        {"[01]", NULL},
        {"[1.]", NULL},
        {"[.5]", NULL},
        {"[1e]", NULL},
        {"[-]", NULL},
        {"{1: 2}", NULL},
        {"[1 2]", NULL},
        {"[\"a]", NULL},
        {"nullNaN", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *value = NULL;
        lt_buf out = {0};
        assert_ok(lt_python_parse(cases[i].in, strlen(cases[i].in), &value));
        if (cases[i].out) {
            assert_non_null(value);
            assert_ok(lt_python_json(value, &out));
            assert_text_equal(out.data, cases[i].out);
        } else if (value) {
            fail_msg("%s was read", cases[i].in);
        }
        json_decref(value);
        lt_buf_deinit(&out);
    }
}

static void numbers_in_disguise_are_no_texts(void **state)
{
    json_t *value;
    (void)state;
    assert_ok(lt_python_parse("[1, \"1\", \"\"]", 12, &value));
    assert_false(lt_python_is_text(json_array_get(value, 0)));
    assert_true(lt_python_is_text(json_array_get(value, 1)));
    assert_true(lt_python_is_text(json_array_get(value, 2)));
    json_decref(value);
}

LT_TEST_MAIN(LT_TEST(floats_print_as_python_prints_them),
             LT_TEST(values_print_as_json_dumps_prints_them),
             LT_TEST(numbers_in_disguise_are_no_texts))
