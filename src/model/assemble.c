// SPDX-License-Identifier: Apache-2.0
// Kinds, parameters and blocks on their way into a model.
#include "model/assemble.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// A kind and its cost side by side: blocks find the one from the other.
typedef struct kind_entry {
    lt_block_kind kind; // first: its address is the entry's
    lt_kind_cost cost;
} kind_entry;

lt_path_text lt_path_of(const char *fmt, ...)
{
    lt_path_text path;
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(path.s, sizeof path.s, fmt, args);
    va_end(args);
    LT_ASSERT(len >= 0 && (size_t)len < sizeof path.s);
    return path;
}

// Remembers the first failure.
static bool keep(lt_assembly *a, lt_status st)
{
    if (a->status == LT_OK)
        a->status = st;
    return a->status == LT_OK;
}

static void *copy(lt_assembly *a, const void *data, size_t bytes)
{
    void *to = NULL;
    if (!keep(a, lt_arena_take(a->arena, bytes, &to)))
        return NULL;
    if (bytes > 0)
        memcpy(to, data, bytes);
    return to;
}

const lt_block_kind *lt_assemble_kind(lt_assembly *a, const lt_block_kind *kind,
                                      const lt_kind_cost *cost)
{
    if (a->status != LT_OK)
        return NULL;
    kind_entry entry = {*kind, *cost};
    entry.kind.params = copy(a, kind->params, (size_t)kind->n_params * sizeof *kind->params);
    kind_entry *kept = copy(a, &entry, sizeof entry);
    if (!kept)
        return NULL;
    const lt_block_kind *out = &kept->kind;
    return keep(a, lt_vec_push(&a->kinds, &out)) ? out : NULL;
}

// Every dotted prefix of a name is a module; each is kept once, in order of appearance.
static lt_status add_modules(lt_assembly *a, const char *name)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t len = (size_t)(dot - name);
        bool seen = false;
        for (int64_t i = a->modules.n;
             i-- > 0 && !seen;) { // from the end: neighbours share their prefixes
            const char *m = LT_AT(&a->modules, const char *, i);
            seen = strlen(m) == len && memcmp(m, name, len) == 0;
        }
        if (seen)
            continue;
        char *path = NULL;
        LT_TRY(lt_arena_text(a->arena, name, len, &path));
        LT_TRY(lt_vec_push(&a->modules, &(const char *){path}));
    }
    return LT_OK;
}

static lt_status add_param(lt_assembly *a, const char *prefix, const lt_param_spec *spec,
                           double std)
{
    char *name = NULL;
    LT_TRY(lt_arena_printf(a->arena, &name, "%s.%s", prefix, spec->name));
    lt_param p = {.name = name,
                  .id = (int32_t)a->params.n,
                  .rank = spec->rank,
                  .n_elems = 1,
                  .init = spec->init};
    for (int32_t i = 0; i < spec->rank; i++) {
        p.dim[i] = spec->dim[i];
        if (!lt_mul_i64(p.n_elems, spec->dim[i], &p.n_elems))
            return LT_FAIL(LT_ERR_SHAPE, "parameter %s has more than 2^63 elements", name);
    }
    p.std = spec->init == LT_INIT_NORMAL ? std : spec->value;
    int64_t other;
    LT_ASSERT(!lt_map_get_text(a->names, name, &other));
    LT_TRY(lt_map_put_text(a->names, name, p.id));
    LT_TRY(lt_vec_push(&a->params, &p));
    return add_modules(a, name);
}

void lt_assemble_params(lt_assembly *a, const char *prefix, const lt_block_kind *kind, double std)
{
    for (int32_t i = 0; a->status == LT_OK && i < kind->n_params; i++)
        keep(a, add_param(a, prefix, &kind->params[i], std));
}

void lt_assemble_alias(lt_assembly *a, const char *name, const char *alias)
{
    const int32_t id = lt_assemble_find(a, name);
    if (id < 0)
        return;
    lt_param *p = &LT_AT(&a->params, lt_param, id);
    const char **list = NULL;
    void *memory = NULL;
    if (!keep(a, lt_arena_take(a->arena, ((size_t)p->n_aliases + 1) * sizeof *list, &memory)))
        return;
    list = memory;
    for (int32_t i = 0; i < p->n_aliases; i++)
        list[i] = p->aliases[i];
    char *text = NULL;
    if (!keep(a, lt_arena_text(a->arena, alias, strlen(alias), &text)))
        return;
    list[p->n_aliases++] = text;
    p->aliases = list;
    if (keep(a, lt_map_put_text(a->names, alias, id)))
        keep(a, add_modules(a, alias));
}

static lt_status bind_params(lt_assembly *a, const char *prefix, const lt_block_kind *kind,
                             int32_t *ids)
{
    for (int32_t i = 0; i < kind->n_params; i++) {
        char name[256];
        const int len = snprintf(name, sizeof name, "%s.%s", prefix, kind->params[i].name);
        int64_t id = -1;
        if (len < 0 || (size_t)len >= sizeof name || !lt_map_get_text(a->names, name, &id)) {
            return LT_FAIL(LT_ERR_INTERNAL,
                           "block kind %s wants the parameter %s, which the model does not have",
                           kind->name, name);
        }
        LT_AT(&a->params, lt_param, id).in_use = true;
        ids[i] = (int32_t)id;
    }
    return LT_OK;
}

static void check_inputs(const lt_assembly *a, const lt_block_kind *kind, const lt_edge *inputs)
{
    for (int32_t i = 0; i < kind->n_in; i++) {
        LT_ASSERT(inputs[i].block >= 0 && inputs[i].block < a->blocks.n);
        LT_ASSERT(inputs[i].output >= 0 &&
                  inputs[i].output < LT_AT(&a->blocks, lt_block, inputs[i].block).kind->n_out);
    }
}

lt_edge lt_assemble_block(lt_assembly *a, const char *name, const char *prefix,
                          const lt_block_kind *kind, const lt_edge *inputs, lt_block_role role)
{
    const lt_edge none = {-1, 0};
    if (a->status != LT_OK)
        return none;
    check_inputs(a, kind, inputs);
    LT_ASSERT(a->blocks.n < LT_MAX_BLOCKS); // the limits on layers see to it
    void *ids = NULL;
    if (!keep(a, lt_arena_take(a->arena, (size_t)kind->n_params * sizeof(int32_t), &ids)) ||
        !keep(a, bind_params(a, prefix, kind, ids)))
        return none;
    const lt_block block = {.name = copy(a, name, strlen(name) + 1),
                            .kind = kind,
                            .cost = &((const kind_entry *)(const void *)kind)->cost,
                            .params = ids,
                            .inputs = copy(a, inputs, (size_t)kind->n_in * sizeof *inputs),
                            .role = role};
    if (!keep(a, lt_vec_push(&a->blocks, &block)))
        return none;
    return (lt_edge){.block = (int32_t)(a->blocks.n - 1), .output = 0};
}

int32_t lt_assemble_find(const lt_assembly *a, const char *name)
{
    int64_t id = -1;
    if (a->status == LT_OK)
        LT_ASSERT(lt_map_get_text(a->names, name, &id));
    return (int32_t)id;
}
