// SPDX-License-Identifier: Apache-2.0
// The demo's tokenizer: byte-level BPE in the form of Qwen's tokenizer.json, merges learned from
// the words of the questions.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "data/shapes_parts.h"

enum { MAX_WORDS = 128, MAX_PIECES = 24, MAX_MERGES = 512, TOKEN_BYTES = 64, N_BYTES = 256 };

/** A token's text in the byte alphabet (UTF-8). */
typedef struct token {
    char s[TOKEN_BYTES];
} token;

/** A word as the pieces that the merges so far leave of it. */
typedef struct word {
    token piece[MAX_PIECES];
    int n;
} word;

typedef struct trainer {
    word words[MAX_WORDS];
    int n_words;
    token left[MAX_MERGES], right[MAX_MERGES];
    int n_merges;
} trainer;

// Qwen's added tokens in their order; those of the second half are not special. Behind them
// InternVL's.
static const char *const added[] = {"<|endoftext|>",
                                    "<|im_start|>",
                                    "<|im_end|>",
                                    "<|object_ref_start|>",
                                    "<|object_ref_end|>",
                                    "<|box_start|>",
                                    "<|box_end|>",
                                    "<|quad_start|>",
                                    "<|quad_end|>",
                                    "<|vision_start|>",
                                    "<|vision_end|>",
                                    "<|vision_pad|>",
                                    "<|image_pad|>",
                                    "<|video_pad|>",
                                    "<tool_call>",
                                    "</tool_call>",
                                    "<|fim_prefix|>",
                                    "<|fim_middle|>",
                                    "<|fim_suffix|>",
                                    "<|fim_pad|>",
                                    "<|repo_name|>",
                                    "<|file_sep|>",
                                    "<tool_response>",
                                    "</tool_response>",
                                    "<think>",
                                    "</think>",
                                    "<img>",
                                    "</img>",
                                    "<IMG_CONTEXT>"};
enum { N_ADDED = sizeof added / sizeof added[0], N_SPECIAL = 14, FIRST_INTERN = 26 };

static const char pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                              "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// ---------------------------------------------------------------- the byte alphabet

static bool is_plain(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/**
 * The character that stands for a byte: itself, or U+0100 and up for the 68 that cannot be seen.
 */
static token letter_of(int byte)
{
    int c = byte;
    if (!is_plain(byte)) {
        c = 0x100;
        for (int b = 0; b < byte; b++)
            c += !is_plain(b);
    }
    token t = {{0}};
    if (c < 0x80) {
        t.s[0] = (char)c;
    } else {
        t.s[0] = (char)(0xc0 | c >> 6);
        t.s[1] = (char)(0x80 | (c & 0x3f));
    }
    return t;
}

// ---------------------------------------------------------------- learning merges

static void add_word(trainer *t, const char *text, size_t len)
{
    LT_ASSERT(t->n_words < MAX_WORDS && len > 0 && len <= MAX_PIECES);
    word *w = &t->words[t->n_words++];
    for (size_t i = 0; i < len; i++)
        w->piece[w->n++] = letter_of((unsigned char)text[i]);
    for (word *v = t->words; v < w; v++) { // a word counts once
        if (v->n == w->n && memcmp(v->piece, w->piece, (size_t)w->n * sizeof(token)) == 0) {
            memset(w, 0, sizeof *w);
            t->n_words--;
            return;
        }
    }
}

/**
 * The pieces that the pattern makes of simple texts: a word with the blank before it; other
 * characters alone.
 */
static void add_text(trainer *t, const char *text)
{
    while (*text != 0) {
        size_t n = *text == ' ';
        while ((text[n] >= 'a' && text[n] <= 'z') || (text[n] >= 'A' && text[n] <= 'Z'))
            n++;
        if (n == 0)
            n = 1;
        add_word(t, text, n);
        text += n;
    }
}

static void add_all_words(trainer *t)
{
    static const char *const texts[] = {"What colour is the shape at the",
                                        "What shape is",
                                        "Where is the",
                                        "How many shapes are there?",
                                        "What is at the",
                                        "What do you see?",
                                        "What is in each corner?",
                                        "nothing",
                                        "system",
                                        "user",
                                        "assistant",
                                        "The answer is a",
                                        " and or not yes no in of"};
    static const char *const lists[] = {"yes", "no", "left", "right", "top", "bottom"};
    char both[64];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        add_text(t, texts[i]);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        add_text(t, lists[i]);
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        (void)snprintf(both, sizeof both, "%s %s", lt_cell_names[i], lt_cell_names[i]);
        add_text(t, both);
    }
    for (int i = 0; i < LT_N_SHADES; i++) {
        (void)snprintf(both, sizeof both, "%s %s", lt_shade_names[i], lt_shade_names[i]);
        add_text(t, both);
    }
    for (int i = 0; i < LT_N_SHAPES; i++) {
        (void)snprintf(both, sizeof both, "%s %s %ss", lt_shape_names[i], lt_shape_names[i],
                       lt_shape_names[i]);
        add_text(t, both);
    }
    add_word(t, "\n\n", 2); // what an empty thought holds
}

static int count_pair(const trainer *t, const token *a, const token *b)
{
    int n = 0;
    for (int w = 0; w < t->n_words; w++) {
        for (int i = 0; i + 1 < t->words[w].n; i++)
            n += strcmp(t->words[w].piece[i].s, a->s) == 0 &&
                 strcmp(t->words[w].piece[i + 1].s, b->s) == 0;
    }
    return n;
}

/**
 * The commonest pair of neighbours; the first in the words' order among equals. False when every
 * word is whole.
 */
static bool best_pair(const trainer *t, token *a, token *b)
{
    int most = 0;
    for (int w = 0; w < t->n_words; w++) {
        for (int i = 0; i + 1 < t->words[w].n; i++) {
            const token *x = &t->words[w].piece[i], *y = x + 1;
            const int n = count_pair(t, x, y);
            if (n > most) {
                most = n;
                *a = *x;
                *b = *y;
            }
        }
    }
    return most > 0;
}

static token joined(const token *a, const token *b)
{
    token t;
    const int n = snprintf(t.s, sizeof t.s, "%s%s", a->s, b->s);
    LT_ASSERT(n > 0 && n < TOKEN_BYTES);
    return t;
}

static void merge_everywhere(trainer *t, const token *a, const token *b)
{
    const token ab = joined(a, b);
    for (int k = 0; k < t->n_words; k++) {
        word *w = &t->words[k];
        int n = 0;
        for (int i = 0; i < w->n; i++, n++) {
            const bool hit = i + 1 < w->n && strcmp(w->piece[i].s, a->s) == 0 &&
                             strcmp(w->piece[i + 1].s, b->s) == 0;
            w->piece[n] = hit ? ab : w->piece[i];
            i += hit;
        }
        w->n = n;
    }
}

static void learn(trainer *t)
{
    token a, b;
    while (best_pair(t, &a, &b)) {
        LT_ASSERT(t->n_merges < MAX_MERGES);
        t->left[t->n_merges] = a;
        t->right[t->n_merges++] = b;
        merge_everywhere(t, &a, &b);
    }
}

// ---------------------------------------------------------------- the files

static json_t *vocabulary(const trainer *t)
{
    json_t *v = json_object();
    int id = 0;
    for (int plain = 1; plain >= 0; plain--) { // bytes that can be seen come first
        for (int b = 0; b < N_BYTES; b++)
            if (is_plain(b) == (plain == 1))
                json_object_set_new(v, letter_of(b).s, json_integer(id++));
    }
    for (int i = 0; i < t->n_merges; i++) {
        const token ab = joined(&t->left[i], &t->right[i]);
        if (json_object_get(v, ab.s) == NULL) // two pairs may give one token
            json_object_set_new(v, ab.s, json_integer(id++));
    }
    return v;
}

static json_t *merges(const trainer *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n_merges; i++)
        json_array_append_new(list, json_pack("[s, s]", t->left[i].s, t->right[i].s));
    return list;
}

static bool is_special(int i)
{
    return i < N_SPECIAL || i >= FIRST_INTERN;
}

static json_t *added_token(int i)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", added[i], "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", is_special(i));
}

static json_t *tokenizer_of(const trainer *t, int64_t *first_added)
{
    json_t *vocab = vocabulary(t), *list = json_array();
    *first_added = (int64_t)json_object_size(vocab);
    for (int i = 0; i < N_ADDED; i++) {
        json_t *entry = json_pack("{s:I}", "id", (json_int_t)*first_added + i),
               *rest = added_token(i);
        json_object_update(entry, rest);
        json_decref(rest);
        json_array_append_new(list, entry);
    }
    json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                              "trim_offsets", 0, "use_regex", 0);
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              pattern, "behavior", "Isolated", "invert", 0);
    json_t *model = json_pack("{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b, s:o, s:o}", "type", "BPE",
                              "dropout", "unk_token", "continuing_subword_prefix", "",
                              "end_of_word_suffix", "", "fuse_unk", 0, "byte_fallback", 0,
                              "ignore_merges", 0, "vocab", vocab, "merges", merges(t));
    return json_pack("{s:s, s:n, s:n, s:o, s:{s:s}, s:{s:s, s:[o, O]}, s:O, s:o, s:o}", "version",
                     "1.0", "truncation", "padding", "added_tokens", list, "normalizer", "type",
                     "NFC", "pre_tokenizer", "type", "Sequence", "pretokenizers", split, bytes,
                     "post_processor", bytes, "decoder", bytes, "model", model);
}

static const char chat_template[] =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- else %}{%- for part in "
    "message.content %}"
    "{%- if part.type == 'image' or 'image' in part or 'image_url' in part %}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif part.type == 'video' or 'video' in part %}{{- "
    "'<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{%- elif 'text' in part %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

static json_t *config_of(int64_t first_added)
{
    json_t *decoder = json_object(), *special = json_array();
    for (int i = 0; i < N_ADDED; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "%lld", (long long)first_added + i);
        json_object_set_new(decoder, id, added_token(i));
        if (i > 0 && i < N_SPECIAL)
            json_array_append_new(special, json_string(added[i]));
    }
    return json_pack("{s:b, s:b, s:o, s:o, s:n, s:s, s:b, s:s, s:s, s:I, s:s, s:b, s:s, s:n}",
                     "add_bos_token", 0, "add_prefix_space", 0, "added_tokens_decoder", decoder,
                     "additional_special_tokens", special, "bos_token", "chat_template",
                     chat_template, "clean_up_tokenization_spaces", 0, "eos_token", "<|im_end|>",
                     "errors", "replace", "model_max_length", (json_int_t)4096, "pad_token",
                     "<|endoftext|>", "split_special_tokens", 0, "tokenizer_class",
                     "Qwen2Tokenizer", "unk_token");
}

static int put_text(const char *text, size_t n, void *ctx)
{
    return lt_buf_append(ctx, text, n) == LT_OK ? 0 : -1;
}

static lt_status dump(json_t *value, lt_buf *out)
{
    const int rc = value != NULL ? json_dump_callback(value, put_text, out, JSON_INDENT(2)) : -1;
    json_decref(value);
    if (rc != 0)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: the demo's tokenizer");
    return lt_buf_text(out, "\n");
}

lt_status lt_shapes_tokenizer(lt_buf *tokenizer_json, lt_buf *config_json, lt_shapes_ids *ids)
{
    void *memory = NULL;
    int64_t first = 0;
    LT_TRY(lt_mem_alloc(&memory, sizeof(trainer), "the demo's tokenizer"));
    trainer *t = memory;
    add_all_words(t);
    learn(t);
    lt_status st = dump(tokenizer_of(t, &first), tokenizer_json);
    lt_mem_free(t);
    LT_TRY(st);
    *ids = (lt_shapes_ids){.vocab = first + N_ADDED,
                           .end_of_text = first,
                           .im_start = first + 1,
                           .im_end = first + 2,
                           .vision_start = first + 9,
                           .vision_end = first + 10,
                           .image_pad = first + 12,
                           .video_pad = first + 13,
                           .tile_token = first + FIRST_INTERN + 2};
    return dump(config_of(first), config_json);
}
