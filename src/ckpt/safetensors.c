// SPDX-License-Identifier: Apache-2.0
// safetensors: the header's JSON to checked views. The bytes come from strangers.
#include "ckpt/safetensors.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor data is used as it lies in the file, which is little-endian"
#endif

enum {
    MAX_HEADER_BYTES = 100000000, // as the format's own reader
    MAX_RANK = 64,
    MAX_NAME_BYTES = 2048,
    MAX_DTYPE_BYTES = 24,
    MAX_TENSORS = 10000000,
    READ_CHUNK_BYTES = 4096, // lt_st_read's buffer for data that isn't aligned
};

struct lt_st {
    lt_mapped map; // {0} for bytes of the caller's
    lt_arena *arena;
    const char *path;
    lt_map *by_name;
    lt_vec tensors; // lt_st_tensor
    lt_vec meta;    // lt_st_pair
};

// Every dtype of the format. Those without a counterpart in lathe are carried over as bytes.
static const struct {
    const char *text;
    unsigned bits;
    lt_dtype dtype;
} dtypes[] = {
    {"F64", 64, LT_F64},         {"F32", 32, LT_F32},
    {"BF16", 16, LT_BF16},       {"F16", 16, LT_F16},
    {"I64", 64, LT_I64},         {"I32", 32, LT_I32},
    {"I16", 16, LT_I16},         {"U8", 8, LT_U8},
    {"I8", 8, LT_N_DTYPES},      {"BOOL", 8, LT_N_DTYPES},
    {"U16", 16, LT_N_DTYPES},    {"U32", 32, LT_N_DTYPES},
    {"U64", 64, LT_N_DTYPES},    {"F8_E4M3", 8, LT_N_DTYPES},
    {"F8_E5M2", 8, LT_N_DTYPES}, {"C64", 64, LT_N_DTYPES},
    {"F8_E8M0", 8, LT_N_DTYPES}, {"F4", 4, LT_N_DTYPES},
    {"F6_E2M3", 6, LT_N_DTYPES}, {"F6_E3M2", 6, LT_N_DTYPES},
};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *lt_st_dtype_text(lt_dtype dtype)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype && dtype != LT_N_DTYPES)
            return dtypes[i].text;
    return "?";
}

// The row of the table, or N_DTYPES for one that this build has never heard of.
static int dtype_row(const char *text)
{
    int i = 0;
    while (i < N_DTYPES && strcmp(dtypes[i].text, text) != 0)
        i++;
    return i;
}

// Elements of a shape; false when the product of the dims that aren't 0 leaves 63 bits.
static bool count_elems(int32_t rank, const int64_t *dim, int64_t *out)
{
    int64_t n = 1;
    bool empty = false;
    for (int32_t i = 0; i < rank; i++) {
        if (dim[i] == 0)
            empty = true;
        else if (!lt_mul_i64(n, dim[i], &n))
            return false;
    }
    *out = empty ? 0 : n;
    return true;
}

static lt_status check_size(const lt_st_tensor *t)
{
    int64_t n = 0, bits = 0;
    const int row = dtype_row(t->dtype_text);
    if (!count_elems(t->rank, t->dim, &n) ||
        (row < N_DTYPES && !lt_mul_i64(n, dtypes[row].bits, &bits)))
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s: its shape overflows 63 bits", t->file,
                       t->name);
    if (row == N_DTYPES)
        return LT_OK; // an unknown dtype: only the range itself can be checked
    if (bits % 8 != 0 || t->bytes != (size_t)bits / 8) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: tensor %s: its range has %zu bytes and its shape %s needs %.1f",
                       t->file, t->name, t->bytes, lt_st_shape_text(t).s, (double)bits / 8);
    }
    return LT_OK;
}

// A whole number of 0 and more.
static bool natural(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (int64_t)json_integer_value(value);
    return true;
}

static lt_status parse_shape(lt_st *st, lt_st_tensor *t, const json_t *shape)
{
    const size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > MAX_RANK) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: tensor %s: shape has to be an array of at most %d numbers", t->file,
                       t->name, MAX_RANK);
    }
    void *dims;
    LT_TRY(lt_arena_take(st->arena, rank * sizeof(int64_t), &dims));
    int64_t *dim = dims;
    for (size_t i = 0; i < rank; i++) {
        if (!natural(json_array_get(shape, i), &dim[i])) {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s: tensor %s: dim %zu of its shape isn't a whole number of 0 and more",
                           t->file, t->name, i);
        }
    }
    t->rank = (int32_t)rank;
    t->dim = dim;
    return LT_OK;
}

static lt_status parse_dtype(lt_st *st, lt_st_tensor *t, const json_t *dtype)
{
    const char *text = json_string_value(dtype);
    if (text == NULL || json_string_length(dtype) == 0 ||
        json_string_length(dtype) > MAX_DTYPE_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s: dtype has to be a string of 1 to %d bytes",
                       t->file, t->name, MAX_DTYPE_BYTES);
    const int row = dtype_row(text);
    t->dtype = row < N_DTYPES ? dtypes[row].dtype : LT_N_DTYPES;
    if (row < N_DTYPES) {
        t->dtype_text = dtypes[row].text;
        return LT_OK;
    }
    char *copy;
    LT_TRY(lt_arena_text(st->arena, text, strlen(text), &copy));
    t->dtype_text = copy;
    return LT_OK;
}

static lt_status parse_range(lt_st_tensor *t, const json_t *range, int64_t *begin)
{
    int64_t end = 0;
    if (json_array_size(range) != 2 || !natural(json_array_get(range, 0), begin) ||
        !natural(json_array_get(range, 1), &end) || *begin > end) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: tensor %s: data_offsets has to be [begin, end] with 0 <= begin <= end",
                       t->file, t->name);
    }
    t->bytes = (size_t)(end - *begin);
    return LT_OK;
}

// A tensor whose place isn't checked yet.
typedef struct placed {
    lt_st_tensor tensor;
    int64_t begin, index; // index: position in the header
} placed;

static lt_status parse_entry(lt_st *st, const char *name, const json_t *entry, lt_vec *out)
{
    placed p = {.tensor = {.file = st->path}, .index = out->n};
    lt_st_tensor *t = &p.tensor;
    if (name[0] == '\0' || strlen(name) > MAX_NAME_BYTES || out->n >= MAX_TENSORS) {
        return LT_FAIL(
            LT_ERR_FORMAT,
            "%s: a tensor's name has %zu bytes; 1 to %d are allowed, in at most %d tensors",
            st->path, strlen(name), MAX_NAME_BYTES, MAX_TENSORS);
    }
    char *copy;
    LT_TRY(lt_arena_text(st->arena, name, strlen(name), &copy));
    t->name = copy;
    if (!json_is_object(entry)) {
        return LT_FAIL(
            LT_ERR_FORMAT,
            "%s: tensor %s: its entry has to be an object of dtype, shape and data_offsets",
            st->path, name);
    }
    LT_TRY(parse_dtype(st, t, json_object_get(entry, "dtype")));
    LT_TRY(parse_shape(st, t, json_object_get(entry, "shape")));
    LT_TRY(parse_range(t, json_object_get(entry, "data_offsets"), &p.begin));
    LT_TRY(check_size(t));
    return lt_vec_push(out, &p);
}

static lt_status parse_meta(lt_st *st, json_t *meta)
{
    const char *key;
    json_t *value;
    if (!json_is_object(meta))
        return LT_FAIL(LT_ERR_FORMAT, "%s: __metadata__ has to be an object of strings", st->path);
    json_object_foreach(meta, key, value)
    {
        char *k, *v;
        if (!json_is_string(value))
            return LT_FAIL(LT_ERR_FORMAT, "%s: __metadata__: the value of %s isn't a string",
                           st->path, key);
        LT_TRY(lt_arena_text(st->arena, key, strlen(key), &k));
        LT_TRY(lt_arena_text(st->arena, json_string_value(value), json_string_length(value), &v));
        LT_TRY(lt_vec_push(&st->meta, &(lt_st_pair){.key = k, .value = v}));
    }
    return LT_OK;
}

static int by_place(const void *a, const void *b)
{
    const placed *p = a, *q = b;
    if (p->begin != q->begin)
        return p->begin < q->begin ? -1 : 1;
    if (p->tensor.bytes != q->tensor.bytes)
        return p->tensor.bytes < q->tensor.bytes ? -1 : 1;
    return p->index < q->index ? -1 : 1;
}

// The ranges, in order, have to tile the data exactly: no overlap, no gap, no end before or after
// the file's.
static lt_status check_cover(const lt_st *st, const placed *list, int64_t n, size_t have)
{
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const lt_st_tensor *t = &list[i].tensor;
        const size_t begin = (size_t)list[i].begin;
        if (begin < at) {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s: tensor %s overlaps tensor %s: it begins at byte %zu of the data, "
                           "the other ends at %zu",
                           st->path, t->name, list[i - 1].tensor.name, begin, at);
        }
        if (begin > at) {
            return LT_FAIL(
                LT_ERR_FORMAT,
                "%s: bytes %zu to %zu of the data, before tensor %s, belong to no tensor", st->path,
                at, begin, t->name);
        }
        if (begin > have || t->bytes > have - begin) {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s: the file is cut short: tensor %s is bytes %zu to %zu of the data "
                           "and the file holds %zu",
                           st->path, t->name, begin, begin + t->bytes, have);
        }
        at = begin + t->bytes;
    }
    if (at != have)
        return LT_FAIL(LT_ERR_FORMAT, "%s: the last %zu bytes of the file belong to no tensor",
                       st->path, have - at);
    return LT_OK;
}

static lt_status keep_tensors(lt_st *st, const placed *list, int64_t n, const uint8_t *data)
{
    for (int64_t i = 0; i < n; i++) {
        lt_st_tensor t = list[i].tensor;
        t.data = data + list[i].begin;
        LT_TRY(lt_vec_push(&st->tensors, &t));
        LT_TRY(lt_map_put_text(st->by_name, t.name, i));
    }
    return LT_OK;
}

static lt_status parse_root(lt_st *st, json_t *root, const uint8_t *data, size_t have)
{
    lt_vec list = LT_VEC_OF(placed);
    lt_status st_code = LT_OK;
    const char *name;
    json_t *entry;
    if (!json_is_object(root))
        return LT_FAIL(LT_ERR_FORMAT, "%s: the header has to be a JSON object", st->path);
    json_object_foreach(root, name, entry)
    {
        const bool meta = strcmp(name, "__metadata__") == 0;
        LT_TRY_GOTO(st_code, meta ? parse_meta(st, entry) : parse_entry(st, name, entry, &list),
                    done);
    }
    if (list.n > 0)
        qsort(list.data, (size_t)list.n, sizeof(placed), by_place);
    LT_TRY_GOTO(st_code, check_cover(st, list.data, list.n, have), done);
    LT_TRY_GOTO(st_code, keep_tensors(st, list.data, list.n, data), done);
done:
    lt_vec_deinit(&list);
    return st_code;
}

static lt_status parse(lt_st *st, const uint8_t *bytes, size_t len)
{
    uint64_t header = 0;
    if (len < 8) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: the file is cut short: %zu bytes, and the length of a safetensors "
                       "header alone has 8",
                       st->path, len);
    }
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > MAX_HEADER_BYTES) {
        return LT_FAIL(
            LT_ERR_FORMAT,
            "%s: not a safetensors file: its header would have %llu bytes, and %d are allowed",
            st->path, (unsigned long long)header, MAX_HEADER_BYTES);
    }
    if (header > len - 8) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: the file is cut short inside its header: %llu bytes wanted, %zu there",
                       st->path, (unsigned long long)header, len - 8);
    }
    json_error_t error;
    json_t *root =
        json_loadb((const char *)bytes + 8, (size_t)header, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "%s: the header isn't valid: %s, at its byte %d", st->path,
                       error.text, error.position);
    const lt_status code = parse_root(st, root, bytes + 8 + header, len - 8 - (size_t)header);
    json_decref(root);
    return code;
}

static lt_status create(const char *path, lt_st **out)
{
    void *mem;
    lt_status code;
    LT_TRY(lt_mem_alloc(&mem, sizeof(lt_st), "safetensors reader"));
    lt_st *st = mem;
    st->tensors = LT_VEC_OF(lt_st_tensor);
    st->meta = LT_VEC_OF(lt_st_pair);
    char *copy = NULL;
    LT_TRY_GOTO(code, lt_arena_create(&st->arena, "safetensors header"), failed);
    LT_TRY_GOTO(code, lt_map_create(&st->by_name), failed);
    LT_TRY_GOTO(code, lt_arena_text(st->arena, path, strlen(path), &copy), failed);
    st->path = copy;
    *out = st;
    return LT_OK;
failed:
    lt_st_close(st);
    return code;
}

lt_status lt_st_parse(const void *bytes, size_t len, const char *path, lt_st **out)
{
    lt_st *st;
    LT_TRY(create(path, &st));
    const lt_status code = parse(st, bytes, len);
    if (code != LT_OK) {
        lt_st_close(st);
        return code;
    }
    *out = st;
    return LT_OK;
}

lt_status lt_st_open(const char *path, lt_st **out)
{
    lt_mapped map;
    LT_TRY(lt_file_map(path, &map));
    lt_st *st = NULL;
    const lt_status code = lt_st_parse(map.data, map.bytes, path, &st);
    if (code != LT_OK) {
        lt_file_unmap(&map);
        return code;
    }
    st->map = map;
    *out = st;
    return LT_OK;
}

void lt_st_close(lt_st *st)
{
    if (st == NULL)
        return;
    lt_vec_deinit(&st->tensors);
    lt_vec_deinit(&st->meta);
    lt_map_destroy(st->by_name);
    lt_arena_destroy(st->arena);
    if (st->map.data != NULL)
        lt_file_unmap(&st->map);
    lt_mem_free(st);
}

const char *lt_st_path(const lt_st *st)
{
    return st->path;
}

int64_t lt_st_count(const lt_st *st)
{
    return st->tensors.n;
}

const lt_st_tensor *lt_st_at(const lt_st *st, int64_t i)
{
    LT_ASSERT(i >= 0 && i < st->tensors.n);
    return &LT_AT(&st->tensors, lt_st_tensor, i);
}

const lt_st_tensor *lt_st_find(const lt_st *st, const char *name)
{
    int64_t i;
    return lt_map_get_text(st->by_name, name, &i) ? lt_st_at(st, i) : NULL;
}

int64_t lt_st_meta_count(const lt_st *st)
{
    return st->meta.n;
}

const lt_st_pair *lt_st_meta_at(const lt_st *st, int64_t i)
{
    LT_ASSERT(i >= 0 && i < st->meta.n);
    return &LT_AT(&st->meta, lt_st_pair, i);
}

const char *lt_st_meta(const lt_st *st, const char *key)
{
    for (int64_t i = 0; i < st->meta.n; i++)
        if (strcmp(lt_st_meta_at(st, i)->key, key) == 0)
            return lt_st_meta_at(st, i)->value;
    return NULL;
}

// ---- using and planning one tensor

lt_status lt_st_as_tensor(const lt_st_tensor *view, lt_tensor *out)
{
    if (view->dtype == LT_N_DTYPES || view->rank > LT_MAX_DIMS) {
        return LT_FAIL(
            LT_ERR_UNSUPPORTED,
            "%s: tensor %s is %s: this dtype or this many dims can be carried over, not used",
            view->file, view->name, lt_st_shape_text(view).s);
    }
    *out = lt_tensor_nd(view->dtype, view->rank, view->dim);
    if (view->source || (uintptr_t)view->data % lt_dtype_bytes(view->dtype) != 0)
        return LT_OK;
    memcpy(&out->data, &view->data,
           sizeof view
               ->data); // the tensor's pointer isn't const; the mapping is, so writing would fault
    out->host = out->data;
    return LT_OK;
}

// Elements at any alignment, through a small aligned buffer where there is none.
static void convert(const lt_st_tensor *view, const uint8_t *src, int64_t n, lt_dtype to, void *dst)
{
    const size_t from_bytes = lt_dtype_bytes(view->dtype), to_bytes = lt_dtype_bytes(to);
    if ((uintptr_t)src % from_bytes == 0) {
        lt_convert(dst, to, src, view->dtype, n);
        return;
    }
    _Alignas(16) uint8_t buffer[READ_CHUNK_BYTES];
    uint8_t *at = dst;
    while (n > 0) {
        const int64_t take = lt_min_i64(n, (int64_t)(READ_CHUNK_BYTES / from_bytes));
        memcpy(buffer, src, (size_t)take * from_bytes);
        lt_convert(at, to, buffer, view->dtype, take);
        src += (size_t)take * from_bytes;
        at += (size_t)take * to_bytes;
        n -= take;
    }
}

static lt_status convert_source(const lt_st_tensor *view, int64_t first, int64_t n, lt_dtype to,
                                void *dst)
{
    _Alignas(16) uint8_t buffer[4 * READ_CHUNK_BYTES];
    const int64_t room = (int64_t)(sizeof buffer / lt_dtype_bytes(view->dtype));
    uint8_t *at = dst;
    for (int64_t i = 0; i < n; i += room) {
        const int64_t take = lt_min_i64(n - i, room);
        LT_TRY(view->source->read(view->source, first + i, take, buffer));
        lt_convert(at, to, buffer, view->dtype, take);
        at += (size_t)take * lt_dtype_bytes(to);
    }
    return LT_OK;
}

static lt_status check_range(const lt_st_tensor *view, int64_t first, int64_t n)
{
    const int64_t have = lt_st_elems(view);
    if (first < 0 || n < 0 || first > have || n > have - first) {
        return LT_FAIL(LT_ERR_SHAPE, "%s: tensor %s has %lld elements; [%lld, %lld) was asked for",
                       view->file, view->name, (long long)have, (long long)first,
                       (long long)(first + n));
    }
    return LT_OK;
}

size_t lt_st_elem_bytes(const lt_st_tensor *view)
{
    const int64_t n = lt_st_elems(view);
    return n > 0 && view->bytes % (size_t)n == 0 ? view->bytes / (size_t)n : 0;
}

void lt_st_forget(const lt_st_tensor *view)
{
    enum { PAGE = 4096 }; // or more: lt_file_forget keeps to whole pages from here on
    if (view->source) {
        view->source->forget(view->source);
        return;
    }
    const size_t before = (uintptr_t)view->data % PAGE;
    const lt_mapped around = {view->data - before, view->bytes + before};
    if (view->bytes > 0)
        lt_file_forget(&around, before, around.bytes);
}

lt_status lt_st_read_raw(const lt_st_tensor *view, int64_t first, int64_t n, void *dst)
{
    const size_t size = lt_st_elem_bytes(view);
    LT_TRY(check_range(view, first, n));
    if (n == 0)
        return LT_OK;
    if (view->source)
        return view->source->read(view->source, first, n, dst);
    if (size == 0)
        return LT_FAIL(LT_ERR_DTYPE, "%s: tensor %s is %s, whose elements aren't whole bytes",
                       view->file, view->name, lt_st_shape_text(view).s);
    memcpy(dst, view->data + (size_t)first * size, (size_t)n * size);
    return LT_OK;
}

lt_status lt_st_read(const lt_st_tensor *view, int64_t first, int64_t n, lt_dtype to, void *dst)
{
    LT_TRY(check_range(view, first, n));
    const bool same = view->dtype == to && to != LT_N_DTYPES;
    if (!same && !(view->dtype != LT_N_DTYPES && to != LT_N_DTYPES &&
                   lt_dtype_is_float(view->dtype) && lt_dtype_is_float(to)))
        return LT_FAIL(LT_ERR_DTYPE, "%s: tensor %s is %s and can't be read as %s", view->file,
                       view->name, lt_st_shape_text(view).s, lt_st_dtype_text(to));
    if (n == 0 || same)
        return lt_st_read_raw(view, first, n, dst);
    if (view->source)
        return convert_source(view, first, n, to, dst);
    convert(view, view->data + (size_t)first * lt_dtype_bytes(view->dtype), n, to, dst);
    return LT_OK;
}

lt_status lt_st_plan(const char *name, lt_dtype dtype, int32_t rank, const int64_t *dim,
                     lt_st_tensor *out)
{
    int64_t n = 0, bytes = 0;
    if (!count_elems(rank, dim, &n) || !lt_mul_i64(n, (int64_t)lt_dtype_bytes(dtype), &bytes))
        return LT_FAIL(LT_ERR_SHAPE, "tensor %s: its shape overflows 63 bits", name);
    *out = (lt_st_tensor){.name = name,
                          .dtype = dtype,
                          .dtype_text = lt_st_dtype_text(dtype),
                          .rank = rank,
                          .dim = dim,
                          .bytes = (size_t)bytes,
                          .file = ""};
    return LT_OK;
}

lt_shape_text lt_st_shape_text(const lt_st_tensor *view)
{
    lt_shape_text text;
    size_t at = (size_t)snprintf(text.s, sizeof text.s, "%s[", view->dtype_text);
    for (int32_t i = 0; i < view->rank && at < sizeof text.s - 28; i++)
        at += (size_t)snprintf(text.s + at, sizeof text.s - at, "%s%lld", i > 0 ? "," : "",
                               (long long)view->dim[i]);
    snprintf(text.s + at, sizeof text.s - at, "]");
    return text;
}

int64_t lt_st_elems(const lt_st_tensor *view)
{
    int64_t n = 0;
    return count_elems(view->rank, view->dim, &n) ? n : 0;
}
