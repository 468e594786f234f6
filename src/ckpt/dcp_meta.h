// SPDX-License-Identifier: Apache-2.0
// What .metadata says: keys, shapes, pieces and where they are. Touches no other file.
#ifndef LT_CKPT_DCP_META_H
#define LT_CKPT_DCP_META_H

#include "base/text.h"
#include "ckpt/torch_file.h"

/** A stored range: of a piece, or of a plain value. */
typedef struct lt_dcp_range {
    int32_t file; /* index into lt_dcp_meta.files; -1: not stored */
    int64_t at, bytes;
} lt_dcp_range;

/** A box of a tensor. */
typedef struct lt_dcp_box {
    const int64_t *offset, *size; /* [rank] */
    int64_t n_elems;
    lt_dcp_range range;
} lt_dcp_box;

typedef struct lt_dcp_key {
    const char *key;
    const lt_torch_dtype *dtype; /* NULL: a plain value, at `value` */
    int32_t rank;
    const int64_t *dim; /* [rank] */
    int64_t n_elems;
    lt_dcp_box *boxes; /* [n_boxes] that hold elements, by offset */
    int64_t n_boxes;
    lt_dcp_range value;
    const lt_pickle *path;
} lt_dcp_key;

typedef struct lt_dcp_meta {
    lt_vec keys;  /* lt_dcp_key */
    lt_vec files; /* const char *: names of plain form */
    lt_map *by_key, *by_file;
} lt_dcp_meta;

/**
 * in       where: for messages, has to last
 * out      in the arena, which has to last; lt_dcp_meta_deinit also after a failure
 * errors   LT_ERR_FORMAT: a pickle of anything else; a class that has no place in it, by name; a
 *          file outside the folder; pieces outside their tensor, missing, overlapping
 */
LT_NODISCARD lt_status lt_dcp_meta_read(const uint8_t *bytes, size_t len, const char *where,
                                        lt_arena *arena, lt_dcp_meta *out);
void lt_dcp_meta_deinit(lt_dcp_meta *meta);
#endif
