// SPDX-License-Identifier: Apache-2.0
// The thread-local message behind every failure.
#include "base/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4096 };

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local const char *kind = ""; // a format, which lives as long as the program

const char *lt_status_text(lt_status st)
{
    static const char *const texts[] = {
#define STATUS_TEXT(name, text) [LT_##name] = (text),
        LT_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    const size_t i = (size_t)st;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown status";
}

// Formats apart from the message, since an argument may be the message itself.
lt_status lt_fail(lt_status code, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lt_error_adopt(code, text);
    kind = fmt;
    return code;
}

const char *lt_error_message(void)
{
    return message;
}

const char *lt_error_kind(void)
{
    return kind;
}

void lt_error_note(const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    // At least half of the room stays for the message itself.
    size_t note = strnlen(text, MESSAGE_BYTES / 2 - 3);
    memcpy(text + note, ": ", 2);
    note += 2;
    const size_t rest = strnlen(message, MESSAGE_BYTES - 1 - note);
    memcpy(text + note, message, rest);
    text[note + rest] = 0;
    memcpy(message, text, note + rest + 1);
}

void lt_error_clear(void)
{
    message[0] = 0;
    kind = "";
}

lt_status lt_error_adopt(lt_status code, const char *text)
{
    const size_t len = strnlen(text, MESSAGE_BYTES - 1);
    memmove(message, text, len);
    message[len] = 0;
    kind = "";
    return code;
}

const char *lt_errno_text(int err)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's answers are constants or thread-local
    return strerror(err);
}

void lt_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "lathe: %s:%d: this should always hold: %s\n", file, line, cond);
    abort();
}
