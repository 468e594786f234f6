// SPDX-License-Identifier: Apache-2.0
// What the tokenizer knows of characters: UTF-8 steps, classes of Unicode 16.0, normal form C of
// Unicode 9.0.
#ifndef LT_DATA_TOKENIZER_UNICODE_H
#define LT_DATA_TOKENIZER_UNICODE_H

#include "base/text.h"

enum {
    LT_CODE_LETTER = 1,
    LT_CODE_NUMBER = 2,
    LT_CODE_MARK = 4,
    LT_CODE_BLANK = 8, /* White_Space */
    LT_CODE_KNOWN =
        16, /* assigned in 9.0, class unchanged since: libraries of any version agree about it */
    LT_CODE_UNSTABLE = 32, /* NFC of 9.0 may change it, or what stands before it */
    LT_CODE_CLASS = LT_CODE_LETTER | LT_CODE_NUMBER | LT_CODE_MARK | LT_CODE_BLANK,
    LT_N_CODES = 0x110000
};

typedef struct lt_code_range {
    uint32_t first, last;
} lt_code_range;
typedef struct lt_code_list {
    const lt_code_range *range;
    int n;
    uint8_t bit;
} lt_code_list;
enum { LT_N_CODE_LISTS = 6 };
extern const lt_code_list lt_code_lists[LT_N_CODE_LISTS];

/** out  flags: uint8 [LT_N_CODES], zeroed by the caller: the bits above for every code point */
void lt_code_flags(uint8_t *flags);

/**
 * One character of text[0..len), len > 0.
 *
 * out      *code, and as result its length in bytes; 0 where the bytes are not UTF-8 (overlong
 *          forms, surrogates and numbers above U+10FFFF included), and then *bad is how many bytes
 *          stand for one U+FFFD: the longest beginning of a valid sequence, at least 1
 */
int lt_utf8_next(const char *text, size_t len, uint32_t *code, int *bad);
/** As UTF-8; code is a Unicode scalar value. Returns the number of bytes, 1 to 4. */
int lt_utf8_put(uint32_t code, char out[4]);
/** True when all of it is UTF-8; else *at is the place of the first broken byte. */
bool lt_utf8_valid(const char *text, size_t len, size_t *at);

/** Scratch of lt_nfc; start from LT_NFC_SCRATCH. */
typedef struct lt_nfc_scratch {
    lt_vec codes; /* int32_t */
} lt_nfc_scratch;
#define LT_NFC_SCRATCH ((lt_nfc_scratch){.codes = LT_VEC_OF(int32_t)})
void lt_nfc_deinit(lt_nfc_scratch *s);

/**
 * Canonical composition with the tables of Unicode 9.0: a character added later changes nothing and
 * lets nothing pass.
 *
 * source   UAX 15; the data pipeline's spec, 15.2, for the version
 * in       text: valid UTF-8; flags from lt_code_flags
 * out      *changed false: text is in NFC already and `out` was left alone; true: its NFC was
 *          appended to `out`
 * errors   LT_ERR_MEMORY, LT_ERR_INTERNAL
 */
LT_NODISCARD lt_status lt_nfc(const uint8_t *flags, const char *text, size_t len, lt_nfc_scratch *s,
                              lt_buf *out, bool *changed);
#endif
