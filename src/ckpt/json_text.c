// SPDX-License-Identifier: Apache-2.0
// JSON as text: a scanner that knows where each value begins and ends, and what path leads to it.
#include "ckpt/json_text.h"
#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 64,
    MAX_PATH_BYTES = 4096,
};

typedef struct scanner {
    const char *text;
    size_t len, at;
    lt_buf path; // dotted
    int depth;
    lt_json_visit visit;
    void *ctx;
    lt_buf out;    // the text with its changes, up to `copied`
    size_t copied; // of `text`
} scanner;

lt_status lt_json_quote(lt_buf *out, const char *text)
{
    static const char escapes[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    LT_TRY(lt_buf_text(out, "\""));
    for (const char *p = text; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            LT_TRY(lt_buf_printf(out, "\\%c", c));
        else if (c < 32 && escapes[c] != 0)
            LT_TRY(lt_buf_printf(out, "\\%c", escapes[c]));
        else if (c < 32)
            LT_TRY(lt_buf_printf(out, "\\u%04x", c));
        else
            LT_TRY(lt_buf_append(out, p, 1));
    }
    return lt_buf_text(out, "\"");
}

static lt_status broken(const scanner *s, const char *wanted)
{
    size_t line = 1;
    for (size_t i = 0; i < s->at && i < s->len; i++)
        line += s->text[i] == '\n';
    return LT_FAIL(LT_ERR_FORMAT, "not valid JSON: line %zu: %s expected", line, wanted);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The next character that isn't white space, 0 at the end.
static char peek(scanner *s)
{
    while (s->at < s->len && is_space(s->text[s->at]))
        s->at++;
    if (s->at < s->len)
        return s->text[s->at];
    return '\0';
}

static bool take(scanner *s, char c)
{
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}

static lt_status scan_string(scanner *s)
{
    if (!take(s, '"'))
        return broken(s, "a string");
    bool escaped = false;
    while (s->at < s->len && (unsigned char)s->text[s->at] >= 32 &&
           (escaped || s->text[s->at] != '"')) {
        escaped = !escaped && s->text[s->at] == '\\';
        s->at++;
    }
    if (s->at >= s->len || s->text[s->at] != '"')
        return broken(s, "the end of a string");
    s->at++;
    return LT_OK;
}

// Numbers, true, false, null, and Python's NaN and Infinity.
static lt_status scan_word(scanner *s)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    const size_t begin = s->at;
    while (s->at < s->len && s->text[s->at] != '\0' && strchr(allowed, s->text[s->at]) != NULL)
        s->at++;
    return s->at > begin ? LT_OK : broken(s, "a value");
}

static lt_status scan_value(scanner *s);

// One member or item: its value, with its key (or index) at the end of the path.
static lt_status scan_child(scanner *s, const char *key, size_t key_len)
{
    const size_t old = s->path.len;
    if (old + key_len + 1 > MAX_PATH_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "JSON path of more than %d bytes", MAX_PATH_BYTES);
    LT_TRY(lt_buf_text(&s->path, "."));
    LT_TRY(lt_buf_append(&s->path, key, key_len));
    LT_TRY(scan_value(s));
    s->path.len = old;
    s->path.data[old] = '\0';
    return LT_OK;
}

static lt_status scan_object(scanner *s)
{
    s->at++;
    if (take(s, '}'))
        return LT_OK;
    do {
        peek(s);
        const size_t begin = s->at + 1;
        LT_TRY(scan_string(s));
        const size_t end = s->at - 1;
        if (!take(s, ':'))
            return broken(s, "a colon");
        LT_TRY(scan_child(s, s->text + begin, end - begin));
    } while (take(s, ','));
    return take(s, '}') ? LT_OK : broken(s, "a comma or }");
}

static lt_status scan_array(scanner *s)
{
    s->at++;
    if (take(s, ']'))
        return LT_OK;
    int64_t index = 0;
    do {
        char key[24];
        const int len = snprintf(key, sizeof key, "%lld", (long long)index++);
        LT_TRY(scan_child(s, key, (size_t)len));
    } while (take(s, ','));
    return take(s, ']') ? LT_OK : broken(s, "a comma or ]");
}

static lt_status scan_value(scanner *s)
{
    const char first = peek(s);
    const size_t begin = s->at;
    const bool nested = first == '{' || first == '[';
    if (s->depth >= MAX_DEPTH)
        return LT_FAIL(LT_ERR_FORMAT, "JSON nested deeper than %d levels", MAX_DEPTH);
    s->depth++;
    if (nested)
        LT_TRY(first == '{' ? scan_object(s) : scan_array(s));
    else
        LT_TRY(first == '"' ? scan_string(s) : scan_word(s));
    s->depth--;
    const char *value =
        s->visit(s->ctx, s->path.len > 0 ? s->path.data : "", s->text + begin, s->at - begin);
    if (value == NULL || nested)
        return LT_OK;
    LT_TRY(lt_buf_append(&s->out, s->text + s->copied, begin - s->copied));
    LT_TRY(lt_buf_text(&s->out, value));
    s->copied = s->at;
    return LT_OK;
}

static lt_status scan_text(scanner *s)
{
    LT_TRY(scan_value(s));
    if (peek(s) != '\0' || s->at < s->len)
        return broken(s, "the end of the file");
    return lt_buf_append(&s->out, s->text + s->copied, s->len - s->copied);
}

lt_status lt_json_edit(lt_buf *text, lt_json_visit visit, void *ctx)
{
    scanner s = {.text = text->data, .len = text->len, .visit = visit, .ctx = ctx};
    const lt_status st = scan_text(&s);
    lt_buf_deinit(&s.path);
    if (st != LT_OK) {
        lt_buf_deinit(&s.out);
        return st;
    }
    lt_buf_deinit(text);
    *text = s.out;
    return LT_OK;
}

// ---- setting one value

typedef struct target {
    const char *text;
    const char *path;  // with its first dot
    size_t begin, len; // of the value at `path`; len 0: there is none
    size_t holder,
        holder_path_len; // the deepest object on the way, and how much of the path leads to it
    bool blocked;        // something on the way isn't an object
} target;

// Called children first, so the first holder of a path is the deepest; with a key twice the last
// one counts, as for most readers.
static const char *find_target(void *ctx, const char *path, const char *value, size_t len)
{
    target *t = ctx;
    const size_t n = strlen(path);
    if (strcmp(path, t->path) == 0) {
        t->begin = (size_t)(value - t->text);
        t->len = len;
        return NULL;
    }
    if (strncmp(t->path, path, n) != 0 || t->path[n] != '.')
        return NULL;
    if (value[0] != '{') {
        t->blocked = true;
    } else if (t->holder == SIZE_MAX) {
        t->holder = (size_t)(value - t->text);
        t->holder_path_len = n;
    }
    return NULL;
}

// "a": {"b": VALUE} for the rest of the path below the holder.
static lt_status append_member(lt_buf *out, const char *path, const char *value)
{
    int depth = 0;
    for (const char *at = path; at != NULL; depth++) {
        const char *dot = strchr(at, '.');
        const size_t len = dot != NULL ? (size_t)(dot - at) : strlen(at);
        LT_TRY(lt_buf_text(out, depth > 0 ? "{\"" : "\""));
        LT_TRY(lt_buf_append(out, at, len));
        LT_TRY(lt_buf_text(out, "\": "));
        at = dot != NULL ? dot + 1 : NULL;
    }
    LT_TRY(lt_buf_text(out, value));
    for (; depth > 1; depth--)
        LT_TRY(lt_buf_text(out, "}"));
    return LT_OK;
}

// A new first member, on a line of its own where the others have theirs.
static lt_status insert_member(const lt_buf *text, const target *t, const char *value, lt_buf *out)
{
    const size_t inside = t->holder + 1;
    size_t first = inside;
    while (is_space(text->data[first]))
        first++;
    LT_TRY(lt_buf_append(out, text->data, first));
    LT_TRY(append_member(out, t->path + t->holder_path_len + 1, value));
    if (text->data[first] != '}') {
        LT_TRY(lt_buf_text(out, ","));
        LT_TRY(lt_buf_append(out, first > inside ? text->data + inside : " ",
                             first > inside ? first - inside : 1));
    }
    return lt_buf_append(out, text->data + first, text->len - first);
}

static lt_status replace_value(const lt_buf *text, const target *t, const char *value, lt_buf *out)
{
    const size_t end = t->begin + t->len;
    LT_TRY(lt_buf_append(out, text->data, t->begin));
    LT_TRY(lt_buf_text(out, value));
    return lt_buf_append(out, text->data + end, text->len - end);
}

static lt_status set_dotted(lt_buf *text, const char *path, const char *value)
{
    // The scan copies the text; positions are those of the copy, which has the same bytes.
    lt_buf out = {0};
    lt_status st;
    target t = {.text = text->data, .path = path, .holder = SIZE_MAX};
    scanner s = {.text = text->data, .len = text->len, .visit = find_target, .ctx = &t};
    LT_TRY_GOTO(st, scan_text(&s), done);
    if (t.len == 0 && (t.blocked || t.holder == SIZE_MAX)) {
        st = LT_FAIL(LT_ERR_FORMAT, "%s can't be set: something on the way to it isn't an object",
                     path + 1);
        goto done;
    }
    LT_TRY_GOTO(
        st, t.len > 0 ? replace_value(text, &t, value, &out) : insert_member(text, &t, value, &out),
        done);
    lt_buf_deinit(text);
    *text = out;
    out = (lt_buf){0};
done:
    lt_buf_deinit(&out);
    lt_buf_deinit(&s.path);
    lt_buf_deinit(&s.out);
    return st;
}

lt_status lt_json_set(lt_buf *text, const char *path, const char *value)
{
    lt_buf dotted = {0};
    int n_keys = 1;
    bool plain = true;
    for (const char *p = path; *p != '\0'; p++) {
        n_keys += *p == '.';
        plain = plain && (unsigned char)*p >= 32 && *p != '"' && *p != '\\';
    }
    if (!plain || n_keys >= MAX_DEPTH || strlen(path) >= MAX_PATH_BYTES) {
        return LT_FAIL(
            LT_ERR_FORMAT,
            "%.100s can't be set: a path is plain text of less than %d keys and %d bytes", path,
            MAX_DEPTH, MAX_PATH_BYTES);
    }
    lt_status st = lt_buf_printf(&dotted, ".%s", path);
    if (st == LT_OK)
        st = set_dotted(text, dotted.data, value);
    lt_buf_deinit(&dotted);
    return st;
}
