// SPDX-License-Identifier: Apache-2.0
// Whole runs: the program lathe as a child process, and what it left behind.
#ifndef LT_TESTS_KIT_RUN_KIT_H
#define LT_TESTS_KIT_RUN_KIT_H

#include "tests/kit/lt_test.h"

/** What to do to a program while it runs. Zeros: nothing. */
typedef struct lt_run_opts {
    int signal;         /* sent once, when one of the next two comes true */
    const char *until;  /* this text stands in what the program has printed */
    double after_s;     /* so many seconds have passed since the start */
    int64_t file_bytes; /* no file that it writes may become longer: a disk that fills up */
    int ranks;          /* so many processes, by mpirun (lt_run_has_mpirun) */
    /* A shell's command for the last rank, instead: $0 is lathe, $@ its arguments. */
    const char *last_rank;
} lt_run_opts;

typedef struct lt_run_result {
    int exit_code;     /* -1: a signal ended it */
    const char *out;   /* standard output */
    const char *err;   /* standard error */
    double seconds;    /* from start to end */
    int64_t anonymous; /* bytes of anonymous memory at its peak, sampled every millisecond or so */
} lt_run_result;

/**
 * Run `lathe ARGS` (ended by NULL) in the folder `dir` and wait for it; a minute at most, then the
 * test fails. It is a user's: no terminal, no CUDA.
 */
lt_run_result lt_run(void *state, const char *dir, const lt_run_opts *opts,
                     const char *const *args);
/** lt_lathe(*state, dir, "train", "train.yaml", "training.lr=1") */
#define lt_lathe(state, dir, ...)                                                                  \
    lt_run((state), (dir), &(const lt_run_opts){0}, (const char *const[]){__VA_ARGS__, NULL})

/** It ended with that code; else both its outputs are shown. */
#define assert_exit(result, code) lt_run_exit(&(result), (code), __FILE__, __LINE__)
void lt_run_exit(const lt_run_result *r, int code, const char *file, int line);

/**
 * A number of one step in metrics.jsonl: lt_run_metric(text, 3, "loss"). Fails the test when it is
 * not there; NaN for null.
 */
double lt_run_metric(const char *metrics, int64_t iteration, const char *key);
/** The text of DIR/metrics.jsonl. */
const char *lt_run_metrics(void *state, const char *dir);

/** Both hold the same bytes. */
void lt_run_same_file(void *state, const char *a, const char *b);
/** Both folders, and those in them, hold the same files with the same bytes. */
void lt_run_same_folder(void *state, const char *a, const char *b);
/**
 * Two runs in dir A and dir B went the same way from step `first` to `last`: loss, gradient norm,
 * learning rate and counts of every step, as metrics.jsonl has them.
 */
void lt_run_same_steps(void *state, const char *a, const char *b, int64_t first, int64_t last);

/** Whether the build has found an mpirun to start several ranks with. */
bool lt_run_has_mpirun(void);
/** Whether this test program, and so the lathe beside it, has a sanitizer's memory in it. */
bool lt_run_sanitized(void);
#endif
