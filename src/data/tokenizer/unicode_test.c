// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/unicode.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static const uint8_t *flags(void **state)
{
    uint8_t *f = lt_test_take(*state, LT_N_CODES);
    lt_code_flags(f);
    return f;
}

static void classes_are_those_of_unicode_16(void **state)
{
    const uint8_t *f = flags(state);
    int letters = 0, numbers = 0, marks = 0, blanks = 0;
    for (uint32_t c = 0; c < 0xF0000; c++) {
        letters += (f[c] & LT_CODE_LETTER) != 0;
        numbers += (f[c] & LT_CODE_NUMBER) != 0;
        marks += (f[c] & LT_CODE_MARK) != 0;
        blanks += (f[c] & LT_CODE_BLANK) != 0;
        const int classes = f[c] & LT_CODE_CLASS;
        assert_true((classes & (classes - 1)) == 0); // at most one
    }
    // Counted with the reference's engine; spec data-pipeline 15.2.
    assert_int_equal(letters, 141028);
    assert_int_equal(numbers, 1911);
    assert_int_equal(marks, 2501);
    assert_int_equal(blanks, 25);
    assert_true(f[0x10D4A] & LT_CODE_LETTER); // Garay, new in 16.0
    assert_false(f[0x10D4A] & LT_CODE_KNOWN); // so libraries differ about it
    assert_false(f[0x180E] & LT_CODE_BLANK);
    assert_false(f[0x200B] & LT_CODE_BLANK);
    assert_true(f[0x85] & LT_CODE_BLANK);
}

static void utf8_steps_follow_table_3_7(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        int n, bad;
        uint32_t code;
    } cases[] = {
        {"a", 1, 1, 1, 'a'},
        {"\0", 1, 1, 1, 0},
        {"\xC3\xA9", 2, 2, 0, 0xE9},
        {"\xE4\xB8\xAD", 3, 3, 0, 0x4E2D},
        {"\xF0\x9F\x98\x80", 4, 4, 0, 0x1F600},
        {"\xF4\x8F\xBF\xBF", 4, 4, 0, 0x10FFFF},
        {"\x80", 1, 0, 1, 0},
        {"\xC0\x80", 2, 0, 1, 0},         // overlong
        {"\xE0\x80\x80", 3, 0, 1, 0},     // overlong
        {"\xED\xA0\x80", 3, 0, 1, 0},     // a surrogate
        {"\xF5\x80\x80\x80", 4, 0, 1, 0}, // above U+10FFFF
        {"\xF4\x90\x80\x80", 4, 0, 1, 0}, // above U+10FFFF
        {"\xE4\xB8", 2, 0, 2, 0},         // cut
        {"\xE4\xB8"
         "A",
         3, 0, 2, 0},
        {"\xF0\x9F\x98", 3, 0, 3, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        int bad = 0;
        assert_int_equal(lt_utf8_next(cases[i].text, cases[i].len, &code, &bad), cases[i].n);
        if (cases[i].n > 0)
            assert_int_equal(code, cases[i].code);
        else
            assert_int_equal(bad, cases[i].bad);
    }
}

static void every_scalar_value_survives_utf8(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < LT_N_CODES; c++) {
        char s[4];
        uint32_t back;
        int bad;
        if (c >= 0xD800 && c < 0xE000)
            continue;
        const int n = lt_utf8_put(c, s);
        assert_int_equal(lt_utf8_next(s, (size_t)n, &back, &bad), n);
        assert_int_equal(back, c);
    }
}

static void a_broken_byte_is_found_wherever_it_stands(void **state)
{
    char text[40];
    (void)state;
    for (size_t place = 0; place < sizeof text; place++) {
        size_t at = 99;
        memset(text, 'x', sizeof text);
        assert_true(lt_utf8_valid(text, sizeof text, &at));
        text[place] = (char)0xFF;
        assert_false(lt_utf8_valid(text, sizeof text, &at));
        assert_int_equal(at, place);
    }
}

// NFC of `in`, or `in` itself when nothing changes.
static const char *nfc(void **state, const char *in)
{
    lt_nfc_scratch s = LT_NFC_SCRATCH;
    lt_buf out = {0};
    bool changed;
    assert_ok(lt_nfc(flags(state), in, strlen(in), &s, &out, &changed));
    char *copy = NULL;
    const char *from = changed ? out.data : in;
    assert_ok(lt_arena_text(*state, from, strlen(from), &copy));
    lt_buf_deinit(&out);
    lt_nfc_deinit(&s);
    return copy;
}

static void letters_and_marks_are_composed(void **state)
{
    assert_text_equal(nfc(state, ""), "");
    assert_text_equal(nfc(state, "plain"), "plain");
    assert_text_equal(nfc(state, "cafe\u0301"), "caf\u00E9");
    assert_text_equal(nfc(state, "e\u0301e\u0301 e\u0301"), "\u00E9\u00E9 \u00E9");
    assert_text_equal(nfc(state, "\u0301x"), "\u0301x");             // nothing before the mark
    assert_text_equal(nfc(state, "q\u0323\u0307"), "q\u0323\u0307"); // in order already
    assert_text_equal(nfc(state, "q\u0307\u0323"), "q\u0323\u0307"); // sorted by class
    assert_text_equal(nfc(state, "\u212B"), "\u00C5");               // a singleton
    assert_text_equal(nfc(state, "\u1112\u1161\u11AB"), "\uD55C");   // Hangul
    assert_text_equal(nfc(state, "\uD558\u11AB!"), "\uD55C!");
    assert_text_equal(nfc(state, "\u4E2D\u0958"), "\u4E2D\u0915\u093C"); // an exclusion
}

static void characters_newer_than_unicode_9_are_left_alone(void **state)
{
    assert_text_equal(nfc(state, "\U00011935\U00011930"),
                      "\U00011935\U00011930");                      // 13.0 would compose
    assert_text_equal(nfc(state, "a\u0301\u1DF6"), "\u00E1\u1DF6"); // a mark of 10.0 behind
    assert_text_equal(nfc(state, "a\u1DF6\u0323"),
                      "a\u1DF6\u0323"); // has class 232 since 10.0: not sorted,
    assert_text_equal(nfc(state, "a\u1DF6\u0301"), "a\u1DF6\u0301"); // and lets nothing pass
}

LT_TEST_MAIN(LT_TEST(classes_are_those_of_unicode_16), LT_TEST(utf8_steps_follow_table_3_7),
             LT_TEST(every_scalar_value_survives_utf8),
             LT_TEST(a_broken_byte_is_found_wherever_it_stands),
             LT_TEST(letters_and_marks_are_composed),
             LT_TEST(characters_newer_than_unicode_9_are_left_alone))
