// SPDX-License-Identifier: Apache-2.0
// InternVL's conversations, rows 57, 58 and 69 of spec data-pipeline 16.1 among them;
// tests/golden_intern.c holds them against the reference's.
#include "data/template/intern.h"
#include "tests/kit/lt_test.h"
#include <string.h>

enum { START = 9001, CONTEXT = 9002, END = 9003 };

static lt_tokenizer *small(void **state)
{
    lt_tokenizer *t = NULL;
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    assert_ok(lt_tokenizer_open(dir, &t));
    return t;
}

static lt_intern_turn turn(lt_intern_role role, const char *text)
{
    return (lt_intern_turn){role, {text, strlen(text)}};
}

/** Ids as text, images as <N>, [] around what is trained. */
static const char *shown(void **state, const lt_tokenizer *t, const lt_vec *ids,
                         const lt_vec *labels)
{
    lt_buf text = {0};
    char *copy;
    bool open = false;
    int64_t pads = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        const int32_t id = LT_AT(ids, int32_t, i);
        const bool trained = LT_AT(labels, int32_t, i) != LT_IGNORE_LABEL;
        if (trained != open)
            assert_ok(lt_buf_text(&text, trained ? "[" : "]"));
        open = trained;
        pads = id == CONTEXT ? pads + 1 : pads;
        if (id == END)
            assert_ok(lt_buf_printf(&text, "<%lld>", (long long)pads));
        else if (id < START)
            assert_ok(lt_tokenizer_decode(t, &id, 1, 0, &text));
        pads = id == END ? 0 : pads;
    }
    assert_ok(lt_arena_text(*state, text.data, text.len, &copy));
    lt_buf_deinit(&text);
    return copy;
}

static void answers_are_trained_with_their_end_but_not_its_newline(void **state)
{
    lt_tokenizer *t = small(state);
    const lt_intern_opts o = {t, START, CONTEXT, END, 1000, NULL};
    const lt_intern_turn turns[] = {turn(LT_INTERN_SYSTEM, "s"),
                                    turn(LT_INTERN_HUMAN, "<image>a <image> <image>"),
                                    turn(LT_INTERN_GPT, "b<image>")};
    static const int64_t n_tokens[] = {4, 2};
    lt_vec ids = LT_VEC_OF(int32_t), labels = LT_VEC_OF(int32_t);
    assert_ok(lt_intern_encode(&o, turns, 3, n_tokens, 2, &ids, &labels, NULL));
    const char *text = shown(state, t, &ids, &labels);
    // Row 58: the third tag has no image and stays as text, as does one in an answer.
    assert_text_contains(text, "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n<4>a <2> "
                               "<image><|im_end|>\n<|im_start|>");
    assert_text_contains(text, "assistant\n[b<image><|im_end|>]\n");
    assert_int_equal(ids.n, labels.n);
    lt_vec_deinit(&ids);
    lt_vec_deinit(&labels);
    lt_tokenizer_close(t);
}

static void wrong_counts_places_and_cuts_are_errors(void **state)
{
    lt_tokenizer *t = small(state);
    lt_intern_opts o = {t, START, CONTEXT, END, 1000, NULL};
    const lt_intern_turn none[] = {turn(LT_INTERN_HUMAN, "a")},
                         late[] = {turn(LT_INTERN_HUMAN, "a"), turn(LT_INTERN_SYSTEM, "s")},
                         two[] = {turn(LT_INTERN_SYSTEM, ""),
                                  turn(LT_INTERN_HUMAN, "<image><image>")};
    static const int64_t n_tokens[] = {50, 50};
    lt_vec ids = LT_VEC_OF(int32_t), labels = LT_VEC_OF(int32_t);
    assert_fails(lt_intern_encode(&o, none, 1, n_tokens, 1, &ids, &labels, NULL), LT_ERR_DATA,
                 "there are 0 <image> tags for 1 images");
    assert_fails(lt_intern_encode(&o, late, 2, n_tokens, 0, &ids, &labels, NULL), LT_ERR_DATA,
                 "entry 2 is a system text");
    lt_vec_clear(&ids);
    lt_vec_clear(&labels);
    o.max_length = 60;
    assert_fails(lt_intern_encode(&o, two, 2, n_tokens, 2, &ids, &labels, NULL), LT_ERR_DATA,
                 "cutoff_len 60 cuts through image ");
    lt_vec_clear(&ids);
    lt_vec_clear(&labels);
    o.max_length = 5;
    assert_ok(
        lt_intern_encode(&o, none, 1, n_tokens, 0, &ids, &labels, NULL)); // the end is simply lost
    assert_int_equal(ids.n, 5);
    assert_int_equal(labels.n, 5);
    lt_vec_deinit(&ids);
    lt_vec_deinit(&labels);
    lt_tokenizer_close(t);
}

// The reference takes the id of # for padding and masks it; there is no padding here to mistake it
// for.
static void row_57_a_number_sign_is_a_token_like_any_other(void **state)
{
    lt_tokenizer *t = small(state);
    const lt_intern_opts o = {t, START, CONTEXT, END, 1000, NULL};
    const lt_intern_turn turns[] = {turn(LT_INTERN_HUMAN, "#1"),
                                    turn(LT_INTERN_GPT, "it is all of it#")};
    lt_vec ids = LT_VEC_OF(int32_t), labels = LT_VEC_OF(int32_t), sign = LT_VEC_OF(int32_t);
    assert_ok(lt_tokenizer_encode(t, "#", 1, 0, &sign));
    assert_int_equal(sign.n, 1);
    assert_int_equal(LT_AT(&sign, int32_t, 0), 2); // InternVL's pad_id
    assert_ok(lt_intern_encode(&o, turns, 2, NULL, 0, &ids, &labels, NULL));
    assert_text_contains(shown(state, t, &ids, &labels), "user\n#1<|im_end|>\n<|im_start|>");
    bool trained = false;
    for (int64_t i = 0; i < labels.n; i++)
        trained |= LT_AT(&labels, int32_t, i) == 2;
    assert_true(trained);
    lt_vec_deinit(&sign);
    lt_vec_deinit(&ids);
    lt_vec_deinit(&labels);
    lt_tokenizer_close(t);
}

// The reference puts the missing tag into the system text, where it is never replaced.
static void row_69_a_system_text_first_and_no_tag_is_an_error(void **state)
{
    lt_tokenizer *t = small(state);
    const lt_intern_opts o = {t, START, CONTEXT, END, 1000, NULL};
    const lt_intern_turn plain[] = {turn(LT_INTERN_SYSTEM, "s"), turn(LT_INTERN_HUMAN, "a"),
                                    turn(LT_INTERN_GPT, "b")},
                         tagged[] = {turn(LT_INTERN_SYSTEM, "<image>"), turn(LT_INTERN_HUMAN, "a"),
                                     turn(LT_INTERN_GPT, "b")};
    static const int64_t n_tokens[] = {4};
    lt_vec ids = LT_VEC_OF(int32_t), labels = LT_VEC_OF(int32_t);
    assert_fails(lt_intern_encode(&o, plain, 3, n_tokens, 1, &ids, &labels, NULL), LT_ERR_DATA,
                 "there are 0 <image> tags for 1 images");
    assert_fails(lt_intern_encode(&o, tagged, 3, n_tokens, 1, &ids, &labels, NULL), LT_ERR_DATA,
                 "there are 0 <image> tags for 1 images");
    lt_vec_deinit(&ids);
    lt_vec_deinit(&labels);
    lt_tokenizer_close(t);
}

LT_TEST_MAIN(LT_TEST(answers_are_trained_with_their_end_but_not_its_newline),
             LT_TEST(wrong_counts_places_and_cuts_are_errors),
             LT_TEST(row_57_a_number_sign_is_a_token_like_any_other),
             LT_TEST(row_69_a_system_text_first_and_no_tag_is_an_error))
