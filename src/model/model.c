// SPDX-License-Identifier: Apache-2.0
// A model's life, look-ups, freezing, counts and first values.
#include "model/model.h"
#include "base/pattern.h"
#include "base/rng.h"
#include "model/family.h"
#include <math.h>
#include <string.h>

static lt_status open_store(lt_model *m)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof *m->store, "model"));
    lt_assembly *a = m->store = memory;
    a->model = m;
    a->params = LT_VEC_OF(lt_param);
    a->blocks = LT_VEC_OF(lt_block);
    a->kinds = LT_VEC_OF(const lt_block_kind *);
    a->modules = LT_VEC_OF(const char *);
    LT_TRY(lt_arena_create(&a->arena, "model"));
    return lt_map_create(&a->names);
}

// What the family built, as the model shows it.
static void publish(lt_model *m)
{
    lt_assembly *a = m->store;
    m->params = a->params.data;
    m->n_params = (int32_t)a->params.n;
    m->blocks = a->blocks.data;
    m->n_blocks = (int32_t)a->blocks.n;
    m->kinds = a->kinds.data;
    m->n_kinds = (int32_t)a->kinds.n;
    for (int32_t i = 0; i < m->n_params; i++)
        m->params[i].trainable = m->params[i].in_use;
}

lt_status lt_model_create(const lt_model_config *config, lt_head head, lt_model **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_model), "model"));
    lt_model *m = memory;
    m->config = *config;
    m->tied = head == LT_HEAD_AS_CONFIG ? config->tied : head == LT_HEAD_TIED;
    m->pixel_width = lt_model_config_pixel_width(config);
    m->vocab = config->text.vocab;
    m->balance_block = m->next_block = -1;
    lt_status st = open_store(m);
    if (st == LT_OK) {
        config->family->build(m->store);
        st = m->store->status;
    }
    if (st != LT_OK) {
        lt_model_destroy(m);
        return st;
    }
    publish(m);
    *out = m;
    return LT_OK;
}

void lt_model_destroy(lt_model *model)
{
    if (!model)
        return;
    lt_assembly *a = model->store;
    if (a) {
        lt_vec_deinit(&a->params);
        lt_vec_deinit(&a->blocks);
        lt_vec_deinit(&a->kinds);
        lt_vec_deinit(&a->modules);
        lt_map_destroy(a->names);
        lt_arena_destroy(a->arena);
        lt_mem_free(a);
    }
    lt_mem_free(model);
}

lt_param *lt_model_param(const lt_model *model, const char *name)
{
    int64_t id;
    return lt_map_get_text(model->store->names, name, &id) ? &model->params[id] : NULL;
}

lt_tensor lt_param_tensor(const lt_param *param, lt_dtype dtype)
{
    return lt_tensor_nd(dtype, param->rank, param->dim);
}

// Does the pattern match a module that the named parameter lies in: "", "model", "model.visual",
// ... but not the name itself.
static bool covers(const char *pattern, const char *name)
{
    char path[LT_PATTERN_PATH_MAX];
    if (lt_pattern_match(pattern, ""))
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t len = (size_t)(dot - name);
        if (len >= sizeof path)
            return false;
        memcpy(path, name, len);
        path[len] = '\0';
        if (lt_pattern_match(pattern, path))
            return true;
    }
    return false;
}

static bool covers_param(const char *pattern, const lt_param *p)
{
    bool yes = covers(pattern, p->name);
    for (int32_t i = 0; i < p->n_aliases && !yes; i++)
        yes = covers(pattern, p->aliases[i]);
    return yes;
}

lt_status lt_model_freeze(lt_model *model, const char *const *patterns, int64_t n, int64_t *hits)
{
    for (int64_t i = 0; i < n; i++)
        LT_TRY(lt_pattern_check(patterns[i]));
    for (int64_t i = 0; i < n; i++) {
        int64_t covered = 0;
        for (int32_t k = 0; k < model->n_params; k++) {
            if (covers_param(patterns[i], &model->params[k])) {
                model->params[k].trainable = false;
                covered++;
            }
        }
        if (hits)
            hits[i] = covered;
    }
    return LT_OK;
}

lt_status lt_model_modules(const lt_model *model, lt_vec *paths)
{
    return lt_vec_append(paths, model->store->modules.data, model->store->modules.n);
}

// Length of the top module's name: "model.visual" of "model.visual.blocks.0...", "lm_head" of
// "lm_head.weight".
static size_t top_module(const char *name)
{
    const size_t first = strcspn(name, ".");
    if (first != strlen("model") || memcmp(name, "model", first) != 0)
        return first;
    return first + 1 + strcspn(name + first + 1, ".");
}

lt_status lt_model_count(const lt_model *model, lt_vec *rows)
{
    const int64_t first = rows->n;
    for (int32_t i = 0; i < model->n_params; i++) {
        const lt_param *p = &model->params[i];
        const size_t len = top_module(p->name);
        lt_param_count *row = NULL;
        for (int64_t k = first; k < rows->n && !row; k++) {
            lt_param_count *r = &LT_AT(rows, lt_param_count, k);
            if (strlen(r->module) == len && memcmp(r->module, p->name, len) == 0)
                row = r;
        }
        if (!row) {
            lt_param_count fresh = {0};
            const lt_vec *modules = &model->store->modules;
            for (int64_t k = 0; k < modules->n && !fresh.module; k++) {
                const char *path = LT_AT(modules, const char *, k);
                if (strlen(path) == len && memcmp(path, p->name, len) == 0)
                    fresh.module = path;
            }
            LT_TRY(lt_vec_push(rows, &fresh));
            row = &LT_AT(rows, lt_param_count, rows->n - 1);
        }
        *(p->trainable ? &row->trainable : &row->frozen) += p->n_elems;
    }
    return LT_OK;
}

int64_t lt_model_total(const lt_model *model, bool trainable_only)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < model->n_params; i++)
        if (model->params[i].trainable || !trainable_only)
            sum += model->params[i].n_elems;
    return sum;
}

void lt_model_needs_grad(const lt_model *model, bool *needs)
{
    for (int32_t i = 0; i < model->n_blocks; i++) {
        const lt_block *block = &model->blocks[i];
        needs[i] = false;
        for (int32_t k = 0; k < block->kind->n_params; k++)
            needs[i] |= model->params[block->params[k]].trainable;
        for (int32_t k = 0; k < block->kind->n_in; k++)
            needs[i] |= needs[block->inputs[k].block];
    }
}

void lt_model_init_values(const lt_param *param, uint64_t seed, int64_t first, int64_t n,
                          float *out)
{
    const uint64_t key = lt_rng_key(seed, param->name);
    for (int64_t i = 0; i < n; i++) {
        switch (param->init) {
        case LT_INIT_NORMAL:
            out[i] = (float)(param->std * lt_normal(key, (uint64_t)(first + i)));
            break;
        case LT_INIT_ZERO:
            out[i] = 0;
            break;
        case LT_INIT_ONE:
            out[i] = 1;
            break;
        case LT_INIT_VALUE:
            out[i] = (float)param->std;
            break;
        case LT_INIT_LOG_UNIFORM:
            out[i] =
                (float)log(0.01 + (param->std - 0.01) * lt_uniform(key, (uint64_t)(first + i)));
            break;
        }
    }
}
