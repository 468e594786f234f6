// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: from the bytes of a piece to token ids, by the ranks of the merge list.
#ifndef LT_DATA_TOKENIZER_BPE_H
#define LT_DATA_TOKENIZER_BPE_H

#include "base/memory.h"

typedef struct lt_bpe lt_bpe;
typedef struct lt_bpe_scratch lt_bpe_scratch;

/**
 * in byte_id: int32 [256], ids >= 0 of the single bytes; n_merges: how many lt_bpe_put calls will
 * follow at most
 */
LT_NODISCARD lt_status lt_bpe_create(const int32_t *byte_id, int64_t n_merges, lt_bpe **out);
void lt_bpe_destroy(lt_bpe *bpe);
/**
 * Tokens left and right become `merged`; lower ranks go first. The same pair again replaces the
 * earlier entry.
 */
void lt_bpe_put(lt_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged);

LT_NODISCARD lt_status lt_bpe_scratch_create(lt_bpe_scratch **out);
void lt_bpe_scratch_destroy(lt_bpe_scratch *scratch);

/**
 * Merge the adjacent pair of lowest rank, leftmost among equals, until no pair has a rank. Time
 * grows as n log n.
 *
 * in       piece: any bytes, fewer than 2^31
 * out      ids: int32_t appended
 * threads  bpe is const once filled; one scratch (buffers, and a cache of short pieces) per thread
 *          and bpe
 */
LT_NODISCARD lt_status lt_bpe_encode(const lt_bpe *bpe, lt_bpe_scratch *scratch, const char *piece,
                                     size_t len, lt_vec *ids);
#endif
