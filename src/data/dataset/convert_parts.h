// SPDX-License-Identifier: Apache-2.0
// What the converters share; for src/data/dataset alone.
#ifndef LT_DATA_DATASET_CONVERT_PARTS_H
#define LT_DATA_DATASET_CONVERT_PARTS_H

#include "data/dataset/convert.h"

typedef struct lt_converter {
    const lt_attr *attr;
    json_t *record;
    lt_arena *arena;
    lt_conversation *out;
} lt_converter;

/**
 * record[column]; NULL when the column is NULL, absent or null. Sets the bit of `seen` when the key
 * is there.
 */
const json_t *lt_column(const lt_converter *c, const char *column, unsigned bit);
/** A string column, "" when it isn't there. errors: LT_ERR_DATA for another type */
LT_NODISCARD lt_status lt_text_column(const lt_converter *c, const char *column, unsigned bit,
                                      lt_span *out);
/** Copy a JSON string, which dies with its record, into the arena. NULL and null give "". */
LT_NODISCARD lt_status lt_keep_text(const lt_converter *c, const json_t *string, lt_span *out);
/** Room for n turns. */
LT_NODISCARD lt_status lt_take_turns(const lt_converter *c, int64_t n);
/** "a number", "a list", ... for messages. */
const char *lt_json_kind(const json_t *value);
/**
 * The keys of an object, "a, b, c", as many as fit: for messages about one that isn't among them.
 */
typedef struct lt_keys_text {
    char s[200];
} lt_keys_text;
lt_keys_text lt_json_keys(json_t *object);
/** Mark the record as no use. keeps: fmt, a literal. errors: LT_ERR_MEMORY */
LT_NODISCARD lt_status lt_drop(const lt_converter *c, const char *fmt, ...) LT_PRINTF(2, 3);

LT_NODISCARD lt_status lt_convert_sharegpt(const lt_converter *c);
LT_NODISCARD lt_status lt_convert_alpaca(const lt_converter *c);
LT_NODISCARD lt_status lt_convert_openai(const lt_converter *c);
LT_NODISCARD lt_status lt_convert_multimodal_tool(const lt_converter *c);
LT_NODISCARD lt_status lt_convert_internvl(const lt_converter *c);

/**
 * A list of tool schemas, or one text, into out->tools in each form.
 * source   spec data-pipeline 4.3 and A.1
 * errors   LT_ERR_DATA for another type
 */
LT_NODISCARD lt_status lt_read_tools(const lt_converter *c, const char *column);

/** Role and content of a turn. errors: LT_ERR_DATA. *role is NULL for null. */
typedef struct lt_message {
    const char *role;
    lt_span text;  /* stripped */
    lt_span whole; /* as it stands */
    const json_t *json;
} lt_message;
LT_NODISCARD lt_status lt_read_message(const lt_converter *c, const json_t *list, size_t i,
                                       lt_message *out);
/** The list of turns; an error when it is missing or no list. */
LT_NODISCARD lt_status lt_read_messages(const lt_converter *c, const json_t **list);
/**
 * The system text: the first message when its role is the system tag (*first = 1 then), else the
 * system column, stripped if asked for.
 */
LT_NODISCARD lt_status lt_read_system(const lt_converter *c, const json_t *list, bool strip,
                                      size_t *first);
/** True when role equals a tag that is not NULL. */
bool lt_role_is(const char *role, const char *tag);
#endif
