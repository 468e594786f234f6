// SPDX-License-Identifier: Apache-2.0
// Module-path patterns: a token at a time over the set of places that the tokens before it can end
// at, so that no pattern takes more than tokens x path steps (a run of digits apart).
#include "base/pattern.h"
#include <string.h>

enum { MAX_RANGE_DIGITS = 18 }; // of a number in {a-b}: it fits int64

typedef enum token_kind { END, LITERAL, ANY_RUN, ANY_ONE, NUMBER, RANGE, MALFORMED } token_kind;

typedef struct token {
    token_kind kind;
    char c;             // LITERAL
    int64_t low, high;  // RANGE
    const char *text;   // where it starts
    size_t len;         // how many bytes of the pattern it takes
    const char *reason; // MALFORMED
} token;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static token malformed(const char *text, size_t len, const char *reason)
{
    return (token){.kind = MALFORMED, .text = text, .len = len, .reason = reason};
}

// Digits at *p into *value; *p moves behind them. False when there are none, or too many.
static bool read_number(const char **p, int64_t *value)
{
    int64_t v = 0;
    int n = 0;
    for (; is_digit(**p); (*p)++, n++) {
        if (n == MAX_RANGE_DIGITS)
            return false;
        v = v * 10 + (**p - '0');
    }
    *value = v;
    return n > 0;
}

static token brace_token(const char *p)
{
    const char *close = strchr(p, '}');
    if (!close)
        return malformed(p, strlen(p), "has no closing brace");
    const size_t len = (size_t)(close - p) + 1;
    if (len == 3 && p[1] == '*')
        return (token){.kind = NUMBER, .text = p, .len = len};
    token t = {.kind = RANGE, .text = p, .len = len};
    const char *at = p + 1;
    if (!read_number(&at, &t.low) || *at++ != '-' || !read_number(&at, &t.high) || at != close) {
        return malformed(p, len,
                         memchr(p, ',', len) ? "lists several ranges: write one entry for each"
                                             : "is not {*} or {a-b}");
    }
    if (t.low > t.high)
        return malformed(p, len, "ends before it begins");
    return t;
}

static token next_token(const char *p)
{
    switch (*p) {
    case '\0':
        return (token){.kind = END, .text = p};
    case '*':
        return (token){.kind = ANY_RUN, .text = p, .len = 1};
    case '?':
        return (token){.kind = ANY_ONE, .text = p, .len = 1};
    case '{':
        return brace_token(p);
    default:
        return (token){.kind = LITERAL, .c = *p, .text = p, .len = 1};
    }
}

lt_status lt_pattern_check(const char *pattern)
{
    if (strlen(pattern) > LT_PATTERN_MAX)
        return LT_FAIL(LT_ERR_CONFIG, "the pattern \"%.40s...\" has more than %d bytes", pattern,
                       LT_PATTERN_MAX);
    if (*pattern == '\0')
        return LT_FAIL(LT_ERR_CONFIG, "an empty pattern matches no module");
    for (token t = next_token(pattern); t.kind != END; t = next_token(t.text + t.len)) {
        if (t.kind == MALFORMED) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "in the pattern \"%s\", %.*s %s (braces hold * for any number, or a "
                           "range such as 0-3)",
                           pattern, (int)t.len, t.text, t.reason);
        }
    }
    return LT_OK;
}

// Bytes of the UTF-8 character at s (1 for a stray byte).
static size_t character_len(const char *s)
{
    size_t len = 1;
    while (((unsigned char)s[len] & 0xC0U) == 0x80U)
        len++;
    return len;
}

// All ends of a number that starts at path[i] and that the token accepts.
static void mark_numbers(const token *t, const char *path, size_t i, bool *after)
{
    int64_t v = 0;
    for (size_t j = i; is_digit(path[j]); j++) {
        if (t->kind == RANGE) {
            v = v * 10 + (path[j] - '0');
            if (v > t->high)
                return;
        }
        if (t->kind == NUMBER || v >= t->low)
            after[j + 1] = true;
    }
}

// before[i]: the tokens so far can end just in front of path[i]. after: the same with this token
// added.
static void advance(const token *t, const char *path, size_t len, const bool *before, bool *after)
{
    memset(after, 0, len + 1);
    bool reached = false;
    for (size_t i = 0; i <= len; i++) {
        reached = reached || before[i];
        if (t->kind == ANY_RUN)
            after[i] = reached;
        if (!before[i] || i == len)
            continue;
        if (t->kind == LITERAL && path[i] == t->c)
            after[i + 1] = true;
        else if (t->kind == ANY_ONE)
            after[i + character_len(path + i)] = true;
        else if (t->kind == NUMBER || t->kind == RANGE)
            mark_numbers(t, path, i, after);
    }
}

bool lt_pattern_match(const char *pattern, const char *path)
{
    const size_t len = strlen(path);
    if (len > LT_PATTERN_PATH_MAX || strlen(pattern) > LT_PATTERN_MAX)
        return false;
    bool rows[2][LT_PATTERN_PATH_MAX + 1] = {{true}};
    int now = 0;
    for (token t = next_token(pattern); t.kind != END; t = next_token(t.text + t.len)) {
        if (t.kind == MALFORMED)
            return false;
        advance(&t, path, len, rows[now], rows[1 - now]);
        now = 1 - now;
    }
    return rows[now][len];
}

int64_t lt_pattern_last(const char *const *patterns, int64_t n, const char *path)
{
    for (int64_t i = n; i-- > 0;) {
        if (lt_pattern_match(patterns[i], path))
            return i;
    }
    return -1;
}

static bool matches_any(const char *pattern, const char *const *paths, int64_t n_paths)
{
    for (int64_t i = 0; i < n_paths; i++) {
        if (lt_pattern_match(pattern, paths[i]))
            return true;
    }
    return false;
}

lt_status lt_patterns_check_use(const char *key, const char *const *patterns, int64_t n,
                                const char *const *paths, int64_t n_paths, const lt_log *log)
{
    int64_t n_alive = 0;
    for (int64_t i = 0; i < n; i++) {
        const lt_status st = lt_pattern_check(patterns[i]);
        if (st != LT_OK) {
            lt_error_note("%s", key);
            return st;
        }
        n_alive += matches_any(patterns[i], paths, n_paths);
    }
    if (n > 0 && n_alive == 0) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "%s: none of its %lld patterns matches a module of this model (the first is \"%s\")",
            key, (long long)n, patterns[0]);
    }
    for (int64_t i = 0; i < n && n_alive < n; i++) {
        if (!matches_any(patterns[i], paths, n_paths))
            LT_NOTE(log, "config", "%s: \"%s\" matches no module of this model", key, patterns[i]);
    }
    return LT_OK;
}
