// SPDX-License-Identifier: Apache-2.0
// Models with routed experts: published sizes, names, which layers are sparse.
#include "model/moe.h"
#include "tests/kit/lt_qwen.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

// source: spec/models.md 2.1, 2.4, 10.1
static const struct moe_size {
    lt_qwen_size like;
    int experts_width;
    int64_t total;
    double per_token;
} sizes[] = {
    {{"30B-A3B", 2048, 48, 32, 4, 6144, false, 27, 1152, 4304, "8, 16, 24", 0, 538631408, 0, 0, 0},
     768,
     31070754032,
     2730491904},
    {{"235B-A22B", 4096, 94, 64, 4, 12288, false, 27, 1152, 4304, "8, 16, 24", 0, 576388336, 0, 0,
      0},
     1536,
     235670022896,
     20945305600},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static const char *moe_text(void *state, const char *dense, const char *fields)
{
    const char *text = lt_test_replace(state, dense, "\"model_type\": \"qwen3_vl\"",
                                       "\"model_type\": \"qwen3_vl_moe\"");
    char *experts = NULL;
    assert_ok(lt_arena_printf(state, &experts, "\"text_config\": {%s, ", fields));
    return lt_test_replace(state, text, "\"text_config\": {", experts);
}

static const char *published(void *state, int i)
{
    char *fields = NULL;
    assert_ok(lt_arena_printf(state, &fields,
                              "\"num_experts\": 128, \"num_experts_per_tok\": 8, "
                              "\"moe_intermediate_size\": %d, \"norm_topk_prob\": true, "
                              "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []",
                              sizes[i].experts_width));
    return moe_text(state, lt_qwen_config_text(state, &sizes[i].like, i % 2), fields);
}

static lt_model *open_text(const char *text)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
    return m;
}

static void published_sizes_have_their_published_totals(void **state)
{
    for (int i = 0; i < N_SIZES; i++) {
        lt_model *m = open_text(published(*state, i));
        assert_int_equal(lt_model_total(m, false), sizes[i].total);
        const lt_flops f = lt_model_flops(m, &(lt_work){.tokens = 1});
        assert_near(f.text, 2 * sizes[i].per_token, 0);
        assert_int_equal(lt_moe_layers(&m->config.text), sizes[i].like.layers);
        lt_model_destroy(m);
    }
}

static const char odd_experts[] =
    "\"num_local_experts\": 6, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 24, "
    "\"decoder_sparse_step\": 2, \"mlp_only_layers\": [1]";

// Of layers 0 to 4 every second one may be sparse, 1 and 3, and 1 is named as dense.
static void dense_layers_stand_among_sparse_ones(void **state)
{
    lt_model *m = open_text(moe_text(*state, lt_qwen_odd_config, odd_experts));
    for (int i = 0; i < 5; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "model.language_model.layers.%d.mlp.gate.weight", i);
        assert_int_equal(lt_model_param(m, name) != NULL, i == 3);
        (void)snprintf(name, sizeof name, "model.language_model.layers.%d.mlp.gate_proj.weight", i);
        assert_int_equal(lt_model_param(m, name) != NULL, i != 3);
    }
    assert_true(m->balance_block >= 0);
    const lt_block *balance = &m->blocks[m->balance_block];
    assert_string_equal(m->blocks[balance->inputs[0].block].name, "model.language_model.layers.3");
    assert_int_equal(balance->inputs[0].output, 1);
    lt_model_destroy(m);
}

static void without_a_sparse_layer_there_is_no_balance_loss(void **state)
{
    const char *fields = lt_test_replace(*state, odd_experts, "[1]", "[0, 1, 2, 3, 4]");
    lt_model *m = open_text(moe_text(*state, lt_qwen_odd_config, fields));
    assert_int_equal(m->balance_block, -1);
    lt_model_destroy(m);
}

// The table of experts goes from sparse layer to sparse layer.
static void the_table_of_experts_is_handed_on(void **state)
{
    const char *fields = lt_test_replace(*state, odd_experts, "step\": 2", "step\": 1");
    lt_model *m = open_text(moe_text(*state, lt_qwen_odd_config, fields));
    int32_t layer[5] = {-1, -1, -1, -1, -1};
    for (int32_t i = 0; i < m->n_blocks; i++) {
        for (int k = 0; k < 5; k++)
            if (strcmp(m->blocks[i].name, lt_path_of("model.language_model.layers.%d", k).s) == 0)
                layer[k] = i;
    }
    // 0 is the first, with deepstack; 1 is dense; 2 reads the table of 0
    assert_string_equal(m->blocks[layer[0]].kind->name, "first_sparse_layer_deepstack");
    assert_string_equal(m->blocks[layer[1]].kind->name, "decoder_layer_deepstack");
    assert_string_equal(m->blocks[layer[2]].kind->name, "sparse_layer");
    assert_int_equal(m->blocks[layer[2]].inputs[2].block, layer[0]);
    assert_int_equal(m->blocks[layer[3]].inputs[2].block, layer[2]);
    assert_ptr_equal(m->blocks[layer[3]].kind, m->blocks[layer[4]].kind);
    lt_model_destroy(m);
}

static void experts_are_a_module_of_their_own(void **state)
{
    lt_model *m = open_text(moe_text(*state, lt_qwen_odd_config, odd_experts));
    int64_t hits[1];
    assert_ok(lt_model_freeze(m, (const char *[]){"model.language_model.layers.{*}.mlp.experts"}, 1,
                              hits));
    assert_int_equal(hits[0], 2);
    lt_model_destroy(m);
}

static void a_file_without_experts_is_refused(void **state)
{
    lt_model_config c;
    const char *text = moe_text(*state, lt_qwen_odd_config, "\"num_experts\": 0");
    assert_fails(lt_model_config_parse(text, strlen(text), "config.json", NULL, &c), LT_ERR_CONFIG,
                 "num_experts (or num_local_experts) is missing or 0");
}

static void names_shapes_and_order_are_the_golden_ones(void **state)
{
    const char *config = lt_test_golden(*state, "model/qwen3_vl_moe/config.json");
    const char *path = lt_test_golden(*state, "model/qwen3_vl_moe/parameters.json");
    if (!config || !path)
        skip();
    lt_model *m = open_text(lt_test_read(*state, config, NULL));
    json_t *want = json_loads(lt_test_read(*state, path, NULL), 0, NULL), *dims;
    const char *name;
    int32_t i = 0;
    json_object_foreach(want, name, dims)
    {
        assert_true(i < m->n_params);
        assert_string_equal(m->params[i].name, name);
        assert_int_equal(m->params[i].rank, json_array_size(dims));
        for (int32_t d = 0; d < m->params[i].rank; d++)
            assert_int_equal(m->params[i].dim[d],
                             json_integer_value(json_array_get(dims, (size_t)d)));
        i++;
    }
    assert_int_equal(i, m->n_params);
    json_decref(want);
    lt_model_destroy(m);
}

LT_TEST_MAIN(LT_TEST(published_sizes_have_their_published_totals),
             LT_TEST(dense_layers_stand_among_sparse_ones),
             LT_TEST(without_a_sparse_layer_there_is_no_balance_loss),
             LT_TEST(the_table_of_experts_is_handed_on), LT_TEST(experts_are_a_module_of_their_own),
             LT_TEST(a_file_without_experts_is_refused),
             LT_TEST(names_shapes_and_order_are_the_golden_ones))
