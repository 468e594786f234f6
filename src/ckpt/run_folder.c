// SPDX-License-Identifier: Apache-2.0
// Finding and opening the checkpoint that a path leads to: tracker, iteration folder, model folder.
#include "ckpt/run_folder.h"
#include "base/file.h"
#include "base/text.h"
#include "ckpt/publish.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TRACKER_BYTES = 64,
    MAX_ITERATION_DIGITS = 15,
    STATE_VERSION = 1,
};

lt_status lt_run_dir(lt_arena *arena, const char *root, int64_t iteration, char **out)
{
    char *name;
    LT_TRY(lt_arena_printf(arena, &name, "iter_%07lld", (long long)iteration));
    return lt_path_join(arena, root, name, out);
}

static lt_status has(lt_arena *arena, const char *dir, const char *name, bool *out)
{
    char *path;
    LT_TRY(lt_path_join(arena, dir, name, &path));
    *out = lt_file_exists(path);
    return LT_OK;
}

// ---- resolving

static void trim(lt_buf *text)
{
    while (text->len > 0 && strchr(" \t\r\n", text->data[text->len - 1]) != NULL)
        text->data[--text->len] = '\0';
}

// The folder that the tracker's text names.
static lt_status read_tracker(const char *path, const char *root, lt_arena *arena,
                              lt_run_found *out)
{
    lt_buf text = {0};
    LT_TRY(lt_file_read(path, MAX_TRACKER_BYTES, &text));
    trim(&text);
    const bool number = text.len > 0 && text.len <= MAX_ITERATION_DIGITS &&
                        strspn(text.data, "0123456789") == text.len;
    lt_status st;
    if (number) {
        out->iteration = strtoll(text.data, NULL, 10);
        st = lt_run_dir(arena, root, out->iteration, &out->dir);
    } else if (text.len > 0 && strcmp(text.data, "release") == 0) {
        st = lt_path_join(arena, root, "release", &out->dir);
    } else {
        st = LT_FAIL(LT_ERR_FORMAT, "%s says \"%.40s\"; an iteration's number or release is wanted",
                     path, text.len > 0 ? text.data : "");
    }
    lt_buf_deinit(&text);
    return st;
}

static lt_status classify(lt_arena *arena, lt_run_found *found, bool *known)
{
    bool state = false, dcp = false;
    LT_TRY(has(arena, found->dir, LT_RUN_STATE, &state));
    LT_TRY(has(arena, found->dir, ".metadata", &dcp));
    const bool weights = lt_hf_has_weights(found->dir);
    found->kind = weights && state ? LT_RUN_SAVED : weights ? LT_RUN_MODEL : LT_RUN_DCP;
    *known = weights || dcp;
    return LT_OK;
}

// " (there are iter_0000002, iter_0000004)": what a user may have meant.
static lt_status other_iterations(const char *root, lt_arena *arena, lt_buf *out)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(root, arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++) {
        const char *name = LT_AT(&names, char *, i);
        if (lt_text_starts(name, "iter_") && strchr(name, '.') == NULL)
            st = lt_buf_printf(out, "%s%s", out->len > 0 ? ", " : "; there are ", name);
    }
    lt_vec_deinit(&names);
    return st;
}

static lt_status nothing_there(const char *load, const lt_run_found *found, bool tracked,
                               lt_arena *arena)
{
    lt_buf others = {0};
    lt_status st = other_iterations(load, arena, &others);
    const char *hint = others.len > 0 ? others.data : "";
    if (st == LT_OK && tracked) {
        st = LT_FAIL(LT_ERR_NOT_FOUND, "%s/%s names %s, which holds no checkpoint%s", load,
                     LT_RUN_TRACKER, found->dir, hint);
    } else if (st == LT_OK) {
        st = LT_FAIL(LT_ERR_NOT_FOUND,
                     "%s is no checkpoint: it has none of %s (a training run), %s, %s (a model), "
                     ".metadata%s",
                     load, LT_RUN_TRACKER, LT_HF_SINGLE, LT_HF_INDEX, hint);
    }
    lt_buf_deinit(&others);
    return st;
}

lt_status lt_run_resolve(const char *load, const lt_log *log, lt_arena *arena, lt_run_found *out)
{
    lt_run_found found = {.iteration = -1};
    char *tracker;
    bool known = false;
    if (!lt_file_is_dir(load))
        return LT_FAIL(LT_ERR_NOT_FOUND, "there is no folder %s to load from", load);
    LT_TRY(lt_path_join(arena, load, LT_RUN_TRACKER, &tracker));
    const bool tracked = lt_file_exists(tracker);
    if (tracked)
        LT_TRY(read_tracker(tracker, load, arena, &found));
    else
        LT_TRY(lt_arena_text(arena, load, strlen(load), &found.dir));
    if (tracked)
        LT_TRY(lt_publish_recover(found.dir, log));
    LT_TRY(classify(arena, &found, &known));
    if (!known)
        return nothing_there(load, &found, tracked, arena);
    *out = found;
    return LT_OK;
}

// ---- opening

static lt_status open_state(lt_checkpoint *run)
{
    char *path;
    int64_t version, iteration;
    LT_TRY(lt_path_join(run->arena, run->dir, LT_RUN_STATE, &path));
    LT_TRY(lt_st_open(path, &run->state));
    LT_TRY(lt_run_number(run, "lathe_state", &version));
    if (version != STATE_VERSION)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s has version %lld; this lathe reads version %d", path,
                       (long long)version, STATE_VERSION);
    LT_TRY(lt_run_number(run, "iteration", &iteration));
    if (run->iteration >= 0 && iteration != run->iteration) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s is the state of iteration %lld, in the folder of iteration %lld", path,
                       (long long)iteration, (long long)run->iteration);
    }
    run->iteration = iteration;
    return LT_OK;
}

// The extra state of the first rank that left one.
static lt_status find_extra(lt_checkpoint *run, char **path)
{
    lt_vec names = LT_VEC_OF(char *);
    char *dir;
    *path = NULL;
    LT_TRY(lt_path_join(run->arena, run->dir, LT_RUN_EXTRA_DIR, &dir));
    lt_status st = lt_file_is_dir(dir) ? lt_dir_list(dir, run->arena, &names) : LT_OK;
    for (int64_t i = 0; st == LT_OK && i < names.n && *path == NULL; i++)
        if (lt_text_ends(LT_AT(&names, char *, i), ".pt"))
            st = lt_path_join(run->arena, dir, LT_AT(&names, char *, i), path);
    lt_vec_deinit(&names);
    return st;
}

static lt_status open_dcp(lt_checkpoint *run, const lt_log *log)
{
    char *extra;
    int64_t iteration = 0;
    LT_TRY(lt_hf_open_dcp(run->dir, &run->weights));
    LT_TRY(find_extra(run, &extra));
    if (extra != NULL) {
        LT_TRY(lt_torch_open(extra, &run->extra));
        LT_TRY(lt_run_number(run, "iteration", &iteration));
    } else if (run->iteration > 0) {
        LT_WARN(log, "ckpt", "%s has no %s: its weights are taken, and training starts at step 1",
                run->dir, LT_RUN_EXTRA_DIR);
    }
    if (extra != NULL && run->iteration >= 0 && iteration != run->iteration) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s is the state of iteration %lld, in the folder of iteration %lld", extra,
                       (long long)iteration, (long long)run->iteration);
    }
    run->iteration = iteration;
    return LT_OK;
}

bool lt_run_resumes(const lt_checkpoint *run)
{
    return run->state != NULL || run->extra != NULL;
}

static lt_status open_found(lt_checkpoint *run, const char *load, const lt_log *log)
{
    lt_run_found found;
    LT_TRY(lt_arena_create(&run->arena, "checkpoint"));
    LT_TRY(lt_run_resolve(load, log, run->arena, &found));
    run->kind = found.kind;
    run->dir = found.dir;
    run->iteration = found.iteration;
    if (run->kind == LT_RUN_DCP)
        return open_dcp(run, log);
    LT_TRY(lt_hf_open(run->dir, log, &run->weights));
    if (run->kind == LT_RUN_SAVED)
        return open_state(run);
    run->iteration = lt_max_i64(run->iteration, 0);
    return LT_OK;
}

lt_status lt_run_open(const char *load, const lt_log *log, lt_checkpoint **out)
{
    void *mem;
    LT_TRY(lt_mem_alloc(&mem, sizeof(lt_checkpoint), "checkpoint"));
    lt_checkpoint *run = mem;
    const lt_status st = open_found(run, load, log);
    if (st != LT_OK) {
        lt_run_close(run);
        return st;
    }
    *out = run;
    return LT_OK;
}

void lt_run_close(lt_checkpoint *run)
{
    if (run == NULL)
        return;
    lt_hf_close(run->weights);
    lt_st_close(run->state);
    lt_torch_close(run->extra);
    lt_arena_destroy(run->arena);
    lt_mem_free(run);
}

// ---- values of the state

// Where a state tensor stands, and what its key is there.
static lt_status find_state(const lt_checkpoint *run, const char *part, const char *name,
                            lt_buf *key, const lt_st_tensor **out)
{
    if (run->state != NULL) {
        LT_TRY(lt_buf_printf(key, "%s.%s", part, name));
        *out = lt_st_find(run->state, key->data);
        return LT_OK;
    }
    if (strcmp(part, "master") == 0) {
        LT_TRY(lt_buf_printf(key, "model.%s", name));
        *out = lt_hf_find(run->weights, name);
        return LT_OK;
    }
    static const char *const fronts[] = {"model.", ""};
    const lt_dcp_entry *e = NULL;
    for (int i = 0; i < 2 && e == NULL; i++) { // a level more, as lt_hf_find
        lt_buf_clear(key);
        LT_TRY(lt_buf_printf(key, "optimizer.state.%s%s.%s", fronts[i], name, part));
        e = lt_dcp_find(lt_hf_dcp(run->weights), key->data);
    }
    *out = e != NULL ? e->tensor : NULL;
    return LT_OK;
}

static lt_status check_state(const lt_checkpoint *run, const char *key, const lt_st_tensor *t,
                             const lt_st_tensor *want)
{
    const char *where = run->state != NULL ? lt_st_path(run->state) : run->dir;
    if (t == NULL)
        return LT_FAIL(LT_ERR_NOT_FOUND, "%s: the state lacks tensor %s", where, key);
    if (t->rank != want->rank ||
        (want->rank > 0 && memcmp(t->dim, want->dim, (size_t)want->rank * sizeof *t->dim) != 0))
        return LT_FAIL(LT_ERR_SHAPE, "%s: tensor %s is %s and the model needs %s", t->file, key,
                       lt_st_shape_text(t).s, lt_st_shape_text(want).s);
    if (run->state != NULL ? t->dtype != LT_F32
                           : t->dtype == LT_N_DTYPES || !lt_dtype_is_float(t->dtype))
        return LT_FAIL(LT_ERR_DTYPE, "%s: tensor %s is %s; the state is kept in F32", t->file, key,
                       lt_st_shape_text(t).s);
    return LT_OK;
}

lt_status lt_run_state(const lt_checkpoint *run, const char *part, const char *name, int32_t rank,
                       const int64_t *dim, const lt_st_tensor **out)
{
    lt_buf key = {0};
    const lt_st_tensor *t = NULL, want = {.dtype_text = "F32", .rank = rank, .dim = dim};
    LT_ASSERT(lt_run_resumes(run));
    lt_status st = find_state(run, part, name, &key, &t);
    if (st == LT_OK)
        st = check_state(run, key.data, t, &want);
    if (st == LT_OK)
        *out = t;
    lt_buf_deinit(&key);
    return st;
}

lt_status lt_run_text(const lt_checkpoint *run, const char *key, const char **out)
{
    LT_ASSERT(run->state != NULL);
    const char *value = lt_st_meta(run->state, key);
    if (value == NULL)
        return LT_FAIL(LT_ERR_NOT_FOUND, "%s: the state's metadata lacks %s",
                       lt_st_path(run->state), key);
    *out = value;
    return LT_OK;
}

static lt_status number_of_text(const lt_checkpoint *run, const char *key, int64_t *out)
{
    const char *text;
    char *end;
    LT_TRY(lt_run_text(run, key, &text));
    const char *digits = text[0] == '-' ? text + 1 : text;
    const long long value = strtoll(text, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || strlen(digits) > 18)
        return LT_FAIL(LT_ERR_FORMAT, "%s: %s is \"%.40s\", not a whole number",
                       lt_st_path(run->state), key, text);
    *out = value;
    return LT_OK;
}

// The reference's extra state holds two of the counters.
static const char *counter_elsewhere(const char *key)
{
    if (strcmp(key, "sampler_cursor") == 0)
        return "consumed_train_samples";
    return strcmp(key, "optimizer_updates") == 0 ? "iteration" : NULL;
}

static lt_status number_of_extra(const lt_checkpoint *run, const char *key, int64_t *out)
{
    const lt_pickle *root = run->extra->file.root;
    const lt_pickle *v = lt_pickle_get(root, key);
    if (v == NULL && counter_elsewhere(key) != NULL)
        v = lt_pickle_get(root, counter_elsewhere(key));
    if (v == NULL)
        return LT_FAIL(LT_ERR_NOT_FOUND, "%s: it lacks %s", run->extra->file.zip.where, key);
    if (!lt_pickle_int(v, out) || *out < 0)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its %s is %s, not a whole number",
                       run->extra->file.zip.where, key, lt_pickle_kind_text(v));
    return LT_OK;
}

lt_status lt_run_number(const lt_checkpoint *run, const char *key, int64_t *out)
{
    LT_ASSERT(lt_run_resumes(run));
    return run->state != NULL ? number_of_text(run, key, out) : number_of_extra(run, key, out);
}
