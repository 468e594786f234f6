// SPDX-License-Identifier: Apache-2.0
// The files of an InternVL place.
#include "tests/kit/intern_place.h"
#include "base/rng.h"
#include "base/text.h"
#include "ckpt/safetensors_write.h"
#include "model/model.h"
#include <string.h>

static const char text_part[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, "
    "\"intermediate_size\": 64, \"vocab_size\": 320, \"rope_theta\": 10000.0}";
static const char sparse_text_part[] =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, "
    "\"intermediate_size\": 64, \"vocab_size\": 320, \"rope_theta\": 10000.0, "
    "\"num_local_experts\": 3, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
    "\"mlp_only_layers\": [0]}";
static const char vision_part[] =
    "{\"hidden_size\": 20, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"intermediate_size\": 24, \"image_size\": 28, \"patch_size\": 7, \"qkv_bias\": true, "
    "\"attention_bias\": true}";

static void put(void *state, lt_vec *items, const char *name, int rank, const int64_t *dim,
                float *values)
{
    lt_st_item item = {.from = LT_F32, .fetch = lt_st_fetch_tensor};
    lt_tensor *t = lt_test_take(state, sizeof *t);
    *t = lt_tensor_nd(LT_F32, rank, dim);
    t->data = values;
    assert_ok(lt_st_plan(name, LT_F32, rank, t->dim, &item.tensor));
    item.ctx = t;
    assert_ok(lt_vec_push(items, &item));
}

// A tensor for each expert and projection, as InternVL's folders have them.
static void put_experts(void *state, lt_vec *items, const char *name, const lt_param *p,
                        float *values)
{
    const bool down = lt_text_ends(name, "down_proj");
    const char *const parts[] = {down ? "down_proj" : "gate_proj", "up_proj"};
    const int64_t n = down ? 1 : 2, dim[2] = {p->dim[1] / n, p->dim[2]};
    const int path = (int)(strrchr(name, '.') - name);
    for (int64_t i = 0; i < p->dim[0] * n; i++) {
        char *own = NULL;
        assert_ok(lt_arena_printf(state, &own, "%.*s.%lld.%s.weight", path, name,
                                  (long long)(i / n), parts[i % n]));
        put(state, items, own, 2, dim, values + i * dim[0] * dim[1]);
    }
}

static void put_param(void *state, lt_vec *items, const lt_param *p, lt_intern_spelling names)
{
    const char *name = names == LT_INTERN_OLDER ? p->aliases[0] : p->name;
    float *values = lt_test_take(state, (size_t)p->n_elems * sizeof *values);
    for (int64_t i = 0; i < p->n_elems; i++)
        values[i] = 0.1F * (float)lt_normal(lt_rng_key(3, p->name), (uint64_t)i);
    if (strstr(name, ".experts."))
        put_experts(state, items, name, p, values);
    else
        put(state, items, name, p->rank, p->dim, values);
}

// The folder of a place becomes an InternVL one; its records have no pictures.
const char *lt_intern_place(void *state, lt_intern_spelling names, bool tied, bool experts)
{
    const char *dir = lt_place(state, &(lt_place_opts){.random = true}),
               *folder = lt_test_path(state, dir, "model");
    const bool remote = names == LT_INTERN_REMOTE;
    lt_place_write(state, folder, "config.json",
                   "{\"model_type\": \"%s\", \"%s\": %s, \"vision_config\": %s, "
                   "\"tie_word_embeddings\": %s, \"%s\": 312}\n",
                   remote ? "internvl_chat" : "internvl", remote ? "llm_config" : "text_config",
                   experts ? sparse_text_part : text_part, vision_part, tied ? "true" : "false",
                   remote ? "img_context_token_id" : "image_token_id");
    lt_model_config config;
    lt_model *model = NULL;
    lt_vec items = LT_VEC_OF(lt_st_item);
    assert_ok(lt_model_config_load(folder, NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &model));
    for (int32_t i = 0; i < model->n_params; i++)
        put_param(state, &items, &model->params[i], names);
    assert_ok(lt_st_write(lt_test_path(state, folder, "model.safetensors"), items.data, items.n,
                          NULL, 0));
    lt_vec_deinit(&items);
    lt_model_destroy(model);
    static const char record[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What is it?\"}, "
        "{\"role\": \"assistant\", \"content\": \"Red.\"}], "
        "\"images\": []}";
    lt_place_write(state, dir, "data.json", "[%s, %s, %s, %s]\n", record, record, record, record);
    lt_place_edit(state, dir, "train.yaml", "model_id: qwen3_vl,", "model_id: internvl3_5,");
    return dir;
}

const char *lt_intern_pictures(void *state, lt_intern_spelling names, bool experts)
{
    const char *dir = lt_intern_place(state, names, false, experts);
    lt_place_write(state, dir, "data.jsonl",
                   "{\"image\": \"p0.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
                   "\"<image>\\nWhat is it?\"}, {\"from\": \"gpt\", \"value\": \"Red.\"}]}\n"
                   "{\"image\": [\"p1.png\", \"p2.png\"], \"conversations\": [{\"from\": "
                   "\"system\", \"value\": \"Look.\"}, {\"from\": \"human\", \"value\": "
                   "\"<image> or <image>?\"}, {\"from\": \"gpt\", \"value\": \"The first.\"}]}\n"
                   "{\"image\": \"p3.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
                   "\"And this?\"}, {\"from\": \"gpt\", \"value\": \" Blue \"}, {\"from\": "
                   "\"human\", \"value\": \"Sure?\"}, {\"from\": \"gpt\", \"value\": \"Yes.\"}]}\n"
                   "{\"image\": \"p1.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
                   "\"<image>\"}, {\"from\": \"gpt\", \"value\": \"\"}]}\n");
    const char *text = lt_place_read(state, dir, "train.yaml"),
               *from = strstr(text, "    dataset_type"), *to = strstr(text, "  dataloader_param");
    assert_true(from && to && from < to);
    lt_place_write(state, dir, "train.yaml",
                   "%.*s    dataset_type: internvl3_5\n"
                   "    dynamic_image_size: true\n    use_thumbnail: true\n"
                   "    max_dynamic_patch: 4\n"
                   "    preprocess_parameters: {model_name_or_path: model}\n"
                   "    basic_parameters: {cutoff_len: 256, data_path: data.jsonl, data_folder: "
                   "pictures}\n%s",
                   (int)(from - text), text, to);
    return dir;
}
