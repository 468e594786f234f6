// SPDX-License-Identifier: Apache-2.0
// Formats a log line and hands it to the callback; the clock.
#include "base/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { LINE_BYTES = 8192 }; // longer lines are cut

void lt_log_write(const lt_log *log, lt_log_level level, const char *area, const char *fmt, ...)
{
    if (!log || !log->fn)
        return;
    char text[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log->fn(log->ctx, level, area, text);
}

double lt_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
