// SPDX-License-Identifier: Apache-2.0
// Reading JSON fields by table, with messages that name the file, the key path, the value and the
// rule.
#include "model/json_field.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static lt_json_path join(const char *prefix, const char *key)
{
    lt_json_path path;
    snprintf(path.s, sizeof path.s, "%s%s", prefix, key);
    return path;
}

static json_t *get(json_t *object, const char *key)
{
    json_t *v = key ? json_object_get(object, key) : NULL;
    return json_is_null(v) ? NULL : v;
}

json_t *lt_json_find(const lt_json_scope *scope, const lt_json_field *field, lt_json_path *path)
{
    const char *keys[] = {field->key, field->other_key};
    json_t *objects[] = {scope->object, field->in_outer ? scope->outer : NULL};
    const char *prefixes[] = {scope->path, scope->outer_path};
    for (int o = 0; o < 2; o++) {
        for (int k = 0; k < 2; k++) {
            json_t *v = get(objects[o], keys[k]);
            if (v) {
                *path = join(prefixes[o], keys[k]);
                return v;
            }
        }
    }
    *path = join(scope->path, field->key);
    return NULL;
}

lt_json_path lt_json_print(json_t *value)
{
    enum { SHOWN = 60 };
    lt_json_path text;
    char buf[SHOWN + 1];
    const size_t len = json_dumpb(value, buf, SHOWN, JSON_ENCODE_ANY | JSON_COMPACT);
    if (len == 0 || len > SHOWN) {
        snprintf(text.s, sizeof text.s, "a long value");
        return text;
    }
    buf[len] = '\0';
    snprintf(text.s, sizeof text.s, "%s", buf);
    return text;
}

static lt_status read_int(const lt_json_scope *scope, const lt_json_field *f, json_t *v,
                          const lt_json_path *path, int64_t *out)
{
    if (!json_is_integer(v) || (double)json_integer_value(v) < f->min ||
        (double)json_integer_value(v) > f->max)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s is %s; it must be a whole number from %.0f to %.0f",
                       scope->where, path->s, lt_json_print(v).s, f->min, f->max);
    *out = json_integer_value(v);
    return LT_OK;
}

static lt_status read_real(const lt_json_scope *scope, const lt_json_field *f, json_t *v,
                           const lt_json_path *path, double *out)
{
    const double x = json_number_value(v);
    if (!json_is_number(v) || !isfinite(x) || x < f->min || x > f->max)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s is %s; it must be a number from %g to %g",
                       scope->where, path->s, lt_json_print(v).s, f->min, f->max);
    *out = x;
    return LT_OK;
}

static lt_status read_bool(const lt_json_scope *scope, json_t *v, const lt_json_path *path,
                           bool *out)
{
    if (!json_is_boolean(v))
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s is %s; it must be true or false", scope->where,
                       path->s, lt_json_print(v).s);
    *out = json_is_true(v);
    return LT_OK;
}

static lt_status read_one(const lt_json_scope *scope, const lt_json_field *f, char *base)
{
    lt_json_path path;
    json_t *v = lt_json_find(scope, f, &path);
    if (!v && f->required)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s is missing", scope->where, path.s);
    void *to = base + f->offset;
    switch (f->type) {
    case LT_FIELD_INT: {
        int64_t n = (int64_t)f->fallback;
        if (v)
            LT_TRY(read_int(scope, f, v, &path, &n));
        memcpy(to, &n, sizeof n);
        return LT_OK;
    }
    case LT_FIELD_REAL: {
        double x = f->fallback;
        if (v)
            LT_TRY(read_real(scope, f, v, &path, &x));
        memcpy(to, &x, sizeof x);
        return LT_OK;
    }
    case LT_FIELD_BOOL: {
        bool yes = f->fallback > 0;
        if (v)
            LT_TRY(read_bool(scope, v, &path, &yes));
        memcpy(to, &yes, sizeof yes);
        return LT_OK;
    }
    }
    return LT_OK;
}

lt_status lt_json_read(const lt_json_scope *scope, const lt_json_field *fields, size_t n,
                       void *base)
{
    for (size_t i = 0; i < n; i++)
        LT_TRY(read_one(scope, &fields[i], base));
    return LT_OK;
}

lt_status lt_json_hold(const lt_json_scope *scope, const lt_json_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *v = get(scope->object, rules[i].key);
        if (!v)
            continue;
        const char *word = rules[i].word;
        const bool fine = word ? json_is_string(v) && strcmp(json_string_value(v), word) == 0
                               : json_is_false(v) || (json_is_number(v) &&
                                                      fpclassify(json_number_value(v)) == FP_ZERO);
        if (!fine) {
            return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: %s%s is %s, which is not supported; only %s is",
                           scope->where, scope->path, rules[i].key, lt_json_print(v).s,
                           word ? word : "off (false, 0 or null)");
        }
    }
    return LT_OK;
}

lt_status lt_json_object(const lt_json_scope *scope, const char *key, json_t **out)
{
    json_t *v = get(scope->object, key);
    if (!v)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s%s is missing", scope->where, scope->path, key);
    if (!json_is_object(v))
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s%s is %s; it must be an object", scope->where,
                       scope->path, key, lt_json_print(v).s);
    *out = v;
    return LT_OK;
}

lt_status lt_json_ints(const lt_json_scope *scope, const char *key, int64_t min, int64_t max,
                       int32_t *out, int32_t cap, int32_t *n)
{
    json_t *v = get(scope->object, key);
    if (!v)
        return LT_OK;
    if (!json_is_array(v) || json_array_size(v) > (size_t)cap) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: %s%s is %s; it must be a list of at most %d whole numbers",
                       scope->where, scope->path, key, lt_json_print(v).s, (int)cap);
    }
    const int32_t len = (int32_t)json_array_size(v);
    for (int32_t i = 0; i < len; i++) {
        json_t *item = json_array_get(v, (size_t)i);
        const int64_t x = json_integer_value(item);
        if (!json_is_integer(item) || x < min || x > max) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "%s: %s%s[%d] is %s; it must be a whole number from %lld to %lld",
                           scope->where, scope->path, key, (int)i, lt_json_print(item).s,
                           (long long)min, (long long)max);
        }
        out[i] = (int32_t)x;
    }
    *n = len;
    return LT_OK;
}
