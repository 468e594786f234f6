// SPDX-License-Identifier: Apache-2.0
// YAML text to a tree of nodes that know their place in the file: libyaml's events, with the scalar
// rules of YAML 1.1 as PyYAML's safe_load applies them, anchors, aliases and merge keys.
#ifndef LT_TRAIN_CONFIG_YAML_H
#define LT_TRAIN_CONFIG_YAML_H

#include "base/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Limits, each an error of its own when passed. */
#define LT_YAML_MAX_BYTES (1 << 20) /* of a file */
#define LT_YAML_MAX_DEPTH 64        /* of collections in collections */
#define LT_YAML_MAX_NODES 100000    /* counted with every alias written out */
#define LT_YAML_MAX_KEYS 1024       /* in one mapping */
#define LT_YAML_MAX_NUMBER                                                                         \
    255 /* characters of a plain scalar that can still be a number or a date */

typedef enum lt_yaml_kind {
    LT_YAML_NULL,
    LT_YAML_BOOL,
    LT_YAML_INT,
    LT_YAML_FLOAT,
    LT_YAML_DATE, /* 2026-01-01, with or without a time: no field takes one; a text has to be quoted
                   */
    LT_YAML_TEXT,
    LT_YAML_LIST,
    LT_YAML_MAP
} lt_yaml_kind;

/** 1-based; line 0: nowhere in a file. */
typedef struct lt_yaml_mark {
    int32_t line, column;
} lt_yaml_mark;

typedef struct lt_yaml_node lt_yaml_node;
typedef struct lt_yaml_pair {
    const lt_yaml_node *key; /* a scalar; keys are compared by their text */
    lt_yaml_node *value;
} lt_yaml_pair;

struct lt_yaml_node {
    lt_yaml_kind kind;
    bool plain;        /* a scalar without quotes */
    bool too_big;      /* LT_YAML_INT: `integer` holds the nearest bound, `real` the value */
    bool boolean;      /* LT_YAML_BOOL */
    int32_t source;    /* as given to lt_yaml_parse; 0 is the file */
    lt_yaml_mark mark; /* an aliased node is marked where its alias stands */
    const char *text;  /* scalars: as written, quotes and escapes resolved; no zero byte inside */
    int64_t integer;   /* LT_YAML_INT */
    double real;       /* LT_YAML_INT and LT_YAML_FLOAT; may be infinite or NaN */
    lt_yaml_node **items; /* LT_YAML_LIST [n] */
    lt_yaml_pair *pairs;  /* LT_YAML_MAP [n], merged pairs first, no key twice */
    int64_t n;
    int64_t weight; /* nodes in this tree, aliases written out */
};

/** A key that stands twice in one mapping: the later one counts, as in PyYAML. */
typedef struct lt_yaml_twice {
    const char *key;
    lt_yaml_mark first, second;
} lt_yaml_twice;

/**
 * Parse one document. An empty one gives a LT_YAML_NULL root.
 *
 * in       name for messages: "config.yaml" or "override 2"; source is copied into every node;
 * twice NULL, or a vector of lt_yaml_twice that is added to out      *root in `arena` errors
 * LT_ERR_CONFIG: "name:line: what is wrong": syntax, a second document, an unknown or recursive
 * alias, a collection as a key, a wrong value of <<, an unknown tag, a limit passed
 */
LT_NODISCARD lt_status lt_yaml_parse(lt_arena *arena, const char *name, const char *text,
                                     size_t len, int32_t source, lt_vec *twice,
                                     lt_yaml_node **root);

/** Give a plain scalar its kind and value by YAML 1.1. node->text is set; kind and value are
 * written. */
void lt_yaml_resolve(lt_yaml_node *node);

/** The pair of `key` in a mapping, NULL when absent or when `map` is no mapping (or NULL). */
const lt_yaml_pair *lt_yaml_find(const lt_yaml_node *map, const char *key);
/** Its value. */
lt_yaml_node *lt_yaml_get(const lt_yaml_node *map, const char *key);

/** "the text \"four\"", "the number 4.5", "null", "a list": for messages. */
typedef struct lt_yaml_words {
    char s[96];
} lt_yaml_words;
lt_yaml_words lt_yaml_describe(const lt_yaml_node *node);
/** The start of a text, with control characters as ?, so that a file cannot write to a terminal
 * through a message. */
lt_yaml_words lt_yaml_excerpt(const char *text);

/**
 * Set the value at a dotted path, making mappings on the way; two mappings are merged, anything
 * else is replaced. Nodes that aliases share are copied first.
 *
 * errors   LT_ERR_CONFIG: a step of the path is a scalar or a list; LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_yaml_set(lt_arena *arena, lt_yaml_node **root, const char *path,
                                   lt_yaml_node *value);

#ifdef __cplusplus
}
#endif
#endif
