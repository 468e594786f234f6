// SPDX-License-Identifier: Apache-2.0
// Folders are written beside their place and swapped in when complete: one sees the old or the new.
#ifndef LT_CKPT_PUBLISH_H
#define LT_CKPT_PUBLISH_H

#include "base/log.h"
#include "base/memory.h"

/** errors  LT_ERR_IO when fewer than `bytes` are free where `path` will be: names both figures */
LT_NODISCARD lt_status lt_publish_room(const char *path, int64_t bytes);

/**
 * Make the empty folder DIR.tmp-PID beside `dir`, parents included.
 * replace  false: `dir` must not exist, or be an empty folder
 * errors   LT_ERR_IO
 */
LT_NODISCARD lt_status lt_publish_begin(const char *dir, bool replace, lt_arena *arena, char **tmp);
/** Bring the folder to the disk and swap it into place; what stood there is removed after that. */
LT_NODISCARD lt_status lt_publish_commit(const char *tmp, const char *dir, bool replace);
/** Remove the temporary; the error message of the failure that led here is kept. */
void lt_publish_abort(const char *tmp);

/**
 * What killed processes left in `parent` under names that begin with `prefix`: temporaries are
 * removed, and a folder that was moved aside and never replaced is moved back. One log line each;
 * what can't be removed is a warning. Those of living processes stay.
 */
LT_NODISCARD lt_status lt_publish_clean(const char *parent, const char *prefix, const lt_log *log);
/** When `dir` is missing and was moved aside by a process that was killed: move it back. */
LT_NODISCARD lt_status lt_publish_recover(const char *dir, const lt_log *log);
/** Path without trailing slashes, split: "/a/b/" gives "/a" and "b"; "b" gives "." and "b". */
LT_NODISCARD lt_status lt_publish_split(const char *dir, lt_arena *arena, char **parent,
                                        char **name);
#endif
