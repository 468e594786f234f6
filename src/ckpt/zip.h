// SPDX-License-Identifier: Apache-2.0
// Stored zip archives, as PyTorch writes them: reading in place, and writing entry by entry.
#ifndef LT_CKPT_ZIP_H
#define LT_CKPT_ZIP_H

#include "base/file.h"

typedef struct lt_zip_entry {
    const char *name; /* with its folders: "archive/data.pkl" */
    const uint8_t *data;
    uint64_t bytes;
    uint32_t crc;
} lt_zip_entry;

typedef struct lt_zip {
    const char *where;
    size_t top; /* length of the first entry's folder, with its slash */
    lt_zip_entry *entries;
    int64_t n;
} lt_zip;

/**
 * Find the entries of an archive that lies in memory. Nothing of their data is read. `where`, which
 * has to last, is for messages.
 *
 * source   PKWARE APPNOTE 6.3.9; PyTorch, caffe2/serialize/inline_container.cc
 * out      entries in the arena, data in `bytes`
 * errors   LT_ERR_FORMAT: no end record, compressed entries, headers that disagree, ranges outside
 *          the archive, a name twice
 */
LT_NODISCARD lt_status lt_zip_parse(const uint8_t *bytes, size_t len, const char *where,
                                    lt_arena *arena, lt_zip *out);
/** The entry of that name below the archive's top folder; NULL: none. */
const lt_zip_entry *lt_zip_find(const lt_zip *zip, const char *name);
/** errors  LT_ERR_FORMAT when the data has another checksum than the archive says */
LT_NODISCARD lt_status lt_zip_check(const lt_zip *zip, const lt_zip_entry *entry);

/** An archive being written: it starts where the writer stands. */
typedef struct lt_zip_writer {
    lt_writer *to;
    const char *top; /* "archive" */
    uint64_t at;     /* bytes since the archive's start */
    uint64_t entry_at, data_at;
    uint32_t crc;
    int64_t n;
    lt_buf directory;
    char name[128]; /* of the entry that is open */
} lt_zip_writer;

/** Bytes of an archive with such entries. sizes: of their data */
int64_t lt_zip_bytes(const char *top, const char *const *names, const int64_t *sizes, int64_t n);

/** zero it first; `to` is borrowed. Entries are begun, filled and ended one after the other. */
void lt_zip_begin(lt_zip_writer *z, lt_writer *to, const char *top);
LT_NODISCARD lt_status lt_zip_entry_begin(lt_zip_writer *z, const char *name, bool empty);
LT_NODISCARD lt_status lt_zip_put(lt_zip_writer *z, const void *bytes, size_t len);
/** errors  LT_ERR_UNSUPPORTED for an entry of 4 GiB and more, or an archive as long */
LT_NODISCARD lt_status lt_zip_entry_end(lt_zip_writer *z);
/** begin, put, end */
LT_NODISCARD lt_status lt_zip_add(lt_zip_writer *z, const char *name, const void *bytes,
                                  size_t len);
/** The directory. Another archive may be begun after it. */
LT_NODISCARD lt_status lt_zip_end(lt_zip_writer *z);
void lt_zip_abandon(lt_zip_writer *z); /* releases what it holds, not `to` */
#endif
