// SPDX-License-Identifier: Apache-2.0
#include "ckpt/convert.h"
#include "ckpt/dcp.h"
#include "ckpt/run_folder.h"
#include "tests/kit/model_folder.h"
#include <stdio.h>

enum { E = 3, H = 4, I = 2, TWO_I = 2 * I };

typedef struct shaped {
    const char *name, *dtype;
    int64_t dim[3];
    int file;
    int32_t rank;
} shaped;

static const shaped dense[] = {
    {"model.language_model.embed_tokens.weight", "BF16", {5, H}, 0, 2},
    {"model.language_model.layers.0.mlp.experts.gate_up_proj", "BF16", {E, TWO_I, H}, 0, 3},
    {"model.language_model.layers.0.mlp.experts.down_proj", "BF16", {E, H, I}, 1, 3},
    {"model.flags", "BOOL", {3}, 1, 1},
    {"model.none", "F32", {0, 7}, 1, 2},
    {"model.scale", "F32", {0}, 0, 0},
};
enum { N_DENSE = sizeof dense / sizeof *dense };

static lt_st_item item_of(void *state, const shaped *s, const char *name)
{
    int64_t n = 1;
    for (int32_t i = 0; i < s->rank; i++)
        n *= s->dim[i];
    const test_tensor flat = {name, s->file, s->dtype, n};
    lt_st_item item = test_item(state, &flat);
    item.tensor.rank = s->rank;
    item.tensor.dim = s->dim;
    return item;
}

// Two files, an index, and small files. Per-expert tensors below `experts`, when it is given.
static const char *model(void *state, const char *config, const char *experts)
{
    static const char *const names[] = {"model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors"};
    static const shaped part[3] = {
        {NULL, "BF16", {I, H}, 0, 2}, {NULL, "BF16", {I, H}, 1, 2}, {NULL, "BF16", {H, I}, 0, 2}};
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    const char *dir = lt_test_dir(state);
    lt_vec items[2] = {LT_VEC_OF(lt_st_item), LT_VEC_OF(lt_st_item)};
    lt_buf index = {0};
    for (int i = 0; i < N_DENSE; i++) {
        const lt_st_item item = item_of(state, &dense[i], dense[i].name);
        assert_ok(lt_vec_push(&items[dense[i].file], &item));
    }
    for (int i = 0; experts && i < 3 * E; i++) {
        char *name = lt_test_take(state, 256);
        (void)snprintf(name, 256, "%s.experts.%d.%s.weight", experts, i / 3, parts[i % 3]);
        const lt_st_item item = item_of(state, &part[i % 3], name);
        assert_ok(lt_vec_push(&items[part[i % 3].file], &item));
    }
    assert_ok(lt_buf_text(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {"));
    for (int f = 0; f < 2; f++) {
        const lt_st_pair meta = {"format", "pt"};
        assert_ok(
            lt_st_write(lt_test_path(state, dir, names[f]), items[f].data, items[f].n, &meta, 1));
        for (int64_t i = 0; i < items[f].n; i++)
            assert_ok(lt_buf_printf(&index, "%s\"%s\": \"%s\"", f + i > 0 ? ", " : "",
                                    LT_AT(&items[f], lt_st_item, i).tensor.name, names[f]));
        lt_vec_deinit(&items[f]);
    }
    assert_ok(lt_buf_text(&index, "}}"));
    test_put(state, dir, LT_HF_INDEX, index.data);
    test_put(state, dir, "config.json", config);
    test_put(state, dir, "README.md", "a model");
    lt_buf_deinit(&index);
    return dir;
}

static lt_convert_opts opts_of(lt_convert_kind kind, const char *hf, const char *dcp)
{
    return (lt_convert_opts){
        .kind = kind, .hf_dir = hf, .dcp_dir = dcp, .hf_prefix = "", .dcp_prefix = ""};
}

static void assert_same_folder(void *state, const char *a, const char *b)
{
    lt_hf *x, *y;
    assert_ok(lt_hf_open(a, NULL, &x));
    assert_ok(lt_hf_open(b, NULL, &y));
    assert_int_equal(lt_hf_count(x), lt_hf_count(y));
    for (int64_t i = 0; i < lt_hf_count(x); i++) {
        const lt_st_tensor *s = lt_hf_at(x, i), *t = lt_hf_find(y, s->name);
        assert_non_null(t);
        assert_string_equal(lt_st_shape_text(s).s, lt_st_shape_text(t).s);
        assert_memory_equal(s->data, t->data, s->bytes);
        assert_string_equal(strrchr(s->file, '/'), strrchr(t->file, '/'));
    }
    static const char *const small[] = {"config.json", "README.md", LT_HF_INDEX};
    for (int i = 0; i < 3; i++)
        assert_string_equal(test_get(state, a, small[i]), test_get(state, b, small[i]));
    lt_hf_close(x);
    lt_hf_close(y);
}

static void round_trip(void *state, lt_convert_opts o)
{
    const char *back = lt_test_path(state, lt_test_dir(state), "back");
    assert_ok(lt_convert_to_dcp(&o));
    o.save_dir = back;
    assert_ok(lt_convert_to_hf(&o));
    assert_same_folder(state, o.hf_dir, back);
}

// The element of a key at a place, against that of a tensor of the folder.
static void assert_element(void *state, const char *dcp, const char *key, int64_t at,
                           const char *hf, const char *name, int64_t of)
{
    lt_dcp *d;
    lt_hf *h;
    float x = 0, y = 1;
    assert_ok(lt_dcp_open(lt_test_path(state, dcp, "release"), &d));
    assert_ok(lt_hf_open(hf, NULL, &h));
    assert_non_null(lt_dcp_find(d, key));
    assert_ok(lt_st_read(lt_dcp_find(d, key)->tensor, at, 1, LT_F32, &x));
    assert_ok(lt_st_read(lt_hf_find(h, name), of, 1, LT_F32, &y));
    assert_memory_equal(&x, &y, sizeof x);
    lt_dcp_close(d);
    lt_hf_close(h);
}

static void a_model_comes_back_byte_for_byte(void **state)
{
    const char *hf = model(*state, "{\"model_type\": \"qwen3_vl\"}", NULL);
    const char *dcp = lt_test_dir(*state);
    lt_convert_opts o = opts_of(LT_CONVERT_GENERIC, hf, dcp);
    round_trip(*state, o);
    assert_string_equal(test_get(*state, dcp, LT_RUN_TRACKER), "release");
    o.dcp_dir = lt_test_dir(*state);
    o.hf_prefix = "language_model.";
    o.dcp_prefix = "text.";
    round_trip(*state, o);
    assert_element(*state, o.dcp_dir, "model.model.text.embed_tokens.weight", 3, hf, dense[0].name,
                   3);
}

static void names_that_are_fused_are_flattened(void **state)
{
    static const char *const fused[] = {"gate_up_proj"};
    const char *hf = model(*state, "{}", NULL);
    lt_convert_opts o = opts_of(LT_CONVERT_GENERIC, hf, lt_test_dir(*state));
    lt_dcp *d;
    o.fused = fused;
    o.n_fused = 1;
    round_trip(*state, o);
    assert_ok(lt_dcp_open(lt_test_path(*state, o.dcp_dir, "release"), &d));
    const lt_st_tensor *t =
        lt_dcp_find(d, "model.model.language_model.layers.0.mlp.experts.gate_up_proj")->tensor;
    assert_string_equal(lt_st_shape_text(t).s, "BF16[12,4]");
    lt_dcp_close(d);
}

static void a_tied_head_is_stored_a_second_time(void **state)
{
    const lt_st_pair ties[] = {{"lm_head.weight", "model.language_model.embed_tokens.weight"}};
    const char *hf = model(*state, "{}", NULL);
    lt_convert_opts o = opts_of(LT_CONVERT_GENERIC, hf, lt_test_dir(*state));
    o.ties = ties;
    o.n_ties = 1;
    round_trip(*state, o);
    assert_element(*state, o.dcp_dir, "model.lm_head.weight", 7, hf, dense[0].name, 7);
}

static void experts_of_qwen3_5_are_turned_and_those_of_mtp_merged(void **state)
{
    const char *hf =
        model(*state, "{\"text_config\": {\"mtp_num_hidden_layers\": 1}}", "mtp.layers.0.mlp");
    lt_convert_opts o = opts_of(LT_CONVERT_QWEN35, hf, lt_test_dir(*state));
    round_trip(*state, o);
    // [E, 2I, H] at (1, 2, 3) stands in [E, H, 2I] at (1, 3, 2)
    assert_element(*state, o.dcp_dir,
                   "model.model.language_model.layers.0.mlp.experts.gate_up_proj",
                   (1 * H + 3) * 2 * I + 2, hf, dense[1].name, (1 * 2 * I + 2) * H + 3);
    assert_element(*state, o.dcp_dir, "model.mtp.layers.0.mlp.experts.gate_up_proj",
                   (2 * H + 1) * 2 * I + I + 1, hf, "mtp.layers.0.mlp.experts.2.up_proj.weight",
                   1 * H + 1);
    assert_true(lt_file_exists(
        lt_test_path(*state, lt_test_path(*state, o.dcp_dir, "release"), "__100_0.distcp")));
}

static void weights_of_mtp_that_are_missing_are_left_out_or_kept(void **state)
{
    const char *with =
        model(*state, "{\"text_config\": {\"mtp_num_hidden_layers\": 1}}", "mtp.layers.0.mlp");
    const char *without = model(*state, "{}", NULL), *root = lt_test_dir(*state);
    lt_convert_opts o = opts_of(LT_CONVERT_QWEN35, without, lt_test_dir(*state));
    lt_hf *hf;
    assert_ok(lt_convert_to_dcp(&o));
    o.hf_dir = with;
    o.save_dir = lt_test_path(*state, root, "out");
    assert_ok(lt_convert_to_hf(&o));
    assert_ok(lt_hf_open(o.save_dir, NULL, &hf));
    assert_int_equal(lt_hf_count(hf), N_DENSE);
    lt_hf_close(hf);
    assert_text_contains(test_get(*state, o.save_dir, "config.json"),
                         "\"mtp_num_hidden_layers\": 0");
    o.keep_origin_mtp = true;
    o.save_dir = lt_test_path(*state, root, "kept");
    assert_ok(lt_convert_to_hf(&o));
    assert_same_folder(*state, with, o.save_dir);
}

static void experts_are_merged_flat_for_internvl(void **state)
{
    const char *hf =
        model(*state, "{\"model_type\": \"internvl_chat\"}", "language_model.model.layers.0.mlp");
    lt_convert_opts o = opts_of(LT_CONVERT_EXPERT_MERGE, hf, lt_test_dir(*state));
    o.dcp_prefix = "model.";
    round_trip(*state, o);
    assert_element(*state, o.dcp_dir,
                   "model.model.language_model.model.layers.0.mlp.experts.down_proj",
                   (1 * I + 1) * H + 2, hf,
                   "language_model.model.layers.0.mlp.experts.1.down_proj.weight", 2 * I + 1);
    o.hf_dir = model(*state, "{\"model_type\": \"llava\"}", NULL);
    o.dcp_dir = lt_test_dir(*state);
    assert_fails(lt_convert_to_dcp(&o), LT_ERR_UNSUPPORTED, "llava");
}

static void floats_become_bf16_when_asked(void **state)
{
    const char *hf = model(*state, "{\"dtype\": \"float32\"}", NULL);
    lt_convert_opts o = opts_of(LT_CONVERT_GENERIC, hf, lt_test_dir(*state));
    lt_hf *out;
    assert_ok(lt_convert_to_dcp(&o));
    o.save_dir = lt_test_path(*state, lt_test_dir(*state), "out");
    o.to_bf16 = true;
    assert_ok(lt_convert_to_hf(&o));
    assert_ok(lt_hf_open(o.save_dir, NULL, &out));
    assert_string_equal(lt_hf_find(out, "model.scale")->dtype_text, "BF16");
    assert_string_equal(lt_hf_find(out, "model.flags")->dtype_text, "BOOL");
    assert_text_contains(test_get(*state, o.save_dir, "config.json"), "bfloat16");
    lt_hf_close(out);
}

static void what_is_missing_is_named_and_nothing_is_written(void **state)
{
    const char *hf = model(*state, "{}", NULL);
    lt_convert_opts o = opts_of(LT_CONVERT_GENERIC, hf, lt_test_dir(*state));
    const lt_st_pair ties[] = {{"a", "nowhere"}};
    o.ties = ties;
    o.n_ties = 1;
    assert_fails(lt_convert_to_dcp(&o), LT_ERR_NOT_FOUND, "nowhere");
    o.n_ties = 0;
    assert_ok(lt_convert_to_dcp(&o));
    assert_fails(lt_convert_to_dcp(&o), LT_ERR_IO, "isn't empty");
    o.dcp_prefix = "other.";
    o.save_dir = lt_test_path(*state, lt_test_dir(*state), "out");
    assert_fails(lt_convert_to_hf(&o), LT_ERR_NOT_FOUND, "lacks 6 tensors");
    assert_false(lt_file_exists(o.save_dir));
}

LT_TEST_MAIN(LT_TEST(a_model_comes_back_byte_for_byte), LT_TEST(names_that_are_fused_are_flattened),
             LT_TEST(a_tied_head_is_stored_a_second_time),
             LT_TEST(experts_of_qwen3_5_are_turned_and_those_of_mtp_merged),
             LT_TEST(weights_of_mtp_that_are_missing_are_left_out_or_kept),
             LT_TEST(experts_are_merged_flat_for_internvl), LT_TEST(floats_become_bf16_when_asked),
             LT_TEST(what_is_missing_is_named_and_nothing_is_written))
