// SPDX-License-Identifier: Apache-2.0
// safetensors headers: whatever is accepted keeps its promises, and its values can be read.
#include "base/memory.h"
#include "ckpt/safetensors.h"
#include <string.h>

enum { MAX_READ = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

// The data of all tensors, in order, tiles the end of the file; every name leads back to its
// tensor.
static void check(const lt_st *st, const uint8_t *data, size_t len)
{
    const uint8_t *at = data + len;
    for (int64_t i = lt_st_count(st) - 1; i >= 0; i--) {
        const lt_st_tensor *t = lt_st_at(st, i);
        LT_ASSERT(t->data + t->bytes == at);
        LT_ASSERT(lt_st_find(st, t->name) == t);
        LT_ASSERT(t->dtype == LT_N_DTYPES ||
                  (size_t)lt_st_elems(t) * lt_dtype_bytes(t->dtype) == t->bytes);
        LT_ASSERT(lt_st_shape_text(t).s[0] != '\0');
        at = t->data;
    }
    LT_ASSERT((size_t)(at - data) >= 8);
    for (int64_t i = 0; i < lt_st_meta_count(st); i++)
        LT_ASSERT(lt_st_meta(st, lt_st_meta_at(st, i)->key) != NULL);
}

static void read_some(const lt_st_tensor *t)
{
    const int64_t n = lt_min_i64(lt_st_elems(t), MAX_READ);
    const lt_dtype to = t->dtype == LT_N_DTYPES || lt_dtype_is_float(t->dtype) ? LT_F32 : t->dtype;
    void *values;
    lt_tensor tensor;
    if (lt_mem_alloc(&values, (size_t)n * sizeof(double), "fuzz") != LT_OK)
        return;
    const lt_status st = lt_st_read(t, lt_st_elems(t) - n, n, to, values);
    LT_ASSERT((st == LT_OK) == (t->dtype != LT_N_DTYPES));
    LT_ASSERT(lt_st_read(t, 0, INT64_MAX, to, values) == LT_ERR_SHAPE);
    if (lt_st_as_tensor(t, &tensor) == LT_OK)
        LT_ASSERT((size_t)lt_n_elems(&tensor) * lt_dtype_bytes(tensor.dtype) == t->bytes);
    lt_mem_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    lt_st *st = NULL;
    if (lt_st_parse(data, len, "fuzz.safetensors", &st) != LT_OK) {
        LT_ASSERT(lt_error_message()[0] != '\0');
        return 0;
    }
    check(st, data, len);
    for (int64_t i = 0; i < lt_st_count(st); i++)
        read_some(lt_st_at(st, i));
    lt_st_close(st);
    return 0;
}
