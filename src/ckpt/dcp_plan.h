// SPDX-License-Identifier: Apache-2.0
// What is inside a plan, for the two files that make and carry it out.
#ifndef LT_CKPT_DCP_PLAN_H
#define LT_CKPT_DCP_PLAN_H

#include "ckpt/dcp_write.h"

#define DCP_TOP "archive"
enum { LT_DCP_MAX_RANK = 16 };

typedef struct dcp_key {
    const char *key;
    lt_dcp_path path;
    const lt_torch_dtype *dtype; // NULL: a plain value
    int32_t rank;
    const int64_t *dim;
    int64_t rows, row_elems;
    int64_t first_box, n_boxes;
} dcp_key;

typedef struct dcp_box {
    int64_t key;
    lt_dcp_rows rows; // as given; cut to [first, first + n)
    int64_t first, n;
    const char *pickle; // of a plain value
    size_t pickle_bytes;
    int64_t at, bytes; // in its file
} dcp_box;

/* data.pkl of a tensor's box. source: spec/config-trainer-checkpoint.md 3.5.3 */
LT_NODISCARD lt_status lt_dcp_tensor_pickle(const dcp_key *k, const dcp_box *b, lt_pkl *p);
#endif
