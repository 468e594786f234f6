// SPDX-License-Identifier: Apache-2.0
// Small model folders whose every value is known.
#ifndef LT_TESTS_KIT_MODEL_FOLDER_H
#define LT_TESTS_KIT_MODEL_FOLDER_H

#include "base/file.h"
#include "base/text.h"
#include "ckpt/hf_save.h"
#include "tests/kit/lt_test.h"
#include <string.h>

/* One tensor of a test model: `file` is the number of its shard. */
typedef struct test_tensor {
    const char *name;
    int file;
    const char *dtype; /* "BF16", or one that lathe doesn't know, of 1 byte each */
    int64_t n;
} test_tensor;

/* Byte i of a tensor's data: depends on the name, so that a mix-up shows. */
static inline uint8_t test_byte(const char *name, size_t i)
{
    size_t seed = strlen(name) + (size_t)(unsigned char)name[strlen(name) - 1] * 31;
    for (const char *p = name; *p != '\0'; p++)
        seed = seed * 33 + (size_t)(unsigned char)*p;
    const uint8_t byte = (uint8_t)((seed + i) * 2654435761U >> 7);
    return i % 2 == 1 ? byte & 0xbf : byte; // neither NaN nor infinity in 16 and 32 bits
}

static inline lt_st_item test_item(void *state, const test_tensor *t)
{
    lt_st_item item = {
        .tensor = {.name = t->name, .dtype_text = t->dtype, .dtype = LT_N_DTYPES, .rank = 1}};
    size_t size = 1;
    for (int d = 0; d < LT_N_DTYPES; d++) {
        if (strcmp(lt_st_dtype_text((lt_dtype)d), t->dtype) == 0) {
            item.tensor.dtype = (lt_dtype)d;
            size = lt_dtype_bytes((lt_dtype)d);
        }
    }
    int64_t *dim = lt_test_take(state, sizeof *dim);
    *dim = t->n;
    item.tensor.dim = dim;
    item.tensor.bytes = (size_t)t->n * size;
    uint8_t *data = lt_test_take(state, item.tensor.bytes);
    for (size_t i = 0; i < item.tensor.bytes; i++)
        data[i] = test_byte(t->name, i);
    item.tensor.data = data;
    return item;
}

static inline void test_put(void *state, const char *dir, const char *name, const char *text)
{
    lt_test_write(lt_test_path(state, dir, name), text, strlen(text));
}

static inline const char *test_get(void *state, const char *dir, const char *name)
{
    return lt_test_read(state, lt_test_path(state, dir, name), NULL);
}

static inline const char *test_shard_name(void *state, int file, int n_files)
{
    char *name;
    if (n_files == 1)
        return LT_HF_SINGLE;
    assert_ok(lt_arena_printf(state, &name, "model-%05d-of-%05d.safetensors", file + 1, n_files));
    return name;
}

/* Write the files, and with more than one of them the index; and a config.json. */
static inline void test_model(void *state, const char *dir, const test_tensor *tensors, int n,
                              int n_files)
{
    lt_buf index = {0};
    const lt_st_pair meta = {"format", "pt"};
    assert_ok(lt_dir_make(dir));
    assert_ok(lt_buf_text(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {"));
    for (int f = 0, listed = 0; f < n_files; f++) {
        const char *name = test_shard_name(state, f, n_files);
        lt_st_item *items = lt_test_take(state, (size_t)n * sizeof *items);
        int count = 0;
        for (int i = 0; i < n; i++) {
            if (tensors[i].file != f)
                continue;
            items[count++] = test_item(state, &tensors[i]);
            assert_ok(lt_buf_printf(&index, "%s\"%s\": \"%s\"", listed++ > 0 ? ", " : "",
                                    tensors[i].name, name));
        }
        assert_ok(lt_st_write(lt_test_path(state, dir, name), items, count, &meta, 1));
    }
    assert_ok(lt_buf_text(&index, "}}"));
    if (n_files > 1)
        test_put(state, dir, LT_HF_INDEX, index.data);
    lt_buf_deinit(&index);
    test_put(state, dir, "config.json", "{\n  \"dtype\": \"bfloat16\"\n}\n");
}

/* A plan's item from a tensor of a folder: fp32 masters of its values. */
static inline lt_hf_item test_master(void *state, const lt_st_tensor *t)
{
    lt_hf_item item = {.name = t->name,
                       .rank = t->rank,
                       .from = LT_F32,
                       .file_dtype = LT_F32,
                       .fetch = lt_st_fetch_tensor};
    lt_tensor *values = lt_test_take(state, sizeof *values);
    *values = lt_tensor_nd(LT_F32, t->rank, t->dim);
    values->data = lt_test_take(state, lt_tensor_bytes(values));
    assert_ok(lt_st_read(t, 0, lt_st_elems(t), LT_F32, values->data));
    memcpy(item.dim, t->dim, (size_t)t->rank * sizeof *t->dim);
    item.ctx = values;
    return item;
}

/* All float tensors of a folder, but for names that begin with `skip`, as fp32 masters. */
static inline lt_hf_plan test_plan(void *state, const lt_hf *hf, const char *skip)
{
    lt_hf_plan plan = lt_hf_plan_default();
    lt_hf_item *items = lt_test_take(state, (size_t)lt_hf_count(hf) * sizeof *items);
    for (int64_t i = 0; i < lt_hf_count(hf); i++) {
        const lt_st_tensor *t = lt_hf_at(hf, i);
        if (t->dtype != LT_N_DTYPES && lt_dtype_is_float(t->dtype) &&
            (skip == NULL || !lt_text_starts(t->name, skip)))
            items[plan.n_items++] = test_master(state, t);
    }
    plan.items = items;
    plan.source = hf;
    return plan;
}

static inline void assert_same_tensor(const lt_st_tensor *got, const lt_st_tensor *want)
{
    assert_non_null(got);
    assert_string_equal(got->dtype_text, want->dtype_text);
    assert_int_equal(got->rank, want->rank);
    assert_memory_equal(got->dim, want->dim, (size_t)want->rank * sizeof *want->dim);
    assert_int_equal(got->bytes, want->bytes);
    if (want->bytes > 0)
        assert_memory_equal(got->data, want->data, want->bytes);
}

/* Same names, same files, same bytes. */
static inline void assert_same_model(const lt_hf *got, const lt_hf *want)
{
    assert_int_equal(lt_hf_n_files(got), lt_hf_n_files(want));
    assert_int_equal(lt_hf_count(got), lt_hf_count(want));
    for (int64_t f = 0; f < lt_hf_n_files(want); f++)
        assert_string_equal(lt_hf_file_name(got, f), lt_hf_file_name(want, f));
    for (int64_t i = 0; i < lt_hf_count(want); i++) {
        assert_string_equal(lt_hf_at(got, i)->name, lt_hf_at(want, i)->name);
        assert_same_tensor(lt_hf_at(got, i), lt_hf_at(want, i));
    }
}

/* A log that keeps its lines in a buffer. */
static inline void test_log_line(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)level;
    assert_ok(lt_buf_printf(ctx, "%s: %s\n", area, text));
}
#endif
