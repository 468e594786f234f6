// SPDX-License-Identifier: Apache-2.0
#include "cli/args.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct options {
    bool loud;
    int64_t ranks, budget;
    double rate;
    const char *prompt;
    lt_arg_texts images;
} options;

static const lt_arg table[] = {
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N", "how many", 1, 64},
    {"--loud", 'l', LT_ARG_FLAG, offsetof(options, loud), NULL, "say more", 0, 0},
    {"--rate", 0, LT_ARG_FLOAT, offsetof(options, rate), "X", "how fast", 0, 0},
    {"--prompt", 'p', LT_ARG_TEXT, offsetof(options, prompt), "TEXT", "what to ask", 0, 0},
    {"--image", 0, LT_ARG_TEXTS, offsetof(options, images), "FILE", "a picture", 0, 0},
    {"--device-memory", 0, LT_ARG_BYTES, offsetof(options, budget), "BYTES", "how much", 0, 0},
};

static const lt_command command = {
    .name = "try",
    .summary = "Try things",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = table,
    .n_options = sizeof table / sizeof *table,
};

enum { MOST = 16 };

// Splits at the bars; an empty piece is an empty argument.
static lt_status parse(void **state, const char *line, options *o, lt_args *rest)
{
    char *text = lt_test_take(*state, strlen(line) + 1), *argv[MOST];
    int argc = 0;
    memcpy(text, line, strlen(line) + 1);
    for (char *p = text; p; argc++) {
        argv[argc] = p;
        p = strchr(p, '|');
        if (p)
            *p++ = '\0';
    }
    *o = (options){.ranks = 1};
    return lt_args_parse(&command, *state, argc, argv, o, rest);
}

static void options_arrive_in_every_spelling(void **state)
{
    options o;
    lt_args rest;
    assert_ok(parse(state,
                    "try|-n|4|--loud|--rate=1e-3|a.yaml|--prompt|-x|--image|1.jpg|--image=2.jpg|--"
                    "device-memory|1.5 GiB",
                    &o, &rest));
    assert_int_equal(o.ranks, 4);
    assert_true(o.loud);
    assert_true(o.rate == 1e-3);
    assert_text_equal(o.prompt, "-x");
    assert_int_equal(o.images.n, 2);
    assert_text_equal(o.images.items[1], "2.jpg");
    assert_int_equal(o.budget, INT64_C(3) << 29);
    assert_int_equal(rest.positional.n, 1);
    assert_text_equal(rest.positional.items[0], "a.yaml");
    assert_ok(parse(state, "try|-n8|-p=|a.yaml", &o, &rest));
    assert_int_equal(o.ranks, 8);
    assert_text_equal(o.prompt, "");
}

static void settings_are_told_from_files(void **state)
{
    options o;
    lt_args rest;
    assert_ok(parse(state, "try|training.lr=1e-5|dir/a.b=c.yaml|model.freeze=[a, b]", &o, &rest));
    assert_int_equal(rest.overrides.n, 2);
    assert_text_equal(rest.overrides.items[1], "model.freeze=[a, b]");
    assert_text_equal(rest.positional.items[0], "dir/a.b=c.yaml");
    assert_ok(parse(state, "try|--|--loud", &o, &rest));
    assert_text_equal(rest.positional.items[0], "--loud");
    assert_false(o.loud);
}

static void wrong_command_lines_say_what_is_wrong(void **state)
{
    static const char *const cases[][2] = {
        {"try", "lathe try needs CONFIG.yaml"},
        {"try|a.yaml|b.yaml",
         "does not know what to do with \"b.yaml\"; settings are written section.key=value"},
        {"try|a.yaml|--promt|x", "has no option --promt; did you mean --prompt?"},
        {"try|a.yaml|--nothing-like-it", "`lathe help try` lists them"},
        {"try|a.yaml|-z", "has no option -z"},
        {"try|a.yaml|-n", "--ranks needs a value: --ranks N"},
        {"try|a.yaml|-n|many", "--ranks takes a whole number, got \"many\""},
        {"try|a.yaml|-n|0", "--ranks is from 1 to 64, got 0"},
        {"try|a.yaml|-n|99999999999999999999", "takes a whole number"},
        {"try|a.yaml|--rate|nan", "takes a number"},
        {"try|a.yaml|--loud=yes", "--loud takes no value"},
        {"try|a.yaml|--device-memory|big", "a byte count such as 64GiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options o;
        lt_args rest;
        assert_fails(parse(state, cases[i][0], &o, &rest), LT_ERR_CONFIG, cases[i][1]);
    }
}

static void usage_lists_every_option(void **state)
{
    (void)state;
    lt_buf out = {0};
    assert_ok(lt_args_usage(&command, &out));
    assert_text_contains(out.data,
                         "usage: lathe try [options] CONFIG.yaml [section.key=value ...]\n");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_text_contains(out.data, table[i].name);
    lt_buf_deinit(&out);
}

LT_TEST_MAIN(LT_TEST(options_arrive_in_every_spelling), LT_TEST(settings_are_told_from_files),
             LT_TEST(wrong_command_lines_say_what_is_wrong), LT_TEST(usage_lists_every_option))
