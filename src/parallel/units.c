// SPDX-License-Identifier: Apache-2.0
// From module patterns to units.
#include "parallel/units.h"

#include "base/pattern.h"
#include "base/text.h"

#include <string.h>

typedef struct maker {
    const lt_model *model;
    const char *const *patterns;
    int64_t n;
    lt_arena *arena;
    lt_map *numbers; /* module path -> unit */
    lt_vec names;    /* const char *, by unit */
    int32_t *of_param;
} maker;

// The longest dotted prefix of a parameter's name that some pattern matches; "" when none does.
static lt_status module_of(const maker *m, const char *name, char **out)
{
    char *path = NULL;
    LT_TRY(lt_arena_text(m->arena, name, strlen(name), &path));
    for (char *dot = strrchr(path, '.'); dot; dot = strrchr(path, '.')) {
        *dot = 0;
        if (lt_pattern_last(m->patterns, m->n, path) >= 0)
            break;
    }
    if (strchr(path, '.') == NULL && lt_pattern_last(m->patterns, m->n, path) < 0)
        *path = 0;
    *out = path;
    return LT_OK;
}

static lt_status unit_number(maker *m, const char *path, int64_t *out)
{
    if (lt_map_get_text(m->numbers, path, out))
        return LT_OK;
    *out = m->names.n;
    LT_TRY(lt_vec_push(&m->names, &path));
    return lt_map_put_text(m->numbers, path, *out);
}

static lt_status assign(maker *m)
{
    int32_t root_first = LT_NONE;
    for (int32_t i = 0; i < m->model->n_params; i++) {
        char *path = NULL;
        int64_t unit = 0;
        LT_TRY(module_of(m, m->model->params[i].name, &path));
        if (*path == 0) { // the root unit gets its number when all others have theirs
            m->of_param[i] = LT_NONE;
            root_first = root_first == LT_NONE ? i : root_first;
            continue;
        }
        LT_TRY(unit_number(m, path, &unit));
        m->of_param[i] = lt_int(unit);
    }
    if (root_first == LT_NONE)
        return LT_OK;
    int64_t root = 0;
    LT_TRY(unit_number(m, "", &root));
    for (int32_t i = 0; i < m->model->n_params; i++)
        if (m->of_param[i] == LT_NONE)
            m->of_param[i] = lt_int(root);
    return LT_OK;
}

static lt_status fill(const maker *m, lt_units *units)
{
    void *memory = NULL;
    units->n_units = lt_int(m->names.n);
    LT_TRY(lt_arena_take(m->arena, (size_t)units->n_units * sizeof(lt_unit), &memory));
    units->units = memory;
    units->of_param = m->of_param;
    for (int32_t u = 0; u < units->n_units; u++) {
        int32_t n = 0;
        for (int32_t i = 0; i < m->model->n_params; i++)
            n += m->of_param[i] == u;
        LT_TRY(lt_arena_take(m->arena, (size_t)n * sizeof(int32_t), &memory));
        int32_t *params = memory;
        n = 0;
        for (int32_t i = 0; i < m->model->n_params; i++)
            if (m->of_param[i] == u)
                params[n++] = i;
        units->units[u] = (lt_unit){LT_AT(&m->names, const char *, u), params, n};
    }
    return LT_OK;
}

static lt_status check_patterns(const maker *m, const lt_log *log)
{
    lt_vec paths = LT_VEC_OF(const char *);
    lt_status st = lt_model_modules(m->model, &paths);
    if (st == LT_OK)
        st = lt_patterns_check_use("parallel.fsdp_plan.apply_modules", m->patterns, m->n,
                                   paths.data, paths.n, log);
    lt_vec_deinit(&paths);
    return st;
}

lt_status lt_units_create(const lt_model *model, const char *const *patterns, int64_t n,
                          const lt_log *log, lt_units **out)
{
    lt_arena *arena = NULL;
    void *memory = NULL;
    LT_TRY(lt_arena_create(&arena, "units"));
    maker m = {.model = model,
               .patterns = patterns,
               .n = n,
               .arena = arena,
               .names = LT_VEC_OF(const char *)};
    lt_units *units = NULL;
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_take(arena, sizeof(lt_units), &memory), done);
    units = memory;
    units->arena = arena;
    LT_TRY_GOTO(st, lt_arena_take(arena, (size_t)model->n_params * sizeof(int32_t), &memory), done);
    m.of_param = memory;
    LT_TRY_GOTO(st, lt_map_create(&m.numbers), done);
    LT_TRY_GOTO(st, check_patterns(&m, log), done);
    LT_TRY_GOTO(st, assign(&m), done);
    LT_TRY_GOTO(st, fill(&m, units), done);
    *out = units;
done:
    lt_map_destroy(m.numbers);
    lt_vec_deinit(&m.names);
    if (st != LT_OK)
        lt_arena_destroy(arena);
    return st;
}

void lt_units_destroy(lt_units *units)
{
    if (units)
        lt_arena_destroy(units->arena);
}
