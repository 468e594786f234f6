// SPDX-License-Identifier: Apache-2.0
// Saving a model folder: weights by their layout, the index, the small files with their edits.
#include "ckpt/hf_save.h"
#include "base/file.h"
#include "base/text.h"
#include "ckpt/hf_layout.h"
#include "ckpt/json_text.h"
#include "ckpt/publish.h"
#include <stdio.h>
#include <string.h>

enum { SLACK_BYTES = 1 << 20 }; // headers and the file system's own books

lt_hf_plan lt_hf_plan_default(void)
{
    return (lt_hf_plan){
        .save_dtype = LT_N_DTYPES, .shard_bytes = 5000000000, .tie = LT_HF_TIE_KEEP};
}

// ---- the small files

typedef struct small_file {
    const char *name;
    lt_buf text;
} small_file;

static void deinit_files(lt_vec *files)
{
    for (int64_t i = 0; i < files->n; i++)
        lt_buf_deinit(&LT_AT(files, small_file, i).text);
    lt_vec_deinit(files);
}

static small_file *find_file(const lt_vec *files, const char *name)
{
    for (int64_t i = 0; i < files->n; i++)
        if (strcmp(LT_AT(files, small_file, i).name, name) == 0)
            return &LT_AT(files, small_file, i);
    return NULL;
}

static lt_status add_text(lt_vec *files, const char *name, const void *text, size_t bytes)
{
    LT_TRY(lt_vec_push(files, &(small_file){.name = name}));
    return lt_buf_append(&LT_AT(files, small_file, files->n - 1).text, text, bytes);
}

// How transformers spells a dtype in config.json.
static const char *const config_dtypes[LT_N_DTYPES] = {[LT_F64] = "\"float64\"",
                                                       [LT_F32] = "\"float32\"",
                                                       [LT_BF16] = "\"bfloat16\"",
                                                       [LT_F16] = "\"float16\""};

static bool names_a_dtype(const char *value, size_t len)
{
    for (int i = 0; i < LT_N_DTYPES; i++) {
        if (config_dtypes[i] != NULL && strlen(config_dtypes[i]) == len &&
            memcmp(config_dtypes[i], value, len) == 0)
            return true;
    }
    return false;
}

// The last key of a path that is at the top or one level down, in a part's configuration
// (".text_config.dtype").
static const char *config_key(const char *path)
{
    const char *first = path[0] == '.' ? path + 1 : path, *dot = strchr(first, '.');
    if (dot == NULL)
        return first;
    const bool part = dot - first > 7 && strncmp(dot - 7, "_config", 7) == 0;
    return part && strchr(dot + 1, '.') == NULL ? dot + 1 : "";
}

static const char *edit_config_value(void *ctx, const char *path, const char *value, size_t len)
{
    const lt_hf_plan *plan = ctx;
    const char *key = config_key(path);
    const bool dtype = strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0;
    if (dtype && plan->save_dtype != LT_N_DTYPES && names_a_dtype(value, len))
        return config_dtypes[plan->save_dtype];
    if (strcmp(key, "tie_word_embeddings") == 0 && plan->tie != LT_HF_TIE_KEEP)
        return plan->tie == LT_HF_TIED ? "true" : "false";
    return NULL;
}

// config.json has to describe what is in the files: the dtype when it was asked for, and whether
// the head is tied.
static lt_status edit_config(lt_buf *text, const lt_hf_plan *plan)
{
    lt_hf_plan copy = *plan;
    LT_TRY(lt_json_edit(text, edit_config_value, &copy));
    if (plan->tie != LT_HF_TIE_KEEP)
        LT_TRY(
            lt_json_set(text, "tie_word_embeddings", plan->tie == LT_HF_TIED ? "true" : "false"));
    return LT_OK;
}

static lt_status apply_edits(lt_vec *files, const lt_hf_plan *plan)
{
    small_file *config = find_file(files, "config.json");
    if (config != NULL && (plan->save_dtype != LT_N_DTYPES || plan->tie != LT_HF_TIE_KEEP)) {
        const lt_status st = edit_config(&config->text, plan);
        if (st != LT_OK) {
            lt_error_note("config.json");
            return st;
        }
    }
    for (int64_t i = 0; i < plan->n_edits; i++) {
        small_file *file = find_file(files, plan->edits[i].file);
        const lt_status st =
            file != NULL ? lt_json_set(&file->text, plan->edits[i].path, plan->edits[i].value)
                         : LT_OK;
        if (st != LT_OK) {
            lt_error_note("%s", plan->edits[i].file);
            return st;
        }
    }
    return LT_OK;
}

// The plan's texts, then the source's files that they don't replace, then the index; edited.
static lt_status small_files(const lt_hf_plan *plan, const lt_hf_layout *layout, lt_vec *files)
{
    for (int64_t i = 0; i < plan->n_texts; i++) {
        const lt_hf_text *t = &plan->texts[i];
        if (find_file(files, t->name) != NULL)
            return LT_FAIL(LT_ERR_FORMAT, "file %s stands twice among the files to be saved",
                           t->name);
        LT_TRY(add_text(files, t->name, t->text, t->bytes));
    }
    for (int64_t i = 0; plan->source != NULL && i < lt_hf_n_assets(plan->source); i++) {
        const lt_hf_asset *asset = lt_hf_asset_at(plan->source, i);
        if (find_file(files, asset->name) == NULL)
            LT_TRY(add_text(files, asset->name, asset->data, asset->bytes));
    }
    LT_TRY(apply_edits(files, plan));
    if (!layout->has_index)
        return LT_OK;
    LT_TRY(lt_vec_push(files, &(small_file){.name = LT_HF_INDEX}));
    return lt_hf_layout_index(layout, &LT_AT(files, small_file, files->n - 1).text);
}

static lt_status write_small(const char *path, const lt_buf *text)
{
    lt_writer *w;
    lt_buf back = {0};
    LT_TRY(lt_writer_create(path, &w));
    lt_status st = lt_writer_put(w, text->len > 0 ? text->data : "", text->len);
    if (st != LT_OK) {
        lt_writer_abandon(w);
        return st;
    }
    LT_TRY(lt_writer_close(&w));
    LT_TRY(lt_file_read(path, 0, &back));
    if (back.len != text->len || (back.len > 0 && memcmp(back.data, text->data, back.len) != 0))
        st = LT_FAIL(LT_ERR_IO, "%s reads back differently from what was written", path);
    lt_buf_deinit(&back);
    return st;
}

// ---- the weights

// The source file's metadata; readers of transformers insist on "format".
static lt_status file_meta(const lt_hf_layout_file *file, lt_vec *meta)
{
    for (int64_t i = 0; file->source != NULL && i < lt_st_meta_count(file->source); i++)
        LT_TRY(lt_vec_push(meta, lt_st_meta_at(file->source, i)));
    if (file->source == NULL || lt_st_meta(file->source, "format") == NULL)
        LT_TRY(lt_vec_push(meta, &(lt_st_pair){"format", "pt"}));
    return LT_OK;
}

static lt_status write_weights(const char *path, const lt_hf_layout_file *file)
{
    lt_vec meta = LT_VEC_OF(lt_st_pair);
    lt_status st = file_meta(file, &meta);
    if (st == LT_OK)
        st = lt_st_write(path, file->items.data, file->items.n, meta.data, meta.n);
    lt_vec_deinit(&meta);
    return st;
}

// ---- the folder

typedef struct saving {
    lt_arena *arena;
    lt_hf_layout layout;
    lt_vec files; // small_file
    int64_t bytes;
} saving;

static void deinit_saving(saving *s)
{
    deinit_files(&s->files);
    lt_hf_layout_deinit(&s->layout);
    lt_arena_destroy(s->arena);
}

static lt_status init_saving(saving *s, const lt_hf_plan *plan)
{
    lt_status st;
    *s = (saving){.files = LT_VEC_OF(small_file)};
    LT_TRY(lt_hf_layout_init(&s->layout, plan));
    LT_TRY_GOTO(st, lt_arena_create(&s->arena, "saving a model"), failed);
    LT_TRY_GOTO(st, small_files(plan, &s->layout, &s->files), failed);
    s->bytes = SLACK_BYTES;
    for (int64_t i = 0; i < s->files.n; i++)
        s->bytes += (int64_t)LT_AT(&s->files, small_file, i).text.len;
    if (lt_add_i64(s->bytes, s->layout.bytes, &s->bytes))
        return LT_OK;
    st = LT_FAIL(LT_ERR_SHAPE, "the model's size overflows 63 bits");
failed:
    deinit_saving(s);
    return st;
}

static lt_status write_all(saving *s, const char *dir)
{
    char *path;
    for (int64_t f = 0; f < s->layout.files.n; f++) {
        const lt_hf_layout_file *file = &LT_AT(&s->layout.files, lt_hf_layout_file, f);
        LT_TRY(lt_path_join(s->arena, dir, file->name, &path));
        LT_TRY(write_weights(path, file));
    }
    for (int64_t i = 0; i < s->files.n; i++) {
        const small_file *file = &LT_AT(&s->files, small_file, i);
        LT_TRY(lt_path_join(s->arena, dir, file->name, &path));
        LT_TRY(write_small(path, &file->text));
    }
    return LT_OK;
}

lt_status lt_hf_measure(const lt_hf_plan *plan, int64_t *bytes)
{
    saving s;
    LT_TRY(init_saving(&s, plan));
    *bytes = s.bytes;
    deinit_saving(&s);
    return LT_OK;
}

lt_status lt_hf_write(const char *dir, const lt_hf_plan *plan)
{
    saving s;
    LT_TRY(init_saving(&s, plan));
    const lt_status st = write_all(&s, dir);
    deinit_saving(&s);
    return st;
}

static lt_status save_beside(saving *s, const char *dir, const lt_hf_plan *plan, const lt_log *log)
{
    char *parent, *name, *prefix, *tmp;
    LT_TRY(lt_publish_split(dir, s->arena, &parent, &name));
    LT_TRY(lt_arena_printf(s->arena, &prefix, "%s.", name));
    LT_TRY(lt_publish_clean(parent, prefix, log));
    LT_TRY(lt_publish_room(dir, s->bytes));
    LT_TRY(lt_publish_begin(dir, plan->replace, s->arena, &tmp));
    lt_status st = write_all(s, tmp);
    if (st == LT_OK)
        st = lt_publish_commit(tmp, dir, plan->replace);
    if (st != LT_OK)
        lt_publish_abort(tmp);
    else {
        LT_INFO(log, "ckpt", "%s is saved and read back: %lld files, %s", dir,
                (long long)(s->layout.files.n + s->files.n),
                lt_bytes_text(s->bytes - SLACK_BYTES).s);
    }
    return st;
}

lt_status lt_hf_save(const char *dir, const lt_hf_plan *plan, const lt_log *log)
{
    saving s;
    lt_status st = init_saving(&s, plan);
    if (st == LT_OK) {
        st = save_beside(&s, dir, plan, log);
        deinit_saving(&s);
    }
    if (st != LT_OK)
        lt_error_note("saving the model to %s", dir);
    return st;
}
