// SPDX-License-Identifier: Apache-2.0
// Qwen3.5: config.json, which layers are linear, names and order of parameters.
#include "model/model.h"
#include "tests/kit/lt_qwen.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char tiny[] =
    "{\"model_type\": \"qwen3_5\", \"image_token_id\": 90, \"video_token_id\": 91, "
    "\"vision_start_token_id\": 92, \"vision_end_token_id\": 93, \"text_config\": {"
    "\"hidden_size\": 48, \"num_hidden_layers\": 6, \"num_attention_heads\": 3, "
    "\"num_key_value_heads\": 1, \"head_dim\": 32, \"intermediate_size\": 40, \"vocab_size\": 100, "
    "\"full_attention_interval\": 3, \"linear_num_key_heads\": 3, \"linear_num_value_heads\": 6, "
    "\"linear_key_head_dim\": 7, \"linear_value_head_dim\": 9, \"linear_conv_kernel_dim\": 4, "
    "\"attn_output_gate\": true, \"rope_parameters\": {\"rope_theta\": 10000000, "
    "\"partial_rotary_factor\": 0.5, \"mrope_section\": [4, 2, 2], \"mrope_interleaved\": true, "
    "\"rope_type\": \"default\"}}, \"vision_config\": {\"hidden_size\": 32, \"depth\": 2, "
    "\"num_heads\": 2, \"intermediate_size\": 48, \"out_hidden_size\": 48, \"patch_size\": 8, "
    "\"num_position_embeddings\": 64}}";

static lt_status parse(const char *text, lt_model_config *c)
{
    return lt_model_config_parse(text, strlen(text), "config.json", NULL, c);
}

static lt_model *open_text(const char *text)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(parse(text, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
    return m;
}

// source: spec/models.md 2.2, 2.4, 10.1
static const struct size {
    const char *name;
    int hidden, layers, heads, kv_heads, intermediate, experts, picked, value_heads;
    bool tied;
    int depth, vision_hidden, vision_heads, vision_intermediate;
    int64_t total;            // with the prediction module
    double per_token, module; // matrix elements that a token meets: of the layers, of the module
} sizes[] = {
    {"0.8B", 1024, 24, 8, 2, 3584, 0, 0, 16, true, 12, 768, 12, 3072, 873438784, 497614848,
     20447232},
    {"2B", 2048, 24, 8, 2, 6144, 0, 0, 16, true, 24, 1024, 16, 4096, 2274069824, 1372717056,
     60817408},
    {"4B", 2560, 32, 16, 4, 9216, 0, 0, 32, true, 24, 1024, 16, 4096, 4659865088, 3569090560,
     120586240},
    {"9B", 4096, 32, 16, 4, 12288, 0, 0, 32, false, 27, 1152, 16, 4304, 9653104368, 6918504448,
     243269632},
    {"27B", 5120, 64, 24, 4, 17408, 0, 0, 48, false, 27, 1152, 16, 4304, 27781427952, 24350556160,
     424673280},
    {"35B-A3B", 2048, 40, 16, 2, 512, 256, 8, 32, false, 27, 1152, 16, 4304, 35951822704,
     2436710400, 64489472},
    {"122B-A10B", 3072, 48, 32, 2, 1024, 256, 8, 64, false, 27, 1152, 16, 4304, 125086497008,
     8243527680, 183241728},
    {"397B-A17B", 4096, 60, 32, 2, 1024, 512, 10, 64, false, 27, 1152, 16, 4304, 403397928944,
     15312076800, 278925312},
};

// As published: fields at their usual value are left out.
static const char *published(void *state, const struct size *s)
{
    char *widths = NULL, *text = NULL;
    if (s->experts > 0) {
        assert_ok(lt_arena_printf(state, &widths,
                                  "\"num_experts\": %d, \"num_experts_per_tok\": %d, "
                                  "\"moe_intermediate_size\": %d, "
                                  "\"shared_expert_intermediate_size\": %d",
                                  s->experts, s->picked, s->intermediate, s->intermediate));
    } else {
        assert_ok(lt_arena_printf(state, &widths, "\"intermediate_size\": %d", s->intermediate));
    }
    assert_ok(lt_arena_printf(
        state, &text,
        "{\"model_type\": \"qwen3_5%s\", \"tie_word_embeddings\": %s, \"text_config\": {"
        "\"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
        "\"num_key_value_heads\": %d, \"vocab_size\": 248320, \"linear_num_value_heads\": %d, "
        "\"rope_parameters\": {\"rope_theta\": 10000000, \"rope_type\": \"default\"}, %s}, "
        "\"vision_config\": {\"depth\": %d, \"hidden_size\": %d, \"num_heads\": %d, "
        "\"intermediate_size\": %d, \"out_hidden_size\": %d, \"deepstack_visual_indexes\": []}}",
        s->experts > 0 ? "_moe" : "", s->tied ? "true" : "false", s->hidden, s->layers, s->heads,
        s->kv_heads, s->value_heads, widths, s->depth, s->vision_hidden, s->vision_heads,
        s->vision_intermediate, s->hidden));
    return text;
}

static void published_sizes_have_their_published_totals(void **state)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lt_model_config c;
        lt_model *without = NULL, *with = NULL;
        const lt_work token = {.tokens = 1};
        assert_ok(parse(published(*state, &sizes[i]), &c));
        assert_ok(lt_model_create(&c, LT_HEAD_AS_CONFIG, &without));
        c.text.mtp = true;
        assert_ok(lt_model_create(&c, LT_HEAD_AS_CONFIG, &with));
        if (lt_model_total(with, false) != sizes[i].total)
            fail_msg("%s has %lld parameters", sizes[i].name,
                     (long long)lt_model_total(with, false));
        const double layers = lt_model_flops(without, &token).text;
        assert_near(layers, 2 * sizes[i].per_token, 0);
        assert_near(lt_model_flops(with, &token).text - layers, 2 * sizes[i].module, 0);
        lt_model_destroy(without);
        lt_model_destroy(with);
    }
}

// 2 (3 Dv C + 2 Dk C + 3 Dk Dv) a token and value head, and half of 4 n^2 D for each query head.
static void the_recurrence_is_counted_beside_attention(void **state)
{
    lt_model *m = open_text(published(*state, &sizes[2])); // 4B
    const lt_flops f = lt_model_flops(m, &(lt_work){.tokens = 10, .token_squares = 100});
    assert_near(f.text_attention, 24.0 * 10 * 32 * 180224 + 8.0 * 2 * 100 * 16 * 256, 0);
    lt_model_destroy(m);
}

static void layers_are_linear_by_interval_or_by_name(void **state)
{
    lt_model_config c;
    assert_ok(parse(tiny, &c));
    static const bool by_three[] = {true, true, false, true, true, false};
    assert_memory_equal(c.text.gdn.linear, by_three, sizeof by_three);
    assert_ok(parse(lt_test_replace(*state, tiny, "\"full_attention_interval\": 3, ", ""), &c));
    static const bool by_four[] = {true, true, true, false, true, true};
    assert_memory_equal(c.text.gdn.linear, by_four, sizeof by_four);
    const char *named = "\"layer_types\": [\"full_attention\", \"linear_attention\", \"gdn\", "
                        "\"full_attention\", \"full_attention\", \"linear_attention\"], ";
    assert_ok(parse(lt_test_replace(*state, tiny, "\"full_attention_interval\": 3, ", named), &c));
    static const bool by_name[] = {false, true, true, false, false, true};
    assert_memory_equal(c.text.gdn.linear, by_name, sizeof by_name);
}

// partial_rotary_factor may stand beside the record; without any it is a quarter.
static void a_part_of_each_head_is_turned(void **state)
{
    lt_model_config c;
    assert_ok(parse(tiny, &c));
    assert_int_equal(c.text.rotary, 16);
    const char *moved = lt_test_replace(*state, tiny, "\"partial_rotary_factor\": 0.5, ", "");
    moved = lt_test_replace(*state, moved, "\"attn_output_gate\": true, ",
                            "\"partial_rotary_factor\": 0.5, ");
    assert_ok(parse(moved, &c));
    assert_int_equal(c.text.rotary, 16);
    assert_true(c.text.output_gate); // as published, where the file does not say
    const char *quarter = lt_test_replace(*state, tiny, "\"partial_rotary_factor\": 0.5, ", "");
    quarter = lt_test_replace(*state, quarter, "[4, 2, 2]", "[2, 1, 1]");
    assert_ok(parse(quarter, &c));
    assert_int_equal(c.text.rotary, 8);
}

// Each row: a change to the file above, and what the message must say.
static const struct {
    const char *from, *to, *message;
} wrong[] = {
    {"\"full_attention_interval\": 3", "\"layer_types\": [\"full_attention\"]",
     "layer_types is [\"full_attention\"]; it must be a list of num_hidden_layers, 6, words"},
    {"\"full_attention_interval\": 3", "\"full_attention_interval\": 0",
     "text_config.full_attention_interval is 0"},
    {"\"linear_num_value_heads\": 6", "\"linear_num_value_heads\": 5",
     "linear_num_value_heads is 5; it must be a multiple of linear_num_key_heads, 3"},
    {"\"linear_num_value_heads\": 6, ", "", "linear_num_value_heads is missing"},
    {"\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 17",
     "text_config.linear_conv_kernel_dim is 17"},
    {"\"attn_output_gate\": true", "\"output_gate_type\": \"sigmoid\"",
     "output_gate_type is \"sigmoid\"; lathe knows \"swish\" and \"silu\""},
    {"\"attn_output_gate\": true", "\"mtp_use_dedicated_embeddings\": true",
     "mtp_use_dedicated_embeddings is true, which is not supported"},
    {"\"attn_output_gate\": true",
     "\"num_experts\": 4, \"num_experts_per_tok\": 2, "
     "\"moe_intermediate_size\": 8",
     "model_type qwen3_5 has none; with experts it is qwen3_5_moe"},
    {"\"model_type\": \"qwen3_5\"", "\"model_type\": \"qwen3_5_moe\"", "is missing or 0"},
    {"[4, 2, 2]", "[4, 2, 3]", "of sum head_dim x partial_rotary_factor / 2 = 8"},
    {"\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.1",
     "head_dim is 32, of which rotary turns 3 numbers"},
    {"\"patch_size\": 8", "\"deepstack_visual_indexes\": [0]", "Qwen3.5 has no deepstack"},
    {"\"intermediate_size\": 40, ", "", "text_config.intermediate_size is missing"},
};

static void wrong_values_are_named_with_their_key_and_rule(void **state)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lt_model_config c;
        const lt_status st = parse(lt_test_replace(*state, tiny, wrong[i].from, wrong[i].to), &c);
        assert_int_not_equal(st, LT_OK);
        assert_text_contains(lt_error_message(), wrong[i].message);
        assert_text_contains(lt_error_message(), "config.json: ");
    }
}

static void first_values_are_those_of_the_published_model(void **state)
{
    (void)state;
    lt_model *m = open_text(tiny);
    const char *layer = "model.language_model.layers.0.";
    static const struct {
        const char *name;
        double low, high;
    } rows[] = {{"linear_attn.A_log", -4.7, 2.78},
                {"linear_attn.dt_bias", 1, 1},
                {"linear_attn.norm.weight", 1, 1},
                {"input_layernorm.weight", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[128];
        float value[6];
        (void)snprintf(name, sizeof name, "%s%s", layer, rows[i].name);
        lt_model_init_values(lt_model_param(m, name), 1, 0, 6, value);
        for (int k = 0; k < 6; k++)
            assert_true((double)value[k] >= rows[i].low && (double)value[k] <= rows[i].high);
    }
    lt_model_destroy(m);
}

static void names_shapes_and_order_are_the_golden_ones(void **state)
{
    static const char *const folders[] = {"qwen3_5", "qwen3_5_moe", "qwen3_5_mtp"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char config[64], list[64];
        (void)snprintf(config, sizeof config, "model/%s/config.json", folders[f]);
        (void)snprintf(list, sizeof list, "model/%s/parameters.json", folders[f]);
        const char *text = lt_test_golden(*state, config), *path = lt_test_golden(*state, list);
        if (!text || !path)
            skip();
        lt_model_config c;
        lt_model *m = NULL;
        assert_ok(parse(lt_test_read(*state, text, NULL), &c));
        c.text.mtp = strstr(folders[f], "mtp") != NULL;
        assert_ok(lt_model_create(&c, LT_HEAD_AS_CONFIG, &m));
        json_t *want = json_loads(lt_test_read(*state, path, NULL), 0, NULL), *dims;
        const char *name;
        int32_t i = 0;
        json_object_foreach(want, name, dims)
        {
            assert_true(i < m->n_params);
            const lt_param *p = &m->params[i++];
            assert_string_equal(p->name, name);
            assert_int_equal(p->rank, json_array_size(dims));
            for (int32_t d = 0; d < p->rank; d++)
                assert_int_equal(p->dim[d], json_integer_value(json_array_get(dims, (size_t)d)));
        }
        assert_int_equal(i, m->n_params);
        json_decref(want);
        lt_model_destroy(m);
    }
}

LT_TEST_MAIN(LT_TEST(published_sizes_have_their_published_totals),
             LT_TEST(the_recurrence_is_counted_beside_attention),
             LT_TEST(layers_are_linear_by_interval_or_by_name),
             LT_TEST(a_part_of_each_head_is_turned),
             LT_TEST(wrong_values_are_named_with_their_key_and_rule),
             LT_TEST(first_values_are_those_of_the_published_model),
             LT_TEST(names_shapes_and_order_are_the_golden_ones))
