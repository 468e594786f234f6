// SPDX-License-Identifier: Apache-2.0
// The configuration as YAML that loads to the same values, and the table of all keys.
#include "base/number.h"
#include "train/config/state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- values ----

// May the text stand without quotes, in a flow list too?
static bool is_plain(const char *text)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@+-~";
    lt_yaml_node node = {.text = text};
    lt_yaml_resolve(&node);
    return node.kind == LT_YAML_TEXT && text[0] != '-' && text[0] != '@' && text[0] != '~' &&
           strcmp(text, "=") != 0 && text[strspn(text, safe)] == '\0';
}

// How many bytes at p make one character, and its number (the text is valid UTF-8).
static size_t character_at(const char *p, uint32_t *number)
{
    const unsigned char c = (unsigned char)p[0];
    const size_t len = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    *number = len == 1 ? c : c & (0x7FU >> len);
    for (size_t i = 1; i < len && p[i] != '\0'; i++)
        *number = *number << 6 | ((unsigned char)p[i] & 0x3FU);
    return len;
}

// Control characters, line ends and the byte-order mark may not stand as they are in a quoted text.
static bool needs_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || c == 0xFEFF ||
           (c & 0xFFFE) == 0xFFFE;
}

static lt_status text_out(const char *text, lt_buf *out)
{
    if (!text)
        return lt_buf_text(out, "null");
    if (is_plain(text))
        return lt_buf_text(out, text);
    LT_TRY(lt_buf_text(out, "\""));
    for (const char *p = text; *p;) {
        uint32_t c = 0;
        const size_t len = character_at(p, &c);
        if (c == '"' || c == '\\')
            LT_TRY(lt_buf_printf(out, "\\%c", (char)c));
        else if (needs_escape(c))
            LT_TRY(lt_buf_printf(out, "\\U%08X", c));
        else
            LT_TRY(lt_buf_append(out, p, len));
        p += len;
    }
    return lt_buf_text(out, "\"");
}

// YAML 1.1 wants a point in front of the exponent.
static lt_status float_out(double x, lt_buf *out)
{
    const lt_text32 text = lt_double_text(x);
    const char *e = strchr(text.s, 'e');
    if (isnan(x))
        return lt_buf_text(out, "null");
    if (e && !strchr(text.s, '.'))
        return lt_buf_printf(out, "%.*s.0%s", (int)(e - text.s), text.s, e);
    return lt_buf_text(out, text.s);
}

static lt_status int_out(const lt_field *f, int64_t v, lt_buf *out)
{
    if (v == LT_CFG_NONE)
        return lt_buf_text(out, "null");
    if (f->kind == LT_FIELD_INT_OR_AUTO && v == LT_CFG_AUTO)
        return lt_buf_text(out, "auto");
    return lt_buf_printf(out, "%lld", (long long)v);
}

static lt_status texts_out(const lt_texts *list, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "["));
    for (int64_t i = 0; i < list->n; i++) {
        LT_TRY(lt_buf_text(out, i ? ", " : ""));
        LT_TRY(text_out(list->items[i], out));
    }
    return lt_buf_text(out, "]");
}

static lt_status ints_out(const lt_ints *list, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "["));
    for (int64_t i = 0; i < list->n; i++)
        LT_TRY(lt_buf_printf(out, "%s%lld", i ? ", " : "", (long long)list->items[i]));
    return lt_buf_text(out, "]");
}

static lt_status records_out(const lt_field *f, const void *member, lt_buf *out)
{
    const char *items = *(const char *const *)member;
    const int64_t n = *(const int64_t *)((const char *)member + sizeof items);
    LT_TRY(lt_buf_text(out, "["));
    for (int64_t i = 0; i < n; i++) {
        LT_TRY(lt_buf_text(out, i ? ", {" : "{"));
        for (int64_t k = 0; k < f->record->n; k++) {
            const lt_field *inner = &f->record->fields[k];
            LT_TRY(lt_buf_printf(out, "%s%s: ", k ? ", " : "", inner->key));
            LT_TRY(
                lt_config_value_text(inner, items + (size_t)i * f->record->bytes + inner->at, out));
        }
        LT_TRY(lt_buf_text(out, "}"));
    }
    return lt_buf_text(out, "]");
}

lt_status lt_config_value_text(const lt_field *f, const void *member, lt_buf *out)
{
    switch (f->kind) {
    case LT_FIELD_BOOL:
        return lt_buf_text(out, *(const bool *)member ? "true" : "false");
    case LT_FIELD_TRISTATE:
        return lt_buf_text(out, *(const int *)member < 0 ? "null"
                                : *(const int *)member   ? "true"
                                                         : "false");
    case LT_FIELD_INT:
    case LT_FIELD_INT_OR_AUTO:
    case LT_FIELD_BYTES:
        return int_out(f, *(const int64_t *)member, out);
    case LT_FIELD_FLOAT:
        return float_out(*(const double *)member, out);
    case LT_FIELD_TEXT:
        return text_out(*(const char *const *)member, out);
    case LT_FIELD_BOOL_OR_TEXT:
        return lt_buf_text(out, *(const char *const *)member);
    case LT_FIELD_CHOICE:
        return lt_buf_text(out,
                           *(const int *)member < 0 ? "null" : f->choices[*(const int *)member]);
    case LT_FIELD_TEXTS:
    case LT_FIELD_TEXT_OR_TEXTS:
        return texts_out(member, out);
    case LT_FIELD_INTS:
        return ints_out(member, out);
    case LT_FIELD_RECORDS:
        return records_out(f, member, out);
    case LT_FIELD_RECORD:
    case LT_FIELD_ANY:
    case LT_N_FIELD_KINDS:
        break;
    }
    return LT_OK;
}

lt_status lt_config_is_default(const lt_field *f, const void *member, bool *same)
{
    union {
        int64_t i;
        double x;
        const char *text;
        lt_texts texts;
        lt_ints ints;
        lt_cfg_lr_scales scales;
    } standard = {.scales = {0}};
    lt_arena *arena = NULL;
    lt_buf a = {0}, b = {0};
    LT_TRY(lt_arena_create(&arena, "a default value"));
    lt_status st = lt_convert_default(arena, f, &standard);
    if (st == LT_OK)
        st = lt_config_value_text(f, &standard, &a);
    if (st == LT_OK)
        st = lt_config_value_text(f, member, &b);
    if (st == LT_OK)
        *same = a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
    lt_buf_deinit(&a);
    lt_buf_deinit(&b);
    lt_arena_destroy(arena);
    return st;
}

// ---- the whole ----

typedef struct printer {
    const lt_config *cfg;
    lt_buf *out;
} printer;

static int depth_of(const char *path)
{
    int depth = 0;
    for (const char *p = path; *p; p++)
        depth += *p == '.';
    return depth;
}

// The optional validation set is left out whole where the file has none.
static bool is_left_out(const printer *p, const char *path)
{
    static const char val[] = "data.val_dataset_param";
    return !p->cfg->data.val_dataset_param.given && lt_text_starts(path, val);
}

static lt_status print_field(void *ctx, const lt_field *f, const char *path, const void *member)
{
    printer *p = ctx;
    if (f->kind == LT_FIELD_ANY || is_left_out(p, path))
        return LT_OK;
    LT_TRY(lt_buf_printf(p->out, "%*s%s:", 2 * depth_of(path), "", f->key));
    if (f->kind == LT_FIELD_RECORD)
        return lt_buf_text(p->out, "\n");
    LT_TRY(lt_buf_text(p->out, " "));
    LT_TRY(lt_config_value_text(f, member, p->out));
    return lt_buf_text(p->out, lt_config_given(p->cfg, path) ? "\n" : "  # default\n");
}

lt_status lt_config_print(const lt_config *cfg, lt_buf *out)
{
    printer p = {.cfg = cfg, .out = out};
    return lt_schema_walk(&lt_schema, cfg, print_field, &p);
}

// ---- the table of keys ----

static const char *state_words(const lt_field *f)
{
    if (f->support == LT_SUPPORT_HINT)
        return "hint";
    if (f->support == LT_SUPPORT_INERT)
        return "no effect";
    return f->refuse.when == LT_WHEN_NEVER    ? "works"
           : f->refuse.when == LT_WHEN_NOT_IN ? "works for"
                                              : "not yet when";
}

static lt_status refusal_words(const lt_field *f, lt_buf *out)
{
    const lt_refusal *r = &f->refuse;
    switch (r->when) {
    case LT_WHEN_NEVER:
        return LT_OK;
    case LT_WHEN_TRUE:
        return lt_buf_text(out, " true");
    case LT_WHEN_FALSE:
        return lt_buf_text(out, " false");
    case LT_WHEN_GIVEN:
        return lt_buf_text(out, " set");
    case LT_WHEN_ABOVE:
        return lt_buf_printf(out, " above %lld", (long long)r->limit);
    case LT_WHEN_NOT_IN:
        return lt_buf_printf(out, " %s", r->allowed);
    }
    return LT_OK;
}

static lt_status type_words(const lt_field *f, lt_buf *out)
{
    if (!f->choices)
        return lt_buf_text(out, lt_convert_words(f));
    for (int64_t i = 0; f->choices[i]; i++)
        LT_TRY(lt_buf_printf(out, "%s%s", i ? ", " : "", f->choices[i]));
    return LT_OK;
}

static lt_status keys_row(void *ctx, const lt_field *f, const char *path, const void *member)
{
    lt_buf *out = ctx;
    (void)member;
    if (lt_text_starts(path, "data.val_dataset_param."))
        return LT_OK; // as dataset_param
    if (f->kind == LT_FIELD_RECORD && !strchr(path, '.')) {
        return lt_buf_printf(
            out,
            "\n## %s\n\n%s.\n\n| key | takes | default | here | meaning |\n|---|---|---|---|---|\n",
            path, f->help);
    }
    LT_TRY(lt_buf_printf(out, "| `%s` | ", path));
    LT_TRY(type_words(f, out));
    const char *standard = (f->flags & LT_FIELD_REQUIRED) ? "required"
                           : f->kind == LT_FIELD_RECORD   ? ""
                           : f->standard                  ? f->standard
                                                          : "none";
    LT_TRY(lt_buf_printf(
        out, " | %s | %s", standard,
        f->kind == LT_FIELD_RECORD && f->support == LT_SUPPORT_WORKS ? "" : state_words(f)));
    LT_TRY(refusal_words(f, out));
    return lt_buf_printf(out, " | %s |\n", f->help);
}

static const char keys_intro[] =
    "# All keys\n\n"
    "Printed by `lathe config --keys`; a test holds this page to the program. How files are "
    "written and\n"
    "what the words mean is in [configuration.md](configuration.md).\n\n"
    "The column *here* says what a key does in this build: it *works*, *works for* the values "
    "listed,\n"
    "asks for something that does *not yet* exist *when* it has that value (a run then refuses "
    "it), is a\n"
    "*hint* that changes no result, or has *no effect*, here as in the reference.\n\n"
    "`data.val_dataset_param` has the keys of `data.dataset_param`.\n";

lt_status lt_config_keys(lt_buf *out)
{
    LT_TRY(lt_buf_text(out, keys_intro));
    return lt_schema_walk(&lt_schema, NULL, keys_row, out);
}
