// SPDX-License-Identifier: Apache-2.0
// JSON text as Python reads it, and as its json.dumps(value, ensure_ascii=False) writes it; tool
// calls are trained on in this form.
#ifndef LT_DATA_DATASET_PYTHON_JSON_H
#define LT_DATA_DATASET_PYTHON_JSON_H

#include "base/text.h"
#include <jansson.h>

/**
 * Append `value` as Python writes it: ", " and ": " between items, text unescaped where JSON
 * allows, floats in their shortest form that reads back.
 * source   CPython's json.encoder and float.__repr__; spec data-pipeline A.4
 */
LT_NODISCARD lt_status lt_python_json(json_t *value, lt_buf *out);
/** repr(value); NaN, Infinity, -Infinity as json.dumps has them. */
LT_NODISCARD lt_status lt_python_float(double value, lt_buf *out);

/**
 * json.loads of a text: numbers keep their digits (they become strings that lt_python_json knows),
 * NaN and Infinity are read.
 * out      *out, to be given back with json_decref; NULL when the text is not JSON
 */
LT_NODISCARD lt_status lt_python_parse(const char *text, size_t len, json_t **out);
/**
 * json_loadb with JSON_ALLOW_NUL, in keys too: see lt_python_key.
 * out      as json_loadb: NULL with *error set
 */
json_t *lt_json_load(const char *text, size_t len, size_t flags, json_error_t *error);
/**
 * Append a key of what lt_json_load or lt_python_parse gave, as it stood in the text: where it held
 * U+0000 or U+0001, Jansson's key spells them.
 */
LT_NODISCARD lt_status lt_python_key(const char *key, lt_buf *out);
/** True for a string of the text itself, not a number in disguise. */
bool lt_python_is_text(const json_t *value);
#endif
