// SPDX-License-Identifier: Apache-2.0
// What torch.save writes: an archive of a pickle and the storages of its tensors.
#ifndef LT_CKPT_TORCH_FILE_H
#define LT_CKPT_TORCH_FILE_H

#include "ckpt/pickle.h"
#include "ckpt/safetensors.h"
#include "ckpt/zip.h"

/** A dtype in each of its spellings. */
typedef struct lt_torch_dtype {
    const char *name;    /* torch.NAME */
    const char *storage; /* torch.STORAGE; NULL: it comes in an UntypedStorage only */
    const char *text;    /* as safetensors files spell it */
    lt_dtype dtype;      /* LT_N_DTYPES: bytes that can be carried over */
    uint32_t bytes;
} lt_torch_dtype;
extern const lt_torch_dtype lt_torch_dtypes[];
extern const int64_t lt_n_torch_dtypes;
const lt_torch_dtype *lt_torch_dtype_find(const char *name); /* "bfloat16"; NULL: none */
const lt_torch_dtype *lt_torch_dtype_of(const char *text);   /* "BF16" */

typedef struct lt_torch_file {
    lt_zip zip;
    const lt_pickle *root;
} lt_torch_file;

typedef enum lt_torch_use {
    LT_TORCH_BLOB, /* of a distributed checkpoint: a tensor or a plain value, nothing else */
    LT_TORCH_STATE /* a training state: what lathe doesn't know becomes an inert node */
} lt_torch_use;

/**
 * errors   LT_ERR_FORMAT: what the archive or its pickle says; a blob that names anything but
 *          tensors and plain values
 */
LT_NODISCARD lt_status lt_torch_parse(const uint8_t *bytes, size_t len, lt_torch_use use,
                                      const char *where, lt_arena *arena, lt_torch_file *out);

/** A tensor in an archive: any strides, in elements. */
typedef struct lt_torch_tensor {
    const lt_torch_dtype *dtype;
    int32_t rank;
    const int64_t *size, *stride; /* [rank] */
    int64_t n_elems;
    const lt_zip_entry *storage; /* which `data` lies in */
    const uint8_t *data;         /* element 0 */
} lt_torch_tensor;

/** Whether a value of the tree is a tensor (or a parameter, which holds one). */
bool lt_torch_is_tensor(const lt_pickle *v);
/**
 * Find a tensor's bytes. The storage's checksum is not looked at: lt_zip_check does.
 * errors   LT_ERR_FORMAT: no tensor, an unknown dtype, a storage that is missing or of another
 *          size, elements outside of it; names `where`
 */
LT_NODISCARD lt_status lt_torch_tensor_of(const lt_torch_file *file, const lt_pickle *v,
                                          lt_arena *arena, lt_torch_tensor *out);
/** n elements from `first` on, in row-major order of the tensor, whatever its strides are. */
void lt_torch_copy(const lt_torch_tensor *t, int64_t first, int64_t n, void *dst);

/** A whole file on disk. */
typedef struct lt_torch_mapped {
    lt_mapped map;
    lt_arena *arena;
    lt_torch_file file;
} lt_torch_mapped;
LT_NODISCARD lt_status lt_torch_open(const char *path, lt_torch_mapped **out);
void lt_torch_close(lt_torch_mapped *file);
#endif
