// SPDX-License-Identifier: Apache-2.0
// Fields of a JSON object as rows of a table: key, place in a struct, fallback, range. Internal to
// src/model.
#ifndef LT_MODEL_JSON_FIELD_H
#define LT_MODEL_JSON_FIELD_H

#include "base/status.h"
#include <jansson.h>

/**
 * An object to read from, and the one around it that some fields may stand in as well. Borrows all.
 */
typedef struct lt_json_scope {
    const char *where; /* the file, for messages */
    json_t *object, *outer;
    const char *path, *outer_path; /* "text_config.", "" */
} lt_json_scope;

typedef struct lt_json_path {
    char s[160];
} lt_json_path;

typedef enum lt_field_type { LT_FIELD_INT, LT_FIELD_REAL, LT_FIELD_BOOL } lt_field_type;

/** One field. INT is stored as int64_t, REAL as double, BOOL as bool. null counts as absent. */
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order of reading a row
typedef struct lt_json_field {
    const char *key, *other_key; /* other_key: a second spelling, tried after `key`; may be NULL */
    lt_field_type type;
    size_t offset;
    bool required, in_outer; /* in_outer: else looked up, by both spellings, in the outer object */
    double fallback;         /* when absent and not required; not held against the range */
    double min, max;         /* both included */
} lt_json_field;

/**
 * A field that must have one value where it stands at all: what the value means otherwise is not
 * built.
 */
typedef struct lt_json_rule {
    const char *key;
    const char *word; /* the only text allowed; NULL: false, 0 or null */
} lt_json_rule;

/**
 * The value of the first of key and other_key that is there and not null, inner object first; NULL.
 * path: its key path.
 */
json_t *lt_json_find(const lt_json_scope *scope, const lt_json_field *field, lt_json_path *path);
/** Read rows into the struct at `base`. errors LT_ERR_CONFIG: file, key path, value, rule */
LT_NODISCARD lt_status lt_json_read(const lt_json_scope *scope, const lt_json_field *fields,
                                    size_t n, void *base);
/** errors LT_ERR_UNSUPPORTED */
LT_NODISCARD lt_status lt_json_hold(const lt_json_scope *scope, const lt_json_rule *rules,
                                    size_t n);
/** The object below `key`. errors LT_ERR_CONFIG when it is missing or not an object */
LT_NODISCARD lt_status lt_json_object(const lt_json_scope *scope, const char *key, json_t **out);
/**
 * A list of at most `cap` whole numbers from min to max; *n stays as it is when the key is absent.
 */
LT_NODISCARD lt_status lt_json_ints(const lt_json_scope *scope, const char *key, int64_t min,
                                    int64_t max, int32_t *out, int32_t cap, int32_t *n);
/** A value as messages print it: at most a line. */
lt_json_path lt_json_print(json_t *value);
#endif
