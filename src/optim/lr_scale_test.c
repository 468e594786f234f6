// SPDX-License-Identifier: Apache-2.0
#include "optim/lr_scale.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static void the_first_match_at_the_start_counts(void **state)
{
    (void)state;
    const char *const match[] = {"model\\.visual\\.(merger|deepstack)", "model.visual", ".*bias$",
                                 "head"};
    const double scale[] = {0.5, 0.1, 2, 3};
    static const struct {
        const char *name;
        double factor;
        int64_t index;
    } rows[] = {{"model.visual.merger.norm.weight", 0.5, 0},
                {"model.visual.blocks.0.attn.qkv.bias", 0.1, 1},
                {"model.layers.0.q_proj.bias", 2, 2},
                {"model.layers.0.q_proj.weight", 1, -1},
                {"lm_head.weight", 1, -1},
                {"head", 3, 3}};
    lt_lr_scale *plan = NULL;
    assert_ok(lt_lr_scale_create(match, scale, 4, &plan));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double factor = 0;
        int64_t index = 9;
        assert_ok(lt_lr_scale_of(plan, rows[i].name, &factor, &index));
        assert_true(factor == rows[i].factor);
        assert_int_equal(index, rows[i].index);
    }
    lt_lr_scale_destroy(plan);
}

static void an_empty_plan_gives_1(void **state)
{
    (void)state;
    lt_lr_scale *plan = NULL;
    double factor = 0;
    assert_ok(lt_lr_scale_create(NULL, NULL, 0, &plan));
    assert_ok(lt_lr_scale_of(plan, "x", &factor, NULL));
    assert_true(factor == 1);
    lt_lr_scale_destroy(plan);
}

static void wrong_expressions_are_named(void **state)
{
    (void)state;
    assert_ok(lt_lr_scale_check("a|b"));
    assert_fails(lt_lr_scale_check("a(b"), LT_ERR_CONFIG, "\"a(b\" is wrong at character 4");
    char *big = lt_test_take(*state, LT_LR_SCALE_MAX_BYTES + 2);
    memset(big, 'a', LT_LR_SCALE_MAX_BYTES + 1);
    assert_fails(lt_lr_scale_check(big), LT_ERR_CONFIG, "4096 bytes at most");
    const char *const match[] = {"ok", "("};
    const double scale[] = {1, 1};
    lt_lr_scale *plan = NULL;
    assert_fails(lt_lr_scale_create(match, scale, 2, &plan), LT_ERR_CONFIG,
                 "is wrong at character");
    assert_null(plan);
}

static void an_expression_that_never_ends_is_stopped(void **state)
{
    (void)state;
    const char *const match[] = {"(a|a)*(b|b)*(a+)+$"};
    const double scale[] = {1};
    lt_lr_scale *plan = NULL;
    double factor = 0;
    assert_ok(lt_lr_scale_create(match, scale, 1, &plan));
    assert_fails(
        lt_lr_scale_of(plan, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &factor, NULL),
        LT_ERR_CONFIG, "takes too many steps");
    lt_lr_scale_destroy(plan);
}

LT_TEST_MAIN(LT_TEST(the_first_match_at_the_start_counts), LT_TEST(an_empty_plan_gives_1),
             LT_TEST(wrong_expressions_are_named),
             LT_TEST(an_expression_that_never_ends_is_stopped))
