// SPDX-License-Identifier: Apache-2.0
// What to say about keys that the schema does not have, and about files of other families.
#include "train/config/state.h"
#include <stdio.h>
#include <string.h>

typedef struct foreign_key {
    const char *path;
    bool error; // part of another front end: what it says would be lost
    const char *advice;
} foreign_key;

static const foreign_key foreign_keys[] = {
    {"train", true, "it is HyperParallel's: say the same in `parallel` and `training`"},
    {"model.name", true, "it is HyperParallel's: the key is model_id"},
    {"model.config_overrides", true,
     "it is HyperParallel's: lathe has model.num_hidden_layers and model.vision_depth"},
    {"inference", false,
     "it belongs to inference files: lathe generate takes its settings from the command line"},
    {"model.loss_type", false, "the key is features.loss_cfg.loss_type"},
    {"training.global_batch_size", false,
     "the global batch is micro_batch_size * data-parallel size * gradient_accumulation_steps: set "
     "these"},
    {"training.learning_rate", false, "the key is lr"},
    {"training.num_train_epochs", false, "the key is train_epochs"},
    {"training.max_grad_norm", false, "the key is clip_grad"},
    {"training.gradient_checkpointing", false, "the key is features.recompute"},
    {"lathe.num_hidden_layers", false, "the key is model.num_hidden_layers"},
    {"lathe.vision_depth", false, "the key is model.vision_depth"},
    {"lathe.seed", false, "the key is training.seed"},
};

typedef struct elsewhere {
    const char *key, *path;
    char found[LT_KEY_PATH_MAX];
} elsewhere;

// A key of that very name in another section, one that does something.
static lt_status look_elsewhere(void *ctx, const lt_field *f, const char *path, const void *member)
{
    elsewhere *e = ctx;
    (void)member;
    if (e->found[0] == '\0' && f->support != LT_SUPPORT_INERT && strcmp(f->key, e->key) == 0 &&
        strcmp(path, e->path) != 0)
        snprintf(e->found, sizeof e->found, "%s", path);
    return LT_OK;
}

static const char *nearest_key(const lt_record *record, const char *key)
{
    enum { MOST = 80 };
    const char *names[MOST];
    int64_t n = 0;
    for (; n < record->n && n < MOST; n++)
        names[n] = record->fields[n].key;
    return strlen(key) < 64 ? lt_text_nearest(key, names, n) : NULL;
}

bool lt_config_advice(const lt_record *record, const char *key_path, const char *key, char *out,
                      size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++) {
        if (strcmp(key_path, foreign_keys[i].path) == 0) {
            snprintf(out, size, "%s", foreign_keys[i].advice);
            return foreign_keys[i].error;
        }
    }
    const char *near = nearest_key(record, key);
    elsewhere e = {.key = key, .path = key_path};
    if (!near && lt_schema_walk(&lt_schema, NULL, look_elsewhere, &e) == LT_OK && e.found[0])
        near = e.found;
    if (near)
        snprintf(out, size, "did you mean %s?", near);
    return false;
}

typedef struct family {
    const char *key; // at the top level
    const char *words;
} family;

static const family families[] = {
    {"gpt_args", "a configuration of the Megatron-bridged family"},
    {"lora_args", "a configuration of the Megatron-bridged family"},
    {"fsdp2_config_path", "a configuration of the Megatron-bridged family"},
    {"MM_MODEL_LOAD_PATH", "a configuration of the Megatron-bridged family"},
    {"sharding_size", "an fsdp2_config.yaml of the Megatron-bridged family"},
    {"sub_modules_to_wrap", "an fsdp2_config.yaml of the Megatron-bridged family"},
};

lt_status lt_config_check_family(const lt_config_state *s)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const lt_yaml_pair *pair = lt_yaml_find(s->root, families[i].key);
        if (pair) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "%s:%d: %s: this is %s, and lathe reads the six-section form: parallel, "
                           "data, model, features, training, tools",
                           s->name, pair->key->mark.line, families[i].key, families[i].words);
        }
    }
    return LT_OK;
}
