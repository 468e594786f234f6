// SPDX-License-Identifier: Apache-2.0
// UTF-8 steps, the flag table, and NFC by utf8proc of the stretches that need it.
#include "data/tokenizer/unicode.h"
#include <string.h>
#include <utf8proc.h>

void lt_code_flags(uint8_t *flags)
{
    for (int i = 0; i < LT_N_CODE_LISTS; i++) {
        const lt_code_list *list = &lt_code_lists[i];
        for (int r = 0; r < list->n; r++) {
            for (uint32_t c = list->range[r].first; c <= list->range[r].last; c++)
                flags[c] |= list->bit;
        }
    }
}

// The least and greatest second byte after a lead byte (Unicode, table 3-7), and the length; length
// 0: no lead byte.
static int lead(uint8_t b, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (b >= 0xC2 && b <= 0xDF)
        return 2;
    if (b >= 0xE0 && b <= 0xEF) {
        if (b == 0xE0)
            *lo = 0xA0;
        if (b == 0xED)
            *hi = 0x9F;
        return 3;
    }
    if (b >= 0xF0 && b <= 0xF4) {
        if (b == 0xF0)
            *lo = 0x90;
        if (b == 0xF4)
            *hi = 0x8F;
        return 4;
    }
    return 0;
}

int lt_utf8_next(const char *text, size_t len, uint32_t *code, int *bad)
{
    const uint8_t *s = (const uint8_t *)text;
    *bad = 1;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    uint8_t lo, hi;
    const int n = lead(s[0], &lo, &hi);
    if (n == 0)
        return 0;
    uint32_t c = s[0] & (0xFFU >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((size_t)i >= len || s[i] < lo || s[i] > hi) {
            *bad = i;
            return 0;
        }
        c = (c << 6) | (s[i] & 0x3FU);
        lo = 0x80;
        hi = 0xBF;
    }
    *code = c;
    return n;
}

int lt_utf8_put(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80U | (code & 0x3FU));
        code >>= 6;
    }
    out[0] = (char)((0xF0U << (4 - n)) | code);
    return n;
}

bool lt_utf8_valid(const char *text, size_t len, size_t *at)
{
    size_t i = 0;
    while (i < len) {
        uint64_t eight;
        if (len - i >= 8) {
            memcpy(&eight, text + i, 8);
            if ((eight & 0x8080808080808080U) == 0) {
                i += 8;
                continue;
            }
        }
        uint32_t code;
        int bad;
        const int n = lt_utf8_next(text + i, len - i, &code, &bad);
        if (n == 0) {
            *at = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

void lt_nfc_deinit(lt_nfc_scratch *s)
{
    lt_vec_deinit(&s->codes);
}

// NFC of one stretch that holds no character newer than 9.0, appended to out.
static lt_status compose(const char *text, size_t len, lt_nfc_scratch *s, lt_buf *out)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    const uint8_t *bytes = (const uint8_t *)text;
    LT_TRY(lt_vec_resize(&s->codes, lt_max_i64(s->codes.n, (int64_t)len + 1)));
    utf8proc_ssize_t n;
    while ((n = utf8proc_decompose(bytes, (utf8proc_ssize_t)len, s->codes.data, s->codes.n,
                                   options)) >= s->codes.n)
        LT_TRY(lt_vec_resize(
            &s->codes, n + 1)); // a decomposition may be longer: one more place for the final zero
    if (n >= 0)
        n = utf8proc_normalize_utf32(s->codes.data, n, options);
    if (n < 0)
        return LT_FAIL(LT_ERR_INTERNAL, "NFC of %zu bytes failed: %s", len, utf8proc_errmsg(n));
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char c[4];
        LT_TRY(
            lt_buf_append(out, c, (size_t)lt_utf8_put((uint32_t)LT_AT(&s->codes, int32_t, i), c)));
    }
    return LT_OK;
}

// Where the run of ASCII at i ends: NFC never touches it.
static size_t skip_ascii(const char *text, size_t len, size_t i)
{
    while (i < len && (uint8_t)text[i] < 0x80)
        i++;
    return i;
}

lt_status lt_nfc(const uint8_t *flags, const char *text, size_t len, lt_nfc_scratch *s, lt_buf *out,
                 bool *changed)
{
    size_t copied = 0; // text before this place is in `out`
    size_t start = 0;  // the last stable character: where a stretch would begin
    *changed = false;
    for (size_t i = 0; i < len;) {
        const size_t plain = skip_ascii(text, len, i);
        if (plain > i)
            start = plain - 1;
        if (plain == len)
            break;
        uint32_t code;
        int bad;
        i = plain;
        int n = lt_utf8_next(text + i, len - i, &code, &bad);
        LT_ASSERT(n > 0);
        if ((flags[code] & LT_CODE_UNSTABLE) == 0) {
            start = (flags[code] & LT_CODE_KNOWN) ? i : i + (size_t)n;
            i += (size_t)n;
            continue;
        }
        size_t end = i;
        while (end < len && n > 0 && (flags[code] & LT_CODE_UNSTABLE)) {
            end += (size_t)n;
            n = end < len ? lt_utf8_next(text + end, len - end, &code, &bad) : 0;
        }
        LT_TRY(lt_buf_append(out, text + copied, start - copied));
        LT_TRY(compose(text + start, end - start, s, out));
        *changed = true;
        copied = start = i = end;
    }
    if (*changed)
        LT_TRY(lt_buf_append(out, text + copied, len - copied));
    return LT_OK;
}
