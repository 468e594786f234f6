// SPDX-License-Identifier: Apache-2.0
// Log lines go to a callback: level, area, text. The library itself never prints.
#ifndef LT_BASE_LOG_H
#define LT_BASE_LOG_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lt_log_level { LT_LOG_DEBUG, LT_LOG_INFO, LT_LOG_NOTE, LT_LOG_WARN } lt_log_level;

/** Passed down by pointer; a NULL log, or a NULL fn, is silence. Must outlive whoever keeps it. */
typedef struct lt_log {
    void (*fn)(void *ctx, lt_log_level level, const char *area, const char *text);
    void *ctx;
} lt_log;
void lt_log_write(const lt_log *log, lt_log_level level, const char *area, const char *fmt, ...)
    LT_PRINTF(4, 5);
#define LT_INFO(log, area, ...) lt_log_write((log), LT_LOG_INFO, (area), __VA_ARGS__)
#define LT_NOTE(log, area, ...) lt_log_write((log), LT_LOG_NOTE, (area), __VA_ARGS__)
#define LT_WARN(log, area, ...) lt_log_write((log), LT_LOG_WARN, (area), __VA_ARGS__)

/** Seconds of a clock that never jumps. */
double lt_clock_now(void);

#ifdef __cplusplus
}
#endif
#endif
