// SPDX-License-Identifier: Apache-2.0
// Looking at every record of a data set as training would: what is wrong with which, and the sums.
#ifndef LT_TRAIN_CHECK_H
#define LT_TRAIN_CHECK_H

#include "train/source.h"

/** A record that training cannot use. */
typedef struct lt_check_fault {
    int64_t index; /* among all records, from 0 */
    lt_record_place place;
    bool left_out;       /* training goes on without it; else it ends there */
    const char *message; /* "FILE:LINE: record N: what is wrong, and how to mend it" */
    const char *kind;    /* faults of one kind have the same words here */
} lt_check_fault;

typedef struct lt_check_report {
    int64_t n_records, n_usable, n_left_out, n_stopping;
    int64_t tokens, labels;        /* of usable records, after cutting; labels: trained tokens */
    int64_t images, visual_tokens; /* images: those whose tokens are left */
    int64_t cut, lost_images;      /* records longer than cutoff_len; images lost to it */
    int64_t n_rows, row_len;       /* with packing: packed rows, and the tokens that fit into one */
    int64_t shortest, longest, middle; /* lengths in tokens */
    int64_t large_boxes; /* records with a box value above 1000, the scale of Qwen's newer models */
    int64_t no_labels;   /* usable records with nothing to train on */
    lt_vec faults;       /* lt_check_fault, in the order of the records */
    int32_t *lengths;    /* [n_records]; 0: not usable */
    const char *columns; /* a column that no record has, as a sentence; NULL: none */
    double seconds;
    lt_arena *arena;
} lt_check_report;

typedef struct lt_check_opts {
    bool skip_bad; /* lathe.on_bad_record: skip */
    bool stop_bad; /* lathe.on_bad_record: stop */
    /** Now and then, from any thread, one call at a time. May be NULL. */
    void (*progress)(void *ctx, int64_t done, int64_t all, int64_t n_faults);
    void *ctx;
} lt_check_opts;

/**
 * Parse, convert, encode and collate each record by itself, pictures included.
 * in       source: opened with all_records
 * errors   of memory and devices; what is wrong with records is in the report
 */
LT_NODISCARD lt_status lt_check(lt_source *source, lt_pool *pool, const lt_check_opts *opts,
                                lt_check_report *out);
void lt_check_deinit(lt_check_report *r);

/**
 * Faults line by line, then sums and a histogram of lengths as text.
 * in       most: so many faults of each kind are named, the rest counted
 */
LT_NODISCARD lt_status lt_check_print(const lt_check_report *r, int64_t most, lt_buf *out);
/** The same as a JSON object on one line. `name` says which set. */
LT_NODISCARD lt_status lt_check_json(const lt_check_report *r, const char *name, lt_buf *out);

/**
 * One record, tokens separated by thin bars, what is trained in green (or between brackets), runs
 * of placeholders as one, and the way of each image to its tokens.
 * in       index: among all records, from 0
 * errors   of the record, as training would meet them
 */
LT_NODISCARD lt_status lt_check_show(lt_source *source, int64_t index, bool colour, lt_buf *out);
#endif
