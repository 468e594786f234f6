// SPDX-License-Identifier: Apache-2.0
// golden_intern DIR --tokenizer DIR: InternVL's tiles (internvl_tiling.json) and conversations
// (internvl_encode.jsonl) against the reference's.
#include "base/file.h"
#include "data/image/tiling.h"
#include "data/template/intern.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TURNS = 64, MAX_IMAGES = 64 };

typedef struct runner {
    lt_tokenizer *tokenizer;
    long passed, failed;
} runner;

static void count(runner *r, bool ok, const char *kind, const char *name, long long number)
{
    if (!ok)
        printf("%s %s (%lld): not as the reference has it\n", kind, name ? name : "", number);
    r->passed += ok;
    r->failed += !ok;
}

static int64_t int_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int64_t int_at(const json_t *list, int64_t i)
{
    return json_integer_value(json_array_get(list, (size_t)i));
}

// Tiles row by row, each a box [left, top, right, bottom] of the resized picture.
static bool same_boxes(const json_t *boxes, const lt_tiling *t, int64_t tile)
{
    for (int64_t i = 0; i < t->columns * t->rows; i++) {
        const json_t *b = json_array_get(boxes, (size_t)i);
        const int64_t x = i % t->columns * tile, y = i / t->columns * tile;
        if (int_at(b, 0) != x || int_at(b, 1) != y || int_at(b, 2) != x + tile ||
            int_at(b, 3) != y + tile)
            return false;
    }
    return (int64_t)json_array_size(boxes) == t->columns * t->rows;
}

static bool run_tiling(const json_t *c)
{
    lt_tiling_opts o = lt_tiling_opts_default();
    o.min = int_of(c, "min_num");
    o.max = int_of(c, "max_num");
    o.use_thumbnail = json_is_true(json_object_get(c, "use_thumbnail"));
    const lt_tiling t = lt_tiling_choose(&o, int_of(c, "height"), int_of(c, "width"));
    const json_t *resized = json_object_get(c, "resized");
    return int_at(resized, 0) == t.columns * o.tile && int_at(resized, 1) == t.rows * o.tile &&
           lt_tiling_count(&t) == int_of(c, "tiles") &&
           t.thumbnail == json_is_true(json_object_get(c, "thumbnail")) &&
           same_boxes(json_object_get(c, "boxes"), &t, o.tile);
}

static bool same(const json_t *want, const lt_vec *got)
{
    if ((int64_t)json_array_size(want) != got->n)
        return false;
    for (int64_t i = 0; i < got->n; i++)
        if (int_at(want, i) != LT_AT(got, int32_t, i))
            return false;
    return true;
}

static int64_t read_turns(const json_t *list, lt_intern_turn *turns)
{
    const json_t *turn;
    size_t i;
    json_array_foreach(list, i, turn)
    {
        const char *from = json_string_value(json_object_get(turn, "from"));
        const json_t *text = json_object_get(turn, "value");
        if (i >= MAX_TURNS || !from || !json_is_string(text))
            return -1;
        turns[i] = (lt_intern_turn){strcmp(from, "system") == 0  ? LT_INTERN_SYSTEM
                                    : strcmp(from, "human") == 0 ? LT_INTERN_HUMAN
                                                                 : LT_INTERN_GPT,
                                    {json_string_value(text), json_string_length(text)}};
    }
    return (int64_t)json_array_size(list);
}

static bool run_conversation(const runner *r, const json_t *c)
{
    const lt_intern_opts o = {.tokenizer = r->tokenizer,
                              .image_start = 151669,
                              .image_context = 151671,
                              .image_end = 151670,
                              .max_length = int_of(c, "max_length")};
    lt_intern_turn turns[MAX_TURNS];
    int64_t n_tokens[MAX_IMAGES];
    const json_t *counts = json_object_get(c, "num_image_tokens");
    const int64_t n = read_turns(json_object_get(c, "conversations"), turns),
                  n_images = int_of(c, "num_image");
    lt_vec ids = LT_VEC_OF(int32_t), labels = LT_VEC_OF(int32_t);
    if (n < 0 || n_images > MAX_IMAGES || n_images > (int64_t)json_array_size(counts))
        return false;
    for (int64_t i = 0; i < n_images; i++)
        n_tokens[i] = int_at(counts, i);
    const lt_status st = lt_intern_encode(&o, turns, n, n_tokens, n_images, &ids, &labels);
    const bool ok = json_object_get(c, "error_type")
                        ? st == LT_ERR_DATA
                        : st == LT_OK && same(json_object_get(c, "input_ids"), &ids) &&
                              same(json_object_get(c, "labels"), &labels);
    lt_vec_deinit(&ids);
    lt_vec_deinit(&labels);
    return ok;
}

static lt_status run_lines(runner *r, const char *path)
{
    lt_buf text = {0};
    LT_TRY(lt_file_read(path, 1 << 28, &text));
    LT_TRY(lt_buf_append(&text, "", 1));
    char *rest = text.data;
    long long number = 1;
    for (char *line; (line = strsep(&rest, "\n")) != NULL; number++) {
        json_t *c = *line ? json_loads(line, JSON_ALLOW_NUL, NULL) : NULL;
        if (*line)
            count(r, c && run_conversation(r, c), "conversation",
                  json_string_value(json_object_get(c, "name")), number);
        json_decref(c);
    }
    lt_buf_deinit(&text);
    return LT_OK;
}

static lt_status run(runner *r, const char *dir, const char *tokenizer)
{
    char path[4096];
    LT_TRY(lt_tokenizer_open(tokenizer, &r->tokenizer));
    (void)snprintf(path, sizeof path, "%s/internvl_tiling.json", dir);
    json_t *root = json_load_file(path, 0, NULL), *cases = json_object_get(root, "cases"), *c;
    size_t i;
    json_array_foreach(cases, i, c) count(r, run_tiling(c), "tiling", "", (long long)i);
    json_decref(root);
    (void)snprintf(path, sizeof path, "%s/internvl_encode.jsonl", dir);
    return lt_file_exists(path) ? run_lines(r, path) : LT_OK;
}

int main(int argc, char **argv)
{
    const char *dir = NULL, *tokenizer = NULL;
    runner r = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tokenizer") == 0 && i + 1 < argc)
            tokenizer = argv[++i];
        else
            dir = argv[i];
    }
    if (!dir || !tokenizer) {
        (void)fprintf(stderr, "usage: golden_intern DIR --tokenizer DIR\n");
        return 2;
    }
    if (run(&r, dir, tokenizer) != LT_OK) {
        printf("%s\n", lt_error_message());
        r.failed++;
    }
    lt_tokenizer_close(r.tokenizer);
    printf("%ld passed, %ld failed\n", r.passed, r.failed);
    return r.failed > 0 || r.passed == 0;
}
