// SPDX-License-Identifier: Apache-2.0
// A distributed checkpoint as a Hugging Face folder, in the files of the one that it came from.
#include "base/file.h"
#include "ckpt/convert_recipe.h"
#include "ckpt/dcp.h"
#include "ckpt/json_text.h"
#include "ckpt/publish.h"
#include "ckpt/run_folder.h"
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LISTED = 3 };

// One of the files to be written.
typedef struct out_file {
    lt_vec items; // lt_st_item
    lt_matrix matrix;
} out_file;

typedef struct conversion {
    const lt_convert_opts *o;
    lt_arena *arena;
    lt_hf *hf; // the folder that the result is to be like
    lt_dcp *dcp;
    lt_expert_rule rule;
    out_file *files; // [lt_hf_n_files]
    lt_vec dropped;  // const char *: names that the result lacks
    const char *dir;
    int64_t done, total, n_elems;
    bool retyped;         // some dtype isn't the folder's
    pthread_mutex_t lock; // of `done`
} conversion;

// A fetch that counts.
typedef struct counted {
    conversion *c;
    lt_st_fetch fetch;
    void *ctx;
    size_t size;
} counted;

static lt_status fetch_counted(void *ctx, int64_t first, int64_t n, void *dst)
{
    const counted *f = ctx;
    LT_TRY(f->fetch(f->ctx, first, n, dst));
    pthread_mutex_lock(&f->c->lock);
    f->c->done += n * (int64_t)f->size;
    if (f->c->o->progress)
        f->c->o->progress(f->c->o->ctx, f->c->done, f->c->total);
    pthread_mutex_unlock(&f->c->lock);
    return LT_OK;
}

// ---- finding

// Checkpoints of some families have a level "model." more than others.
static const lt_st_tensor *find_key(const conversion *c, const char *name)
{
    static const char *const fronts[] = {"model.", "model.model.", ""};
    lt_buf key = {0};
    const lt_dcp_entry *e = NULL;
    for (int i = 0; i < 3 && !(e && e->tensor); i++) {
        lt_buf_clear(&key);
        e = lt_buf_printf(&key, "%s%s", fronts[i], name) == LT_OK ? lt_dcp_find(c->dcp, key.data)
                                                                  : NULL;
    }
    lt_buf_deinit(&key);
    return e ? e->tensor : NULL;
}

static lt_status find_named(conversion *c, const char *name, const lt_st_tensor **out)
{
    char *key;
    LT_TRY(lt_dcp_name(c->o, &c->rule, c->arena, name, &key));
    *out = find_key(c, key);
    return LT_OK;
}

static lt_status wrong_shape(const conversion *c, const lt_st_tensor *want, const lt_st_tensor *got)
{
    return LT_FAIL(LT_ERR_SHAPE, "%s: %s is %s, and %s has it as %s", lt_dcp_dir(c->dcp), got->name,
                   lt_st_shape_text(got).s, want->file, lt_st_shape_text(want).s);
}

// ---- items

static lt_dtype dtype_of(const conversion *c, const lt_st_tensor *like)
{
    return c->o->to_bf16 && like->dtype != LT_N_DTYPES && lt_dtype_is_float(like->dtype)
               ? LT_BF16
               : like->dtype;
}

// Shape and name as in the folder; elements from `fetch` (NULL: from `source` as they are).
static lt_status add_item(conversion *c, out_file *f, const lt_st_tensor *like,
                          const lt_st_tensor *source, lt_st_fetch fetch, void *ctx)
{
    lt_st_item item = {.tensor = *like, .from = source->dtype};
    const lt_dtype to = dtype_of(c, like);
    void *memory;
    if (source->dtype == LT_N_DTYPES || to == LT_N_DTYPES) {
        if (strcmp(source->dtype_text, like->dtype_text) != 0 || fetch != lt_raw_fetch)
            return wrong_shape(c, like, source);
        item.tensor.data = source->data;
        item.tensor.source = source->source;
        c->total += (int64_t)like->bytes;
        c->n_elems += lt_st_elems(like);
        return lt_vec_push(&f->items, &item);
    }
    LT_TRY(lt_st_plan(like->name, to, like->rank, like->dim, &item.tensor));
    LT_TRY(lt_arena_take(c->arena, sizeof(counted), &memory));
    *(counted *)memory = (counted){c, fetch, ctx, lt_dtype_bytes(to)};
    item.fetch = fetch_counted;
    item.ctx = memory;
    c->retyped = c->retyped || to != like->dtype;
    c->total += (int64_t)item.tensor.bytes;
    c->n_elems += lt_st_elems(like);
    return lt_vec_push(&f->items, &item);
}

static lt_status add_recipe(conversion *c, out_file *f, const lt_st_tensor *like,
                            const lt_st_tensor *source, lt_recipe r)
{
    void *memory, *parts;
    LT_TRY(lt_arena_take(c->arena, sizeof(lt_recipe), &memory));
    LT_TRY(lt_arena_take(c->arena, sizeof(void *), &parts));
    *(const lt_st_tensor **)parts = source;
    r.parts = parts;
    r.n_parts = 1;
    r.stack = 1;
    r.turned = true;
    r.size = lt_st_elem_bytes(source);
    r.matrix = &f->matrix;
    *(lt_recipe *)memory = r;
    return add_item(c, f, like, source, lt_recipe_fetch, memory);
}

static lt_status add_source(conversion *c, out_file *f, const lt_st_tensor *like,
                            const lt_st_tensor *source)
{
    union {
        const void *in;
        void *out;
    } v = {.in = source};
    return add_item(c, f, like, source, lt_raw_fetch, v.out);
}

static bool same_dims(const lt_st_tensor *a, int32_t rank, const int64_t *dim)
{
    return a->rank == rank && (rank == 0 || memcmp(a->dim, dim, (size_t)rank * sizeof *dim) == 0);
}

static lt_status add_found(conversion *c, out_file *f, const lt_st_tensor *like,
                           const lt_st_tensor *source)
{
    if (c->o->kind == LT_CONVERT_QWEN35 && like->rank == 3 && lt_is_swapped(like->name)) {
        const int64_t dim[] = {like->dim[0], like->dim[2], like->dim[1]};
        if (!same_dims(source, 3, dim))
            return wrong_shape(c, like, source);
        return add_recipe(c, f, like, source, (lt_recipe){.rows = dim[1], .cols = dim[2]});
    }
    if (like->rank == 3 && lt_is_fused(c->o, like->name)) {
        const int64_t flat[] = {like->dim[0] * like->dim[1], like->dim[2]};
        if (same_dims(source, 2, flat))
            return add_source(c, f, like, source);
    }
    return same_dims(source, like->rank, like->dim) ? add_source(c, f, like, source)
                                                    : wrong_shape(c, like, source);
}

// A row range of one expert's matrix, which lies turned in the merged tensor.
static lt_status add_expert(conversion *c, out_file *f, const lt_st_tensor *like,
                            const lt_expert_name *e, bool *found)
{
    char *name;
    const lt_st_tensor *source;
    LT_TRY(lt_merged_name(c->arena, like->name, e, &name));
    LT_TRY(find_named(c, name, &source));
    *found = source != NULL;
    if (!source)
        return LT_OK;
    const int64_t stack = e->which == 2 ? 1 : 2;
    if (like->rank != 2 || source->rank < 2 || source->rank > 3 ||
        source->dim[source->rank - 1] != stack * like->dim[0])
        return wrong_shape(c, like, source);
    const int64_t cols = stack * like->dim[0], rows = like->dim[1];
    const int64_t from = (e->expert * cols + (e->which == 1 ? like->dim[0] : 0)) * rows;
    if ((source->rank == 3 && source->dim[1] != rows) ||
        from + like->dim[0] * rows > lt_st_elems(source))
        return wrong_shape(c, like, source);
    return add_recipe(c, f, like, source, (lt_recipe){.rows = rows, .cols = cols, .from = from});
}

// ---- planning

typedef struct missing {
    int64_t n;
    const char *names[MAX_LISTED];
} missing;

static lt_status plan_tensor(conversion *c, out_file *f, const lt_st_tensor *like, missing *lost)
{
    const lt_st_tensor *source;
    lt_expert_name e;
    bool found = false;
    LT_TRY(find_named(c, like->name, &source));
    if (source)
        return add_found(c, f, like, source);
    if (c->o->kind != LT_CONVERT_GENERIC && lt_expert_name_of(like->name, &e))
        LT_TRY(add_expert(c, f, like, &e, &found));
    if (found)
        return LT_OK;
    if (c->o->kind == LT_CONVERT_QWEN35 && lt_text_starts(like->name, "mtp."))
        return c->o->keep_origin_mtp ? add_source(c, f, like, like)
                                     : lt_vec_push(&c->dropped, (const void *)&like->name);
    if (lost->n < MAX_LISTED)
        lost->names[lost->n] = like->name;
    lost->n++;
    return LT_OK;
}

static lt_status make_plan(conversion *c)
{
    const int64_t n = lt_hf_n_files(c->hf);
    missing lost = {0};
    void *memory;
    LT_TRY(lt_arena_take(c->arena, (size_t)n * sizeof(out_file), &memory));
    c->files = memory;
    for (int64_t i = 0; i < n; i++)
        c->files[i].items = LT_VEC_OF(lt_st_item);
    for (int64_t i = 0; i < n; i++) {
        const lt_st *st = lt_hf_file(c->hf, i);
        for (int64_t k = 0; k < lt_st_count(st); k++)
            if (lt_hf_find(c->hf, lt_st_at(st, k)->name) == lt_st_at(st, k))
                LT_TRY(plan_tensor(c, &c->files[i], lt_st_at(st, k), &lost));
    }
    if (lost.n == 0)
        return LT_OK;
    return LT_FAIL(LT_ERR_NOT_FOUND,
                   "%s lacks %lld tensors that %s has: %s%s%s%s%s%s (are hf_prefix and dcp_prefix "
                   "those that it was made with?)",
                   lt_dcp_dir(c->dcp), (long long)lost.n, c->o->hf_dir, lost.names[0],
                   lost.n > 1 ? ", " : "", lost.n > 1 ? lost.names[1] : "", lost.n > 2 ? ", " : "",
                   lost.n > 2 ? lost.names[2] : "", lost.n > MAX_LISTED ? ", ..." : "");
}

// ---- the small files

static lt_status rewrite_index(const conversion *c, const char *from, const char *to)
{
    json_error_t error;
    json_t *root = json_load_file(from, JSON_REJECT_DUPLICATES, &error);
    json_t *map = json_object_get(root, "weight_map"), *meta = json_object_get(root, "metadata");
    if (!json_is_object(map)) {
        json_decref(root);
        return LT_FAIL(LT_ERR_FORMAT, "%s: it holds no weight_map", from);
    }
    for (int64_t i = 0; i < c->dropped.n; i++)
        json_object_del(map, LT_AT(&c->dropped, const char *, i));
    json_object_set_new(meta, "total_size", json_integer(c->total));
    if (json_object_get(meta, "total_parameters"))
        json_object_set_new(meta, "total_parameters", json_integer(c->n_elems));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    const lt_status st = text ? lt_file_replace(to, text, strlen(text))
                              : LT_FAIL(LT_ERR_MEMORY, "out of memory: the index of %s", to);
    free(text); // jansson's
    return st;
}

typedef struct config_edit {
    bool bf16, no_mtp;
} config_edit;

static const char *edit_config(void *ctx, const char *path, const char *value, size_t len)
{
    const config_edit *e = ctx;
    if (e->no_mtp && lt_text_ends(path, ".mtp_num_hidden_layers"))
        return "0";
    if (e->bf16 && len > 2 && value[0] == '"' &&
        (lt_text_ends(path, ".dtype") || lt_text_ends(path, ".torch_dtype")))
        return "\"bfloat16\"";
    return NULL;
}

// config.json describes what is in the files.
static lt_status rewrite_config(const conversion *c, const char *from, const char *to)
{
    config_edit e = {c->retyped && c->o->to_bf16, c->dropped.n > 0};
    lt_buf text = {0};
    lt_status st = lt_file_read(from, 0, &text);
    if (st == LT_OK)
        st = lt_json_edit(&text, edit_config, &e);
    if (st == LT_OK)
        st = lt_file_replace(to, text.data, text.len);
    lt_buf_deinit(&text);
    return st;
}

static bool is_weights(const char *name)
{
    return lt_text_ends(name, ".safetensors") || name[0] == '.' || strstr(name, ".tmp-") ||
           lt_text_ends(name, ".bin") || lt_text_ends(name, ".distcp");
}

static lt_status copy_one(conversion *c, const char *name)
{
    char *from, *to;
    LT_TRY(lt_path_join(c->arena, c->o->hf_dir, name, &from));
    LT_TRY(lt_path_join(c->arena, c->dir, name, &to));
    if (lt_file_is_dir(from) || is_weights(name))
        return LT_OK;
    const bool changed = c->retyped || c->dropped.n > 0;
    if (changed && strcmp(name, LT_HF_INDEX) == 0)
        return rewrite_index(c, from, to);
    if (changed && strcmp(name, "config.json") == 0)
        return rewrite_config(c, from, to);
    return lt_file_copy(from, to);
}

static lt_status copy_small(conversion *c)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(c->o->hf_dir, c->arena, &names);
    for (int64_t i = 0; st == LT_OK && i < names.n; i++)
        st = copy_one(c, LT_AT(&names, char *, i));
    lt_vec_deinit(&names);
    return st;
}

// ---- writing

static lt_status write_one(void *ctx, int64_t i, int thread)
{
    (void)thread;
    conversion *c = ctx;
    out_file *f = &c->files[i];
    const lt_st *like = lt_hf_file(c->hf, i);
    lt_vec meta = LT_VEC_OF(lt_st_pair);
    lt_buf path = {0};
    lt_status st = lt_buf_printf(&path, "%s/%s", c->dir, lt_hf_file_name(c->hf, i));
    for (int64_t k = 0; st == LT_OK && k < lt_st_meta_count(like); k++)
        st = lt_vec_push(&meta, lt_st_meta_at(like, k));
    if (st == LT_OK && f->items.n > 0) // its tensors may all have been dropped
        st = lt_st_write(path.data, f->items.data, f->items.n, meta.data, meta.n);
    lt_matrix_deinit(&f->matrix);
    lt_vec_deinit(&meta);
    lt_buf_deinit(&path);
    return st;
}

static lt_status publish(conversion *c, lt_status (*write)(conversion *))
{
    char *tmp;
    LT_TRY(lt_publish_room(c->o->save_dir, c->total));
    LT_TRY(lt_publish_begin(c->o->save_dir, false, c->arena, &tmp));
    c->dir = tmp;
    lt_status st = write(c);
    if (st == LT_OK)
        st = copy_small(c);
    if (st == LT_OK)
        st = lt_publish_commit(tmp, c->o->save_dir, false);
    if (st != LT_OK)
        lt_publish_abort(tmp);
    else
        LT_INFO(c->o->log, "convert", "%s: %s, read back and in place", c->o->save_dir,
                lt_bytes_text(c->total).s);
    return st;
}

static lt_status write_like(conversion *c)
{
    return lt_pool_run(c->o->pool, lt_hf_n_files(c->hf), write_one, c);
}

static lt_status convert_like(conversion *c)
{
    LT_TRY(lt_expert_rule_of(c->o, c->hf, &c->rule));
    LT_TRY(make_plan(c));
    if (c->dropped.n > 0) {
        LT_NOTE(c->o->log, "convert",
                "%lld tensors mtp.* are left out, since the checkpoint lacks them "
                "(keep_origin_mtp_weights takes them from %s)",
                (long long)c->dropped.n, c->o->hf_dir);
    }
    return publish(c, write_like);
}

// ---- a folder without weights to be like

// The name of a key "model.NAME" in the folder; NULL: it is no part of the model.
static lt_status name_of(conversion *c, const char *key, char **out)
{
    const char *name = key + strlen("model."), *front = c->o->dcp_prefix;
    *out = NULL;
    if (!lt_text_starts(key, "model."))
        return LT_OK;
    if (c->o->hf_prefix[0] == '\0')
        return lt_arena_text(c->arena, name + (lt_text_starts(name, front) ? strlen(front) : 0),
                             strlen(name) - (lt_text_starts(name, front) ? strlen(front) : 0), out);
    const char *at = front[0] ? strstr(name, front) : NULL;
    if (!at)
        return lt_arena_text(c->arena, name, strlen(name), out);
    return lt_arena_printf(c->arena, out, "%.*s%s%s", (int)(at - name), name, c->o->hf_prefix,
                           at + strlen(front));
}

static lt_status add_anew(conversion *c, const lt_st_tensor *t, lt_vec *items)
{
    char *name;
    union {
        const void *in;
        void *out;
    } v = {.in = t};
    LT_TRY(name_of(c, t->name, &name));
    if (!name)
        return LT_OK;
    if (t->dtype == LT_N_DTYPES || t->rank > LT_MAX_DIMS)
        return LT_FAIL(LT_ERR_DTYPE, "%s: %s is %s, which needs a folder with weights to be like",
                       lt_dcp_dir(c->dcp), t->name, lt_st_shape_text(t).s);
    lt_hf_item item = {.name = name,
                       .rank = t->rank,
                       .from = t->dtype,
                       .file_dtype = dtype_of(c, t),
                       .fetch = lt_raw_fetch,
                       .ctx = v.out};
    for (int32_t i = 0; i < t->rank; i++)
        item.dim[i] = t->dim[i];
    c->total += (int64_t)t->bytes;
    return lt_vec_push(items, &item);
}

static lt_status write_anew(conversion *c)
{
    lt_vec items = LT_VEC_OF(lt_hf_item);
    lt_hf_plan plan = lt_hf_plan_default();
    lt_status st = LT_OK;
    for (int64_t i = 0; st == LT_OK && i < lt_dcp_count(c->dcp); i++)
        if (lt_dcp_at(c->dcp, i)->tensor)
            st = add_anew(c, lt_dcp_at(c->dcp, i)->tensor, &items);
    plan.items = items.data;
    plan.n_items = items.n;
    if (st == LT_OK)
        st = lt_hf_write(c->dir, &plan);
    lt_vec_deinit(&items);
    return st;
}

// ---- all

static lt_status open_dcp(conversion *c)
{
    lt_run_found found;
    LT_TRY(lt_run_resolve(c->o->dcp_dir, c->o->log, c->arena, &found));
    if (found.kind != LT_RUN_DCP)
        return LT_FAIL(LT_ERR_FORMAT, "%s is a Hugging Face folder already", found.dir);
    return lt_dcp_open(found.dir, &c->dcp);
}

static lt_status convert(conversion *c)
{
    LT_TRY(lt_arena_create(&c->arena, "conversion"));
    LT_TRY(open_dcp(c));
    if (lt_hf_has_weights(c->o->hf_dir)) {
        LT_TRY(lt_hf_open(c->o->hf_dir, c->o->log, &c->hf));
        return convert_like(c);
    }
    if (c->o->kind != LT_CONVERT_GENERIC) {
        return LT_FAIL(LT_ERR_NOT_FOUND,
                       "%s holds no weights: their names and files are those of "
                       "the result",
                       c->o->hf_dir);
    }
    LT_TRY(lt_hf_open_assets(c->o->hf_dir, &c->hf));
    return publish(c, write_anew);
}

lt_status lt_convert_to_hf(const lt_convert_opts *opts)
{
    conversion c = {
        .o = opts, .dropped = LT_VEC_OF(const char *), .lock = PTHREAD_MUTEX_INITIALIZER};
    const lt_status st = convert(&c);
    if (st != LT_OK)
        lt_error_note("converting %s", opts->dcp_dir);
    for (int64_t i = 0; c.files && i < lt_hf_n_files(c.hf); i++)
        lt_vec_deinit(&c.files[i].items);
    lt_vec_deinit(&c.dropped);
    lt_dcp_close(c.dcp);
    lt_hf_close(c.hf);
    lt_arena_destroy(c.arena);
    return st;
}
