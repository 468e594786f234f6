// SPDX-License-Identifier: Apache-2.0
// The plan of a distributed checkpoint: what goes where. The files themselves: dcp_files.c.
#include "ckpt/dcp_plan.h"
#include <stdio.h>
#include <string.h>

static const int64_t MAX_BOX_BYTES = (int64_t)1 << 31; // archives stay below 4 GiB

lt_dcp_path lt_dcp_path_of(const char *a, const char *b)
{
    return (lt_dcp_path){.step = {{a, 0}, {b, 0}}, .n = b ? 2 : 1};
}

lt_status lt_dcp_plan_init(lt_dcp_plan *plan)
{
    *plan = (lt_dcp_plan){
        .files = LT_VEC_OF(const char *), .keys = LT_VEC_OF(dcp_key), .boxes = LT_VEC_OF(dcp_box)};
    LT_TRY(lt_arena_create(&plan->arena, "plan of a checkpoint"));
    const lt_status st = lt_map_create(&plan->by_key);
    if (st != LT_OK)
        lt_dcp_plan_deinit(plan);
    return st;
}

void lt_dcp_plan_deinit(lt_dcp_plan *plan)
{
    lt_vec_deinit(&plan->files);
    lt_vec_deinit(&plan->keys);
    lt_vec_deinit(&plan->boxes);
    lt_map_destroy(plan->by_key);
    lt_arena_destroy(plan->arena);
    *plan = (lt_dcp_plan){0};
}

lt_status lt_dcp_plan_file(lt_dcp_plan *plan, const char *name, int32_t *file)
{
    char *copy;
    LT_TRY(lt_arena_text(plan->arena, name, strlen(name), &copy));
    *file = (int32_t)plan->files.n;
    return lt_vec_push(&plan->files, (const void *)&copy);
}

// ---- keys

static lt_status flat_key(lt_dcp_plan *plan, const lt_dcp_path *path, const char **out)
{
    lt_buf text = {0};
    lt_status st = LT_OK;
    char *copy = NULL;
    for (int32_t i = 0; st == LT_OK && i < path->n; i++) {
        const char *dot = i > 0 ? "." : "";
        st = path->step[i].name
                 ? lt_buf_printf(&text, "%s%s", dot, path->step[i].name)
                 : lt_buf_printf(&text, "%s%lld", dot, (long long)path->step[i].index);
    }
    if (st == LT_OK)
        st = lt_arena_text(plan->arena, text.data, text.len, &copy);
    lt_buf_deinit(&text);
    *out = copy;
    return st;
}

static lt_status add_key(lt_dcp_plan *plan, const lt_dcp_path *path, dcp_key k)
{
    int64_t other;
    LT_TRY(flat_key(plan, path, &k.key));
    k.path = *path;
    for (int32_t i = 0; i < path->n; i++) {
        char *copy = NULL;
        if (path->step[i].name)
            LT_TRY(
                lt_arena_text(plan->arena, path->step[i].name, strlen(path->step[i].name), &copy));
        k.path.step[i].name = copy;
    }
    k.first_box = plan->boxes.n;
    if (lt_map_get_text(plan->by_key, k.key, &other))
        return LT_FAIL(LT_ERR_FORMAT, "%s stands twice in the checkpoint to be written", k.key);
    LT_TRY(lt_map_put_text(plan->by_key, k.key, plan->keys.n));
    return lt_vec_push(&plan->keys, &k);
}

lt_status lt_dcp_plan_tensor(lt_dcp_plan *plan, const lt_dcp_path *path, const char *dtype_text,
                             int32_t rank, const int64_t *dim)
{
    dcp_key k = {.dtype = lt_torch_dtype_of(dtype_text), .rank = rank};
    const char *name = path->step[path->n - 1].name;
    void *dims;
    int64_t bytes;
    if (!k.dtype || !k.dtype->storage || rank > LT_DCP_MAX_RANK) {
        return LT_FAIL(LT_ERR_DTYPE,
                       "tensor %s is %s of %d dims, which isn't written to distributed checkpoints",
                       name, dtype_text, rank);
    }
    LT_TRY(lt_arena_take(plan->arena, (size_t)rank * sizeof *dim, &dims));
    if (rank > 0)
        memcpy(dims, dim, (size_t)rank * sizeof *dim);
    k.dim = dims;
    k.row_elems = 1;
    for (int32_t i = 1; i < rank; i++)
        if (!lt_mul_i64(k.row_elems, dim[i], &k.row_elems))
            return LT_FAIL(LT_ERR_SHAPE, "tensor %s: its shape overflows 63 bits", name);
    k.rows = rank > 0 ? dim[0] : 1;
    if (!lt_mul_i64(k.row_elems, k.rows, &bytes) || !lt_mul_i64(bytes, k.dtype->bytes, &bytes))
        return LT_FAIL(LT_ERR_SHAPE, "tensor %s: its shape overflows 63 bits", name);
    return add_key(plan, path, k);
}

static dcp_key *last_key(lt_dcp_plan *plan)
{
    return &LT_AT(&plan->keys, dcp_key, plan->keys.n - 1);
}

lt_status lt_dcp_plan_rows(lt_dcp_plan *plan, const lt_dcp_rows *rows)
{
    dcp_key *k = last_key(plan);
    const int64_t row_bytes = k->row_elems * (int64_t)k->dtype->bytes;
    const int64_t most = row_bytes > 0 ? lt_max_i64(1, MAX_BOX_BYTES / row_bytes) : rows->n;
    const bool empty = k->rows * k->row_elems == 0;
    LT_ASSERT(k->dtype && rows->first >= 0 && rows->n >= 0 && rows->first + rows->n <= k->rows);
    if (row_bytes > MAX_BOX_BYTES)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: one row of %lld bytes is too much for an archive",
                       k->key, (long long)row_bytes);
    if (empty ? k->n_boxes > 0 : rows->n == 0)
        return LT_OK;
    for (int64_t i = 0; i < rows->n || empty; i += most) {
        const dcp_box box = {.key = plan->keys.n - 1,
                             .rows = *rows,
                             .first = rows->first + i,
                             .n = lt_min_i64(most, rows->n - i)};
        LT_TRY(lt_vec_push(&plan->boxes, &box));
        k->n_boxes++;
        if (empty)
            break;
    }
    return LT_OK;
}

lt_status lt_dcp_plan_value(lt_dcp_plan *plan, const lt_dcp_path *path, int32_t file,
                            const lt_buf *pickle)
{
    char *copy;
    LT_TRY(add_key(plan, path, (dcp_key){0}));
    LT_TRY(lt_arena_text(plan->arena, pickle->data, pickle->len, &copy));
    last_key(plan)->n_boxes = 1;
    const dcp_box box = {.key = plan->keys.n - 1,
                         .rows = {.file = file},
                         .pickle = copy,
                         .pickle_bytes = pickle->len};
    return lt_vec_push(&plan->boxes, &box);
}

// ---- places

lt_status lt_dcp_tensor_pickle(const dcp_key *k, const dcp_box *b, lt_pkl *p)
{
    int64_t size[LT_DCP_MAX_RANK], stride[LT_DCP_MAX_RANK], step = 1;
    for (int32_t i = k->rank; i > 0; i--) {
        size[i - 1] = i == 1 ? b->n : k->dim[i - 1];
        stride[i - 1] = step;
        step *= lt_max_i64(size[i - 1], 1);
    }
    lt_pkl_begin(p, false);
    lt_pkl_global(p, "torch._utils", "_rebuild_tensor_v2");
    lt_pkl_op(p, LT_PKL_MARK);
    lt_pkl_op(p, LT_PKL_MARK);
    lt_pkl_text(p, "storage");
    lt_pkl_global(p, "torch", k->dtype->storage);
    lt_pkl_text(p, "0");
    lt_pkl_text(p, "cpu");
    lt_pkl_int(p, b->n * k->row_elems);
    lt_pkl_op(p, LT_PKL_TUPLE);
    lt_pkl_op(p, LT_PKL_BINPERSID);
    lt_pkl_int(p, 0);
    lt_pkl_ints(p, size, k->rank);
    lt_pkl_ints(p, stride, k->rank);
    lt_pkl_op(p, LT_PKL_FALSE);
    lt_pkl_global(p, "collections", "OrderedDict");
    lt_pkl_op(p, LT_PKL_EMPTY_TUPLE);
    lt_pkl_op(p, LT_PKL_REDUCE);
    lt_pkl_op(p, LT_PKL_TUPLE);
    lt_pkl_op(p, LT_PKL_REDUCE);
    return lt_pkl_end(p);
}

static lt_status measure(const dcp_key *k, dcp_box *b)
{
    static const char *const of_value[] = {"data.pkl", "byteorder", "version"},
                             *const of_tensor[] = {"data.pkl", "byteorder", "data/0", "version"};
    lt_pkl p = {0};
    if (!k->dtype) {
        const int64_t sizes[] = {(int64_t)b->pickle_bytes, 6, 2};
        b->bytes = lt_zip_bytes(DCP_TOP, of_value, sizes, 3);
        return LT_OK;
    }
    const lt_status st = lt_dcp_tensor_pickle(k, b, &p);
    const int64_t sizes[] = {(int64_t)p.out.len, 6, b->n * k->row_elems * (int64_t)k->dtype->bytes,
                             2};
    b->bytes = lt_zip_bytes(DCP_TOP, of_tensor, sizes, 4);
    lt_pkl_deinit(&p);
    return st;
}

static lt_status check_rows(const lt_dcp_plan *plan, const dcp_key *k)
{
    int64_t at = 0;
    for (int64_t i = 0; i < k->n_boxes && k->dtype; i++) {
        const dcp_box *b = &LT_AT(&plan->boxes, dcp_box, k->first_box + i);
        LT_ASSERT(b->first == at);
        at += b->n;
    }
    LT_ASSERT(!k->dtype || at == k->rows || k->rows * k->row_elems == 0);
    return LT_OK;
}

lt_status lt_dcp_plan_place(lt_dcp_plan *plan, int64_t *bytes)
{
    void *memory;
    LT_TRY(lt_arena_take(plan->arena, (size_t)plan->files.n * sizeof(int64_t), &memory));
    plan->file_bytes = memory;
    *bytes = 0;
    for (int64_t i = 0; i < plan->keys.n; i++)
        LT_TRY(check_rows(plan, &LT_AT(&plan->keys, dcp_key, i)));
    for (int64_t i = 0; i < plan->boxes.n; i++) {
        dcp_box *b = &LT_AT(&plan->boxes, dcp_box, i);
        LT_TRY(measure(&LT_AT(&plan->keys, dcp_key, b->key), b));
        b->at = plan->file_bytes[b->rows.file];
        plan->file_bytes[b->rows.file] += b->bytes;
        *bytes += b->bytes;
    }
    return LT_OK;
}
