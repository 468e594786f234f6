// SPDX-License-Identifier: Apache-2.0
// A file of events is a sequence of records: length, its checksum, a protobuf message, its
// checksum.
// source   TensorFlow's record_writer.h, event.proto (Event: 1 wall_time, 2 step, 3 file_version,
//          5 summary) and summary.proto (Summary: 1 value; Value: 1 tag, 2 simple_value)
#include "train/events.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lt_events {
    FILE *file;
    char path[1400];
    uint32_t table[256];
};

static void fill_table(uint32_t *table)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1U ? 0x82f63b78U ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
}

static uint32_t crc(const uint32_t *table, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t c = 0xffffffffU;
    for (size_t i = 0; i < n; i++)
        c = table[(c ^ p[i]) & 0xffU] ^ (c >> 8);
    return c ^ 0xffffffffU;
}

uint32_t lt_crc32c(const void *bytes, size_t n)
{
    uint32_t table[256];
    fill_table(table);
    return crc(table, bytes, n);
}

/* ---- protobuf ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static lt_status put_varint(lt_buf *b, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (unsigned char)(v & 0x7fU);
        v >>= 7;
        bytes[n] |= (unsigned char)(v ? 0x80U : 0U);
        n++;
    } while (v);
    return lt_buf_append(b, bytes, n);
}

static lt_status put_key(lt_buf *b, uint64_t field, uint64_t kind)
{
    return put_varint(b, field << 3 | kind);
}

static lt_status put_bytes(lt_buf *b, uint64_t field, const void *bytes, size_t n)
{
    LT_TRY(put_key(b, field, BYTES));
    LT_TRY(put_varint(b, n));
    return lt_buf_append(b, bytes, n);
}

// The machines that lathe runs on are little-endian, and so is the format.
static lt_status put_fixed(lt_buf *b, uint64_t field, const void *value, size_t bytes)
{
    LT_TRY(put_key(b, field, bytes == 8 ? FIXED64 : FIXED32));
    return lt_buf_append(b, value, bytes);
}

static lt_status put_summary(lt_buf *event, const lt_event_scalar *scalars, int64_t n)
{
    lt_buf summary = {0}, value = {0};
    lt_status st = LT_OK;
    for (int64_t i = 0; st == LT_OK && i < n; i++) {
        const float v = (float)scalars[i].value;
        if (!isfinite(scalars[i].value))
            continue;
        lt_buf_clear(&value);
        st = put_bytes(&value, 1, scalars[i].tag, strlen(scalars[i].tag));
        if (st == LT_OK)
            st = put_fixed(&value, 2, &v, sizeof v);
        if (st == LT_OK)
            st = put_bytes(&summary, 1, value.data, value.len);
    }
    if (st == LT_OK && summary.len > 0)
        st = put_bytes(event, 5, summary.data, summary.len);
    lt_buf_deinit(&value);
    lt_buf_deinit(&summary);
    return st;
}

/* ---- records ---- */

static uint32_t masked(const lt_events *e, const void *bytes, size_t n)
{
    const uint32_t c = crc(e->table, bytes, n);
    return ((c >> 15) | (c << 17)) + 0xa282ead8U;
}

static lt_status put_record(lt_events *e, const lt_buf *event)
{
    const uint64_t length = event->len;
    const uint32_t head = masked(e, &length, sizeof length),
                   body = masked(e, event->data, event->len);
    (void)fwrite(&length, sizeof length, 1, e->file);
    (void)fwrite(&head, sizeof head, 1, e->file);
    (void)fwrite(event->data, 1, event->len, e->file);
    (void)fwrite(&body, sizeof body, 1, e->file);
    if (fflush(e->file) != 0 || ferror(e->file))
        return LT_FAIL(LT_ERR_IO, "%s: cannot write an event: the disk may be full", e->path);
    return LT_OK;
}

static lt_status put_version(lt_events *e)
{
    static const char version[] = "brain.Event:2";
    const double now = (double)time(NULL);
    lt_buf event = {0};
    lt_status st = put_fixed(&event, 1, &now, sizeof now);
    if (st == LT_OK)
        st = put_bytes(&event, 3, version, sizeof version - 1);
    if (st == LT_OK)
        st = put_record(e, &event);
    lt_buf_deinit(&event);
    return st;
}

static lt_status open_file(lt_events *e, const char *dir)
{
    char host[128] = "";
    LT_TRY(lt_dir_make(dir));
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        (void)snprintf(host, sizeof host, "localhost");
    const int n = snprintf(e->path, sizeof e->path, "%s/events.out.tfevents.%lld.%s.%ld", dir,
                           (long long)time(NULL), host, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof e->path)
        return LT_FAIL(LT_ERR_IO, "%s: the path is too long for a file of events", dir);
    e->file = fopen(e->path, "wb");
    if (!e->file)
        return LT_FAIL(LT_ERR_IO, "cannot open %s for writing", e->path);
    fill_table(e->table);
    return put_version(e);
}

lt_status lt_events_open(const char *dir, lt_events **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_events), "a file of events"));
    lt_events *e = memory;
    const lt_status st = open_file(e, dir);
    if (st == LT_OK) {
        *out = e;
        return LT_OK;
    }
    if (e->file)
        (void)fclose(e->file);
    lt_mem_free(e);
    return st;
}

lt_status lt_events_put(lt_events *e, double unix_seconds, int64_t step,
                        const lt_event_scalar *scalars, int64_t n)
{
    lt_buf event = {0};
    lt_status st = put_fixed(&event, 1, &unix_seconds, sizeof unix_seconds);
    if (st == LT_OK)
        st = put_key(&event, 2, VARINT);
    if (st == LT_OK)
        st = put_varint(&event, (uint64_t)step);
    if (st == LT_OK)
        st = put_summary(&event, scalars, n);
    if (st == LT_OK)
        st = put_record(e, &event);
    lt_buf_deinit(&event);
    return st;
}

lt_status lt_events_close(lt_events *e)
{
    if (!e)
        return LT_OK;
    const lt_status st =
        fclose(e->file) == 0 ? LT_OK : LT_FAIL(LT_ERR_IO, "%s: cannot finish writing", e->path);
    lt_mem_free(e);
    return st;
}
