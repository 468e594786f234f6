// SPDX-License-Identifier: Apache-2.0
// golden_dcp PATH... | golden_dcp FOLDER EXPECTED.safetensors [--prefix P]: reads distributed
// checkpoints, and files of torch.save, and holds them against the tensors and values stored
// beside them. A PATH may be a checkpoint, a training run's folder, a .pt file, or a folder of
// such.
#include "ckpt/dcp.h"
#include "ckpt/dcp_meta.h"
#include "ckpt/run_folder.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, MAX_DEPTH = 16 };

typedef struct runner {
    lt_arena *arena;
    const char *what; // what is being looked at
    long passed, failed;
} runner;

static void count(runner *r, bool good, const char *name, const char *why)
{
    good ? r->passed++ : r->failed++;
    if (!good)
        printf("%s: %s: %s\n", r->what, name, why);
}

static void count_status(runner *r, lt_status st, const char *name)
{
    count(r, st == LT_OK, name, st == LT_OK ? "" : lt_error_message());
}

static char *join(runner *r, const char *dir, const char *name)
{
    char *path = NULL;
    return lt_path_join(r->arena, dir, name, &path) == LT_OK ? path : NULL;
}

// ---- tensors

static lt_status read_bytes(const lt_st_tensor *t, int64_t first, int64_t n, lt_buf *out)
{
    static const char zeros[PIECE_BYTES] = {0};
    lt_buf_clear(out);
    for (size_t left = (size_t)n * lt_st_elem_bytes(t); left > 0;) {
        const size_t take = left < sizeof zeros ? left : sizeof zeros;
        LT_TRY(lt_buf_append(out, zeros, take));
        left -= take;
    }
    return n > 0 ? lt_st_read_raw(t, first, n, out->data) : LT_OK;
}

static lt_status compare_range(const lt_st_tensor *got, const lt_st_tensor *want, int64_t first,
                               int64_t n)
{
    lt_buf a = {0}, b = {0};
    lt_status st = read_bytes(got, first, n, &a);
    if (st == LT_OK)
        st = read_bytes(want, first, n, &b);
    if (st == LT_OK && (a.len != b.len || (a.len > 0 && memcmp(a.data, b.data, a.len) != 0)))
        st = LT_FAIL(LT_ERR_FORMAT, "elements [%lld, %lld) differ", (long long)first,
                     (long long)(first + n));
    lt_buf_deinit(&a);
    lt_buf_deinit(&b);
    return st;
}

static lt_status compare_tensors(const lt_st_tensor *got, const lt_st_tensor *want)
{
    const int64_t n = lt_st_elems(want);
    if (strcmp(got->dtype_text, want->dtype_text) != 0 || got->rank != want->rank ||
        (want->rank > 0 &&
         memcmp(got->dim, want->dim, (size_t)want->rank * sizeof *want->dim) != 0))
        return LT_FAIL(LT_ERR_SHAPE, "it is %s and should be %s", lt_st_shape_text(got).s,
                       lt_st_shape_text(want).s);
    LT_TRY(compare_range(got, want, 0, n));
    // A rank reads parts: from the middle, to the end, single elements.
    LT_TRY(compare_range(got, want, n / 3, n - n / 3));
    LT_TRY(compare_range(got, want, n / 2, lt_min_i64(n - n / 2, 1)));
    return compare_range(got, want, n / 4, n / 2);
}

// ---- values

static bool same(const json_t *want, const lt_pickle *got, int depth);

static bool same_items(const json_t *want, const lt_pickle *got, int depth)
{
    if ((got->kind != LT_PICKLE_LIST && got->kind != LT_PICKLE_TUPLE) ||
        got->n != (int64_t)json_array_size(want))
        return false;
    for (int64_t i = 0; i < got->n; i++)
        if (!same(json_array_get(want, (size_t)i), got->items[i], depth + 1))
            return false;
    return true;
}

static bool same_members(json_t *want, const lt_pickle *got, int depth)
{
    const char *key;
    json_t *value;
    const lt_pickle *dict = lt_pickle_dict(got);
    if (!dict || dict->n != (int64_t)json_object_size(want))
        return false;
    json_object_foreach(want, key, value)
    {
        const lt_pickle *v = lt_pickle_get(got, key);
        if (!v || !same(value, v, depth + 1))
            return false;
    }
    return true;
}

static bool same(const json_t *want, const lt_pickle *got, int depth)
{
    double x;
    if (depth > MAX_DEPTH)
        return false;
    switch (json_typeof(want)) {
    case JSON_NULL:
        return got->kind == LT_PICKLE_NONE;
    case JSON_TRUE:
    case JSON_FALSE:
        return got->kind == LT_PICKLE_BOOL && (got->integer != 0) == json_is_true(want);
    case JSON_INTEGER:
        return got->kind == LT_PICKLE_INT && got->integer == json_integer_value(want);
    case JSON_REAL:
        return got->kind == LT_PICKLE_FLOAT && lt_pickle_real(got, &x) &&
               x == json_real_value(want);
    case JSON_STRING:
        return lt_pickle_text(got) && strcmp(got->text, json_string_value(want)) == 0;
    case JSON_ARRAY:
        return same_items(want, got, depth);
    case JSON_OBJECT: {
        union {
            const json_t *in;
            json_t *out;
        } v = {.in = want};
        return same_members(v.out, got, depth);
    }
    }
    return false;
}

static void check_value(runner *r, const lt_dcp *d, const char *key, const json_t *want)
{
    const lt_pickle *got = NULL;
    const lt_dcp_entry *e = lt_dcp_find(d, key);
    lt_status st = LT_OK;
    if (!e || e->tensor)
        st = LT_FAIL(LT_ERR_NOT_FOUND, "there is no such value");
    if (st == LT_OK)
        st = lt_dcp_value(d, e, r->arena, &got);
    if (st == LT_OK && !same(want, got, 0))
        st = LT_FAIL(LT_ERR_FORMAT, "another value than param_groups.json has");
    count_status(r, st, key);
}

// A list of groups, or an object of whole keys.
static void check_groups(runner *r, const lt_dcp *d, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *value, *group;
    const char *key;
    size_t i;
    count(r, root, path, error.text);
    if (json_is_object(root)) {
        json_object_foreach(root, key, value) check_value(r, d, key, value);
    } else {
        json_array_foreach(root, i, group) json_object_foreach(group, key, value)
        {
            char *full = NULL;
            if (lt_arena_printf(r->arena, &full, "optimizer.param_groups.%zu.%s", i, key) == LT_OK)
                check_value(r, d, full, value);
        }
    }
    json_decref(root);
}

// ---- a checkpoint

// Keys that nobody expects have to be readable all the same.
static void check_rest(runner *r, const lt_dcp *d)
{
    for (int64_t i = 0; i < lt_dcp_count(d); i++) {
        const lt_dcp_entry *e = lt_dcp_at(d, i);
        const lt_pickle *value;
        count_status(r, e->tensor ? lt_dcp_check(d, e, NULL) : lt_dcp_value(d, e, r->arena, &value),
                     e->key);
    }
}

static void check_expected(runner *r, const lt_dcp *d, const char *path, const char *prefix)
{
    lt_st *want = NULL;
    lt_status st = lt_st_open(path, &want);
    if (st != LT_OK)
        count_status(r, st, path);
    for (int64_t i = 0; st == LT_OK && i < lt_st_count(want); i++) {
        const lt_st_tensor *t = lt_st_at(want, i);
        char *key = NULL;
        const bool has = lt_text_starts(t->name, prefix);
        lt_status one = lt_arena_printf(r->arena, &key, "%s%s", has ? "" : prefix, t->name);
        const lt_dcp_entry *e = one == LT_OK ? lt_dcp_find(d, key) : NULL;
        if (one == LT_OK && (!e || !e->tensor))
            one = LT_FAIL(LT_ERR_NOT_FOUND, "there is no such tensor");
        if (one == LT_OK)
            one = compare_tensors(e->tensor, t);
        count_status(r, one, t->name);
    }
    lt_st_close(want);
}

static void check_dcp(runner *r, const char *dir, const char *expected, const char *prefix,
                      const char *groups)
{
    lt_dcp *d = NULL;
    const lt_status st = lt_dcp_open(dir, &d);
    count_status(r, st, dir);
    if (st != LT_OK)
        return;
    if (expected)
        check_expected(r, d, expected, prefix);
    if (groups)
        check_groups(r, d, groups);
    check_rest(r, d);
    lt_dcp_close(d);
}

// ---- torch.save

static const lt_pickle *root_get(const lt_torch_mapped *f, const char *key)
{
    return lt_pickle_dict(f->file.root) ? lt_pickle_get(f->file.root, key) : NULL;
}

static lt_status compare_saved(runner *r, const lt_torch_mapped *f, const lt_st_tensor *want)
{
    lt_torch_tensor t;
    const lt_pickle *v = root_get(f, want->name);
    void *bytes;
    if (!v)
        return LT_FAIL(LT_ERR_NOT_FOUND, "there is no such tensor");
    LT_TRY(lt_torch_tensor_of(&f->file, v, r->arena, &t));
    LT_TRY(lt_zip_check(&f->file.zip, t.storage));
    const lt_st_tensor shape = {
        .dtype_text = t.dtype->text, .rank = t.rank, .dim = t.size, .name = want->name};
    if (strcmp(lt_st_shape_text(&shape).s, lt_st_shape_text(want).s) != 0)
        return LT_FAIL(LT_ERR_SHAPE, "it is %s and should be %s", lt_st_shape_text(&shape).s,
                       lt_st_shape_text(want).s);
    LT_TRY(lt_arena_take(r->arena, want->bytes, &bytes));
    lt_torch_copy(&t, 0, t.n_elems, bytes);
    if (want->bytes > 0 && memcmp(bytes, want->data, want->bytes) != 0)
        return LT_FAIL(LT_ERR_FORMAT, "its elements differ");
    return LT_OK;
}

static void check_tensors(runner *r, const lt_torch_mapped *f, const char *path)
{
    lt_st *want = NULL;
    lt_status st = lt_st_open(path, &want);
    count_status(r, st, path);
    for (int64_t i = 0; st == LT_OK && i < lt_st_count(want); i++)
        count_status(r, compare_saved(r, f, lt_st_at(want, i)), lt_st_at(want, i)->name);
    lt_st_close(want);
}

static void check_scheduler(runner *r, const lt_torch_mapped *f, const char *path)
{
    json_error_t error;
    json_t *want = json_load_file(path, 0, &error);
    const lt_pickle *got = root_get(f, "lr_scheduler");
    count(r, want && got && same(want, got, 0), "lr_scheduler", "it differs from its JSON");
    json_decref(want);
}

// Every tensor in the tree can be found, and what a resume needs is there.
static void check_tree(runner *r, const lt_torch_mapped *f, const lt_pickle *v, int depth)
{
    lt_torch_tensor t;
    if (depth > MAX_DEPTH)
        return;
    if (lt_torch_is_tensor(v)) {
        count_status(r, lt_torch_tensor_of(&f->file, v, r->arena, &t), "a tensor");
        return;
    }
    const lt_pickle *dict = lt_pickle_dict(v);
    for (int64_t i = 0; dict && i < dict->n; i++)
        check_tree(r, f, dict->items[2 * i + 1], depth + 1);
    for (int64_t i = 0; v->kind == LT_PICKLE_LIST && i < v->n; i++)
        check_tree(r, f, v->items[i], depth + 1);
}

static void check_torch(runner *r, const char *path)
{
    static const char *const counters[] = {"iteration", "consumed_train_samples"};
    lt_torch_mapped *f = NULL;
    char *base = NULL, *other = NULL;
    r->what = path;
    const lt_status st = lt_torch_open(path, &f);
    count_status(r, st, "opening");
    if (st != LT_OK || lt_arena_text(r->arena, path, strlen(path) - strlen(".pt"), &base) != LT_OK)
        return;
    for (int i = 0; i < 2; i++) {
        int64_t n;
        count(r, lt_pickle_int(root_get(f, counters[i]), &n) && n >= 0, counters[i],
              "no whole number of that name");
    }
    if (root_get(f, "last")) // behind all that is odd
        count(r, lt_pickle_text(root_get(f, "last")), "last", "no text");
    check_tree(r, f, f->file.root, 0);
    if (lt_arena_printf(r->arena, &other, "%s-expected.safetensors", base) == LT_OK &&
        lt_file_exists(other))
        check_tensors(r, f, other);
    if (lt_arena_printf(r->arena, &other, "%s-lr_scheduler.json", base) == LT_OK &&
        lt_file_exists(other))
        check_scheduler(r, f, other);
    lt_torch_close(f);
}

// ---- the same metadata, pickled otherwise

static lt_status read_meta(runner *r, const char *path, lt_mapped *map, lt_dcp_meta *out)
{
    LT_TRY(lt_file_map(path, map));
    return lt_dcp_meta_read(map->data, map->bytes, path, r->arena, out);
}

static lt_status same_meta(const lt_dcp_meta *a, const lt_dcp_meta *b)
{
    if (a->keys.n != b->keys.n)
        return LT_FAIL(LT_ERR_FORMAT, "another number of keys");
    for (int64_t i = 0; i < a->keys.n; i++) {
        const lt_dcp_key *p = &LT_AT(&a->keys, lt_dcp_key, i);
        int64_t at;
        if (!lt_map_get_text(b->by_key, p->key, &at))
            return LT_FAIL(LT_ERR_FORMAT, "%s is missing", p->key);
        const lt_dcp_key *q = &LT_AT(&b->keys, lt_dcp_key, at);
        if (p->dtype != q->dtype || p->n_elems != q->n_elems || p->n_boxes != q->n_boxes ||
            p->value.at != q->value.at)
            return LT_FAIL(LT_ERR_FORMAT, "%s differs", p->key);
        for (int64_t k = 0; k < p->n_boxes; k++) {
            if (p->boxes[k].range.at != q->boxes[k].range.at ||
                p->boxes[k].range.bytes != q->boxes[k].range.bytes)
                return LT_FAIL(LT_ERR_FORMAT, "%s lies elsewhere", p->key);
        }
    }
    return LT_OK;
}

static void check_protocol(runner *r, const char *dir, const char *name)
{
    char *other = NULL, *base = NULL;
    lt_mapped maps[2] = {{0}};
    lt_dcp_meta meta[2] = {{.by_key = NULL}, {.by_key = NULL}};
    const char *path = join(r, dir, name), *mark = strstr(name, "-protocol");
    r->what = path;
    lt_status st = lt_arena_text(r->arena, name, (size_t)(mark - name), &base);
    if (st == LT_OK)
        st = lt_arena_printf(r->arena, &other, "%s/%s/.metadata", dir, base);
    if (st == LT_OK)
        st = read_meta(r, path, &maps[0], &meta[0]);
    if (st == LT_OK)
        st = read_meta(r, other, &maps[1], &meta[1]);
    if (st == LT_OK)
        st = same_meta(&meta[0], &meta[1]);
    count_status(r, st, "as the folder's own .metadata");
    for (int i = 0; i < 2; i++) {
        lt_dcp_meta_deinit(&meta[i]);
        if (maps[i].data)
            lt_file_unmap(&maps[i]);
    }
}

// ---- a file past 4 GiB, given by the blocks of it that aren't zero

static lt_status write_block(FILE *out, const char *hex, long long at)
{
    unsigned char bytes[64];
    const size_t n = strcspn(hex, "\r\n") / 2;
    for (size_t i = 0; i < n && i < sizeof bytes; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return fseeko(out, at, SEEK_SET) == 0 && fwrite(bytes, 1, n, out) == n
               ? LT_OK
               : LT_FAIL(LT_ERR_IO, "a block can't be written");
}

static lt_status expand(const char *pieces, const char *path)
{
    char line[512];
    lt_status st = LT_OK;
    FILE *in = fopen(pieces, "r"), *out = fopen(path, "w");
    while (in && out && st == LT_OK && fgets(line, sizeof line, in)) {
        char *rest;
        if (strncmp(line, "end ", 4) == 0) {
            if (fflush(out) != 0 || ftruncate(fileno(out), strtoll(line + 4, NULL, 10)) != 0)
                st = LT_FAIL(LT_ERR_IO, "%s can't be cut", path);
            break;
        }
        const long long at = strtoll(line, &rest, 10);
        st = write_block(out, rest + 1, at);
    }
    if (!in || !out)
        st = LT_FAIL(LT_ERR_IO, "%s or %s can't be opened", pieces, path);
    if (in)
        (void)fclose(in);
    if (out)
        (void)fclose(out);
    return st;
}

// Zero but 1, 2, 3, 4 at 0, 2^32 - 1, 2^32 and the end.
static lt_status check_big(const lt_dcp *d)
{
    const lt_dcp_entry *e = lt_dcp_find(d, "model.big"), *after = lt_dcp_find(d, "model.after");
    float five[5];
    int64_t sum = 0;
    lt_buf piece = {0};
    if (!e || !after || lt_st_elems(e->tensor) <= (int64_t)1 << 32)
        return LT_FAIL(LT_ERR_NOT_FOUND, "model.big or model.after is missing, or not big");
    const int64_t n = lt_st_elems(e->tensor),
                  at[] = {0, ((int64_t)1 << 32) - 1, (int64_t)1 << 32, n - 1};
    lt_status st = lt_st_read(after->tensor, 0, 5, LT_F32, five);
    for (int i = 0; st == LT_OK && i < 4; i++) {
        uint8_t v = 0;
        st = lt_st_read(e->tensor, at[i], 1, LT_U8, &v);
        if (st == LT_OK && (v != i + 1 || five[i + 1] != (float)(i + 1)))
            st = LT_FAIL(LT_ERR_FORMAT, "element %lld is %d", (long long)at[i], v);
    }
    for (int64_t i = 0; st == LT_OK && i < n; i += PIECE_BYTES) {
        st = read_bytes(e->tensor, i, lt_min_i64(PIECE_BYTES, n - i), &piece);
        for (size_t k = 0; st == LT_OK && k < piece.len; k++)
            sum += (uint8_t)piece.data[k];
    }
    lt_buf_deinit(&piece);
    return st != LT_OK || sum == 10 ? st
                                    : LT_FAIL(LT_ERR_FORMAT, "its sum is %lld", (long long)sum);
}

static void check_pieces(runner *r, const char *dir, const char *pieces)
{
    char place[] = "/tmp/golden_dcp_XXXXXX", *name = NULL;
    lt_dcp *d = NULL;
    if (!mkdtemp(place)) {
        count(r, false, dir, "no temporary folder");
        return;
    }
    lt_status st = lt_file_copy(join(r, dir, LT_DCP_METADATA), join(r, place, LT_DCP_METADATA));
    if (st == LT_OK)
        st = lt_arena_text(r->arena, pieces, strlen(pieces) - strlen(".pieces"), &name);
    if (st == LT_OK)
        st = expand(join(r, dir, pieces), join(r, place, name));
    if (st == LT_OK)
        st = lt_dcp_open(place, &d);
    if (st == LT_OK)
        st = check_big(d);
    count_status(r, st, "past 4 GiB");
    lt_dcp_close(d);
    if (lt_dir_remove(place) != LT_OK)
        printf("%s: %s\n", place, lt_error_message());
}

// ---- folders

static const char *existing(const char *path)
{
    return path && lt_file_exists(path) ? path : NULL;
}

static const char *pieces_in(runner *r, const char *dir)
{
    lt_vec names = LT_VEC_OF(char *);
    const char *found = NULL;
    if (lt_dir_list(dir, r->arena, &names) == LT_OK) {
        for (int64_t i = 0; i < names.n && !found; i++)
            if (lt_text_ends(LT_AT(&names, char *, i), ".pieces"))
                found = LT_AT(&names, char *, i);
    }
    lt_vec_deinit(&names);
    return found;
}

static void check_path(runner *r, const char *path, int depth);

static void check_folder(runner *r, const char *dir, int depth)
{
    lt_vec names = LT_VEC_OF(char *);
    count_status(r, lt_dir_list(dir, r->arena, &names), dir);
    for (int64_t i = 0; i < names.n; i++) {
        const char *name = LT_AT(&names, char *, i), *path = join(r, dir, name);
        if (strstr(name, "-protocol") && lt_text_ends(name, ".metadata"))
            check_protocol(r, dir, name);
        else if (lt_file_is_dir(path) || lt_text_ends(name, ".pt"))
            check_path(r, path, depth + 1);
    }
    lt_vec_deinit(&names);
}

// The tensors to expect stand inside a checkpoint's folder, or beside it.
static void check_checkpoint(runner *r, const char *dir, const char *in)
{
    char *beside = NULL;
    const char *pieces = pieces_in(r, dir);
    if (lt_arena_printf(r->arena, &beside, "%s-expected.safetensors", dir) != LT_OK)
        return;
    const char *inside = existing(join(r, in, "expected.safetensors"));
    if (pieces)
        check_pieces(r, dir, pieces);
    else
        check_dcp(r, dir, inside ? inside : existing(beside), "",
                  existing(join(r, in, "param_groups.json")));
    if (lt_file_is_dir(join(r, dir, "extra_state")))
        check_folder(r, join(r, dir, "extra_state"), 0);
}

static void check_path(runner *r, const char *path, int depth)
{
    lt_run_found found;
    char *clean = NULL;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (depth > MAX_DEPTH || lt_arena_text(r->arena, path, len, &clean) != LT_OK)
        return;
    r->what = clean;
    if (lt_text_ends(clean, ".pt")) {
        check_torch(r, clean);
    } else if (lt_dcp_is(clean)) {
        check_checkpoint(r, clean, clean);
    } else if (existing(join(r, clean, LT_RUN_TRACKER))) {
        const lt_status st = lt_run_resolve(clean, NULL, r->arena, &found);
        count_status(r, st, LT_RUN_TRACKER);
        if (st == LT_OK)
            check_checkpoint(r, found.dir, clean);
    } else if (strcmp(strrchr(clean, '/') ? strrchr(clean, '/') + 1 : clean, "extra_state") != 0 ||
               depth == 0) {
        check_folder(r, clean, depth);
    }
}

int main(int argc, char **argv)
{
    runner r = {0};
    const char *prefix = "";
    if (argc > 2 && strcmp(argv[argc - 2], "--prefix") == 0) {
        prefix = argv[argc - 1];
        argc -= 2;
    }
    if (argc < 2 || lt_arena_create(&r.arena, "golden_dcp") != LT_OK) {
        fprintf(stderr, "usage: golden_dcp PATH... | golden_dcp FOLDER EXPECTED.safetensors "
                        "[--prefix P]\n");
        return 2;
    }
    if (argc == 3 && lt_text_ends(argv[2], ".safetensors")) {
        r.what = argv[1];
        check_dcp(&r, argv[1], argv[2], prefix, NULL);
    } else {
        for (int i = 1; i < argc; i++)
            check_path(&r, argv[i], 0);
    }
    lt_arena_destroy(r.arena);
    printf("%ld passed, %ld failed\n", r.passed, r.failed);
    return r.failed > 0 || r.passed == 0;
}
