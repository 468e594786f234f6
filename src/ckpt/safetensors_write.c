// SPDX-License-Identifier: Apache-2.0
// safetensors: header from a list, data streamed through one buffer, then all of it read back.
#include "ckpt/safetensors_write.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ckpt/checksum.h"
#include "ckpt/json_text.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HEADER_BYTES = 100000000,
    PIECE_ELEMS = 1 << 18, // elements per fetch: 2 MiB of f64 at most
};

// One file on its way out.
typedef struct stream {
    const char *path;
    const lt_st_item **order; // as they lie in the file
    uint64_t *sums;           // per position in `order`
    int64_t n;
    uint8_t *fetched, *converted; // PIECE_ELEMS of the widest dtype each
    lt_writer *writer;
} stream;

static bool known(lt_dtype dtype)
{
    return dtype < LT_N_DTYPES;
}

static size_t alignment(const lt_st_tensor *t)
{
    return known(t->dtype) ? lt_dtype_bytes(t->dtype) : 1;
}

static lt_status check_item(const lt_st_item *item, const char *path, lt_map *seen)
{
    const lt_st_tensor *t = &item->tensor;
    int64_t other;
    if (lt_map_get_text(seen, t->name, &other))
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s would be written twice", path, t->name);
    LT_TRY(lt_map_put_text(seen, t->name, 1));
    LT_ASSERT(item->fetch != NULL || t->data != NULL || t->source != NULL || t->bytes == 0);
    if (item->fetch == NULL || (known(item->from) && item->from == t->dtype))
        return LT_OK;
    if (!known(item->from) || !known(t->dtype) || !lt_dtype_is_float(item->from) ||
        !lt_dtype_is_float(t->dtype))
        return LT_FAIL(LT_ERR_DTYPE, "%s: tensor %s can't be written as %s: its values are %s",
                       path, t->name, t->dtype_text, lt_st_dtype_text(item->from));
    return LT_OK;
}

// Larger elements first, so that each tensor is aligned for its dtype; else as given.
static lt_status arrange(stream *s, const lt_st_item *items, int64_t n)
{
    lt_map *seen;
    lt_status st = LT_OK;
    LT_TRY(lt_map_create(&seen));
    for (int64_t i = 0; i < n; i++)
        LT_TRY_GOTO(st, check_item(&items[i], s->path, seen), done);
    for (size_t align = 8; align > 0; align /= 2) {
        for (int64_t i = 0; i < n; i++)
            if (alignment(&items[i].tensor) == align)
                s->order[s->n++] = &items[i];
    }
    LT_ASSERT(s->n == n);
done:
    lt_map_destroy(seen);
    return st;
}

static lt_status header_entry(lt_buf *text, const lt_st_tensor *t, size_t begin)
{
    LT_TRY(lt_json_quote(text, t->name));
    LT_TRY(lt_buf_text(text, ":{\"dtype\":"));
    LT_TRY(lt_json_quote(text, t->dtype_text));
    LT_TRY(lt_buf_text(text, ",\"shape\":["));
    for (int32_t i = 0; i < t->rank; i++)
        LT_TRY(lt_buf_printf(text, "%s%lld", i > 0 ? "," : "", (long long)t->dim[i]));
    return lt_buf_printf(text, "],\"data_offsets\":[%zu,%zu]}", begin, begin + t->bytes);
}

// {"__metadata__":{...},"name":{...},...}, padded so that the data begins at a multiple of 8.
static lt_status header_text(const stream *s, const lt_st_pair *meta, int64_t n_meta, lt_buf *text)
{
    size_t at = 0;
    LT_TRY(lt_buf_text(text, "{"));
    for (int64_t i = 0; i < n_meta; i++) {
        LT_TRY(lt_buf_text(text, i == 0 ? "\"__metadata__\":{" : ","));
        LT_TRY(lt_json_quote(text, meta[i].key));
        LT_TRY(lt_buf_text(text, ":"));
        LT_TRY(lt_json_quote(text, meta[i].value));
    }
    if (n_meta > 0)
        LT_TRY(lt_buf_text(text, "}"));
    for (int64_t i = 0; i < s->n; i++) {
        if (i > 0 || n_meta > 0)
            LT_TRY(lt_buf_text(text, ","));
        LT_TRY(header_entry(text, &s->order[i]->tensor, at));
        at += s->order[i]->tensor.bytes;
    }
    LT_TRY(lt_buf_text(text, "}"));
    while (text->len % 8 != 0)
        LT_TRY(lt_buf_text(text, " "));
    if (text->len > MAX_HEADER_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: the header would have %zu bytes; the format allows %d",
                       s->path, text->len, MAX_HEADER_BYTES);
    return LT_OK;
}

static lt_status write_header(stream *s, const lt_st_pair *meta, int64_t n_meta)
{
    lt_buf text = {0};
    lt_status st;
    LT_TRY_GOTO(st, header_text(s, meta, n_meta, &text), done);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)text.len >> (8 * i));
    LT_TRY_GOTO(st, lt_writer_put(s->writer, length, sizeof length), done);
    LT_TRY_GOTO(st, lt_writer_put(s->writer, text.data, text.len), done);
done:
    lt_buf_deinit(&text);
    return st;
}

static lt_status put(stream *s, lt_sum *sum, const void *bytes, size_t len)
{
    lt_sum_add(sum, bytes, len);
    return lt_writer_put(s->writer, bytes, len);
}

static lt_status write_fetched(stream *s, const lt_st_item *item, lt_sum *sum)
{
    const lt_st_tensor *t = &item->tensor;
    const int64_t n = lt_st_elems(t);
    for (int64_t first = 0; first < n; first += PIECE_ELEMS) {
        const int64_t take = lt_min_i64(PIECE_ELEMS, n - first);
        const size_t bytes = (size_t)take * lt_dtype_bytes(t->dtype);
        const uint8_t *out = s->fetched;
        LT_TRY(item->fetch(item->ctx, first, take, s->fetched));
        if (item->from != t->dtype) {
            lt_convert(s->converted, t->dtype, s->fetched, item->from, take);
            out = s->converted;
        }
        LT_TRY(put(s, sum, out, bytes));
    }
    return LT_OK;
}

// Carried over as it is, from a source that puts it together.
static lt_status write_gathered(stream *s, const lt_st_tensor *t, lt_sum *sum)
{
    const size_t size = lt_st_elem_bytes(t);
    const int64_t n = lt_st_elems(t);
    for (int64_t first = 0; first < n; first += PIECE_ELEMS) {
        const int64_t take = lt_min_i64(PIECE_ELEMS, n - first);
        LT_TRY(lt_st_read_raw(t, first, take, s->fetched));
        LT_TRY(put(s, sum, s->fetched, (size_t)take * size));
    }
    return LT_OK;
}

static lt_status write_item(stream *s, const lt_st_item *item, uint64_t *out)
{
    lt_sum sum;
    lt_sum_init(&sum);
    if (item->fetch != NULL)
        LT_TRY(write_fetched(s, item, &sum));
    else if (item->tensor.source != NULL)
        LT_TRY(write_gathered(s, &item->tensor, &sum));
    else if (item->tensor.bytes > 0)
        LT_TRY(put(s, &sum, item->tensor.data, item->tensor.bytes));
    *out = lt_sum_value(&sum);
    return LT_OK;
}

// ---- reading back

static bool same_entry(const lt_st_tensor *a, const lt_st_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->dtype_text, b->dtype_text) == 0 &&
           a->bytes == b->bytes && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0);
}

static lt_status compare(const stream *s, const lt_st *back)
{
    if (lt_st_count(back) != s->n)
        return LT_FAIL(LT_ERR_IO, "%s: reading back gives %lld tensors, %lld were written", s->path,
                       (long long)lt_st_count(back), (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        const lt_st_tensor *want = &s->order[i]->tensor, *got = lt_st_find(back, want->name);
        if (got == NULL || !same_entry(want, got)) {
            return LT_FAIL(LT_ERR_IO,
                           "%s: reading back gives another entry for tensor %s than was written",
                           s->path, want->name);
        }
        lt_sum sum;
        lt_sum_init(&sum);
        lt_sum_add(&sum, got->data, got->bytes);
        lt_st_forget(got);
        if (lt_sum_value(&sum) != s->sums[i]) {
            return LT_FAIL(LT_ERR_IO,
                           "%s: tensor %s reads back differently from what was written: the disk "
                           "or its cable is failing",
                           s->path, want->name);
        }
    }
    return LT_OK;
}

static lt_status verify(const stream *s)
{
    lt_st *back;
    lt_file_uncache(s->path);
    LT_TRY(lt_st_open(s->path, &back));
    const lt_status st = compare(s, back);
    lt_st_close(back);
    return st;
}

// ---- the whole file

static lt_status write_all(stream *s, const lt_st_pair *meta, int64_t n_meta)
{
    LT_TRY(lt_writer_create(s->path, &s->writer));
    LT_TRY(write_header(s, meta, n_meta));
    for (int64_t i = 0; i < s->n; i++) {
        const lt_status st = write_item(s, s->order[i], &s->sums[i]);
        if (st != LT_OK) {
            lt_error_note("tensor %s", s->order[i]->tensor.name);
            return st;
        }
    }
    return lt_writer_close(&s->writer);
}

lt_status lt_st_write(const char *path, const lt_st_item *items, int64_t n, const lt_st_pair *meta,
                      int64_t n_meta)
{
    stream s = {.path = path};
    lt_status st;
    void *order = NULL, *sums = NULL, *fetched = NULL, *converted = NULL;
    LT_TRY_GOTO(st, lt_mem_alloc(&order, (size_t)n * sizeof(void *), "checkpoint order"), done);
    LT_TRY_GOTO(st, lt_mem_alloc(&sums, (size_t)n * sizeof *s.sums, "checkpoint checksums"), done);
    LT_TRY_GOTO(st, lt_mem_alloc(&fetched, PIECE_ELEMS * sizeof(double), "checkpoint piece"), done);
    LT_TRY_GOTO(st, lt_mem_alloc(&converted, PIECE_ELEMS * sizeof(double), "checkpoint piece"),
                done);
    s.order = order;
    s.sums = sums;
    s.fetched = fetched;
    s.converted = converted;
    LT_TRY_GOTO(st, arrange(&s, items, n), done);
    LT_TRY_GOTO(st, write_all(&s, meta, n_meta), done);
    LT_TRY_GOTO(st, verify(&s), done);
done:
    lt_writer_abandon(s.writer);
    lt_mem_free(order);
    lt_mem_free(sums);
    lt_mem_free(fetched);
    lt_mem_free(converted);
    return st;
}

// ---- common sources

lt_status lt_st_fetch_tensor(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_tensor *t = ctx;
    const size_t size = lt_dtype_bytes(t->dtype);
    memcpy(dst, (const uint8_t *)t->data + (size_t)first * size, (size_t)n * size);
    return LT_OK;
}

lt_status lt_st_fetch_split(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_st_split *split = ctx;
    float *out = dst;
    for (int64_t i = 0; i < n; i++)
        out[i] = lt_join_f32(split->hi[first + i], split->lo[first + i]);
    return LT_OK;
}

lt_status lt_st_fetch_view(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_st_tensor *view = ctx;
    return lt_st_read(view, first, n, view->dtype, dst);
}
