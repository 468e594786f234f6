// SPDX-License-Identifier: Apache-2.0
#include "base/pattern.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct match_case {
    const char *pattern, *path;
    bool matches;
} match_case;

static const match_case cases[] = {
    {"model.visual.blocks.{*}", "model.visual.blocks.12", true},
    {"model.visual.blocks.{*}", "model.visual.blocks.12.attn", false},
    {"model.visual.blocks.{*}", "model.visual.blocks.", false},
    {"model.visual.blocks.{*}", "model.visual.blocks.1x", false},
    {"model.visual", "model.visual.blocks", false},
    {"model.visual", "Model.visual", false},
    {"model.visual", "model.visual", true},
    {"model.visual", "model_visual", false},
    {"*lm_head", "a.b.lm_head", true},
    {"*lm_head", "lm_head", true},
    {"model.*.mlp", "model.layers.0.mlp", true},
    {"model.*.mlp", "model.mlp", false},
    {"layers.{0-3}", "layers.3", true},
    {"layers.{0-3}", "layers.03", true},
    {"layers.{0-3}", "layers.4", false},
    {"layers.{0-3}", "layers.33", false},
    {"layers.{8-12}", "layers.010", true},
    {"layers.{8-12}.mlp", "layers.7.mlp", false},
    {"layers.{8-12}.mlp", "layers.12.mlp", true},
    {"a.?", "a.b", true},
    {"a.?", "a.", false},
    {"a.?", "a.bc", false},
    {"a.?", "a.\xC3\xA9", true},
    {"*", "", true},
    {"*", "anything.at.all", true},
    {"{*}{*}", "12", true},
    {"{*}{*}", "1", false},
    {"{1-1}{0-0}*", "10", true},
    {"a}", "a}", true},
    {"*.layers.{*}.*.experts", "model.layers.7.mlp.experts", true},
};

static void every_row_of_the_specification_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(lt_pattern_check(cases[i].pattern));
        if (lt_pattern_match(cases[i].pattern, cases[i].path) != cases[i].matches)
            fail_msg("\"%s\" on \"%s\": expected %d", cases[i].pattern, cases[i].path,
                     cases[i].matches);
    }
}

static void malformed_braces_are_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"layers.{0-3,5-7}",
                                        "layers.{a}",
                                        "layers.{3-1}",
                                        "layers.{3}",
                                        "layers.{}",
                                        "layers.{*",
                                        "layers.{1-",
                                        "{-1}",
                                        "layers.{ * }",
                                        "",
                                        "layers.{0-9999999999999999999}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(lt_pattern_check(wrong[i]), LT_ERR_CONFIG, wrong[i]);
        assert_false(lt_pattern_match(wrong[i], "layers.3"));
    }
    assert_fails(lt_pattern_check("layers.{0-3,5-7}"), LT_ERR_CONFIG, "one entry for each");
}

static void hostile_patterns_end_quickly(void **state)
{
    (void)state;
    char pattern[LT_PATTERN_MAX + 2], path[LT_PATTERN_PATH_MAX + 2];
    memset(pattern, '*', LT_PATTERN_MAX);
    pattern[LT_PATTERN_MAX] = '\0';
    memset(path, '7', sizeof path);
    path[LT_PATTERN_PATH_MAX] = '\0';
    assert_true(lt_pattern_match(pattern, path));
    pattern[LT_PATTERN_MAX - 1] = 'x';
    assert_false(lt_pattern_match(pattern, path));
    path[LT_PATTERN_PATH_MAX] = '7';
    path[LT_PATTERN_PATH_MAX + 1] = '\0';
    assert_false(lt_pattern_match("*", path));
}

static void the_last_matching_pattern_gives_the_prefetch_index(void **state)
{
    (void)state;
    const char *const list[] = {"model.*", "model.visual", "lm_head"};
    assert_int_equal(lt_pattern_last(list, 3, "model.visual"), 1);
    assert_int_equal(lt_pattern_last(list, 3, "model.layers"), 0);
    assert_int_equal(lt_pattern_last(list, 3, "mtp"), -1);
}

static void count_note(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)area;
    if (level == LT_LOG_NOTE && strstr(text, "\"mtp\""))
        ++*(int *)ctx;
}

static void one_dead_pattern_is_a_note_and_a_dead_list_an_error(void **state)
{
    (void)state;
    int notes = 0;
    const lt_log log = {.fn = count_note, .ctx = &notes};
    const char *const list[] = {"lm_head", "mtp"}, *const paths[] = {"", "model", "lm_head"};
    assert_ok(lt_patterns_check_use("parallel.fsdp_plan.apply_modules", list, 2, paths, 3, &log));
    assert_int_equal(notes, 1);
    assert_fails(lt_patterns_check_use("model.freeze", list + 1, 1, paths, 3, &log), LT_ERR_CONFIG,
                 "model.freeze");
    assert_ok(lt_patterns_check_use("model.freeze", list, 0, paths, 3, &log));
}

LT_TEST_MAIN(LT_TEST(every_row_of_the_specification_holds), LT_TEST(malformed_braces_are_named),
             LT_TEST(hostile_patterns_end_quickly),
             LT_TEST(the_last_matching_pattern_gives_the_prefetch_index),
             LT_TEST(one_dead_pattern_is_a_note_and_a_dead_list_an_error))
