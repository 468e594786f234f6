// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer: cut a text into pieces by the regular expression of tokenizer.json, behaviour
// "Isolated".
#ifndef LT_DATA_TOKENIZER_SPLIT_H
#define LT_DATA_TOKENIZER_SPLIT_H

#include "base/text.h"

typedef struct lt_split lt_split;
typedef struct lt_split_scratch lt_split_scratch;

/**
 * Compile an expression. \p{L}, \p{N} and \p{M} are those of Unicode 16.0, \s is White_Space,
 * whatever PCRE2's own tables say.
 *
 * in       flags: the table of lt_code_flags, kept
 * errors   LT_ERR_FORMAT with the place in the expression; LT_ERR_UNSUPPORTED for other properties
 *          than L, N, M, and for an expression that matches nothing at all
 * threads  const once made: any number of threads, each with its own scratch
 */
LT_NODISCARD lt_status lt_split_create(const char *expression, size_t len, const uint8_t *flags,
                                       lt_split **out);
void lt_split_destroy(lt_split *split);

LT_NODISCARD lt_status lt_split_scratch_create(const lt_split *split, lt_split_scratch **out);
void lt_split_scratch_destroy(lt_split_scratch *scratch);

/**
 * Pieces of text[0..len), valid UTF-8: the matches from left to right, and what lies between them.
 *
 * out      ends: int64_t pushed for each piece, the offset behind it; the first piece begins at 0
 * errors   LT_ERR_DATA when the expression gives up (its backtracking limit)
 */
LT_NODISCARD lt_status lt_split_text(const lt_split *split, lt_split_scratch *scratch,
                                     const char *text, size_t len, lt_vec *ends);
#endif
