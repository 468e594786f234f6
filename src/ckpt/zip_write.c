// SPDX-License-Identifier: Apache-2.0
// Writing stored zip archives as PyTorch does: data on 64-byte places, checksums behind it, so that
// nothing written is ever gone back to.
#include "ckpt/zip.h"
#include "ckpt/zip_format.h"
#include <stdio.h>
#include <string.h>

enum {
    FLAG_UTF8 = 0x0800,
    FLAG_DESCRIPTOR = 0x0008,
    PADDING_ID = 0x4246, // "FB"
};

static void put_number(uint8_t *to, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

// Bytes of the padding field, its four of head included.
static uint64_t padding(uint64_t header_at, size_t name)
{
    const uint64_t data = header_at + ZIP_LOCAL_BYTES + name + 4;
    return 4 + (ZIP_ALIGNMENT - data % ZIP_ALIGNMENT) % ZIP_ALIGNMENT;
}

static size_t full_name(char *to, size_t room, const char *top, const char *name)
{
    const int n = snprintf(to, room, "%s/%s", top, name);
    LT_ASSERT(n > 0 && (size_t)n < room);
    return (size_t)n;
}

int64_t lt_zip_bytes(const char *top, const char *const *names, const int64_t *sizes, int64_t n)
{
    uint64_t at = 0, directory = 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t name = strlen(top) + 1 + strlen(names[i]);
        at += ZIP_LOCAL_BYTES + name + padding(at, name);
        at += (uint64_t)sizes[i] + (sizes[i] > 0 ? ZIP_DESCRIPTOR_BYTES : 0);
        directory += ZIP_CENTRAL_BYTES + name;
    }
    return (int64_t)(at + directory + ZIP_END64_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES);
}

void lt_zip_begin(lt_zip_writer *z, lt_writer *to, const char *top)
{
    lt_buf_clear(&z->directory);
    z->to = to;
    z->top = top;
    z->at = 0;
    z->n = 0;
}

static lt_status put(lt_zip_writer *z, const void *bytes, size_t len)
{
    z->at += len;
    return lt_writer_put(z->to, bytes, len);
}

lt_status lt_zip_entry_begin(lt_zip_writer *z, const char *name, bool empty)
{
    uint8_t head[ZIP_LOCAL_BYTES] = {0}, field[4 + ZIP_ALIGNMENT];
    const size_t len = full_name(z->name, sizeof z->name, z->top, name);
    const uint64_t pad = padding(z->at, len);
    put_number(head, ZIP_LOCAL, 4);
    put_number(head + 6, FLAG_UTF8 | (empty ? 0 : FLAG_DESCRIPTOR), 2);
    put_number(head + 26, len, 2);
    put_number(head + 28, pad, 2);
    memset(field, 'Z', sizeof field);
    put_number(field, PADDING_ID, 2);
    put_number(field + 2, pad - 4, 2);
    z->entry_at = z->at;
    z->crc = 0;
    LT_TRY(put(z, head, sizeof head));
    LT_TRY(put(z, z->name, len));
    LT_TRY(put(z, field, (size_t)pad));
    z->data_at = z->at;
    return LT_OK;
}

lt_status lt_zip_put(lt_zip_writer *z, const void *bytes, size_t len)
{
    z->crc = zip_crc(z->crc, bytes, len);
    return put(z, bytes, len);
}

lt_status lt_zip_entry_end(lt_zip_writer *z)
{
    const uint64_t bytes = z->at - z->data_at;
    const size_t name = strlen(z->name);
    uint8_t tail[ZIP_DESCRIPTOR_BYTES], row[ZIP_CENTRAL_BYTES] = {0};
    if (z->at + ZIP_DESCRIPTOR_BYTES >= UINT32_MAX)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: an archive of 4 GiB isn't written", z->name);
    if (bytes > 0) {
        put_number(tail, ZIP_DESCRIPTOR, 4);
        put_number(tail + 4, z->crc, 4);
        put_number(tail + 8, bytes, 4);
        put_number(tail + 12, bytes, 4);
        LT_TRY(put(z, tail, sizeof tail));
    }
    put_number(row, ZIP_CENTRAL, 4);
    put_number(row + 8, FLAG_UTF8 | (bytes > 0 ? FLAG_DESCRIPTOR : 0), 2);
    put_number(row + 16, z->crc, 4);
    put_number(row + 20, bytes, 4);
    put_number(row + 24, bytes, 4);
    put_number(row + 28, name, 2);
    put_number(row + 42, z->entry_at, 4);
    z->n++;
    LT_TRY(lt_buf_append(&z->directory, row, sizeof row));
    return lt_buf_append(&z->directory, z->name, name);
}

lt_status lt_zip_add(lt_zip_writer *z, const char *name, const void *bytes, size_t len)
{
    LT_TRY(lt_zip_entry_begin(z, name, len == 0));
    LT_TRY(lt_zip_put(z, bytes, len));
    return lt_zip_entry_end(z);
}

lt_status lt_zip_end(lt_zip_writer *z)
{
    uint8_t end[ZIP_END64_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES] = {0};
    uint8_t *locator = end + ZIP_END64_BYTES, *last = locator + ZIP_LOCATOR_BYTES;
    const uint64_t directory = z->at, n = (uint64_t)z->n, bytes = z->directory.len;
    put_number(end, ZIP_END64, 4);
    put_number(end + 4, ZIP_END64_BYTES - 12, 8);
    put_number(end + 12, 0x031e, 2);
    put_number(end + 14, 45, 2);
    put_number(end + 24, n, 8);
    put_number(end + 32, n, 8);
    put_number(end + 40, bytes, 8);
    put_number(end + 48, directory, 8);
    put_number(locator, ZIP_LOCATOR, 4);
    put_number(locator + 8, directory + bytes, 8);
    put_number(locator + 16, 1, 4);
    put_number(last, ZIP_END, 4);
    put_number(last + 8, n, 2);
    put_number(last + 10, n, 2);
    put_number(last + 12, bytes, 4);
    put_number(last + 16, directory, 4);
    LT_TRY(put(z, z->directory.data, z->directory.len));
    return put(z, end, sizeof end);
}

void lt_zip_abandon(lt_zip_writer *z)
{
    lt_buf_deinit(&z->directory);
}
