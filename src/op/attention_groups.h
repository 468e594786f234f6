// SPDX-License-Identifier: Apache-2.0
// Which segments of a batch a fused attention kernel takes together.
#ifndef LT_OP_ATTENTION_GROUPS_H
#define LT_OP_ATTENTION_GROUPS_H

#include "base/status.h"

/**
 * The segments of a batch whose length lies in (above, most], in the order of the batch. A kernel
 * works on `batch` sequences of at most `length` tokens; both are rounded up, so that shapes, each
 * of which has to be prepared, are few. What is beyond a sequence costs little, what is beyond all
 * of them next to nothing.
 */
typedef struct lt_attention_group {
    int64_t above, most, n; /* n: segments */
    int64_t batch, length;
} lt_attention_group;

enum {
    LT_ATTENTION_TILE = 128,     /* tokens that kernels take at a time: shorter is no cheaper */
    LT_MAX_ATTENTION_GROUPS = 64 /* lengths fall by a quarter from one to the next */
};

/**
 * Lengths that differ by more than a quarter are in different groups: the time of a kernel follows
 * the longest. Segments without tokens are in none.
 * in       segments [n + 1], never falling
 * out      groups, from long to short; how many
 */
int lt_attention_groups(const int32_t *segments, int64_t n,
                        lt_attention_group groups[LT_MAX_ATTENTION_GROUPS]);
/** The segments of at most a tile, as one group; its n may be 0. */
lt_attention_group lt_attention_short_group(const int32_t *segments, int64_t n);
/** The length that kernels are prepared for: at most a sixteenth more from 1024 tokens on. */
int64_t lt_attention_length(int64_t tokens);
/** Tokens of each segment where all have as many, a multiple of the tile; else 0. */
int64_t lt_attention_equal_length(const int32_t *segments, int64_t n);
/**
 * No group of any table of n segments over so many tokens has more tokens than this when each of
 * its sequences is padded to `length`.
 */
int64_t lt_attention_most_padded(int64_t tokens, int64_t n);
/** The same of the short group alone. */
int64_t lt_attention_most_short(int64_t n);
#endif
