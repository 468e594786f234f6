// SPDX-License-Identifier: Apache-2.0
// What a tokenizer consists of; shared by tokenizer.c and the reader of tokenizer.json, by nobody
// else.
#ifndef LT_DATA_TOKENIZER_TOKENIZER_PARTS_H
#define LT_DATA_TOKENIZER_TOKENIZER_PARTS_H

#include "data/tokenizer/added.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"

typedef struct lt_token {
    size_t name, bytes; /* offsets in `names` (zero-terminated) and in `bytes` */
    int32_t name_len, bytes_len;
    bool known, special;
} lt_token;

struct lt_tokenizer {
    uint8_t *flags; /* [LT_N_CODES] */
    lt_map *ids;    /* token as spelled -> id */
    lt_vec tokens;  /* lt_token by id */
    lt_buf names, bytes;
    lt_added raw; /* added tokens that are looked for in the text as it stands; values are ids */
    lt_added normalized; /* and those looked for after NFC, flag `normalized` */
    bool nfc;
    lt_split *split;
    lt_bpe *bpe;
    uint64_t hash;
    struct lt_tokenizer_idle *idle; /* scratch of calls that are over, behind a lock */
};

/** Fill t, zeroed but for flags, from the file's text. */
LT_NODISCARD lt_status lt_tokenizer_read(lt_tokenizer *t, const char *json, size_t len,
                                         const char *name);
#endif
