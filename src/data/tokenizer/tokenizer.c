// SPDX-License-Identifier: Apache-2.0
// The tokenizer: opening, encoding and decoding over its parts.
#include "base/file.h"
#include "data/tokenizer/tokenizer_parts.h"
#include <pthread.h>
#include <string.h>

// Limits: bytes of tokenizer.json, bytes of one text.
enum { MAX_FILE = 512 << 20, MAX_TEXT = 1 << 30 };

typedef struct scratch {
    struct scratch *next;
    lt_split_scratch *split;
    lt_bpe_scratch *bpe;
    lt_nfc_scratch nfc;
    lt_buf normal;
    lt_vec ends; // int64_t
} scratch;

struct lt_tokenizer_idle {
    pthread_mutex_t lock;
    scratch *first;
};

static void scratch_destroy(scratch *s)
{
    lt_split_scratch_destroy(s->split);
    lt_bpe_scratch_destroy(s->bpe);
    lt_nfc_deinit(&s->nfc);
    lt_buf_deinit(&s->normal);
    lt_vec_deinit(&s->ends);
    lt_mem_free(s);
}

static lt_status scratch_create(const lt_tokenizer *t, scratch **out)
{
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(scratch), "the tokenizer's scratch"));
    scratch *s = memory;
    *s = (scratch){.nfc = LT_NFC_SCRATCH, .ends = LT_VEC_OF(int64_t)};
    lt_status st = lt_split_scratch_create(t->split, &s->split);
    if (st == LT_OK)
        st = lt_bpe_scratch_create(&s->bpe);
    if (st != LT_OK) {
        scratch_destroy(s);
        return st;
    }
    *out = s;
    return LT_OK;
}

// One that an earlier call has left, with its cache warm, or a new one.
static lt_status scratch_acquire(const lt_tokenizer *t, scratch **out)
{
    pthread_mutex_lock(&t->idle->lock);
    scratch *s = t->idle->first;
    if (s)
        t->idle->first = s->next;
    pthread_mutex_unlock(&t->idle->lock);
    if (!s)
        return scratch_create(t, out);
    *out = s;
    return LT_OK;
}

static void scratch_release(const lt_tokenizer *t, scratch *s)
{
    pthread_mutex_lock(&t->idle->lock);
    s->next = t->idle->first;
    t->idle->first = s;
    pthread_mutex_unlock(&t->idle->lock);
}

static lt_status create(lt_tokenizer **out)
{
    void *t = NULL, *idle = NULL, *flags = NULL;
    lt_status st;
    LT_TRY_GOTO(st, lt_mem_alloc(&t, sizeof(lt_tokenizer), "the tokenizer"), fail);
    LT_TRY_GOTO(st, lt_mem_alloc(&idle, sizeof(struct lt_tokenizer_idle), "the tokenizer"), fail);
    LT_TRY_GOTO(st, lt_mem_alloc(&flags, LT_N_CODES, "the table of characters"), fail);
    *(lt_tokenizer *)t = (lt_tokenizer){.flags = flags,
                                        .tokens = LT_VEC_OF(lt_token),
                                        .raw = LT_ADDED_EMPTY,
                                        .normalized = LT_ADDED_EMPTY,
                                        .idle = idle};
    LT_TRY_GOTO(st, lt_map_create(&((lt_tokenizer *)t)->ids), fail);
    if (pthread_mutex_init(&((struct lt_tokenizer_idle *)idle)->lock, NULL) != 0) {
        lt_map_destroy(((lt_tokenizer *)t)->ids);
        st = LT_FAIL(LT_ERR_MEMORY, "out of memory: the tokenizer's lock");
        goto fail;
    }
    lt_code_flags(flags);
    *out = t;
    return LT_OK;
fail:
    lt_mem_free(flags);
    lt_mem_free(idle);
    lt_mem_free(t);
    return st;
}

void lt_tokenizer_close(lt_tokenizer *t)
{
    if (!t)
        return;
    while (t->idle->first) {
        scratch *s = t->idle->first;
        t->idle->first = s->next;
        scratch_destroy(s);
    }
    pthread_mutex_destroy(&t->idle->lock);
    lt_mem_free(t->idle);
    lt_split_destroy(t->split);
    lt_bpe_destroy(t->bpe);
    lt_added_deinit(&t->raw);
    lt_added_deinit(&t->normalized);
    lt_map_destroy(t->ids);
    lt_vec_deinit(&t->tokens);
    lt_buf_deinit(&t->names);
    lt_buf_deinit(&t->bytes);
    lt_mem_free(t->flags);
    lt_mem_free(t);
}

// FNV-1a over words of eight bytes: only to tell files apart.
static uint64_t hash_of(const char *bytes, size_t len)
{
    uint64_t h = 0xCBF29CE484222325U ^ len;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
        h = (h ^ word) * 0x100000001B3U;
        h ^= h >> 29;
    }
    return h;
}

lt_status lt_tokenizer_parse(const char *json, size_t len, const char *name, lt_tokenizer **out)
{
    lt_tokenizer *t = NULL;
    LT_TRY(create(&t));
    const lt_status st = lt_tokenizer_read(t, json, len, name);
    if (st != LT_OK) {
        lt_tokenizer_close(t);
        return st;
    }
    t->hash = hash_of(json, len);
    *out = t;
    return LT_OK;
}

lt_status lt_tokenizer_open(const char *path, lt_tokenizer **out)
{
    lt_arena *arena;
    LT_TRY(lt_arena_create(&arena, "a path"));
    lt_mapped map = {0};
    char *file = NULL;
    lt_status st;
    if (lt_file_is_dir(path))
        LT_TRY_GOTO(st, lt_path_join(arena, path, "tokenizer.json", &file), done);
    else
        LT_TRY_GOTO(st, lt_arena_text(arena, path, strlen(path), &file), done);
    LT_TRY_GOTO(st, lt_file_map(file, &map), done);
    if (map.bytes > MAX_FILE) {
        st = LT_FAIL(LT_ERR_FORMAT, "%s has %zu bytes, more than a tokenizer may have (%d)", file,
                     map.bytes, MAX_FILE);
    } else {
        st = lt_tokenizer_parse((const char *)map.data, map.bytes, file, out);
    }
done:
    lt_file_unmap(&map);
    lt_arena_destroy(arena);
    return st;
}

// ---------------------------------------------------------------- encoding

typedef struct encoding {
    const lt_tokenizer *t;
    scratch *s;
    unsigned flags;
    lt_vec *ids;
} encoding;

// Text without added tokens, after normalisation.
static lt_status encode_plain(const encoding *e, const char *text, size_t len)
{
    lt_vec_clear(&e->s->ends);
    LT_TRY(lt_split_text(e->t->split, e->s->split, text, len, &e->s->ends));
    int64_t start = 0;
    for (int64_t i = 0; i < e->s->ends.n; i++) {
        const int64_t end = LT_AT(&e->s->ends, int64_t, i);
        LT_TRY(lt_bpe_encode(e->t->bpe, e->s->bpe, text + start, (size_t)(end - start), e->ids));
        start = end;
    }
    return LT_OK;
}

typedef lt_status (*gap_fn)(const encoding *e, const char *text, size_t len);

// The added tokens of one list become ids, what lies between them goes on to `gap`.
static lt_status encode_added(const encoding *e, const lt_added *added, const char *text,
                              size_t len, gap_fn gap)
{
    size_t from = 0, seek = 0, start, end;
    int32_t id;
    while (lt_added_find(added, text, len, seek, &start, &end, &id)) {
        seek = end;
        if ((e->flags & LT_SPLIT_SPECIAL) && LT_AT(&e->t->tokens, lt_token, id).special)
            continue; // stays text, but nothing inside it is matched either
        if (start > from)
            LT_TRY(gap(e, text + from, start - from));
        LT_TRY(lt_vec_push(e->ids, &id));
        from = end;
    }
    return len > from ? gap(e, text + from, len - from) : LT_OK;
}

static lt_status encode_gap(const encoding *e, const char *text, size_t len)
{
    bool changed = false;
    lt_buf_clear(&e->s->normal);
    if (e->t->nfc)
        LT_TRY(lt_nfc(e->t->flags, text, len, &e->s->nfc, &e->s->normal, &changed));
    if (changed) {
        text = e->s->normal.data;
        len = e->s->normal.len;
    }
    return encode_added(e, &e->t->normalized, text, len, encode_plain);
}

static lt_status check_text(const char *text, size_t len)
{
    size_t at = 0;
    if (len > MAX_TEXT) {
        return LT_FAIL(LT_ERR_DATA,
                       "a text of %zu bytes is longer than the tokenizer's limit of %d", len,
                       MAX_TEXT);
    }
    if (!lt_utf8_valid(text, len, &at))
        return LT_FAIL(LT_ERR_DATA, "the text is not UTF-8 at its byte %zu", at + 1);
    return LT_OK;
}

lt_status lt_tokenizer_encode(const lt_tokenizer *t, const char *text, size_t len, unsigned flags,
                              lt_vec *ids)
{
    LT_ASSERT(ids->elem == sizeof(int32_t));
    if (len == 0)
        return LT_OK;
    LT_TRY(check_text(text, len));
    scratch *s = NULL;
    LT_TRY(scratch_acquire(t, &s));
    const encoding e = {t, s, flags, ids};
    const lt_status st = encode_added(&e, &t->raw, text, len, encode_gap);
    scratch_release(t, s);
    return st;
}

lt_status lt_tokenizer_pieces(const lt_tokenizer *t, const char *text, size_t len, lt_buf *normal,
                              lt_vec *ends)
{
    LT_TRY(check_text(text, len));
    scratch *s = NULL;
    LT_TRY(scratch_acquire(t, &s));
    const size_t start = normal->len;
    bool changed = false;
    lt_status st = t->nfc ? lt_nfc(t->flags, text, len, &s->nfc, normal, &changed) : LT_OK;
    if (st == LT_OK && !changed)
        st = lt_buf_append(normal, text, len);
    if (st == LT_OK)
        st = lt_split_text(t->split, s->split, normal->data + start, normal->len - start, ends);
    scratch_release(t, s);
    return st;
}

// ---------------------------------------------------------------- decoding and look-ups

static const lt_token *token_of(const lt_tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->tokens.n || !LT_AT(&t->tokens, lt_token, id).known)
        return NULL;
    return &LT_AT(&t->tokens, lt_token, id);
}

static lt_status append_lossy(const char *bytes, size_t len, lt_buf *text)
{
    size_t copied = 0;
    for (size_t i = 0; i < len;) {
        uint32_t code;
        int bad;
        const int n = lt_utf8_next(bytes + i, len - i, &code, &bad);
        if (n > 0) {
            i += (size_t)n;
            continue;
        }
        LT_TRY(lt_buf_append(text, bytes + copied, i - copied));
        LT_TRY(lt_buf_text(text, "\uFFFD"));
        i += (size_t)bad;
        copied = i;
    }
    return lt_buf_append(text, bytes + copied, len - copied);
}

lt_status lt_tokenizer_decode(const lt_tokenizer *t, const int32_t *ids, int64_t n, unsigned flags,
                              lt_buf *text)
{
    lt_buf bytes = {0};
    lt_status st = LT_OK;
    for (int64_t i = 0; i < n && st == LT_OK; i++) {
        const lt_token *token = token_of(t, ids[i]);
        if (token && !(token->special && (flags & LT_SKIP_SPECIAL)))
            st = lt_buf_append(&bytes, t->bytes.data + token->bytes, (size_t)token->bytes_len);
    }
    if (st == LT_OK && bytes.len > 0)
        st = append_lossy(bytes.data, bytes.len, text);
    lt_buf_deinit(&bytes);
    return st;
}

bool lt_tokenizer_id(const lt_tokenizer *t, const char *name, int32_t *id)
{
    int64_t found;
    if (!lt_map_get_text(t->ids, name, &found))
        return false;
    *id = (int32_t)found;
    return true;
}

const char *lt_tokenizer_name(const lt_tokenizer *t, int32_t id)
{
    const lt_token *token = token_of(t, id);
    return token ? t->names.data + token->name : "";
}

int64_t lt_tokenizer_size(const lt_tokenizer *t)
{
    return t->tokens.n;
}

bool lt_tokenizer_is_special(const lt_tokenizer *t, int32_t id)
{
    const lt_token *token = token_of(t, id);
    return token && token->special;
}

uint64_t lt_tokenizer_hash(const lt_tokenizer *t)
{
    return t->hash;
}
