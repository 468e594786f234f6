// SPDX-License-Identifier: Apache-2.0
// One YAML node to one C value, as leniently as the reference's model does it (pydantic's lax
// mode): 42.0 and "42" are whole numbers, "1e-5" a number, yes and "on" booleans; a text is a text
// only. source: spec config-trainer-checkpoint 1.1.3
#include "base/number.h"
#include "base/pattern.h"
#include "train/config/state.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef bool (*converter)(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into);

LT_PRINTF(3, 4)
static bool wrong(lt_convert *c, const lt_yaml_node *node, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
    c->spot = (lt_config_spot){.source = node->source, .mark = node->mark};
    return false;
}

static bool out_of_memory(lt_convert *c, lt_status st)
{
    c->st = st;
    return st == LT_OK;
}

const char *lt_convert_words(const lt_field *f)
{
    static const char *const words[LT_N_FIELD_KINDS] = {
        [LT_FIELD_BOOL] = "true or false",
        [LT_FIELD_TRISTATE] = "true or false",
        [LT_FIELD_INT] = "a whole number",
        [LT_FIELD_INT_OR_AUTO] = "auto or a whole number",
        [LT_FIELD_BYTES] = "a byte count",
        [LT_FIELD_FLOAT] = "a number",
        [LT_FIELD_TEXT] = "a text",
        [LT_FIELD_BOOL_OR_TEXT] = "true, false or a text",
        [LT_FIELD_CHOICE] = "one of its words",
        [LT_FIELD_TEXTS] = "a list of texts",
        [LT_FIELD_TEXT_OR_TEXTS] = "a text or a list of texts",
        [LT_FIELD_INTS] = "a list of whole numbers",
        [LT_FIELD_RECORD] = "a mapping",
        [LT_FIELD_RECORDS] = "a list of mappings",
        [LT_FIELD_ANY] = "anything",
    };
    return words[f->kind];
}

static bool unexpected(lt_convert *c, const lt_field *f, const lt_yaml_node *node)
{
    if (node->kind == LT_YAML_NULL)
        return wrong(c, node, "expected %s, got null; remove the key to get the default (%s)",
                     lt_convert_words(f), f->standard ? f->standard : "none");
    return wrong(c, node, "expected %s, got %s", lt_convert_words(f), lt_yaml_describe(node).s);
}

// The text without blanks around it and without single underscores between digits; false when it
// does not fit.
static bool clean_number(const char *text, char *out, size_t size)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t len = strlen(text), n = 0;
    while (len > 0 && strchr(blanks, text[len - 1]))
        len--;
    for (size_t i = 0; i < len && n + 1 < size; i++) {
        const bool between = i > 0 && i + 1 < len && text[i - 1] >= '0' && text[i - 1] <= '9' &&
                             text[i + 1] >= '0' && text[i + 1] <= '9';
        if (text[i] != '_' || !between)
            out[n++] = text[i];
    }
    out[n] = '\0';
    return n > 0 && n + 1 < size;
}

// [+-]digits, with .0 behind it at most.
static bool text_to_int(const char *text, int64_t *value)
{
    char body[64];
    if (!clean_number(text, body, sizeof body))
        return false;
    const char *p = body + (body[0] == '+' || body[0] == '-');
    int64_t v = 0;
    const char *start = p;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (!lt_mul_i64(v, 10, &v) || !lt_add_i64(v, *p - '0', &v))
            return false;
    }
    if (p == start)
        return false;
    if (p[0] == '.' && p[1] == '0')
        p += 1 + strspn(p + 1, "0");
    *value = body[0] == '-' ? -v : v;
    return *p == '\0';
}

static bool in_range(lt_convert *c, const lt_field *f, const lt_yaml_node *node, double x)
{
    const lt_range *r = f->range;
    if (!r ||
        ((r->open_low ? x > r->low : x >= r->low) && (r->open_high ? x < r->high : x <= r->high)))
        return true;
    return wrong(c, node, "has to be %s, got %s", r->words, node->text);
}

static bool int_value(lt_convert *c, const lt_field *f, const lt_yaml_node *node, int64_t *value)
{
    switch (node->kind) {
    case LT_YAML_INT:
        if (node->too_big)
            return wrong(c, node, "%s does not fit into 64 bits", node->text);
        *value = node->integer;
        return true;
    case LT_YAML_BOOL:
        *value = node->boolean;
        return true;
    case LT_YAML_FLOAT:
        if (!(fabs(node->real) < 0x1p63) || node->real != trunc(node->real))
            return unexpected(c, f, node);
        *value = (int64_t)node->real;
        return true;
    case LT_YAML_TEXT:
        return text_to_int(node->text, value) || unexpected(c, f, node);
    case LT_YAML_NULL:
    case LT_YAML_DATE:
    case LT_YAML_LIST:
    case LT_YAML_MAP:
        break;
    }
    return unexpected(c, f, node);
}

static bool to_int(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    int64_t v = 0;
    if (!int_value(c, f, node, &v) || !in_range(c, f, node, (double)v))
        return false;
    *(int64_t *)into = v;
    return true;
}

static bool to_int_or_auto(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    if (node->kind != LT_YAML_TEXT || strcmp(node->text, "auto") != 0)
        return to_int(c, f, node, into);
    *(int64_t *)into = LT_CFG_AUTO;
    return true;
}

static bool to_bytes(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    int64_t v = 0;
    if ((node->kind != LT_YAML_TEXT && node->kind != LT_YAML_INT) ||
        !lt_bytes_parse(node->text, &v))
        return wrong(c, node, "expected a byte count such as 64GiB, got %s",
                     lt_yaml_describe(node).s);
    if (!in_range(c, f, node, (double)v))
        return false;
    *(int64_t *)into = v;
    return true;
}

static bool text_to_float(const char *text, double *value)
{
    char body[128];
    if (!clean_number(text, body, sizeof body) || body[strspn(body, "0123456789+-.eE")] != '\0')
        return false;
    char *end = NULL;
    *value = strtod(body, &end);
    return *end == '\0';
}

static bool to_float(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    double x = node->real;
    if (node->kind != LT_YAML_INT && node->kind != LT_YAML_FLOAT &&
        (node->kind != LT_YAML_TEXT || !text_to_float(node->text, &x)))
        return unexpected(c, f, node);
    if (!isfinite(x))
        return wrong(c, node, "has to be a finite number, got %s", node->text);
    if (!in_range(c, f, node, x))
        return false;
    *(double *)into = x;
    return true;
}

static bool bool_value(lt_convert *c, const lt_field *f, const lt_yaml_node *node, bool *value)
{
    static const char *const yes[] = {"true", "yes", "on", "t", "y", "1"}, *const no[] = {
                                                                               "false", "no", "off",
                                                                               "f",     "n",  "0"};
    if (node->kind == LT_YAML_BOOL) {
        *value = node->boolean;
        return true;
    }
    if ((node->kind == LT_YAML_INT || node->kind == LT_YAML_FLOAT) &&
        (node->real == 0 || node->real == 1)) {
        *value = node->real == 1;
        return true;
    }
    for (size_t i = 0; node->kind == LT_YAML_TEXT && i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(node->text, yes[i]) == 0 || strcasecmp(node->text, no[i]) == 0) {
            *value = strcasecmp(node->text, yes[i]) == 0;
            return true;
        }
    }
    return unexpected(c, f, node);
}

static bool to_bool(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    return bool_value(c, f, node, into);
}

static bool to_tristate(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    bool v = false;
    if (!bool_value(c, f, node, &v))
        return false;
    *(int *)into = v;
    return true;
}

// "word" is none of: a, b, c; did you mean b?
static bool not_a_choice(lt_convert *c, const lt_field *f, const lt_yaml_node *node)
{
    char list[256];
    size_t len = 0;
    int64_t n = 0;
    for (; f->choices[n] && len < sizeof list; n++)
        len +=
            (size_t)snprintf(list + len, sizeof list - len, "%s%s", n ? ", " : "", f->choices[n]);
    const char *near =
        node->kind == LT_YAML_TEXT ? lt_text_nearest(node->text, f->choices, n) : NULL;
    if (near)
        return wrong(c, node, "%s is none of %s; did you mean %s?", lt_yaml_describe(node).s, list,
                     near);
    return wrong(c, node, "%s is none of %s", lt_yaml_describe(node).s, list);
}

static int choice_of(const lt_field *f, const lt_yaml_node *node)
{
    for (int i = 0; node->kind == LT_YAML_TEXT && f->choices[i]; i++) {
        if (strcmp(node->text, f->choices[i]) == 0)
            return i;
    }
    return -1;
}

static bool to_choice(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    const int i = choice_of(f, node);
    if (i < 0)
        return not_a_choice(c, f, node);
    *(int *)into = i;
    return true;
}

static bool lower_text(lt_convert *c, const char *text, const char **out)
{
    char *copy = NULL;
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    if (!out_of_memory(c, lt_arena_text(c->arena, text, len, &copy)))
        return false;
    for (char *p = copy; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    }
    *out = copy;
    return true;
}

static bool pattern_is_right(lt_convert *c, const lt_field *f, const lt_yaml_node *node)
{
    if (!(f->flags & LT_FIELD_PATTERNS) || lt_pattern_check(node->text) == LT_OK)
        return true;
    const bool ok = wrong(c, node, "%s", lt_error_message());
    lt_error_clear();
    return ok;
}

static bool text_value(lt_convert *c, const lt_field *f, const lt_yaml_node *node, const char **out)
{
    if (node->kind == LT_YAML_NULL)
        return unexpected(c, f, node);
    if (node->kind == LT_YAML_LIST || node->kind == LT_YAML_MAP)
        return wrong(c, node, "expected a text, got %s", lt_yaml_describe(node).s);
    if (node->kind != LT_YAML_TEXT) {
        return wrong(c, node,
                     "expected a text, got %s; if the text is meant, put it in quotes: \"%s\"",
                     lt_yaml_describe(node).s, lt_yaml_excerpt(node->text).s);
    }
    if (f->choices && f->kind == LT_FIELD_TEXT && choice_of(f, node) < 0)
        return not_a_choice(c, f, node);
    if (!pattern_is_right(c, f, node))
        return false;
    *out = node->text;
    return (f->flags & LT_FIELD_LOWER) ? lower_text(c, node->text, out) : true;
}

static bool to_text(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    return text_value(c, f, node, into);
}

static bool to_bool_or_text(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    if (node->kind != LT_YAML_BOOL)
        return node->kind == LT_YAML_TEXT ? lower_text(c, node->text, into)
                                          : unexpected(c, f, node);
    *(const char **)into = node->boolean ? "true" : "false";
    return true;
}

static bool expect_list(lt_convert *c, const lt_field *f, const lt_yaml_node *node)
{
    if (node->kind == LT_YAML_LIST)
        return true;
    if (node->kind == LT_YAML_TEXT)
        return wrong(c, node, "expected %s, got the text \"%s\"; write [%s]", lt_convert_words(f),
                     lt_yaml_excerpt(node->text).s, lt_yaml_excerpt(node->text).s);
    return unexpected(c, f, node);
}

static bool to_texts(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    void *items = NULL;
    if (!expect_list(c, f, node) ||
        !out_of_memory(c, lt_arena_take(c->arena, (size_t)node->n * sizeof(char *), &items)))
        return false;
    for (int64_t i = 0; i < node->n; i++) {
        snprintf(c->item, sizeof c->item, "[%lld]", (long long)i);
        if (!text_value(c, f, node->items[i], (const char **)items + i))
            return false;
    }
    c->item[0] = '\0';
    *(lt_texts *)into = (lt_texts){.items = items, .n = node->n};
    return true;
}

// "a.json, b.json": the names between the commas, blanks around them dropped, empty ones left out.
static bool split_text(lt_convert *c, const char *text, lt_texts *out)
{
    void *memory = NULL;
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += *p == ',';
    if (!out_of_memory(c, lt_arena_take(c->arena, most * sizeof(char *), &memory)))
        return false;
    const char **items = memory;
    int64_t n = 0;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ",");
        const char *next = p + len + (p[len] == ',');
        while (len > 0 && *p == ' ')
            p++, len--;
        while (len > 0 && p[len - 1] == ' ')
            len--;
        char *copy = NULL;
        if (len > 0 && !out_of_memory(c, lt_arena_text(c->arena, p, len, &copy)))
            return false;
        if (len > 0)
            items[n++] = copy;
        p = next;
    }
    *out = (lt_texts){.items = items, .n = n};
    return true;
}

static bool to_text_or_texts(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    return node->kind == LT_YAML_TEXT ? split_text(c, node->text, into)
                                      : to_texts(c, f, node, into);
}

static bool to_ints(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    void *items = NULL;
    if (!expect_list(c, f, node) ||
        !out_of_memory(c, lt_arena_take(c->arena, (size_t)node->n * sizeof(int64_t), &items)))
        return false;
    for (int64_t i = 0; i < node->n; i++) {
        snprintf(c->item, sizeof c->item, "[%lld]", (long long)i);
        if (!int_value(c, f, node->items[i], (int64_t *)items + i))
            return false;
    }
    c->item[0] = '\0';
    *(lt_ints *)into = (lt_ints){.items = items, .n = node->n};
    return true;
}

static bool to_nothing(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    (void)c, (void)f, (void)node, (void)into;
    return true;
}

bool lt_convert_node(lt_convert *c, const lt_field *f, const lt_yaml_node *node, void *into)
{
    static const converter converters[LT_N_FIELD_KINDS] = {
        [LT_FIELD_BOOL] = to_bool,
        [LT_FIELD_TRISTATE] = to_tristate,
        [LT_FIELD_INT] = to_int,
        [LT_FIELD_INT_OR_AUTO] = to_int_or_auto,
        [LT_FIELD_BYTES] = to_bytes,
        [LT_FIELD_FLOAT] = to_float,
        [LT_FIELD_TEXT] = to_text,
        [LT_FIELD_BOOL_OR_TEXT] = to_bool_or_text,
        [LT_FIELD_CHOICE] = to_choice,
        [LT_FIELD_TEXTS] = to_texts,
        [LT_FIELD_TEXT_OR_TEXTS] = to_text_or_texts,
        [LT_FIELD_INTS] = to_ints,
        [LT_FIELD_ANY] = to_nothing,
    };
    LT_ASSERT(converters[f->kind]);
    c->item[0] = '\0';
    return converters[f->kind](c, f, node, into);
}

static void set_absent(const lt_field *f, void *into)
{
    switch (f->kind) {
    case LT_FIELD_INT:
    case LT_FIELD_INT_OR_AUTO:
    case LT_FIELD_BYTES:
        *(int64_t *)into = LT_CFG_NONE;
        return;
    case LT_FIELD_FLOAT:
        *(double *)into = (double)NAN;
        return;
    case LT_FIELD_TRISTATE:
    case LT_FIELD_CHOICE:
        *(int *)into = -1;
        return;
    case LT_FIELD_BOOL:
        *(bool *)into = false;
        return;
    case LT_FIELD_TEXT:
    case LT_FIELD_BOOL_OR_TEXT:
        *(const char **)into = NULL;
        return;
    case LT_FIELD_TEXTS:
    case LT_FIELD_TEXT_OR_TEXTS:
    case LT_FIELD_INTS:
    case LT_FIELD_RECORDS: // empty lists: the struct is zero
    case LT_FIELD_RECORD:
    case LT_FIELD_ANY:
    case LT_N_FIELD_KINDS:
        return;
    }
}

lt_status lt_convert_default(lt_arena *arena, const lt_field *f, void *into)
{
    if (!f->standard) {
        set_absent(f, into);
        return LT_OK;
    }
    lt_convert c = {.arena = arena};
    lt_yaml_node scalar = {.plain = true, .text = f->standard}, *node = &scalar;
    lt_yaml_resolve(&scalar);
    if (f->standard[0] == '[')
        LT_TRY(lt_yaml_parse(arena, f->key, f->standard, strlen(f->standard), 0, NULL, &node));
    const bool ok = lt_convert_node(&c, f, node, into);
    LT_TRY(c.st);
    LT_ASSERT(ok);
    return LT_OK;
}
