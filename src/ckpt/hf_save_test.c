// SPDX-License-Identifier: Apache-2.0
#include "ckpt/hf_save.h"
#include "tests/kit/model_folder.h"
#include <jansson.h>

static const test_tensor tensors[] = {
    {"embed", 0, "BF16", 12},     {"layers.0.w", 0, "F16", 6},      {"layers.1.w", 1, "F32", 4},
    {"q.scale", 1, "F8_E4M3", 5}, {"mtp.layers.0.w", 1, "BF16", 7}, {"norm", 1, "BF16", 3},
    {"empty", 1, "F32", 0},       {"mask", 0, "BOOL", 3},           {"ids", 1, "I64", 2},
};
enum { N = sizeof tensors / sizeof tensors[0] };

static lt_hf *open_model(const char *dir)
{
    lt_hf *hf;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    return hf;
}

static lt_hf *test_source(void **state, const char *dir, int n_files)
{
    test_tensor list[N];
    memcpy(list, tensors, sizeof list);
    for (int i = 0; i < N; i++)
        list[i].file = n_files == 1 ? 0 : list[i].file;
    test_model(*state, dir, list, N, n_files);
    return open_model(dir);
}

static lt_hf_item item_named(const lt_hf_plan *plan, const char *name)
{
    int64_t i = 0;
    while (i < plan->n_items - 1 && strcmp(plan->items[i].name, name) != 0)
        i++;
    assert_string_equal(plan->items[i].name, name);
    return plan->items[i];
}

// What the index says of a tensor, and its total.
static void assert_index(void **state, const char *dir, int64_t total_size, int64_t n_names)
{
    json_error_t error;
    json_t *root = json_loads(test_get(*state, dir, LT_HF_INDEX), JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(root, "metadata"), "total_size")),
        total_size);
    assert_int_equal(json_object_size(json_object_get(root, "weight_map")), n_names);
    json_decref(root);
}

static int64_t total_bytes(const lt_hf *hf)
{
    int64_t total = 0;
    for (int64_t i = 0; i < lt_hf_count(hf); i++)
        total += (int64_t)lt_hf_at(hf, i)->bytes;
    return total;
}

// ---- the same again

// Masters in fp32 go back to each file's own dtype; tensors that no item names (MTP, other dtypes)
// keep their bytes: BR-65.
static void a_model_is_written_back_as_it_came(void **state)
{
    for (int n_files = 1; n_files <= 2; n_files++) {
        const char *dir = lt_test_path(*state, lt_test_dir(*state), "in"),
                   *out = lt_test_path(*state, lt_test_dir(*state), "a/b/out");
        lt_hf *source = test_source(state, dir, n_files);
        const lt_hf_plan plan = test_plan(*state, source, "mtp.");
        assert_int_equal(plan.n_items, 5); // not mtp, q.scale, mask, ids
        assert_ok(lt_hf_save(out, &plan, NULL));
        lt_hf *saved = open_model(out);
        assert_same_model(saved, source);
        assert_text_equal(test_get(*state, out, "config.json"),
                          test_get(*state, dir, "config.json"));
        if (n_files == 2)
            assert_index(state, out, total_bytes(source), N);
        assert_int_equal(lt_hf_has_index(saved), n_files == 2);
        lt_hf_close(saved);
        lt_hf_close(source);
    }
}

static void assert_same_file(void **state, const char *got_path, const char *want_path)
{
    size_t want_len, len;
    const char *want = lt_test_read(*state, want_path, &want_len),
               *got = lt_test_read(*state, got_path, &len);
    assert_int_equal(len, want_len);
    assert_memory_equal(got, want, len);
}

// Name and shape list, and here even every byte, are those of the published file: BR-63.
static void golden_models_come_out_as_they_were_published(void **state)
{
    static const char *const names[] = {"model/qwen3_vl", "model/qwen3_vl_moe",
                                        "model/qwen3_5_mtp"};
    const char *root = lt_test_dir(*state);
    for (size_t i = 0; i < 3; i++) {
        const char *dir = lt_test_golden(*state, names[i]),
                   *out = lt_test_path(*state, root, names[i]);
        if (dir == NULL) {
            print_message("golden/%s isn't here\n", names[i]);
            skip();
        }
        lt_hf *source = open_model(dir);
        const lt_hf_plan plan = test_plan(*state, source, "mtp.");
        assert_ok(lt_hf_save(out, &plan, NULL));
        lt_hf *saved = open_model(out);
        assert_same_model(saved, source);
        if (lt_st_meta_count(lt_hf_file(source, 0)) > 0) {
            assert_same_file(state, lt_test_path(*state, out, LT_HF_SINGLE),
                             lt_test_path(*state, dir, LT_HF_SINGLE));
        } else { // "format" is added where it was forgotten
            assert_string_equal(lt_st_meta(lt_hf_file(saved, 0), "format"), "pt");
        }
        lt_hf_close(saved);
        assert_text_equal(test_get(*state, out, "config.json"),
                          test_get(*state, dir, "config.json"));
        assert_false(lt_file_exists(lt_test_path(*state, out, "train-batch.json")));
        lt_hf_close(source);
    }
}

// ---- tied and untied heads

static const char tied_config[] = "{\n  \"model_type\": \"qwen3_vl\",\n  \"text_config\": {\n    "
                                  "\"tie_word_embeddings\": true,\n    \"x\": Infinity\n  }\n}\n";

// The base has no head of its own, the model does: it goes into the last file and into the index,
// and config.json says so. BR-59, BR-62.
static void a_head_that_the_source_lacks_is_added_everywhere(void **state)
{
    const test_tensor base[] = {{"embed", 0, "BF16", 8}, {"norm", 1, "BF16", 2}};
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "in"),
               *out = lt_test_path(*state, lt_test_dir(*state), "out");
    test_model(*state, dir, base, 2, 2);
    test_put(*state, dir, "config.json", tied_config);
    lt_hf *source = open_model(dir);
    lt_hf_plan plan = test_plan(*state, source, NULL);
    lt_hf_item items[3] = {item_named(&plan, "norm"), item_named(&plan, "embed"),
                           item_named(&plan, "embed")};
    lt_tensor head = lt_tensor_1d(LT_F32, 8);
    float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    head.data = values;
    items[2].name = "lm_head.weight";
    items[2].file_dtype = LT_BF16;
    items[2].ctx = &head;
    plan.items = items;
    plan.n_items = 3;
    plan.tie = LT_HF_UNTIED;
    assert_ok(lt_hf_save(out, &plan, NULL));
    lt_hf *saved = open_model(out);
    const lt_st_tensor *t = lt_hf_find(saved, "lm_head.weight");
    assert_non_null(t);
    assert_string_equal(t->dtype_text, "BF16");
    assert_text_contains(t->file, "model-00002-of-00002.safetensors");
    assert_index(state, out, 16 + 4 + 16, 3);
    assert_text_contains(test_get(*state, out, LT_HF_INDEX),
                         "\"lm_head.weight\": \"model-00002-of-00002.safetensors\"");
    float back[8];
    assert_ok(lt_st_read(t, 0, 8, LT_F32, back));
    assert_memory_equal(back, values, sizeof back);
    assert_text_equal(test_get(*state, out, "config.json"),
                      "{\n  \"tie_word_embeddings\": false,\n  \"model_type\": \"qwen3_vl\",\n  "
                      "\"text_config\": {\n    "
                      "\"tie_word_embeddings\": false,\n    \"x\": Infinity\n  }\n}\n");
    lt_hf_close(saved);
    lt_hf_close(source);
}

// One buffer with two names: the second name is written exactly where the source has it. BR-59.
static void a_tied_head_follows_the_source(void **state)
{
    static const char *const aliases[] = {"lm_head.weight"};
    const test_tensor both[] = {
        {"embed", 0, "BF16", 8}, {"lm_head.weight", 0, "BF16", 8}, {"norm", 0, "F32", 2}};
    for (int with_head = 0; with_head < 2; with_head++) {
        const char *dir = lt_test_path(*state, lt_test_dir(*state), "in"),
                   *out = lt_test_path(*state, lt_test_dir(*state), "out");
        const test_tensor list[] = {both[0], with_head ? both[1] : both[2], both[2]};
        test_model(*state, dir, list, with_head ? 3 : 2, 1);
        lt_hf *source = open_model(dir);
        lt_hf_plan plan = test_plan(*state, source, "lm_head");
        lt_hf_item items[2] = {item_named(&plan, "embed"), item_named(&plan, "norm")};
        items[0].aliases = aliases;
        items[0].n_aliases = 1;
        plan.items = items;
        assert_ok(lt_hf_save(out, &plan, NULL));
        lt_hf *saved = open_model(out);
        assert_int_equal(lt_hf_count(saved), with_head ? 3 : 2);
        assert_same_tensor(lt_hf_find(saved, "embed"), lt_hf_find(source, "embed"));
        if (with_head) // the buffer's value, not the old bytes of the file
            assert_memory_equal(lt_hf_find(saved, "lm_head.weight")->data,
                                lt_hf_find(source, "embed")->data, 16);
        lt_hf_close(saved);
        lt_hf_close(source);
    }
}

// ---- dtypes

static void a_save_dtype_casts_floats_and_config_and_nothing_else(void **state)
{
    static const char config[] = "{\"torch_dtype\": \"bfloat16\", \"vision_config\": {\"dtype\": "
                                 "\"bfloat16\"}, \"other\": {\"dtype\": "
                                 "\"bfloat16\"}, \"name\": \"bfloat16\", \"text_config\": "
                                 "{\"deep\": {\"dtype\": \"bfloat16\"}}, \"eps\": 1e-06}";
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "in"),
               *out = lt_test_path(*state, lt_test_dir(*state), "out");
    lt_hf_close(test_source(state, dir, 2));
    test_put(*state, dir, "config.json", config);
    lt_hf *source = open_model(dir);
    lt_hf_plan plan = test_plan(*state, source, "mtp.");
    plan.save_dtype = LT_F32;
    assert_ok(lt_hf_save(out, &plan, NULL));
    lt_hf *saved = open_model(out);
    for (int64_t i = 0; i < plan.n_items; i++) {
        const lt_st_tensor *t = lt_hf_find(saved, plan.items[i].name);
        const lt_tensor *want = plan.items[i].ctx;
        assert_string_equal(t->dtype_text, "F32");
        if (t->bytes > 0)
            assert_memory_equal(t->data, want->data, t->bytes);
    }
    static const char *const carried[] = {"mtp.layers.0.w", "q.scale", "mask", "ids"};
    for (int i = 0; i < 4; i++)
        assert_same_tensor(lt_hf_find(saved, carried[i]), lt_hf_find(source, carried[i]));
    assert_index(state, out, total_bytes(saved), N);
    assert_text_equal(test_get(*state, out, "config.json"),
                      "{\"torch_dtype\": \"float32\", \"vision_config\": {\"dtype\": \"float32\"}, "
                      "\"other\": {\"dtype\": "
                      "\"bfloat16\"}, \"name\": \"bfloat16\", \"text_config\": {\"deep\": "
                      "{\"dtype\": \"bfloat16\"}}, \"eps\": 1e-06}");
    lt_hf_close(saved);
    lt_hf_close(source);
}

// ---- without a source

static void random_weights_get_files_up_to_the_limit(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const int64_t sizes[] = {10, 30, 300, 10};
    static const char *const want[] = {
        "model-00001-of-00003.safetensors", "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"};
    lt_tensor zeros = lt_tensor_1d(LT_F32, 300);
    zeros.data = lt_test_take(*state, 1200);
    lt_hf_item items[4];
    for (int i = 0; i < 4; i++) {
        items[i] = (lt_hf_item){.name = names[i],
                                .rank = 1,
                                .dim = {sizes[i]},
                                .from = LT_F32,
                                .file_dtype = LT_BF16,
                                .fetch = lt_st_fetch_tensor,
                                .ctx = &zeros};
    }
    lt_hf_plan plan = lt_hf_plan_default();
    const lt_hf_text texts[] = {{"config.json", "{}", 2}};
    plan.items = items;
    plan.n_items = 4;
    plan.texts = texts;
    plan.n_texts = 1;
    const char *root = lt_test_dir(*state), *one = lt_test_path(*state, root, "one"),
               *many = lt_test_path(*state, root, "many");
    assert_ok(lt_hf_save(one, &plan, NULL));
    assert_true(lt_file_exists(lt_test_path(*state, one, LT_HF_SINGLE)));
    assert_false(lt_file_exists(lt_test_path(*state, one, LT_HF_INDEX)));
    assert_text_equal(test_get(*state, one, "config.json"), "{}");
    plan.shard_bytes = 80; // exactly a and b
    assert_ok(lt_hf_save(many, &plan, NULL));
    lt_hf *saved = open_model(many);
    assert_int_equal(lt_hf_n_files(saved), 3);
    for (int i = 0; i < 4; i++)
        assert_text_contains(lt_hf_find(saved, names[i])->file, want[i]);
    assert_string_equal(lt_st_meta(lt_hf_file(saved, 0), "format"), "pt");
    assert_index(state, many, 700, 4);
    assert_text_equal(test_get(*state, many, LT_HF_INDEX),
                      "{\n  \"metadata\": {\n    \"total_parameters\": 350,\n    \"total_size\": "
                      "700\n  },\n  \"weight_map\": {\n    "
                      "\"a\": \"model-00001-of-00003.safetensors\",\n    \"b\": "
                      "\"model-00001-of-00003.safetensors\",\n    "
                      "\"c\": \"model-00002-of-00003.safetensors\",\n    \"d\": "
                      "\"model-00003-of-00003.safetensors\"\n  }\n}\n");
    lt_hf_close(saved);
}

// ---- the small files

// The limits that were really used travel with the model: BR-31.
static void small_files_are_copied_replaced_and_edited(void **state)
{
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "in"),
               *out = lt_test_path(*state, lt_test_dir(*state), "out");
    lt_hf_close(test_source(state, dir, 1));
    test_put(*state, dir, "preprocessor_config.json",
             "{\n  \"size\": {\"longest_edge\": 16777216, \"shortest_edge\": 65536}\n}\n");
    test_put(*state, dir, "tokenizer.json", "{\"t\": 1}");
    test_put(*state, dir, "chat_template.jinja", "{{ old }}");
    test_put(*state, dir, "readme.txt", "not this");
    lt_hf *source = open_model(dir);
    lt_hf_plan plan = test_plan(*state, source, NULL);
    const lt_hf_text texts[] = {{"chat_template.jinja", "{{ new }}", 9},
                                {"extra_config.json", "", 0}};
    const lt_hf_edit edits[] = {{"preprocessor_config.json", "size.longest_edge", "262144"},
                                {"preprocessor_config.json", "size.shortest_edge", "1024"},
                                {"video_preprocessor_config.json", "size.longest_edge", "1"}};
    plan.texts = texts;
    plan.n_texts = 2;
    plan.edits = edits;
    plan.n_edits = 3;
    assert_ok(lt_hf_save(out, &plan, NULL));
    assert_text_equal(test_get(*state, out, "preprocessor_config.json"),
                      "{\n  \"size\": {\"longest_edge\": 262144, \"shortest_edge\": 1024}\n}\n");
    assert_text_equal(test_get(*state, out, "tokenizer.json"), "{\"t\": 1}");
    assert_text_equal(test_get(*state, out, "chat_template.jinja"), "{{ new }}");
    assert_text_equal(test_get(*state, out, "extra_config.json"), "");
    assert_false(lt_file_exists(lt_test_path(*state, out, "readme.txt")));
    assert_false(lt_file_exists(lt_test_path(*state, out, "video_preprocessor_config.json")));
    const lt_hf_edit impossible = {"tokenizer.json", "t.x", "1"};
    int64_t bytes;
    plan.edits = &impossible;
    plan.n_edits = 1;
    assert_fails(lt_hf_measure(&plan, &bytes), LT_ERR_FORMAT, "tokenizer.json: t.x can't be set");
    lt_hf_close(source);
}

static void what_cannot_be_saved_is_found_before_anything_is_written(void **state)
{
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "in");
    lt_hf *source = test_source(state, dir, 1);
    lt_hf_plan plan = test_plan(*state, source, NULL);
    lt_hf_item items[2] = {item_named(&plan, "embed"), item_named(&plan, "embed")};
    int64_t bytes = 0;
    assert_ok(lt_hf_measure(&plan, &bytes));
    assert_true(bytes >= total_bytes(source));
    plan.items = items;
    plan.n_items = 2;
    assert_fails(lt_hf_measure(&plan, &bytes), LT_ERR_FORMAT, "tensor embed stands twice");
    const lt_hf_text texts[] = {{"x.json", "", 0}, {"x.json", "", 0}};
    plan.n_items = 1;
    plan.texts = texts;
    plan.n_texts = 2;
    assert_fails(lt_hf_measure(&plan, &bytes), LT_ERR_FORMAT, "file x.json stands twice");
    plan.n_texts = 0;
    items[0].dim[0] = INT64_MAX / 2;
    assert_fails(lt_hf_measure(&plan, &bytes), LT_ERR_SHAPE, "overflows");
    lt_hf_close(source);
}

LT_TEST_MAIN(LT_TEST(a_model_is_written_back_as_it_came),
             LT_TEST(golden_models_come_out_as_they_were_published),
             LT_TEST(a_head_that_the_source_lacks_is_added_everywhere),
             LT_TEST(a_tied_head_follows_the_source),
             LT_TEST(a_save_dtype_casts_floats_and_config_and_nothing_else),
             LT_TEST(random_weights_get_files_up_to_the_limit),
             LT_TEST(small_files_are_copied_replaced_and_edited),
             LT_TEST(what_cannot_be_saved_is_found_before_anything_is_written))
