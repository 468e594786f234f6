// SPDX-License-Identifier: Apache-2.0
#include "tests/kit/lt_test.h"
#include "train/config/yaml.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static lt_yaml_node *parse(void **state, const char *text)
{
    lt_yaml_node *root = NULL;
    assert_ok(lt_yaml_parse(*state, "t.yaml", text, strlen(text), 0, NULL, &root));
    return root;
}

static void parse_fails(void **state, const char *text, const char *part)
{
    lt_yaml_node *root = NULL;
    assert_fails(lt_yaml_parse(*state, "t.yaml", text, strlen(text), 0, NULL, &root), LT_ERR_CONFIG,
                 part);
    assert_null(root);
}

typedef struct scalar_case {
    const char *text;
    lt_yaml_kind kind;
    double value; // number, or 0 and 1 for booleans
} scalar_case;

// Each value as PyYAML 6.0 gives it.
static const scalar_case scalars[] = {
    {"1.0e-5", LT_YAML_FLOAT, 1e-5},
    {"5.", LT_YAML_FLOAT, 5},
    {".5", LT_YAML_FLOAT, 0.5},
    {"1.0e+5", LT_YAML_FLOAT, 1e5},
    {"1.0E+5", LT_YAML_FLOAT, 1e5},
    {"+1.5", LT_YAML_FLOAT, 1.5},
    {"-1_0.5_0", LT_YAML_FLOAT, -10.5},
    {"1:30.5", LT_YAML_FLOAT, 90.5},
    {"01:30.", LT_YAML_FLOAT, 90},
    {"-.inf", LT_YAML_FLOAT, -HUGE_VAL},
    {".INF", LT_YAML_FLOAT, HUGE_VAL},
    {"1e-5", LT_YAML_TEXT, 0},
    {"1.0e5", LT_YAML_TEXT, 0},
    {"1.e", LT_YAML_TEXT, 0},
    {"-.5", LT_YAML_TEXT, 0},
    {"+.nan", LT_YAML_TEXT, 0},
    {".iNf", LT_YAML_TEXT, 0},
    {"._5", LT_YAML_TEXT, 0},
    {"yes", LT_YAML_BOOL, 1},
    {"No", LT_YAML_BOOL, 0},
    {"ON", LT_YAML_BOOL, 1},
    {"off", LT_YAML_BOOL, 0},
    {"True", LT_YAML_BOOL, 1},
    {"tRUE", LT_YAML_TEXT, 0},
    {"y", LT_YAML_TEXT, 0},
    {"~", LT_YAML_NULL, 0},
    {"null", LT_YAML_NULL, 0},
    {"Null", LT_YAML_NULL, 0},
    {"nULL", LT_YAML_TEXT, 0},
    {"None", LT_YAML_TEXT, 0},
    {"017", LT_YAML_INT, 15},
    {"-017", LT_YAML_INT, -15},
    {"018", LT_YAML_TEXT, 0},
    {"0o17", LT_YAML_TEXT, 0},
    {"0x1F", LT_YAML_INT, 31},
    {"0X1F", LT_YAML_TEXT, 0},
    {"0b101", LT_YAML_INT, 5},
    {"0b_", LT_YAML_TEXT, 0},
    {"0_", LT_YAML_INT, 0},
    {"1_000", LT_YAML_INT, 1000},
    {"_1", LT_YAML_TEXT, 0},
    {"+7", LT_YAML_INT, 7},
    {"-0", LT_YAML_INT, 0},
    {"1:30", LT_YAML_INT, 90},
    {"1:2:3", LT_YAML_INT, 3723},
    {"-1:30", LT_YAML_INT, -90},
    {"1:60", LT_YAML_TEXT, 0},
    {"01:30", LT_YAML_TEXT, 0},
    {"1:", LT_YAML_TEXT, 0},
    {"9223372036854775807", LT_YAML_INT, 9223372036854775807.0},
    {"2026-01-01", LT_YAML_DATE, 0},
    {"2026-1-1", LT_YAML_TEXT, 0},
    {"2026-1-1 1:02:03", LT_YAML_DATE, 0},
    {"2026-01-01T12:00:00.5Z", LT_YAML_DATE, 0},
    {"2026-01-01t12:00:00 +01:30", LT_YAML_DATE, 0},
    {"2026-01-01 12:00", LT_YAML_TEXT, 0},
    {"20260101", LT_YAML_INT, 20260101},
    {"=", LT_YAML_TEXT, 0},
    {"-", LT_YAML_TEXT, 0},
    {"+", LT_YAML_TEXT, 0},
    {".", LT_YAML_TEXT, 0},
};

static void plain_scalars_have_the_types_of_yaml_1_1(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        const scalar_case *c = &scalars[i];
        lt_yaml_node node = {.text = c->text};
        lt_yaml_resolve(&node);
        const double got = node.kind == LT_YAML_BOOL ? (double)node.boolean : node.real;
        if (node.kind != c->kind || got != c->value)
            fail_msg("\"%s\": kind %d, value %g; expected kind %d, value %g", c->text, node.kind,
                     got, c->kind, c->value);
    }
}

static void numbers_that_do_not_fit_say_so(void **state)
{
    (void)state;
    lt_yaml_node node = {.text = "9223372036854775808"};
    lt_yaml_resolve(&node);
    assert_int_equal(node.kind, LT_YAML_INT);
    assert_true(node.too_big);
    assert_true(node.real == 0x1p63);
    char digits[LT_YAML_MAX_NUMBER + 2];
    memset(digits, '9', sizeof digits);
    digits[LT_YAML_MAX_NUMBER + 1] = '\0';
    node = (lt_yaml_node){.text = digits};
    lt_yaml_resolve(&node);
    assert_int_equal(node.kind, LT_YAML_TEXT);
}

static void quoted_scalars_stay_texts(void **state)
{
    const lt_yaml_node *root =
        parse(state, "a: \"42\"\nb: '1.5'\nc: !!str 7\nd: |\n  yes\ne: ''\nf:\n");
    const char *const keys[] = {"a", "b", "c", "d", "e"}, *const texts[] = {"42", "1.5", "7",
                                                                            "yes\n", ""};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lt_yaml_get(root, keys[i])->kind, LT_YAML_TEXT);
        assert_text_equal(lt_yaml_get(root, keys[i])->text, texts[i]);
    }
    assert_int_equal(lt_yaml_get(root, "f")->kind, LT_YAML_NULL);
}

static void nodes_know_their_line_and_column(void **state)
{
    const lt_yaml_node *root = parse(state, "a:\n  b: &x [1,\n      22]\nc: *x\n");
    const lt_yaml_node *list = lt_yaml_get(lt_yaml_get(root, "a"), "b");
    assert_int_equal(list->mark.line, 2);
    assert_int_equal(list->items[1]->mark.line, 3);
    assert_int_equal(list->items[1]->mark.column, 7);
    const lt_yaml_node *alias = lt_yaml_get(root, "c");
    assert_int_equal(alias->mark.line, 4);
    assert_int_equal(alias->n, 2);
}

static void merge_keys_are_shallow_and_explicit_keys_win(void **state)
{
    const lt_yaml_node *root = parse(state, "base: &b {x: 1, y: {z: 2}, w: 5}\n"
                                            "other: &o {x: 7, v: 8}\n"
                                            "one:\n  y: 9\n  <<: *b\n"
                                            "list:\n  <<: [*b, *o]\n  w: 6\n"
                                            "twice:\n  <<: *b\n  <<: *o\n"
                                            "quoted: {'<<': 3}\n");
    const lt_yaml_node *one = lt_yaml_get(root, "one"), *list = lt_yaml_get(root, "list");
    assert_int_equal(one->n, 3);
    assert_int_equal(lt_yaml_get(one, "y")->integer, 9);
    assert_int_equal(lt_yaml_get(one, "x")->integer, 1);
    assert_int_equal(lt_yaml_get(list, "x")->integer, 1);
    assert_int_equal(lt_yaml_get(list, "v")->integer, 8);
    assert_int_equal(lt_yaml_get(list, "w")->integer, 6);
    assert_int_equal(lt_yaml_get(lt_yaml_get(root, "twice"), "x")->integer, 7);
    assert_int_equal(lt_yaml_get(lt_yaml_get(root, "quoted"), "<<")->integer, 3);
}

static void a_merged_mapping_may_itself_have_merged(void **state)
{
    const lt_yaml_node *root =
        parse(state, "a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: *b}\n");
    assert_int_equal(lt_yaml_get(lt_yaml_get(root, "c"), "x")->integer, 1);
    assert_int_equal(lt_yaml_get(lt_yaml_get(root, "c"), "y")->integer, 3);
}

static void a_key_that_stands_twice_is_reported(void **state)
{
    lt_vec twice = LT_VEC_OF(lt_yaml_twice);
    lt_yaml_node *root = NULL;
    const char *text = "a: {x: 1}\nb: 2\na: 3\n";
    assert_ok(lt_yaml_parse(*state, "t.yaml", text, strlen(text), 0, &twice, &root));
    assert_int_equal(lt_yaml_get(root, "a")->integer, 3);
    assert_int_equal(twice.n, 1);
    assert_text_equal(LT_AT(&twice, lt_yaml_twice, 0).key, "a");
    assert_int_equal(LT_AT(&twice, lt_yaml_twice, 0).first.line, 1);
    assert_int_equal(LT_AT(&twice, lt_yaml_twice, 0).second.line, 3);
    lt_vec_deinit(&twice);
}

static void malformed_files_are_refused_with_their_line(void **state)
{
    static const char *const cases[][2] = {
        {"a: 1\nb: [1, 2\n", "t.yaml:3: not valid YAML"},
        {"a:\n\tb: 1\n", "t.yaml:2: "},
        {"a:\n\tb: 1\n", "indent with spaces"},
        {"a: *b\n", "*b refers to an anchor that is not defined above"},
        {"a: &a [*a]\n", "it would never end"},
        {"a: &a {x: *a}\n", "it would never end"},
        {"a: &a {<<: *a}\n", "it would never end"},
        {"? [x]\n: 1\n", "a key has to be a word, got a list"},
        {"a: {<<: 3}\n", "got the number 3"},
        {"a: {<<: [3]}\n", "got the number 3 in its list"},
        {"a: !!binary aGk=\n", "tag:yaml.org,2002:binary is not known"},
        {"a: !!python/name:os.system x\n", "is not known here"},
        {"a: !!set {x}\n", "is not known here"},
        {"a: !!int x\n", "is not what its tag"},
        {"a: 1\n---\nb: 2\n", "t.yaml:2: a second document"},
        {"a: \"x\\0y\"\n", "zero byte"},
        {"a: \x01\n", "UTF-8"},
        {"a: \xff\n", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        parse_fails(state, cases[i][0], cases[i][1]);
}

static void limits_are_enforced(void **state)
{
    char text[8192];
    memset(text, '[', 100);
    text[100] = '\0';
    parse_fails(state, text, "64 collections");
    size_t len = (size_t)snprintf(text, sizeof text, "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
    for (int i = 1; i < 9; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i,
                                i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    parse_fails(state, text, "with its aliases written out");
    char *big = lt_test_take(*state, LT_YAML_MAX_BYTES + 2);
    memset(big, '#', LT_YAML_MAX_BYTES + 1);
    parse_fails(state, big, "at most");
    for (size_t i = 0; i <= LT_YAML_MAX_NODES; i++) {
        big[2 * i] = i ? ',' : '[';
        big[2 * i + 1] = '1';
    }
    big[2 * (size_t)(LT_YAML_MAX_NODES + 1)] = ']';
    big[2 * (size_t)(LT_YAML_MAX_NODES + 1) + 1] = '\0';
    parse_fails(state, big, "the file has more than");
    len = 0;
    for (int i = 0; i <= LT_YAML_MAX_KEYS; i++)
        len += (size_t)snprintf(big + len, 32, "k%d: 1\n", i);
    parse_fails(state, big, "more than 1024 keys");
}

static void values_are_set_without_touching_what_aliases_share(void **state)
{
    lt_yaml_node *root = parse(state, "a: &a {x: {y: 1}}\nb: *a\n");
    assert_ok(lt_yaml_set(*state, &root, "b.x.y", parse(state, "2")));
    assert_int_equal(lt_yaml_get(lt_yaml_get(lt_yaml_get(root, "a"), "x"), "y")->integer, 1);
    assert_int_equal(lt_yaml_get(lt_yaml_get(lt_yaml_get(root, "b"), "x"), "y")->integer, 2);
    assert_ok(lt_yaml_set(*state, &root, "c.d", parse(state, "{e: 1, f: 2}")));
    assert_ok(lt_yaml_set(*state, &root, "c.d", parse(state, "{e: 3}")));
    assert_int_equal(lt_yaml_get(lt_yaml_get(lt_yaml_get(root, "c"), "d"), "e")->integer, 3);
    assert_int_equal(lt_yaml_get(lt_yaml_get(lt_yaml_get(root, "c"), "d"), "f")->integer, 2);
    assert_fails(lt_yaml_set(*state, &root, "c.d.e.g", parse(state, "1")), LT_ERR_CONFIG,
                 "c.d.e is the number 3, so it has no g");
}

static void an_empty_file_is_null(void **state)
{
    assert_int_equal(parse(state, "")->kind, LT_YAML_NULL);
    assert_int_equal(parse(state, "# nothing\n")->kind, LT_YAML_NULL);
    assert_int_equal(parse(state, "---\n")->kind, LT_YAML_NULL);
}

LT_TEST_MAIN(LT_TEST(plain_scalars_have_the_types_of_yaml_1_1),
             LT_TEST(numbers_that_do_not_fit_say_so), LT_TEST(quoted_scalars_stay_texts),
             LT_TEST(nodes_know_their_line_and_column),
             LT_TEST(merge_keys_are_shallow_and_explicit_keys_win),
             LT_TEST(a_merged_mapping_may_itself_have_merged),
             LT_TEST(a_key_that_stands_twice_is_reported),
             LT_TEST(malformed_files_are_refused_with_their_line), LT_TEST(limits_are_enforced),
             LT_TEST(values_are_set_without_touching_what_aliases_share),
             LT_TEST(an_empty_file_is_null))
