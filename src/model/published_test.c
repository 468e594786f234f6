// SPDX-License-Identifier: Apache-2.0
// docs/models.md: each row of its table of Qwen3-VL and InternVL3.5 models is what their config
// comes to. source: spec/models.md 2.1, 2.3, 2.4, 10.1
#include "model/model.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>
#include <string.h>

static const char qwen_24[] = "\"depth\": 24, \"hidden_size\": 1024, \"intermediate_size\": 4096, "
                              "\"deepstack_visual_indexes\": [5, 11, 17], ";
static const char qwen_27[] = "\"depth\": 27, \"hidden_size\": 1152, \"intermediate_size\": 4304, "
                              "\"deepstack_visual_indexes\": [8, 16, 24], ";
static const char vit_300m[] =
    "\"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
    "\"intermediate_size\": 4096, \"norm_type\": \"layer_norm\", \"qkv_bias\": true, "
    "\"qk_normalization\": false, ";
static const char vit_6b[] =
    "\"hidden_size\": 3200, \"num_hidden_layers\": 45, \"num_attention_heads\": 25, "
    "\"intermediate_size\": 12800, \"norm_type\": \"rms_norm\", \"qkv_bias\": false, "
    "\"qk_normalization\": true, ";

// experts: width of one, of 128, eight for each token; 0: a dense model.
static const struct published {
    const char *name, *tower;
    int hidden, layers, heads, kv_heads, intermediate, experts;
    bool tied;
    int64_t total, per_token;
} models[] = {
    {"Qwen3-VL-2B", qwen_24, 2048, 28, 16, 8, 6144, 0, true, 2127532032, 1409286144},
    {"Qwen3-VL-4B", qwen_24, 2560, 36, 32, 8, 9728, 0, true, 4437815808, 3633315840},
    {"Qwen3-VL-8B", qwen_27, 4096, 36, 32, 8, 12288, 0, false, 8767123696, 6945767424},
    {"Qwen3-VL-32B", qwen_27, 5120, 64, 64, 8, 25600, 0, false, 33357390064, 31205621760},
    {"Qwen3-VL-30B-A3B", qwen_27, 2048, 48, 32, 4, 6144, 768, false, 31070754032, 2730491904},
    {"Qwen3-VL-235B-A22B", qwen_27, 4096, 94, 64, 4, 12288, 1536, false, 235670022896, 20945305600},
    {"InternVL3.5-1B", vit_300m, 1024, 28, 16, 8, 3072, 0, false, 1060897792, 440401920},
    {"InternVL3.5-2B", vit_300m, 2048, 28, 16, 8, 6144, 0, false, 2348347392, 1409286144},
    {"InternVL3.5-4B", vit_300m, 2560, 36, 32, 8, 9728, 0, false, 4732489216, 3633315840},
    {"InternVL3.5-8B", vit_300m, 4096, 36, 32, 8, 12288, 0, false, 8528318464, 6945767424},
    {"InternVL3.5-14B", vit_300m, 5120, 40, 40, 8, 17408, 0, false, 15119523840, 13212057600},
    {"InternVL3.5-30B-A3B", vit_300m, 2048, 48, 32, 4, 6144, 768, false, 30848730112, 2730491904},
    // not in the specification's list of totals; the large tower by 3.5's shapes, worked by hand:
    // 45 (4 C^2 + 2 C 12800 + 20800 + 6 C) + rows, and the decoders of their smaller kin
    {"InternVL3.5-38B", vit_6b, 5120, 64, 64, 8, 25600, 0, false, 0, 31205621760},
    {"InternVL3.5-241B-A28B", vit_6b, 4096, 94, 64, 4, 12288, 1536, false, 0, 20945305600},
};
enum { N_MODELS = (int)(sizeof models / sizeof *models) };

static bool is_intern(const struct published *p)
{
    return strncmp(p->name, "InternVL", strlen("InternVL")) == 0;
}

static const char *experts_of(void *state, const struct published *p)
{
    char *text = NULL;
    if (p->experts == 0)
        return "";
    assert_ok(lt_arena_printf(state, &text,
                              "\"num_experts\": 128, \"num_experts_per_tok\": 8, "
                              "\"moe_intermediate_size\": %d, ",
                              p->experts));
    return text;
}

static const char *decoder_of(void *state, const struct published *p, const char *rest)
{
    char *text = NULL;
    assert_ok(lt_arena_printf(state, &text,
                              "{\"hidden_size\": %d, \"num_hidden_layers\": %d, "
                              "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
                              "\"head_dim\": 128, \"intermediate_size\": %d, %s\"vocab_size\": "
                              "151936, %s}",
                              p->hidden, p->layers, p->heads, p->kv_heads, p->intermediate,
                              experts_of(state, p), rest));
    return text;
}

static const char *config_of(void *state, const struct published *p)
{
    char *text = NULL;
    if (is_intern(p)) {
        const char *rest = p->experts ? "\"model_type\": \"qwen3_moe\", \"rope_theta\": 1000000"
                                      : "\"model_type\": \"qwen3\", \"rope_theta\": 1000000";
        assert_ok(lt_arena_printf(state, &text,
                                  "{\"model_type\": \"internvl_chat\", \"downsample_ratio\": 0.5, "
                                  "\"ps_version\": \"v2\", \"llm_config\": %s, \"vision_config\": "
                                  "{%s\"image_size\": 448, \"patch_size\": 14}}",
                                  decoder_of(state, p, rest), p->tower));
        return text;
    }
    static const char rest[] =
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 5000000, \"rope_scaling\": {\"rope_type\": "
        "\"default\", \"mrope_section\": [24, 20, 20], \"mrope_interleaved\": true}";
    assert_ok(lt_arena_printf(state, &text,
                              "{\"model_type\": \"%s\", \"image_token_id\": 151655, "
                              "\"video_token_id\": 151656, \"vision_start_token_id\": 151652, "
                              "\"vision_end_token_id\": 151653, \"tie_word_embeddings\": %s, "
                              "\"text_config\": %s, \"vision_config\": {%s\"num_heads\": 16, "
                              "\"in_channels\": 3, \"patch_size\": 16, \"spatial_merge_size\": 2, "
                              "\"temporal_patch_size\": 2, \"num_position_embeddings\": 2304, "
                              "\"out_hidden_size\": %d}}",
                              p->experts ? "qwen3_vl_moe" : "qwen3_vl", p->tied ? "true" : "false",
                              decoder_of(state, p, rest), p->tower, p->hidden));
    return text;
}

// "2 127 532 032"
static const char *in_threes(void *state, int64_t n)
{
    char *text = NULL;
    if (n < 1000)
        assert_ok(lt_arena_printf(state, &text, "%lld", (long long)n));
    else
        assert_ok(lt_arena_printf(state, &text, "%s %03lld", in_threes(state, n / 1000),
                                  (long long)(n % 1000)));
    return text;
}

static int64_t large_total(const struct published *p)
{
    const int64_t c = 3200, i = 12800, h = p->hidden, d = 128, v = 151936;
    const int64_t block = 4 * c * c + c + 2 * c * i + i + c + 6 * c;
    const int64_t tower = 45 * block + c + 1025 * c + 588 * c + c;
    const int64_t mlp = 8 * c + 4 * c * h + h + h * h + h;
    const int64_t attention = 2 * h * p->heads * d + 2 * h * p->kv_heads * d + 2 * d;
    const int64_t feed = p->experts ? 384 * h * p->experts + 128 * h : 3 * h * p->intermediate;
    return tower + mlp + 2 * v * h + h + p->layers * (attention + feed + 2 * h);
}

static void the_page_of_models_has_the_counts_of_their_configs(void **state)
{
    const char *page = lt_test_read(*state, "docs/models.md", NULL);
    for (int i = 0; i < N_MODELS; i++) {
        const struct published *p = &models[i];
        const char *text = config_of(*state, p);
        const int64_t total = p->total ? p->total : large_total(p);
        lt_model_config config;
        lt_model *m = NULL;
        char *row = NULL;
        assert_ok(lt_model_config_parse(text, strlen(text), p->name, NULL, &config));
        assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
        assert_int_equal(lt_model_total(m, false), total);
        assert_near(lt_model_flops(m, &(lt_work){.tokens = 1}).text, 2.0 * (double)p->per_token, 0);
        assert_ok(lt_arena_printf(*state, &row, "\n| %s | %s | %s |\n", p->name,
                                  in_threes(*state, total), in_threes(*state, p->per_token)));
        assert_text_contains(page, row);
        lt_model_destroy(m);
    }
}

// A row that nobody holds to anything would be worth little.
static void every_row_of_these_families_is_held_to_a_config(void **state)
{
    const char *page = lt_test_read(*state, "docs/models.md", NULL);
    static const char *const families[] = {"\n| Qwen3-VL-", "\n| InternVL3.5-"};
    int64_t rows = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const char *at = strstr(page, families[f]); at; at = strstr(at + 1, families[f]))
            rows++;
    assert_int_equal(rows, N_MODELS);
}

LT_TEST_MAIN(LT_TEST(the_page_of_models_has_the_counts_of_their_configs),
             LT_TEST(every_row_of_these_families_is_held_to_a_config))
