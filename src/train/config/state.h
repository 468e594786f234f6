// SPDX-License-Identifier: Apache-2.0
// What the files of this folder share while a configuration is loaded: where keys stand, what is
// wrong with them.
#ifndef LT_TRAIN_CONFIG_STATE_H
#define LT_TRAIN_CONFIG_STATE_H

#include "train/config/config.h"
#include "train/config/schema.h"
#include "train/config/yaml.h"

/** At most so many issues are kept; one more says that there are more. */
enum { LT_CONFIG_MAX_ISSUES = 200 };

typedef struct lt_config_spot {
    int32_t source; /* 0: the file; k: override k */
    lt_yaml_mark mark;
} lt_config_spot;

struct lt_config_state {
    lt_arena *arena;
    const char *name;   /* of the file */
    lt_yaml_node *root; /* with overrides applied */
    lt_vec issues;      /* lt_config_issue */
    lt_map *spot_index; /* key path -> index in spots: keys that were set */
    lt_vec spots;       /* lt_config_spot */
    bool strict;
};

/** Add an issue: "PLACE: key.path: text". `spot` NULL: the place of the key, else of the file. */
LT_NODISCARD lt_status lt_config_issue_add(lt_config_state *s, lt_config_level level,
                                           const lt_config_spot *spot, const char *key_path,
                                           const char *fmt, ...) LT_PRINTF(5, 6);
/** The same for a key that was set or has its default. */
#define LT_CONFIG_ADD(s, level, key_path, ...)                                                     \
    lt_config_issue_add((s), (level), NULL, (key_path), __VA_ARGS__)

/** Remember where a key was set. */
LT_NODISCARD lt_status lt_config_spot_put(lt_config_state *s, const char *key_path,
                                          lt_config_spot spot);
bool lt_config_spot_get(const lt_config_state *s, const char *key_path, lt_config_spot *spot);
lt_config_place lt_config_spot_text(const lt_config_state *s, const lt_config_spot *spot);

/**
 * Convert a node to a field's C value (convert.c). For what is wrong: false, *spot at the node,
 * *why a sentence.
 *
 * out      *into, untouched when false
 * errors   LT_ERR_MEMORY in *st
 */
typedef struct lt_convert {
    lt_arena *arena;
    lt_status st;
    lt_config_spot spot;
    char item[32]; /* "[2]" when it is an item of a list that is wrong, else "" */
    char why[512];
} lt_convert;
bool lt_convert_node(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into);
/** The field's default. It is part of the schema: a wrong one is a bug. errors: LT_ERR_MEMORY */
LT_NODISCARD lt_status lt_convert_default(lt_arena *arena, const lt_field *f, void *into);
/** What the field takes: "a whole number", "a list of texts". */
const char *lt_convert_words(const lt_field *f);

/** Fill the whole struct from the tree (fill.c): values, defaults, unknown keys, missing keys. */
LT_NODISCARD lt_status lt_config_fill(lt_config *cfg);
/**
 * What to say about a key that the schema does not know (advice.c), "" when nothing comes to mind.
 * True: the key is known from elsewhere and changes what is trained, so that it may not be passed
 * over.
 */
bool lt_config_advice(const lt_record *record, const char *key_path, const char *key, char *out,
                      size_t size);
/** Is the file one of another family? LT_ERR_CONFIG with a sentence that says which (advice.c). */
LT_NODISCARD lt_status lt_config_check_family(const lt_config_state *s);
/** Rules between keys (rules.c), and the sizes that follow. */
LT_NODISCARD lt_status lt_config_check_rules(lt_config *cfg);
LT_NODISCARD lt_status lt_config_check_sizes(lt_config *cfg, int64_t world);
/** Apply "section.key=value" number n, counted from 1 (override.c). */
LT_NODISCARD lt_status lt_config_override(lt_config_state *s, int32_t n, const char *text);
/** A value as YAML that loads to it (print.c). */
LT_NODISCARD lt_status lt_config_value_text(const lt_field *f, const void *member, lt_buf *out);
/** Does the value equal the default? */
LT_NODISCARD lt_status lt_config_is_default(const lt_field *f, const void *member, bool *same);
#endif
