// SPDX-License-Identifier: Apache-2.0
#include "plan/policy.h"

#include "tests/kit/lt_qwen.h"

#include <string.h>

static lt_model *open_model(void)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(lt_qwen_odd_config, strlen(lt_qwen_odd_config), "odd", NULL,
                                    &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
    return m;
}

static void one_name_is_for_all_blocks(void **state)
{
    (void)state;
    lt_model *m = open_model();
    lt_policy policy[256];
    assert_ok(lt_policies_parse("lean", m, policy));
    for (int32_t b = 0; b < m->n_blocks; b++)
        assert_int_equal(policy[b], LT_LEAN);
    lt_model_destroy(m);
}

static void a_list_counts_decoder_layers(void **state)
{
    (void)state;
    lt_model *m = open_model();
    lt_policy policy[256];
    assert_ok(lt_policies_parse("full:1,lean", m, policy));
    int32_t full = LT_NONE;
    for (int32_t b = 0; b < m->n_blocks; b++) {
        if (policy[b] == LT_FULL) {
            assert_int_equal(full, LT_NONE); // one block alone
            full = b;
        }
    }
    assert_true(full != LT_NONE);
    assert_non_null(strstr(m->blocks[full].name, "language_model.layers.0"));
    assert_ok(lt_policies_parse("keep:0,full:1000,lean", m, policy));
    for (int32_t b = 0; b < m->n_blocks; b++)
        assert_int_equal(policy[b] == LT_FULL, strstr(m->blocks[b].name, ".layers.") != NULL);
    lt_model_destroy(m);
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "leaner",  "lean:",        "lean:2",      "lean:2,",
                                      "lean,2", ":2,lean", "lean:-1,full", "lean:x,full", "lean 2"};
    lt_model *m = open_model();
    lt_policy policy[256];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(lt_policies_parse(bad[i], m, policy), LT_ERR_CONFIG, "is not a policy");
    lt_model_destroy(m);
}

LT_TEST_MAIN(LT_TEST(one_name_is_for_all_blocks), LT_TEST(a_list_counts_decoder_layers),
             LT_TEST(what_is_no_list_is_refused))
