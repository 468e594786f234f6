// SPDX-License-Identifier: Apache-2.0
// The tokenizer: byte-level BPE from a Hugging Face tokenizer.json of the Qwen form, equal id for
// id to the Rust library.
#ifndef LT_DATA_TOKENIZER_TOKENIZER_H
#define LT_DATA_TOKENIZER_TOKENIZER_H

#include "base/text.h"

typedef struct lt_tokenizer lt_tokenizer;

/**
 * Read tokenizer.json: `path` is that file, or the folder that holds it.
 *
 * source   huggingface/tokenizers 0.22: AddedVocabulary, NFC, Split + ByteLevel, BPE; spec
 *          data-pipeline 15
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO; LT_ERR_FORMAT with file (and line, for JSON);
 *          LT_ERR_UNSUPPORTED for another kind of tokenizer, naming the part
 */
LT_NODISCARD lt_status lt_tokenizer_open(const char *path, lt_tokenizer **out);
/** The same from memory; `name` stands for the file in messages. */
LT_NODISCARD lt_status lt_tokenizer_parse(const char *json, size_t len, const char *name,
                                          lt_tokenizer **out);
void lt_tokenizer_close(lt_tokenizer *t);

enum {
    LT_SPLIT_SPECIAL =
        1, /* encode: don't match added tokens flagged special (split_special_tokens) */
    LT_SKIP_SPECIAL = 2 /* decode: leave them out (skip_special_tokens) */
};

/**
 * Token ids of text[0..len). Added tokens are matched wherever they stand; nothing is put in front
 * or behind.
 *
 * out      ids: int32_t appended
 * errors   LT_ERR_DATA: the text is not UTF-8 (at which byte), or longer than 1 GiB
 * threads  any number at once
 */
LT_NODISCARD lt_status lt_tokenizer_encode(const lt_tokenizer *t, const char *text, size_t len,
                                           unsigned flags, lt_vec *ids);
/**
 * Text of ids [n], appended to `text`: always UTF-8, broken parts as U+FFFD. Ids that mean nothing
 * are skipped.
 * threads  any number at once
 */
LT_NODISCARD lt_status lt_tokenizer_decode(const lt_tokenizer *t, const int32_t *ids, int64_t n,
                                           unsigned flags, lt_buf *text);

/**
 * The id of an added token by content, or of a vocabulary entry as the file spells it. False when
 * there is none.
 */
bool lt_tokenizer_id(const lt_tokenizer *t, const char *name, int32_t *id);
/** As the file spells the token; "" for an id without one. Valid as long as t. */
const char *lt_tokenizer_name(const lt_tokenizer *t, int32_t id);
/** Highest id + 1: rows that an embedding needs at least. */
int64_t lt_tokenizer_size(const lt_tokenizer *t);
/** Flagged special: what LT_SKIP_SPECIAL leaves out. */
bool lt_tokenizer_is_special(const lt_tokenizer *t, int32_t id);
/** A number that changes with the file's bytes; for cache keys. */
uint64_t lt_tokenizer_hash(const lt_tokenizer *t);

/**
 * The pieces before byte mapping and merging, for a text without added tokens.
 * out      normal: the text after normalisation, appended; ends: int64_t, offsets in it behind each
 *          piece
 */
LT_NODISCARD lt_status lt_tokenizer_pieces(const lt_tokenizer *t, const char *text, size_t len,
                                           lt_buf *normal, lt_vec *ends);
#endif
