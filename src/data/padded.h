// SPDX-License-Identifier: Apache-2.0
// Samples as padded rows, the form in which other tools show them. Nothing that trains reads this:
// it serves comparisons.
#ifndef LT_DATA_PADDED_H
#define LT_DATA_PADDED_H

#include "base/memory.h"
#include "data/positions.h"

typedef struct lt_padded_opts {
    lt_vision_ids vision;
    int32_t vision_end;
    int64_t merge;
    int32_t pad_id;
    int64_t multiple;      // rows are padded to a multiple of it (8)
    bool ignore_pad;       // ignore_pad_token_for_loss: padded labels are -100, else the pad id
    int32_t position_fill; // at masked places: 1 for Qwen3-VL, 0 for Qwen3.5
    lt_grid stand_in;      // of the picture that a batch without any gets; t = 0: none is added
} lt_padded_opts;

/** Arrays [rows, width] in the caller's arena; positions [3, rows, width]. */
typedef struct lt_padded {
    int64_t rows, width;
    int32_t *ids, *mask, *labels, *positions;
    int64_t *rope_delta; // [rows] largest position + 1 - width
    bool has_stand_in;
} lt_padded;

/**
 * Right padding, the stand-in picture at the end of row 0 (masked, without labels), positions.
 * source   spec data-pipeline 10.2, 10.3, 11
 * errors   as lt_positions_mrope, naming the sample; LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_padded_make(const lt_sample *samples, int64_t n,
                                      const lt_padded_opts *opts, lt_arena *arena, lt_padded *out);

/**
 * lt_positions_mrope on the tokens whose mask isn't 0; the others get `fill` on all axes.
 * in       scratch [4 n]
 */
LT_NODISCARD lt_status lt_positions_masked(const int32_t *ids, const int32_t *mask, int64_t n,
                                           const lt_vision_ids *vision, int64_t merge,
                                           lt_grid_cursor *cursor, int32_t fill, int32_t *scratch,
                                           int32_t *pos, int64_t stride);
#endif
