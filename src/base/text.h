// SPDX-License-Identifier: Apache-2.0
// Text: a byte buffer that grows, a map from names to numbers, small helpers.
#ifndef LT_BASE_TEXT_H
#define LT_BASE_TEXT_H

#include "base/memory.h"

/**
 * A growing byte string; `data` is always zero-terminated once anything was added. Start from {0}.
 */
typedef struct lt_buf {
    char *data;
    size_t len, cap;
} lt_buf;
LT_NODISCARD lt_status lt_buf_append(lt_buf *buf, const void *bytes, size_t len);
LT_NODISCARD lt_status lt_buf_text(lt_buf *buf, const char *text);
LT_NODISCARD lt_status lt_buf_printf(lt_buf *buf, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_buf_clear(lt_buf *buf);
void lt_buf_deinit(lt_buf *buf);

/** A hash map from byte strings (copied) to int64 values. */
typedef struct lt_map lt_map;
LT_NODISCARD lt_status lt_map_create(lt_map **out);
void lt_map_destroy(lt_map *map);
/** Set or replace. */
LT_NODISCARD lt_status lt_map_put(lt_map *map, const void *key, size_t len, int64_t value);
bool lt_map_get(const lt_map *map, const void *key, size_t len, int64_t *value);
LT_NODISCARD lt_status lt_map_put_text(lt_map *map, const char *key, int64_t value);
bool lt_map_get_text(const lt_map *map, const char *key, int64_t *value);
int64_t lt_map_count(const lt_map *map);

bool lt_text_starts(const char *text, const char *prefix);
bool lt_text_ends(const char *text, const char *suffix);
/**
 * Edits (insert, delete, replace, swap of neighbours) between two short words; for "did you mean".
 */
int lt_text_distance(const char *a, const char *b);
/**
 * The entry of names[0..n) nearest to word, NULL when nothing is near (more than a third of the
 * letters differ).
 */
const char *lt_text_nearest(const char *word, const char *const *names, int64_t n);

/** "1.5 GiB": a byte count for people. */
typedef struct lt_text32 {
    char s[32];
} lt_text32;
lt_text32 lt_bytes_text(int64_t bytes);
/** "8.77 B", "415.3 M": a count for people. */
lt_text32 lt_count_text(int64_t n);
#endif
