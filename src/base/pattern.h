// SPDX-License-Identifier: Apache-2.0
// Module-path patterns: what apply_modules, freeze and the other lists of the YAML are written in.
#ifndef LT_BASE_PATTERN_H
#define LT_BASE_PATTERN_H

#include "base/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The longest pattern, and the longest path that can match one, in bytes. */
#define LT_PATTERN_MAX 512
#define LT_PATTERN_PATH_MAX 2048

/**
 * Is `pattern` well formed?  {*} one or more digits; {a-b} a number from a to b, leading zeros
 * allowed; * any run of characters, dots included; ? one character; everything else stands for
 * itself, the dot too.
 *
 * source   config-trainer-checkpoint.md, section 1.2
 * errors   LT_ERR_CONFIG: the pattern, the piece that is wrong, what may stand there
 */
LT_NODISCARD lt_status lt_pattern_check(const char *pattern);

/**
 * Does the whole of `path` match? Case counts; a plain path matches itself and none of its
 * descendants. A malformed pattern and a path of more than LT_PATTERN_PATH_MAX bytes match nothing.
 *
 * threads  any
 */
bool lt_pattern_match(const char *pattern, const char *path);

/** The index of the last of patterns[0..n) that matches `path` (prefetch order asks for it), -1
 * when none does. */
int64_t lt_pattern_last(const char *const *patterns, int64_t n, const char *path);

/**
 * Hold a list of patterns against all module paths of a model: each pattern that matches nothing is
 * a note in the log.
 *
 * in       key the list's key path, for messages; patterns[0..n); paths[0..n_paths)
 * errors   LT_ERR_CONFIG: the list is not empty and nothing in it matches; a pattern is malformed
 */
LT_NODISCARD lt_status lt_patterns_check_use(const char *key, const char *const *patterns,
                                             int64_t n, const char *const *paths, int64_t n_paths,
                                             const lt_log *log);

#ifdef __cplusplus
}
#endif
#endif
