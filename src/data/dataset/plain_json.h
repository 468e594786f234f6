// SPDX-License-Identifier: Apache-2.0
// The JSON that data sets mostly consist of, parsed straight from memory; the rest is for Jansson.
#ifndef LT_DATA_DATASET_PLAIN_JSON_H
#define LT_DATA_DATASET_PLAIN_JSON_H

#include "base/text.h"
#include <jansson.h>

/**
 * The object or array of text[0..len), or NULL when it holds anything uncommon: fractions, \u
 * escapes, long keys, deep nesting, or a mistake of any kind. A value is what
 * json_loadb(JSON_ALLOW_NUL) would give.
 * in       scratch: for strings with escapes; its memory is used again
 */
json_t *lt_plain_json(const char *text, size_t len, lt_buf *scratch);
#endif
