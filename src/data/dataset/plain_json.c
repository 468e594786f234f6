// SPDX-License-Identifier: Apache-2.0
// A recursive descent that gives up, without a word, at the first thing that is uncommon.
#include "data/dataset/plain_json.h"
#include "data/tokenizer/unicode.h"
#include <string.h>

enum { MAX_DEPTH = 64, MAX_KEY = 128, MAX_DIGITS = 18 };

typedef struct parser {
    const char *at, *end;
    lt_buf *scratch;
    int depth;
} parser;

static json_t *value(parser *p);

static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (p->at >= p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

/** Past characters that stand for themselves; false at bytes that are not UTF-8. */
static bool skip_plain(parser *p)
{
    while (p->at < p->end) {
        const unsigned char c = (unsigned char)*p->at;
        if (c == '"' || c == '\\' || c < 0x20)
            return true;
        if (c < 0x80) {
            p->at++;
            continue;
        }
        uint32_t code;
        int bad;
        const int n = lt_utf8_next(p->at, (size_t)(p->end - p->at), &code, &bad);
        if (n == 0)
            return false;
        p->at += n;
    }
    return false;
}

/** The character of a short escape; 0: another kind. */
static char escaped(char c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    if (!found)
        return 0;
    return to[found - from];
}

/** A string behind its opening quote: of the text itself, or of the scratch when it has escapes. */
static bool string(parser *p, const char **s, size_t *len)
{
    const char *from = p->at;
    if (!skip_plain(p) || p->at >= p->end)
        return false;
    if (*p->at == '"') {
        *s = from;
        *len = (size_t)(p->at++ - from);
        return true;
    }
    lt_buf_clear(p->scratch);
    for (;;) {
        if (lt_buf_append(p->scratch, from, (size_t)(p->at - from)) != LT_OK)
            return false;
        if (*p->at == '"')
            break;
        char c = 0;
        if (*p->at == '\\' && p->at + 1 < p->end)
            c = escaped(p->at[1]);
        if (!c || lt_buf_append(p->scratch, &c, 1) != LT_OK)
            return false;
        p->at += 2;
        from = p->at;
        if (!skip_plain(p) || p->at >= p->end)
            return false;
    }
    p->at++;
    *s = p->scratch->data ? p->scratch->data : "";
    *len = p->scratch->len;
    return true;
}

/** Whole numbers of up to 18 digits. */
static json_t *number(parser *p)
{
    const bool minus = *p->at == '-';
    const char *from = p->at + minus;
    json_int_t n = 0;
    for (p->at = from; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (p->at - from >= MAX_DIGITS)
            return NULL;
        n = n * 10 + (*p->at - '0');
    }
    const ptrdiff_t digits = p->at - from;
    const bool leading = digits > 0 && *from == '0' && (digits > 1 || minus);
    const bool more = p->at < p->end && strchr(".eE", *p->at) && *p->at;
    return digits == 0 || leading || more ? NULL : json_integer(minus ? -n : n);
}

static json_t *word(parser *p, const char *w, json_t *v)
{
    const size_t n = strlen(w);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, w, n) != 0) {
        json_decref(v);
        return NULL;
    }
    p->at += n;
    return v;
}

/** A member's key with its final zero; keys with zeros of their own are uncommon. */
static bool take_key(parser *p, char *key)
{
    const char *s = NULL;
    size_t len = 0;
    if (!take(p, '"') || !string(p, &s, &len) || len >= MAX_KEY || memchr(s, 0, len))
        return false;
    memcpy(key, s, len);
    key[len] = '\0';
    return take(p, ':');
}

static bool members(parser *p, json_t *object)
{
    if (take(p, '}'))
        return true;
    do {
        char key[MAX_KEY];
        if (!take_key(p, key))
            return false;
        json_t *v = value(p);
        if (!v || json_object_set_new_nocheck(object, key, v) != 0)
            return false;
    } while (take(p, ','));
    return take(p, '}');
}

static bool items(parser *p, json_t *array)
{
    if (take(p, ']'))
        return true;
    do {
        json_t *v = value(p);
        if (!v || json_array_append_new(array, v) != 0)
            return false;
    } while (take(p, ','));
    return take(p, ']');
}

static json_t *container(parser *p, bool object)
{
    p->at++;
    if (++p->depth > MAX_DEPTH)
        return NULL;
    json_t *v = object ? json_object() : json_array();
    const bool ok = v && (object ? members(p, v) : items(p, v));
    p->depth--;
    if (!ok) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static json_t *value(parser *p)
{
    const char *s = NULL;
    size_t len = 0;
    skip_blanks(p);
    if (p->at >= p->end)
        return NULL;
    switch (*p->at) {
    case '{':
        return container(p, true);
    case '[':
        return container(p, false);
    case '"':
        p->at++;
        return string(p, &s, &len) ? json_stringn_nocheck(s, len) : NULL;
    case 't':
        return word(p, "true", json_true());
    case 'f':
        return word(p, "false", json_false());
    case 'n':
        return word(p, "null", json_null());
    default:
        return *p->at == '-' || (*p->at >= '0' && *p->at <= '9') ? number(p) : NULL;
    }
}

json_t *lt_plain_json(const char *text, size_t len, lt_buf *scratch)
{
    parser p = {.at = text, .end = text + len, .scratch = scratch};
    skip_blanks(&p);
    if (p.at >= p.end || (*p.at != '{' && *p.at != '['))
        return NULL;
    json_t *v = value(&p);
    skip_blanks(&p);
    if (v && p.at < p.end) { // something follows
        json_decref(v);
        return NULL;
    }
    return v;
}
