// SPDX-License-Identifier: Apache-2.0
// Writing a model as a Hugging Face folder, in the layout of the folder that it came from.
#ifndef LT_CKPT_HF_SAVE_H
#define LT_CKPT_HF_SAVE_H

#include "ckpt/hf_folder.h"
#include "ckpt/safetensors_write.h"

/**
 * One buffer of the model. Its other names (a tied head) are written only where the source has them
 * too: what is tied is decided by the buffers, not by a flag of the configuration.
 */
typedef struct lt_hf_item {
    const char *name;
    const char *const *aliases; /* [n_aliases] */
    int32_t n_aliases;
    int32_t rank;
    int64_t dim[LT_MAX_DIMS];
    lt_dtype from;       /* what `fetch` gives */
    lt_dtype file_dtype; /* in the file, where neither the plan's save_dtype nor the source says */
    lt_st_fetch fetch;
    void *ctx;
} lt_hf_item;

/** A small file to be written instead of, or in addition to, the source's. */
typedef struct lt_hf_text {
    const char *name;
    const void *text;
    size_t bytes;
} lt_hf_text;

/**
 * A value to be set in a small file: ("preprocessor_config.json", "size.longest_edge", "262144").
 * Where there is no such file, nothing happens.
 */
typedef struct lt_hf_edit {
    const char *file, *path, *value; /* value: JSON */
} lt_hf_edit;

/** What config.json shall say of head and embedding, where it disagrees with the buffers. */
typedef enum lt_hf_tie { LT_HF_TIE_KEEP, LT_HF_TIED, LT_HF_UNTIED } lt_hf_tie;

typedef struct lt_hf_plan {
    const lt_hf_item *items; /* [n_items] */
    int64_t n_items;
    const lt_hf *source;     /* names, shards, dtypes, unknown tensors, small files; NULL: none */
    lt_dtype save_dtype;     /* of all floats (save_ckpt_dtype); LT_N_DTYPES: as in the source */
    int64_t shard_bytes;     /* limit of a file when the source has no weights; by custom 5e9 */
    const lt_hf_text *texts; /* [n_texts] */
    int64_t n_texts;
    const lt_hf_edit *edits; /* [n_edits] */
    int64_t n_edits;
    lt_hf_tie tie;
    bool replace; /* a folder that exists is swapped out; false: it is an error */
} lt_hf_plan;
lt_hf_plan lt_hf_plan_default(void);

/**
 * Check the plan without writing: names, dtypes, edits. *bytes is what the folder will take, about.
 * errors   as lt_hf_save
 */
LT_NODISCARD lt_status lt_hf_measure(const lt_hf_plan *plan, int64_t *bytes);
/**
 * Write the folder beside, read it back, and swap it into place. Tensors of the source that no item
 * names are carried over byte for byte; items that the source lacks go into its last file and into
 * the index. On failure nothing has changed and nothing is left.
 *
 * errors   LT_ERR_IO: no room (path and bytes), a write or read-back that failed, `dir` in the way;
 *          LT_ERR_FORMAT: a name twice, an impossible edit; LT_ERR_DTYPE; what a fetch returns
 */
LT_NODISCARD lt_status lt_hf_save(const char *dir, const lt_hf_plan *plan, const lt_log *log);
/** The writing alone, into an empty folder that exists and may get more files. */
LT_NODISCARD lt_status lt_hf_write(const char *dir, const lt_hf_plan *plan);
#endif
