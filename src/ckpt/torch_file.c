// SPDX-License-Identifier: Apache-2.0
// Reading torch.save archives: which globals they may name, and tensors as views of their storages.
#include "ckpt/torch_file.h"
#include <string.h>

enum { MAX_RANK = 64 };

const lt_torch_dtype lt_torch_dtypes[] = {
    {"float32", "FloatStorage", "F32", LT_F32, 4},
    {"bfloat16", "BFloat16Storage", "BF16", LT_BF16, 2},
    {"float16", "HalfStorage", "F16", LT_F16, 2},
    {"float64", "DoubleStorage", "F64", LT_F64, 8},
    {"int64", "LongStorage", "I64", LT_I64, 8},
    {"int32", "IntStorage", "I32", LT_I32, 4},
    {"int16", "ShortStorage", "I16", LT_I16, 2},
    {"int8", "CharStorage", "I8", LT_N_DTYPES, 1},
    {"uint8", "ByteStorage", "U8", LT_U8, 1},
    {"bool", "BoolStorage", "BOOL", LT_N_DTYPES, 1},
    {"complex64", "ComplexFloatStorage", "C64", LT_N_DTYPES, 8},
    {"uint16", NULL, "U16", LT_N_DTYPES, 2},
    {"uint32", NULL, "U32", LT_N_DTYPES, 4},
    {"uint64", NULL, "U64", LT_N_DTYPES, 8},
    {"float8_e4m3fn", NULL, "F8_E4M3", LT_N_DTYPES, 1},
    {"float8_e5m2", NULL, "F8_E5M2", LT_N_DTYPES, 1},
    {"float8_e8m0fnu", NULL, "F8_E8M0", LT_N_DTYPES, 1},
};
const int64_t lt_n_torch_dtypes = sizeof lt_torch_dtypes / sizeof *lt_torch_dtypes;

const lt_torch_dtype *lt_torch_dtype_find(const char *name)
{
    for (int64_t i = 0; i < lt_n_torch_dtypes; i++)
        if (strcmp(lt_torch_dtypes[i].name, name) == 0)
            return &lt_torch_dtypes[i];
    return NULL;
}

const lt_torch_dtype *lt_torch_dtype_of(const char *text)
{
    for (int64_t i = 0; i < lt_n_torch_dtypes; i++)
        if (strcmp(lt_torch_dtypes[i].text, text) == 0)
            return &lt_torch_dtypes[i];
    return NULL;
}

// ---- what an archive may name

#define DTYPE(name)                                                                                \
    {                                                                                              \
        "torch", name, LT_PICKLE_BARE, NULL                                                        \
    }
static const lt_pickle_global globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", LT_PICKLE_CALL, NULL},
    {"torch._utils", "_rebuild_tensor_v3", LT_PICKLE_CALL, NULL},
    {"torch._utils", "_rebuild_parameter", LT_PICKLE_CALL, NULL},
    {"collections", "OrderedDict", LT_PICKLE_CALL, NULL},
    {"torch", "Size", LT_PICKLE_CALL, NULL},
    {"torch.storage", "UntypedStorage", LT_PICKLE_BARE, NULL},
    DTYPE("FloatStorage"),
    DTYPE("BFloat16Storage"),
    DTYPE("HalfStorage"),
    DTYPE("DoubleStorage"),
    DTYPE("LongStorage"),
    DTYPE("IntStorage"),
    DTYPE("ShortStorage"),
    DTYPE("CharStorage"),
    DTYPE("ByteStorage"),
    DTYPE("BoolStorage"),
    DTYPE("ComplexFloatStorage"),
    DTYPE("float32"),
    DTYPE("bfloat16"),
    DTYPE("float16"),
    DTYPE("float64"),
    DTYPE("int64"),
    DTYPE("int32"),
    DTYPE("int16"),
    DTYPE("int8"),
    DTYPE("uint8"),
    DTYPE("bool"),
    DTYPE("complex64"),
    DTYPE("uint16"),
    DTYPE("uint32"),
    DTYPE("uint64"),
    DTYPE("float8_e4m3fn"),
    DTYPE("float8_e5m2"),
    DTYPE("float8_e8m0fnu"),
};

lt_status lt_torch_parse(const uint8_t *bytes, size_t len, lt_torch_use use, const char *where,
                         lt_arena *arena, lt_torch_file *out)
{
    const lt_pickle_rules rules = {globals, sizeof globals / sizeof *globals,
                                   use == LT_TORCH_STATE};
    lt_torch_file file;
    LT_TRY(lt_zip_parse(bytes, len, where, arena, &file.zip));
    const lt_zip_entry *pickle = lt_zip_find(&file.zip, "data.pkl");
    const lt_zip_entry *order = lt_zip_find(&file.zip, "byteorder");
    if (!pickle)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its archive holds no data.pkl", where);
    if (order && (order->bytes != 6 || memcmp(order->data, "little", 6) != 0))
        return LT_FAIL(LT_ERR_FORMAT, "%s: it was written on a big-endian machine", where);
    LT_TRY(lt_zip_check(&file.zip, pickle));
    LT_TRY(lt_pickle_parse(pickle->data, (size_t)pickle->bytes, &rules, where, arena, &file.root));
    *out = file;
    return LT_OK;
}

// ---- tensors

static bool is_rebuild(const lt_pickle *v, const char *name)
{
    return lt_pickle_is_object(v, "torch._utils", name) && v->args->kind == LT_PICKLE_TUPLE;
}

static const lt_pickle *unwrap(const lt_pickle *v)
{
    return is_rebuild(v, "_rebuild_parameter") && v->args->n > 0 ? v->args->items[0] : v;
}

bool lt_torch_is_tensor(const lt_pickle *v)
{
    v = unwrap(v);
    return (is_rebuild(v, "_rebuild_tensor_v2") || is_rebuild(v, "_rebuild_tensor_v3")) &&
           v->args->n >= 4;
}

static lt_status bad(const lt_torch_file *file, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s: its tensor is malformed: %s", file->zip.where, what);
}

// A tuple, or torch.Size of one, of whole numbers of 0 and more.
static lt_status read_dims(const lt_torch_file *file, const lt_pickle *v, lt_arena *arena,
                           int64_t **out, int32_t *rank)
{
    void *memory;
    if (lt_pickle_is_object(v, "torch", "Size") && v->args->n == 1)
        v = v->args->items[0];
    if (v->kind != LT_PICKLE_TUPLE || v->n > MAX_RANK)
        return bad(file, "its size or strides are no short tuple");
    LT_TRY(lt_arena_take(arena, (size_t)v->n * sizeof(int64_t), &memory));
    *out = memory;
    for (int64_t i = 0; i < v->n; i++)
        if (!lt_pickle_int(v->items[i], &(*out)[i]) || (*out)[i] < 0)
            return bad(file, "its size or strides aren't whole numbers of 0 and more");
    *rank = (int32_t)v->n;
    return LT_OK;
}

static const lt_torch_dtype *dtype_of_storage(const lt_pickle *v)
{
    for (int64_t i = 0; i < lt_n_torch_dtypes; i++) {
        if (lt_torch_dtypes[i].storage &&
            lt_pickle_is_global(v, "torch", lt_torch_dtypes[i].storage))
            return &lt_torch_dtypes[i];
    }
    return NULL;
}

// ("storage", class, key, device, count): the entry data/KEY.
static lt_status find_storage(const lt_torch_file *file, const lt_pickle *v, lt_arena *arena,
                              lt_torch_tensor *t)
{
    int64_t count = 0, bytes = 0;
    char *name;
    const lt_pickle *id = v->kind == LT_PICKLE_PERSISTENT ? v->id : NULL;
    if (!id || id->kind != LT_PICKLE_TUPLE || id->n < 5 || !lt_pickle_text(id->items[0]) ||
        strcmp(id->items[0]->text, "storage") != 0)
        return bad(file, "its storage has no id of the known form");
    const bool untyped = lt_pickle_is_global(id->items[1], "torch.storage", "UntypedStorage");
    const char *key = lt_pickle_text(id->items[2]);
    if (!untyped)
        t->dtype = dtype_of_storage(id->items[1]);
    if (!t->dtype)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its tensor has a storage %s that isn't known",
                       file->zip.where, lt_pickle_kind_text(id->items[1]));
    if (!key || !lt_pickle_int(id->items[4], &count) || count < 0 ||
        !lt_mul_i64(count, untyped ? 1 : t->dtype->bytes, &bytes))
        return bad(file, "its storage has no usable key or size");
    LT_TRY(lt_arena_printf(arena, &name, "data/%s", key));
    t->storage = lt_zip_find(&file->zip, name);
    if (!t->storage)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its archive lacks %s", file->zip.where, name);
    if (t->storage->bytes != (uint64_t)bytes) {
        return LT_FAIL(LT_ERR_FORMAT, "%s: its %s has %llu bytes, and its tensor needs %lld",
                       file->zip.where, name, (unsigned long long)t->storage->bytes,
                       (long long)bytes);
    }
    return LT_OK;
}

// The last element has to lie in the storage. Strides of dims of size 1 say nothing.
static lt_status check_reach(const lt_torch_file *file, int64_t offset, lt_torch_tensor *t)
{
    int64_t n = 1, last = offset;
    bool empty = false;
    for (int32_t i = 0; i < t->rank; i++) {
        int64_t step = 0;
        empty = empty || t->size[i] == 0;
        if (t->size[i] > 0 && !lt_mul_i64(n, t->size[i], &n))
            return bad(file, "its size overflows 63 bits");
        if (t->size[i] > 1 &&
            (!lt_mul_i64(t->size[i] - 1, t->stride[i], &step) || !lt_add_i64(last, step, &last)))
            return bad(file, "its strides overflow 63 bits");
    }
    t->n_elems = empty ? 0 : n;
    const int64_t have = (int64_t)(t->storage->bytes / t->dtype->bytes);
    if (offset < 0 || (!empty && last >= have))
        return bad(file, "it reaches beyond its storage");
    t->data = empty ? t->storage->data : t->storage->data + (size_t)offset * t->dtype->bytes;
    return LT_OK;
}

lt_status lt_torch_tensor_of(const lt_torch_file *file, const lt_pickle *v, lt_arena *arena,
                             lt_torch_tensor *out)
{
    lt_torch_tensor t = {0};
    int64_t *size, *stride, offset = 0;
    int32_t n_strides;
    v = unwrap(v);
    if (!lt_torch_is_tensor(v))
        return LT_FAIL(LT_ERR_FORMAT, "%s: it holds %s where a tensor should be", file->zip.where,
                       lt_pickle_kind_text(v));
    const lt_pickle *args = v->args;
    if (is_rebuild(v, "_rebuild_tensor_v3") && args->n >= 7 &&
        args->items[6]->kind == LT_PICKLE_GLOBAL)
        t.dtype = lt_torch_dtype_find(args->items[6]->name);
    LT_TRY(find_storage(file, args->items[0], arena, &t));
    LT_TRY(read_dims(file, args->items[2], arena, &size, &t.rank));
    LT_TRY(read_dims(file, args->items[3], arena, &stride, &n_strides));
    if (n_strides != t.rank || !lt_pickle_int(args->items[1], &offset))
        return bad(file, "its size, strides and offset don't fit together");
    t.size = size;
    t.stride = stride;
    LT_TRY(check_reach(file, offset, &t));
    *out = t;
    return LT_OK;
}

// The dims from *inner on lie row-major without gaps, `run` elements of them.
static void find_run(const lt_torch_tensor *t, int32_t *inner, int64_t *run)
{
    *run = 1;
    for (*inner = t->rank; *inner > 0; (*inner)--) {
        const int32_t d = *inner - 1;
        if (t->size[d] != 1 && t->stride[d] != *run)
            return;
        *run *= t->size[d];
    }
}

static void copy_strided(uint8_t *dst, const uint8_t *src, int64_t n, int64_t stride, size_t size)
{
    switch (size) {
    case 2:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * 2, src + i * stride * 2, 2);
        return;
    case 4:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * 4, src + i * stride * 4, 4);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + (size_t)i * size, src + (size_t)(i * stride) * size, size);
    }
}

void lt_torch_copy(const lt_torch_tensor *t, int64_t first, int64_t n, void *dst)
{
    const size_t size = t->dtype->bytes;
    uint8_t *to = dst;
    int32_t inner;
    int64_t run;
    LT_ASSERT(first >= 0 && n >= 0 && n <= t->n_elems - first);
    find_run(t, &inner, &run);
    // The innermost dim that isn't part of a run is walked by its stride.
    const int64_t row = inner > 0 && run == 1 ? t->size[inner - 1] : run;
    const int64_t step = inner > 0 && run == 1 ? t->stride[inner - 1] : 1;
    const int32_t outer = inner > 0 && run == 1 ? inner - 1 : inner;
    while (n > 0) {
        int64_t rest = first / row, at = (first % row) * step;
        const int64_t take = lt_min_i64(n, row - first % row);
        for (int32_t d = outer; d > 0; d--) {
            at += rest % t->size[d - 1] * (t->size[d - 1] > 1 ? t->stride[d - 1] : 0);
            rest /= t->size[d - 1];
        }
        const uint8_t *from = t->data + (size_t)at * size;
        if (step == 1)
            memcpy(to, from, (size_t)take * size);
        else
            copy_strided(to, from, take, step, size);
        to += (size_t)take * size;
        first += take;
        n -= take;
    }
}

// ---- files

lt_status lt_torch_open(const char *path, lt_torch_mapped **out)
{
    void *memory;
    char *where;
    lt_status st;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_torch_mapped), "torch archive"));
    lt_torch_mapped *f = memory;
    LT_TRY_GOTO(st, lt_arena_create(&f->arena, "torch archive"), failed);
    LT_TRY_GOTO(st, lt_arena_text(f->arena, path, strlen(path), &where), failed);
    LT_TRY_GOTO(st, lt_file_map(path, &f->map), failed);
    LT_TRY_GOTO(
        st, lt_torch_parse(f->map.data, f->map.bytes, LT_TORCH_STATE, where, f->arena, &f->file),
        failed);
    *out = f;
    return LT_OK;
failed:
    lt_torch_close(f);
    return st;
}

void lt_torch_close(lt_torch_mapped *f)
{
    if (!f)
        return;
    if (f->map.data)
        lt_file_unmap(&f->map);
    lt_arena_destroy(f->arena);
    lt_mem_free(f);
}
