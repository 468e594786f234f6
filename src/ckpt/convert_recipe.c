// SPDX-License-Identifier: Apache-2.0
// Matrices turned one at a time, and the names of experts.
#include "ckpt/convert_recipe.h"
#include "base/text.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void lt_matrix_deinit(lt_matrix *m)
{
    lt_mem_free(m->plain);
    lt_mem_free(m->turned);
    *m = (lt_matrix){0};
}

// Elements [first, first + n) of the matrices as they lie in the parts.
static lt_status read_plain(const lt_recipe *r, int64_t first, int64_t n, uint8_t *dst)
{
    if (r->n_parts == 1 && r->stack == 1)
        return lt_st_read_raw(r->parts[0], first, n, dst);
    const int64_t each = r->rows / r->stack * r->cols;
    while (n > 0) {
        const int64_t at = first % each, take = lt_min_i64(n, each - at);
        LT_TRY(lt_st_read_raw(r->parts[first / each], at, take, dst));
        dst += (size_t)take * r->size;
        first += take;
        n -= take;
    }
    return LT_OK;
}

// By tiles, so that both sides stay in the cache.
static void turn(const lt_recipe *r, const uint8_t *from, uint8_t *to)
{
    enum { TILE = 32 };
    const size_t size = r->size;
    for (int64_t i0 = 0; i0 < r->rows; i0 += TILE) {
        for (int64_t j0 = 0; j0 < r->cols; j0 += TILE) {
            const int64_t i1 = lt_min_i64(i0 + TILE, r->rows), j1 = lt_min_i64(j0 + TILE, r->cols);
            for (int64_t i = i0; i < i1; i++) {
                for (int64_t j = j0; j < j1; j++)
                    memcpy(to + (size_t)(j * r->rows + i) * size,
                           from + (size_t)(i * r->cols + j) * size, size);
            }
        }
    }
}

static lt_status want_matrix(const lt_recipe *r, int64_t index)
{
    lt_matrix *m = r->matrix;
    const size_t bytes = (size_t)(r->rows * r->cols) * r->size;
    if (m->owner == r && m->index == index)
        return LT_OK;
    m->owner = NULL;
    if (m->room < bytes) {
        void *plain = NULL, *turned = NULL;
        lt_matrix_deinit(m);
        LT_TRY(lt_mem_alloc(&plain, bytes, "an expert's matrix"));
        m->plain = plain;
        LT_TRY(lt_mem_alloc(&turned, bytes, "an expert's matrix"));
        m->turned = turned;
        m->room = bytes;
    }
    LT_TRY(read_plain(r, index * r->rows * r->cols, r->rows * r->cols, m->plain));
    for (int32_t i = 0; i < r->stack; i++) // a part is one matrix, or all of them
        lt_st_forget(r->parts[r->n_parts == 1 ? 0 : index * r->stack + i]);
    turn(r, m->plain, m->turned);
    m->owner = r;
    m->index = index;
    return LT_OK;
}

lt_status lt_recipe_fetch(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_recipe *r = ctx;
    const int64_t each = r->rows * r->cols;
    uint8_t *to = dst;
    first += r->from;
    if (!r->turned)
        return read_plain(r, first, n, dst);
    while (n > 0) {
        const int64_t at = first % each, take = lt_min_i64(n, each - at);
        LT_TRY(want_matrix(r, first / each));
        memcpy(to, r->matrix->turned + (size_t)at * r->size, (size_t)take * r->size);
        to += (size_t)take * r->size;
        first += take;
        n -= take;
    }
    return LT_OK;
}

lt_status lt_raw_fetch(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_st_tensor *t = ctx;
    LT_TRY(lt_st_read_raw(t, first, n, dst));
    if (first + n == lt_st_elems(t))
        lt_st_forget(t);
    return LT_OK;
}

// ---- names

bool lt_expert_name_of(const char *name, lt_expert_name *out)
{
    static const char *const parts[] = {".gate_proj.weight", ".up_proj.weight",
                                        ".down_proj.weight"};
    static const char mark[] = ".experts.";
    const char *at = strstr(name, mark);
    if (!at)
        return false;
    const char *digits = at + sizeof mark - 1;
    const size_t n = strspn(digits, "0123456789");
    for (int i = 0; i < 3 && n > 0 && n < 7; i++) {
        if (strcmp(digits + n, parts[i]) == 0) {
            *out = (lt_expert_name){(size_t)(at - name) + sizeof mark - 2, strtol(digits, NULL, 10),
                                    i};
            return true;
        }
    }
    return false;
}

lt_status lt_merged_name(lt_arena *arena, const char *name, const lt_expert_name *e, char **out)
{
    return lt_arena_printf(arena, out, "%.*s.%s", (int)e->path, name,
                           e->which == 2 ? "down_proj" : "gate_up_proj");
}

bool lt_is_swapped(const char *name)
{
    static const char *const paths[] = {"model.language_model.layers.", "mtp.layers."};
    static const char *const tails[] = {".mlp.experts.gate_up_proj", ".mlp.experts.down_proj"};
    for (int i = 0; i < 2; i++) {
        if (!lt_text_starts(name, paths[i]))
            continue;
        const char *digits = name + strlen(paths[i]);
        const size_t n = strspn(digits, "0123456789");
        for (int k = 0; k < 2; k++)
            if (n > 0 && strcmp(digits + n, tails[k]) == 0)
                return true;
    }
    return false;
}

bool lt_is_fused(const lt_convert_opts *o, const char *name)
{
    for (int64_t i = 0; i < o->n_fused; i++)
        if (strstr(name, o->fused[i]))
            return true;
    return false;
}

lt_status lt_dcp_name(const lt_convert_opts *o, const lt_expert_rule *rule, lt_arena *arena,
                      const char *name, char **out)
{
    if (rule->strip && lt_text_starts(name, rule->strip))
        name += strlen(rule->strip);
    if (o->hf_prefix[0] == '\0')
        return lt_arena_printf(arena, out, "%s%s", o->dcp_prefix, name);
    const char *at = strstr(name, o->hf_prefix);
    if (!at)
        return lt_arena_text(arena, name, strlen(name), out);
    return lt_arena_printf(arena, out, "%.*s%s%s", (int)(at - name), name, o->dcp_prefix,
                           at + strlen(o->hf_prefix));
}

// ---- families

static const struct family {
    const char *type;
    lt_expert_rule rule;
} families[] = {
    {"internvl_chat", {"language_model.model.layers.", NULL, true}},
    {"internvl", {"model.language_model.layers.", NULL, true}},
    {"qwen3_omni_moe", {"thinker.model.layers.", "thinker.", false}},
    {"glm4v_moe", {"model.language_model.layers.", NULL, true}},
};

static int64_t mtp_layers(const json_t *config)
{
    const json_t *own = json_object_get(config, "mtp_num_hidden_layers"),
                 *text = json_object_get(json_object_get(config, "text_config"),
                                         "mtp_num_hidden_layers");
    return (int64_t)json_integer_value(own ? own : text);
}

static lt_status choose_rule(const lt_convert_opts *o, const json_t *config, lt_expert_rule *out)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    *out = (lt_expert_rule){0};
    if (o->kind == LT_CONVERT_QWEN35 && mtp_layers(config) > 0)
        out->path = "mtp.layers.";
    if (o->kind != LT_CONVERT_EXPERT_MERGE)
        return LT_OK;
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].type, type) == 0) {
            *out = families[i].rule;
            return LT_OK;
        }
    }
    return LT_FAIL(LT_ERR_UNSUPPORTED,
                   "%s/config.json: experts of model_type %s aren't merged; known are "
                   "internvl_chat, internvl, qwen3_omni_moe and glm4v_moe",
                   o->hf_dir, type ? type : "(none)");
}

lt_status lt_expert_rule_of(const lt_convert_opts *o, const lt_hf *hf, lt_expert_rule *out)
{
    json_error_t error;
    const lt_hf_asset *asset = lt_hf_asset_find(hf, "config.json");
    *out = (lt_expert_rule){0};
    if (o->kind == LT_CONVERT_GENERIC)
        return LT_OK;
    if (!asset) {
        return LT_FAIL(LT_ERR_NOT_FOUND,
                       "%s holds no config.json, which says what experts there "
                       "are",
                       lt_hf_dir(hf));
    }
    json_t *config = json_loadb((const char *)asset->data, asset->bytes, 0, &error);
    if (!config)
        return LT_FAIL(LT_ERR_FORMAT, "%s/config.json:%d: %s", lt_hf_dir(hf), error.line,
                       error.text);
    const lt_status st = choose_rule(o, config, out);
    json_decref(config);
    return st;
}
