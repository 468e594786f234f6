// SPDX-License-Identifier: Apache-2.0
// golden_data DIR --tokenizer DIR --images DIR: encodes stored records and compares ids and labels
// with the reference's.
// DIR holds encoded.jsonl with examples.json (template x options x example), or encode.jsonl (each
// row with its own record).
#include "base/file.h"
#include "data/dataset/encode.h"
#include "data/image/image.h"
#include <stdio.h>
#include <string.h>

typedef struct runner {
    const char *images;
    lt_tokenizer *tokenizer;
    lt_arena *arena;
    lt_image_processor processor, processor_of_qwen2;
    const lt_image_processor *now; // of the row's template
    lt_image_budget budget;
    json_t *examples;
    const char *file;
    int line;
    long passed, failed, skipped;
} runner;

typedef enum verdict { PASSED, FAILED, SKIPPED } verdict;

typedef struct text_key {
    const char *key;
    const char **value;
} text_key;

static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    const runner *r = ctx;
    lt_image_info info;
    (void)n_images;
    LT_TRY(lt_image_probe(path, &info));
    return lt_image_grid(r->now, &r->budget, info.h, info.w, out);
}

static verdict wrong(const runner *r, const char *what)
{
    printf("%s:%d: %s\n", r->file, r->line, what);
    return FAILED;
}

static verdict skip(const runner *r, const char *what)
{
    printf("%s:%d: skipped: %s\n", r->file, r->line, what);
    return SKIPPED;
}

// Keys of basic_parameters that change nothing of a single sample.
static bool is_idle(const char *key)
{
    static const char *const keys[] = {
        "enable_thinking",
        "tool_format",
        "template",
        "dataset",
        "dataset_dir",
        "max_samples",
        "cache_dir",
        "overwrite_cache",
        "preprocess_on_fly",
        "streaming",
        "preprocessing_batch_size",
        "preprocessing_num_workers",
        "stage",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

// Options as basic_parameters spells them. enable_thinking is read and never used, as in the
// reference.
static bool read_options(const json_t *options, lt_encode_opts *o)
{
    const char *key;
    json_t *value, *copy = json_deep_copy(options);
    bool known = true;
    json_object_foreach(copy, key, value)
    {
        if (strcmp(key, "cutoff_len") == 0)
            o->cutoff_len = json_integer_value(value);
        else if (strcmp(key, "mask_history") == 0)
            o->mask_history = json_is_true(value);
        else if (strcmp(key, "train_on_prompt") == 0)
            o->train_on_prompt = json_is_true(value);
        else if (strcmp(key, "enable_thinking") == 0 &&
                 strcmp(o->render.chat->name, "qwen3_5") == 0)
            o->render.no_thinking = json_is_false(value);
        else if (!is_idle(key) && !json_is_null(value))
            known = false;
    }
    json_decref(copy);
    return known;
}

static bool read_attr(const json_t *row, lt_attr *a)
{
    const text_key keys[] = {
        {"formatting", &a->formatting},
        {"messages", &a->messages},
        {"role_tag", &a->role_tag},
        {"content_tag", &a->content_tag},
        {"user_tag", &a->user_tag},
        {"assistant_tag", &a->assistant_tag},
        {"function_tag", &a->function_tag},
        {"observation_tag", &a->observation_tag},
        {"system_tag", &a->system_tag},
        {"images", &a->images},
        {"videos", &a->videos},
        {"system", &a->system},
        {"tools", &a->tools},
        {"prompt", &a->prompt},
        {"query", &a->query},
        {"response", &a->response},
        {"history", &a->history},
    };
    size_t found = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(row, keys[i].key);
        if (value)
            *keys[i].value = json_string_value(value);
        found += value != NULL;
    }
    const char *key;
    json_t *value, *copy = json_deep_copy(row);
    json_object_foreach(copy, key, value) // preference data and audio, where they are not used
    {
        const bool other = strcmp(key, "ranking") == 0 || strcmp(key, "chosen") == 0 ||
                           strcmp(key, "rejected") == 0 || strcmp(key, "audios") == 0;
        found += other && !json_is_true(value) && !json_is_string(value);
    }
    json_decref(copy);
    return found == json_object_size(row);
}

static bool equal(const int32_t *got, int64_t n, const json_t *want)
{
    if (!json_is_array(want) || (int64_t)json_array_size(want) != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(want, (size_t)i)) != got[i])
            return false;
    return true;
}

// The kind of failure that the reference reports, and ours.
static verdict judge_error(const runner *r, const json_t *row, lt_status st)
{
    static const struct {
        const char *kind;
        lt_status code;
        const char *part;
    } kinds[] = {
        {"image_count_mismatch", LT_ERR_DATA, "tag"},
        {"missing_image_file", LT_ERR_NOT_FOUND, "is not there"},
        {"template_without_images", LT_ERR_DATA, "template"},
        {"ValueError", LT_ERR_DATA, ""},
        {"AttributeError", LT_ERR_DATA, ""},
        {"FileNotFoundError", LT_ERR_NOT_FOUND, ""},
    };
    const char *want = json_string_value(json_object_get(row, "error_type"));
    if (!want)
        want = json_string_value(json_object_get(row, "error"));
    for (size_t i = 0; want && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(want, kinds[i].kind) == 0) {
            return st == kinds[i].code && strstr(lt_error_message(), kinds[i].part)
                       ? PASSED
                       : wrong(r, lt_error_message());
        }
    }
    return want ? PASSED : wrong(r, lt_error_message());
}

static verdict judge(const runner *r, const json_t *row, const lt_conversation *c, lt_status st,
                     const lt_sample *s)
{
    const char *result = json_string_value(json_object_get(row, "result"));
    const bool drop =
        json_is_true(json_object_get(row, "dropped")) || (result && strcmp(result, "dropped") == 0);
    const bool error = json_object_get(row, "error") || (result && strcmp(result, "error") == 0);
    if (st == LT_ERR_UNSUPPORTED)
        return skip(r, lt_error_message());
    if (st != LT_OK)
        return judge_error(r, row, st);
    if (c->dropped)
        return drop ? PASSED : wrong(r, c->dropped);
    if (drop || error)
        return wrong(r, drop ? "the reference drops this record"
                             : "the reference refuses this record");
    if (!equal(s->ids, s->n, json_object_get(row, "input_ids")))
        return wrong(r, "the ids differ");
    return equal(s->labels, s->n, json_object_get(row, "labels")) ? PASSED
                                                                  : wrong(r, "the labels differ");
}

static verdict run_row(runner *r, const json_t *row, json_t *record, const lt_attr *attr,
                       const lt_encode_opts *opts)
{
    const lt_record_place place = {r->file, 0, r->line};
    lt_conversation c = {0};
    lt_encoder *e = NULL;
    lt_sample s = {0};
    lt_status st = lt_attr_check(attr);
    if (st == LT_OK)
        st = lt_convert_record(attr, record, r->arena, &c);
    if (st == LT_OK && !c.dropped) {
        st = lt_encoder_create(opts, &e);
        if (st == LT_OK)
            st = lt_encode(e, &c, place, r->arena, &s, NULL);
        lt_encoder_destroy(e);
    }
    return judge(r, row, &c, st, &s);
}

static verdict read_row(runner *r, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "template")), *example;
    json_t *own = json_object_get(row, "sample");
    const json_t *options = json_object_get(row, own ? "config" : "options");
    lt_attr attr = lt_attr_default();
    lt_encode_opts opts = lt_encode_opts_default();
    const lt_template *chat = NULL;
    if (!name || lt_template_find(name, &chat) != LT_OK)
        return skip(r, name ? name : "no template");
    r->now = lt_text_starts(name, "qwen2") ? &r->processor_of_qwen2 : &r->processor;
    opts.render.tokenizer = r->tokenizer;
    opts.render.chat = chat;
    opts.media_dir = r->images;
    opts.grid_of = grid_of;
    opts.grid_ctx = r;
    opts.cutoff_len = own ? 1024 : 2048;
    if (!read_options(options, &opts))
        return skip(r, "an option that this program does not know");
    if (own) {
        return read_attr(json_object_get(row, "attr"), &attr)
                   ? run_row(r, row, own, &attr, &opts)
                   : skip(r, "an attr that this program does not know");
    }
    attr.images = "images";
    attr.messages = "messages";
    attr.role_tag = "role";
    attr.content_tag = "content";
    attr.user_tag = "user";
    attr.assistant_tag = "assistant";
    example = json_string_value(json_object_get(row, "example"));
    json_t *record = example ? json_object_get(r->examples, example) : NULL;
    return record ? run_row(r, row, record, &attr, &opts) : wrong(r, "no such example");
}

static void run_line(runner *r, const char *line, size_t len)
{
    json_error_t error;
    json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, &error);
    const verdict v = row ? read_row(r, row) : wrong(r, error.text);
    json_decref(row);
    lt_arena_reset(r->arena);
    r->passed += v == PASSED;
    r->failed += v == FAILED;
    r->skipped += v == SKIPPED;
}

static lt_status run_file(runner *r, const char *dir, const char *name)
{
    lt_arena *paths;
    char *path = NULL;
    lt_mapped map = {0};
    LT_TRY(lt_arena_create(&paths, "paths"));
    lt_status st = lt_path_join(paths, dir, name, &path);
    if (st == LT_OK && lt_file_exists(path)) {
        st = lt_file_map(path, &map);
        const char *at = (const char *)map.data, *end = at + map.bytes;
        r->file = path;
        for (r->line = 1; st == LT_OK && at < end; r->line++) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            stop = stop ? stop : end;
            if (stop > at)
                run_line(r, at, (size_t)(stop - at));
            at = stop + 1;
        }
        lt_file_unmap(&map);
    }
    lt_arena_destroy(paths);
    return st;
}

static lt_status run(runner *r, const char *dir, const char *tokenizer)
{
    char examples[4096];
    json_error_t error;
    r->processor = lt_image_processor_default();
    r->processor_of_qwen2 = r->processor; // patch 14, 3136 .. 12845056 pixels
    r->processor_of_qwen2.patch = 14;
    r->processor_of_qwen2.min_pixels = 3136;
    r->processor_of_qwen2.max_pixels = 12845056;
    r->budget = lt_image_budget_default();
    r->budget.max_pixels = 262144;
    r->budget.min_pixels = 1024;
    LT_TRY(lt_arena_create(&r->arena, "a row"));
    LT_TRY(lt_tokenizer_open(tokenizer, &r->tokenizer));
    snprintf(examples, sizeof examples, "%s/examples.json", dir);
    if (lt_file_exists(examples)) {
        r->examples = json_load_file(examples, JSON_ALLOW_NUL, &error);
        if (!r->examples)
            return LT_FAIL(LT_ERR_FORMAT, "%s:%d: %s", examples, error.line, error.text);
    }
    LT_TRY(run_file(r, dir, "encoded.jsonl"));
    return run_file(r, dir, "encode.jsonl");
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
        fprintf(stderr, "usage: golden_data DIR --tokenizer DIR --images DIR\n");
        return 2;
    }
    if (run(&r, dir, tokenizer) != LT_OK) {
        printf("%s\n", lt_error_message());
        r.failed++;
    }
    json_decref(r.examples);
    lt_tokenizer_close(r.tokenizer);
    lt_arena_destroy(r.arena);
    printf("%ld passed, %ld failed, %ld skipped\n", r.passed, r.failed, r.skipped);
    return r.failed > 0 || r.passed == 0;
}
