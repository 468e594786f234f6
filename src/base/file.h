// SPDX-License-Identifier: Apache-2.0
// Files: read whole, map, write beside and rename, folders. Every error names the path and the
// system's reason.
#ifndef LT_BASE_FILE_H
#define LT_BASE_FILE_H

#include "base/text.h"

/**
 * errors  LT_ERR_NOT_FOUND, LT_ERR_IO; `limit` bytes at most (0: no limit), LT_ERR_FORMAT above it
 */
LT_NODISCARD lt_status lt_file_read(const char *path, size_t limit, lt_buf *out);
bool lt_file_exists(const char *path);
bool lt_file_is_dir(const char *path);
LT_NODISCARD lt_status lt_file_size(const char *path, int64_t *bytes);
LT_NODISCARD lt_status lt_dir_make(const char *path); /* with parents; fine when it is there */
/** Names in a folder, sorted by bytes, without . and ..; pushes char* (arena) to `names`. */
LT_NODISCARD lt_status lt_dir_list(const char *path, lt_arena *arena, lt_vec *names);
LT_NODISCARD lt_status lt_dir_remove(const char *path); /* recursively; fine when it is not there */
LT_NODISCARD lt_status lt_path_join(lt_arena *arena, const char *dir, const char *name, char **out);

/** A read-only mapping of a whole file. */
typedef struct lt_mapped {
    const uint8_t *data;
    size_t bytes;
} lt_mapped;
LT_NODISCARD lt_status lt_file_map(const char *path, lt_mapped *out);
void lt_file_unmap(lt_mapped *map);
/**
 * Bytes [from, to) will not be read for a while: their whole pages need not stay in memory. They
 * can be read all the same.
 */
void lt_file_forget(const lt_mapped *map, size_t from, size_t to);
/** Ask the system to forget its copy, so that reading comes from the disk. Only a hint. */
void lt_file_uncache(const char *path);

/**
 * A file being written: buffered, every short write is an error that says how much was wanted and
 * why it failed.
 */
typedef struct lt_writer lt_writer;
LT_NODISCARD lt_status lt_writer_create(const char *path, lt_writer **out);
LT_NODISCARD lt_status lt_writer_put(lt_writer *w, const void *bytes, size_t len);
/** Flush, fsync, close. *w is NULL after it, also on failure. */
LT_NODISCARD lt_status lt_writer_close(lt_writer **w);
/** Close without caring (clean-up after a failure). Accepts NULL. */
void lt_writer_abandon(lt_writer *w);
/** Write `path` through a temporary neighbour, fsync, rename over it. */
LT_NODISCARD lt_status lt_file_replace(const char *path, const void *bytes, size_t len);
LT_NODISCARD lt_status lt_file_copy(const char *from, const char *to);
/** fsync a folder, so that renames in it last. */
LT_NODISCARD lt_status lt_dir_sync(const char *path);
/** rename(2) with fsync of the parent. */
LT_NODISCARD lt_status lt_path_rename(const char *from, const char *to);
#endif
