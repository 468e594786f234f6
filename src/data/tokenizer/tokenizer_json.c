// SPDX-License-Identifier: Apache-2.0
// Reading tokenizer.json. What the form allows but Qwen's files don't use is refused by name, never
// ignored.
#include "data/tokenizer/tokenizer_parts.h"
#include <jansson.h>
#include <string.h>

// Limits of what a file may hold.
enum { MAX_ID = 1 << 24, MAX_MERGES = 1 << 24, MAX_TOKEN_BYTES = 1 << 16 };

typedef struct reader {
    lt_tokenizer *t;
    const char *file;
    int16_t byte_of[0x144]; // byte that a character of the byte map stands for, or -1
    lt_buf word;            // scratch
} reader;

// The byte map of GPT-2: printable bytes stand for themselves, the other 68 for U+0100, U+0101, ...
static bool printable(int b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

static void byte_map(reader *r)
{
    memset(r->byte_of, 0xFF, sizeof r->byte_of);
    int next = 0x100;
    for (int b = 0; b < 256; b++)
        r->byte_of[printable(b) ? b : next++] = (int16_t)b;
}

static lt_status unsupported(const reader *r, const char *what)
{
    return LT_FAIL(LT_ERR_UNSUPPORTED,
                   "%s: %s; only byte-level BPE tokenizers of the Qwen form are read", r->file,
                   what);
}

// A key is absent, null, false or "".
static bool unset(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0);
}

static bool is_type(const json_t *object, const char *type)
{
    const char *s = json_string_value(json_object_get(object, "type"));
    return s && strcmp(s, type) == 0;
}

// What the token's characters stand for; its own UTF-8 when one of them is outside the byte map.
static lt_status append_bytes(const reader *r, const char *name, size_t len, lt_buf *out)
{
    const size_t start = out->len;
    for (size_t i = 0; i < len;) {
        uint32_t code;
        int bad;
        const int n = lt_utf8_next(name + i, len - i, &code, &bad);
        if (n == 0 || code >= 0x144 || r->byte_of[code] < 0) {
            out->len = start;
            return lt_buf_append(out, name, len);
        }
        const char byte = (char)(uint8_t)r->byte_of[code];
        LT_TRY(lt_buf_append(out, &byte, 1));
        i += (size_t)n;
    }
    return LT_OK;
}

static lt_status put_token(reader *r, const char *name, size_t len, int32_t id, bool special)
{
    lt_tokenizer *t = r->t;
    if (id >= t->tokens.n)
        LT_TRY(lt_vec_resize(&t->tokens, id + 1));
    lt_token *token = &LT_AT(&t->tokens, lt_token, id);
    if (token->known && (strlen(name) != len || strcmp(t->names.data + token->name, name) != 0))
        return LT_FAIL(LT_ERR_FORMAT, "%s: id %d belongs to both \"%s\" and \"%s\"", r->file,
                       (int)id, t->names.data + token->name, name);
    token->special |= special;
    if (token->known)
        return LT_OK;
    *token = (lt_token){t->names.len, t->bytes.len, lt_int((int64_t)len), 0, true, special};
    LT_TRY(lt_buf_append(&t->names, name, len + 1)); // with its final zero
    LT_TRY(append_bytes(r, name, len, &t->bytes));
    token->bytes_len = lt_int((int64_t)(t->bytes.len - token->bytes));
    return lt_map_put(t->ids, name, len, id);
}

static lt_status check_id(const reader *r, const char *what, const char *name, const json_t *id)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= MAX_ID)
        return LT_FAIL(LT_ERR_FORMAT, "%s: %s \"%.100s\" needs an id between 0 and %d", r->file,
                       what, name, MAX_ID - 1);
    return LT_OK;
}

static lt_status check_length(const reader *r, const char *name, size_t len)
{
    if (len > MAX_TOKEN_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: the token \"%.40s...\" has %zu bytes, more than %d",
                       r->file, name, len, MAX_TOKEN_BYTES);
    return LT_OK;
}

static lt_status read_vocab(reader *r, json_t *vocab)
{
    if (!json_is_object(vocab))
        return LT_FAIL(LT_ERR_FORMAT, "%s: model.vocab is not an object", r->file);
    const char *name;
    json_t *id;
    json_object_foreach(vocab, name, id)
    {
        LT_TRY(check_id(r, "the token", name, id));
        LT_TRY(check_length(r, name, strlen(name)));
        LT_TRY(put_token(r, name, strlen(name), (int32_t)json_integer_value(id), false));
    }
    return LT_OK;
}

static lt_status byte_ids(const reader *r, int32_t *byte_id)
{
    for (uint32_t code = 0; code < 0x144; code++) {
        if (r->byte_of[code] < 0)
            continue;
        char c[4];
        int64_t id;
        if (!lt_map_get(r->t->ids, c, (size_t)lt_utf8_put(code, c), &id))
            return LT_FAIL(LT_ERR_UNSUPPORTED, "%s: model.vocab has no token for the byte 0x%02X",
                           r->file, (unsigned)r->byte_of[code]);
        byte_id[r->byte_of[code]] = (int32_t)id;
    }
    return LT_OK;
}

// The two sides of a merge: "a b", or ["a", "b"].
static bool sides(const json_t *merge, const char **a, size_t *a_len, const char **b, size_t *b_len)
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        *a = json_string_value(left);
        *b = json_string_value(right);
        *a_len = json_string_length(left);
        *b_len = json_string_length(right);
        return *a && *b;
    }
    if (!json_is_string(merge))
        return false;
    const char *s = json_string_value(merge), *blank = strchr(s, ' ');
    if (!blank || strchr(blank + 1, ' '))
        return false;
    *a = s;
    *a_len = (size_t)(blank - s);
    *b = blank + 1;
    *b_len = strlen(*b);
    return true;
}

static lt_status read_merge(reader *r, const json_t *merge, int64_t rank)
{
    const char *a, *b;
    size_t a_len, b_len;
    if (!sides(merge, &a, &a_len, &b, &b_len)) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: model.merges[%lld] is neither \"a b\" nor [\"a\", \"b\"]", r->file,
                       (long long)rank);
    }
    int64_t left, right, merged;
    lt_buf_clear(&r->word);
    LT_TRY(lt_buf_append(&r->word, a, a_len));
    LT_TRY(lt_buf_append(&r->word, b, b_len));
    if (!lt_map_get(r->t->ids, a, a_len, &left) || !lt_map_get(r->t->ids, b, b_len, &right) ||
        !lt_map_get(r->t->ids, r->word.data, r->word.len, &merged)) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: model.merges[%lld] joins \"%.100s\" and \"%.100s\", not all three of "
                       "which are in model.vocab",
                       r->file, (long long)rank, a, b);
    }
    lt_bpe_put(r->t->bpe, (int32_t)left, (int32_t)right, (int32_t)rank, (int32_t)merged);
    return LT_OK;
}

static lt_status read_model(reader *r, const json_t *model)
{
    static const char *const absent[] = {
        "dropout",       "unk_token",    "continuing_subword_prefix", "end_of_word_suffix",
        "byte_fallback", "ignore_merges"};
    if (!is_type(model, "BPE"))
        return unsupported(r, "model.type is not BPE");
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        if (!unset(model, absent[i])) {
            return LT_FAIL(
                LT_ERR_UNSUPPORTED,
                "%s: model.%s is set; only byte-level BPE tokenizers of the Qwen form are read",
                r->file, absent[i]);
        }
    }
    LT_TRY(read_vocab(r, json_object_get(model, "vocab")));
    int32_t byte_id[256];
    LT_TRY(byte_ids(r, byte_id));
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges) || json_array_size(merges) > MAX_MERGES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: model.merges is not an array of at most %d merges",
                       r->file, MAX_MERGES);
    LT_TRY(lt_bpe_create(byte_id, (int64_t)json_array_size(merges), &r->t->bpe));
    size_t i;
    json_t *merge;
    json_array_foreach(merges, i, merge) LT_TRY(read_merge(r, merge, (int64_t)i));
    return LT_OK;
}

static lt_status read_added(reader *r, const json_t *list)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    if (list && !json_is_null(list) && !json_is_array(list))
        return LT_FAIL(LT_ERR_FORMAT, "%s: added_tokens is not an array", r->file);
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "content"));
        const size_t len = json_string_length(json_object_get(entry, "content"));
        const json_t *id = json_object_get(entry, "id");
        if (!name || len == 0)
            return LT_FAIL(LT_ERR_FORMAT, "%s: added_tokens[%zu] has no content", r->file, i);
        LT_TRY(check_id(r, "the added token", name, id));
        LT_TRY(check_length(r, name, len));
        for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
            if (!unset(entry, flags[f])) {
                return LT_FAIL(LT_ERR_UNSUPPORTED,
                               "%s: the added token \"%.100s\" has %s set, which is not supported",
                               r->file, name, flags[f]);
            }
        }
        const int32_t number = (int32_t)json_integer_value(id);
        int64_t other;
        if (lt_map_get(r->t->ids, name, len, &other) && other != number)
            return LT_FAIL(LT_ERR_FORMAT, "%s: the token \"%.100s\" has two ids, %lld and %d",
                           r->file, name, (long long)other, (int)number);
        LT_TRY(put_token(r, name, len, number, json_is_true(json_object_get(entry, "special"))));
        if (unset(entry, "normalized") || !r->t->nfc) {
            LT_TRY(lt_added_put(&r->t->raw, name, len, number));
            continue;
        }
        lt_nfc_scratch scratch = LT_NFC_SCRATCH;
        bool changed;
        lt_buf_clear(&r->word);
        lt_status st = lt_nfc(r->t->flags, name, len, &scratch, &r->word, &changed);
        if (st == LT_OK)
            st = lt_added_put(&r->t->normalized, changed ? r->word.data : name,
                              changed ? r->word.len : len, number);
        lt_nfc_deinit(&scratch);
        LT_TRY(st);
    }
    return LT_OK;
}

// null, NFC, or a Sequence of nothing but NFC.
static lt_status read_normalizer(reader *r, const json_t *normalizer)
{
    if (!normalizer || json_is_null(normalizer))
        return LT_OK;
    const json_t *list =
        is_type(normalizer, "Sequence") ? json_object_get(normalizer, "normalizers") : NULL;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is_type(json_array_get(list, i), "NFC"))
            return unsupported(r, "the normalizer is not NFC");
    if (!list && !is_type(normalizer, "NFC"))
        return unsupported(r, "the normalizer is not NFC");
    r->t->nfc = !list || json_array_size(list) > 0;
    return LT_OK;
}

static lt_status read_split(reader *r, const json_t *split)
{
    const json_t *expression = json_object_get(json_object_get(split, "pattern"), "Regex");
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    if (!json_is_string(expression))
        return unsupported(r, "pre_tokenizer: the Split has no regular expression");
    if (!behavior || strcmp(behavior, "Isolated") != 0 || !unset(split, "invert"))
        return unsupported(r, "pre_tokenizer: the Split is not an Isolated one");
    const lt_status st = lt_split_create(json_string_value(expression),
                                         json_string_length(expression), r->t->flags, &r->t->split);
    if (st != LT_OK)
        lt_error_note("%s: pre_tokenizer", r->file);
    return st;
}

static lt_status read_pre_tokenizer(reader *r, const json_t *pre)
{
    const json_t *list = json_object_get(pre, "pretokenizers");
    const json_t *split = json_array_get(list, 0), *bytes = json_array_get(list, 1);
    if (!is_type(pre, "Sequence") || json_array_size(list) != 2 || !is_type(split, "Split") ||
        !is_type(bytes, "ByteLevel"))
        return unsupported(r, "pre_tokenizer is not a Split followed by ByteLevel");
    if (!unset(bytes, "add_prefix_space"))
        return unsupported(r, "pre_tokenizer: ByteLevel has add_prefix_space set");
    if (!json_is_false(json_object_get(bytes, "use_regex"))) // true where it is left out
        return unsupported(r, "pre_tokenizer: ByteLevel has use_regex set");
    return read_split(r, split);
}

static lt_status read_parts(reader *r, const json_t *root)
{
    const json_t *decoder = json_object_get(root, "decoder"),
                 *post = json_object_get(root, "post_processor");
    if (!json_is_object(root))
        return LT_FAIL(LT_ERR_FORMAT, "%s: not a JSON object", r->file);
    if (!is_type(decoder, "ByteLevel"))
        return unsupported(r, "the decoder is not ByteLevel");
    if (post && !json_is_null(post) && !is_type(post, "ByteLevel"))
        return unsupported(r, "the post_processor is not ByteLevel");
    LT_TRY(read_normalizer(r, json_object_get(root, "normalizer")));
    LT_TRY(read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")));
    LT_TRY(read_model(r, json_object_get(root, "model")));
    return read_added(r, json_object_get(root, "added_tokens"));
}

lt_status lt_tokenizer_read(lt_tokenizer *t, const char *json, size_t len, const char *name)
{
    reader r = {.t = t, .file = name};
    json_error_t error;
    byte_map(&r);
    json_t *root = json_loadb(json, len, 0, &error);
    if (!root)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: %s", name, error.line, error.text);
    const lt_status st = read_parts(&r, root);
    json_decref(root);
    lt_buf_deinit(&r.word);
    return st;
}
