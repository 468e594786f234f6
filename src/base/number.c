// SPDX-License-Identifier: Apache-2.0
// Numbers as text and back.
#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_DIGITS = 17 }; // always enough for a double

// The shortest "d.ddde+xx" that reads back as x (finite). Returns how many digits stand before the
// e.
static int shortest(double x, char *text, size_t size)
{
    for (int n = 1; n < MAX_DIGITS; n++) {
        snprintf(text, size, "%.*e", n - 1, x);
        if (strtod(text, NULL) == x)
            return n;
    }
    snprintf(text, size, "%.*e", MAX_DIGITS - 1, x);
    return MAX_DIGITS;
}

lt_text32 lt_double_text(double x)
{
    lt_text32 out;
    if (isnan(x) || isinf(x)) {
        snprintf(out.s, sizeof out.s, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return out;
    }
    const int n_digits = shortest(x, out.s, sizeof out.s);
    const long exponent = strtol(strchr(out.s, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16)
        return out; // printf's exponent has two digits or more, as Python's
    const int decimals = n_digits - 1 - (int)exponent;
    snprintf(out.s, sizeof out.s, "%.*f", decimals > 0 ? decimals : 1, x);
    return out;
}

typedef struct byte_unit {
    const char *name;
    double bytes;
} byte_unit;

static const byte_unit units[] = {
    {"", 1},       {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},
    {"tb", 1e12},  {"k", 0x1p10},   {"kib", 0x1p10}, {"m", 0x1p20},   {"mib", 0x1p20},
    {"g", 0x1p30}, {"gib", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40},
};

bool lt_bytes_parse(const char *text, int64_t *bytes)
{
    text += strspn(text, " ");
    const size_t n_number = strspn(text, "0123456789.");
    char number[32];
    if (n_number == 0 || n_number >= sizeof number)
        return false;
    memcpy(number, text, n_number);
    number[n_number] = '\0';
    char *end = NULL;
    const double value = strtod(number, &end);
    if (*end != '\0')
        return false;
    const char *name = text + n_number + strspn(text + n_number, " ");
    size_t n_name = strlen(name);
    while (n_name > 0 && name[n_name - 1] == ' ')
        n_name--;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != n_name || strncasecmp(units[i].name, name, n_name) != 0)
            continue;
        const double total = value * units[i].bytes;
        if (!(total < 0x1p62))
            return false;
        *bytes = (int64_t)total;
        return true;
    }
    return false;
}
