// SPDX-License-Identifier: Apache-2.0
// What a plain scalar means: the implicit types of YAML 1.1, in the order and with the patterns of
// PyYAML's resolver.
#include "train/config/yaml.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";
static const char digits_and_bars[] = "0123456789_";

typedef struct word {
    const char *text;
    lt_yaml_kind kind;
    bool value;
} word;

static const word words[] = {
    {"", LT_YAML_NULL, false},      {"~", LT_YAML_NULL, false},     {"null", LT_YAML_NULL, false},
    {"Null", LT_YAML_NULL, false},  {"NULL", LT_YAML_NULL, false},  {"yes", LT_YAML_BOOL, true},
    {"Yes", LT_YAML_BOOL, true},    {"YES", LT_YAML_BOOL, true},    {"true", LT_YAML_BOOL, true},
    {"True", LT_YAML_BOOL, true},   {"TRUE", LT_YAML_BOOL, true},   {"on", LT_YAML_BOOL, true},
    {"On", LT_YAML_BOOL, true},     {"ON", LT_YAML_BOOL, true},     {"no", LT_YAML_BOOL, false},
    {"No", LT_YAML_BOOL, false},    {"NO", LT_YAML_BOOL, false},    {"false", LT_YAML_BOOL, false},
    {"False", LT_YAML_BOOL, false}, {"FALSE", LT_YAML_BOOL, false}, {"off", LT_YAML_BOOL, false},
    {"Off", LT_YAML_BOOL, false},   {"OFF", LT_YAML_BOOL, false},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_sign(const char *p)
{
    return *p == '+' || *p == '-' ? p + 1 : p;
}

// Behind one or more groups of :[0-5]?[0-9] at p, NULL when there is none.
static const char *skip_sixties(const char *p)
{
    const char *start = p;
    while (*p == ':' && is_digit(p[1])) {
        p += 2;
        if (is_digit(*p)) {
            if (p[-1] > '5')
                return NULL;
            p++;
        }
    }
    return p > start ? p : NULL;
}

// Behind the exponent at p, which needs its sign; p itself when there is none.
static const char *skip_exponent(const char *p)
{
    if ((*p != 'e' && *p != 'E') || (p[1] != '+' && p[1] != '-') || !is_digit(p[2]))
        return p;
    return p + 2 + strspn(p + 2, digits);
}

// The text without sign and underscores, in lower case.
static void strip(const char *text, char out[LT_YAML_MAX_NUMBER + 1])
{
    for (const char *p = skip_sign(text); *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *out++ = (char)(*p - 'A' + 'a');
        else if (*p != '_')
            *out++ = *p;
    }
    *out = '\0';
}

// a:b:c in base 60; the last part may have a fraction.
static double sixties(const char *p)
{
    double total = 0;
    for (;;) {
        char *end = NULL;
        total = total * 60 + strtod(p, &end);
        if (*end != ':')
            return total;
        p = end + 1;
    }
}

static bool is_float(const char *text)
{
    static const char *const names[] = {".inf", ".Inf", ".INF"}, *const nans[] = {".nan", ".NaN",
                                                                                  ".NAN"};
    const char *p = skip_sign(text);
    for (int i = 0; i < 3; i++) {
        if (strcmp(p, names[i]) == 0 || strcmp(text, nans[i]) == 0)
            return true;
    }
    if (text[0] == '.' && is_digit(text[1]))
        return *skip_exponent(text + 1 + strspn(text + 1, digits_and_bars)) == '\0';
    if (!is_digit(*p))
        return false;
    p += strspn(p, digits_and_bars);
    const char *behind = skip_sixties(p);
    if (behind)
        return *behind == '.' && behind[1 + strspn(behind + 1, digits_and_bars)] == '\0';
    if (*p != '.')
        return false;
    return *skip_exponent(p + 1 + strspn(p + 1, digits_and_bars)) == '\0';
}

static double float_value(const char *text)
{
    char body[LT_YAML_MAX_NUMBER + 1] = "";
    strip(text, body);
    double x = 0;
    if (strcmp(body, ".inf") == 0)
        x = (double)INFINITY;
    else if (strcmp(body, ".nan") == 0)
        x = (double)NAN;
    else
        x = sixties(body);
    return text[0] == '-' ? -x : x;
}

// The base of the integer, 60 for a:b, 0 when it is none.
static int integer_base(const char *text)
{
    static const struct {
        char letter;
        int base;
        const char *set;
    } prefixes[] = {{'b', 2, "01_"}, {'x', 16, "0123456789abcdefABCDEF_"}};
    const char *p = skip_sign(text);
    for (int i = 0; i < 2; i++) {
        const size_t n =
            p[0] == '0' && p[1] == prefixes[i].letter ? strspn(p + 2, prefixes[i].set) : 0;
        // PyYAML fails on bars alone: here they are a text.
        if (n > 0 && n > strspn(p + 2, "_") && p[2 + n] == '\0')
            return prefixes[i].base;
    }
    if (p[0] == '0')
        return p[1] == '\0' ? 10 : p[1 + strspn(p + 1, "01234567_")] == '\0' ? 8 : 0;
    if (!is_digit(*p))
        return 0;
    p += strspn(p, digits_and_bars);
    if (*p == '\0')
        return 10;
    const char *behind = skip_sixties(p);
    return behind && *behind == '\0' ? 60 : 0;
}

// The digits at *p, up to a colon or the end, in `base`; *p moves there. False when the value
// passes int64.
static bool read_digits(const char **p, int base, int64_t *value, double *real)
{
    bool fits = true;
    *value = 0;
    *real = 0;
    for (; **p != '\0' && **p != ':'; (*p)++) {
        const int digit = is_digit(**p) ? **p - '0' : **p - 'a' + 10;
        fits = fits && lt_mul_i64(*value, base, value) && lt_add_i64(*value, digit, value);
        *real = *real * base + digit;
    }
    return fits;
}

static void set_integer(lt_yaml_node *node, int base)
{
    char body[LT_YAML_MAX_NUMBER + 1] = "";
    strip(node->text, body);
    const char *p = body + (base == 2 || base == 16 ? 2 : 0);
    int64_t total = 0;
    double real = 0;
    bool fits = true;
    for (;;) {
        int64_t group = 0;
        double group_real = 0;
        fits = read_digits(&p, base == 60 ? 10 : base, &group, &group_real) && fits;
        fits = fits && lt_mul_i64(total, 60, &total) && lt_add_i64(total, group, &total);
        real = real * 60 + group_real;
        if (*p++ != ':')
            break;
    }
    if (fits)
        real = (double)total;
    else if (base == 10)
        real = strtod(body, NULL);
    const bool negative = node->text[0] == '-';
    node->kind = LT_YAML_INT;
    node->too_big = !fits;
    node->real = negative ? -real : real;
    node->integer = fits ? (negative ? -total : total) : negative ? INT64_MIN : INT64_MAX;
}

// Behind n..m digits at p, NULL when fewer stand there.
static const char *skip_digits(const char *p, int n, int m)
{
    int i = 0;
    while (i < m && is_digit(p[i]))
        i++;
    return i < n ? NULL : p + i;
}

// Behind the text of a time zone at p: Z, or +1, +01, +01:30; p itself when there is none; NULL
// when it is malformed.
static const char *skip_zone(const char *p)
{
    if (*p == 'Z')
        return p + 1;
    if (*p != '+' && *p != '-')
        return p;
    p = skip_digits(p + 1, 1, 2);
    return p && *p == ':' ? skip_digits(p + 1, 2, 2) : p;
}

// Behind hh:mm:ss.fraction at p, NULL when malformed.
static const char *skip_time(const char *p)
{
    if ((p = skip_digits(p, 1, 2)) == NULL || *p != ':')
        return NULL;
    if ((p = skip_digits(p + 1, 2, 2)) == NULL || *p != ':')
        return NULL;
    if ((p = skip_digits(p + 1, 2, 2)) == NULL)
        return NULL;
    return *p == '.' ? p + 1 + strspn(p + 1, digits) : p;
}

static bool is_date(const char *text)
{
    const char *p = skip_digits(text, 4, 4);
    if (!p || *p != '-' || (p = skip_digits(p + 1, 1, 2)) == NULL || *p != '-' ||
        (p = skip_digits(p + 1, 1, 2)) == NULL)
        return false;
    if (*p == '\0')
        return p - text == 10; // a bare date has two digits for month and day
    if (*p == 'T' || *p == 't')
        p++;
    else if (*p == ' ' || *p == '\t')
        p += strspn(p, " \t");
    else
        return false;
    p = skip_time(p);
    if (p)
        p = skip_zone(p + strspn(p, " \t"));
    return p && *p == '\0';
}

void lt_yaml_resolve(lt_yaml_node *node)
{
    node->kind = LT_YAML_TEXT;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(node->text, words[i].text) == 0) {
            node->kind = words[i].kind;
            node->boolean = words[i].value;
            return;
        }
    }
    if (strlen(node->text) > LT_YAML_MAX_NUMBER)
        return;
    const int base = integer_base(node->text);
    if (is_float(node->text)) {
        node->kind = LT_YAML_FLOAT;
        node->real = float_value(node->text);
    } else if (base != 0) {
        set_integer(node, base);
    } else if (is_date(node->text)) {
        node->kind = LT_YAML_DATE;
    }
}
