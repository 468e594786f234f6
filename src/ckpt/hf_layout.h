// SPDX-License-Identifier: Apache-2.0
// Which tensor goes into which file of a saved model: the part of hf_save.c that touches no disk.
#ifndef LT_CKPT_HF_LAYOUT_H
#define LT_CKPT_HF_LAYOUT_H

#include "base/text.h"
#include "ckpt/hf_save.h"

typedef struct lt_hf_layout_file {
    const char *name;
    const lt_st *source; /* the file whose metadata is kept; NULL: none */
    lt_vec items;        /* lt_st_item, in the file's order */
} lt_hf_layout_file;

typedef struct lt_hf_layout {
    lt_arena *arena;
    lt_vec files; /* lt_hf_layout_file */
    bool has_index;
    int64_t bytes, n_elems; /* of all tensors */
} lt_hf_layout;

/** Points into the plan and its source. errors: LT_ERR_FORMAT (a name twice), LT_ERR_SHAPE */
LT_NODISCARD lt_status lt_hf_layout_init(lt_hf_layout *layout, const lt_hf_plan *plan);
void lt_hf_layout_deinit(lt_hf_layout *layout);
/** The text of model.safetensors.index.json, as transformers writes it. */
LT_NODISCARD lt_status lt_hf_layout_index(const lt_hf_layout *layout, lt_buf *out);
#endif
