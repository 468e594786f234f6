// SPDX-License-Identifier: Apache-2.0
// Finding added tokens in a text: leftmost match, longest at that place, no overlap.
#ifndef LT_DATA_TOKENIZER_ADDED_H
#define LT_DATA_TOKENIZER_ADDED_H

#include "base/memory.h"

typedef struct lt_added {
    lt_vec nodes;    /* a byte trie, see added.c */
    bool first[256]; /* a token begins with this byte */
} lt_added;
#define LT_ADDED_EMPTY ((lt_added){.nodes = LT_VEC_OF(lt_added_node)})

typedef struct lt_added_node {
    int32_t value;       /* of the token that ends here, or -1 */
    int32_t child, next; /* first child, next sibling, or -1 */
    uint8_t byte;
} lt_added_node;

/** Make text[0..len), not empty, a token of that value >= 0; the same text again replaces it. */
LT_NODISCARD lt_status lt_added_put(lt_added *added, const char *text, size_t len, int32_t value);
void lt_added_deinit(lt_added *added);

/**
 * The first token at or after `from` in text[0..len).
 *
 * out  *start, *end, *value; false when there is none
 */
bool lt_added_find(const lt_added *added, const char *text, size_t len, size_t from, size_t *start,
                   size_t *end, int32_t *value);
#endif
