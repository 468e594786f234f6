// SPDX-License-Identifier: Apache-2.0
// golden_tokenizer FILE.jsonl... --tokenizer DIR: compares the tokenizer with stored rows of the
// reference's.
#include "base/file.h"
#include "base/log.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

// Qwen3.5's expression, whose file isn't at hand; spec data-pipeline 15.2.
static const char qwen3_5[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|"
                              "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
                              "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

typedef struct runner {
    lt_tokenizer *tokenizer;
    lt_split *split; // of qwen3_5
    lt_split_scratch *scratch;
    lt_vec ids, ends;
    lt_buf text;
    const char *file;
    int line;
    long passed, failed, n_ids, n_bytes;
    double seconds;
} runner;

static void wrong(runner *r, const char *what)
{
    printf("%s:%d: %s\n", r->file, r->line, what);
}

static bool ok(runner *r, lt_status st)
{
    if (st != LT_OK)
        wrong(r, lt_error_message());
    return st == LT_OK;
}

static bool text_is(const lt_buf *got, const json_t *want)
{
    return json_is_string(want) && json_string_length(want) == got->len &&
           (got->len == 0 || memcmp(got->data, json_string_value(want), got->len) == 0);
}

static bool ids_are(const lt_vec *ids, const json_t *want)
{
    if ((int64_t)json_array_size(want) != ids->n)
        return false;
    for (int64_t i = 0; i < ids->n; i++)
        if (json_integer_value(json_array_get(want, (size_t)i)) != LT_AT(ids, int32_t, i))
            return false;
    return true;
}

static bool decodes_to(runner *r, const json_t *want, unsigned flags)
{
    lt_buf_clear(&r->text);
    return ok(r, lt_tokenizer_decode(r->tokenizer, r->ids.data, r->ids.n, flags, &r->text)) &&
           text_is(&r->text, want);
}

static bool encode_row(runner *r, const json_t *row)
{
    const json_t *text = json_object_get(row, "text"), *decoded = json_object_get(row, "decoded"),
                 *skipped = json_object_get(row, "decoded_skip");
    const unsigned flags =
        json_is_true(json_object_get(row, "split_special_tokens")) ? LT_SPLIT_SPECIAL : 0;
    bool good = true;
    const double start = lt_clock_now();
    if (!ok(r, lt_tokenizer_encode(r->tokenizer, json_string_value(text), json_string_length(text),
                                   flags, &r->ids)))
        return false;
    r->seconds += lt_clock_now() - start;
    r->n_ids += r->ids.n;
    r->n_bytes += (long)json_string_length(text);
    if (!ids_are(&r->ids, json_object_get(row, "ids"))) {
        wrong(r, "the ids differ");
        good = false;
    }
    if (decoded && !decodes_to(r, decoded, 0)) {
        wrong(r, "the decoded text differs");
        good = false;
    }
    if (skipped && !decodes_to(r, skipped, LT_SKIP_SPECIAL)) {
        wrong(r, "the text decoded without special tokens differs");
        good = false;
    }
    return good;
}

static bool decode_row(runner *r, const json_t *row)
{
    const json_t *ids = json_object_get(row, "ids");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_int_t wide = json_integer_value(json_array_get(ids, i));
        const int32_t id = wide < 0 || wide > INT32_MAX ? -1 : (int32_t)wide;
        if (!ok(r, lt_vec_push(&r->ids, &id)))
            return false;
    }
    const bool good =
        decodes_to(r, json_object_get(row, "text"),
                   json_is_true(json_object_get(row, "skip_special_tokens")) ? LT_SKIP_SPECIAL : 0);
    if (!good)
        wrong(r, "the decoded text differs");
    return good;
}

static bool pieces_are(runner *r, const json_t *want, const char *which)
{
    bool good = (int64_t)json_array_size(want) == r->ends.n;
    int64_t start = 0;
    for (int64_t i = 0; good && i < r->ends.n; i++) {
        const int64_t end = LT_AT(&r->ends, int64_t, i);
        const lt_buf piece = {.data = r->text.data + start, .len = (size_t)(end - start)};
        good = text_is(&piece, json_array_get(want, (size_t)i));
        start = end;
    }
    if (!good)
        printf("%s:%d: the pieces (%s) differ\n", r->file, r->line, which);
    return good;
}

static bool pieces_row(runner *r, const json_t *row)
{
    const json_t *text = json_object_get(row, "text"), *nfc = json_object_get(row, "nfc"),
                 *other = json_object_get(row, "qwen3_5");
    const json_t *own = json_object_get(row, "qwen3");
    lt_buf_clear(&r->text);
    if (!ok(r, lt_tokenizer_pieces(r->tokenizer, json_string_value(text), json_string_length(text),
                                   &r->text, &r->ends)))
        return false;
    bool good = pieces_are(r, own, "qwen3");
    if (!text_is(&r->text, nfc ? nfc : text)) {
        wrong(r, "the normalised text differs");
        good = false;
    }
    lt_vec_clear(&r->ends);
    return ok(r, lt_split_text(r->split, r->scratch, r->text.data, r->text.len, &r->ends)) &&
           pieces_are(r, other ? other : own, "qwen3_5") && good;
}

static void row_of(runner *r, const char *line, size_t len)
{
    json_error_t error;
    json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, &error);
    bool good = false;
    lt_vec_clear(&r->ids);
    lt_vec_clear(&r->ends);
    if (!row)
        wrong(r, error.text);
    else if (json_object_get(row, "qwen3"))
        good = pieces_row(r, row);
    else if (json_object_get(row, "skip_special_tokens"))
        good = decode_row(r, row);
    else if (json_object_get(row, "ids"))
        good = encode_row(r, row);
    else
        wrong(r, "neither an encode row, a decode row nor a row of pieces");
    json_decref(row);
    good ? r->passed++ : r->failed++;
}

static lt_status run_file(runner *r)
{
    lt_mapped map;
    LT_TRY(lt_file_map(r->file, &map));
    const char *at = (const char *)map.data, *end = at + map.bytes;
    for (r->line = 1; at < end; r->line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (stop > at)
            row_of(r, at, (size_t)(stop - at));
        at = stop + 1;
    }
    lt_file_unmap(&map);
    return LT_OK;
}

static lt_status run(runner *r, int argc, char **argv, const char *dir, uint8_t *flags)
{
    lt_code_flags(flags);
    LT_TRY(lt_tokenizer_open(dir, &r->tokenizer));
    LT_TRY(lt_split_create(qwen3_5, sizeof qwen3_5 - 1, flags, &r->split));
    LT_TRY(lt_split_scratch_create(r->split, &r->scratch));
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tokenizer") == 0) {
            i++;
            continue;
        }
        r->file = argv[i];
        LT_TRY(run_file(r));
    }
    return LT_OK;
}

int main(int argc, char **argv)
{
    const char *dir = NULL;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--tokenizer") == 0)
            dir = argv[i + 1];
    if (!dir || argc < 4) {
        fprintf(stderr, "usage: golden_tokenizer FILE.jsonl... --tokenizer DIR\n");
        return 2;
    }
    runner r = {.ids = LT_VEC_OF(int32_t), .ends = LT_VEC_OF(int64_t)};
    void *flags = NULL;
    lt_status st = lt_mem_alloc(&flags, LT_N_CODES, "the table of characters");
    if (st == LT_OK)
        st = run(&r, argc, argv, dir, flags);
    if (st != LT_OK) {
        printf("%s\n", lt_error_message());
        r.failed++;
    }
    if (r.n_ids > 0)
        printf("encoded %ld bytes to %ld ids at %.1f MB/s\n", r.n_bytes, r.n_ids,
               (double)r.n_bytes / 1e6 / r.seconds);
    lt_split_scratch_destroy(r.scratch);
    lt_split_destroy(r.split);
    lt_tokenizer_close(r.tokenizer);
    lt_vec_deinit(&r.ids);
    lt_vec_deinit(&r.ends);
    lt_buf_deinit(&r.text);
    lt_mem_free(flags);
    printf("%ld passed, %ld failed\n", r.passed, r.failed);
    return r.failed > 0 || r.passed == 0;
}
