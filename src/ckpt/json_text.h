// SPDX-License-Identifier: Apache-2.0
// JSON as text: quoting, and setting a value in place while all else keeps its bytes.
#ifndef LT_CKPT_JSON_TEXT_H
#define LT_CKPT_JSON_TEXT_H

#include "base/text.h"

/** Append `text` (UTF-8) as a JSON string. */
LT_NODISCARD lt_status lt_json_quote(lt_buf *out, const char *text);

/**
 * Look at each member of each object and say what its value shall be.
 * path     keys from the root, each after a dot (".text_config.dtype"); array items have their
 *          index
 * value    the value's text, `len` bytes, not zero-terminated
 * returns  the new value's JSON text, or NULL to leave it
 */
typedef const char *(*lt_json_visit)(void *ctx, const char *path, const char *value, size_t len);
/**
 * Let `visit` change scalar values (objects and arrays are shown too, but only entered). Python's
 * NaN and Infinity are accepted.
 * errors   LT_ERR_FORMAT: not JSON, or deeper than 64 levels; *text is unchanged then
 */
LT_NODISCARD lt_status lt_json_edit(lt_buf *text, lt_json_visit visit, void *ctx);
/**
 * Set the value at a dotted path; objects on the way are made where they are missing. Unchanged
 * when it stands there already.
 * errors   LT_ERR_FORMAT: not JSON, or the path leads through something that isn't an object
 */
LT_NODISCARD lt_status lt_json_set(lt_buf *text, const char *path, const char *value);
#endif
