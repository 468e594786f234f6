// SPDX-License-Identifier: Apache-2.0
// Writing safetensors files piece by piece, in bounded memory, and reading them back.
#ifndef LT_CKPT_SAFETENSORS_WRITE_H
#define LT_CKPT_SAFETENSORS_WRITE_H

#include "ckpt/safetensors.h"

/**
 * Write elements [first, first + n) to dst (aligned for any dtype); `first` rises from call to
 * call.
 */
typedef lt_status (*lt_st_fetch)(void *ctx, int64_t first, int64_t n, void *dst);

/** A tensor to be written and where its elements come from. */
typedef struct lt_st_item {
    lt_st_tensor tensor; /* as the file shall hold it (lt_st_plan) */
    lt_dtype from;       /* what `fetch` gives; converted where tensor.dtype differs */
    lt_st_fetch fetch;   /* NULL: tensor.data is written byte for byte */
    void *ctx;
} lt_st_item;

/**
 * Write a file: header (metadata entries in their order, then the items, those with larger elements
 * first, otherwise in their order), data from 8-byte alignment on, fsync. Then read it back from
 * the disk and compare header and data with what was written.
 *
 * errors   LT_ERR_IO: a failed write or a difference at reading back; LT_ERR_DTYPE: an item that
 *          can't be converted; LT_ERR_FORMAT: a name twice, a header above the format's limit; what
 *          `fetch` returns. The file may be left behind.
 */
LT_NODISCARD lt_status lt_st_write(const char *path, const lt_st_item *items, int64_t n,
                                   const lt_st_pair *meta, int64_t n_meta);

/** A fetch from memory: ctx is a `const lt_tensor *` of dtype `from`, with its data on the host. */
LT_NODISCARD lt_status lt_st_fetch_tensor(void *ctx, int64_t first, int64_t n, void *dst);
/** A fetch of fp32 values that are kept as lt_split_f32 cuts them. */
typedef struct lt_st_split {
    const uint16_t *hi;
    const int16_t *lo;
} lt_st_split;
/** ctx is a `const lt_st_split *`; gives LT_F32. */
LT_NODISCARD lt_status lt_st_fetch_split(void *ctx, int64_t first, int64_t n, void *dst);
/** A fetch from another file: ctx is a `const lt_st_tensor *`; gives its own dtype. */
LT_NODISCARD lt_status lt_st_fetch_view(void *ctx, int64_t first, int64_t n, void *dst);
#endif
