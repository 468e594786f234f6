// SPDX-License-Identifier: Apache-2.0
// Finding records: one pass over the bytes that minds strings and brackets; each record is parsed
// by itself later.
#include "data/dataset/records.h"
#include "base/file.h"
#include "data/dataset/plain_json.h"
#include "data/dataset/python_json.h"
#include <string.h>

// Limits: brackets inside each other (Jansson's own is 2048), bytes of one record, files.
enum { MAX_DEPTH = 2000, MAX_RECORD = 1 << 30, MAX_FILES = 1 << 16 };
// The scan gives back what it has read, so much at a time.
enum { FORGET_BYTES = 1 << 24 };

typedef struct record {
    int64_t offset, line;
    int32_t bytes, file;
} record;

typedef struct source {
    const char *name, *text;
    size_t len;
    lt_mapped map;
    int64_t first; // index of its first record
    bool lines;    // one object a line, not an array
} source;

struct lt_records {
    lt_arena *arena;
    lt_vec sources, records;
    int64_t total, max;
};

typedef struct scan {
    lt_records *r;
    source *in;
    int32_t file;
    size_t at, forgotten;
    int64_t line, number; // number: records of this file so far
} scan;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(scan *s)
{
    while (s->at < s->in->len && is_blank(s->in->text[s->at])) {
        s->line += s->in->text[s->at] == '\n';
        s->at++;
    }
}

static lt_status keep(scan *s, size_t start, size_t end, int64_t line)
{
    if (end - start > MAX_RECORD)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%lld: record %lld has %zu bytes, more than %d",
                       s->in->name, (long long)line, (long long)s->number, end - start, MAX_RECORD);
    if (s->in->map.data && end - s->forgotten >= FORGET_BYTES) {
        lt_file_forget(&s->in->map, s->forgotten, end);
        s->forgotten = end;
    }
    s->r->total++;
    if (s->r->max > 0 && s->r->records.n >= s->r->max)
        return LT_OK;
    const record rec = {(int64_t)start, line, (int32_t)(end - start), s->file};
    return lt_vec_push(&s->r->records, &rec);
}

// What Jansson says about text that begins at a record which our scan could not get past.
static lt_status explain(const scan *s, size_t start, int64_t line)
{
    json_error_t error;
    json_t *value = json_loadb(s->in->text + start, s->in->len - start,
                               JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, &error);
    json_decref(value);
    if (value) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s:%lld: record %lld cannot be told apart from what follows it",
                       s->in->name, (long long)line, (long long)s->number);
    }
    return LT_FAIL(LT_ERR_FORMAT, "%s:%lld: record %lld (it begins in line %lld): %s", s->in->name,
                   (long long)(line + error.line - 1), (long long)s->number, (long long)line,
                   error.text);
}

// Past the closing quote of a string; s->at is behind the opening one.
static bool skip_string(scan *s)
{
    const char *text = s->in->text;
    while (s->at < s->in->len) {
        const char c = text[s->at++];
        if (c == '"')
            return true;
        if (c == '\\')
            s->at++;
        else if (c == '\n')
            return false; // not allowed inside a string, and the likely place of a forgotten quote
    }
    return false;
}

// From the opening brace to behind the closing one.
static bool skip_object(scan *s)
{
    int depth = 0;
    while (s->at < s->in->len) {
        const char c = s->in->text[s->at++];
        if (c == '"') {
            if (!skip_string(s))
                return false;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH)
                return false;
        } else if (c == '}' || c == ']') {
            if (--depth == 0)
                return true;
        } else if (c == '\n') {
            s->line++;
        }
    }
    return false;
}

static const char *hint(const source *in)
{
    return in->lines ? " (in a file that isn't one array, each line has to be one whole object)"
                     : "";
}

static lt_status not_an_object(const source *in, lt_record_place at, char c)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s:%lld: record %lld is not an object: it begins with '%c'%s",
                   at.file, (long long)at.line, (long long)at.record,
                   c >= ' ' && c <= '~' ? c : '?', hint(in));
}

static lt_record_place here(const scan *s)
{
    return (lt_record_place){s->in->name, s->number, s->line};
}

// The whole array, from behind its opening bracket to the end of the file.
static lt_status scan_array(scan *s)
{
    const char *text = s->in->text;
    const size_t len = s->in->len;
    for (bool first = true;; first = false) {
        skip_blanks(s);
        if (s->at < len && text[s->at] == ']' && first)
            break;
        s->number++;
        if (s->at >= len) {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s:%lld: the file ends where record %lld of its array should stand",
                           s->in->name, (long long)s->line, (long long)s->number);
        }
        if (text[s->at] != '{')
            return not_an_object(s->in, here(s), text[s->at]);
        const size_t start = s->at;
        const int64_t line = s->line;
        if (!skip_object(s))
            return explain(s, start, line);
        LT_TRY(keep(s, start, s->at, line));
        skip_blanks(s);
        if (s->at < len && text[s->at] == ']')
            break;
        if (s->at >= len || text[s->at] != ',') {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s:%lld: behind record %lld there is neither a comma nor the array's ]",
                           s->in->name, (long long)s->line, (long long)s->number);
        }
        s->at++;
    }
    s->at++;
    skip_blanks(s);
    if (s->at < len)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%lld: something follows the array's closing ]",
                       s->in->name, (long long)s->line);
    return LT_OK;
}

static bool ends_with_brace(const char *start, const char *end)
{
    while (end > start && is_blank(end[-1]))
        end--;
    return end > start && end[-1] == '}';
}

// A line that is no object is a bad record of its own, to be named with all others, unless it is
// part of one over several lines: then the whole file is of another form.
static lt_status scan_lines(scan *s)
{
    bool whole = false; // the last object ended in its line
    s->in->lines = true;
    for (skip_blanks(s); s->at < s->in->len; skip_blanks(s)) {
        const char *start = s->in->text + s->at, *end = memchr(start, '\n', s->in->len - s->at);
        const size_t stop = end ? (size_t)(end - s->in->text) : s->in->len;
        s->number++;
        if (*start != '{' && !whole)
            return not_an_object(s->in, here(s), *start);
        if (*start == '{')
            whole = ends_with_brace(start, s->in->text + stop);
        LT_TRY(keep(s, s->at, stop, s->line));
        s->at = stop;
    }
    return LT_OK;
}

static lt_status scan_source(lt_records *r, int64_t file)
{
    scan s = {.r = r, .in = &LT_AT(&r->sources, source, file), .file = (int32_t)file, .line = 1};
    s.in->first = r->records.n;
    if (s.in->len >= 3 && memcmp(s.in->text, "\xEF\xBB\xBF", 3) == 0)
        s.at = 3; // a byte order mark
    skip_blanks(&s);
    if (s.at >= s.in->len)
        return LT_FAIL(LT_ERR_FORMAT, "%s: the file is empty", s.in->name);
    const char c = s.in->text[s.at];
    if (c == '{')
        return scan_lines(&s);
    const bool utf16 = s.in->len >= 2 && (memcmp(s.in->text, "\xFF\xFE", 2) == 0 ||
                                          memcmp(s.in->text, "\xFE\xFF", 2) == 0);
    if (c != '[') {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s:%lld: neither an array of records nor one record a line%s", s.in->name,
                       (long long)s.line, utf16 ? ": it is UTF-16, save it as UTF-8" : "");
    }
    s.at++;
    return scan_array(&s);
}

static lt_status create(int64_t max, lt_records **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_records), "the records"));
    lt_records *r = memory;
    *r = (lt_records){.sources = LT_VEC_OF(source), .records = LT_VEC_OF(record), .max = max};
    const lt_status st = lt_arena_create(&r->arena, "names of data files");
    if (st != LT_OK) {
        lt_mem_free(r);
        return st;
    }
    *out = r;
    return LT_OK;
}

// src->map, when there is one, is taken over, also on failure.
static lt_status add_source(lt_records *r, const char *name, source *src)
{
    char *copy;
    lt_status st = lt_arena_text(r->arena, name, strlen(name), &copy);
    if (st == LT_OK) {
        src->name = copy;
        st = lt_vec_push(&r->sources, src);
    }
    if (st != LT_OK) {
        lt_file_unmap(&src->map);
        return st;
    }
    return scan_source(r, r->sources.n - 1);
}

lt_status lt_records_scan(const char *text, size_t len, const char *name, lt_records **out)
{
    lt_records *r = NULL;
    LT_TRY(create(0, &r));
    source src = {.text = text, .len = len};
    const lt_status st = add_source(r, name, &src);
    if (st != LT_OK) {
        lt_records_close(r);
        return st;
    }
    *out = r;
    return LT_OK;
}

lt_status lt_records_open(const char *const *files, int64_t n_files, int64_t max_records,
                          lt_records **out)
{
    if (n_files < 1 || n_files > MAX_FILES)
        return LT_FAIL(LT_ERR_CONFIG, "a data set needs between 1 and %d files, not %lld",
                       MAX_FILES, (long long)n_files);
    lt_records *r = NULL;
    LT_TRY(create(max_records, &r));
    lt_status st = LT_OK;
    for (int64_t i = 0; i < n_files && st == LT_OK; i++) {
        source src = {0};
        st = lt_file_map(files[i], &src.map);
        src.text = (const char *)src.map.data;
        src.len = src.map.bytes;
        if (st == LT_OK)
            st = add_source(r, files[i], &src);
    }
    if (st != LT_OK) {
        lt_records_close(r);
        return st;
    }
    *out = r;
    return LT_OK;
}

void lt_records_close(lt_records *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->sources.n; i++)
        lt_file_unmap(&LT_AT(&r->sources, source, i).map);
    lt_vec_deinit(&r->sources);
    lt_vec_deinit(&r->records);
    lt_arena_destroy(r->arena);
    lt_mem_free(r);
}

int64_t lt_records_count(const lt_records *r)
{
    return r->records.n;
}

int64_t lt_records_total(const lt_records *r)
{
    return r->total;
}

lt_record_place lt_records_place(const lt_records *r, int64_t i)
{
    LT_ASSERT(i >= 0 && i < r->records.n);
    const record *rec = &LT_AT(&r->records, record, i);
    const source *src = &LT_AT(&r->sources, source, rec->file);
    return (lt_record_place){src->name, i - src->first + 1, rec->line};
}

void lt_records_forget(const lt_records *r, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to;) {
        const record *first = &LT_AT(&r->records, record, i), *last = first;
        while (i < to && LT_AT(&r->records, record, i).file == first->file)
            last = &LT_AT(&r->records, record, i++);
        const source *src = &LT_AT(&r->sources, source, first->file);
        if (src->map.data)
            lt_file_forget(&src->map, (size_t)first->offset,
                           (size_t)last->offset + (size_t)last->bytes);
    }
}

void lt_record_note(lt_record_place place)
{
    lt_error_note("%s:%lld: record %lld", place.file, (long long)place.line,
                  (long long)place.record);
}

lt_status lt_records_parse(const lt_records *r, int64_t i, json_t **out)
{
    const lt_record_place place = lt_records_place(r, i);
    const record *rec = &LT_AT(&r->records, record, i);
    const source *src = &LT_AT(&r->sources, source, rec->file);
    const char *text = src->text + rec->offset;
    json_error_t error = {0};
    lt_buf scratch = {0};
    if (*text != '{')
        return not_an_object(src, place, *text);
    json_t *value = lt_plain_json(text, (size_t)rec->bytes, &scratch);
    lt_buf_deinit(&scratch);
    if (value) {
        *out = value;
        return LT_OK;
    }
    value = lt_json_load(text, (size_t)rec->bytes, 0, &error);
    if (!value && json_error_code(&error) == json_error_numeric_overflow) // integers past 64 bits
        value = lt_json_load(text, (size_t)rec->bytes, JSON_DECODE_INT_AS_REAL, &error);
    if (!value) {
        return LT_FAIL(LT_ERR_FORMAT, "%s:%lld: record %lld: %s%s", place.file,
                       (long long)(place.line + error.line - 1), (long long)place.record,
                       error.text, hint(src));
    }
    *out = value;
    return LT_OK;
}
