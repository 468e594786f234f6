// SPDX-License-Identifier: Apache-2.0
// Reading safetensors files: a mapping, and tensors that are views into it.
#ifndef LT_CKPT_SAFETENSORS_H
#define LT_CKPT_SAFETENSORS_H

#include "base/status.h"
#include "tensor/tensor.h"

/** Where the elements of a tensor come from that lies nowhere in one piece. threads: any */
typedef struct lt_st_source lt_st_source;
struct lt_st_source {
    /* elements [first, first + n) of the tensor's own dtype, in row-major order */
    lt_status (*read)(const lt_st_source *s, int64_t first, int64_t n, void *dst);
    void (*forget)(const lt_st_source *s); /* as lt_st_forget */
};

/**
 * One tensor of a file, or (data NULL) one to be written, or one that a source puts together.
 * A dtype that lathe doesn't compute with (F8_E4M3, BOOL, U16, ...) has `dtype` LT_N_DTYPES: its
 * bytes can only be carried over.
 */
typedef struct lt_st_tensor {
    const char *name;
    const char *dtype_text; /* as files spell it: "BF16" */
    lt_dtype dtype;
    int32_t rank;
    const int64_t *dim;  /* [rank] */
    const uint8_t *data; /* in the file's mapping: little-endian, row-major, at any alignment */
    size_t bytes;
    const char *file;           /* the path of its file, for messages */
    const lt_st_source *source; /* NULL: its elements are at `data` */
} lt_st_tensor;

typedef struct lt_st_pair {
    const char *key, *value;
} lt_st_pair;

typedef struct lt_st lt_st;

/**
 * Map a file and check its header. Nothing of the data is read.
 *
 * source   https://github.com/huggingface/safetensors (format), and the checks of its Rust reader
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO, LT_ERR_FORMAT: cut short, malformed or duplicate entries, a
 *          range that isn't the size of its shape, ranges that overlap, leave gaps or don't end
 *          where the file does; the message names file and tensor
 */
LT_NODISCARD lt_status lt_st_open(const char *path, lt_st **out);
/** The same for bytes in memory, which must outlive *out. `path`, copied, is for messages. */
LT_NODISCARD lt_status lt_st_parse(const void *bytes, size_t len, const char *path, lt_st **out);
void lt_st_close(lt_st *st);

const char *lt_st_path(const lt_st *st);
int64_t lt_st_count(const lt_st *st);
/** Tensor i in the order of the data. Valid until lt_st_close. */
const lt_st_tensor *lt_st_at(const lt_st *st, int64_t i);
/** NULL when there is none of that name. */
const lt_st_tensor *lt_st_find(const lt_st *st, const char *name);
/** The entries of __metadata__, in the file's order; the value of a key, or NULL. */
int64_t lt_st_meta_count(const lt_st *st);
const lt_st_pair *lt_st_meta_at(const lt_st *st, int64_t i);
const char *lt_st_meta(const lt_st *st, const char *key);

/**
 * The view as a tensor without copying. Its data is NULL where the file doesn't align it for its
 * dtype: read it by lt_st_read.
 * errors   LT_ERR_UNSUPPORTED: an unknown dtype, or more than LT_MAX_DIMS dims
 */
LT_NODISCARD lt_status lt_st_as_tensor(const lt_st_tensor *view, lt_tensor *out);
/**
 * Elements [first, first + n) as dtype `to`, at any alignment. Floats convert to floats (nearest
 * even); other dtypes are copied.
 * errors   LT_ERR_SHAPE: outside the tensor; LT_ERR_DTYPE: no such conversion
 */
LT_NODISCARD lt_status lt_st_read(const lt_st_tensor *view, int64_t first, int64_t n, lt_dtype to,
                                  void *dst);

/** The same in the tensor's own dtype, whether lathe computes with it or not. */
LT_NODISCARD lt_status lt_st_read_raw(const lt_st_tensor *view, int64_t first, int64_t n,
                                      void *dst);
/** The tensor will not be read for a while: its file's pages need not stay in memory. */
void lt_st_forget(const lt_st_tensor *view);
/** Bytes of one element; 0 for a tensor without elements, or with less than a byte for each. */
size_t lt_st_elem_bytes(const lt_st_tensor *view);

/** "BF16" for LT_BF16: how files spell it. */
const char *lt_st_dtype_text(lt_dtype dtype);
/** A tensor to be written, without data. errors: LT_ERR_SHAPE when its size doesn't fit 63 bits */
LT_NODISCARD lt_status lt_st_plan(const char *name, lt_dtype dtype, int32_t rank,
                                  const int64_t *dim, lt_st_tensor *out);
/** "BF16[4,8]" for messages. */
lt_shape_text lt_st_shape_text(const lt_st_tensor *view);
/** Product of the dims. */
int64_t lt_st_elems(const lt_st_tensor *view);
#endif
