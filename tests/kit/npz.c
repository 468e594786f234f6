// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz files: the zip's central directory, zlib, and the text header of .npy.
#include "tests/kit/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#include "base/file.h"

enum {
    MAX_ENTRIES = 64,
    MAX_NAME = 128,
    END_BYTES = 22,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_FILE = 1 << 30
};

typedef struct array {
    char name[MAX_NAME];
    lt_tensor tensor;
} array;

struct lt_npz {
    lt_arena *arena;
    lt_buf file;
    array arrays[MAX_ENTRIES];
    int n;
};

static uint64_t le(const char *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | (uint8_t)p[i];
    return v;
}

static lt_status inflate_raw(const char *in, uint64_t in_len, void *out, uint64_t out_len)
{
    z_stream z = {0};
    z.next_in = (const Bytef *)in;
    z.avail_in = (uInt)in_len;
    z.next_out = out;
    z.avail_out = (uInt)out_len;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: zlib");
    const int rc = inflate(&z, Z_FINISH);
    const bool whole = rc == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    return whole ? LT_OK : LT_FAIL(LT_ERR_FORMAT, "npz: an entry doesn't inflate to its size");
}

/** "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }" */
static lt_status parse_npy(char *npy, uint64_t len, lt_tensor *out)
{
    if (len < 10 || memcmp(npy, "\x93NUMPY", 6) != 0)
        return LT_FAIL(LT_ERR_FORMAT, "npz: an entry is no .npy");
    const uint64_t head = npy[6] == 1 ? 10 : 12,
                   text = npy[6] == 1 ? le(npy + 8, 2) : le(npy + 8, 4);
    if (len < 12 || text > len - head)
        return LT_FAIL(LT_ERR_FORMAT, "npz: an entry's header is cut");
    char *header = npy + head;
    header[text - 1] = 0; // it ends in a newline
    const lt_dtype dtype = strstr(header, "|u1") != NULL ? LT_U8 : LT_I64;
    const char *shape = strstr(header, "'shape': (");
    if ((dtype == LT_I64 && strstr(header, "<i8") == NULL) ||
        strstr(header, "'fortran_order': True") || shape == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "npz: only C-ordered u1 and i8 are read, not %s", header);
    int64_t dim[LT_MAX_DIMS];
    int rank = 0;
    for (const char *p = shape + 10; *p != ')' && *p != 0 && rank < LT_MAX_DIMS;) {
        char *end = NULL;
        dim[rank] = strtoll(p, &end, 10);
        if (end == p)
            break;
        rank++;
        p = end + strspn(end, ", ");
    }
    *out = lt_tensor_nd(dtype, rank, dim);
    out->data = npy + head + text;
    if (lt_tensor_bytes(out) != len - head - text)
        return LT_FAIL(LT_ERR_FORMAT, "npz: an entry has %llu bytes, its shape %zu",
                       (unsigned long long)(len - head - text), lt_tensor_bytes(out));
    return LT_OK;
}

/** One entry of the central directory at p, which has `left` bytes. */
static lt_status read_entry(lt_npz *z, const char *p, uint64_t left, uint64_t *used)
{
    if (left < CENTRAL_BYTES || le(p, 4) != 0x02014b50U || z->n == MAX_ENTRIES)
        return LT_FAIL(LT_ERR_FORMAT, "npz: bad central directory");
    const uint64_t method = le(p + 10, 2), packed = le(p + 20, 4), bytes = le(p + 24, 4),
                   at = le(p + 42, 4);
    const uint64_t name_len = le(p + 28, 2);
    *used = CENTRAL_BYTES + name_len + le(p + 30, 2) + le(p + 32, 2);
    if (*used > left || at + LOCAL_BYTES > z->file.len || name_len < 5 || name_len >= MAX_NAME)
        return LT_FAIL(LT_ERR_FORMAT, "npz: bad entry");
    array *a = &z->arrays[z->n++];
    memcpy(a->name, p + CENTRAL_BYTES, name_len - 4); // without .npy
    const char *local = z->file.data + at;
    const uint64_t data = at + LOCAL_BYTES + le(local + 26, 2) + le(local + 28, 2);
    if (data > z->file.len || packed > z->file.len - data || bytes > MAX_FILE ||
        (method == 0 && packed != bytes))
        return LT_FAIL(LT_ERR_FORMAT, "npz: entry %s lies outside the file", a->name);
    void *npy = NULL;
    LT_TRY(lt_arena_take(z->arena, (size_t)bytes + 64, &npy));
    if (method == 8)
        LT_TRY(inflate_raw(z->file.data + data, packed, npy, bytes));
    else
        memcpy(npy, z->file.data + data, (size_t)bytes);
    return parse_npy(npy, bytes, &a->tensor);
}

static lt_status read_all(lt_npz *z, const char *path)
{
    LT_TRY(lt_arena_create(&z->arena, path));
    LT_TRY(lt_file_read(path, MAX_FILE, &z->file));
    const uint64_t len = z->file.len;
    if (len < END_BYTES || le(z->file.data + len - END_BYTES, 4) != 0x06054b50U)
        return LT_FAIL(LT_ERR_FORMAT, "npz: no zip directory at the end");
    const char *end = z->file.data + len - END_BYTES;
    const uint64_t n = le(end + 10, 2), at = le(end + 16, 4);
    uint64_t used = 0, next = at;
    for (uint64_t i = 0; i < n; i++, next += used) {
        if (next > len)
            return LT_FAIL(LT_ERR_FORMAT, "npz: bad central directory");
        LT_TRY(read_entry(z, z->file.data + next, len - next, &used));
    }
    return LT_OK;
}

lt_status lt_npz_open(const char *path, lt_npz **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_npz), "npz"));
    lt_npz *z = memory;
    const lt_status st = read_all(z, path);
    if (st != LT_OK) {
        lt_error_note("%s", path);
        lt_npz_close(z);
        return st;
    }
    *out = z;
    return LT_OK;
}

void lt_npz_close(lt_npz *npz)
{
    if (npz == NULL)
        return;
    lt_arena_destroy(npz->arena);
    lt_buf_deinit(&npz->file);
    lt_mem_free(npz);
}

const lt_tensor *lt_npz_get(const lt_npz *npz, const char *name)
{
    for (int i = 0; i < npz->n; i++)
        if (strcmp(npz->arrays[i].name, name) == 0)
            return &npz->arrays[i].tensor;
    return NULL;
}
