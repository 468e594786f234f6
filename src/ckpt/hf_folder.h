// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model folder: its weights by name, and the small files that go with them.
#ifndef LT_CKPT_HF_FOLDER_H
#define LT_CKPT_HF_FOLDER_H

#include "base/log.h"
#include "base/memory.h"
#include "ckpt/dcp.h"

#define LT_HF_SINGLE "model.safetensors"
#define LT_HF_INDEX "model.safetensors.index.json"

typedef struct lt_hf lt_hf;

/** config.json, tokenizer.json and their like: mapped, so that they outlive the folder. */
typedef struct lt_hf_asset {
    const char *name;
    const uint8_t *data;
    size_t bytes;
} lt_hf_asset;

/** Does the folder hold weights in this form (the single file or the index)? */
bool lt_hf_has_weights(const char *dir);
/**
 * Map the folder's weights: model.safetensors where there is one (as transformers does), else all
 * files of the index. Tensors that the index doesn't list are taken too, with a note.
 *
 * errors   LT_ERR_NOT_FOUND: no such folder, neither file, a shard missing; LT_ERR_FORMAT: a
 *          malformed file, a tensor that the index lists and its shard lacks; names file and tensor
 */
LT_NODISCARD lt_status lt_hf_open(const char *dir, const lt_log *log, lt_hf **out);
/**
 * The model in a distributed checkpoint: its keys "model.NAME" as tensors NAME. It has no files of
 * weights, but small ones where there are some.
 * errors   as lt_dcp_open
 */
LT_NODISCARD lt_status lt_hf_open_dcp(const char *dir, lt_hf **out);
/** The checkpoint behind lt_hf_open_dcp; else NULL. */
const lt_dcp *lt_hf_dcp(const lt_hf *hf);
/** Only the small files: a folder for random weights. It has no tensors. */
LT_NODISCARD lt_status lt_hf_open_assets(const char *dir, lt_hf **out);
void lt_hf_close(lt_hf *hf);

const char *lt_hf_dir(const lt_hf *hf);
bool lt_hf_has_index(const lt_hf *hf);
/** The weight files, sorted by name. */
int64_t lt_hf_n_files(const lt_hf *hf);
const char *lt_hf_file_name(const lt_hf *hf, int64_t i);
const lt_st *lt_hf_file(const lt_hf *hf, int64_t i);
/** Files that a saved model needs besides its weights (a table in hf_folder.c), sorted by name. */
int64_t lt_hf_n_assets(const lt_hf *hf);
const lt_hf_asset *lt_hf_asset_at(const lt_hf *hf, int64_t i);
const lt_hf_asset *lt_hf_asset_find(const lt_hf *hf, const char *name);

/** All tensors, file by file in the order of their data. */
int64_t lt_hf_count(const lt_hf *hf);
const lt_st_tensor *lt_hf_at(const lt_hf *hf, int64_t i);
/** NULL when there is none of that name. */
const lt_st_tensor *lt_hf_find(const lt_hf *hf, const char *name);
/**
 * Find, check and mark as used.
 * errors   LT_ERR_NOT_FOUND: names tensor and folder; LT_ERR_SHAPE, LT_ERR_DTYPE (not a float that
 *          lathe reads): names tensor and file
 */
LT_NODISCARD lt_status lt_hf_need(lt_hf *hf, const char *name, int32_t rank, const int64_t *dim,
                                  const lt_st_tensor **out);
/** Names that aren't in the folder are ignored. */
void lt_hf_mark_used(lt_hf *hf, const char *name);
/** Push the name (const char *) of each tensor that was never marked, in the order of lt_hf_at. */
LT_NODISCARD lt_status lt_hf_unused(const lt_hf *hf, lt_vec *names);
#endif
