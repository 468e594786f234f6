// SPDX-License-Identifier: Apache-2.0
// From the pickle of .metadata to checked tables.
#include "ckpt/dcp_meta.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_RANK = 16,
    MAX_KEY_BYTES = 4096,
    MAX_KEYS = 10000000,
    MAX_BOXES = 1 << 16, // of one tensor
    MAX_FILES = 1 << 20,
    MAX_FILE_NAME_BYTES = 255,
};

#define META "torch.distributed.checkpoint.metadata"
#define OLD_META "torch.distributed._shard.sharded_tensor.metadata"
#define DTYPE(name)                                                                                \
    {                                                                                              \
        "torch", name, LT_PICKLE_BARE, NULL                                                        \
    }
static const lt_pickle_global globals[] = {
    {META, "Metadata", LT_PICKLE_NEW, NULL},
    {META, "TensorStorageMetadata", LT_PICKLE_NEW, NULL},
    {META, "BytesStorageMetadata", LT_PICKLE_NEW, NULL},
    {META, "TensorProperties", LT_PICKLE_NEW, NULL},
    {META, "ChunkStorageMetadata", LT_PICKLE_NEW, NULL},
    {META, "MetadataIndex", LT_PICKLE_NEW, NULL},
    {META, "StorageMeta", LT_PICKLE_NEW, NULL},
    {META, "_MEM_FORMAT_ENCODING", LT_PICKLE_CALL, NULL},
    {OLD_META, "TensorProperties", LT_PICKLE_NEW, NULL},
    {OLD_META, "MEM_FORMAT_ENCODING", LT_PICKLE_CALL, NULL},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo", LT_PICKLE_NEW, NULL},
    {"torch", "Size", LT_PICKLE_CALL, NULL},
    {"torch.serialization", "_get_layout", LT_PICKLE_CALL, NULL},
    {"pathlib", "PosixPath", LT_PICKLE_CALL, NULL},
    {"pathlib._local", "PosixPath", LT_PICKLE_CALL, NULL},
    {"builtins", "getattr", LT_PICKLE_CALL, "MEM_FORMAT_ENCODING"},
    {"__builtin__", "getattr", LT_PICKLE_CALL, "MEM_FORMAT_ENCODING"},
    DTYPE("float32"),
    DTYPE("bfloat16"),
    DTYPE("float16"),
    DTYPE("float64"),
    DTYPE("int64"),
    DTYPE("int32"),
    DTYPE("int16"),
    DTYPE("int8"),
    DTYPE("uint8"),
    DTYPE("bool"),
    DTYPE("complex64"),
    DTYPE("uint16"),
    DTYPE("uint32"),
    DTYPE("uint64"),
    DTYPE("float8_e4m3fn"),
    DTYPE("float8_e5m2"),
    DTYPE("float8_e8m0fnu"),
};

typedef struct builder {
    const char *where;
    lt_arena *arena;
    lt_dcp_meta *meta;
    lt_map *stored; // place key -> index into ranges
    lt_vec ranges;  // lt_dcp_range
    lt_buf place;
} builder;

static lt_status bad(const builder *b, const char *key, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s: %.300s: %s", b->where, key, what);
}

static const lt_pickle *field(const lt_pickle *object, const char *name)
{
    return object->kind == LT_PICKLE_OBJECT && object->state ? lt_pickle_get(object->state, name)
                                                             : NULL;
}

// torch.Size, or a bare tuple, of whole numbers of 0 and more.
static lt_status read_size(const builder *b, const char *key, const lt_pickle *v, int64_t **out,
                           int32_t *rank)
{
    void *memory;
    if (v && lt_pickle_is_object(v, "torch", "Size") && v->args->n == 1)
        v = v->args->items[0];
    if (!v || (v->kind != LT_PICKLE_TUPLE && v->kind != LT_PICKLE_LIST) || v->n > MAX_RANK)
        return bad(b, key, "a size or offset is no tuple of at most 16 numbers");
    LT_TRY(lt_arena_take(b->arena, (size_t)v->n * sizeof(int64_t), &memory));
    *out = memory;
    for (int64_t i = 0; i < v->n; i++)
        if (!lt_pickle_int(v->items[i], &(*out)[i]) || (*out)[i] < 0)
            return bad(b, key, "a size or offset isn't a whole number of 0 and more");
    *rank = (int32_t)v->n;
    return LT_OK;
}

// ---- where things are stored

// What tells a piece: key and offset. A plain value has its key alone.
static lt_status place_of(builder *b, const char *key, const int64_t *offset, int32_t rank)
{
    lt_buf_clear(&b->place);
    LT_TRY(lt_buf_text(&b->place, key));
    if (!offset)
        return LT_OK;
    LT_TRY(lt_buf_append(&b->place, "", 1));
    return lt_buf_append(&b->place, offset, (size_t)rank * sizeof *offset);
}

static bool is_plain_name(const char *name)
{
    return name && name[0] != '\0' && !strchr(name, '/') && !strchr(name, '\\') &&
           !strstr(name, "..") && strlen(name) <= MAX_FILE_NAME_BYTES;
}

static lt_status file_of(builder *b, const char *key, const lt_pickle *v, int32_t *out)
{
    int64_t at;
    const char *name = lt_pickle_text(v);
    if (!is_plain_name(name))
        return LT_FAIL(LT_ERR_FORMAT, "%s: %.300s: its file \"%.100s\" is no name in this folder",
                       b->where, key, name ? name : lt_pickle_kind_text(v));
    if (!lt_map_get_text(b->meta->by_file, name, &at)) {
        at = b->meta->files.n;
        if (at >= MAX_FILES)
            return bad(b, key, "there are too many files");
        LT_TRY(lt_map_put_text(b->meta->by_file, name, at));
        LT_TRY(lt_vec_push(&b->meta->files, (const void *)&name));
    }
    *out = (int32_t)at;
    return LT_OK;
}

static lt_status read_stored(builder *b, const lt_pickle *index, const lt_pickle *info)
{
    lt_dcp_range r = {0};
    const char *key = lt_pickle_text(field(index, "fqn"));
    const lt_pickle *offset = field(index, "offset");
    const lt_pickle *transforms = field(info, "transform_descriptors");
    int64_t *at = NULL;
    int32_t rank = 0;
    if (!lt_pickle_is_object(index, META, "MetadataIndex") || !key ||
        info->kind != LT_PICKLE_OBJECT)
        return bad(b, "storage_data", "an entry has no index of key and offset");
    if (offset && offset->kind != LT_PICKLE_NONE)
        LT_TRY(read_size(b, key, offset, &at, &rank));
    LT_TRY(file_of(b, key, field(info, "relative_path"), &r.file));
    if (!lt_pickle_int(field(info, "offset"), &r.at) || r.at < 0 ||
        !lt_pickle_int(field(info, "length"), &r.bytes) || r.bytes < 0 ||
        r.bytes > INT64_MAX - r.at)
        return bad(b, key, "its place in its file isn't two whole numbers of 0 and more");
    if (transforms && transforms->kind != LT_PICKLE_NONE &&
        !((transforms->kind == LT_PICKLE_LIST || transforms->kind == LT_PICKLE_TUPLE) &&
          transforms->n == 0))
        return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: %.300s: its data is compressed, which isn't read",
                       b->where, key);
    LT_TRY(place_of(b, key, at, rank));
    LT_TRY(lt_map_put(b->stored, b->place.data, b->place.len, b->ranges.n));
    return lt_vec_push(&b->ranges, &r);
}

static lt_status find_stored(builder *b, const char *key, const int64_t *offset, int32_t rank,
                             lt_dcp_range *out)
{
    int64_t i;
    LT_TRY(place_of(b, key, offset, rank));
    *out = (lt_dcp_range){.file = -1};
    if (lt_map_get(b->stored, b->place.data, b->place.len, &i))
        *out = LT_AT(&b->ranges, lt_dcp_range, i);
    return LT_OK;
}

// ---- tensors

static bool count(int32_t rank, const int64_t *dim, int64_t *out)
{
    int64_t n = 1;
    bool empty = false;
    for (int32_t i = 0; i < rank; i++) {
        empty = empty || dim[i] == 0;
        if (dim[i] > 0 && !lt_mul_i64(n, dim[i], &n))
            return false;
    }
    *out = empty ? 0 : n;
    return true;
}

static lt_status read_box(builder *b, lt_dcp_key *k, const lt_pickle *chunk)
{
    lt_dcp_box box = {0};
    int64_t *offset, *size, n = 0;
    int32_t ranks[2];
    LT_TRY(read_size(b, k->key, field(chunk, "offsets"), &offset, &ranks[0]));
    LT_TRY(read_size(b, k->key, field(chunk, "sizes"), &size, &ranks[1]));
    if (ranks[0] != k->rank || ranks[1] != k->rank)
        return bad(b, k->key, "a piece has another number of dims than its tensor");
    for (int32_t i = 0; i < k->rank; i++)
        if (size[i] > k->dim[i] || offset[i] > k->dim[i] - size[i])
            return bad(b, k->key, "a piece lies outside of its tensor");
    if (!count(k->rank, size, &n))
        return bad(b, k->key, "a piece's size overflows 63 bits");
    if (n == 0)
        return LT_OK; // of a rank that has no rows
    box.offset = offset;
    box.size = size;
    box.n_elems = n;
    LT_TRY(find_stored(b, k->key, offset, k->rank, &box.range));
    if (box.range.file < 0)
        return bad(b, k->key, "a piece of it is stored nowhere");
    k->boxes[k->n_boxes++] = box;
    return LT_OK;
}

static int by_offset(const void *a, const void *b, void *rank)
{
    const lt_dcp_box *p = a, *q = b;
    for (int32_t i = 0; i < *(const int32_t *)rank; i++)
        if (p->offset[i] != q->offset[i])
            return p->offset[i] < q->offset[i] ? -1 : 1;
    return 0;
}

static bool overlap(const lt_dcp_box *a, const lt_dcp_box *b, int32_t rank)
{
    for (int32_t i = 0; i < rank; i++)
        if (a->offset[i] + a->size[i] <= b->offset[i] || b->offset[i] + b->size[i] <= a->offset[i])
            return false;
    return true;
}

// Boxes that don't overlap and have as many elements as the tensor tile it.
static lt_status check_tiles(builder *b, lt_dcp_key *k)
{
    int64_t total = 0;
    if (k->n_boxes > 1)
        qsort_r(k->boxes, (size_t)k->n_boxes, sizeof *k->boxes, by_offset, &k->rank);
    for (int64_t i = 0; i < k->n_boxes; i++) {
        const lt_dcp_box *p = &k->boxes[i];
        for (int64_t j = i + 1; j < k->n_boxes; j++) {
            const lt_dcp_box *q = &k->boxes[j];
            if (k->rank > 0 && q->offset[0] >= p->offset[0] + p->size[0])
                break;
            if (overlap(p, q, k->rank))
                return bad(b, k->key, "two of its pieces overlap");
        }
        total += p->n_elems; // each is within the tensor, and none overlaps one before
    }
    if (total != k->n_elems)
        return LT_FAIL(LT_ERR_FORMAT, "%s: %.300s: its pieces hold %lld of its %lld elements",
                       b->where, k->key, (long long)total, (long long)k->n_elems);
    return LT_OK;
}

static lt_status read_tensor(builder *b, lt_dcp_key *k, const lt_pickle *v)
{
    int64_t *dim, bytes;
    void *memory;
    const lt_pickle *properties = field(v, "properties"), *chunks = field(v, "chunks");
    const lt_pickle *state =
        properties && properties->kind == LT_PICKLE_OBJECT ? properties->state : NULL;
    if (!state || state->kind != LT_PICKLE_TUPLE || state->n < 1 ||
        state->items[0]->kind != LT_PICKLE_GLOBAL ||
        !(k->dtype = lt_torch_dtype_find(state->items[0]->name)))
        return bad(b, k->key, "its properties name no dtype");
    LT_TRY(read_size(b, k->key, field(v, "size"), &dim, &k->rank));
    k->dim = dim;
    if (!count(k->rank, dim, &k->n_elems) || !lt_mul_i64(k->n_elems, k->dtype->bytes, &bytes))
        return bad(b, k->key, "its size overflows 63 bits");
    if (!chunks || chunks->kind != LT_PICKLE_LIST || chunks->n > MAX_BOXES)
        return bad(b, k->key, "it has no list of pieces, or one that is too long");
    LT_TRY(lt_arena_take(b->arena, (size_t)chunks->n * sizeof(lt_dcp_box), &memory));
    k->boxes = memory;
    for (int64_t i = 0; i < chunks->n; i++)
        LT_TRY(read_box(b, k, chunks->items[i]));
    return check_tiles(b, k);
}

static lt_status read_key(builder *b, const lt_pickle *name, const lt_pickle *v)
{
    int64_t other;
    lt_dcp_key k = {.key = lt_pickle_text(name), .value = {.file = -1}};
    if (!k.key || name->len > MAX_KEY_BYTES || b->meta->keys.n >= MAX_KEYS)
        return bad(b, "state_dict_metadata", "a key is no text of at most 4096 bytes");
    if (lt_map_get_text(b->meta->by_key, k.key, &other))
        return bad(b, k.key, "the key stands twice");
    if (lt_pickle_is_object(v, META, "TensorStorageMetadata")) {
        LT_TRY(read_tensor(b, &k, v));
    } else if (lt_pickle_is_object(v, META, "BytesStorageMetadata")) {
        LT_TRY(find_stored(b, k.key, NULL, 0, &k.value));
        if (k.value.file < 0)
            return bad(b, k.key, "it is stored nowhere");
    } else {
        return LT_FAIL(LT_ERR_FORMAT, "%s: %.300s is %s, neither a tensor nor a value", b->where,
                       k.key, lt_pickle_kind_text(v));
    }
    LT_TRY(lt_map_put_text(b->meta->by_key, k.key, b->meta->keys.n));
    return lt_vec_push(&b->meta->keys, &k);
}

// ---- the whole

static lt_status for_each(builder *b, const lt_pickle *root, const char *name,
                          lt_status (*fn)(builder *, const lt_pickle *, const lt_pickle *))
{
    const lt_pickle *v = field(root, name), *dict = v ? lt_pickle_dict(v) : NULL;
    if (!dict)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its %s is %s, not a dict", b->where, name,
                       lt_pickle_kind_text(v));
    for (int64_t i = 0; i < dict->n; i++)
        LT_TRY(fn(b, dict->items[2 * i], dict->items[2 * i + 1]));
    return LT_OK;
}

// How keys are nested: needed only to rebuild the dicts that they came from.
static lt_status read_path(builder *b, const lt_pickle *key, const lt_pickle *path)
{
    int64_t i;
    const char *name = lt_pickle_text(key);
    if (!name || path->kind != LT_PICKLE_TUPLE || !lt_map_get_text(b->meta->by_key, name, &i))
        return LT_OK;
    for (int64_t k = 0; k < path->n; k++)
        if (path->items[k]->kind != LT_PICKLE_TEXT && path->items[k]->kind != LT_PICKLE_INT)
            return LT_OK;
    LT_AT(&b->meta->keys, lt_dcp_key, i).path = path;
    return LT_OK;
}

static lt_status read_all(builder *b, const lt_pickle *root)
{
    if (!lt_pickle_is_object(root, META, "Metadata"))
        return LT_FAIL(LT_ERR_FORMAT, "%s: it holds %s, not the metadata of a checkpoint", b->where,
                       lt_pickle_kind_text(root));
    LT_TRY(for_each(b, root, "storage_data", read_stored));
    LT_TRY(for_each(b, root, "state_dict_metadata", read_key));
    const lt_pickle *planner = field(root, "planner_data");
    if (planner && lt_pickle_dict(planner))
        LT_TRY(for_each(b, root, "planner_data", read_path));
    return LT_OK;
}

lt_status lt_dcp_meta_read(const uint8_t *bytes, size_t len, const char *where, lt_arena *arena,
                           lt_dcp_meta *out)
{
    const lt_pickle_rules rules = {globals, sizeof globals / sizeof *globals, false};
    const lt_pickle *root = NULL;
    builder b = {.where = where, .arena = arena, .meta = out, .ranges = LT_VEC_OF(lt_dcp_range)};
    lt_status st;
    *out = (lt_dcp_meta){.keys = LT_VEC_OF(lt_dcp_key), .files = LT_VEC_OF(const char *)};
    LT_TRY_GOTO(st, lt_map_create(&out->by_key), done);
    LT_TRY_GOTO(st, lt_map_create(&out->by_file), done);
    LT_TRY_GOTO(st, lt_map_create(&b.stored), done);
    LT_TRY_GOTO(st, lt_pickle_parse(bytes, len, &rules, where, arena, &root), done);
    st = read_all(&b, root);
done:
    lt_map_destroy(b.stored);
    lt_vec_deinit(&b.ranges);
    lt_buf_deinit(&b.place);
    return st;
}

void lt_dcp_meta_deinit(lt_dcp_meta *meta)
{
    lt_vec_deinit(&meta->keys);
    lt_vec_deinit(&meta->files);
    lt_map_destroy(meta->by_key);
    lt_map_destroy(meta->by_file);
    *meta = (lt_dcp_meta){0};
}
