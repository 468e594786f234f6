// SPDX-License-Identifier: Apache-2.0
// golden_sequence FILE...: truncation, packing bins, permutations, sampler orders and rotary
// positions against stored results of the reference. What a file holds is told from its keys.
#include "base/file.h"
#include "base/rng.h"
#include "data/dataset/encode.h"
#include "data/pack.h"
#include "data/padded.h"
#include "data/sampler.h"
#include "tests/kit/sha256.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct runner {
    const char *file;
    int64_t number; // of the case in its file, from 1
    lt_arena *arena;
    long passed, failed;
} runner;

static bool wrong(const runner *r, const char *what)
{
    printf("%s: case %lld: %s\n", r->file, (long long)r->number, what);
    return false;
}

static void count(runner *r, bool ok)
{
    r->passed += ok;
    r->failed += !ok;
}

static int64_t int_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

// Memory of the case; a run that has none left cannot go on.
static void *take(const runner *r, size_t n, size_t bytes)
{
    void *memory = NULL;
    const lt_status st = lt_arena_take(r->arena, n * bytes + 1, &memory);
    LT_ASSERT(st == LT_OK);
    return memory;
}

static int64_t *ints_of(const runner *r, const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    int64_t *out = take(r, (size_t)*n, sizeof *out);
    for (int64_t i = 0; i < *n; i++)
        out[i] = json_integer_value(json_array_get(list, (size_t)i));
    return out;
}

static int32_t *small_ints_of(const runner *r, const json_t *list, int64_t *n)
{
    int64_t *wide = ints_of(r, list, n);
    int32_t *out = take(r, (size_t)*n, sizeof *out);
    for (int64_t i = 0; i < *n; i++)
        out[i] = (int32_t)wide[i];
    return out;
}

static bool same(const runner *r, const json_t *want, const int64_t *got, int64_t n)
{
    int64_t m = 0;
    const int64_t *w = ints_of(r, want, &m);
    return m == n && memcmp(w, got, (size_t)n * sizeof *got) == 0;
}

// ---------------------------------------------------------------- truncation and packing

static bool run_lengths(runner *r, const json_t *row)
{
    int64_t n = 0, source = 0, target = 0;
    const int64_t *v = ints_of(r, row, &n);
    if (n != 5)
        return wrong(r, "a row of five numbers is expected");
    lt_cut_lengths(v[0], v[1], v[2], &source, &target);
    return (source == v[3] && target == v[4]) || wrong(r, "other lengths");
}

static bool run_bins(runner *r, const json_t *c)
{
    int64_t n = 0;
    const int64_t *lengths = ints_of(r, json_object_get(c, "lengths"), &n);
    const json_t *bins = json_object_get(c, "bins");
    lt_bins got;
    if (lt_pack_bins(lengths, n, int_of(c, "capacity"), r->arena, &got) != LT_OK)
        return wrong(r, lt_error_message());
    if ((int64_t)json_array_size(bins) != got.n)
        return wrong(r, "another number of bins");
    int64_t *in_bins = take(r, (size_t)n, sizeof *in_bins);
    for (int64_t i = 0; i < n; i++)
        in_bins[i] = lengths[got.items[i]];
    for (int64_t b = 0; b < got.n; b++) {
        const int64_t many = got.first[b + 1] - got.first[b];
        if (!same(r, json_array_get(bins, (size_t)b), in_bins + got.first[b], many))
            return wrong(r, "other bins");
    }
    return true;
}

// ---------------------------------------------------------------- permutations and samplers

static bool same_ends(const runner *r, const json_t *c, const int64_t *perm, int64_t n)
{
    const json_t *first = json_object_get(c, "first8"), *last = json_object_get(c, "last8");
    const int64_t f = (int64_t)json_array_size(first), l = (int64_t)json_array_size(last);
    const char *sha = json_string_value(json_object_get(c, "sha256_int64le"));
    return f <= n && l <= n && same(r, first, perm, f) && same(r, last, perm + n - l, l) &&
           (!sha || strcmp(sha, lt_sha256(perm, (size_t)n * sizeof *perm).s) == 0);
}

static bool run_permutation(runner *r, const json_t *c)
{
    const int64_t n = int_of(c, "n");
    int64_t *perm = take(r, (size_t)n, sizeof *perm);
    lt_randperm(n, (uint64_t)int_of(c, "seed"), perm);
    const json_t *whole = json_object_get(c, "perm");
    return (whole ? same(r, whole, perm, n) : same_ends(r, c, perm, n)) ||
           wrong(r, "another permutation");
}

// "SEED:N", "SEED:N:first100", "SEED:N:last100"
static bool run_named_permutation(runner *r, const char *name, const json_t *want)
{
    unsigned long long seed = 0;
    long long n = 0;
    char part[16] = "";
    if (sscanf(name, "%llu:%lld:%15s", &seed, &n, part) < 2) // NOLINT(cert-err34-c): digits only
        return wrong(r, "a key that is no seed and length");
    int64_t *perm = take(r, (size_t)n, sizeof *perm);
    lt_randperm(n, seed, perm);
    const int64_t m = (int64_t)json_array_size(want);
    return (m <= n && same(r, want, lt_text_starts(part, "last") ? perm + n - m : perm, m)) ||
           wrong(r, name);
}

static bool same_batches(const runner *r, lt_sampler *s, const json_t *batches)
{
    const json_t *batch;
    size_t i;
    json_array_foreach(batches, i, batch)
    {
        int64_t *rows = take(r, json_array_size(batch), sizeof *rows);
        if (json_is_array(json_array_get(batch, 0))) { // an epoch of batches
            if (!same_batches(r, s, batch))
                return false;
        } else if ((int64_t)json_array_size(batch) != lt_sampler_micro_batch(s) ||
                   lt_sampler_next(s, rows) != LT_OK ||
                   !same(r, batch, rows, lt_sampler_micro_batch(s))) {
            return false;
        }
    }
    return true;
}

static bool run_rank(runner *r, const lt_sampler_opts *o, const json_t *batches)
{
    lt_sampler *s = NULL;
    const lt_status st = lt_sampler_create(o, NULL, &s);
    if (json_is_string(batches)) // the reference raises
        return st == LT_ERR_CONFIG || wrong(r, "the reference refuses this");
    if (st != LT_OK)
        return wrong(r, lt_error_message());
    const bool ok = same_batches(r, s, batches);
    lt_sampler_destroy(s);
    return ok || wrong(r, "another order");
}

static bool run_sampler(runner *r, const json_t *c)
{
    const bool own = json_object_get(c, "total") != NULL;
    lt_sampler_opts o = {
        .n_samples = int_of(c, own ? "total" : "num_samples"),
        .micro_batch = int_of(c, own ? "micro_batch" : "micro_batch_size"),
        .dp_size = int_of(c, own ? "replicas" : "data_parallel_size"),
        .dp_rank = int_of(c, "rank"),
        .shuffle = json_is_true(json_object_get(c, "shuffle")),
        .data_sharding = json_is_true(json_object_get(c, "data_sharding")),
        .consumed = int_of(c, own ? "consumed" : "consumed_samples"),
    };
    if (own)
        return run_rank(r, &o, json_object_get(c, "two_epochs"));
    const json_t *ranks = json_object_get(c, "first_batches_per_rank"), *batches;
    size_t i;
    json_array_foreach(ranks, i, batches)
    {
        o.dp_rank = (int64_t)i;
        if (!run_rank(r, &o, batches))
            return false;
    }
    return json_is_array(ranks) || wrong(r, "no batches");
}

// ---------------------------------------------------------------- rotary positions

static const lt_grid *grids_of(const runner *r, const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    lt_grid *out = take(r, (size_t)*n, sizeof *out);
    for (int64_t i = 0; i < *n; i++) {
        const json_t *g = json_array_get(list, (size_t)i);
        out[i] = (lt_grid){json_integer_value(json_array_get(g, 0)),
                           json_integer_value(json_array_get(g, 1)),
                           json_integer_value(json_array_get(g, 2))};
    }
    return out;
}

static lt_status row_positions(const runner *r, const json_t *c, size_t row, lt_grid_cursor *cursor,
                               int32_t **pos, int64_t *n)
{
    static const lt_vision_ids vision = {
        .image_pad = 151655, .video_pad = 151656, .vision_start = 151652};
    int64_t m = 0;
    const int32_t *ids = small_ints_of(r, json_array_get(json_object_get(c, "input_ids"), row), n),
                  *mask = small_ints_of(
                      r, json_array_get(json_object_get(c, "attention_mask"), row), &m);
    const char *variant = json_string_value(json_object_get(c, "variant"));
    if (*n != m)
        return LT_FAIL(LT_ERR_DATA, "a mask of another length");
    int32_t *scratch = take(r, 4 * (size_t)*n, sizeof *scratch);
    *pos = take(r, 3 * (size_t)*n, sizeof **pos);
    return lt_positions_masked(ids, mask, *n, &vision, 2, cursor,
                               variant && strcmp(variant, "qwen3_vl") == 0, scratch, *pos, *n);
}

static bool run_positions(runner *r, const json_t *c)
{
    lt_grid_cursor cursor = {0};
    cursor.images = grids_of(r, json_object_get(c, "image_grid_thw"), &cursor.n_images);
    cursor.videos = grids_of(r, json_object_get(c, "video_grid_thw"), &cursor.n_videos);
    const json_t *want = json_object_get(c, "position_ids");
    for (size_t row = 0; row < json_array_size(json_object_get(c, "input_ids")); row++) {
        int32_t *pos = NULL;
        int64_t n = 0, m = 0;
        if (row_positions(r, c, row, &cursor, &pos, &n) != LT_OK)
            return !want || wrong(r, lt_error_message());
        for (size_t axis = 0; axis < 3 && want; axis++) {
            const int32_t *w =
                small_ints_of(r, json_array_get(json_array_get(want, axis), row), &m);
            if (m != n || memcmp(pos + (int64_t)axis * n, w, (size_t)n * sizeof *w) != 0)
                return wrong(r, "other positions");
        }
    }
    return want || wrong(r, "the reference refuses this");
}

// ---------------------------------------------------------------- files

static bool run_case(runner *r, const json_t *c)
{
    static const struct {
        const char *key;
        bool (*run)(runner *r, const json_t *c);
    } kinds[] = {
        {"bins", run_bins},        {"num_samples", run_sampler}, {"two_epochs", run_sampler},
        {"perm", run_permutation}, {"first8", run_permutation},  {"image_grid_thw", run_positions},
    };
    if (json_is_array(c))
        return run_lengths(r, c);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (json_object_get(c, kinds[i].key))
            return kinds[i].run(r, c);
    return wrong(r, "a case of an unknown kind");
}

static void run_cases(runner *r, const json_t *list)
{
    const json_t *c;
    size_t i;
    json_array_foreach(list, i, c)
    {
        r->number++;
        count(r, run_case(r, c));
        lt_arena_reset(r->arena);
    }
}

// A list of cases; one case; rows with columns; permutations small and large, or by name.
static void run_value(runner *r, json_t *value)
{
    const char *key;
    json_t *inner;
    if (json_is_array(value)) {
        run_cases(r, value);
    } else if (json_object_get(value, "rows")) {
        run_cases(r, json_object_get(value, "rows"));
    } else if (json_object_get(value, "small") || json_object_get(value, "large")) {
        run_cases(r, json_object_get(value, "small"));
        run_cases(r, json_object_get(value, "large"));
    } else if (json_object_get(value, "input_ids")) {
        r->number++;
        count(r, run_case(r, value));
    } else {
        json_object_foreach(value, key, inner)
        {
            r->number++;
            count(r, run_named_permutation(r, key, inner));
        }
    }
    lt_arena_reset(r->arena);
}

static void run_lines(runner *r, char *text)
{
    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        json_t *value = *line ? json_loads(line, 0, NULL) : NULL;
        if (value)
            run_value(r, value);
        else if (*line)
            count(r, wrong(r, "a line that is no JSON"));
        json_decref(value);
    }
}

static lt_status run_file(runner *r, const char *path)
{
    lt_buf text = {0};
    r->file = path;
    r->number = 0;
    LT_TRY(lt_file_read(path, 1 << 30, &text));
    lt_status st = lt_buf_append(&text, "", 1);
    json_t *whole = st == LT_OK ? json_loads(text.data, 0, NULL) : NULL;
    if (whole)
        run_value(r, whole);
    else if (st == LT_OK)
        run_lines(r, text.data);
    json_decref(whole);
    lt_buf_deinit(&text);
    return st;
}

int main(int argc, char **argv)
{
    runner r = {0};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: golden_sequence FILE...\n");
        return 2;
    }
    lt_status st = lt_arena_create(&r.arena, "a case");
    for (int i = 1; i < argc && st == LT_OK; i++)
        st = run_file(&r, argv[i]);
    if (st != LT_OK) {
        printf("%s\n", lt_error_message());
        r.failed++;
    }
    lt_arena_destroy(r.arena);
    printf("%ld passed, %ld failed\n", r.passed, r.failed);
    return r.failed > 0 || r.passed == 0;
}
