// SPDX-License-Identifier: Apache-2.0
#include "ckpt/hf_folder.h"
#include "tests/kit/model_folder.h"
#include <unistd.h>

static const test_tensor tensors[] = {
    {"embed", 0, "BF16", 12},     {"layers.0.w", 0, "F16", 6}, {"layers.1.w", 1, "F32", 4},
    {"q.scale", 1, "F8_E4M3", 5}, {"norm", 1, "BF16", 3},
};
enum { N = sizeof tensors / sizeof tensors[0] };

static void a_sharded_folder_is_one_set_of_names(void **state)
{
    const char *dir = lt_test_dir(*state);
    test_model(*state, dir, tensors, N, 2);
    lt_hf *hf;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    assert_true(lt_hf_has_index(hf));
    assert_int_equal(lt_hf_n_files(hf), 2);
    assert_int_equal(lt_hf_count(hf), N);
    for (int i = 0; i < N; i++) {
        const lt_st_item want = test_item(*state, &tensors[i]);
        assert_same_tensor(lt_hf_find(hf, tensors[i].name), &want.tensor);
        assert_text_contains(lt_hf_find(hf, tensors[i].name)->file,
                             test_shard_name(*state, tensors[i].file, 2));
    }
    assert_null(lt_hf_find(hf, "lm_head"));
    lt_hf_close(hf);
}

static void a_tensor_that_is_needed_is_checked_by_name_and_file(void **state)
{
    const char *dir = lt_test_dir(*state);
    test_model(*state, dir, tensors, N, 1);
    const test_tensor single[] = {{"embed", 0, "BF16", 12},
                                  {"ids", 0, "I64", 2},
                                  {"q", 0, "F8_E5M2", 3},
                                  {"rest", 0, "F32", 1}};
    test_model(*state, dir, single, 4, 1);
    lt_hf *hf;
    const lt_st_tensor *t = NULL;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    assert_false(lt_hf_has_index(hf));
    assert_ok(lt_hf_need(hf, "embed", 1, (int64_t[]){12}, &t));
    assert_ptr_equal(t, lt_hf_find(hf, "embed"));
    assert_fails(lt_hf_need(hf, "lm_head.weight", 1, (int64_t[]){12}, &t), LT_ERR_NOT_FOUND,
                 "tensor lm_head.weight is missing from /tmp");
    assert_fails(lt_hf_need(hf, "embed", 1, (int64_t[]){13}, &t), LT_ERR_SHAPE,
                 "model.safetensors: tensor embed is BF16[12] and the model needs BF16[13]");
    assert_fails(lt_hf_need(hf, "embed", 2, (int64_t[]){3, 4}, &t), LT_ERR_SHAPE, "BF16[3,4]");
    assert_fails(lt_hf_need(hf, "ids", 1, (int64_t[]){2}, &t), LT_ERR_DTYPE,
                 "tensor ids is I64[2]");
    assert_fails(lt_hf_need(hf, "q", 1, (int64_t[]){3}, &t), LT_ERR_DTYPE,
                 "tensor q is F8_E5M2[3]");
    lt_vec unused = LT_VEC_OF(const char *);
    lt_hf_mark_used(hf, "rest");
    lt_hf_mark_used(hf, "nowhere");
    assert_ok(lt_hf_unused(hf, &unused));
    assert_int_equal(unused.n, 2); // what failed its check is still unused
    assert_string_equal(LT_AT(&unused, const char *, 0), "ids");
    assert_string_equal(LT_AT(&unused, const char *, 1), "q");
    lt_vec_deinit(&unused);
    lt_hf_close(hf);
}

static void a_folder_without_weights_says_what_was_looked_for(void **state)
{
    const char *dir = lt_test_dir(*state);
    lt_hf *hf;
    assert_fails(lt_hf_open("Qwen/Qwen3-VL-4B", NULL, &hf), LT_ERR_NOT_FOUND,
                 "no folder Qwen/Qwen3-VL-4B: models aren't downloaded");
    assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_NOT_FOUND,
                 "neither model.safetensors nor model.safetensors.index.json");
    test_put(*state, dir, "pytorch_model.bin", "x");
    assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_NOT_FOUND, "pytorch_model.bin isn't read");
    assert_fails(lt_hf_open(lt_test_path(*state, dir, "pytorch_model.bin"), NULL, &hf),
                 LT_ERR_NOT_FOUND, "is a file");
    assert_false(lt_hf_has_weights(dir));
    test_model(*state, dir, tensors, N, 2);
    assert_true(lt_hf_has_weights(dir));
}

static void a_missing_or_cut_shard_is_named_with_a_tensor(void **state)
{
    const char *dir = lt_test_dir(*state);
    test_model(*state, dir, tensors, N, 2);
    const char *shard = lt_test_path(*state, dir, "model-00002-of-00002.safetensors");
    size_t len;
    lt_hf *hf;
    const char *bytes = lt_test_read(*state, shard, &len);
    lt_test_write(shard, bytes, len - 1);
    assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_FORMAT,
                 "model-00002-of-00002.safetensors: the file is cut short: tensor q.scale");
    lt_test_write(shard, bytes, 100);
    assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_FORMAT,
                 "model-00002-of-00002.safetensors: the file is cut short");
    assert_int_equal(unlink(shard), 0);
    assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_NOT_FOUND,
                 "model-00002-of-00002.safetensors is missing: by model.safetensors.index.json it "
                 "holds 3 tensors, layers.1.w among them");
}

static void an_index_that_lies_is_refused(void **state)
{
    static const struct {
        const char *index, *message;
    } cases[] = {
        {"{", "not a valid index"},
        {"[]", "weight_map"},
        {"{\"weight_map\": []}", "weight_map"},
        {"{\"weight_map\": {}}", "weight_map is empty"},
        {"{\"weight_map\": {\"embed\": 1}}", "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"../x.safetensors\"}}",
         "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"/etc/passwd\"}}",
         "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"a\\\\b\"}}", "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"..\"}}", "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"\"}}", "tensor embed: its file has to be a name"},
        {"{\"weight_map\": {\"embed\": \"a\", \"embed\": \"b\"}}", "duplicate"},
        {"{\"weight_map\": {\"ghost\": \"model-00001-of-00002.safetensors\"}}",
         "tensor ghost should be in model-00001-of-00002.safetensors, which doesn't hold it"},
        {"{\"weight_map\": {\"norm\": \"model-00001-of-00002.safetensors\"}}",
         "tensor norm should be in model-00001"},
    };
    const char *dir = lt_test_dir(*state);
    test_model(*state, dir, tensors, N, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_hf *hf;
        test_put(*state, dir, LT_HF_INDEX, cases[i].index);
        assert_fails(lt_hf_open(dir, NULL, &hf), LT_ERR_FORMAT, cases[i].message);
        assert_text_contains(lt_error_message(), LT_HF_INDEX);
    }
}

static void a_tensor_in_two_shards_counts_where_the_index_says(void **state)
{
    const char *dir = lt_test_dir(*state);
    const test_tensor twice[] = {
        {"a", 0, "F32", 1}, {"w", 0, "F32", 2}, {"b", 1, "F32", 1}, {"w", 1, "F32", 3}};
    test_model(*state, dir, tensors, N, 2);
    for (int f = 0; f < 2; f++) {
        const lt_st_item items[] = {test_item(*state, &twice[f * 2L]),
                                    test_item(*state, &twice[f * 2L + 1])};
        assert_ok(lt_st_write(lt_test_path(*state, dir, test_shard_name(*state, f, 2)), items, 2,
                              NULL, 0));
    }
    lt_buf lines = {0};
    const lt_log log = {test_log_line, &lines};
    lt_hf *hf;
#define MAP(rest)                                                                                  \
    "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", \"b\": "                       \
    "\"model-00002-of-00002.safetensors\"" rest "}}"
    test_put(*state, dir, LT_HF_INDEX, MAP(", \"w\": \"model-00002-of-00002.safetensors\""));
    assert_ok(lt_hf_open(dir, &log, &hf));
    assert_int_equal(lt_hf_find(hf, "w")->dim[0], 3);
    assert_text_contains(lines.data, "its tensor w is passed over");
    lt_hf_close(hf);
    test_put(*state, dir, LT_HF_INDEX, MAP(""));
    assert_fails(lt_hf_open(dir, &log, &hf), LT_ERR_FORMAT, "tensor w stands in ");
    lt_buf_deinit(&lines);
}

static void a_tensor_outside_the_index_is_taken_with_a_note(void **state)
{
    const char *dir = lt_test_dir(*state);
    lt_buf lines = {0};
    const lt_log log = {test_log_line, &lines};
    lt_hf *hf;
    test_model(*state, dir, tensors, N, 2);
    test_put(*state, dir, LT_HF_INDEX, MAP(""));
    const lt_st_item a = test_item(*state, &(test_tensor){"a", 0, "F32", 1}),
                     b = test_item(*state, &(test_tensor){"b", 0, "F32", 1});
    const lt_st_item items[] = {b, test_item(*state, &(test_tensor){"mtp.w", 0, "BF16", 2})};
    assert_ok(
        lt_st_write(lt_test_path(*state, dir, test_shard_name(*state, 0, 2)), &a, 1, NULL, 0));
    assert_ok(
        lt_st_write(lt_test_path(*state, dir, test_shard_name(*state, 1, 2)), items, 2, NULL, 0));
    assert_ok(lt_hf_open(dir, &log, &hf));
    assert_non_null(lt_hf_find(hf, "mtp.w"));
    assert_text_contains(lines.data, "its tensor mtp.w isn't in the index");
    lt_hf_close(hf);
    lt_buf_deinit(&lines);
}

static void small_files_outlive_their_folder(void **state)
{
    const char *dir = lt_test_dir(*state);
    static const char *const kept[] = {"chat_template.jinja",
                                       "config.json",
                                       "generation_config.json",
                                       "merges.txt",
                                       "modeling_x.py",
                                       "preprocessor_config.json",
                                       "special_tokens_map.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "video_preprocessor_config.json",
                                       "vocab.json"};
    static const char *const left[] = {"train.json",
                                       "notes.md",
                                       ".hidden_config.json",
                                       "pytorch_model.bin",
                                       "tokenizer.safetensors",
                                       "latest_checkpointed_iteration.txt"};
    enum { KEPT = sizeof kept / sizeof kept[0], LEFT = sizeof left / sizeof left[0] };
    for (int i = 0; i < KEPT; i++)
        test_put(*state, dir, kept[i], kept[i]);
    for (int i = 0; i < LEFT; i++)
        test_put(*state, dir, left[i], left[i]);
    assert_ok(lt_dir_make(lt_test_path(*state, dir, "tokenizer_folder")));
    lt_hf *hf;
    assert_ok(lt_hf_open_assets(dir, &hf));
    assert_int_equal(lt_hf_n_files(hf), 0);
    assert_int_equal(lt_hf_n_assets(hf), KEPT);
    for (int i = 0; i < KEPT; i++)
        assert_int_equal(unlink(lt_test_path(*state, dir, kept[i])), 0);
    for (int i = 0; i < KEPT; i++) {
        const lt_hf_asset *asset = lt_hf_asset_find(hf, kept[i]);
        assert_non_null(asset);
        assert_int_equal(asset->bytes, strlen(kept[i]));
        assert_memory_equal(asset->data, kept[i], asset->bytes);
    }
    lt_hf_close(hf);
}

LT_TEST_MAIN(LT_TEST(a_sharded_folder_is_one_set_of_names),
             LT_TEST(a_tensor_that_is_needed_is_checked_by_name_and_file),
             LT_TEST(a_folder_without_weights_says_what_was_looked_for),
             LT_TEST(a_missing_or_cut_shard_is_named_with_a_tensor),
             LT_TEST(an_index_that_lies_is_refused),
             LT_TEST(a_tensor_in_two_shards_counts_where_the_index_says),
             LT_TEST(a_tensor_outside_the_index_is_taken_with_a_note),
             LT_TEST(small_files_outlive_their_folder))
