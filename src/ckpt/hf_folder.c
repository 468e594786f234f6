// SPDX-License-Identifier: Apache-2.0
// Opening a model folder: the single file, or the index and its shards held against each other.
#include "ckpt/hf_folder.h"
#include "base/file.h"
#include "base/text.h"
#include <fnmatch.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX_BYTES = 1 << 28,
    MAX_FILES = 10000,
    MAX_FILE_NAME_BYTES = 255,
};

// What a saved model carries besides its weights, as shell patterns.
static const char *const asset_patterns[] = {
    "*config.json", // config, generation_config, tokenizer_config, preprocessor_config,
                    // video_preprocessor_config, processor_config
    "tokenizer*",
    "vocab*.json",
    "vocab.txt",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "*.jinja",
    "*.tiktoken",
    "*.model",
    "*.py",
    "LICENSE*",
    "NOTICE*",
};
enum { N_ASSET_PATTERNS = sizeof asset_patterns / sizeof asset_patterns[0] };

typedef struct shard {
    const char *name;
    lt_st *st;
} shard;

typedef struct entry {
    const lt_st_tensor *tensor;
    bool used;
} entry;

struct lt_hf {
    lt_arena *arena;
    const char *dir;
    bool has_index;
    lt_vec shards;  // shard, sorted by name
    lt_vec entries; // entry
    lt_map *by_name;
    lt_vec assets; // lt_hf_asset
    lt_dcp *dcp;   // NULL: safetensors files
};

static lt_status path_in(lt_hf *hf, const char *name, char **out)
{
    return lt_path_join(hf->arena, hf->dir, name, out);
}

// ---- the index

// A plain name in this very folder: an index from a stranger must not reach elsewhere.
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strchr(name, '\\') == NULL && strlen(name) <= MAX_FILE_NAME_BYTES;
}

static int by_shard_name(const void *a, const void *b)
{
    return strcmp(((const shard *)a)->name, ((const shard *)b)->name);
}

static lt_status add_shard(lt_hf *hf, lt_map *known, const char *name)
{
    int64_t at;
    char *copy;
    if (lt_map_get_text(known, name, &at))
        return LT_OK;
    if (hf->shards.n >= MAX_FILES)
        return LT_FAIL(LT_ERR_FORMAT, "%s/%s names more than %d files", hf->dir, LT_HF_INDEX,
                       MAX_FILES);
    LT_TRY(lt_map_put_text(known, name, 1));
    LT_TRY(lt_arena_text(hf->arena, name, strlen(name), &copy));
    return lt_vec_push(&hf->shards, &(shard){.name = copy});
}

// The files that the index names, sorted; each is opened by open_shards.
static lt_status list_shards(lt_hf *hf, json_t *weight_map, const char *path, lt_map *known)
{
    const char *tensor;
    json_t *file;
    json_object_foreach(weight_map, tensor, file)
    {
        if (!json_is_string(file) || !is_plain_name(json_string_value(file))) {
            return LT_FAIL(
                LT_ERR_FORMAT,
                "%s: tensor %s: its file has to be a name in this folder, without slashes", path,
                tensor);
        }
        LT_TRY(add_shard(hf, known, json_string_value(file)));
    }
    if (hf->shards.n == 0)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its weight_map is empty", path);
    qsort(hf->shards.data, (size_t)hf->shards.n, sizeof(shard), by_shard_name);
    return LT_OK;
}

static lt_status missing_shard(const lt_hf *hf, const char *name, json_t *weight_map)
{
    const char *tensor, *first = "";
    json_t *file;
    long long n = 0;
    json_object_foreach(weight_map, tensor, file)
    {
        if (strcmp(json_string_value(file), name) != 0)
            continue;
        if (n++ == 0)
            first = tensor;
    }
    return LT_FAIL(LT_ERR_NOT_FOUND, "%s/%s is missing: by %s it holds %lld tensors, %s among them",
                   hf->dir, name, LT_HF_INDEX, n, first);
}

static lt_status open_shards(lt_hf *hf, json_t *weight_map)
{
    for (int64_t i = 0; i < hf->shards.n; i++) {
        shard *s = &LT_AT(&hf->shards, shard, i);
        char *path;
        LT_TRY(path_in(hf, s->name, &path));
        if (!lt_file_exists(path))
            return missing_shard(hf, s->name, weight_map);
        LT_TRY(lt_st_open(path, &s->st));
    }
    return LT_OK;
}

// A tensor of shard i: listed for it, listed for another shard (then that one counts), or not
// listed at all.
static lt_status add_indexed(lt_hf *hf, const lt_st_tensor *t, const char *shard_name,
                             json_t *weight_map, const lt_log *log)
{
    int64_t other;
    const char *listed = json_string_value(json_object_get(weight_map, t->name));
    if (listed != NULL && strcmp(listed, shard_name) != 0) {
        LT_WARN(log, "ckpt", "%s: its tensor %s is passed over, since the index takes it from %s",
                t->file, t->name, listed);
        return LT_OK;
    }
    if (lt_map_get_text(hf->by_name, t->name, &other)) {
        return LT_FAIL(
            LT_ERR_FORMAT,
            "tensor %s stands in %s and in %s, and the index doesn't say which one counts", t->name,
            LT_AT(&hf->entries, entry, other).tensor->file, t->file);
    }
    if (listed == NULL)
        LT_NOTE(log, "ckpt", "%s: its tensor %s isn't in the index; it is taken all the same",
                t->file, t->name);
    LT_TRY(lt_map_put_text(hf->by_name, t->name, hf->entries.n));
    return lt_vec_push(&hf->entries, &(entry){.tensor = t});
}

static lt_status check_listed(const lt_hf *hf, json_t *weight_map, const char *path)
{
    const char *tensor;
    json_t *file;
    json_object_foreach(weight_map, tensor, file)
    {
        if (lt_hf_find(hf, tensor) == NULL)
            return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s should be in %s, which doesn't hold it",
                           path, tensor, json_string_value(file));
    }
    return LT_OK;
}

static lt_status open_indexed(lt_hf *hf, json_t *root, const char *path, const lt_log *log)
{
    json_t *weight_map = json_object_get(root, "weight_map");
    lt_map *known;
    if (!json_is_object(weight_map))
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: it has to hold a weight_map, an object of tensor and file names", path);
    LT_TRY(lt_map_create(&known));
    const lt_status st = list_shards(hf, weight_map, path, known);
    lt_map_destroy(known);
    LT_TRY(st);
    LT_TRY(open_shards(hf, weight_map));
    for (int64_t i = 0; i < hf->shards.n; i++) {
        const shard *s = &LT_AT(&hf->shards, shard, i);
        for (int64_t k = 0; k < lt_st_count(s->st); k++)
            LT_TRY(add_indexed(hf, lt_st_at(s->st, k), s->name, weight_map, log));
    }
    return check_listed(hf, weight_map, path);
}

static lt_status open_index(lt_hf *hf, const lt_log *log)
{
    char *path;
    lt_buf text = {0};
    json_error_t error;
    LT_TRY(path_in(hf, LT_HF_INDEX, &path));
    LT_TRY(lt_file_read(path, MAX_INDEX_BYTES, &text));
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    lt_buf_deinit(&text);
    if (root == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: not a valid index: %s", path, error.line, error.text);
    hf->has_index = true;
    const lt_status st = open_indexed(hf, root, path, log);
    json_decref(root);
    return st;
}

static lt_status open_single(lt_hf *hf)
{
    char *path;
    shard s = {.name = LT_HF_SINGLE};
    LT_TRY(path_in(hf, LT_HF_SINGLE, &path));
    LT_TRY(lt_st_open(path, &s.st));
    const lt_status st = lt_vec_push(&hf->shards, &s);
    if (st != LT_OK) {
        lt_st_close(s.st);
        return st;
    }
    for (int64_t i = 0; i < lt_st_count(s.st); i++) {
        const entry e = {.tensor = lt_st_at(s.st, i)};
        LT_TRY(lt_map_put_text(hf->by_name, e.tensor->name, i));
        LT_TRY(lt_vec_push(&hf->entries, &e));
    }
    return LT_OK;
}

// ---- the small files

static bool is_asset(const char *name)
{
    if (strcmp(name, LT_HF_INDEX) == 0 || lt_text_ends(name, ".safetensors") ||
        strstr(name, ".tmp-") != NULL)
        return false;
    for (int i = 0; i < N_ASSET_PATTERNS; i++)
        if (fnmatch(asset_patterns[i], name, FNM_PERIOD) == 0)
            return true;
    return false;
}

static lt_status map_assets(lt_hf *hf)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(hf->dir, hf->arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++) {
        lt_hf_asset asset = {.name = LT_AT(&names, char *, i)};
        lt_mapped map;
        char *path = NULL;
        st = path_in(hf, asset.name, &path);
        if (st != LT_OK || !is_asset(asset.name) || lt_file_is_dir(path))
            continue;
        LT_TRY_GOTO(st, lt_file_map(path, &map), done);
        asset.data = map.data;
        asset.bytes = map.bytes;
        st = lt_vec_push(&hf->assets, &asset);
        if (st != LT_OK)
            lt_file_unmap(&map);
    }
done:
    lt_vec_deinit(&names);
    return st;
}

// ---- opening

static lt_status check_dir(const char *dir)
{
    if (lt_file_is_dir(dir))
        return LT_OK;
    if (lt_file_exists(dir))
        return LT_FAIL(LT_ERR_NOT_FOUND, "%s is a file; the folder of a model is wanted", dir);
    return LT_FAIL(
        LT_ERR_NOT_FOUND,
        "there is no folder %s: models aren't downloaded, a folder on this machine is wanted", dir);
}

static lt_status create(const char *dir, lt_hf **out)
{
    void *mem;
    lt_status st;
    char *copy = NULL;
    LT_TRY(check_dir(dir));
    LT_TRY(lt_mem_alloc(&mem, sizeof(lt_hf), "model folder"));
    lt_hf *hf = mem;
    hf->shards = LT_VEC_OF(shard);
    hf->entries = LT_VEC_OF(entry);
    hf->assets = LT_VEC_OF(lt_hf_asset);
    LT_TRY_GOTO(st, lt_arena_create(&hf->arena, "model folder"), failed);
    LT_TRY_GOTO(st, lt_map_create(&hf->by_name), failed);
    LT_TRY_GOTO(st, lt_arena_text(hf->arena, dir, strlen(dir), &copy), failed);
    hf->dir = copy;
    LT_TRY_GOTO(st, map_assets(hf), failed);
    *out = hf;
    return LT_OK;
failed:
    lt_hf_close(hf);
    return st;
}

static bool has_file(const char *dir, const char *name)
{
    lt_buf path = {0};
    const bool found =
        lt_buf_printf(&path, "%s/%s", dir, name) == LT_OK && lt_file_exists(path.data);
    lt_buf_deinit(&path);
    return found;
}

bool lt_hf_has_weights(const char *dir)
{
    return has_file(dir, LT_HF_SINGLE) || has_file(dir, LT_HF_INDEX);
}

static lt_status open_weights(lt_hf *hf, const lt_log *log)
{
    if (has_file(hf->dir, LT_HF_SINGLE))
        return open_single(hf);
    if (has_file(hf->dir, LT_HF_INDEX))
        return open_index(hf, log);
    const bool old =
        has_file(hf->dir, "pytorch_model.bin") || has_file(hf->dir, "pytorch_model.bin.index.json");
    return LT_FAIL(LT_ERR_NOT_FOUND, "%s holds neither %s nor %s%s", hf->dir, LT_HF_SINGLE,
                   LT_HF_INDEX,
                   old ? "; its pytorch_model.bin isn't read, save it as safetensors first" : "");
}

lt_status lt_hf_open(const char *dir, const lt_log *log, lt_hf **out)
{
    lt_hf *hf;
    LT_TRY(create(dir, &hf));
    const lt_status st = open_weights(hf, log);
    if (st != LT_OK) {
        lt_hf_close(hf);
        return st;
    }
    *out = hf;
    return LT_OK;
}

lt_status lt_hf_open_assets(const char *dir, lt_hf **out)
{
    return create(dir, out);
}

static lt_status add_keys(lt_hf *hf)
{
    static const char front[] = "model.";
    for (int64_t i = 0; i < lt_dcp_count(hf->dcp); i++) {
        const lt_dcp_entry *e = lt_dcp_at(hf->dcp, i);
        void *memory;
        if (e->tensor == NULL || !lt_text_starts(e->key, front))
            continue;
        LT_TRY(lt_arena_take(hf->arena, sizeof(lt_st_tensor), &memory));
        lt_st_tensor *t = memory;
        *t = *e->tensor;
        t->name = e->key + sizeof front - 1;
        LT_TRY(lt_map_put_text(hf->by_name, t->name, hf->entries.n));
        LT_TRY(lt_vec_push(&hf->entries, &(entry){.tensor = t}));
    }
    if (hf->entries.n == 0)
        return LT_FAIL(LT_ERR_FORMAT, "%s holds no tensor model.*: is it a checkpoint of a model?",
                       hf->dir);
    return LT_OK;
}

lt_status lt_hf_open_dcp(const char *dir, lt_hf **out)
{
    lt_hf *hf;
    LT_TRY(create(dir, &hf));
    lt_status st = lt_dcp_open(dir, &hf->dcp);
    if (st == LT_OK)
        st = add_keys(hf);
    if (st != LT_OK) {
        lt_hf_close(hf);
        return st;
    }
    *out = hf;
    return LT_OK;
}

const lt_dcp *lt_hf_dcp(const lt_hf *hf)
{
    return hf->dcp;
}

void lt_hf_close(lt_hf *hf)
{
    if (hf == NULL)
        return;
    lt_dcp_close(hf->dcp);
    for (int64_t i = 0; i < hf->shards.n; i++)
        lt_st_close(LT_AT(&hf->shards, shard, i).st);
    for (int64_t i = 0; i < hf->assets.n; i++) {
        const lt_hf_asset *asset = lt_hf_asset_at(hf, i);
        lt_file_unmap(&(lt_mapped){asset->data, asset->bytes});
    }
    lt_vec_deinit(&hf->shards);
    lt_vec_deinit(&hf->entries);
    lt_vec_deinit(&hf->assets);
    lt_map_destroy(hf->by_name);
    lt_arena_destroy(hf->arena);
    lt_mem_free(hf);
}

// ---- looking things up

const char *lt_hf_dir(const lt_hf *hf)
{
    return hf->dir;
}

bool lt_hf_has_index(const lt_hf *hf)
{
    return hf->has_index;
}

int64_t lt_hf_n_files(const lt_hf *hf)
{
    return hf->shards.n;
}

const char *lt_hf_file_name(const lt_hf *hf, int64_t i)
{
    LT_ASSERT(i >= 0 && i < hf->shards.n);
    return LT_AT(&hf->shards, shard, i).name;
}

const lt_st *lt_hf_file(const lt_hf *hf, int64_t i)
{
    LT_ASSERT(i >= 0 && i < hf->shards.n);
    return LT_AT(&hf->shards, shard, i).st;
}

int64_t lt_hf_n_assets(const lt_hf *hf)
{
    return hf->assets.n;
}

const lt_hf_asset *lt_hf_asset_at(const lt_hf *hf, int64_t i)
{
    LT_ASSERT(i >= 0 && i < hf->assets.n);
    return &LT_AT(&hf->assets, lt_hf_asset, i);
}

const lt_hf_asset *lt_hf_asset_find(const lt_hf *hf, const char *name)
{
    for (int64_t i = 0; i < hf->assets.n; i++)
        if (strcmp(lt_hf_asset_at(hf, i)->name, name) == 0)
            return lt_hf_asset_at(hf, i);
    return NULL;
}

int64_t lt_hf_count(const lt_hf *hf)
{
    return hf->entries.n;
}

const lt_st_tensor *lt_hf_at(const lt_hf *hf, int64_t i)
{
    LT_ASSERT(i >= 0 && i < hf->entries.n);
    return LT_AT(&hf->entries, entry, i).tensor;
}

// Some distributed checkpoints have a level "model." more in all their names.
static bool find_index(const lt_hf *hf, const char *name, int64_t *i)
{
    if (lt_map_get_text(hf->by_name, name, i))
        return true;
    lt_buf longer = {0};
    const bool found = hf->dcp != NULL && lt_buf_printf(&longer, "model.%s", name) == LT_OK &&
                       lt_map_get_text(hf->by_name, longer.data, i);
    lt_buf_deinit(&longer);
    return found;
}

const lt_st_tensor *lt_hf_find(const lt_hf *hf, const char *name)
{
    int64_t i;
    return find_index(hf, name, &i) ? lt_hf_at(hf, i) : NULL;
}

lt_status lt_hf_need(lt_hf *hf, const char *name, int32_t rank, const int64_t *dim,
                     const lt_st_tensor **out)
{
    const lt_st_tensor *t = lt_hf_find(hf, name);
    if (t == NULL) {
        return LT_FAIL(LT_ERR_NOT_FOUND, "tensor %s is missing from %s, which holds %lld tensors",
                       name, hf->dir, (long long)hf->entries.n);
    }
    const lt_st_tensor want = {.dtype_text = t->dtype_text, .rank = rank, .dim = dim};
    if (t->rank != rank || (rank > 0 && memcmp(t->dim, dim, (size_t)rank * sizeof *dim) != 0))
        return LT_FAIL(LT_ERR_SHAPE, "%s: tensor %s is %s and the model needs %s", t->file, name,
                       lt_st_shape_text(t).s, lt_st_shape_text(&want).s);
    if (t->dtype == LT_N_DTYPES || !lt_dtype_is_float(t->dtype)) {
        return LT_FAIL(LT_ERR_DTYPE,
                       "%s: tensor %s is %s; weights are read in F64, F32, BF16 and F16", t->file,
                       name, lt_st_shape_text(t).s);
    }
    lt_hf_mark_used(hf, name);
    *out = t;
    return LT_OK;
}

void lt_hf_mark_used(lt_hf *hf, const char *name)
{
    int64_t i;
    if (find_index(hf, name, &i))
        LT_AT(&hf->entries, entry, i).used = true;
}

lt_status lt_hf_unused(const lt_hf *hf, lt_vec *names)
{
    for (int64_t i = 0; i < hf->entries.n; i++)
        if (!LT_AT(&hf->entries, entry, i).used)
            LT_TRY(lt_vec_push(names, &lt_hf_at(hf, i)->name));
    return LT_OK;
}
