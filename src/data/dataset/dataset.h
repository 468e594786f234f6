// SPDX-License-Identifier: Apache-2.0
// A data set: files of records, checked when opened, encoded row by row when asked for.
#ifndef LT_DATA_DATASET_DATASET_H
#define LT_DATA_DATASET_DATASET_H

#include "base/log.h"
#include "base/pool.h"
#include "data/dataset/encode.h"

/** lathe.on_bad_record. */
typedef enum lt_bad_records {
    LT_BAD_AS_REFERENCE, /* wrong order of roles, no answer: left out; all else: an error */
    LT_BAD_STOP,         /* each is an error */
    LT_BAD_SKIP,         /* each is left out */
    LT_BAD_KEEP          /* nothing is looked at when the set is opened: rows are all records */
} lt_bad_records;

typedef struct lt_dataset_opts {
    const char *const *files; /* in this order; relative to the working directory */
    int64_t n_files;
    int64_t max_samples; /* the first so many records, dropped ones counted; 0: all */
    lt_bad_records on_bad;
    bool packing;        /* a row is as many samples as fit into cutoff_len - 1 tokens */
    int64_t pack_batch;  /* records that are packed together: preprocessing_batch_size */
    int64_t pack_shares; /* contiguous shares before that: preprocessing_num_workers, at least 1 */
    /**
     * stage: pretrain. A row is a record's text with its end; with packing, texts of a group lie
     * end to end and a row is a block of cutoff_len tokens, the rest of the group is left over.
     */
    bool pretrain;
    lt_habits habits; /* also of attr */
    lt_attr attr;
    lt_encode_opts encode;
} lt_dataset_opts;
/** The defaults of attr and encode, no files, no packing (1000 records of 1 share). */
lt_dataset_opts lt_dataset_opts_default(void);

typedef struct lt_dataset lt_dataset;
/**
 * Read every record once: what ends a run is found here, before training; what the reference drops
 * (roles that don't alternate, no answer) is dropped, with a warning for the first few and their
 * number at the end. With packing every record is encoded as well, to know its length.
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

/** The records that were not dropped. */
int64_t lt_dataset_samples(const lt_dataset *d);
/** Rows of the sampler: the samples, or with packing the packed rows or blocks, once there are. */
int64_t lt_dataset_rows(const lt_dataset *d);
/** With packing: the tokens that fit into a row; else 0. */
int64_t lt_dataset_row_len(const lt_dataset *d);
/** How many records were dropped. */
int64_t lt_dataset_dropped(const lt_dataset *d);
lt_record_place lt_dataset_place(const lt_dataset *d, int64_t sample);
const lt_encoder *lt_dataset_encoder(const lt_dataset *d);

/** A sample as turns. Memory is the arena's. threads: any number at once */
LT_NODISCARD lt_status lt_dataset_conversation(const lt_dataset *d, int64_t sample, lt_arena *arena,
                                               lt_conversation *out);
/**
 * errors   of lt_encode
 * threads  any number at once, each with its own arena
 */
LT_NODISCARD lt_status lt_dataset_encode(lt_dataset *d, int64_t sample, lt_arena *arena,
                                         lt_sample *out);
/**
 * The samples of a row, lt_sample, appended to `samples`; `dataset` is an lt_dataset. Fits
 * lt_loader_opts.encode.
 * errors   of lt_encode
 * threads  any number at once, each with its own arena
 */
LT_NODISCARD lt_status lt_dataset_encode_row(void *dataset, int64_t row, lt_arena *arena,
                                             lt_vec *samples);
/**
 * With packing: rows from the samples' lengths [lt_dataset_samples] (0: of no use), where
 * lt_dataset_open did not make them (LT_BAD_KEEP).
 */
LT_NODISCARD lt_status lt_dataset_pack(lt_dataset *d, const int64_t *lengths);
/**
 * LT_ERR_CONFIG for a column that attr names and no record has: `seen` is all records'
 * lt_conversation.seen.
 */
LT_NODISCARD lt_status lt_dataset_check_columns(const lt_dataset *d, unsigned seen);
/** Is it a fault of a record, not of the machine or of lathe? */
bool lt_is_bad_record(lt_status st);

/** What encoding has met since the data set was opened; a row encoded twice counts twice. */
typedef struct lt_dataset_counts {
    int64_t encoded, tokens; /* samples, and their tokens after cutting */
    int64_t cut;             /* samples longer than cutoff_len */
    int64_t cut_images, lost_images;
} lt_dataset_counts;
lt_dataset_counts lt_dataset_counted(const lt_dataset *d);
#endif
