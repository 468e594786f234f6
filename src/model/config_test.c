// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"
#include "tests/kit/lt_qwen.h"
#include <stdio.h>
#include <string.h>

static lt_status parse(const char *text, const lt_model_cut *cut, lt_model_config *out)
{
    return lt_model_config_parse(text, strlen(text), "config.json", cut, out);
}

static const char *published(void *state, int size)
{
    return lt_qwen_config_text(state, &lt_qwen_sizes[size], false);
}

static void both_rope_spellings_read_alike(void **state)
{
    for (int i = 0; i < lt_n_qwen_sizes; i++) {
        lt_model_config a, b;
        assert_ok(parse(lt_qwen_config_text(*state, &lt_qwen_sizes[i], false), NULL, &a));
        assert_ok(parse(lt_qwen_config_text(*state, &lt_qwen_sizes[i], true), NULL, &b));
        assert_near(a.text.rope_theta, 5e6, 0);
        assert_near(b.text.rope_theta, 5e6, 0);
        assert_int_equal(a.text.mrope_section[0], 24);
        assert_memory_equal(a.text.mrope_section, b.text.mrope_section,
                            sizeof a.text.mrope_section);
        assert_true(a.text.mrope_interleaved && b.text.mrope_interleaved);
        assert_string_equal(a.dtype, "bfloat16");
        assert_string_equal(b.dtype, "bfloat16");
    }
}

static void every_field_of_a_published_file_arrives(void **state)
{
    lt_model_config c;
    assert_ok(parse(published(*state, 2), NULL, &c));
    const lt_text_config *t = &c.text;
    const lt_vision_config *v = &c.vision;
    assert_string_equal(c.model_type, "qwen3_vl");
    assert_int_equal(t->hidden, 4096);
    assert_int_equal(t->layers, 36);
    assert_int_equal(t->heads, 32);
    assert_int_equal(t->kv_heads, 8);
    assert_int_equal(t->head_dim, 128);
    assert_int_equal(t->intermediate, 12288);
    assert_int_equal(t->vocab, 151936);
    assert_int_equal(t->max_position, 262144);
    assert_near(t->eps, 1e-6, 0);
    assert_near(t->initializer_range, 0.02, 0);
    assert_int_equal(t->moe.experts, 0);
    assert_int_equal(v->depth, 27);
    assert_int_equal(v->hidden, 1152);
    assert_int_equal(v->heads, 16);
    assert_int_equal(v->head_dim, 72);
    assert_int_equal(v->intermediate, 4304);
    assert_int_equal(v->out_hidden, 4096);
    assert_int_equal(v->grid, 48);
    assert_int_equal(v->n_deepstack, 3);
    assert_int_equal(v->deepstack[2], 24);
    assert_near(v->rope_theta, 10000, 0);
    assert_int_equal(lt_model_config_pixel_width(&c), 1536);
    assert_int_equal(c.image_token, 151655);
    assert_int_equal(c.video_token, 151656);
    assert_int_equal(c.vision_start, 151652);
    assert_int_equal(c.vision_end, 151653);
    assert_int_equal(c.bos, 151643);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(c.pad, LT_NO_TOKEN);
}

static void the_golden_config_reads(void **state)
{
    const char *path = lt_test_golden(*state, "model/qwen3_vl/config.json");
    assert_non_null(path);
    lt_model_config c;
    assert_ok(parse(lt_test_read(*state, path, NULL), NULL, &c));
    assert_int_equal(c.text.layers, 4);
    assert_int_equal(c.vision.deepstack[1], 2);
    assert_false(c.tied);
    assert_string_equal(c.tied_key, "tie_word_embeddings");
    assert_int_equal(lt_model_config_pixel_width(&c), 384);
}

// The order: the top level, then text_config, then false.
static void the_top_level_word_on_tying_counts_first(void **state)
{
    const struct {
        const char *top, *text;
        bool tied;
        const char *key;
    } rows[] = {
        {"true", "false", true, "tie_word_embeddings"},
        {"false", "true", false, "tie_word_embeddings"},
        {NULL, "true", true, "text_config.tie_word_embeddings"},
        {"null", "true", true, "text_config.tie_word_embeddings"},
        {NULL, NULL, false, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char top[64] = "", text[64] = "";
        if (rows[i].top)
            snprintf(top, sizeof top, "\"tie_word_embeddings\": %s,", rows[i].top);
        if (rows[i].text)
            snprintf(text, sizeof text, "\"tie_word_embeddings\": %s,", rows[i].text);
        const char *json =
            lt_test_replace(*state, published(*state, 2), "\"tie_word_embeddings\": false,", top);
        json = lt_test_replace(*state, json, "\"hidden_size\": 4096,", "\"hidden_size\": 4096, @");
        json = lt_test_replace(*state, json, "@", text);
        lt_model_config c;
        assert_ok(parse(json, NULL, &c));
        assert_int_equal(c.tied, rows[i].tied);
        assert_string_equal(c.tied_key, rows[i].key);
    }
}

static void fields_at_their_default_may_be_left_out(void **state)
{
    const char *gone[] = {"\"head_dim\": 128, ",         "\"rms_norm_eps\": 1e-06, ",
                          "\"attention_bias\": false, ", "\"in_channels\": 3, ",
                          "\"patch_size\": 16, ",        "\"num_position_embeddings\": 2304,",
                          "\"image_token_id\": 151655, "};
    const char *json = published(*state, 2);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        json = lt_test_replace(*state, json, gone[i], "");
    lt_model_config c;
    assert_ok(parse(json, NULL, &c));
    assert_int_equal(c.text.head_dim, 128);
    assert_int_equal(c.vision.grid, 48);
    assert_int_equal(lt_model_config_pixel_width(&c), 1536);
    assert_int_equal(c.image_token, 151655);
}

static void unknown_models_are_refused_with_a_list(void **state)
{
    lt_model_config c;
    const char *json = published(*state, 0);
    assert_fails(parse(lt_test_replace(*state, json, "\"qwen3_vl\"", "\"llava\""), NULL, &c),
                 LT_ERR_UNSUPPORTED,
                 "config.json: model_type is \"llava\", which is not known; supported: qwen3_vl, "
                 "qwen3_vl_moe, qwen3_5, qwen3_5_moe, internvl, internvl_chat");
    assert_fails(parse("{}", NULL, &c), LT_ERR_UNSUPPORTED, "model_type is missing");
    assert_fails(parse("{\"model_type\": 3}", NULL, &c), LT_ERR_UNSUPPORTED, "model_type is 3");
}

// Each row: a change to the published 8B file, and what the message must say.
static const struct {
    const char *from, *to, *message;
} wrong[] = {
    {"\"hidden_size\": 4096", "\"hidden_size\": 0",
     "config.json: text_config.hidden_size is 0; it must be a whole number from 1 to 131072"},
    {"\"hidden_size\": 4096", "\"hidden_size\": \"4096\"", "text_config.hidden_size is \"4096\""},
    {"\"hidden_size\": 4096", "\"hidden_size\": 4096.5", "text_config.hidden_size is 4096.5"},
    {"\"hidden_size\": 4096,", "", "text_config.hidden_size is missing"},
    {"\"hidden_size\": 4096,", "\"hidden_size\": null,", "text_config.hidden_size is missing"},
    {"\"num_hidden_layers\": 36", "\"num_hidden_layers\": 100000",
     "text_config.num_hidden_layers is 100000"},
    {"\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5",
     "text_config.num_attention_heads is 32; it must be a multiple of num_key_value_heads, 5"},
    {"\"head_dim\": 128", "\"head_dim\": 127",
     "text_config.head_dim is 127, of which rotary turns 127 numbers; it must be an even number"},
    {"\"head_dim\": 128", "\"head_dim\": 64",
     "text_config.rope_scaling.mrope_section has 3 entries and the sum 64; it must have 3, of sum "
     "head_dim / 2 = 32"},
    {"[24, 20, 20]", "[24, 20]", "mrope_section has 2 entries"},
    {"[24, 20, 20]", "[24, -20, 60]", "mrope_section[1] is -20"},
    {"[24, 20, 20]", "[24, 20, 10, 10]", "a list of at most 3 whole numbers"},
    {"\"rope_theta\": 5000000,", "", "rope_theta is missing"},
    {"\"rope_theta\": 5000000,", "\"rope_theta\": true,", "text_config.rope_theta is true"},
    {"\"mrope_interleaved\": true", "\"mrope_interleaved\": false", "mrope_interleaved is false"},
    {"\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"",
     "text_config.rope_scaling.rope_type is \"yarn\", which is not supported"},
    {"\"attention_bias\": false", "\"attention_bias\": true",
     "text_config.attention_bias is true, which is not supported"},
    {"\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1",
     "text_config.attention_dropout is 0.1"},
    {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "text_config.hidden_act is \"gelu\""},
    {"\"use_cache\": true",
     "\"num_local_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768",
     "text_config.num_experts is 128, but model_type qwen3_vl has none"},
    {"\"use_cache\": true", "\"num_experts\": 4, \"num_experts_per_tok\": 5",
     "text_config.num_experts_per_tok is 5; it must be from 1 to the number of experts, 4"},
    {"\"deepstack_visual_indexes\": [8, 16, 24]", "\"deepstack_visual_indexes\": [8, 16, 27]",
     "vision_config.deepstack_visual_indexes[2] is 27; it must be below depth, 27"},
    {"\"deepstack_visual_indexes\": [8, 16, 24]", "\"deepstack_visual_indexes\": [8, 8]",
     "deepstack_visual_indexes[1] is 8; the indexes must ascend"},
    {"\"hidden_size\": 1152", "\"hidden_size\": 1150",
     "vision_config.hidden_size is 1150; it must be num_heads, 16, times a multiple of 4"},
    {"\"num_position_embeddings\": 2304", "\"num_position_embeddings\": 2305",
     "vision_config.num_position_embeddings is 2305; it must be a square"},
    {"\"out_hidden_size\": 4096", "\"out_hidden_size\": 2048",
     "vision_config.out_hidden_size is 2048; it must be text_config.hidden_size, 4096"},
    {"\"hidden_act\": \"gelu_pytorch_tanh\"", "\"hidden_act\": \"gelu\"",
     "vision_config.hidden_act is \"gelu\""},
    {"\"image_token_id\": 151655", "\"image_token_id\": 151936",
     "image_token_id is 151936; it must be a whole number from 0 to 151935"},
    {"\"image_token_id\": 151655", "\"image_token_id\": 151656",
     "image_token_id and video_token_id are both 151656"},
    {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": \"no\"",
     "tie_word_embeddings is \"no\"; it must be true or false"},
    {"\"tie_word_embeddings\": false", "\"quantization_config\": {\"bits\": 4}",
     "quantization_config is {\"bits\":4}, which is not supported"},
    {"\"vision_config\"", "\"vision\"", "vision_config is missing"},
    {"\"rope_scaling\": {", "\"rope_scaling\": 3, \"other\": {",
     "text_config.rope_scaling is 3; it must be an object"},
};

static void wrong_values_are_named_with_their_key_and_rule(void **state)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lt_model_config c;
        const lt_status st = parse(
            lt_test_replace(*state, published(*state, 2), wrong[i].from, wrong[i].to), NULL, &c);
        assert_int_not_equal(st, LT_OK);
        assert_text_contains(lt_error_message(), wrong[i].message);
        assert_text_contains(lt_error_message(), "config.json: ");
    }
}

static void text_that_is_not_json_is_refused_with_its_line(void **state)
{
    lt_model_config c;
    assert_fails(parse("{\n\"model_type\": \n}", NULL, &c), LT_ERR_FORMAT,
                 "config.json:3: not JSON");
    assert_fails(parse("", NULL, &c), LT_ERR_FORMAT, "not JSON");
    assert_fails(parse("[]", NULL, &c), LT_ERR_FORMAT, "a config.json is an object");
    assert_fails(parse("{\"model_type\": \"a\", \"model_type\": \"b\"}", NULL, &c), LT_ERR_FORMAT,
                 "duplicate");
    (void)state;
}

static void a_model_can_be_cut_down(void **state)
{
    lt_model_config c;
    const lt_model_cut cut = {.text_layers = 4, .vision_depth = 17};
    assert_ok(parse(published(*state, 2), &cut, &c));
    assert_int_equal(c.text.layers, 4);
    assert_int_equal(c.vision.depth, 17);
    assert_int_equal(c.vision.n_deepstack, 2); // 24 lies beyond
    assert_fails(parse(published(*state, 2), &(lt_model_cut){.text_layers = 37}, &c), LT_ERR_CONFIG,
                 "a cut to 37 decoder layers is asked for, but the model of config.json has 36");
    assert_fails(parse(published(*state, 2), &(lt_model_cut){.vision_depth = -1}, &c),
                 LT_ERR_CONFIG, "vision blocks");
}

static void end_tokens_may_be_a_list(void **state)
{
    lt_model_config c;
    assert_ok(parse(lt_test_replace(*state, published(*state, 2), "\"eos_token_id\": 151645",
                                    "\"eos_token_id\": [151645, 151643]"),
                    NULL, &c));
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[1], 151643);
}

static void a_folder_is_read_and_a_missing_file_is_named(void **state)
{
    const char *dir = lt_test_dir(*state);
    lt_model_config c;
    assert_fails(lt_model_config_load(dir, NULL, &c), LT_ERR_NOT_FOUND, "config.json");
    const char *text = published(*state, 0);
    lt_test_write(lt_test_path(*state, dir, "config.json"), text, strlen(text));
    assert_ok(lt_model_config_load(dir, NULL, &c));
    assert_true(c.tied);
}

LT_TEST_MAIN(LT_TEST(both_rope_spellings_read_alike),
             LT_TEST(every_field_of_a_published_file_arrives), LT_TEST(the_golden_config_reads),
             LT_TEST(the_top_level_word_on_tying_counts_first),
             LT_TEST(fields_at_their_default_may_be_left_out),
             LT_TEST(unknown_models_are_refused_with_a_list),
             LT_TEST(wrong_values_are_named_with_their_key_and_rule),
             LT_TEST(text_that_is_not_json_is_refused_with_its_line),
             LT_TEST(a_model_can_be_cut_down), LT_TEST(end_tokens_may_be_a_list),
             LT_TEST(a_folder_is_read_and_a_missing_file_is_named))
