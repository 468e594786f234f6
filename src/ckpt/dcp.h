// SPDX-License-Identifier: Apache-2.0
// PyTorch distributed checkpoints (DCP): a folder of .metadata and files that hold pieces of
// tensors.
#ifndef LT_CKPT_DCP_H
#define LT_CKPT_DCP_H

#include "base/pool.h"
#include "ckpt/torch_file.h"

#define LT_DCP_METADATA ".metadata"

typedef struct lt_dcp lt_dcp;

/** One key of a checkpoint. */
typedef struct lt_dcp_entry {
    const char *key;            /* "model.lm_head.weight" */
    const lt_st_tensor *tensor; /* its name is the key; NULL: a plain value */
    const lt_pickle *path;      /* the tuple of keys that lead to it; NULL: not said */
    int64_t n_chunks;
} lt_dcp_entry;

bool lt_dcp_is(const char *dir);
/**
 * Read .metadata, map the files that it names and check that the pieces of every tensor lie in
 * their files and cover it once. The pieces themselves are checked (shape, dtype, checksum) when
 * they are first read. Tensors are read by lt_st_read, from any thread.
 *
 * source   spec/config-trainer-checkpoint.md 3.5, as PyTorch 2.11 writes it
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO, LT_ERR_FORMAT: names file and key
 */
LT_NODISCARD lt_status lt_dcp_open(const char *dir, lt_dcp **out);
void lt_dcp_close(lt_dcp *dcp);

const char *lt_dcp_dir(const lt_dcp *dcp);
/** Keys in the order of .metadata. Valid until lt_dcp_close. */
int64_t lt_dcp_count(const lt_dcp *dcp);
const lt_dcp_entry *lt_dcp_at(const lt_dcp *dcp, int64_t i);
const lt_dcp_entry *lt_dcp_find(const lt_dcp *dcp, const char *key);
/** The value of an entry without a tensor, in the arena. errors: LT_ERR_FORMAT */
LT_NODISCARD lt_status lt_dcp_value(const lt_dcp *dcp, const lt_dcp_entry *entry, lt_arena *arena,
                                    const lt_pickle **out);
/** Check all pieces of a tensor, on all threads. pool may be NULL. errors: LT_ERR_FORMAT */
LT_NODISCARD lt_status lt_dcp_check(const lt_dcp *dcp, const lt_dcp_entry *entry, lt_pool *pool);
#endif
