// SPDX-License-Identifier: Apache-2.0
// The byte buffer, and small helpers on words and counts.
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Room for `more` bytes and the final zero.
static lt_status reserve(lt_buf *buf, size_t more)
{
    if (more >= PTRDIFF_MAX - buf->len)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: a text wanted %zu bytes more than its %zu",
                       more, buf->len);
    const size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return LT_OK;
    size_t cap = buf->cap * 2 > need ? buf->cap * 2 : need;
    cap = cap < 64 ? 64 : cap;
    void *data = buf->data;
    LT_TRY(lt_mem_resize(&data, cap, "a text"));
    buf->data = data;
    buf->cap = cap;
    return LT_OK;
}

lt_status lt_buf_append(lt_buf *buf, const void *bytes, size_t len)
{
    LT_TRY(reserve(buf, len));
    if (len > 0)
        memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = 0;
    return LT_OK;
}

lt_status lt_buf_text(lt_buf *buf, const char *text)
{
    return lt_buf_append(buf, text, strlen(text));
}

lt_status lt_buf_printf(lt_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    lt_status st = len < 0 ? LT_FAIL(LT_ERR_INTERNAL, "the format %s cannot be printed", fmt)
                           : reserve(buf, (size_t)len);
    if (st == LT_OK) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    return st;
}

void lt_buf_clear(lt_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = 0;
}

void lt_buf_deinit(lt_buf *buf)
{
    lt_mem_free(buf->data);
    *buf = (lt_buf){0};
}

bool lt_text_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool lt_text_ends(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

enum { WORD_MAX = 80 }; // longer words are compared no further than for equality

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Optimal string alignment: rows of the edit table for i-2, i-1 and i letters of a.
int lt_text_distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return strcmp(a, b) == 0 ? 0 : lt_int((int64_t)(n > m ? n : m) & INT32_MAX);
    int rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *one = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int d = least(one[j], now[j - 1]) + 1;
            d = least(d, one[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = least(d, two[j - 2] + 1);
            now[j] = d;
        }
    }
    return rows[n % 3][m];
}

const char *lt_text_nearest(const char *word, const char *const *names, int64_t n)
{
    const char *best = NULL;
    int best_distance = 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t a = strlen(word), b = strlen(names[i]);
        const int d = lt_text_distance(word, names[i]);
        if ((size_t)d * 3 <= (a > b ? a : b) && (!best || d < best_distance)) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

lt_text32 lt_bytes_text(int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    lt_text32 out;
    if (bytes > -1024 && bytes < 1024) {
        snprintf(out.s, sizeof out.s, "%d B", (int)bytes);
        return out;
    }
    double v = (double)bytes / 1024.0;
    size_t u = 0;
    for (; u < 5 && (v >= 1023.95 || v <= -1023.95); u++)
        v /= 1024.0;
    snprintf(out.s, sizeof out.s, "%.1f %s", v, units[u]);
    return out;
}

lt_text32 lt_count_text(int64_t n)
{
    static const char *const units[] = {"K", "M", "B", "T", "P", "E"};
    lt_text32 out;
    if (n > -1000 && n < 1000) {
        snprintf(out.s, sizeof out.s, "%d", (int)n);
        return out;
    }
    double v = (double)n / 1000.0;
    size_t u = 0;
    for (; u < 5 && (v >= 999.95 || v <= -999.95); u++)
        v /= 1000.0;
    snprintf(out.s, sizeof out.s, v < 9.995 && v > -9.995 ? "%.2f %s" : "%.1f %s", v, units[u]);
    return out;
}
