// SPDX-License-Identifier: Apache-2.0
// Writing the files of a plan, reading them back, and .metadata.
#include "ckpt/dcp_plan.h"
#include <stdio.h>
#include <string.h>

enum { PIECE_ELEMS = 1 << 18 };

// ---- one file

typedef struct file_writer {
    const lt_dcp_plan *plan;
    int32_t file;
    const char *path;
    lt_zip_writer zip;
    uint8_t *fetched, *converted; // PIECE_ELEMS of the widest dtype each
    const lt_dcp_progress *progress;
} file_writer;

static lt_status put_piece(file_writer *w, const dcp_key *k, const dcp_box *b, int64_t first,
                           int64_t n)
{
    const bool raw = b->rows.from == LT_N_DTYPES || b->rows.from == k->dtype->dtype;
    const size_t bytes = (size_t)n * k->dtype->bytes;
    LT_TRY(b->rows.fetch(b->rows.ctx, first, n, w->fetched));
    if (!raw)
        lt_convert(w->converted, k->dtype->dtype, w->fetched, b->rows.from, n);
    LT_TRY(lt_zip_put(&w->zip, raw ? w->fetched : w->converted, bytes));
    if (w->progress)
        w->progress->fn(w->progress->ctx, (int64_t)bytes);
    return LT_OK;
}

static lt_status put_elements(file_writer *w, const dcp_key *k, const dcp_box *b)
{
    const int64_t first = b->first * k->row_elems, n = b->n * k->row_elems;
    LT_TRY(lt_zip_entry_begin(&w->zip, "data/0", n == 0));
    for (int64_t i = 0; i < n; i += PIECE_ELEMS)
        LT_TRY(put_piece(w, k, b, first + i, lt_min_i64(PIECE_ELEMS, n - i)));
    return lt_zip_entry_end(&w->zip);
}

static lt_status put_box(file_writer *w, lt_writer *to, const dcp_key *k, const dcp_box *b)
{
    lt_pkl p = {0};
    lt_zip_begin(&w->zip, to, DCP_TOP);
    lt_status st = k->dtype ? lt_dcp_tensor_pickle(k, b, &p) : LT_OK;
    if (st == LT_OK)
        st = k->dtype ? lt_zip_add(&w->zip, "data.pkl", p.out.data, p.out.len)
                      : lt_zip_add(&w->zip, "data.pkl", b->pickle, b->pickle_bytes);
    lt_pkl_deinit(&p);
    LT_TRY(st);
    LT_TRY(lt_zip_add(&w->zip, "byteorder", "little", 6));
    if (k->dtype)
        LT_TRY(put_elements(w, k, b));
    LT_TRY(lt_zip_add(&w->zip, "version", "3\n", 2));
    LT_TRY(lt_zip_end(&w->zip));
    LT_ASSERT((int64_t)w->zip.at == b->bytes);
    return LT_OK;
}

static const dcp_key *key_of(const lt_dcp_plan *plan, const dcp_box *b)
{
    return &LT_AT(&plan->keys, dcp_key, b->key);
}

static lt_status put_boxes(file_writer *w)
{
    lt_writer *to;
    LT_TRY(lt_writer_create(w->path, &to));
    for (int64_t i = 0; i < w->plan->boxes.n; i++) {
        const dcp_box *b = &LT_AT(&w->plan->boxes, dcp_box, i);
        if (b->rows.file != w->file)
            continue;
        const lt_status st = put_box(w, to, key_of(w->plan, b), b);
        if (st != LT_OK) {
            lt_error_note("%s", key_of(w->plan, b)->key);
            lt_writer_abandon(to);
            return st;
        }
    }
    return lt_writer_close(&to);
}

// ---- reading back

static lt_status check_box(const file_writer *w, const lt_mapped *map, const dcp_box *b,
                           lt_arena *scratch)
{
    const dcp_key *k = key_of(w->plan, b);
    lt_torch_file file;
    lt_torch_tensor t;
    LT_TRY(lt_torch_parse(map->data + b->at, (size_t)b->bytes, LT_TORCH_BLOB, w->path, scratch,
                          &file));
    if (!k->dtype)
        return LT_OK;
    LT_TRY(lt_torch_tensor_of(&file, file.root, scratch, &t));
    LT_TRY(lt_zip_check(&file.zip, t.storage));
    lt_file_forget(map, (size_t)b->at, (size_t)(b->at + b->bytes));
    return t.n_elems == b->n * k->row_elems
               ? LT_OK
               : LT_FAIL(LT_ERR_IO, "%s: %s reads back with another size", w->path, k->key);
}

static lt_status check_boxes(const file_writer *w, const lt_mapped *map)
{
    lt_arena *scratch;
    lt_status st = LT_OK;
    if ((int64_t)map->bytes != w->plan->file_bytes[w->file])
        return LT_FAIL(LT_ERR_IO, "%s has %zu bytes after writing %lld", w->path, map->bytes,
                       (long long)w->plan->file_bytes[w->file]);
    LT_TRY(lt_arena_create(&scratch, "reading back"));
    for (int64_t i = 0; i < w->plan->boxes.n && st == LT_OK; i++) {
        const dcp_box *b = &LT_AT(&w->plan->boxes, dcp_box, i);
        if (b->rows.file != w->file)
            continue;
        lt_arena_reset(scratch);
        st = check_box(w, map, b, scratch);
    }
    lt_arena_destroy(scratch);
    if (st != LT_OK)
        lt_error_note("reading back what was written");
    return st;
}

static lt_status verify(const file_writer *w)
{
    lt_mapped map;
    lt_file_uncache(w->path);
    LT_TRY(lt_file_map(w->path, &map));
    const lt_status st = check_boxes(w, &map);
    lt_file_unmap(&map);
    return st == LT_ERR_FORMAT ? LT_ERR_IO : st; // not a stranger's file, but a disk that fails
}

lt_status lt_dcp_write_file(const lt_dcp_plan *plan, const char *dir, int32_t file,
                            const lt_dcp_progress *progress)
{
    lt_arena *arena;
    char *path;
    void *fetched, *converted;
    lt_status st;
    file_writer w = {.plan = plan, .file = file, .progress = progress};
    if (plan->file_bytes[file] == 0)
        return LT_OK;
    LT_TRY(lt_arena_create(&arena, "writing a checkpoint"));
    LT_TRY_GOTO(st, lt_path_join(arena, dir, LT_AT(&plan->files, const char *, file), &path), done);
    LT_TRY_GOTO(st, lt_arena_take(arena, PIECE_ELEMS * sizeof(double), &fetched), done);
    LT_TRY_GOTO(st, lt_arena_take(arena, PIECE_ELEMS * sizeof(double), &converted), done);
    w.path = path;
    w.fetched = fetched;
    w.converted = converted;
    LT_TRY_GOTO(st, put_boxes(&w), done);
    st = verify(&w);
done:
    lt_zip_abandon(&w.zip);
    lt_arena_destroy(arena);
    return st;
}

// ---- .metadata

#define META "torch.distributed.checkpoint.metadata"

static void put_state(lt_pkl *p)
{
    lt_pkl_op(p, LT_PKL_EMPTY_DICT);
    lt_pkl_op(p, LT_PKL_MARK);
}

static void end_state(lt_pkl *p)
{
    lt_pkl_op(p, LT_PKL_SETITEMS);
    lt_pkl_op(p, LT_PKL_BUILD);
}

static void put_properties(lt_pkl *p, const lt_torch_dtype *dtype)
{
    lt_pkl_new(p, META, "TensorProperties");
    lt_pkl_op(p, LT_PKL_MARK);
    lt_pkl_global(p, "torch", dtype->name);
    lt_pkl_global(p, "torch.serialization", "_get_layout");
    lt_pkl_name(p, "torch.strided");
    lt_pkl_op(p, LT_PKL_TUPLE1);
    lt_pkl_op(p, LT_PKL_REDUCE);
    lt_pkl_op(p, LT_PKL_FALSE);
    lt_pkl_global(p, META, "_MEM_FORMAT_ENCODING");
    lt_pkl_int(p, 0);
    lt_pkl_op(p, LT_PKL_TUPLE1);
    lt_pkl_op(p, LT_PKL_REDUCE);
    lt_pkl_op(p, LT_PKL_FALSE);
    lt_pkl_op(p, LT_PKL_TUPLE);
    lt_pkl_op(p, LT_PKL_BUILD);
}

static void offset_of(const dcp_key *k, const dcp_box *b, int64_t *offset, int64_t *size)
{
    for (int32_t i = 0; i < k->rank; i++) {
        offset[i] = i == 0 ? b->first : 0;
        size[i] = i == 0 ? b->n : k->dim[i];
    }
}

static void put_chunk(lt_pkl *p, const dcp_key *k, const dcp_box *b)
{
    int64_t offset[LT_DCP_MAX_RANK], size[LT_DCP_MAX_RANK];
    offset_of(k, b, offset, size);
    lt_pkl_new(p, META, "ChunkStorageMetadata");
    put_state(p);
    lt_pkl_name(p, "offsets");
    lt_pkl_size(p, offset, k->rank);
    lt_pkl_name(p, "sizes");
    lt_pkl_size(p, size, k->rank);
    end_state(p);
}

static void put_tensor(lt_pkl *p, const lt_dcp_plan *plan, const dcp_key *k)
{
    lt_pkl_new(p, META, "TensorStorageMetadata");
    put_state(p);
    lt_pkl_name(p, "properties");
    put_properties(p, k->dtype);
    lt_pkl_name(p, "size");
    lt_pkl_size(p, k->dim, k->rank);
    lt_pkl_name(p, "chunks");
    lt_pkl_op(p, LT_PKL_EMPTY_LIST);
    lt_pkl_op(p, LT_PKL_MARK);
    for (int64_t i = 0; i < k->n_boxes; i++)
        put_chunk(p, k, &LT_AT(&plan->boxes, dcp_box, k->first_box + i));
    lt_pkl_op(p, LT_PKL_APPENDS);
    end_state(p);
}

static void put_stored(lt_pkl *p, const lt_dcp_plan *plan, const dcp_key *k, int64_t i)
{
    int64_t offset[LT_DCP_MAX_RANK], size[LT_DCP_MAX_RANK];
    const dcp_box *b = &LT_AT(&plan->boxes, dcp_box, k->first_box + i);
    lt_pkl_new(p, META, "MetadataIndex");
    put_state(p);
    lt_pkl_name(p, "fqn");
    lt_pkl_name(p, k->key);
    lt_pkl_name(p, "index");
    if (k->dtype) {
        offset_of(k, b, offset, size);
        lt_pkl_int(p, i);
        lt_pkl_name(p, "offset");
        lt_pkl_size(p, offset, k->rank);
    } else {
        lt_pkl_op(p, LT_PKL_NONE);
    }
    end_state(p);
    lt_pkl_new(p, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    put_state(p);
    lt_pkl_name(p, "relative_path");
    lt_pkl_name(p, LT_AT(&plan->files, const char *, b->rows.file));
    lt_pkl_name(p, "offset");
    lt_pkl_int(p, b->at);
    lt_pkl_name(p, "length");
    lt_pkl_int(p, b->bytes);
    end_state(p);
}

static void put_path(lt_pkl *p, const dcp_key *k)
{
    lt_pkl_name(p, k->key);
    lt_pkl_op(p, LT_PKL_MARK);
    for (int32_t i = 0; i < k->path.n; i++) {
        if (k->path.step[i].name)
            lt_pkl_name(p, k->path.step[i].name);
        else
            lt_pkl_int(p, k->path.step[i].index);
    }
    lt_pkl_op(p, LT_PKL_TUPLE);
}

static void put_storage_meta(lt_pkl *p)
{
    static const char *const nothing[] = {"checkpoint_id", "save_id", "load_id"};
    lt_pkl_new(p, META, "StorageMeta");
    put_state(p);
    for (int i = 0; i < 3; i++) {
        lt_pkl_name(p, nothing[i]);
        lt_pkl_op(p, LT_PKL_NONE);
    }
    lt_pkl_name(p, "modules");
    lt_pkl_op(p, LT_PKL_EMPTY_LIST);
    end_state(p);
}

static void put_metadata(lt_pkl *p, const lt_dcp_plan *plan)
{
    const dcp_key *keys = plan->keys.data;
    const int64_t n = plan->keys.n;
    lt_pkl_new(p, META, "Metadata");
    put_state(p);
    lt_pkl_name(p, "state_dict_metadata");
    put_state(p);
    for (int64_t i = 0; i < n; i++) {
        lt_pkl_name(p, keys[i].key);
        if (keys[i].dtype)
            put_tensor(p, plan, &keys[i]);
        else
            lt_pkl_new(p, META, "BytesStorageMetadata");
    }
    lt_pkl_op(p, LT_PKL_SETITEMS);
    lt_pkl_name(p, "planner_data");
    put_state(p);
    for (int64_t i = 0; i < n; i++)
        put_path(p, &keys[i]);
    lt_pkl_op(p, LT_PKL_SETITEMS);
    lt_pkl_name(p, "storage_data");
    put_state(p);
    for (int64_t i = 0; i < n; i++)
        for (int64_t b = 0; b < keys[i].n_boxes; b++)
            put_stored(p, plan, &keys[i], b);
    lt_pkl_op(p, LT_PKL_SETITEMS);
    lt_pkl_name(p, "storage_meta");
    put_storage_meta(p);
    end_state(p);
}

lt_status lt_dcp_write_metadata(const lt_dcp_plan *plan, const char *dir)
{
    lt_pkl p = {0};
    lt_arena *arena = NULL;
    char *path;
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_create(&arena, "writing a checkpoint"), done);
    LT_TRY_GOTO(st, lt_path_join(arena, dir, LT_DCP_METADATA, &path), done);
    lt_pkl_begin(&p, true);
    put_metadata(&p, plan);
    LT_TRY_GOTO(st, lt_pkl_end(&p), done);
    st = lt_file_replace(path, p.out.data, p.out.len);
done:
    lt_pkl_deinit(&p);
    lt_arena_destroy(arena);
    return st;
}
