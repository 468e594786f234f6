// SPDX-License-Identifier: Apache-2.0
// Looking at the values of a pickle.
#include "ckpt/pickle.h"
#include <string.h>

bool lt_pickle_is_global(const lt_pickle *v, const char *module, const char *name)
{
    return v->kind == LT_PICKLE_GLOBAL && strcmp(v->name, name) == 0 &&
           (!module || strcmp(v->module, module) == 0);
}

bool lt_pickle_is_object(const lt_pickle *v, const char *module, const char *name)
{
    return v->kind == LT_PICKLE_OBJECT && lt_pickle_is_global(v->callable, module, name);
}

const lt_pickle *lt_pickle_dict(const lt_pickle *v)
{
    static const lt_pickle none = {.kind = LT_PICKLE_DICT};
    if (v->kind == LT_PICKLE_DICT)
        return v;
    if (v->kind != LT_PICKLE_OBJECT)
        return NULL;
    if (v->dict)
        return v->dict;
    return lt_pickle_is_object(v, "collections", "OrderedDict") ? &none : NULL;
}

const lt_pickle *lt_pickle_get(const lt_pickle *v, const char *key)
{
    const lt_pickle *dict = lt_pickle_dict(v), *found = NULL;
    const size_t len = strlen(key);
    for (int64_t i = 0; dict && i < dict->n; i++) { // of equal keys the last one counts
        const lt_pickle *k = dict->items[2 * i];
        if (k->kind == LT_PICKLE_TEXT && k->len == len && memcmp(k->text, key, len) == 0)
            found = dict->items[2 * i + 1];
    }
    return found;
}

const char *lt_pickle_text(const lt_pickle *v)
{
    return v && v->kind == LT_PICKLE_TEXT && strlen(v->text) == v->len ? v->text : NULL;
}

bool lt_pickle_int(const lt_pickle *v, int64_t *out)
{
    if (!v || v->kind != LT_PICKLE_INT)
        return false;
    *out = v->integer;
    return true;
}

bool lt_pickle_real(const lt_pickle *v, double *out)
{
    if (v && v->kind == LT_PICKLE_FLOAT)
        *out = v->real;
    else if (v && v->kind == LT_PICKLE_INT)
        *out = (double)v->integer;
    else
        return false;
    return true;
}

const char *lt_pickle_kind_text(const lt_pickle *v)
{
    static const char *const names[] = {
        [LT_PICKLE_NONE] = "None",        [LT_PICKLE_BOOL] = "a truth value",
        [LT_PICKLE_INT] = "an integer",   [LT_PICKLE_BIG] = "a big integer",
        [LT_PICKLE_FLOAT] = "a float",    [LT_PICKLE_TEXT] = "a text",
        [LT_PICKLE_BYTES] = "bytes",      [LT_PICKLE_LIST] = "a list",
        [LT_PICKLE_TUPLE] = "a tuple",    [LT_PICKLE_SET] = "a set",
        [LT_PICKLE_DICT] = "a dict",      [LT_PICKLE_GLOBAL] = "a class",
        [LT_PICKLE_OBJECT] = "an object", [LT_PICKLE_PERSISTENT] = "a persistent id"};
    if (!v)
        return "nothing";
    return v->kind == LT_PICKLE_OBJECT && v->callable->kind == LT_PICKLE_GLOBAL ? v->callable->name
                                                                                : names[v->kind];
}
