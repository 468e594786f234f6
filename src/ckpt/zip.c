// SPDX-License-Identifier: Apache-2.0
// Reading stored zip archives in place. The bytes come from strangers.
#include "ckpt/zip.h"
#include "ckpt/zip_format.h"
#include <string.h>
#include <zlib.h>

enum {
    MAX_NAME_BYTES = 1024,
    MAX_ENTRIES = 1 << 24,
};

typedef struct reader {
    const uint8_t *bytes;
    uint64_t len;
    const char *where;
} reader;

static lt_status bad(const reader *r, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s: its archive is malformed: %s", r->where, what);
}

// n bytes at `at`, or NULL.
static const uint8_t *at(const reader *r, uint64_t from, uint64_t n)
{
    return from <= r->len && n <= r->len - from ? r->bytes + from : NULL;
}

// Where the directory is and what it holds.
typedef struct directory {
    uint64_t at, bytes, n;
} directory;

static lt_status find_directory64(const reader *r, uint64_t end, directory *d)
{
    const uint8_t *locator = end >= ZIP_LOCATOR_BYTES ? at(r, end - ZIP_LOCATOR_BYTES, 20) : NULL;
    if (!locator || zip_get(locator, 4) != ZIP_LOCATOR)
        return bad(r, "its end record points to a zip64 record that isn't there");
    const uint8_t *record = at(r, zip_get(locator + 8, 8), ZIP_END64_BYTES);
    if (!record || zip_get(record, 4) != ZIP_END64)
        return bad(r, "its zip64 end record isn't where it should be");
    *d = (directory){zip_get(record + 48, 8), zip_get(record + 40, 8), zip_get(record + 32, 8)};
    return LT_OK;
}

static lt_status find_directory(const reader *r, directory *d)
{
    if (r->len < ZIP_END_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: cut short: %llu bytes are no archive", r->where,
                       (unsigned long long)r->len);
    const uint64_t end = r->len - ZIP_END_BYTES;
    const uint8_t *p = r->bytes + end;
    if (zip_get(p, 4) != ZIP_END || zip_get(p + 20, 2) != 0) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: cut short, or no archive: its last 22 bytes are no end record",
                       r->where);
    }
    *d = (directory){zip_get(p + 16, 4), zip_get(p + 12, 4), zip_get(p + 10, 2)};
    if (d->at == UINT32_MAX || d->bytes == UINT32_MAX || d->n == UINT16_MAX)
        LT_TRY(find_directory64(r, end, d));
    if (!at(r, d->at, d->bytes) || d->at + d->bytes > end)
        return bad(r, "its directory lies outside of it");
    if (d->n > MAX_ENTRIES || d->n > d->bytes / ZIP_CENTRAL_BYTES)
        return bad(r, "its directory is too short for its entries");
    return LT_OK;
}

// The values that are FFFFFFFF in the header proper stand in the extra field 0x0001, in this order.
static lt_status wide_values(const reader *r, const uint8_t *extra, uint64_t len,
                             uint64_t *const values[3])
{
    uint64_t i = 0;
    while (i + 4 <= len) {
        const uint64_t id = zip_get(extra + i, 2), n = zip_get(extra + i + 2, 2);
        i += 4;
        if (n > len - i)
            return bad(r, "an extra field is longer than its header");
        uint64_t k = 0;
        for (int v = 0; id == 1 && v < 3; v++) {
            if (*values[v] != UINT32_MAX)
                continue;
            if (n - k < 8)
                return bad(r, "a zip64 field is too short");
            *values[v] = zip_get(extra + i + k, 8);
            k += 8;
        }
        i += n;
    }
    return LT_OK;
}

// The data of an entry begins behind its local header, whose extra field is its own.
static lt_status find_data(const reader *r, uint64_t header, uint64_t directory_at, lt_zip_entry *e,
                           size_t name_len)
{
    const uint8_t *p = at(r, header, ZIP_LOCAL_BYTES);
    if (!p || zip_get(p, 4) != ZIP_LOCAL)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its archive is malformed: %s has no header", r->where,
                       e->name);
    const uint64_t name = zip_get(p + 26, 2), extra = zip_get(p + 28, 2);
    const uint64_t data = header + ZIP_LOCAL_BYTES + name + extra;
    const uint8_t *text = at(r, header + ZIP_LOCAL_BYTES, name);
    if (!text || name != name_len || memcmp(text, e->name, name_len) != 0) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: its archive is malformed: %s has another name in front "
                       "of its data",
                       r->where, e->name);
    }
    if (data > directory_at || e->bytes > directory_at - data)
        return LT_FAIL(LT_ERR_FORMAT, "%s: cut short: %s has %llu bytes, which aren't there",
                       r->where, e->name, (unsigned long long)e->bytes);
    e->data = r->bytes + data;
    return LT_OK;
}

static lt_status read_entry(const reader *r, const directory *d, uint64_t *from, lt_arena *arena,
                            lt_zip_entry *e)
{
    const uint64_t end = d->at + d->bytes;
    const uint8_t *p = at(r, *from, ZIP_CENTRAL_BYTES);
    if (!p || *from + ZIP_CENTRAL_BYTES > end || zip_get(p, 4) != ZIP_CENTRAL)
        return bad(r, "its directory has no entry where one should be");
    const uint64_t name = zip_get(p + 28, 2), extra = zip_get(p + 30, 2),
                   comment = zip_get(p + 32, 2);
    if (name + extra + comment > end - *from - ZIP_CENTRAL_BYTES)
        return bad(r, "an entry is longer than its directory");
    uint64_t packed = zip_get(p + 20, 4), bytes = zip_get(p + 24, 4), header = zip_get(p + 42, 4);
    const uint8_t *text = p + ZIP_CENTRAL_BYTES;
    char *copy;
    if (name == 0 || name > MAX_NAME_BYTES || memchr(text, 0, name))
        return bad(r, "an entry has no usable name");
    LT_TRY(lt_arena_text(arena, (const char *)text, name, &copy));
    LT_TRY(wide_values(r, text + name, extra, (uint64_t *const[]){&bytes, &packed, &header}));
    *e = (lt_zip_entry){.name = copy, .bytes = bytes, .crc = (uint32_t)zip_get(p + 16, 4)};
    if (zip_get(p + 10, 2) != 0 || packed != bytes || (zip_get(p + 8, 2) & 1) != 0)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its entry %s is compressed or encrypted", r->where,
                       e->name);
    *from += ZIP_CENTRAL_BYTES + name + extra + comment;
    return find_data(r, header, d->at, e, name);
}

static lt_status read_entries(const reader *r, const directory *d, lt_arena *arena, lt_zip *zip)
{
    lt_map *known;
    uint64_t from = d->at;
    LT_TRY(lt_map_create(&known));
    lt_status st = LT_OK;
    for (int64_t i = 0; st == LT_OK && i < zip->n; i++) {
        int64_t other;
        st = read_entry(r, d, &from, arena, &zip->entries[i]);
        if (st == LT_OK && lt_map_get_text(known, zip->entries[i].name, &other))
            st = LT_FAIL(LT_ERR_FORMAT, "%s: its archive has %s twice", r->where,
                         zip->entries[i].name);
        if (st == LT_OK)
            st = lt_map_put_text(known, zip->entries[i].name, i);
    }
    lt_map_destroy(known);
    return st;
}

lt_status lt_zip_parse(const uint8_t *bytes, size_t len, const char *where, lt_arena *arena,
                       lt_zip *out)
{
    const reader r = {bytes, len, where};
    directory d;
    void *memory;
    lt_zip zip = {.where = where};
    LT_TRY(find_directory(&r, &d));
    if (d.n == 0)
        return bad(&r, "it is empty");
    LT_TRY(lt_arena_take(arena, (size_t)d.n * sizeof(lt_zip_entry), &memory));
    zip.entries = memory;
    zip.n = (int64_t)d.n;
    LT_TRY(read_entries(&r, &d, arena, &zip));
    const char *slash = strchr(zip.entries[0].name, '/');
    zip.top = slash ? (size_t)(slash - zip.entries[0].name) + 1 : 0;
    *out = zip;
    return LT_OK;
}

const lt_zip_entry *lt_zip_find(const lt_zip *zip, const char *name)
{
    const char *top = zip->entries[0].name;
    for (int64_t i = 0; i < zip->n; i++) {
        const char *own = zip->entries[i].name;
        if (strncmp(own, top, zip->top) == 0 && strcmp(own + zip->top, name) == 0)
            return &zip->entries[i];
    }
    return NULL;
}

lt_status lt_zip_check(const lt_zip *zip, const lt_zip_entry *entry)
{
    const uint32_t crc = zip_crc(0, entry->data, entry->bytes);
    if (crc == entry->crc)
        return LT_OK;
    return LT_FAIL(
        LT_ERR_FORMAT, "%s: its %s is damaged: its checksum is %08x, and the archive says %08x",
        zip->where, entry->name + (zip->top < strlen(entry->name) ? zip->top : 0), crc, entry->crc);
}
