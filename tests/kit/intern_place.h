// SPDX-License-Identifier: Apache-2.0
// A place to train in (run_place.h) whose model is an InternVL one.
#ifndef LT_TESTS_KIT_INTERN_PLACE_H
#define LT_TESTS_KIT_INTERN_PLACE_H

#include "tests/kit/run_place.h"

/** How the folder's weights are named: by transformers, newer or older, or by the remote code. */
typedef enum lt_intern_spelling {
    LT_INTERN_NEWER,
    LT_INTERN_OLDER,
    LT_INTERN_REMOTE
} lt_intern_spelling;

/** Make the folder; its path. Four records, of text alone. tied: no tensor for the head.
 * experts: one layer of two has them. */
const char *lt_intern_place(void *state, lt_intern_spelling names, bool tied, bool experts);
/**
 * The same, untied, with four records of InternVL's form in data.jsonl (five pictures, 32 x 32 to
 * 100 x 70, one record with two of them), read by its plug-in: tiles of 28 x 28, 1 to 4 of them
 * and a thumbnail, each 4 tokens.
 */
const char *lt_intern_pictures(void *state, lt_intern_spelling names, bool experts);
#endif
