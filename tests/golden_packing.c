// SPDX-License-Identifier: Apache-2.0
// golden_packing DIR --tokenizer DIR --images DIR: packs stored records and compares rows, labels,
// borders and positions with the reference's.
// DIR holds packed.json (with its records), or packing.jsonl with encode.jsonl (records by name).
#include "base/file.h"
#include "data/collate.h"
#include "data/dataset/dataset.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct runner {
    const char *images;
    lt_tokenizer *tokenizer;
    lt_arena *arena;
    lt_image_processor processor;
    lt_image_budget budget;
    const char *file;
    int64_t number;
    long passed, failed;
} runner;

/** A case: what the reference packed, and what came of it. */
typedef struct pack_case {
    const json_t *records; // list
    const json_t *packs;   // object of lists, one entry a row
    int64_t cutoff_len;    // of the YAML
} pack_case;

static bool wrong(const runner *r, int64_t row, const char *what)
{
    printf("%s: case %lld, row %lld: %s\n", r->file, (long long)r->number, (long long)row, what);
    return false;
}

static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    const runner *r = ctx;
    lt_image_info info;
    (void)n_images;
    LT_TRY(lt_image_probe(path, &info));
    return lt_image_grid(&r->processor, &r->budget, info.h, info.w, out);
}

static bool equal(const json_t *want, const int32_t *got, int64_t n)
{
    if ((int64_t)json_array_size(want) != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(want, (size_t)i)) != got[i])
            return false;
    return true;
}

static const json_t *row_of(const pack_case *c, const char *key, int64_t row)
{
    return json_array_get(json_object_get(c->packs, key), (size_t)row);
}

/** ids, labels, borders and the mask that numbers the samples (or is 1 throughout). */
static bool same_row(const runner *r, const pack_case *c, int64_t row, const lt_vec *samples)
{
    const json_t *mask = row_of(c, "attention_mask", row);
    const bool neat = json_integer_value(json_array_get(mask, json_array_size(mask) - 1)) > 1;
    lt_vec v[5];
    bool ok = true;
    for (int k = 0; k < 5; k++)
        v[k] = LT_VEC_OF(int32_t);
    int32_t end = 0;
    LT_ASSERT(lt_vec_push(&v[4], &end) == LT_OK);
    for (int32_t s = 0; s < samples->n; s++) {
        const lt_sample *p = &LT_AT(samples, lt_sample, s);
        for (int32_t i = 0; i < p->n; i++) {
            const int32_t number = neat ? s + 1 : 1,
                          values[] = {p->ids[i], p->labels[i], number, i};
            for (int k = 0; k < 4; k++)
                LT_ASSERT(lt_vec_push(&v[k], &values[k]) == LT_OK);
        }
        end += (int32_t)p->n;
        LT_ASSERT(lt_vec_push(&v[4], &end) == LT_OK);
    }
    static const char *const keys[] = {"input_ids", "labels", "attention_mask", "position_ids",
                                       "cu_seqlens"};
    for (int k = 0; k < 5; k++) {
        if (ok && !equal(row_of(c, keys[k], row), v[k].data, v[k].n))
            ok = wrong(r, row, keys[k]);
        lt_vec_deinit(&v[k]);
    }
    return ok;
}

static bool same_images(const runner *r, const pack_case *c, int64_t row, const lt_batch *b,
                        const lt_vec *samples)
{
    const json_t *want = row_of(c, "images", row);
    size_t at = 0;
    for (int64_t s = 0; s < samples->n; s++) {
        const lt_sample *p = &LT_AT(samples, lt_sample, s);
        for (int64_t i = 0; i < p->n_media; i++) {
            const char *name = json_string_value(json_array_get(want, at++));
            if (!name || !lt_text_ends(p->media[i].path, name))
                return wrong(r, row, "other images");
        }
    }
    return (at == json_array_size(want) && (int64_t)at == b->n_media) ||
           wrong(r, row, "another number of images");
}

/** Three axes of the row's tokens; behind them, to the padded length, zeros. */
static bool same_positions(const runner *r, int64_t row, const json_t *want, const lt_batch *b)
{
    for (int64_t axis = 0; axis < 3; axis++) {
        const json_t *w = json_array_get(json_array_get(want, (size_t)axis), 0);
        for (size_t i = 0; i < json_array_size(w); i++) {
            const int64_t have =
                (int64_t)i < b->n_tokens ? b->positions[axis * b->n_tokens + (int64_t)i] : 0;
            if (json_integer_value(json_array_get(w, i)) != have)
                return wrong(r, row, "other positions");
        }
        if ((int64_t)json_array_size(w) < b->n_tokens)
            return wrong(r, row, "fewer positions than tokens");
    }
    return true;
}

static bool run_row(const runner *r, const pack_case *c, lt_dataset *d, int64_t row, lt_batch *b)
{
    lt_vec samples = LT_VEC_OF(lt_sample);
    const json_t *positions = row_of(c, "collated_position_ids", row);
    const lt_template_ids *ids = lt_encoder_ids(lt_dataset_encoder(d));
    lt_collate_opts o = lt_collate_opts_default();
    o.vision = ids->vision;
    o.processor = r->processor;
    o.budget = r->budget;
    bool ok = lt_dataset_encode_row(d, row, r->arena, &samples) == LT_OK ||
              wrong(r, row, lt_error_message());
    ok = ok && same_row(r, c, row, &samples);
    if (ok) {
        const lt_status st = lt_batch_collate(b, samples.data, samples.n, &o);
        if (json_is_string(positions))
            ok = st == LT_ERR_DATA || wrong(r, row, "the reference refuses this row");
        else if (st != LT_OK)
            ok = wrong(r, row, lt_error_message());
        else
            ok = same_images(r, c, row, b, &samples) &&
                 (!positions || same_positions(r, row, positions, b));
    }
    lt_vec_deinit(&samples);
    return ok;
}

static lt_status write_records(const json_t *records, char *path)
{
    const int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f || json_dumpf(records, f, JSON_COMPACT) != 0 || fclose(f) != 0)
        return LT_FAIL(LT_ERR_IO, "cannot write %s", path);
    return LT_OK;
}

static lt_status open_dataset(runner *r, const pack_case *c, const char *path, lt_dataset **out)
{
    const char *files[] = {path};
    lt_dataset_opts o = lt_dataset_opts_default();
    o.files = files;
    o.n_files = 1;
    o.packing = true;
    o.attr.messages = "messages";
    o.attr.role_tag = "role";
    o.attr.content_tag = "content";
    o.attr.user_tag = "user";
    o.attr.assistant_tag = "assistant";
    o.attr.images = "images";
    o.encode.render.tokenizer = r->tokenizer;
    o.encode.cutoff_len = c->cutoff_len;
    o.encode.media_dir = r->images;
    o.encode.grid_of = grid_of;
    o.encode.grid_ctx = r;
    LT_TRY(lt_template_find("qwen3_vl_nothink", &o.encode.render.chat));
    return lt_dataset_open(&o, NULL, NULL, out);
}

static lt_status run_case(runner *r, const pack_case *c)
{
    char path[] = "/tmp/lathe-packing-XXXXXX";
    lt_dataset *d = NULL;
    lt_batch *b = NULL;
    lt_status st;
    r->number++;
    LT_TRY(write_records(c->records, path));
    LT_TRY_GOTO(st, open_dataset(r, c, path, &d), done);
    LT_TRY_GOTO(st, lt_batch_create(&b), done);
    const int64_t n = (int64_t)json_array_size(json_object_get(c->packs, "input_ids"));
    if (lt_dataset_rows(d) != n) {
        (void)wrong(r, 0, "another number of rows");
        r->failed++;
    }
    for (int64_t row = 0; row < n && row < lt_dataset_rows(d); row++) {
        const bool ok = run_row(r, c, d, row, b);
        r->passed += ok;
        r->failed += !ok;
        lt_arena_reset(r->arena);
    }
done:
    lt_batch_destroy(b);
    lt_dataset_close(d);
    (void)unlink(path);
    return st;
}

// ---------------------------------------------------------------- the two kinds of files

/** {"order", "examples", "packs", "cutoff_len"}: the length is lowered already. */
static lt_status run_whole(runner *r, const json_t *root)
{
    const json_t *order = json_object_get(root, "order"), *name;
    json_t *records = json_array();
    size_t i;
    json_array_foreach(order, i, name) json_array_append(
        records, json_object_get(json_object_get(root, "examples"), json_string_value(name)));
    const pack_case c = {records, json_object_get(root, "packs"),
                         json_integer_value(json_object_get(root, "cutoff_len")) + 1};
    const lt_status st = run_case(r, &c);
    json_decref(records);
    return st;
}

static json_t *load_lines(const char *path)
{
    lt_buf text = {0};
    json_t *list = json_array();
    if (lt_file_read(path, 1 << 28, &text) == LT_OK && lt_buf_append(&text, "", 1) == LT_OK) {
        char *rest = text.data;
        for (char *line; (line = strsep(&rest, "\n")) != NULL;)
            if (*line)
                json_array_append_new(list, json_loads(line, JSON_ALLOW_NUL, NULL));
    }
    lt_buf_deinit(&text);
    return list;
}

static json_t *records_named(const json_t *encoded, const json_t *names)
{
    json_t *out = json_array();
    const json_t *name, *e;
    size_t i, k;
    json_array_foreach(names, i, name)
    {
        json_array_foreach(encoded, k, e)
        {
            const char *s = json_string_value(json_object_get(e, "name"));
            if (s && strcmp(s, json_string_value(name)) == 0)
                json_array_append(out, json_object_get(e, "sample"));
        }
    }
    return out;
}

static lt_status run_lines(runner *r, const char *packing, const char *encode)
{
    json_t *cases = load_lines(packing), *encoded = load_lines(encode);
    const json_t *row;
    lt_status st = LT_OK;
    size_t i;
    json_array_foreach(cases, i, row)
    {
        json_t *records = records_named(encoded, json_object_get(row, "samples"));
        const pack_case c = {records, row,
                             json_integer_value(json_object_get(row, "cutoff_len_yaml"))};
        if (st == LT_OK)
            st = run_case(r, &c);
        json_decref(records);
    }
    json_decref(cases);
    json_decref(encoded);
    return st;
}

static lt_status run(runner *r, const char *dir, const char *tokenizer)
{
    char whole[4096], lines[4096], encode[4096];
    r->processor = lt_image_processor_default();
    r->budget = lt_image_budget_default();
    r->budget.max_pixels = 262144;
    r->budget.min_pixels = 1024;
    LT_TRY(lt_arena_create(&r->arena, "a row"));
    LT_TRY(lt_tokenizer_open(tokenizer, &r->tokenizer));
    (void)snprintf(whole, sizeof whole, "%s/packed.json", dir);
    (void)snprintf(lines, sizeof lines, "%s/packing.jsonl", dir);
    (void)snprintf(encode, sizeof encode, "%s/encode.jsonl", dir);
    json_t *root = json_load_file(whole, JSON_ALLOW_NUL, NULL);
    lt_status st = LT_OK;
    r->file = "packed.json";
    if (root)
        st = run_whole(r, root);
    json_decref(root);
    r->file = "packing.jsonl";
    if (st == LT_OK && lt_file_exists(lines))
        st = run_lines(r, lines, encode);
    return st;
}

int main(int argc, char **argv)
{
    const char *dir = NULL, *tokenizer = NULL;
    runner r = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tokenizer") == 0 && i + 1 < argc)
            tokenizer = argv[++i];
        else if (strcmp(argv[i], "--images") == 0 && i + 1 < argc)
            r.images = argv[++i];
        else
            dir = argv[i];
    }
    if (!dir || !tokenizer || !r.images) {
        (void)fprintf(stderr, "usage: golden_packing DIR --tokenizer DIR --images DIR\n");
        return 2;
    }
    if (run(&r, dir, tokenizer) != LT_OK) {
        printf("%s\n", lt_error_message());
        r.failed++;
    }
    lt_tokenizer_close(r.tokenizer);
    lt_arena_destroy(r.arena);
    printf("%ld passed, %ld failed\n", r.passed, r.failed);
    return r.failed > 0 || r.passed == 0;
}
