// SPDX-License-Identifier: Apache-2.0
// The files of an InternVL place.
#include "tests/kit/intern_place.h"
#include "base/rng.h"
#include "ckpt/safetensors_write.h"
#include "model/model.h"

static const char text_part[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, "
    "\"intermediate_size\": 64, \"vocab_size\": 320, \"rope_theta\": 10000.0}";
static const char vision_part[] =
    "{\"hidden_size\": 20, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"intermediate_size\": 24, \"image_size\": 28, \"patch_size\": 7, \"qkv_bias\": true, "
    "\"attention_bias\": true}";

static lt_st_item item_of(void *state, const lt_param *p, lt_intern_spelling names)
{
    lt_st_item item = {.from = LT_F32, .fetch = lt_st_fetch_tensor};
    lt_tensor *t = lt_test_take(state, sizeof *t);
    *t = lt_tensor_nd(LT_F32, p->rank, p->dim);
    float *values = lt_test_take(state, lt_tensor_bytes(t));
    for (int64_t i = 0; i < p->n_elems; i++)
        values[i] = 0.1F * (float)lt_normal(lt_rng_key(3, p->name), (uint64_t)i);
    t->data = values;
    assert_ok(lt_st_plan(names == LT_INTERN_OLDER ? p->aliases[0] : p->name, LT_F32, p->rank,
                         p->dim, &item.tensor));
    item.ctx = t;
    return item;
}

// The folder of a place becomes an InternVL one; its records have no pictures.
const char *lt_intern_place(void *state, lt_intern_spelling names, bool tied)
{
    const char *dir = lt_place(state, &(lt_place_opts){.random = true}),
               *folder = lt_test_path(state, dir, "model");
    const bool remote = names == LT_INTERN_REMOTE;
    lt_place_write(state, folder, "config.json",
                   "{\"model_type\": \"%s\", \"%s\": %s, \"vision_config\": %s, "
                   "\"tie_word_embeddings\": %s, \"%s\": 300}\n",
                   remote ? "internvl_chat" : "internvl", remote ? "llm_config" : "text_config",
                   text_part, vision_part, tied ? "true" : "false",
                   remote ? "img_context_token_id" : "image_token_id");
    lt_model_config config;
    lt_model *model = NULL;
    lt_vec items = LT_VEC_OF(lt_st_item);
    assert_ok(lt_model_config_load(folder, NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &model));
    for (int32_t i = 0; i < model->n_params; i++) {
        const lt_st_item item = item_of(state, &model->params[i], names);
        assert_ok(lt_vec_push(&items, &item));
    }
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
