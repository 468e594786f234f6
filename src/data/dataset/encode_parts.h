// SPDX-License-Identifier: Apache-2.0
// What the two ways of encoding share; for src/data/dataset alone.
#ifndef LT_DATA_DATASET_ENCODE_PARTS_H
#define LT_DATA_DATASET_ENCODE_PARTS_H

#include "data/dataset/encode.h"

/** A cut through a medium, `index` of its kind, of `pads` tokens; full_len: the record's. */
lt_status lt_refuse_cut(const lt_encode_opts *o, const lt_media *m, int64_t index, int64_t pads,
                        int64_t full_len);

/**
 * A conversation whose template has segments: turns in any order, each tokenised by itself.
 * in       ids: the template's; images [c->n_images] with their grids
 * out      *out, *cut: ids, labels, media; memory is the arena's
 * errors   of lt_intern_encode; of lt_refuse_cut where cuts are refused
 */
LT_NODISCARD lt_status lt_encode_segments(const lt_encode_opts *o, const lt_template_ids *ids,
                                          const lt_conversation *c, const lt_media *images,
                                          lt_arena *arena, lt_sample *out, lt_cut *cut);
#endif
