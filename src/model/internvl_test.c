// SPDX-License-Identifier: Apache-2.0
// InternVL models as data: published totals, the three spellings of names, rules of config.json,
// blocks that fit together.
#include "model/model.h"
#include "tests/kit/lt_qwen.h"
#include <jansson.h>
#include <string.h>

// source: spec/models.md 2.3, 2.4
static const struct published {
    int hidden, layers, heads, kv_heads, intermediate;
    int64_t total;
} sizes[] = {{1024, 28, 16, 8, 3072, 1060897792},
             {2048, 28, 16, 8, 6144, 2348347392},
             {2560, 36, 32, 8, 9728, 4732489216},
             {4096, 36, 32, 8, 12288, 8528318464},
             {5120, 40, 40, 8, 17408, 15119523840}};
enum { N_SIZES = (int)(sizeof sizes / sizeof sizes[0]) };

static const char remote_form[] =
    "{\"model_type\": \"internvl_chat\", \"architectures\": [\"InternVLChatModel\"], "
    "\"downsample_ratio\": 0.5, \"dynamic_image_size\": true, \"force_image_size\": 448, "
    "\"max_dynamic_patch\": 12, \"min_dynamic_patch\": 1, \"pad2square\": false, "
    "\"ps_version\": \"v2\", \"select_layer\": -1, \"template\": \"internvl2_5\", "
    "\"use_backbone_lora\": 0, \"use_llm_lora\": 0, \"use_thumbnail\": true, "
    "\"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": false, "
    "\"llm_config\": {\"model_type\": \"qwen3\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
    "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": 128, "
    "\"intermediate_size\": %d, \"vocab_size\": 151936, \"rope_theta\": 1000000, "
    "\"rope_scaling\": null, \"hidden_act\": \"silu\", \"eos_token_id\": 151645}, "
    "\"vision_config\": {\"model_type\": \"intern_vit_6b\", \"hidden_size\": 1024, "
    "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, \"intermediate_size\": 4096, "
    "\"image_size\": 448, \"patch_size\": 14, \"norm_type\": \"layer_norm\", "
    "\"layer_norm_eps\": 1e-06, \"qkv_bias\": true, \"qk_normalization\": false, "
    "\"hidden_act\": \"gelu\", \"initializer_factor\": 0.1, \"drop_path_rate\": 0.1, "
    "\"attention_dropout\": 0.0, \"dropout\": 0.0, \"use_flash_attn\": true}}";
static const char library_form[] =
    "{\"model_type\": \"internvl\", \"downsample_ratio\": 0.5, \"image_seq_length\": 256, "
    "\"image_token_id\": 151671, \"projector_hidden_act\": \"gelu\", "
    "\"vision_feature_layer\": -1, \"vision_feature_select_strategy\": \"default\", "
    "\"text_config\": {\"model_type\": \"qwen3\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
    "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": 128, "
    "\"intermediate_size\": %d, \"vocab_size\": 151936, "
    "\"rope_parameters\": {\"rope_theta\": 1000000, \"rope_type\": \"default\"}}, "
    "\"vision_config\": {\"model_type\": \"internvl_vision\", \"hidden_size\": 1024, "
    "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, \"intermediate_size\": 4096, "
    "\"image_size\": [448, 448], \"patch_size\": [14, 14], \"norm_type\": \"layer_norm\", "
    "\"layer_norm_eps\": 1e-06, \"attention_bias\": true, \"use_qk_norm\": false, "
    "\"use_mean_pooling\": true, \"layer_scale_init_value\": 0.1}}";

static const char *text_of(void *state, int size, bool remote)
{
    const struct published *s = &sizes[size];
    char *text = NULL;
    if (remote) {
        assert_ok(lt_arena_printf(state, &text, remote_form, s->hidden, s->layers, s->heads,
                                  s->kv_heads, s->intermediate));
    } else {
        assert_ok(lt_arena_printf(state, &text, library_form, s->hidden, s->layers, s->heads,
                                  s->kv_heads, s->intermediate));
    }
    return text;
}

static lt_model *open_text(const char *text, lt_head head)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &config));
    assert_ok(lt_model_create(&config, head, &m));
    return m;
}

static void published_sizes_have_their_published_totals_in_both_forms(void **state)
{
    for (int i = 0; i < N_SIZES; i++) {
        for (int remote = 0; remote < 2; remote++) {
            lt_model *m = open_text(text_of(*state, i, remote), LT_HEAD_AS_CONFIG);
            assert_int_equal(lt_model_total(m, false), sizes[i].total);
            assert_false(m->tied);
            assert_int_equal(m->pixel_width, 588);
            assert_int_equal(m->config.image_token, 151671);
            lt_model_destroy(m);
        }
    }
}

static void the_published_size_with_experts_has_its_total(void **state)
{
    const char *text = lt_test_replace(
        *state, text_of(*state, 1, true), "\"model_type\": \"qwen3\"",
        "\"model_type\": \"qwen3_moe\", \"num_experts\": 128, \"num_experts_per_tok\": 8, "
        "\"moe_intermediate_size\": 768, \"output_router_logits\": true");
    text = lt_test_replace(*state, text, "\"num_hidden_layers\": 28", "\"num_hidden_layers\": 48");
    text = lt_test_replace(*state, text, "\"num_attention_heads\": 16, \"num_key_value_heads\": 8",
                           "\"num_attention_heads\": 32, \"num_key_value_heads\": 4");
    lt_model *m = open_text(text, LT_HEAD_AS_CONFIG);
    assert_int_equal(lt_model_total(m, false), 30848730112);
    assert_false(m->config.text.moe.router_logits); // never adds the balance loss
    lt_model_destroy(m);
}

static void names_shapes_and_order_are_the_golden_ones(void **state)
{
    const char *config = lt_test_golden(*state, "model/internvl/config.json"),
               *path = lt_test_golden(*state, "model/internvl/parameters.json");
    if (!config || !path)
        skip();
    lt_model *m = open_text(lt_test_read(*state, config, NULL), LT_HEAD_AS_CONFIG);
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

static void older_names_of_the_library_are_aliases(void **state)
{
    static const char *const pairs[][2] = {
        {"model.vision_tower.embeddings.cls_token", "vision_tower.embeddings.cls_token"},
        {"model.vision_tower.encoder.layer.23.attention.k_proj.bias",
         "vision_tower.encoder.layer.23.attention.k_proj.bias"},
        {"model.multi_modal_projector.linear_2.weight", "multi_modal_projector.linear_2.weight"},
        {"model.language_model.layers.27.mlp.up_proj.weight",
         "language_model.model.layers.27.mlp.up_proj.weight"},
        {"lm_head.weight", "language_model.lm_head.weight"}};
    lt_model *own = open_text(text_of(*state, 0, false), LT_HEAD_OWN),
             *tied = open_text(text_of(*state, 0, false), LT_HEAD_TIED);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_non_null(lt_model_param(own, pairs[i][0]));
        assert_ptr_equal(lt_model_param(own, pairs[i][0]), lt_model_param(own, pairs[i][1]));
        assert_ptr_equal(lt_model_param(tied, pairs[i][0]), lt_model_param(tied, pairs[i][1]));
    }
    assert_int_equal(tied->head_param, tied->embed_param);
    assert_string_equal(lt_model_old_head_name(&own->config), "language_model.lm_head.weight");
    lt_model_destroy(own);
    lt_model_destroy(tied);
}

static void the_remote_code_has_names_of_its_own(void **state)
{
    static const struct {
        const char *name;
        int rank;
        int64_t dim[4];
    } want[] = {{"vision_model.embeddings.class_embedding", 3, {1, 1, 1024}},
                {"vision_model.embeddings.position_embedding", 3, {1, 1025, 1024}},
                {"vision_model.embeddings.patch_embedding.weight", 4, {1024, 3, 14, 14}},
                {"vision_model.encoder.layers.23.attn.qkv.bias", 1, {3072}},
                {"vision_model.encoder.layers.0.ls2", 1, {1024}},
                {"vision_model.encoder.layers.0.norm2.bias", 1, {1024}},
                {"mlp1.0.weight", 1, {4096}},
                {"mlp1.3.weight", 2, {1024, 1024}},
                {"language_model.model.embed_tokens.weight", 2, {151936, 1024}},
                {"language_model.lm_head.weight", 2, {151936, 1024}}};
    lt_model *m = open_text(text_of(*state, 0, true), LT_HEAD_AS_CONFIG);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const lt_param *p = lt_model_param(m, want[i].name);
        assert_non_null(p);
        assert_int_equal(p->rank, want[i].rank);
        assert_memory_equal(p->dim, want[i].dim, (size_t)p->rank * sizeof p->dim[0]);
    }
    float first;
    lt_model_init_values(lt_model_param(m, want[4].name), 1, 5, 1, &first);
    assert_near((double)first, 0.1, 1e-8);
    lt_model_destroy(m);
}

// The large tower: rms_norm without biases, q and k normed over all channels, no bias of qkv.
static void the_large_tower_has_its_norms(void **state)
{
    for (int remote = 0; remote < 2; remote++) {
        const char *text =
            lt_test_replace(*state, text_of(*state, 0, remote), "\"norm_type\": \"layer_norm\"",
                            "\"norm_type\": \"rms_norm\"");
        text =
            lt_test_replace(*state, text, remote ? "\"qkv_bias\": true" : "attention_bias\": true",
                            remote ? "\"qkv_bias\": false" : "attention_bias\": false");
        text = lt_test_replace(*state, text,
                               remote ? "qk_normalization\": false" : "use_qk_norm\": false",
                               remote ? "qk_normalization\": true" : "use_qk_norm\": true");
        lt_model *m = open_text(text, LT_HEAD_AS_CONFIG);
        const char *layer = remote ? "vision_model.encoder.layers.0.attn"
                                   : "model.vision_tower.encoder.layer.0.attention";
        char *name = NULL;
        assert_ok(lt_arena_printf(*state, &name, "%s.q_norm.weight", layer));
        assert_non_null(lt_model_param(m, name));
        assert_int_equal(lt_model_param(m, name)->n_elems, 1024);
        assert_ok(lt_arena_printf(*state, &name, "%s.%s.bias", layer, remote ? "qkv" : "k_proj"));
        assert_null(lt_model_param(m, name));
        assert_null(lt_model_param(m, "vision_model.encoder.layers.0.norm1.bias"));
        lt_model_destroy(m);
    }
}

static void wrong_values_are_named_with_their_key_and_rule(void **state)
{
    static const struct {
        bool remote;
        const char *from, *to, *message;
    } wrong[] = {
        {false, "[448, 448]", "[448, 336]", "vision_config.image_size is [448,336]"},
        {false, "[14, 14]", "[15, 15]", "vision_config.image_size is 448, patch_size 15"},
        {false, "_ratio\": 0.5", "_ratio\": 0.4", "downsample_ratio 0.4"},
        {false, "layer\": -1", "layer\": -2", "vision_feature_layer is -2; only -1"},
        {false, "\"default\"", "\"full\"", "vision_feature_select_strategy is \"full\""},
        {false, "151671", "151936", "image_token_id is 151936"},
        {false, "\"layer_norm\"", "\"batch_norm\"", "vision_config.norm_type is \"batch_norm\""},
        {false, "\"num_attention_heads\": 16, \"intermediate_size\": 4096",
         "\"num_attention_heads\": 15, \"intermediate_size\": 4096",
         "vision_config.hidden_size is 1024; it must be num_attention_heads, 15"},
        {true, "\"v2\"", "\"v1\"", "ps_version is \"v1\""},
        {true, "force_image_size\": 448", "force_image_size\": 224", "force_image_size is 224"},
        {true, "select_layer\": -1", "select_layer\": -4", "select_layer is -4"},
        {true, "\"qwen3\"", "\"qwen2\"", "llm_config.model_type is \"qwen2\""},
        {true, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 3",
         "llm_config.num_attention_heads is 16; it must be a multiple"},
        {true, "use_llm_lora\": 0", "use_llm_lora\": 16", "use_llm_lora is 16"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *text = lt_test_replace(*state, text_of(*state, 0, wrong[i].remote),
                                           wrong[i].from, wrong[i].to);
        lt_model_config c;
        lt_error_clear();
        assert_true(lt_model_config_parse(text, strlen(text), "config.json", NULL, &c) != LT_OK);
        lt_test_text_contains(lt_error_message(), wrong[i].message, __FILE__, __LINE__);
    }
}

static void a_small_vocabulary_of_the_remote_code_has_no_picture_token(void **state)
{
    const char *text = lt_test_replace(*state, text_of(*state, 0, true), "151936", "1000");
    lt_model *m = open_text(text, LT_HEAD_AS_CONFIG);
    assert_int_equal(m->config.image_token, LT_NO_TOKEN);
    lt_model_destroy(m);
}

// source: spec/models.md 10.1: per tile 2 1024 588 C + 2 1025 Lv (4 C^2 + 2 C Iv) + 4 1025^2 C Lv,
// projector 2 256 (4 C H + H^2)
static void work_of_a_tile_counts_its_class_token(void **state)
{
    for (int remote = 0; remote < 2; remote++) {
        lt_model *m = open_text(text_of(*state, 3, remote), LT_HEAD_AS_CONFIG);
        const lt_work work = {.patches = 3 * 1024,
                              .merged = 3 * 256,
                              .frames = 3,
                              .patch_squares = 3 * 1024.0 * 1024.0};
        const lt_flops f = lt_model_flops(m, &work);
        const double c = 1024, h = 4096;
        assert_near(f.patch_embed, 3 * 2 * 1024 * 588 * c, 0);
        assert_near(f.vision, 3 * 2 * 1025 * 24 * (4 * c * c + 2 * c * 4096), 0);
        assert_near(f.vision_attention, 3 * 4.0 * 1025 * 1025 * c * 24, 0);
        assert_near(f.mergers, 3 * 2 * 256 * (4 * c * h + h * h), 0);
        lt_model_destroy(m);
    }
}

LT_TEST_MAIN(LT_TEST(published_sizes_have_their_published_totals_in_both_forms),
             LT_TEST(the_published_size_with_experts_has_its_total),
             LT_TEST(names_shapes_and_order_are_the_golden_ones),
             LT_TEST(older_names_of_the_library_are_aliases),
             LT_TEST(the_remote_code_has_names_of_its_own), LT_TEST(the_large_tower_has_its_norms),
             LT_TEST(wrong_values_are_named_with_their_key_and_rule),
             LT_TEST(a_small_vocabulary_of_the_remote_code_has_no_picture_token),
             LT_TEST(work_of_a_tile_counts_its_class_token))
