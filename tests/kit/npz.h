// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz files: a zip of arrays. Enough for golden cases: u8 and int64, C order.
#ifndef LT_TESTS_KIT_NPZ_H
#define LT_TESTS_KIT_NPZ_H

#include "base/memory.h"
#include "tensor/tensor.h"

typedef struct lt_npz lt_npz;
/** Unpack the whole file. errors: LT_ERR_NOT_FOUND, LT_ERR_IO, LT_ERR_FORMAT */
LT_NODISCARD lt_status lt_npz_open(const char *path, lt_npz **out);
void lt_npz_close(lt_npz *npz);
/** The array NAME (without .npy), NULL when there is none. Lives as long as the npz. */
const lt_tensor *lt_npz_get(const lt_npz *npz, const char *name);
#endif
