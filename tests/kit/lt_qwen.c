// SPDX-License-Identifier: Apache-2.0
// config.json texts of Qwen3-VL models. source: spec/models.md 2.1, 2.4, 10.1
#include "tests/kit/lt_qwen.h"
#include <stdio.h>
#include <string.h>

const lt_qwen_size lt_qwen_sizes[] = {
    {"2B", 2048, 28, 16, 8, 6144, true, 24, 1024, 4096, "5, 11, 17", 2127532032, 406957056,
     1409286144, 311164928, 303562752},
    {"4B", 2560, 36, 32, 8, 9728, true, 24, 1024, 4096, "5, 11, 17", 4437815808, 415347712,
     3633315840, 388956160, 303562752},
    {"8B", 4096, 36, 32, 8, 12288, false, 27, 1152, 4304, "8, 16, 24", 8767123696, 576388336,
     6945767424, 622329856, 412839936},
    {"32B", 5120, 64, 64, 8, 25600, false, 27, 1152, 4304, "8, 16, 24", 33357390064, 595266800,
     31205621760, 777912320, 412839936},
};
const int lt_n_qwen_sizes = (int)(sizeof lt_qwen_sizes / sizeof lt_qwen_sizes[0]);

static const char older_rope[] =
    "\"rope_scaling\": {\"mrope_interleaved\": true, \"mrope_section\": [24, 20, 20], "
    "\"rope_type\": \"default\"}, \"rope_theta\": 5000000, \"torch_dtype\": \"bfloat16\"";
static const char newer_rope[] =
    "\"rope_parameters\": {\"mrope_interleaved\": true, \"mrope_section\": [24, 20, 20], "
    "\"rope_theta\": 5000000.0, \"rope_type\": \"default\"}, \"dtype\": \"bfloat16\"";

// Test data as printf templates: the same keys as the published files have.
static const char text_part[] =
    "\"model_type\": \"qwen3_vl\", \"architectures\": [\"Qwen3VLForConditionalGeneration\"],\n"
    "\"image_token_id\": 151655, \"video_token_id\": 151656,\n"
    "\"vision_start_token_id\": 151652, \"vision_end_token_id\": 151653,\n"
    "\"tie_word_embeddings\": %s, \"transformers_version\": \"4.57.0.dev0\",\n"
    "\"text_config\": {\"model_type\": \"qwen3_vl_text\", \"hidden_size\": %d, "
    "\"num_hidden_layers\": %d,\n"
    "  \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": 128, "
    "\"intermediate_size\": %d,\n"
    "  \"vocab_size\": 151936, \"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 262144,\n"
    "  \"attention_bias\": false, \"attention_dropout\": 0.0, \"hidden_act\": \"silu\", "
    "\"initializer_range\": 0.02,\n"
    "  \"bos_token_id\": 151643, \"eos_token_id\": 151645, \"use_cache\": true, %s},\n";
static const char vision_part[] =
    "\"vision_config\": {\"model_type\": \"qwen3_vl\", \"depth\": %d, \"hidden_size\": %d, "
    "\"num_heads\": 16,\n"
    "  \"intermediate_size\": %d, \"patch_size\": 16, \"temporal_patch_size\": 2, "
    "\"spatial_merge_size\": 2,\n"
    "  \"in_channels\": 3, \"out_hidden_size\": %d, \"num_position_embeddings\": 2304,\n"
    "  \"deepstack_visual_indexes\": [%s], \"hidden_act\": \"gelu_pytorch_tanh\", "
    "\"initializer_range\": 0.02}\n";

const char *lt_qwen_config_text(void *state, const lt_qwen_size *s, bool newer)
{
    char *text = NULL, *vision = NULL, *all = NULL;
    assert_ok(lt_arena_printf(state, &text, text_part, s->tied ? "true" : "false", s->hidden,
                              s->layers, s->heads, s->kv_heads, s->intermediate,
                              newer ? newer_rope : older_rope));
    assert_ok(lt_arena_printf(state, &vision, vision_part, s->depth, s->vision_hidden,
                              s->vision_intermediate, s->hidden, s->deepstack));
    assert_ok(lt_arena_printf(state, &all, "{%s%s}", text, vision));
    return all;
}

const char lt_qwen_odd_config[] =
    "{\"model_type\": \"qwen3_vl\", \"tie_word_embeddings\": true,\n"
    "\"image_token_id\": 300, \"video_token_id\": 301, \"vision_start_token_id\": 302, "
    "\"vision_end_token_id\": 303,\n"
    "\"text_config\": {\"hidden_size\": 64, \"intermediate_size\": 80, \"num_hidden_layers\": 5, "
    "\"num_attention_heads\": 6,\n"
    "  \"num_key_value_heads\": 1, \"head_dim\": 32, \"vocab_size\": 320, \"rms_norm_eps\": "
    "1e-06,\n"
    "  \"tie_word_embeddings\": true, \"pad_token_id\": null,\n"
    "  \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0, "
    "\"mrope_section\": [6, 5, 5],\n"
    "    \"mrope_interleaved\": true}},\n"
    "\"vision_config\": {\"depth\": 3, \"hidden_size\": 40, \"intermediate_size\": 56, "
    "\"num_heads\": 5, \"in_channels\": 3,\n"
    "  \"patch_size\": 16, \"spatial_merge_size\": 2, \"temporal_patch_size\": 2, "
    "\"out_hidden_size\": 64,\n"
    "  \"num_position_embeddings\": 36, \"deepstack_visual_indexes\": [0, 1],\n"
    "  \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"axial\"}}}\n";

const char *lt_test_replace(void *state, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("the text to replace is not there: %s", from);
    char *out = NULL;
    assert_ok(
        lt_arena_printf(state, &out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    return out;
}
