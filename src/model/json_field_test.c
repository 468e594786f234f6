// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"
#include "model/json_field.h"
#include "tests/kit/lt_qwen.h"
#include <string.h>

typedef struct values {
    double coef;
    int64_t experts;
} values;

static const lt_json_field fields[] = {
    {"router_aux_loss_coef", NULL, LT_FIELD_REAL, offsetof(values, coef), .in_outer = true,
     .fallback = 0.001, .max = 1e6},
    {"num_experts", "num_local_experts", LT_FIELD_INT, offsetof(values, experts), .max = 512},
};

static lt_status read_nested(const char *text, values *out)
{
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const lt_json_scope scope = {.where = "config.json",
                                 .object = json_object_get(root, "text_config"),
                                 .outer = root,
                                 .path = "text_config.",
                                 .outer_path = ""};
    const lt_status st = lt_json_read(&scope, fields, 2, out);
    json_decref(root);
    return st;
}

// BR-53: one look-up for all nested configs: text_config, then the top level, then the fallback.
static void a_nested_value_counts_before_the_outer_one(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double coef;
    } rows[] = {
        {"{\"router_aux_loss_coef\": 0.5, \"text_config\": {\"router_aux_loss_coef\": 0.25}}",
         0.25},
        {"{\"text_config\": {\"router_aux_loss_coef\": 0.25}}", 0.25},
        {"{\"router_aux_loss_coef\": 0.5, \"text_config\": {}}", 0.5},
        {"{\"router_aux_loss_coef\": 0.5, \"text_config\": {\"router_aux_loss_coef\": null}}", 0.5},
        {"{\"router_aux_loss_coef\": 0.5, \"text_config\": {\"router_aux_loss_coef\": 0}}", 0},
        {"{\"text_config\": {}}", 0.001},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        values v = {.coef = -1};
        assert_ok(read_nested(rows[i].text, &v));
        assert_near(v.coef, rows[i].coef, 0);
    }
}

// What may stand in text_config alone is not looked for around it.
static void other_values_are_not_taken_from_outside(void **state)
{
    (void)state;
    values v = {0};
    assert_ok(read_nested("{\"num_experts\": 8, \"text_config\": {}}", &v));
    assert_int_equal(v.experts, 0);
    assert_ok(read_nested("{\"text_config\": {\"num_local_experts\": 8}}", &v));
    assert_int_equal(v.experts, 8);
    assert_ok(read_nested("{\"text_config\": {\"num_local_experts\": 8, \"num_experts\": 4}}", &v));
    assert_int_equal(v.experts, 4);
}

static void a_message_names_the_place_that_was_read(void **state)
{
    (void)state;
    values v;
    assert_fails(read_nested("{\"router_aux_loss_coef\": \"x\", \"text_config\": {}}", &v),
                 LT_ERR_CONFIG, "config.json: router_aux_loss_coef is \"x\"");
    assert_fails(read_nested("{\"router_aux_loss_coef\": 1, "
                             "\"text_config\": {\"router_aux_loss_coef\": -1}}",
                             &v),
                 LT_ERR_CONFIG, "config.json: text_config.router_aux_loss_coef is -1");
}

// The same rule where a dense model meets it: the dtype of the stored weights.
static void a_models_dtype_follows_the_rule(void **state)
{
    lt_model_config c;
    const char *text = lt_test_replace(*state, lt_qwen_odd_config, "\"tie_word_embeddings\"",
                                       "\"dtype\": \"float32\", \"tie_word_embeddings\"");
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &c));
    assert_string_equal(c.dtype, "float32");
    text = lt_test_replace(*state, text, "\"hidden_size\": 64",
                           "\"dtype\": \"bfloat16\", \"hidden_size\": 64");
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &c));
    assert_string_equal(c.dtype, "bfloat16");
}

LT_TEST_MAIN(LT_TEST(a_nested_value_counts_before_the_outer_one),
             LT_TEST(other_values_are_not_taken_from_outside),
             LT_TEST(a_message_names_the_place_that_was_read),
             LT_TEST(a_models_dtype_follows_the_rule))
