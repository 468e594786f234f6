// SPDX-License-Identifier: Apache-2.0
// Finding the family of a config.json, having it read, and cutting the model down.
#include "model/config.h"
#include "base/file.h"
#include "model/family.h"
#include <string.h>

enum { CONFIG_BYTES_MAX = 4 << 20 }; // published ones have a few thousand

// The sentence for a model_type that cannot be built: it lists what can be.
static lt_status refuse(const char *where, const char *found)
{
    lt_buf list = {0};
    lt_status st = LT_OK;
    for (int i = 0; i < lt_n_families && st == LT_OK; i++)
        st = lt_buf_printf(&list, "%s%s", i ? ", " : "", lt_families[i]->model_type);
    if (st == LT_OK)
        st = LT_FAIL(LT_ERR_UNSUPPORTED, "%s: model_type is %s, which is not known; supported: %s",
                     where, found, list.data);
    lt_buf_deinit(&list);
    return st;
}

static lt_status find_family(const lt_json_scope *root, lt_model_config *out)
{
    json_t *type = json_object_get(root->object, "model_type");
    if (!json_is_string(type))
        return refuse(root->where, type ? lt_json_print(type).s : "missing");
    const char *name = json_string_value(type);
    for (int i = 0; i < lt_n_families; i++) {
        const lt_family *f = lt_families[i];
        if (strcmp(f->model_type, name) != 0)
            continue;
        LT_ASSERT(strlen(name) < sizeof out->model_type);
        out->family = f;
        memcpy(out->model_type, name, strlen(name) + 1);
        return LT_OK;
    }
    return refuse(root->where, lt_json_print(type).s);
}

static lt_status cut_down(const char *where, const lt_model_cut *cut, lt_model_config *c)
{
    const struct {
        int64_t want, *have;
        const char *what;
    } rows[] = {{cut->text_layers, &c->text.layers, "decoder layers"},
                {cut->vision_depth, &c->vision.depth, "vision blocks"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].want < 0 || rows[i].want > *rows[i].have) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "a cut to %lld %s is asked for, but the model of %s has %lld; it must "
                           "be from 1 to that",
                           (long long)rows[i].want, rows[i].what, where, (long long)*rows[i].have);
        }
        if (rows[i].want > 0)
            *rows[i].have = rows[i].want;
    }
    while (c->vision.n_deepstack > 0 &&
           c->vision.deepstack[c->vision.n_deepstack - 1] >= c->vision.depth)
        c->vision.n_deepstack--; // ascending, so what lies beyond the depth is at the end
    return LT_OK;
}

static lt_status read_root(json_t *json, const char *where, const lt_model_cut *cut,
                           lt_model_config *out)
{
    const lt_json_scope root = {.where = where, .object = json, .path = ""};
    lt_model_config c = {0};
    LT_TRY(find_family(&root, &c));
    LT_ASSERT(c.family);
    LT_TRY(c.family->read(&root, &c));
    if (cut)
        LT_TRY(cut_down(where, cut, &c));
    *out = c;
    return LT_OK;
}

lt_status lt_model_config_parse(const char *text, size_t len, const char *where,
                                const lt_model_cut *cut, lt_model_config *out)
{
    if (len > CONFIG_BYTES_MAX)
        return LT_FAIL(LT_ERR_FORMAT, "%s has %zu bytes; a config.json has at most %d", where, len,
                       CONFIG_BYTES_MAX);
    json_error_t err;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
    if (!json)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: not JSON: %s", where, err.line, err.text);
    lt_status st = LT_OK;
    if (!json_is_object(json)) {
        st = LT_FAIL(LT_ERR_FORMAT, "%s: a config.json is an object, this one is %s", where,
                     lt_json_print(json).s);
    } else {
        st = read_root(json, where, cut, out);
    }
    json_decref(json);
    return st;
}

lt_status lt_model_config_load(const char *folder, const lt_model_cut *cut, lt_model_config *out)
{
    lt_arena *arena = NULL;
    lt_buf text = {0};
    char *path = NULL;
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_create(&arena, "config.json"), done);
    LT_TRY_GOTO(st, lt_path_join(arena, folder, "config.json", &path), done);
    LT_TRY_GOTO(st, lt_file_read(path, CONFIG_BYTES_MAX, &text), done);
    LT_TRY_GOTO(st, lt_model_config_parse(text.data ? text.data : "", text.len, path, cut, out),
                done);
done:
    lt_buf_deinit(&text);
    lt_arena_destroy(arena);
    return st;
}

int64_t lt_model_config_pixel_width(const lt_model_config *c)
{
    return c->vision.channels * c->vision.temporal_patch * c->vision.patch * c->vision.patch;
}

bool lt_model_experts_transposed(const lt_model_config *config)
{
    return config->family->experts_transposed;
}

const char *lt_model_head_name(const lt_model_config *config)
{
    return config->family->head_name;
}

bool lt_model_on_gpu(const lt_model_config *config)
{
    return config->family->on_gpu;
}

const char *lt_model_old_head_name(const lt_model_config *config)
{
    return config->family->old_head_name;
}
