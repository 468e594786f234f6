// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/convert.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static lt_attr roles(void)
{
    lt_attr a = lt_attr_default();
    a.messages = "messages";
    a.role_tag = "role";
    a.content_tag = "content";
    a.user_tag = "user";
    a.assistant_tag = "assistant";
    a.images = "images";
    return a;
}

static lt_attr openai(void)
{
    lt_attr a = roles();
    a.formatting = "openai";
    a.observation_tag = "tool";
    a.tools = "tools";
    return a;
}

static lt_status convert(void **state, const lt_attr *attr, const char *record,
                         lt_conversation *out)
{
    json_error_t error;
    json_t *json = json_loads(record, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    assert_non_null(json);
    assert_ok(lt_attr_check(attr));
    const lt_status st = lt_convert_record(attr, json, *state, out);
    json_decref(json); // what `out` holds must outlive the record
    return st;
}

// "user:text|assistant:text", or "dropped: why".
static const char *shown(void **state, const lt_attr *attr, const char *record)
{
    lt_conversation c;
    lt_buf text = {0};
    char *copy;
    assert_ok(convert(state, attr, record, &c));
    if (c.dropped)
        assert_ok(lt_buf_printf(&text, "dropped: %s", c.dropped));
    for (int64_t i = 0; i < c.n_turns; i++)
        assert_ok(lt_buf_printf(&text, "%s%s:%.*s", i > 0 ? "|" : "", lt_role_name(c.turns[i].role),
                                (int)c.turns[i].text.len, c.turns[i].text.s));
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

static void sharegpt_roles_alternate_or_the_record_is_dropped(void **state)
{
    const lt_attr a = roles();
    assert_text_equal(shown(state, &a,
                            "{\"messages\": [{\"role\": \"user\", \"content\": \" q\\n\"}, "
                            "{\"role\": \"assistant\", \"content\": \"a\"}]}"),
                      "user:q|assistant:a");
    assert_text_equal(
        shown(
            state, &a,
            "{\"messages\": [{\"role\": \"user\", \"content\": null}, {\"role\": \"assistant\"}]}"),
        "user:|assistant:");
    assert_text_equal(shown(state, &a,
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                            "\"assistant\", \"content\": \"a\"},"
                            "{\"role\": \"observation\", \"content\": \"o\"}, {\"role\": "
                            "\"function_call\", \"content\": \"f\"}]}"),
                      "user:q|assistant:a|observation:o|function_call:f");
    assert_text_equal(
        shown(state, &a, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}"),
        "dropped: its last turn has no answer: add one, or take that turn away");
    assert_text_equal(shown(state, &a, "{\"messages\": []}"), "dropped: it has no turns");
    assert_text_equal(shown(state, &a,
                            "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}, "
                            "{\"role\": \"user\", \"content\": \"q\"}]}"),
                      "dropped: turn 1 is by \"assistant\", where user is expected: questions and "
                      "answers have to alternate");
    assert_text_equal(shown(state, &a, "{\"messages\": [{\"role\": null, \"content\": \"a\"}]}"),
                      "dropped: turn 1 is by \"null\", where user is expected: questions and "
                      "answers have to alternate");
    assert_text_equal(shown(state, &a,
                            "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
                            "{\"role\": \"system\", \"content\": \"s\"}]}"),
                      "dropped: turn 2 is by \"system\", where user is expected: questions and "
                      "answers have to alternate");
}

static void the_system_text_comes_from_the_first_turn_or_the_column(void **state)
{
    lt_attr a = roles();
    lt_conversation c;
    a.system = "sys";
    assert_ok(convert(
        state, &a,
        "{\"sys\": \" col \", \"messages\": [{\"role\": \"system\", \"content\": \" turn \"}]}",
        &c));
    assert_text_equal(c.system.s, "turn ");
    assert_int_equal(c.system.len, 4);
    assert_ok(convert(state, &a, "{\"sys\": \" col \", \"messages\": []}", &c));
    assert_int_equal(c.system.len, 5); // not stripped
    assert_ok(convert(state, &a, "{\"sys\": null, \"messages\": []}", &c));
    assert_int_equal(c.system.len, 0);
    a.formatting = "openai";
    assert_ok(convert(state, &a, "{\"sys\": \" col \", \"messages\": []}", &c));
    assert_int_equal(c.system.len, 3);
}

static void images_are_a_list_or_one_path(void **state)
{
    const lt_attr a = roles();
    lt_conversation c;
    assert_ok(convert(state, &a, "{\"messages\": [], \"images\": [\"a.png\", \"b.png\"]}", &c));
    assert_int_equal(c.n_images, 2);
    assert_text_equal(c.images[1], "b.png");
    assert_ok(convert(state, &a, "{\"messages\": [], \"images\": \"a.png\"}", &c));
    assert_int_equal(c.n_images, 1);
    assert_text_equal(c.images[0], "a.png");
    assert_ok(convert(state, &a, "{\"messages\": [], \"images\": null}", &c));
    assert_int_equal(c.n_images, 0);
    assert_true(c.seen & LT_SEEN_IMAGES);
    assert_ok(convert(state, &a, "{\"messages\": []}", &c));
    assert_false(c.seen & LT_SEEN_IMAGES);
}

static void missing_keys_and_wrong_types_are_one_sentence_each(void **state)
{
    static const struct {
        const char *record, *message;
    } cases[] = {
        {"[]", "the record is a list; an object is expected"},
        {"{\"id\": 1, \"msg\": []}",
         "there is no \"messages\" (attr.messages); there are: id, msg"},
        {"{\"messages\": \"x\"}", "\"messages\" is a string; a list of turns is expected"},
        {"{\"messages\": [1]}", "turn 1 of \"messages\" is a number; an object is expected"},
        {"{\"messages\": [{\"from\": \"human\", \"value\": \"x\"}]}",
         "turn 1 of \"messages\" has no \"role\" (attr.role_tag); it has: from, value"},
        {"{\"messages\": [{\"role\": 1}]}", "\"role\" of turn 1 is a number; a string is expected"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 5}]}",
         "\"content\" of turn 1 is a number; a string is expected"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "lists of parts, as in OpenAI's image_url form"},
        {"{\"messages\": [], \"images\": 3}",
         "\"images\" is a number; a list of paths is expected"},
        {"{\"messages\": [], \"images\": [\"a\", {}]}",
         "\"images\" has an object in its place 2; a path is expected"},
        {"{\"messages\": [], \"images\": [\"\"]}",
         "\"images\" has an empty or broken path in its place 1"},
        {"{\"messages\": [], \"images\": [\"a\\u0000b\"]}",
         "\"images\" has an empty or broken path in its place 1"},
    };
    const lt_attr a = roles();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_conversation c;
        assert_fails(convert(state, &a, cases[i].record, &c), LT_ERR_DATA, cases[i].message);
    }
}

static void alpaca_columns_become_turns(void **state)
{
    lt_attr a = lt_attr_default();
    a.formatting = "alpaca";
    assert_fails(lt_attr_check(&a), LT_ERR_CONFIG, "needs attr.prompt and attr.response");
    a.prompt = "instruction";
    a.query = "input";
    a.response = "output";
    a.history = "history";
    assert_text_equal(
        shown(state, &a, "{\"instruction\": \"Add\", \"input\": \"1 2\", \"output\": \"3\"}"),
        "user:Add\n1 2|assistant:3");
    assert_text_equal(
        shown(state, &a, "{\"instruction\": \"\", \"input\": \" x\", \"output\": \"\"}"),
        "user: x|assistant:");
    assert_text_equal(shown(state, &a,
                            "{\"instruction\": \"q\", \"input\": null, \"output\": \"r\", "
                            "\"history\": [[\"a\", \"b\"]]}"),
                      "user:a|assistant:b|user:q|assistant:r");
    assert_text_equal(shown(state, &a, "{\"instruction\": \"q\", \"output\": null}"),
                      "dropped: its \"output\" is missing or null");
    lt_conversation c;
    assert_fails(convert(state, &a,
                         "{\"instruction\": \"q\", \"output\": \"r\", \"history\": [[\"a\"]]}", &c),
                 LT_ERR_DATA, "\"history\" has no pair of strings in its place 1");
}

static void openai_tool_calls_are_written_out(void **state)
{
    const lt_attr a = openai();
    assert_text_equal(
        shown(state, &a,
              "{\"messages\": [{\"role\": \"user\", \"content\": \"go\"}, {\"role\": "
              "\"assistant\", \"content\": \"ok \", \"reasoning_content\": \"\\nhm\\n\","
              "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"s\": \"x\", "
              "\"n\": 1.0, \"l\": [1, \"\u00E9\"]}}},"
              "{\"name\": \"g\", \"arguments\": \"{\\\"k\\\": 1e2}\"}, {\"name\": \"h\", "
              "\"arguments\": \"no json\"}]}]}"),
        "user:go|tool_call:<think>\nhm\n</think>\n\nok\n\n"
        "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=n>\n1.0\n</"
        "parameter>\n<parameter=l>\n[1, \"\u00E9\"]\n</parameter>\n"
        "</function>\n</tool_call>\n<tool_call>\n<function=g>\n<parameter=k>\n100.0\n</"
        "parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=h>\n</function>\n</tool_call>");
    assert_text_equal(shown(state, &a,
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                            "\"assistant\", \"content\": \"\", \"tool_calls\": [{}]}]}"),
                      "dropped: a tool call has no name");
}

// The key of an argument is a text like any other, zeros included.
static void openai_argument_names_may_hold_zeros(void **state)
{
    static const char record[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"go\"}, {\"role\": \"assistant\", "
        "\"tool_calls\": [{\"name\": \"f\", \"arguments\": "
        "\"{\\\"a\\\\u0000b\\\": 1, \\\"a\\\": 2}\"}]}]}";
    static const char want[] = "<tool_call>\n<function=f>\n<parameter=a\0b>\n1\n</parameter>\n"
                               "<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>";
    const lt_attr a = openai();
    lt_conversation c;
    assert_ok(convert(state, &a, record, &c));
    assert_null(c.dropped);
    assert_int_equal(c.turns[1].text.len, sizeof want - 1);
    assert_memory_equal(c.turns[1].text.s, want, sizeof want - 1);
}

static void openai_results_and_users_are_joined(void **state)
{
    const lt_attr a = openai();
    assert_text_equal(
        shown(state, &a,
              "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", "
              "\"content\": \"b\"},"
              "{\"role\": \"assistant\", \"content\": \"c\"}, {\"role\": \"tool\", \"content\": \" "
              "r \"}, {\"role\": \"tool\", \"content\": \"s\"},"
              "{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": "
              "\"d\"}]}"),
        "user:a\nb|assistant:c|tool_response:r\n</tool_response>\n<tool_response>\ns\n</"
        "tool_response>\n<tool_response>\nu|assistant:d");
    assert_text_equal(
        shown(state, &a, "{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}]}"),
        "dropped: turn 1 is by \"developer\"");
    assert_text_equal(
        shown(state, &a, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}"),
        "dropped: its questions and answers don't alternate");
    lt_conversation c;
    assert_ok(convert(
        state, &a, "{\"messages\": [], \"tools\": [\"as is\", {\"name\": \"f\", \"n\": 1}]}", &c));
    assert_text_equal(c.tools[LT_TOOLS_GIVEN].s, "as is\n{\"name\": \"f\", \"n\": 1}");
    assert_fails(convert(state, &a, "{\"messages\": [], \"tools\": {}}", &c), LT_ERR_DATA,
                 "\"tools\" is an object");
}

#define BARE "{\"name\": \"f\"}"
#define WRAPPED "{\"type\": \"function\", \"function\": " BARE "}"

static void tools_are_wrapped_and_unwrapped_as_templates_want_them(void **state)
{
    const lt_attr a = openai();
    lt_conversation c;
    assert_ok(
        convert(state, &a,
                "{\"messages\": [], \"tools\": [{\"type\":\"function\",\"function\":{\"name\":"
                "\"f\"}}, {\"name\":\"f\"}, \"{\\\"name\\\":\\\"f\\\"}\", \"no {json\"]}",
                &c));
    static const char *const want[LT_N_TOOLS_FORMS] = {
        [LT_TOOLS_GIVEN] = WRAPPED "\n" BARE "\n{\"name\":\"f\"}\nno {json",
        [LT_TOOLS_OUTER] = WRAPPED "\n" WRAPPED "\n" WRAPPED "\nno {json",
        [LT_TOOLS_INNER] = BARE "\n" BARE "\n" BARE "\nno {json",
    };
    for (int form = 0; form < LT_N_TOOLS_FORMS; form++)
        assert_text_equal(c.tools[form].s, want[form]);
}

static void multimodal_tool_takes_turns_as_they_are(void **state)
{
    lt_attr a = roles();
    lt_conversation c;
    a.formatting = "multimodal_tool";
    assert_text_equal(
        shown(state, &a,
              "{\"messages\": [{\"role\": \"user\", \"content\": \" q \"}, {\"role\": "
              "\"tool_call\", \"content\": \"c\"}, {\"role\": \"tool_response\", \"content\": "
              "\"r\"}, {\"role\": \"assistant\", \"content\": \"a\"}], \"tools\": [\"t\"]}"),
        "user: q |tool_call:c|tool_response:r|assistant:a");
    assert_text_equal(
        shown(state, &a, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}"),
        "dropped: its last turn has no answer: add one, or take that turn away");
    assert_text_equal(shown(state, &a, "{\"messages\": []}"), "dropped: it has no turns");
    assert_fails(
        convert(state, &a, "{\"messages\": [{\"role\": \"human\", \"content\": \"q\"}]}", &c),
        LT_ERR_DATA, "turn 1 of \"messages\" is by \"human\"");
    assert_fails(convert(state, &a, "{\"messages\": [{\"from\": \"user\", \"value\": \"q\"}]}", &c),
                 LT_ERR_DATA, "must be an object with the strings \"role\" and \"content\"");
}

static void an_unknown_formatting_is_named(void **state)
{
    lt_attr a = lt_attr_default();
    (void)state;
    a.formatting = "sharegtp";
    assert_fails(lt_attr_check(&a), LT_ERR_CONFIG, "attr.formatting \"sharegtp\" is unknown");
    a = lt_attr_default();
    a.role_tag = NULL;
    assert_fails(lt_attr_check(&a), LT_ERR_CONFIG,
                 "attr.formatting sharegpt needs attr.messages, role_tag");
}

static void stripping_takes_what_python_takes(void **state)
{
    (void)state;
    const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {" \t\r\n\v\f ", ""},
        {"\x1C\x1F"
         "a\x1D",
         "a"},
        {"\xC2\x85\u00A0\u3000x y\u2028\u205F\u1680", "x y"},
        {"\u200Bx\uFEFF", "\u200Bx\uFEFF"}, // no white space to Python
        {"\u180Ex", "\u180Ex"},
        {"\u4E2D ", "\u4E2D"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lt_span got = lt_strip((lt_span){cases[i].in, strlen(cases[i].in)});
        assert_int_equal(got.len, strlen(cases[i].out));
        assert_memory_equal(got.s, cases[i].out, got.len);
    }
}

LT_TEST_MAIN(LT_TEST(sharegpt_roles_alternate_or_the_record_is_dropped),
             LT_TEST(the_system_text_comes_from_the_first_turn_or_the_column),
             LT_TEST(images_are_a_list_or_one_path),
             LT_TEST(missing_keys_and_wrong_types_are_one_sentence_each),
             LT_TEST(alpaca_columns_become_turns), LT_TEST(openai_tool_calls_are_written_out),
             LT_TEST(openai_argument_names_may_hold_zeros),
             LT_TEST(openai_results_and_users_are_joined), LT_TEST(an_unknown_formatting_is_named),
             LT_TEST(tools_are_wrapped_and_unwrapped_as_templates_want_them),
             LT_TEST(multimodal_tool_takes_turns_as_they_are),
             LT_TEST(stripping_takes_what_python_takes))
