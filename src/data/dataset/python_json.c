// SPDX-License-Identifier: Apache-2.0
// Python's way of writing JSON, and of reading numbers.
#include "data/dataset/python_json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A number of a parsed text is carried as a string: this byte, then its digits.
enum { NUMBER = '\x01', MAX_DEPTH = 1000 };
// Jansson takes no key with a zero in it: in keys U+0000 and U+0001 are this character and '0' or
// '1'.
enum { SPELLED = '\x01' };

// The fewest digits, 1 to 17, that read back as the same double, as "d.ddde+xx".
static void shortest(double value, char out[40])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 40, "%.*e", digits - 1, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

lt_status lt_python_float(double value, lt_buf *out)
{
    if (isnan(value))
        return lt_buf_text(out, "NaN");
    if (isinf(value))
        return lt_buf_text(out, value < 0 ? "-Infinity" : "Infinity");
    char text[40], digits[24];
    int n = 0;
    shortest(fabs(value), text);
    for (const char *s = text; *s && *s != 'e'; s++)
        if (*s != '.')
            digits[n++] = *s;
    const int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (signbit(value))
        LT_TRY(lt_buf_text(out, "-"));
    if (exponent < -4 || exponent >= 16) {
        LT_TRY(lt_buf_append(out, digits, 1));
        if (n > 1)
            LT_TRY(lt_buf_text(out, "."));
        LT_TRY(lt_buf_append(out, digits + 1, (size_t)(n - 1)));
        return lt_buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0)
        LT_TRY(lt_buf_text(out, "0."));
    for (int zeros = exponent + 1; zeros < 0; zeros++)
        LT_TRY(lt_buf_text(out, "0"));
    for (int i = 0; i < n || i <= exponent; i++) {
        LT_TRY(lt_buf_append(out, i < n ? &digits[i] : "0", 1));
        if (i == exponent)
            LT_TRY(lt_buf_text(out, "."));
    }
    return n <= exponent + 1 ? lt_buf_text(out, "0") : LT_OK;
}

bool lt_python_is_text(const json_t *value)
{
    return json_is_string(value) &&
           (json_string_length(value) == 0 || json_string_value(value)[0] != NUMBER);
}

static lt_status write_text(const char *s, size_t len, lt_buf *out)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
    LT_TRY(lt_buf_text(out, "\""));
    for (size_t i = 0; i < len; i++) {
        const char *at = s[i] != 0 ? strchr(plain, s[i]) : NULL;
        if (at)
            LT_TRY(lt_buf_printf(out, "\\%c", escaped[at - plain]));
        else if ((unsigned char)s[i] < 0x20)
            LT_TRY(lt_buf_printf(out, "\\u%04x", (unsigned char)s[i]));
        else
            LT_TRY(lt_buf_append(out, s + i, 1));
    }
    return lt_buf_text(out, "\"");
}

// Digits as they stood in a text: integers exact, the rest by way of a double.
static lt_status write_number(const char *digits, lt_buf *out)
{
    if (strchr(digits, 'N'))
        return lt_python_float((double)NAN, out);
    if (strchr(digits, 'I'))
        return lt_python_float(digits[0] == '-' ? -HUGE_VAL : HUGE_VAL, out);
    if (strpbrk(digits, ".eE"))
        return lt_python_float(strtod(digits, NULL), out);
    return lt_buf_text(out, strcmp(digits, "-0") == 0 ? "0" : digits);
}

lt_status lt_python_key(const char *key, lt_buf *out)
{
    for (const char *s = key; *s; s++) {
        const bool zero = *s == SPELLED && s[1] == '0', one = *s == SPELLED && s[1] == '1';
        LT_TRY(lt_buf_append(out, zero ? "" : s, 1));
        s += zero || one;
    }
    return LT_OK;
}

static lt_status write_key(const char *key, lt_buf *out)
{
    lt_buf text = {0};
    lt_status st = lt_python_key(key, &text);
    if (st == LT_OK)
        st = write_text(text.len > 0 ? text.data : "", text.len, out);
    lt_buf_deinit(&text);
    return st;
}

static lt_status write(json_t *value, int depth, lt_buf *out);

static lt_status write_object(json_t *object, int depth, lt_buf *out)
{
    const char *key;
    json_t *item;
    bool first = true;
    LT_TRY(lt_buf_text(out, "{"));
    json_object_foreach(object, key, item)
    {
        if (!first)
            LT_TRY(lt_buf_text(out, ", "));
        LT_TRY(write_key(key, out));
        LT_TRY(lt_buf_text(out, ": "));
        LT_TRY(write(item, depth, out));
        first = false;
    }
    return lt_buf_text(out, "}");
}

static lt_status write_array(json_t *array, int depth, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "["));
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0)
            LT_TRY(lt_buf_text(out, ", "));
        LT_TRY(write(json_array_get(array, i), depth, out));
    }
    return lt_buf_text(out, "]");
}

static lt_status write(json_t *value, int depth, lt_buf *out)
{
    if (depth >= MAX_DEPTH)
        return LT_FAIL(LT_ERR_DATA, "JSON values lie more than %d deep", MAX_DEPTH);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return write_object(value, depth + 1, out);
    case JSON_ARRAY:
        return write_array(value, depth + 1, out);
    case JSON_STRING:
        if (!lt_python_is_text(value))
            return write_number(json_string_value(value) + 1, out);
        return write_text(json_string_value(value), json_string_length(value), out);
    case JSON_INTEGER:
        return lt_buf_printf(out, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        return lt_python_float(json_real_value(value), out);
    case JSON_TRUE:
        return lt_buf_text(out, "true");
    case JSON_FALSE:
        return lt_buf_text(out, "false");
    case JSON_NULL:
        return lt_buf_text(out, "null");
    }
    return LT_FAIL(LT_ERR_INTERNAL, "a JSON value of no known kind");
}

lt_status lt_python_json(json_t *value, lt_buf *out)
{
    return write(value, 0, out);
}

// The length of a number, NaN or Infinity at text; 0: something else stands there. Whether digits
// are well formed is left to Jansson, which sees them unquoted when they are not.
static size_t number_length(const char *text, size_t len)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < 3; i++)
        if (len >= strlen(words[i]) && memcmp(text, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    size_t i = text[0] == '-';
    const size_t whole = i;
    while (i < len && text[i] >= '0' && text[i] <= '9')
        i++;
    if (i == whole || (text[whole] == '0' && i > whole + 1))
        return 0;
    const size_t dot = i;
    if (i < len && text[i] == '.')
        for (i++; i < len && text[i] >= '0' && text[i] <= '9';)
            i++;
    if (i == dot + 1)
        return 0;
    if (i < len && (text[i] == 'e' || text[i] == 'E')) {
        const bool sign = i + 1 < len && (text[i + 1] == '+' || text[i + 1] == '-');
        i += sign ? 2 : 1;
        const size_t digits = i;
        while (i < len && text[i] >= '0' && text[i] <= '9')
            i++;
        if (i == digits)
            return 0;
    }
    return i;
}

static bool is_key(const char *text, size_t len, size_t behind)
{
    while (behind < len && strchr(" \t\r\n", text[behind]) && text[behind])
        behind++;
    return behind < len && text[behind] == ':';
}

// Is the escape at text one of U+0000 or U+0001?
static bool is_spelled(const char *text, size_t len)
{
    return len >= 6 && memcmp(text, "\\u000", 5) == 0 && (text[5] == '0' || text[5] == '1');
}

// Copies a string literal, from its quote to behind its closing one.
static lt_status copy_string(const char *text, size_t len, size_t *i, lt_buf *out)
{
    const size_t start = (*i)++;
    while (*i < len && text[*i] != '"')
        *i += text[*i] == '\\' ? 2 : 1;
    *i = *i < len ? *i + 1 : len;
    if (!is_key(text, len, *i))
        return lt_buf_append(out, text + start, *i - start);
    for (size_t k = start; k < *i;) {
        const bool spelled = is_spelled(text + k, *i - k);
        const size_t n = spelled ? 6 : text[k] == '\\' && k + 1 < *i ? 2 : 1;
        if (spelled)
            LT_TRY(lt_buf_printf(out, "\\u%04x%c", (unsigned)SPELLED, text[k + 5]));
        else
            LT_TRY(lt_buf_append(out, text + k, n));
        k += n;
    }
    return LT_OK;
}

static lt_status spell_keys(const char *text, size_t len, lt_buf *out)
{
    for (size_t i = 0; i < len;) {
        const char *quote = memchr(text + i, '"', len - i);
        const size_t n = quote ? (size_t)(quote - text) - i : len - i;
        LT_TRY(lt_buf_append(out, text + i, n));
        i += n;
        if (quote)
            LT_TRY(copy_string(text, len, &i, out));
    }
    return LT_OK;
}

json_t *lt_json_load(const char *text, size_t len, size_t flags, json_error_t *error)
{
    lt_buf spelled = {0};
    if (!memmem(text, len, "\\u0000", 6) && !memmem(text, len, "\\u0001", 6))
        return json_loadb(text, len, flags | JSON_ALLOW_NUL, error);
    json_t *value = spell_keys(text, len, &spelled) == LT_OK
                        ? json_loadb(spelled.data, spelled.len, flags | JSON_ALLOW_NUL, error)
                        : NULL;
    lt_buf_deinit(&spelled);
    return value;
}

static lt_status disguise_numbers(const char *text, size_t len, lt_buf *out)
{
    for (size_t i = 0; i < len;) {
        if (text[i] == '"') {
            LT_TRY(copy_string(text, len, &i, out));
            continue;
        }
        const size_t n = number_length(text + i, len - i);
        if (n > 0 &&
            !is_key(text, len, i + n)) // a number as a key is not JSON, and must not become it
            LT_TRY(lt_buf_printf(out, "\"\\u%04x%.*s\"", (unsigned)NUMBER, (int)n, text + i));
        else
            LT_TRY(lt_buf_append(out, text + i, n > 0 ? n : 1));
        i += n > 0 ? n : 1;
    }
    return LT_OK;
}

lt_status lt_python_parse(const char *text, size_t len, json_t **out)
{
    lt_buf disguised = {0};
    const lt_status st = len < INT32_MAX
                             ? disguise_numbers(text, len, &disguised)
                             : LT_FAIL(LT_ERR_DATA, "a JSON text of %zu bytes is too long", len);
    json_error_t error;
    *out = st == LT_OK && disguised.len > 0
               ? json_loadb(disguised.data, disguised.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error)
               : NULL;
    lt_buf_deinit(&disguised);
    return st;
}
