// SPDX-License-Identifier: Apache-2.0
// Packing: which samples share a row, as the reference's greedy packer decides.
#ifndef LT_DATA_PACK_H
#define LT_DATA_PACK_H

#include "base/memory.h"

/** Bin b holds items[first[b]] .. items[first[b + 1] - 1], in that order. */
typedef struct lt_bins {
    int64_t n, n_items;
    int64_t *first; // [n + 1]
    int64_t *items; // [n_items] indexes of lengths
} lt_bins;

/**
 * Again and again the largest length that still fits goes into the open bin; when none does, the
 * next bin is opened. Among equal lengths the last one goes first.
 * source   LLaMA-Factory's greedy_knapsack, as MindSpeed-MM calls it; spec data-pipeline 12
 * in       lengths [n], each 1 .. capacity
 * out      *out: memory is the arena's
 * errors   LT_ERR_DATA for a length out of range, LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_pack_bins(const int64_t *lengths, int64_t n, int64_t capacity,
                                    lt_arena *arena, lt_bins *out);

/**
 * First of n rows that share `share` of `shares` gets: contiguous, the first ones larger by one.
 * lt_pack_share(n, shares, shares) is n.
 */
int64_t lt_pack_share(int64_t n, int64_t shares, int64_t share);
#endif
