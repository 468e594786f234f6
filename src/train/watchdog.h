// SPDX-License-Identifier: Apache-2.0
// A thread that says what the run is at when nothing has moved for long: a hang becomes a line.
#ifndef LT_TRAIN_WATCHDOG_H
#define LT_TRAIN_WATCHDOG_H

#include "base/log.h"

typedef struct lt_watchdog_opts {
    double patience_s; /* the shortest silence that is worth a line */
    const char *who;   /* "rank 2 of 4"; each rank has a watchdog of its own. NULL: one rank */
    /* What the executor does now, a static text; asked in a stage without a name. */
    const char *(*now)(const void *ctx);
    const void *ctx;
    const lt_log *log; /* used from the watchdog's thread */
} lt_watchdog_opts;

typedef struct lt_watchdog lt_watchdog;
/**
 * Start watching. A silence is longer than patience_s and than ten times the longest stage so far;
 * it is reported again each time it has doubled.
 * keeps    ctx, log
 * errors   LT_ERR_MEMORY, LT_ERR_IO: no thread can be started
 */
LT_NODISCARD lt_status lt_watchdog_create(const lt_watchdog_opts *opts, lt_watchdog **out);
/** Accepts NULL. */
void lt_watchdog_destroy(lt_watchdog *w);
/**
 * The run goes on to a stage of step `step`. stage: a static text ("waiting for data"); NULL: the
 * step itself, which the executor knows more of. Accepts a NULL watchdog.
 */
void lt_watchdog_stage(lt_watchdog *w, int64_t step, const char *stage);
#endif
