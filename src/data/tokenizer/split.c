// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer over PCRE2. Characters about which versions of Unicode differ are shown to
// PCRE2 as an older character of the right class and of as many bytes, so that offsets stay.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"
#include <pcre2.h>
#include <string.h>

enum {
    MAX_EXPRESSION = 16384,
    MATCH_LIMIT = 100000000,
    HEAP_LIMIT_KIB = 1 << 20,
    JIT_STACK_MAX = 8 << 20
};

struct lt_split {
    pcre2_code *code;
    const uint8_t *flags;
};

struct lt_split_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    lt_buf shadow;
};

// Stand-ins by class and length in bytes (2, 3, 4): characters as old as Unicode 5, without cases.
typedef struct stand_in {
    uint8_t class_bit;
    const char *by_len[3];
} stand_in;
static const stand_in stand_ins[] = {
    {LT_CODE_LETTER, {"\u05D0", "\u4E00", "\U00020000"}},
    {LT_CODE_NUMBER, {"\u0660", "\u0966", "\U0001D7CE"}},
    {LT_CODE_MARK, {"\u0300", "\u20D0", "\U0001D167"}},
    {0, {"\u00A7", "\u2020", "\U0001D100"}},
};

static lt_status compile_error(int error, size_t at)
{
    char text[160];
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
    return LT_FAIL(LT_ERR_FORMAT, "the Split expression is wrong at its character %zu: %s", at + 1,
                   text);
}

// Only what means the same here as in the reference's engine: control characters, quoted signs, \s
// and \S, and the classes that stand_ins covers.
static lt_status check_escapes(const char *s, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++) {
        if (s[i] != '\\')
            continue;
        const char *e = s + ++i;
        const size_t left = len - i;
        const bool property = (e[0] == 'p' || e[0] == 'P') && left > 3 && e[1] == '{' &&
                              strchr("LNM", e[2]) && e[3] == '}';
        const bool alnum = (e[0] >= '0' && e[0] <= '9') || (e[0] >= 'a' && e[0] <= 'z') ||
                           (e[0] >= 'A' && e[0] <= 'Z');
        if (!property && alnum && !strchr("rntsS", e[0])) {
            return LT_FAIL(LT_ERR_UNSUPPORTED,
                           "the Split expression uses \\%.*s; known are \\p{L}, \\p{M}, \\p{N}, "
                           "\\s, \\r, \\n and \\t",
                           lt_int((int64_t)(left < 8 ? left : 8)), e);
        }
    }
    return LT_OK;
}

lt_status lt_split_create(const char *expression, size_t len, const uint8_t *flags, lt_split **out)
{
    if (len > MAX_EXPRESSION)
        return LT_FAIL(LT_ERR_FORMAT, "the Split expression has %zu bytes, more than %d", len,
                       MAX_EXPRESSION);
    LT_TRY(check_escapes(expression, len));
    int error;
    size_t at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)expression, len, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                      &error, &at, NULL);
    if (!code)
        return compile_error(error, at);
    uint32_t empty = 0;
    pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &empty);
    void *split = NULL;
    lt_status st = LT_OK;
    if (empty)
        st = LT_FAIL(LT_ERR_UNSUPPORTED, "the Split expression can match an empty text");
    else
        st = lt_mem_alloc(&split, sizeof(lt_split), "the pre-tokenizer");
    if (st != LT_OK) {
        pcre2_code_free(code);
        return st;
    }
    (void)pcre2_jit_compile(
        code, PCRE2_JIT_COMPLETE); // where there is no JIT, the interpreter gives the same matches
    *(lt_split *)split = (lt_split){code, flags};
    *out = split;
    return LT_OK;
}

void lt_split_destroy(lt_split *split)
{
    if (split)
        pcre2_code_free(split->code);
    lt_mem_free(split);
}

lt_status lt_split_scratch_create(const lt_split *split, lt_split_scratch **out)
{
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_split_scratch), "the pre-tokenizer's scratch"));
    lt_split_scratch *s = memory;
    s->match = pcre2_match_data_create_from_pattern(split->code, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context) {
        lt_split_scratch_destroy(s);
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: the pre-tokenizer's match data");
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    s->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_MAX, NULL);
    if (s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    *out = s;
    return LT_OK;
}

void lt_split_scratch_destroy(lt_split_scratch *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    lt_buf_deinit(&s->shadow);
    lt_mem_free(s);
}

// text itself, or a copy of equal length in which doubtful characters have been replaced by their
// stand-ins.
static lt_status shown(const lt_split *split, lt_split_scratch *s, const char *text, size_t len,
                       const char **out)
{
    *out = text;
    bool copied = false;
    for (size_t i = 0; i < len;) {
        if ((uint8_t)text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code;
        int bad;
        const int n = lt_utf8_next(text + i, len - i, &code, &bad);
        LT_ASSERT(n > 1);
        const uint8_t flags = split->flags[code];
        if (!(flags & LT_CODE_KNOWN)) {
            if (!copied) {
                lt_buf_clear(&s->shadow);
                LT_TRY(lt_buf_append(&s->shadow, text, len));
                *out = s->shadow.data;
                copied = true;
            }
            const stand_in *in = stand_ins;
            while (in->class_bit && !(flags & in->class_bit))
                in++;
            memcpy(s->shadow.data + i, in->by_len[n - 2], (size_t)n);
        }
        i += (size_t)n;
    }
    return LT_OK;
}

static int match(const lt_split *split, lt_split_scratch *s, const char *text, size_t len,
                 size_t from)
{
    const uint32_t options = PCRE2_NO_UTF_CHECK; // checked by whoever took the text in
    const int rc =
        pcre2_match(split->code, (PCRE2_SPTR)text, len, from, options, s->match, s->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT)
        return rc;
    return pcre2_match(split->code, (PCRE2_SPTR)text, len, from, options | PCRE2_NO_JIT, s->match,
                       s->context);
}

lt_status lt_split_text(const lt_split *split, lt_split_scratch *s, const char *text, size_t len,
                        lt_vec *ends)
{
    const char *subject;
    LT_TRY(shown(split, s, text, len, &subject));
    const size_t *found = pcre2_get_ovector_pointer(s->match);
    size_t at = 0;
    while (at < len) {
        const int rc = match(split, s, subject, len, at);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0) {
            char why[160];
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
            return LT_FAIL(LT_ERR_DATA,
                           "the Split expression gave up at byte %zu of a text of %zu: %s", at, len,
                           why);
        }
        if (found[1] <= found[0] || found[0] < at) // \K and lookbehind can do this
            return LT_FAIL(LT_ERR_DATA, "the Split expression matched nothing at byte %zu", at);
        const int64_t start = (int64_t)found[0], end = (int64_t)found[1];
        if (found[0] > at)
            LT_TRY(lt_vec_push(ends, &start));
        LT_TRY(lt_vec_push(ends, &end));
        at = found[1];
    }
    const int64_t all = (int64_t)len;
    return at < len ? lt_vec_push(ends, &all) : LT_OK;
}
