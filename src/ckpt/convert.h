// SPDX-License-Identifier: Apache-2.0
// Models between Hugging Face folders and distributed checkpoints, in bounded memory.
#ifndef LT_CKPT_CONVERT_H
#define LT_CKPT_CONVERT_H

#include "base/log.h"
#include "base/pool.h"
#include "ckpt/hf_save.h"

/** Which tensors change on the way. source: spec/config-trainer-checkpoint.md 3.7 */
typedef enum lt_convert_kind {
    LT_CONVERT_GENERIC,     /* none, but those that `fused` names are flattened */
    LT_CONVERT_QWEN35,      /* expert matrices turned, experts of MTP layers merged */
    LT_CONVERT_EXPERT_MERGE /* experts one by one become matrices of all */
} lt_convert_kind;

typedef struct lt_convert_opts {
    lt_convert_kind kind;
    const char *hf_dir; /* to_dcp: what is read; to_hf: the folder that the result is to be like */
    const char
        *dcp_dir; /* to_dcp: what is written; to_hf: what is read, a run or one of its folders */
    const char *save_dir;               /* to_hf: what is written */
    const char *hf_prefix, *dcp_prefix; /* may be "" */
    const lt_st_pair *ties; /* [n_ties] key: the tensor that is added, value: its source */
    int64_t n_ties;
    const char *const
        *fused; /* [n_fused] (E, a, b) becomes (E a, b) in names that hold one of these */
    int64_t n_fused;
    bool to_bf16;         /* to_hf: all floats; else each as in the folder that it is to be like */
    bool keep_origin_mtp; /* to_hf: mtp.* that the checkpoint lacks are taken from that folder */
    lt_pool *pool;        /* a file each on its threads; NULL: one after the other */
    void (*progress)(void *ctx, int64_t done,
                     int64_t total); /* bytes; may be NULL; one at a time */
    void *ctx;
    const lt_log *log;
} lt_convert_opts;

/**
 * Write DCP_DIR/release, one file for each of the folder's, and the tracker when it is in place.
 * errors   LT_ERR_NOT_FOUND, LT_ERR_FORMAT, LT_ERR_SHAPE name tensor and file; LT_ERR_IO: nothing
 *          has changed then; LT_ERR_UNSUPPORTED: EXPERT_MERGE of a family that it doesn't know
 */
LT_NODISCARD lt_status lt_convert_to_dcp(const lt_convert_opts *opts);
/**
 * Write SAVE_DIR in the files of HF_DIR: tensors from the checkpoint, index and all other files as
 * they are.
 * errors   the same; LT_ERR_NOT_FOUND: tensors of HF_DIR that the checkpoint lacks
 */
LT_NODISCARD lt_status lt_convert_to_hf(const lt_convert_opts *opts);
#endif
