// SPDX-License-Identifier: Apache-2.0
// Opening a distributed checkpoint, and putting tensors together from their pieces.
#include "ckpt/dcp.h"
#include "ckpt/dcp_meta.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// A piece of a tensor: a box of its metadata, and where its elements are once it was checked.
typedef struct piece {
    lt_torch_tensor view; // valid when `state` is READY
    atomic_int state;
} piece;
enum { NEW, BUSY, READY };

typedef struct tensor {
    lt_st_source source; // first: lt_st_tensor points here
    const lt_dcp *dcp;
    const lt_dcp_key *key;
    lt_st_tensor st;
    piece *pieces; // [key->n_boxes]
} tensor;

struct lt_dcp {
    lt_arena *arena; // what is added after opening, with `lock`
    const char *dir;
    lt_mapped map;
    lt_dcp_meta meta;
    lt_mapped *files;      // [meta.files.n]
    lt_dcp_entry *entries; // [meta.keys.n]
    struct sync {
        pthread_mutex_t lock; // of piece states and the arena
        pthread_cond_t changed;
    } * sync;
};

bool lt_dcp_is(const char *dir)
{
    lt_buf path = {0};
    const bool found =
        lt_buf_printf(&path, "%s/%s", dir, LT_DCP_METADATA) == LT_OK && lt_file_exists(path.data);
    lt_buf_deinit(&path);
    return found;
}

static const char *file_name(const lt_dcp *d, int32_t file)
{
    return LT_AT(&d->meta.files, const char *, file);
}

// ---- pieces

// "DIR/__0_0.distcp, model.lm_head.weight"
static lt_status where_of(const lt_dcp *d, const char *key, lt_dcp_range r, lt_arena *arena,
                          char **out)
{
    return lt_arena_printf(arena, out, "%s/%s, %.300s", d->dir, file_name(d, r.file), key);
}

static lt_status parse_range(const lt_dcp *d, const char *key, lt_dcp_range r, lt_arena *arena,
                             lt_torch_file *out)
{
    char *where;
    LT_TRY(where_of(d, key, r, arena, &where));
    return lt_torch_parse(d->files[r.file].data + r.at, (size_t)r.bytes, LT_TORCH_BLOB, where,
                          arena, out);
}

// Shape and dtype have to be those of the box; the bytes those of the checksum.
static lt_status check_piece(const tensor *t, const lt_dcp_box *box, lt_arena *scratch,
                             lt_torch_tensor *view)
{
    lt_torch_file file;
    LT_TRY(parse_range(t->dcp, t->key->key, box->range, scratch, &file));
    LT_TRY(lt_torch_tensor_of(&file, file.root, scratch, view));
    if (view->dtype != t->key->dtype)
        return LT_FAIL(LT_ERR_FORMAT, "%s: it is %s, and %s says %s", file.zip.where,
                       view->dtype->name, LT_DCP_METADATA, t->key->dtype->name);
    if (view->rank != t->key->rank ||
        memcmp(view->size, box->size, (size_t)view->rank * sizeof *view->size) != 0)
        return LT_FAIL(LT_ERR_FORMAT, "%s: it has another shape than %s says", file.zip.where,
                       LT_DCP_METADATA);
    return lt_zip_check(&file.zip, view->storage);
}

// What outlives the scratch arena.
static lt_status keep_view(const lt_dcp *d, const lt_dcp_box *box, lt_torch_tensor *view)
{
    void *stride;
    LT_TRY(lt_arena_take(d->arena, (size_t)view->rank * sizeof(int64_t), &stride));
    if (view->rank > 0)
        memcpy(stride, view->stride, (size_t)view->rank * sizeof(int64_t));
    view->stride = stride;
    view->size = box->size;
    view->storage = NULL;
    return LT_OK;
}

// One thread checks a piece, the others who want it wait.
static bool claim(const lt_dcp *d, piece *p)
{
    bool mine = false;
    pthread_mutex_lock(&d->sync->lock);
    while (atomic_load(&p->state) == BUSY)
        pthread_cond_wait(&d->sync->changed, &d->sync->lock);
    if (atomic_load(&p->state) == NEW) {
        atomic_store(&p->state, BUSY);
        mine = true;
    }
    pthread_mutex_unlock(&d->sync->lock);
    return mine;
}

static lt_status want_piece(const tensor *t, int64_t i)
{
    piece *p = &t->pieces[i];
    const lt_dcp_box *box = &t->key->boxes[i];
    lt_arena *scratch = NULL;
    lt_torch_tensor view = {0};
    if (atomic_load(&p->state) == READY || !claim(t->dcp, p))
        return LT_OK;
    lt_status st = lt_arena_create(&scratch, "a piece of a checkpoint");
    if (st == LT_OK)
        st = check_piece(t, box, scratch, &view);
    pthread_mutex_lock(&t->dcp->sync->lock);
    if (st == LT_OK)
        st = keep_view(t->dcp, box, &view);
    if (st == LT_OK)
        p->view = view;
    atomic_store(&p->state, st == LT_OK ? READY : NEW);
    pthread_cond_broadcast(&t->dcp->sync->changed);
    pthread_mutex_unlock(&t->dcp->sync->lock);
    lt_arena_destroy(scratch);
    return st;
}

// ---- reading

static bool holds(const lt_dcp_box *box, const int64_t *at, int32_t rank)
{
    for (int32_t d = 0; d < rank; d++)
        if (at[d] < box->offset[d] || at[d] >= box->offset[d] + box->size[d])
            return false;
    return true;
}

// Boxes tile the tensor, so one holds every place; usually it is the last one, or the next.
static int64_t box_at(const lt_dcp_key *k, const int64_t *at, int64_t guess)
{
    for (int64_t i = 0; i < k->n_boxes; i++) {
        const int64_t b = (guess + i) % k->n_boxes;
        if (holds(&k->boxes[b], at, k->rank))
            return b;
    }
    LT_ASSERT(false);
    return 0;
}

// A stretch of elements that follow each other in the tensor and in a box.
typedef struct stretch {
    int64_t from; // element of the box
    int64_t n;
} stretch;

static stretch stretch_at(const lt_dcp_key *k, const lt_dcp_box *box, const int64_t *at)
{
    stretch s = {0, 1};
    int64_t inner = 1, before = 0; // elements of the dims behind, and how many are passed
    int32_t d = k->rank;
    while (d > 0 && box->size[d - 1] == k->dim[d - 1]) { // whole dims
        d--;
        before += at[d] * inner;
        inner *= k->dim[d];
    }
    s.n = inner - before;
    if (d > 0)
        s.n += (box->offset[d - 1] + box->size[d - 1] - 1 - at[d - 1]) * inner;
    for (int32_t i = 0; i < k->rank; i++)
        s.from = s.from * box->size[i] + at[i] - box->offset[i];
    return s;
}

static void place_of(const lt_dcp_key *k, int64_t i, int64_t *at)
{
    for (int32_t d = k->rank; d > 0; d--) {
        at[d - 1] = i % k->dim[d - 1];
        i /= k->dim[d - 1];
    }
}

static lt_status read_tensor(const lt_st_source *source, int64_t first, int64_t n, void *dst)
{
    enum { MAX_RANK = 16 }; // as dcp_meta.c
    const tensor *t = (const tensor *)source;
    const lt_dcp_key *k = t->key;
    int64_t at[MAX_RANK], box = 0;
    uint8_t *to = dst;
    while (n > 0) {
        place_of(k, first, at);
        box = box_at(k, at, box);
        const stretch s = stretch_at(k, &k->boxes[box], at);
        const int64_t take = lt_min_i64(n, s.n);
        LT_TRY(want_piece(t, box));
        lt_torch_copy(&t->pieces[box].view, s.from, take, to);
        to += (size_t)take * k->dtype->bytes;
        first += take;
        n -= take;
    }
    return LT_OK;
}

static void forget_tensor(const lt_st_source *source)
{
    const tensor *t = (const tensor *)source;
    for (int64_t i = 0; i < t->key->n_boxes; i++) {
        const lt_dcp_range r = t->key->boxes[i].range;
        lt_file_forget(&t->dcp->files[r.file], (size_t)r.at, (size_t)(r.at + r.bytes));
    }
}

typedef struct check_job {
    const tensor *tensor;
} check_job;

static lt_status check_one(void *ctx, int64_t i, int thread)
{
    (void)thread;
    return want_piece(((const check_job *)ctx)->tensor, i);
}

static const tensor *tensor_of(const lt_dcp_entry *entry)
{
    return (const tensor *)entry->tensor->source;
}

lt_status lt_dcp_check(const lt_dcp *dcp, const lt_dcp_entry *entry, lt_pool *pool)
{
    (void)dcp;
    check_job job = {tensor_of(entry)};
    return lt_pool_run(pool, job.tensor->key->n_boxes, check_one, &job);
}

lt_status lt_dcp_value(const lt_dcp *dcp, const lt_dcp_entry *entry, lt_arena *arena,
                       const lt_pickle **out)
{
    const lt_dcp_key *k = &LT_AT(&dcp->meta.keys, lt_dcp_key, (int64_t)(entry - dcp->entries));
    lt_torch_file file;
    LT_ASSERT(!entry->tensor);
    LT_TRY(parse_range(dcp, k->key, k->value, arena, &file));
    *out = file.root;
    return LT_OK;
}

// ---- opening

static lt_status map_files(lt_dcp *d)
{
    void *memory;
    char *path;
    LT_TRY(lt_arena_take(d->arena, (size_t)d->meta.files.n * sizeof(lt_mapped), &memory));
    d->files = memory;
    for (int64_t i = 0; i < d->meta.files.n; i++) {
        const char *name = LT_AT(&d->meta.files, const char *, i);
        LT_TRY(lt_path_join(d->arena, d->dir, name, &path));
        if (!lt_file_exists(path)) {
            return LT_FAIL(LT_ERR_NOT_FOUND,
                           "%s is missing: by %s/%s it holds part of the "
                           "checkpoint",
                           path, d->dir, LT_DCP_METADATA);
        }
        LT_TRY(lt_file_map(path, &d->files[i]));
    }
    return LT_OK;
}

static lt_status check_range(const lt_dcp *d, const char *key, lt_dcp_range r)
{
    const int64_t have = (int64_t)d->files[r.file].bytes;
    if (r.at <= have && r.bytes <= have - r.at)
        return LT_OK;
    return LT_FAIL(LT_ERR_FORMAT,
                   "%s/%s is cut short: %.300s is bytes %lld to %lld of it, and it "
                   "has %lld",
                   d->dir, file_name(d, r.file), key, (long long)r.at, (long long)(r.at + r.bytes),
                   (long long)have);
}

static lt_status add_tensor(lt_dcp *d, const lt_dcp_key *k, lt_dcp_entry *e)
{
    void *memory, *pieces;
    LT_TRY(lt_arena_take(d->arena, sizeof(tensor), &memory));
    LT_TRY(lt_arena_take(d->arena, (size_t)k->n_boxes * sizeof(piece), &pieces));
    tensor *t = memory;
    *t = (tensor){.source = {read_tensor, forget_tensor}, .dcp = d, .key = k, .pieces = pieces};
    t->st = (lt_st_tensor){.name = k->key,
                           .dtype_text = k->dtype->text,
                           .dtype = k->dtype->dtype,
                           .rank = k->rank,
                           .dim = k->dim,
                           .bytes = (size_t)k->n_elems * k->dtype->bytes,
                           .file = d->dir,
                           .source = &t->source};
    for (int64_t i = 0; i < k->n_boxes; i++)
        LT_TRY(check_range(d, k->key, k->boxes[i].range));
    e->tensor = &t->st;
    e->n_chunks = k->n_boxes;
    return LT_OK;
}

static lt_status add_entries(lt_dcp *d)
{
    void *memory;
    LT_TRY(lt_arena_take(d->arena, (size_t)d->meta.keys.n * sizeof(lt_dcp_entry), &memory));
    d->entries = memory;
    for (int64_t i = 0; i < d->meta.keys.n; i++) {
        const lt_dcp_key *k = &LT_AT(&d->meta.keys, lt_dcp_key, i);
        d->entries[i] = (lt_dcp_entry){.key = k->key, .path = k->path};
        if (k->dtype)
            LT_TRY(add_tensor(d, k, &d->entries[i]));
        else
            LT_TRY(check_range(d, k->key, k->value));
    }
    return LT_OK;
}

static lt_status open_all(lt_dcp *d, const char *dir)
{
    char *copy, *path;
    void *memory;
    LT_TRY(lt_arena_create(&d->arena, "distributed checkpoint"));
    LT_TRY(lt_arena_text(d->arena, dir, strlen(dir), &copy));
    LT_TRY(lt_arena_take(d->arena, sizeof(struct sync), &memory));
    d->dir = copy;
    d->sync = memory;
    pthread_mutex_init(&d->sync->lock, NULL);
    pthread_cond_init(&d->sync->changed, NULL);
    LT_TRY(lt_path_join(d->arena, dir, LT_DCP_METADATA, &path));
    LT_TRY(lt_file_map(path, &d->map));
    LT_TRY(lt_dcp_meta_read(d->map.data, d->map.bytes, path, d->arena, &d->meta));
    LT_TRY(map_files(d));
    return add_entries(d);
}

lt_status lt_dcp_open(const char *dir, lt_dcp **out)
{
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_dcp), "distributed checkpoint"));
    lt_dcp *d = memory;
    const lt_status st = open_all(d, dir);
    if (st != LT_OK) {
        lt_dcp_close(d);
        return st;
    }
    *out = d;
    return LT_OK;
}

void lt_dcp_close(lt_dcp *d)
{
    if (!d)
        return;
    for (int64_t i = 0; d->files && i < d->meta.files.n; i++)
        if (d->files[i].data)
            lt_file_unmap(&d->files[i]);
    if (d->map.data)
        lt_file_unmap(&d->map);
    if (d->sync) {
        pthread_mutex_destroy(&d->sync->lock);
        pthread_cond_destroy(&d->sync->changed);
    }
    lt_dcp_meta_deinit(&d->meta);
    lt_arena_destroy(d->arena);
    lt_mem_free(d);
}

const char *lt_dcp_dir(const lt_dcp *dcp)
{
    return dcp->dir;
}

int64_t lt_dcp_count(const lt_dcp *dcp)
{
    return dcp->meta.keys.n;
}

const lt_dcp_entry *lt_dcp_at(const lt_dcp *dcp, int64_t i)
{
    LT_ASSERT(i >= 0 && i < dcp->meta.keys.n);
    return &dcp->entries[i];
}

const lt_dcp_entry *lt_dcp_find(const lt_dcp *dcp, const char *key)
{
    int64_t i;
    return lt_map_get_text(dcp->meta.by_key, key, &i) ? lt_dcp_at(dcp, i) : NULL;
}
