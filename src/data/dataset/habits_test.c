// SPDX-License-Identifier: Apache-2.0
// lathe.habits: llama_factory. The rows of spec data-pipeline 2.5 that the switch covers.
#include "data/dataset/dataset.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct place {
    lt_tokenizer *tokenizer;
    lt_dataset_opts opts;
    const char *files[1];
} place;

static void set_up(void **state, place *p, const char *chat, lt_habits habits)
{
    const char *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    *p = (place){.opts = lt_dataset_opts_default()};
    assert_ok(lt_tokenizer_open(golden, &p->tokenizer));
    p->files[0] = lt_test_path(*state, lt_test_dir(*state), "d.jsonl");
    p->opts.n_files = 1;
    p->opts.habits = habits;
    p->opts.attr.tools = "tools";
    p->opts.encode.render.tokenizer = p->tokenizer;
    assert_ok(lt_template_find(chat, &p->opts.encode.render.chat));
    p->opts.encode.render.chat = lt_template_as(p->opts.encode.render.chat, habits);
}

/** Text of the first record, [] around what is trained; NULL when it fails. */
static const char *shown(void **state, place *p, const char *record)
{
    lt_dataset *d = NULL;
    lt_sample s;
    lt_buf text = {0};
    char *copy;
    bool open = false;
    lt_test_write(p->files[0], record, strlen(record));
    p->opts.files = p->files;
    if (lt_dataset_open(&p->opts, NULL, NULL, &d) != LT_OK)
        return NULL;
    const lt_status st = lt_dataset_encode(d, 0, *state, &s);
    lt_dataset_close(d);
    if (st != LT_OK)
        return NULL;
    for (int64_t i = 0; i < s.n; i++) {
        if ((s.labels[i] != LT_IGNORE_LABEL) != open)
            assert_ok(lt_buf_text(&text, open ? "]" : "["));
        open = s.labels[i] != LT_IGNORE_LABEL;
        assert_ok(lt_tokenizer_decode(p->tokenizer, &s.ids[i], 1, 0, &text));
    }
    assert_ok(lt_buf_text(&text, open ? "]" : ""));
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

#define TURN(by, text) "{\"from\": \"" by "\", \"value\": " text "}"
#define RECORD(turns) "{\"conversations\": [" turns "]}"
#define U(t) "<|im_start|>user\n" t "<|im_end|>\n<|im_start|>assistant\n"
#define A(t) "[" t "<|im_end|>\n]"

static void blanks_stay_and_every_turn_has_a_text(void **state)
{
    static const char blanks[] = RECORD(TURN("human", "\" q\\n\"") "," TURN("gpt", "\" a\\n\"")),
                      nothing[] = RECORD(TURN("human", "\"q\"") "," TURN("gpt", "null"));
    place p;
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_FACTORY);
    assert_text_equal(shown(state, &p, blanks), U(" q\n") A(" a\n"));
    assert_null(shown(state, &p, nothing));
    assert_text_contains(lt_error_message(), "record 1: \"value\" of turn 2 is null");
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_MINDSPEED);
    assert_text_equal(shown(state, &p, blanks), U("q") A("a"));
    assert_text_equal(shown(state, &p, nothing), U("q") A(""));
    lt_tokenizer_close(p.tokenizer);
}

static void enable_thinking_counts_and_markers_have_their_newlines(void **state)
{
    static const char plain[] = RECORD(TURN("human", "\"q\"") "," TURN("gpt", "\"a\"")),
                      thought[] = RECORD(TURN("human", "\"q\"") "," TURN(
                          "gpt", "\"<think>\\nt\\n</think>\\n\\na\"")),
                      other[] =
                          RECORD(TURN("human", "\"q\"") "," TURN("gpt", "\"<think>t</think>a\""));
    place p;
    set_up(state, &p, "qwen3_vl", LT_HABITS_FACTORY);
    assert_text_equal(shown(state, &p, plain), U("q") A("<think>\n\n</think>\n\na"));
    p.opts.encode.render.no_thinking = true;
    assert_text_equal(shown(state, &p, plain), U("q") "<think>\n\n</think>\n\n" A("a"));
    assert_text_equal(shown(state, &p, thought), U("q") "<think>\n\n</think>\n\n" A("a"));
    assert_text_equal(shown(state, &p, other), U("q") A("<think>t</think>a")); // another shape
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "qwen3_vl", LT_HABITS_MINDSPEED);
    p.opts.encode.render.no_thinking = true;
    assert_text_equal(shown(state, &p, plain), U("q") A("<think>\n\n</think>\n\na"));
    lt_tokenizer_close(p.tokenizer);
}

static void masked_history_has_no_thoughts(void **state)
{
    static const char record[] =
        RECORD(TURN("human", "\"q\"") "," TURN("gpt", "\"<think>\\nt\\n</think>\\n\\na\"") "," TURN(
            "human", "\"r\"") "," TURN("gpt", "\"b\""));
    place p;
    set_up(state, &p, "qwen3_vl", LT_HABITS_FACTORY);
    p.opts.encode.mask_history = true;
    assert_text_equal(shown(state, &p, record),
                      U("q") "a<|im_end|>\n" U("r") A("<think>\n\n</think>\n\nb"));
    lt_tokenizer_close(p.tokenizer);
}

static void calls_are_turns_of_sharegpt(void **state)
{
    static const char one[] = RECORD(TURN("human", "\"q\"") "," TURN(
        "function_call", "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1.0}}\"")),
                      two[] = RECORD(TURN("human", "\"q\"") "," TURN(
                          "function_call",
                          "\"<think>\\nt\\n</think>\\n\\n[{\\\"name\\\": \\\"f\\\", "
                          "\\\"arguments\\\": {\\\"a\\\": \\\"x\\\"}}, {\\\"name\\\": \\\"g\\\", "
                          "\\\"arguments\\\": {}}]\"")),
                      none[] = RECORD(TURN("human", "\"q\"") "," TURN("function_call", "\"f()\""));
    place p;
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_FACTORY);
    assert_text_equal(
        shown(state, &p, one),
        U("q") A("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call>"));
    assert_null(shown(state, &p, none));
    assert_text_contains(lt_error_message(), "record 1: a function_call turn is not the JSON");
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "qwen3_6_nothink", LT_HABITS_FACTORY);
    assert_text_equal(shown(state, &p, two),
                      U("q") A("<think>\nt\n</think>\n\n<tool_call>\n<function=f>\n<parameter=a>\n"
                               "x\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                               "<function=g>\n</function>\n</tool_call>"));
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_MINDSPEED);
    assert_null(shown(state, &p, one));
    lt_tokenizer_close(p.tokenizer);
}

// The schemas are one text, as LLaMA-Factory's files have them.
static void tools_follow_the_system_text(void **state)
{
    static const char record[] =
        "{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"conversations\": [" TURN(
            "system", "\"s\"") "," TURN("human", "\"q\"") "," TURN("gpt", "\"a\"") "]}";
    place p;
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_FACTORY);
    const char *text = shown(state, &p, record);
    assert_non_null(text);
    assert_text_contains(text, "<|im_start|>system\ns\n\n# Tools\n\nYou may call");
    assert_text_contains(
        text, "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\"}}\n</tools>");
    lt_tokenizer_close(p.tokenizer);
}

static void packed_samples_keep_their_first_label(void **state)
{
    static const char record[] = RECORD(TURN("human", "\"q\"") "," TURN("gpt", "\"a\""));
    place p;
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_FACTORY);
    p.opts.packing = p.opts.encode.train_on_prompt = true;
    assert_text_equal(shown(state, &p, record), "[" U("q") "a<|im_end|>\n]");
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "qwen3_vl_nothink", LT_HABITS_MINDSPEED);
    p.opts.packing = p.opts.encode.train_on_prompt = true;
    assert_text_equal(shown(state, &p, record), "<|im_start|>[user\nq<|im_end|>\n<|im_start|>"
                                                "assistant\na<|im_end|>\n]");
    lt_tokenizer_close(p.tokenizer);
}

static void every_template_has_a_form_for_both_habits(void **state)
{
    int64_t n;
    const lt_template *list = lt_template_list(&n);
    (void)state;
    for (int64_t i = 0; i < n; i++) {
        const lt_template *t = lt_template_as(&list[i], LT_HABITS_FACTORY);
        assert_ptr_equal(lt_template_as(&list[i], LT_HABITS_MINDSPEED), &list[i]);
        if (list[i].pictures != LT_PICTURES_QWEN) { // InternVL's are one program's each
            assert_ptr_equal(t, &list[i]);
            continue;
        }
        assert_true(t != &list[i] && !t->nearest_budget && t->tools_last);
        assert_int_equal(t->reasoning, list[i].reasoning);
        assert_true(t->calls != LT_CALLS_NONE && t->slots[LT_ROLE_FUNCTION] && t->thought[0]);
    }
}

LT_TEST_MAIN(LT_TEST(blanks_stay_and_every_turn_has_a_text),
             LT_TEST(enable_thinking_counts_and_markers_have_their_newlines),
             LT_TEST(masked_history_has_no_thoughts), LT_TEST(calls_are_turns_of_sharegpt),
             LT_TEST(tools_follow_the_system_text), LT_TEST(packed_samples_keep_their_first_label),
             LT_TEST(every_template_has_a_form_for_both_habits))
