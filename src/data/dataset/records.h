// SPDX-License-Identifier: Apache-2.0
// The records of JSON and JSONL files: found by one scan of the mapped bytes, parsed one by one
// when asked for.
#ifndef LT_DATA_DATASET_RECORDS_H
#define LT_DATA_DATASET_RECORDS_H

#include "base/memory.h"
#include <jansson.h>

typedef struct lt_records lt_records;

/** Where a record stands, as messages print it. */
typedef struct lt_record_place {
    const char *file; /* as given; lives as long as the lt_records */
    int64_t record;   /* its number in that file, from 1 */
    int64_t line;     /* of its first byte, from 1 */
} lt_record_place;

/**
 * Map the files and find their records, in the order given. A file is one array of objects, or one
 * object on each line (blank lines don't count); its suffix doesn't matter.
 *
 * in       max_records: keep the first so many of all files together; 0: all
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO; LT_ERR_FORMAT as "file:line: ..." for what is neither form,
 *          an array or record that is not closed, something else than an object
 */
LT_NODISCARD lt_status lt_records_open(const char *const *files, int64_t n_files,
                                       int64_t max_records, lt_records **out);
/** The same for one file's text in memory, which is kept. */
LT_NODISCARD lt_status lt_records_scan(const char *text, size_t len, const char *name,
                                       lt_records **out);
void lt_records_close(lt_records *r);

/** How many are kept, and how many the files hold. */
int64_t lt_records_count(const lt_records *r);
int64_t lt_records_total(const lt_records *r);
lt_record_place lt_records_place(const lt_records *r, int64_t i);
/**
 * Record i as a JSON object, to be given back with json_decref.
 * errors   LT_ERR_FORMAT: "file:line: record N: ..."
 * threads  any number at once
 */
LT_NODISCARD lt_status lt_records_parse(const lt_records *r, int64_t i, json_t **out);
/** Records [from, to) will not be parsed for a while: their text need not stay in memory. */
void lt_records_forget(const lt_records *r, int64_t from, int64_t to);
/** Put "file:line: record N: " in front of the thread's message. */
void lt_record_note(lt_record_place place);
#endif
