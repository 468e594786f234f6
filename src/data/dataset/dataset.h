// SPDX-License-Identifier: Apache-2.0
// A data set: files of records, checked when opened, encoded row by row when asked for.
#ifndef LT_DATA_DATASET_DATASET_H
#define LT_DATA_DATASET_DATASET_H

#include "base/log.h"
#include "base/pool.h"
#include "data/dataset/encode.h"

typedef struct lt_dataset_opts {
    const char *const *files; /* in this order; relative to the working directory */
    int64_t n_files;
    int64_t max_samples; /* the first so many records, dropped ones counted; 0: all */
    lt_attr attr;
    lt_encode_opts encode;
} lt_dataset_opts;
/** The defaults of attr and encode, no files. */
lt_dataset_opts lt_dataset_opts_default(void);

typedef struct lt_dataset lt_dataset;
/**
 * Read every record once: what ends a run is found here, before training; what the reference drops
 * (roles that don't alternate, no answer) is dropped, with a warning for the first few and their
 * number at the end.
 *
 * in       pool: shares the work, may be NULL; log: may be NULL
 * keeps    what opts points to, but for the list of files
 * errors   of lt_records_open, lt_convert_record, lt_encode_check, always those of the first bad
 *          record; LT_ERR_DATA when no record is left; LT_ERR_CONFIG for a column that attr names
 *          and no record has
 */
LT_NODISCARD lt_status lt_dataset_open(const lt_dataset_opts *opts, lt_pool *pool,
                                       const lt_log *log, lt_dataset **out);
void lt_dataset_close(lt_dataset *d);

/** Rows: the records that were not dropped. N of the sampler. */
int64_t lt_dataset_rows(const lt_dataset *d);
/** How many records were dropped. */
int64_t lt_dataset_dropped(const lt_dataset *d);
lt_record_place lt_dataset_place(const lt_dataset *d, int64_t row);
const lt_encoder *lt_dataset_encoder(const lt_dataset *d);

/** Row `row` as turns. Memory is the arena's. threads: any number at once */
LT_NODISCARD lt_status lt_dataset_conversation(const lt_dataset *d, int64_t row, lt_arena *arena,
                                               lt_conversation *out);
/**
 * Row `row` as a sample; `dataset` is an lt_dataset. Fits lt_loader_opts.encode.
 * errors   of lt_encode
 * threads  any number at once, each with its own arena
 */
LT_NODISCARD lt_status lt_dataset_encode(void *dataset, int64_t row, lt_arena *arena,
                                         lt_sample *out);

/** What encoding has met since the data set was opened; a row encoded twice counts twice. */
typedef struct lt_dataset_counts {
    int64_t encoded, tokens; /* samples, and their tokens after cutting */
    int64_t cut;             /* samples longer than cutoff_len */
    int64_t cut_images, lost_images;
} lt_dataset_counts;
lt_dataset_counts lt_dataset_counted(const lt_dataset *d);
#endif
