// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"
#include "tests/kit/lt_qwen.h"
#include <jansson.h>
#include <string.h>

static lt_model *open_text(const char *text, const lt_model_cut *cut, lt_head head)
{
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", cut, &config));
    assert_ok(lt_model_create(&config, head, &m));
    return m;
}

static lt_model *open_size(void *state, int size)
{
    return open_text(lt_qwen_config_text(state, &lt_qwen_sizes[size], size % 2), NULL,
                     LT_HEAD_AS_CONFIG);
}

static lt_model *open_golden(void *state)
{
    const char *path = lt_test_golden(state, "model/qwen3_vl/config.json");
    assert_non_null(path);
    return open_text(lt_test_read(state, path, NULL), NULL, LT_HEAD_AS_CONFIG);
}

static int32_t find_block(const lt_model *m, const char *name)
{
    for (int32_t i = 0; i < m->n_blocks; i++)
        if (strcmp(m->blocks[i].name, name) == 0)
            return i;
    fail_msg("the model has no block %s", name);
    return -1;
}

static const char *input_name(const lt_model *m, const char *block, int input)
{
    return m->blocks[m->blocks[find_block(m, block)].inputs[input].block].name;
}

static void published_sizes_have_their_published_totals(void **state)
{
    for (int i = 0; i < lt_n_qwen_sizes; i++) {
        const lt_qwen_size *size = &lt_qwen_sizes[i];
        lt_model *m = open_size(*state, i);
        assert_int_equal(lt_model_total(m, false), size->total);
        assert_int_equal(lt_model_total(m, true), size->total);
        assert_int_equal(m->tied, size->tied);
        lt_vec rows = LT_VEC_OF(lt_param_count);
        assert_ok(lt_model_count(m, &rows));
        assert_int_equal(rows.n, size->tied ? 2 : 3);
        assert_string_equal(LT_AT(&rows, lt_param_count, 0).module, "model.visual");
        assert_int_equal(LT_AT(&rows, lt_param_count, 0).trainable, size->tower);
        assert_string_equal(LT_AT(&rows, lt_param_count, 1).module, "model.language_model");
        if (!size->tied) {
            assert_string_equal(LT_AT(&rows, lt_param_count, 2).module, "lm_head");
            assert_int_equal(LT_AT(&rows, lt_param_count, 2).trainable, size->head);
        }
        lt_vec_deinit(&rows);
        lt_model_destroy(m);
    }
}

static void names_shapes_and_order_are_the_golden_ones(void **state)
{
    lt_model *m = open_golden(*state);
    const char *path = lt_test_golden(*state, "model/qwen3_vl/parameters.json");
    assert_non_null(path);
    json_t *want = json_loads(lt_test_read(*state, path, NULL), 0, NULL), *dims;
    const char *name;
    int32_t i = 0;
    json_object_foreach(want, name, dims)
    {
        assert_true(i < m->n_params);
        const lt_param *p = &m->params[i];
        assert_string_equal(p->name, name);
        assert_int_equal(p->id, i);
        assert_int_equal(p->rank, json_array_size(dims));
        for (int32_t d = 0; d < p->rank; d++)
            assert_int_equal(p->dim[d], json_integer_value(json_array_get(dims, (size_t)d)));
        assert_ptr_equal(lt_model_param(m, name), p);
        i++;
    }
    assert_int_equal(i, m->n_params);
    json_decref(want);
    lt_model_destroy(m);
}

// BR-08: features of the tower reach the layers that they are meant for, by name.
static void blocks_read_earlier_blocks_and_deepstack_skips_ahead(void **state)
{
    lt_model *m = open_golden(*state);
    for (int32_t i = 0; i < m->n_blocks; i++)
        for (int32_t k = 0; k < m->blocks[i].kind->n_in; k++)
            assert_true(m->blocks[i].inputs[k].block < i);
    assert_string_equal(input_name(m, "model.visual.deepstack_merger_list.1", 0),
                        "model.visual.blocks.2");
    assert_string_equal(input_name(m, "model.visual.merger", 0), "model.visual.blocks.3");
    assert_string_equal(input_name(m, "model.language_model.embed_tokens", 0),
                        "model.visual.merger");
    assert_string_equal(input_name(m, "model.language_model.layers.2", 2),
                        "model.visual.deepstack_merger_list.2");
    assert_int_equal(m->blocks[find_block(m, "model.language_model.layers.3")].kind->n_in, 2);
    assert_string_equal(input_name(m, "lm_head", 0), "model.language_model.norm");
    assert_string_equal(input_name(m, "lm_head.logits", 0), "model.language_model.norm");
    assert_int_equal(m->blocks[m->loss_block].role, LT_BLOCK_LOSS);
    assert_int_equal(m->blocks[m->logits_block].role, LT_BLOCK_LOGITS);
    // layers of one kind share it, and their parameters differ
    const lt_block *a = &m->blocks[find_block(m, "model.visual.blocks.0")],
                   *b = &m->blocks[find_block(m, "model.visual.blocks.3")];
    assert_ptr_equal(a->kind, b->kind);
    assert_string_equal(m->params[b->params[0]].name, "model.visual.blocks.3.norm1.weight");
    lt_model_destroy(m);
}

static void a_tied_head_is_the_embedding_itself(void **state)
{
    const char *text = lt_qwen_config_text(*state, &lt_qwen_sizes[2], false); // says untied
    lt_model *own = open_text(text, NULL, LT_HEAD_AS_CONFIG),
             *tied = open_text(text, NULL, LT_HEAD_TIED);
    assert_true(tied->tied);
    assert_false(own->tied);
    assert_int_equal(tied->n_params, own->n_params - 1);
    assert_int_equal(tied->head_param, tied->embed_param);
    assert_int_not_equal(own->head_param, own->embed_param);
    assert_ptr_equal(lt_model_param(tied, "lm_head.weight"),
                     lt_model_param(tied, "model.language_model.embed_tokens.weight"));
    assert_int_equal(tied->params[tied->embed_param].n_aliases, 1);
    assert_string_equal(tied->params[tied->embed_param].aliases[0], "lm_head.weight");
    assert_int_equal(tied->blocks[tied->loss_block].params[0], tied->embed_param);
    assert_int_equal(tied->blocks[tied->logits_block].params[0], tied->embed_param);
    lt_model_destroy(own);
    lt_model_destroy(tied);
    lt_model *forced = open_text(lt_qwen_config_text(*state, &lt_qwen_sizes[0], false), NULL,
                                 LT_HEAD_OWN); // says tied
    assert_false(forced->tied);
    assert_string_equal(lt_model_head_name(&forced->config), "lm_head.weight");
    lt_model_destroy(forced);
}

static void awkward_sizes_build(void **state)
{
    (void)state;
    lt_model *m = open_text(lt_qwen_odd_config, NULL, LT_HEAD_AS_CONFIG);
    const struct {
        const char *name;
        int rank;
        int64_t dim[5];
    } want[] = {
        {"model.visual.patch_embed.proj.weight", 5, {40, 3, 2, 16, 16}},
        {"model.visual.pos_embed.weight", 2, {36, 40}},
        {"model.visual.deepstack_merger_list.1.norm.weight", 1, {160}},
        {"model.visual.merger.linear_fc2.weight", 2, {64, 160}},
        {"model.language_model.layers.4.self_attn.q_proj.weight", 2, {192, 64}},
        {"model.language_model.layers.4.self_attn.k_proj.weight", 2, {32, 64}},
        {"model.language_model.layers.4.self_attn.o_proj.weight", 2, {64, 192}},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const lt_param *p = lt_model_param(m, want[i].name);
        assert_non_null(p);
        assert_int_equal(p->rank, want[i].rank);
        assert_memory_equal(p->dim, want[i].dim, (size_t)p->rank * sizeof p->dim[0]);
    }
    assert_true(m->tied);
    assert_null(lt_model_param(m, "model.visual.deepstack_merger_list.2.norm.weight"));
    assert_int_equal(m->pixel_width, 1536);
    lt_model_destroy(m);
}

static void a_cut_drops_blocks_and_mergers_beyond_it(void **state)
{
    const char *text = lt_qwen_config_text(*state, &lt_qwen_sizes[0], false);
    lt_model *m =
        open_text(text, &(lt_model_cut){.text_layers = 3, .vision_depth = 12}, LT_HEAD_AS_CONFIG);
    assert_null(lt_model_param(m, "model.language_model.layers.3.mlp.up_proj.weight"));
    assert_null(lt_model_param(m, "model.visual.deepstack_merger_list.2.norm.weight"));
    assert_non_null(lt_model_param(m, "model.visual.deepstack_merger_list.1.norm.weight"));
    assert_int_equal(m->blocks[find_block(m, "model.language_model.layers.2")].kind->n_in, 2);
    lt_model_destroy(m);
}

// As many deepstack features as layers are read at most: the third merger is stored, never run, and
// never trained.
static void mergers_that_no_layer_reads_stay_as_they_are(void **state)
{
    const char *text = lt_qwen_config_text(*state, &lt_qwen_sizes[0], false);
    lt_model *m = open_text(text, &(lt_model_cut){.text_layers = 2}, LT_HEAD_AS_CONFIG);
    const lt_param *idle = lt_model_param(m, "model.visual.deepstack_merger_list.2.norm.weight");
    const lt_param *busy = lt_model_param(m, "model.visual.deepstack_merger_list.1.norm.weight");
    assert_non_null(idle);
    assert_false(idle->in_use || idle->trainable);
    assert_true(busy->in_use && busy->trainable);
    for (int32_t i = 0; i < m->n_blocks; i++)
        assert_string_not_equal(m->blocks[i].name, "model.visual.deepstack_merger_list.2");
    lt_model_destroy(m);
}

static void freezing_follows_module_paths_and_aliases(void **state)
{
    lt_model *m = open_size(*state, 0); // tied
    int64_t hits[3];
    assert_ok(lt_model_freeze(
        m, (const char *[]){"model.visual", "model.language_model.layers.{0-1}", "mtp"}, 3, hits));
    const lt_param *p = lt_model_param(m, "model.visual.merger.norm.bias");
    assert_false(p->trainable);
    assert_false(lt_model_param(m, "model.language_model.layers.1.mlp.up_proj.weight")->trainable);
    assert_true(lt_model_param(m, "model.language_model.layers.2.mlp.up_proj.weight")->trainable);
    assert_int_equal(hits[0], 3 + 24 * 12 + 4 * 6);
    assert_int_equal(hits[1], 2 * 11);
    assert_int_equal(hits[2], 0);
    assert_int_equal(lt_model_total(m, false) - lt_model_total(m, true) -
                         2 * (int64_t)(50331648 + 2 * 128 + 2 * 2048),
                     lt_qwen_sizes[0].tower);
    // a parameter's own name is no module
    assert_ok(lt_model_freeze(m, (const char *[]){"model.language_model.norm.weight"}, 1, hits));
    assert_int_equal(hits[0], 0);
    assert_true(lt_model_param(m, "model.language_model.embed_tokens.weight")->trainable);
    assert_ok(lt_model_freeze(m, (const char *[]){"lm_head"}, 1, hits));
    assert_int_equal(hits[0], 1);
    assert_false(lt_model_param(m, "model.language_model.embed_tokens.weight")->trainable);
    assert_fails(lt_model_freeze(m, (const char *[]){"model.{a}"}, 1, NULL), LT_ERR_CONFIG,
                 "model.{a}");
    assert_ok(lt_model_freeze(m, (const char *[]){"*"}, 1, NULL));
    assert_int_equal(lt_model_total(m, true), 0);
    lt_model_destroy(m);
}

static void every_module_path_is_listed_once(void **state)
{
    lt_model *m = open_golden(*state);
    lt_vec paths = LT_VEC_OF(const char *);
    assert_ok(lt_model_modules(m, &paths));
    const char *want[] = {"model",
                          "model.visual",
                          "model.visual.patch_embed",
                          "model.visual.patch_embed.proj",
                          "model.visual.pos_embed",
                          "model.visual.blocks",
                          "model.visual.blocks.0",
                          "model.visual.blocks.0.norm1"};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_string_equal(LT_AT(&paths, const char *, i), want[i]);
    assert_string_equal(LT_AT(&paths, const char *, paths.n - 1), "lm_head");
    for (int64_t i = 0; i < paths.n; i++)
        for (int64_t k = 0; k < i; k++)
            assert_string_not_equal(LT_AT(&paths, const char *, i), LT_AT(&paths, const char *, k));
    lt_vec_deinit(&paths);
    lt_model_destroy(m);
}

static void a_frozen_tower_needs_no_gradient_but_what_reads_it_does(void **state)
{
    lt_model *m = open_golden(*state);
    bool needs[LT_MAX_BLOCKS];
    lt_model_needs_grad(m, needs);
    assert_false(needs[find_block(m, "model.language_model.rotary_emb")]);
    assert_false(needs[find_block(m, "model.visual.rotary_pos_emb")]);
    assert_true(needs[find_block(m, "model.visual.patch_embed")]);
    assert_ok(lt_model_freeze(m,
                              (const char *[]){"model.visual", "model.language_model.embed_tokens",
                                               "model.language_model.layers.0"},
                              3, NULL));
    lt_model_needs_grad(m, needs);
    assert_false(needs[find_block(m, "model.visual.merger")]);
    assert_false(needs[find_block(m, "model.language_model.layers.0")]);
    assert_true(needs[find_block(m, "model.language_model.layers.1")]);
    assert_true(needs[m->loss_block]);
    lt_model_destroy(m);
    m = open_golden(*state); // a trainable merger alone: everything after it carries a gradient
    assert_ok(lt_model_freeze(m,
                              (const char *[]){"lm_head", "model.language_model",
                                               "model.visual.{*}", "model.visual.merger",
                                               "model.visual.blocks", "model.visual.p*",
                                               "model.visual.deepstack_merger_list.{1-2}"},
                              7, NULL));
    lt_model_needs_grad(m, needs);
    assert_false(needs[find_block(m, "model.visual.blocks.3")]);
    assert_false(needs[find_block(m, "model.language_model.embed_tokens")]);
    assert_true(needs[find_block(m, "model.visual.deepstack_merger_list.0")]);
    assert_true(needs[find_block(m, "model.language_model.layers.0")]);
    lt_model_destroy(m);
}

static void first_values_depend_on_seed_name_and_index_alone(void **state)
{
    enum { N = 20000 };
    lt_model *m = open_golden(*state);
    float *a = lt_test_take(*state, N * sizeof *a), *b = lt_test_take(*state, N * sizeof *b);
    const lt_param *w = lt_model_param(m, "model.language_model.layers.0.mlp.up_proj.weight");
    lt_model_init_values(w, 7, 0, N, a);
    lt_model_init_values(w, 7, 1000, 100, b);
    assert_memory_equal(a + 1000, b, 100 * sizeof *a);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    assert_near(sum / N, 0, 4 * 0.02 / 141); // four standard errors
    assert_near(squares / N, 4e-4, 4 * 4e-4 * 0.01);
    lt_model_init_values(lt_model_param(m, "model.language_model.layers.1.mlp.up_proj.weight"), 7,
                         0, 100, b);
    assert_memory_not_equal(a, b, 100 * sizeof *a);
    lt_model_init_values(w, 8, 0, 100, b);
    assert_memory_not_equal(a, b, 100 * sizeof *a);
    lt_model_init_values(lt_model_param(m, "model.visual.blocks.0.norm1.weight"), 7, 0, 2, b);
    assert_near((double)b[1], 1, 0);
    lt_model_init_values(lt_model_param(m, "model.visual.blocks.0.norm1.bias"), 7, 0, 2, b);
    assert_near((double)b[1], 0, 0);
    lt_model_destroy(m);
}

static void patches_stay_a_merge_square_of_the_merged_tokens(void **state)
{
    lt_model *m = open_golden(*state);
    for (int64_t merged = 0; merged < 3000; merged++) {
        const lt_extents real = {.n = {[LT_EXT_TOKENS] = merged + 5,
                                       [LT_EXT_SAMPLES] = 1,
                                       [LT_EXT_PATCHES] = 4 * merged,
                                       [LT_EXT_MERGED] = merged,
                                       [LT_EXT_FRAMES] = 1}};
        const lt_extents cap = lt_extents_bucket(&real);
        assert_true(lt_extents_fit(&real, &cap));
        assert_int_equal(cap.n[LT_EXT_PATCHES], 4 * cap.n[LT_EXT_MERGED]);
    }
    lt_model_destroy(m);
}

LT_TEST_MAIN(LT_TEST(published_sizes_have_their_published_totals),
             LT_TEST(names_shapes_and_order_are_the_golden_ones),
             LT_TEST(blocks_read_earlier_blocks_and_deepstack_skips_ahead),
             LT_TEST(a_tied_head_is_the_embedding_itself), LT_TEST(awkward_sizes_build),
             LT_TEST(a_cut_drops_blocks_and_mergers_beyond_it),
             LT_TEST(mergers_that_no_layer_reads_stay_as_they_are),
             LT_TEST(freezing_follows_module_paths_and_aliases),
             LT_TEST(every_module_path_is_listed_once),
             LT_TEST(a_frozen_tower_needs_no_gradient_but_what_reads_it_does),
             LT_TEST(first_values_depend_on_seed_name_and_index_alone),
             LT_TEST(patches_stay_a_merge_square_of_the_merged_tokens))
