// SPDX-License-Identifier: Apache-2.0
// golden_intern DIR --tokenizer DIR: InternVL's tiles (internvl_tiling.json) and conversations
// (internvl_encode.jsonl) against the reference's.
#include "base/file.h"
#include "data/dataset/encode.h"
#include "data/image/tiling.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGES = 16, TILE_SIDE = 32, TILE_TOKENS = 256 };

typedef struct runner {
    lt_tokenizer *tokenizer;
    char file[4096]; // stands for every picture: it is there, and nobody opens it
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

static bool same(const json_t *want, const int32_t *got, int64_t n)
{
    if ((int64_t)json_array_size(want) != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (int_at(want, i) != got[i])
            return false;
    return true;
}

typedef struct counts {
    const json_t *tokens; // of each image
    int64_t next;
} counts;

// Every image of a case has as many tiles as the case says.
static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    counts *c = ctx;
    (void)path, (void)n_images;
    *out = (lt_grid){int_at(c->tokens, c->next++) / TILE_TOKENS, TILE_SIDE, TILE_SIDE};
    return LT_OK;
}

// The record as the data set's converter reads it. The tag that the reference adds to a single
// image's first entry is no part of these cases, so the images join after it.
static lt_status encode(const runner *r, const json_t *c, lt_arena *arena, lt_sample *out)
{
    const char *images[MAX_IMAGES];
    counts of_images = {.tokens = json_object_get(c, "num_image_tokens")};
    lt_attr attr = lt_attr_default();
    lt_conversation conversation = {0};
    lt_encode_opts o = lt_encode_opts_default();
    lt_encoder *e = NULL;
    attr.formatting = "internvl";
    o.render.tokenizer = r->tokenizer;
    o.cutoff_len = int_of(c, "max_length");
    o.grid_of = grid_of;
    o.grid_ctx = &of_images;
    LT_TRY(lt_template_find("internvl2_5", &o.render.chat));
    json_t *record = json_pack("{s:O}", "conversations", json_object_get(c, "conversations"));
    lt_status st = lt_convert_record(&attr, record, arena, &conversation);
    json_decref(record);
    LT_TRY(st);
    conversation.n_images = int_of(c, "num_image");
    if (conversation.n_images > MAX_IMAGES)
        return LT_FAIL(LT_ERR_INTERNAL, "a case has more than %d images", MAX_IMAGES);
    for (int64_t i = 0; i < conversation.n_images; i++)
        images[i] = r->file;
    conversation.images = images;
    LT_TRY(lt_encoder_create(&o, &e));
    st = lt_encode(e, &conversation, (lt_record_place){"case", 1, 1}, arena, out, NULL);
    lt_encoder_destroy(e);
    return st;
}

static bool run_conversation(const runner *r, const json_t *c)
{
    lt_arena *arena = NULL;
    lt_sample s = {0};
    if (lt_arena_create(&arena, "a case") != LT_OK)
        return false;
    const lt_status st = encode(r, c, arena, &s);
    const bool ok = json_object_get(c, "error_type")
                        ? st == LT_ERR_DATA
                        : st == LT_OK && same(json_object_get(c, "input_ids"), s.ids, s.n) &&
                              same(json_object_get(c, "labels"), s.labels, s.n);
    lt_arena_destroy(arena);
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

// Qwen3's tokenizer with InternVL's tokens behind its own: README of golden/pipeline.
static lt_status open_tokenizer(const char *path, lt_tokenizer **out)
{
    static const char *const added[] = {"<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>",
                                        "<ref>", "</ref>", "<box>",         "</box>"};
    enum { FIRST = 151669 };
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        return LT_FAIL(LT_ERR_FORMAT, "%s: %s", path, error.text);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        json_array_append_new(json_object_get(root, "added_tokens"),
                              json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", FIRST + (int)i,
                                        "content", added[i], "single_word", 0, "lstrip", 0,
                                        "rstrip", 0, "normalized", 0, "special", 1));
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    const lt_status st = text ? lt_tokenizer_parse(text, strlen(text), path, out)
                              : LT_FAIL(LT_ERR_MEMORY, "out of memory: %s", path);
    free(text);
    return st;
}

static lt_status run(runner *r, const char *dir, const char *tokenizer)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", tokenizer);
    LT_TRY(open_tokenizer(path, &r->tokenizer));
    (void)snprintf(path, sizeof path, "%s/internvl_tiling.json", dir);
    json_t *root = json_load_file(path, 0, NULL), *cases = json_object_get(root, "cases"), *c;
    size_t i;
    json_array_foreach(cases, i, c) count(r, run_tiling(c), "tiling", "", (long long)i);
    json_decref(root);
    (void)snprintf(r->file, sizeof r->file, "%s/internvl_encode.jsonl", dir);
    return lt_file_exists(r->file) ? run_lines(r, r->file) : LT_OK;
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
