// SPDX-License-Identifier: Apache-2.0
// Distributed checkpoints: an input that begins like an archive is read as a file of torch.save, a
// stored piece and a training state; any other as .metadata. Checksums are mended first.
#include "ckpt/dcp_meta.h"
#include "ckpt/torch_file.h"
#include "ckpt/zip_format.h"
#include <string.h>

enum { MAX_DEPTH = 20, MAX_COPY = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

// The directory's entry of that name gets the checksum that its data has.
static void mend(uint8_t *bytes, size_t len, const lt_zip_entry *e)
{
    const size_t name = strlen(e->name);
    const uint32_t crc = zip_crc(0, e->data, e->bytes);
    for (size_t i = 0; i + ZIP_CENTRAL_BYTES + name <= len; i++) {
        if (zip_get(bytes + i, 4) == ZIP_CENTRAL &&
            memcmp(bytes + i + ZIP_CENTRAL_BYTES, e->name, name) == 0)
            for (int k = 0; k < 4; k++)
                bytes[i + 16 + (size_t)k] = (uint8_t)(crc >> 8 * k);
    }
}

// Whatever is called a tensor can be copied whole and in part.
static void copy(const lt_torch_tensor *t, lt_arena *arena)
{
    void *to;
    const int64_t n = lt_min_i64(t->n_elems, MAX_COPY / (int64_t)t->dtype->bytes);
    if (lt_arena_take(arena, (size_t)n * t->dtype->bytes, &to) != LT_OK)
        return;
    lt_torch_copy(t, 0, n, to);
    lt_torch_copy(t, t->n_elems - n / 2, n / 2, to);
}

static void walk(const lt_torch_file *f, const lt_pickle *v, lt_arena *arena, int depth)
{
    lt_torch_tensor t;
    if (depth > MAX_DEPTH)
        return;
    LT_ASSERT(lt_pickle_kind_text(v)[0] != '\0' || v->kind == LT_PICKLE_OBJECT);
    if (lt_torch_is_tensor(v) && lt_torch_tensor_of(f, v, arena, &t) == LT_OK)
        copy(&t, arena);
    const lt_pickle *dict = lt_pickle_dict(v);
    for (int64_t i = 0; dict && i < dict->n && i < MAX_DEPTH; i++)
        walk(f, dict->items[2 * i + 1], arena, depth + 1 + (int)i);
    const bool list = v->kind == LT_PICKLE_LIST || v->kind == LT_PICKLE_TUPLE;
    for (int64_t i = 0; list && i < v->n && i < MAX_DEPTH; i++)
        walk(f, v->items[i], arena, depth + 1 + (int)i);
}

static void archive(const uint8_t *data, size_t len, lt_arena *arena)
{
    lt_zip zip;
    void *memory;
    if (lt_arena_take(arena, len, &memory) != LT_OK)
        return;
    memcpy(memory, data, len);
    if (lt_zip_parse(memory, len, "fuzz", arena, &zip) != LT_OK)
        return;
    for (int64_t i = 0; i < zip.n && i < MAX_DEPTH; i++)
        mend(memory, len, &zip.entries[i]);
    static const lt_torch_use uses[] = {LT_TORCH_BLOB, LT_TORCH_STATE};
    for (int i = 0; i < 2; i++) {
        lt_torch_file f;
        if (lt_torch_parse(memory, len, uses[i], "fuzz", arena, &f) == LT_OK)
            walk(&f, f.root, arena, 0);
        else
            LT_ASSERT(lt_error_message()[0] != '\0');
    }
}

// Boxes that were accepted tile their tensor.
static void metadata(const uint8_t *data, size_t len, lt_arena *arena)
{
    lt_dcp_meta meta;
    const lt_status st = lt_dcp_meta_read(data, len, "fuzz", arena, &meta);
    for (int64_t i = 0; st == LT_OK && i < meta.keys.n; i++) {
        const lt_dcp_key *k = &LT_AT(&meta.keys, lt_dcp_key, i);
        int64_t n = 0;
        for (int64_t b = 0; b < k->n_boxes; b++) {
            n += k->boxes[b].n_elems;
            LT_ASSERT(k->boxes[b].range.file >= 0 && k->boxes[b].range.file < meta.files.n);
        }
        LT_ASSERT(!k->dtype || n == k->n_elems);
    }
    LT_ASSERT(st == LT_OK || lt_error_message()[0] != '\0');
    lt_dcp_meta_deinit(&meta);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    lt_arena *arena = NULL;
    if (lt_arena_create(&arena, "fuzz") != LT_OK)
        return 0;
    if (len > 2 && data[0] == 'P' && data[1] == 'K')
        archive(data, len, arena);
    else
        metadata(data, len, arena);
    lt_arena_destroy(arena);
    return 0;
}
