// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder as a distributed checkpoint.
#include "base/file.h"
#include "ckpt/convert_recipe.h"
#include "ckpt/dcp_write.h"
#include "ckpt/publish.h"
#include "ckpt/run_folder.h"
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

static const double VERSION = 3.0; // checkpoint_version of the reference's converters
enum { LATE_FILE = 100, FOLDER_MODE = 0750, FILE_MODE = 0640 };

// Experts of a layer that stand one by one, on their way to one tensor.
typedef struct merging {
    const char *name; // of the merged tensor
    lt_vec parts;     // const lt_st_tensor *: [expert * stack + k], NULL: not seen
    int32_t stack;
    int64_t file; // of the source in which it was seen first
} merging;

typedef struct conversion {
    const lt_convert_opts *o;
    lt_arena *arena;
    lt_hf *hf;
    lt_expert_rule rule;
    lt_dcp_plan plan;
    lt_vec merged; // merging
    lt_map *by_merged;
    lt_matrix *matrices; // [files of the plan]
    const char *dir;     // being written
    int64_t done, total;
    pthread_mutex_t lock; // of `done`
} conversion;

// ---- planning

static lt_status add_rows(conversion *c, int32_t file, int64_t rows, lt_st_fetch fetch, void *ctx)
{
    return lt_dcp_plan_rows(
        &c->plan,
        &(lt_dcp_rows){.file = file, .n = rows, .from = LT_N_DTYPES, .fetch = fetch, .ctx = ctx});
}

static lt_status add_tensor(conversion *c, const char *name, const lt_st_tensor *t, int32_t rank,
                            const int64_t *dim)
{
    char *key;
    LT_TRY(lt_dcp_name(c->o, &c->rule, c->arena, name, &key));
    const lt_dcp_path path = lt_dcp_path_of("model", key);
    return lt_dcp_plan_tensor(&c->plan, &path, t->dtype_text, rank, dim);
}

static void *unconst(const void *in)
{
    union {
        const void *in;
        void *out;
    } v = {.in = in};
    return v.out;
}

static lt_status new_recipe(conversion *c, int32_t file, lt_recipe like, void **out)
{
    LT_TRY(lt_arena_take(c->arena, sizeof(lt_recipe), out));
    like.matrix = &c->matrices[file];
    *(lt_recipe *)*out = like;
    return LT_OK;
}

// [E, a, b] to [E, b, a]
static lt_status add_turned(conversion *c, int32_t file, const char *name, const lt_st_tensor *t)
{
    const int64_t dim[] = {t->dim[0], t->dim[2], t->dim[1]};
    void *parts, *recipe;
    LT_TRY(lt_arena_take(c->arena, sizeof(void *), &parts));
    *(const lt_st_tensor **)parts = t;
    LT_TRY(new_recipe(c, file,
                      (lt_recipe){.parts = parts,
                                  .n_parts = 1,
                                  .stack = 1,
                                  .rows = t->dim[1],
                                  .cols = t->dim[2],
                                  .turned = true,
                                  .size = lt_st_elem_bytes(t)},
                      &recipe));
    LT_TRY(add_tensor(c, name, t, 3, dim));
    return add_rows(c, file, dim[0], lt_recipe_fetch, recipe);
}

static lt_status add_plain(conversion *c, int32_t file, const char *name, const lt_st_tensor *t)
{
    if (c->o->kind == LT_CONVERT_QWEN35 && t->rank == 3 && lt_is_swapped(name))
        return add_turned(c, file, name, t);
    int64_t flat[2];
    const bool fuse = t->rank == 3 && lt_is_fused(c->o, name);
    if (fuse) {
        flat[1] = t->dim[2];
        if (!lt_mul_i64(t->dim[0], t->dim[1], &flat[0]))
            return LT_FAIL(LT_ERR_SHAPE, "tensor %s: its shape overflows 63 bits", name);
    }
    const int32_t rank = fuse ? 2 : t->rank;
    const int64_t *dim = fuse ? flat : t->dim;
    LT_TRY(add_tensor(c, name, t, rank, dim));
    return add_rows(c, file, rank > 0 ? dim[0] : 1, lt_raw_fetch, unconst(t));
}

static lt_status collect(conversion *c, int64_t file, const lt_st_tensor *t,
                         const lt_expert_name *e)
{
    char *name;
    int64_t at;
    LT_TRY(lt_merged_name(c->arena, t->name, e, &name));
    if (!lt_map_get_text(c->by_merged, name, &at)) {
        at = c->merged.n;
        const merging m = {name, LT_VEC_OF(const lt_st_tensor *), e->which == 2 ? 1 : 2, file};
        LT_TRY(lt_map_put_text(c->by_merged, name, at));
        LT_TRY(lt_vec_push(&c->merged, &m));
    }
    merging *m = &LT_AT(&c->merged, merging, at);
    const int64_t slot = e->expert * m->stack + (e->which == 1);
    if (slot >= m->parts.n)
        LT_TRY(lt_vec_resize(&m->parts, lt_round_up(slot + 1, m->stack)));
    LT_AT(&m->parts, const lt_st_tensor *, slot) = t;
    return LT_OK;
}

static lt_status check_parts(const merging *m)
{
    const lt_st_tensor *first = LT_AT(&m->parts, const lt_st_tensor *, 0);
    for (int64_t i = 0; i < m->parts.n; i++) {
        const lt_st_tensor *t = LT_AT(&m->parts, const lt_st_tensor *, i);
        if (!t || !first)
            return LT_FAIL(LT_ERR_NOT_FOUND, "%s can't be merged: expert %lld is missing", m->name,
                           (long long)(i / m->stack));
        if (t->rank != 2 || strcmp(lt_st_shape_text(t).s, lt_st_shape_text(first).s) != 0)
            return LT_FAIL(LT_ERR_SHAPE, "%s: tensor %s is %s, and that of expert 0 %s", t->file,
                           t->name, lt_st_shape_text(t).s, lt_st_shape_text(first).s);
    }
    return LT_OK;
}

// Stacked, turned, and in the rule's shape.
static lt_status add_merged(conversion *c, int32_t file, const merging *m)
{
    void *recipe;
    LT_TRY(check_parts(m));
    const lt_st_tensor *first = LT_AT(&m->parts, const lt_st_tensor *, 0);
    const int64_t experts = m->parts.n / m->stack, rows = first->dim[0] * m->stack,
                  cols = first->dim[1];
    const int64_t dim[] = {experts, cols, rows}, flat[] = {experts * cols, rows};
    LT_TRY(new_recipe(c, file,
                      (lt_recipe){.parts = m->parts.data,
                                  .n_parts = (int32_t)m->parts.n,
                                  .stack = m->stack,
                                  .rows = rows,
                                  .cols = cols,
                                  .turned = true,
                                  .size = lt_st_elem_bytes(first)},
                      &recipe));
    LT_TRY(add_tensor(c, m->name, first, c->rule.flat ? 2 : 3, c->rule.flat ? flat : dim));
    return add_rows(c, file, c->rule.flat ? flat[0] : dim[0], lt_recipe_fetch, recipe);
}

static lt_status add_ties(conversion *c, int32_t file, const lt_st_tensor *t)
{
    for (int64_t i = 0; i < c->o->n_ties; i++)
        if (strcmp(c->o->ties[i].value, t->name) == 0 && !lt_hf_find(c->hf, c->o->ties[i].key))
            LT_TRY(add_plain(c, file, c->o->ties[i].key, t));
    return LT_OK;
}

static lt_status plan_file(conversion *c, int64_t f)
{
    const lt_st *st = lt_hf_file(c->hf, f);
    for (int64_t i = 0; i < lt_st_count(st); i++) {
        const lt_st_tensor *t = lt_st_at(st, i);
        lt_expert_name e;
        if (lt_hf_find(c->hf, t->name) != t)
            continue;
        if (c->rule.path && lt_text_starts(t->name, c->rule.path) &&
            lt_expert_name_of(t->name, &e)) {
            LT_TRY(collect(c, f, t, &e));
            continue;
        }
        LT_TRY(add_plain(c, (int32_t)f, t->name, t));
        LT_TRY(add_ties(c, (int32_t)f, t));
    }
    return LT_OK;
}

static lt_status add_version(conversion *c)
{
    const lt_dcp_path path = lt_dcp_path_of("checkpoint_version", NULL);
    lt_pkl p = {0};
    lt_pkl_begin(&p, false);
    lt_pkl_float(&p, VERSION);
    lt_status st = lt_pkl_end(&p);
    if (st == LT_OK)
        st = lt_dcp_plan_value(&c->plan, &path, 0, &p.out);
    lt_pkl_deinit(&p);
    return st;
}

// A file for each of the folder's, and a late one for merged experts of MTP layers.
static lt_status name_files(conversion *c)
{
    const int64_t n = lt_hf_n_files(c->hf);
    void *memory;
    for (int64_t f = 0; f <= n; f++) {
        char *name;
        int32_t file;
        LT_TRY(lt_arena_printf(c->arena, &name, "__%lld_0.distcp",
                               (long long)(f < n ? f : lt_max_i64(LATE_FILE, n))));
        LT_TRY(lt_dcp_plan_file(&c->plan, name, &file));
    }
    LT_TRY(lt_arena_take(c->arena, (size_t)(n + 1) * sizeof(lt_matrix), &memory));
    c->matrices = memory;
    return LT_OK;
}

static lt_status check_ties(const conversion *c)
{
    for (int64_t i = 0; i < c->o->n_ties; i++) {
        if (!lt_hf_find(c->hf, c->o->ties[i].value)) {
            return LT_FAIL(LT_ERR_NOT_FOUND,
                           "tie_weight_mapping: %s holds no tensor %s to be stored as %s too",
                           c->o->hf_dir, c->o->ties[i].value, c->o->ties[i].key);
        }
    }
    return LT_OK;
}

static lt_status make_plan(conversion *c)
{
    const int64_t n = lt_hf_n_files(c->hf);
    LT_TRY(check_ties(c));
    LT_TRY(name_files(c));
    LT_TRY(add_version(c));
    for (int64_t f = 0; f < n; f++)
        LT_TRY(plan_file(c, f));
    for (int64_t i = 0; i < c->merged.n; i++) {
        const merging *m = &LT_AT(&c->merged, merging, i);
        LT_TRY(add_merged(c, (int32_t)(c->o->kind == LT_CONVERT_QWEN35 ? n : m->file), m));
    }
    return lt_dcp_plan_place(&c->plan, &c->total);
}

// ---- writing

static void count_bytes(void *ctx, int64_t bytes)
{
    conversion *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->done += bytes;
    if (c->o->progress)
        c->o->progress(c->o->ctx, c->done, c->total);
    pthread_mutex_unlock(&c->lock);
}

static lt_status write_one(void *ctx, int64_t i, int thread)
{
    (void)thread;
    conversion *c = ctx;
    const lt_dcp_progress progress = {count_bytes, c};
    const lt_status st = lt_dcp_write_file(&c->plan, c->dir, (int32_t)i, &progress);
    lt_matrix_deinit(&c->matrices[i]);
    return st;
}

// What is written can be opened, and every key has its shape.
static lt_status verify(const conversion *c)
{
    lt_dcp *dcp;
    LT_TRY(lt_dcp_open(c->dir, &dcp));
    const int64_t n = lt_dcp_count(dcp);
    lt_dcp_close(dcp);
    return n == c->plan.keys.n ? LT_OK
                               : LT_FAIL(LT_ERR_IO,
                                         "%s: reading back gives %lld keys, %lld were "
                                         "written",
                                         c->dir, (long long)n, (long long)c->plan.keys.n);
}

// As the reference's converters leave them: for the owner and the group.
static lt_status set_modes(const conversion *c)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(c->dir, c->arena, &names);
    for (int64_t i = 0; st == LT_OK && i < names.n; i++) {
        char *path;
        st = lt_path_join(c->arena, c->dir, LT_AT(&names, char *, i), &path);
        if (st == LT_OK && chmod(path, FILE_MODE) != 0)
            st = LT_FAIL(LT_ERR_IO, "the mode of %s can't be set", path);
    }
    lt_vec_deinit(&names);
    if (st == LT_OK && chmod(c->dir, FOLDER_MODE) != 0)
        st = LT_FAIL(LT_ERR_IO, "the mode of %s can't be set", c->dir);
    return st;
}

static lt_status write_all(conversion *c, const char *tmp)
{
    c->dir = tmp;
    LT_TRY(lt_pool_run(c->o->pool, c->plan.files.n, write_one, c));
    LT_TRY(lt_dcp_write_metadata(&c->plan, tmp));
    LT_TRY(verify(c));
    return set_modes(c);
}

static lt_status publish(conversion *c)
{
    char *dir, *tmp, *tracker;
    LT_TRY(lt_path_join(c->arena, c->o->dcp_dir, "release", &dir));
    LT_TRY(lt_path_join(c->arena, c->o->dcp_dir, LT_RUN_TRACKER, &tracker));
    LT_TRY(lt_publish_clean(c->o->dcp_dir, "release.", c->o->log));
    LT_TRY(lt_publish_room(dir, c->total));
    LT_TRY(lt_publish_begin(dir, false, c->arena, &tmp));
    lt_status st = write_all(c, tmp);
    if (st == LT_OK)
        st = lt_publish_commit(tmp, dir, false);
    if (st != LT_OK) {
        lt_publish_abort(tmp);
        return st;
    }
    LT_TRY(lt_file_replace(tracker, "release", 7));
    LT_INFO(c->o->log, "convert", "%s: %lld keys, %s, read back and in place", dir,
            (long long)c->plan.keys.n, lt_bytes_text(c->total).s);
    return LT_OK;
}

static lt_status convert(conversion *c)
{
    LT_TRY(lt_arena_create(&c->arena, "conversion"));
    LT_TRY(lt_map_create(&c->by_merged));
    LT_TRY(lt_dcp_plan_init(&c->plan));
    LT_TRY(lt_hf_open(c->o->hf_dir, c->o->log, &c->hf));
    LT_TRY(lt_expert_rule_of(c->o, c->hf, &c->rule));
    LT_TRY(make_plan(c));
    return publish(c);
}

lt_status lt_convert_to_dcp(const lt_convert_opts *opts)
{
    conversion c = {.o = opts, .merged = LT_VEC_OF(merging), .lock = PTHREAD_MUTEX_INITIALIZER};
    const lt_status st = convert(&c);
    if (st != LT_OK)
        lt_error_note("converting %s", opts->hf_dir);
    for (int64_t i = 0; i < c.merged.n; i++)
        lt_vec_deinit(&LT_AT(&c.merged, merging, i).parts);
    lt_vec_deinit(&c.merged);
    lt_map_destroy(c.by_merged);
    lt_dcp_plan_deinit(&c.plan);
    lt_hf_close(c.hf);
    lt_arena_destroy(c.arena);
    return st;
}
