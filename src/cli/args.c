// SPDX-License-Identifier: Apache-2.0
// Reading command lines by a command's table of options.
#include "cli/args.h"
#include "base/number.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 64 }; // of one command

typedef struct reader {
    const lt_command *command;
    lt_arena *arena;
    int argc, next;
    char **argv;
    char *options;
    lt_vec positional, overrides; // const char *
} reader;

static const lt_arg *find_option(const lt_command *c, const char *name, size_t len)
{
    for (int64_t i = 0; i < c->n_options; i++) {
        if (strncmp(c->options[i].name, name, len) == 0 && c->options[i].name[len] == '\0')
            return &c->options[i];
    }
    return NULL;
}

static const lt_arg *find_letter(const lt_command *c, char letter)
{
    for (int64_t i = 0; i < c->n_options; i++) {
        if (letter != '\0' && c->options[i].letter == letter)
            return &c->options[i];
    }
    return NULL;
}

static lt_status unknown_option(const lt_command *c, const char *text, size_t len)
{
    const char *names[MAX_OPTIONS];
    int64_t n = 0;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), text);
    for (; n < c->n_options && n < MAX_OPTIONS; n++)
        names[n] = c->options[n].name;
    const char *near = lt_text_nearest(word, names, n);
    if (near)
        return LT_FAIL(LT_ERR_CONFIG, "lathe %s has no option %s; did you mean %s?", c->name, word,
                       near);
    return LT_FAIL(LT_ERR_CONFIG, "lathe %s has no option %s; `lathe help %s` lists them", c->name,
                   word, c->name);
}

// ---- values ----

typedef lt_status (*take_value)(reader *r, const lt_arg *a, const char *text);

static lt_status wrong_value(const lt_arg *a, const char *text, const char *expected)
{
    return LT_FAIL(LT_ERR_CONFIG, "%s takes %s, got \"%.60s\"", a->name, expected, text);
}

static lt_status take_int(reader *r, const lt_arg *a, const char *text)
{
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return wrong_value(a, text, "a whole number");
    if (a->low < a->high && (v < a->low || v > a->high))
        return LT_FAIL(LT_ERR_CONFIG, "%s is from %lld to %lld, got %lld", a->name,
                       (long long)a->low, (long long)a->high, v);
    *(int64_t *)(void *)(r->options + a->at) = v;
    return LT_OK;
}

static lt_status take_float(reader *r, const lt_arg *a, const char *text)
{
    char *end = NULL;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v))
        return wrong_value(a, text, "a number");
    *(double *)(void *)(r->options + a->at) = v;
    return LT_OK;
}

static lt_status take_bytes(reader *r, const lt_arg *a, const char *text)
{
    return lt_bytes_parse(text, (int64_t *)(void *)(r->options + a->at))
               ? LT_OK
               : wrong_value(a, text, "a byte count such as 64GiB");
}

static lt_status take_text(reader *r, const lt_arg *a, const char *text)
{
    *(const char **)(void *)(r->options + a->at) = text;
    return LT_OK;
}

static lt_status take_texts(reader *r, const lt_arg *a, const char *text)
{
    lt_arg_texts *list = (lt_arg_texts *)(void *)(r->options + a->at);
    void *items = NULL;
    LT_TRY(lt_arena_take(r->arena, (size_t)(list->n + 1) * sizeof(char *), &items));
    if (list->n > 0)
        memcpy(items, list->items, (size_t)list->n * sizeof(char *));
    ((const char **)items)[list->n] = text;
    *list = (lt_arg_texts){.items = items, .n = list->n + 1};
    return LT_OK;
}

// The option's value: what is attached to it, else the next argument.
static lt_status take_option(reader *r, const lt_arg *a, const char *attached)
{
    static const take_value takers[LT_N_ARG_KINDS] = {[LT_ARG_INT] = take_int,
                                                      [LT_ARG_FLOAT] = take_float,
                                                      [LT_ARG_TEXT] = take_text,
                                                      [LT_ARG_BYTES] = take_bytes,
                                                      [LT_ARG_TEXTS] = take_texts};
    if (a->kind == LT_ARG_FLAG) {
        if (attached)
            return LT_FAIL(LT_ERR_CONFIG, "%s takes no value", a->name);
        *(bool *)(r->options + a->at) = true;
        return LT_OK;
    }
    if (!attached) {
        if (r->next >= r->argc)
            return LT_FAIL(LT_ERR_CONFIG, "%s needs a value: %s %s", a->name, a->name, a->value);
        attached = r->argv[r->next++];
    }
    return takers[a->kind](r, a, attached);
}

// ---- arguments ----

static lt_status take_long(reader *r, const char *text)
{
    const size_t len = strcspn(text, "=");
    const lt_arg *a = find_option(r->command, text, len);
    if (!a)
        return unknown_option(r->command, text, len);
    return take_option(r, a, text[len] == '=' ? text + len + 1 : NULL);
}

static lt_status take_short(reader *r, const char *text)
{
    const lt_arg *a = find_letter(r->command, text[1]);
    if (!a)
        return unknown_option(r->command, text, strlen(text));
    return take_option(r, a, text[2] == '\0' ? NULL : text[2] == '=' ? text + 3 : text + 2);
}

// word.word=..., without a slash before the sign.
static bool looks_like_override(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const size_t len = strspn(text, letters);
    return len > 0 && text[len] == '=' && memchr(text, '.', len) != NULL;
}

static lt_status take_argument(reader *r, const char *text, bool options_ended)
{
    if (!options_ended && strncmp(text, "--", 2) == 0)
        return take_long(r, text);
    if (!options_ended && text[0] == '-' && text[1] != '\0')
        return take_short(r, text);
    if (r->command->overrides && looks_like_override(text))
        return lt_vec_push(&r->overrides, &text);
    return lt_vec_push(&r->positional, &text);
}

static lt_status check_count(const lt_command *c, const lt_vec *positional)
{
    if (positional->n < c->min_positional)
        return LT_FAIL(LT_ERR_CONFIG, "lathe %s needs %s; `lathe help %s` says more", c->name,
                       c->positional, c->name);
    if (positional->n > c->max_positional) {
        return LT_FAIL(LT_ERR_CONFIG, "lathe %s does not know what to do with \"%.80s\"%s", c->name,
                       LT_AT(positional, const char *, c->max_positional),
                       c->overrides ? "; settings are written section.key=value" : "");
    }
    return LT_OK;
}

static lt_status keep(lt_arena *arena, const lt_vec *list, lt_arg_texts *out)
{
    void *items = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)list->n * sizeof(char *), &items));
    if (list->n > 0)
        memcpy(items, list->data, (size_t)list->n * sizeof(char *));
    *out = (lt_arg_texts){.items = items, .n = list->n};
    return LT_OK;
}

static lt_status read_all(reader *r, lt_args *rest)
{
    bool ended = false;
    while (r->next < r->argc) {
        const char *text = r->argv[r->next++];
        if (!ended && strcmp(text, "--") == 0)
            ended = true;
        else
            LT_TRY(take_argument(r, text, ended));
    }
    LT_TRY(check_count(r->command, &r->positional));
    LT_TRY(keep(r->arena, &r->positional, &rest->positional));
    return keep(r->arena, &r->overrides, &rest->overrides);
}

lt_status lt_args_parse(const lt_command *command, lt_arena *arena, int argc, char **argv,
                        void *options, lt_args *rest)
{
    reader r = {.command = command,
                .arena = arena,
                .argc = argc,
                .next = 1,
                .argv = argv,
                .options = options};
    r.positional = LT_VEC_OF(const char *);
    r.overrides = LT_VEC_OF(const char *);
    const lt_status st = read_all(&r, rest);
    lt_vec_deinit(&r.positional);
    lt_vec_deinit(&r.overrides);
    return st;
}

lt_status lt_args_usage(const lt_command *c, lt_buf *out)
{
    enum { COLUMN = 26 };
    LT_TRY(lt_buf_printf(out, "usage: lathe %s%s%s%s%s\n\n%s.\n", c->name,
                         c->n_options ? " [options]" : "", c->positional ? " " : "",
                         c->positional ? c->positional : "",
                         c->overrides ? " [section.key=value ...]" : "", c->summary));
    if (c->n_options > 0)
        LT_TRY(lt_buf_text(out, "\noptions:\n"));
    for (int64_t i = 0; i < c->n_options; i++) {
        const lt_arg *a = &c->options[i];
        char left[64], letter[8] = "";
        if (a->letter)
            snprintf(letter, sizeof letter, "-%c, ", a->letter);
        snprintf(left, sizeof left, "%s%s%s%s", letter, a->name, a->value ? " " : "",
                 a->value ? a->value : "");
        LT_TRY(lt_buf_printf(out, "  %-*s %s\n", COLUMN, left, a->help));
    }
    return c->details ? lt_buf_printf(out, "\n%s", c->details) : LT_OK;
}
