// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"
#include "tests/kit/lt_test.h"
#include <pthread.h>
#include <string.h>

static void a_failure_keeps_its_code_and_sentence(void **state)
{
    (void)state;
    assert_int_equal(lt_fail(LT_ERR_SHAPE, "%s has %d rows", "x", 3), LT_ERR_SHAPE);
    assert_text_equal(lt_error_message(), "x has 3 rows");
    lt_error_clear();
    assert_text_equal(lt_error_message(), "");
}

static void a_message_may_be_part_of_the_next(void **state)
{
    (void)state;
    assert_int_equal(lt_fail(LT_ERR_IO, "inner"), LT_ERR_IO);
    assert_int_equal(lt_fail(LT_ERR_IO, "outer, after %s", lt_error_message()), LT_ERR_IO);
    assert_text_equal(lt_error_message(), "outer, after inner");
    assert_int_equal(lt_error_adopt(LT_ERR_DATA, lt_error_message() + 7), LT_ERR_DATA);
    assert_text_equal(lt_error_message(), "after inner");
}

static void notes_go_in_front(void **state)
{
    (void)state;
    assert_int_equal(lt_fail(LT_ERR_IO, "disk full"), LT_ERR_IO);
    lt_error_note("saving step %d", 7);
    lt_error_note("run a");
    assert_text_equal(lt_error_message(), "run a: saving step 7: disk full");
}

static void failures_of_one_kind_share_their_words(void **state)
{
    (void)state;
    for (int rows = 3; rows < 5; rows++) {
        assert_int_equal(lt_fail(LT_ERR_SHAPE, "%s has %d rows", "x", rows), LT_ERR_SHAPE);
        lt_error_note("reading a file");
        assert_text_equal(lt_error_kind(), "%s has %d rows");
    }
    assert_int_equal(lt_error_adopt(LT_ERR_SHAPE, "x has 3 rows"), LT_ERR_SHAPE);
    assert_text_equal(lt_error_kind(), "");
    assert_int_equal(lt_fail(LT_ERR_IO, "disk full"), LT_ERR_IO);
    lt_error_clear();
    assert_text_equal(lt_error_kind(), "");
}

static void long_messages_are_cut_at_the_end(void **state)
{
    char *text = lt_test_take(*state, 6001);
    memset(text, 'x', 6000);
    assert_int_equal(lt_fail(LT_ERR_IO, "%s", text), LT_ERR_IO);
    assert_int_equal(strlen(lt_error_message()), 4095);
    lt_error_note("%s", text); // the note gets half
    assert_int_equal(strlen(lt_error_message()), 4095);
    assert_int_equal(strchr(lt_error_message(), ':') - lt_error_message(), 2045);
}

static void *fail_elsewhere(void *arg)
{
    *(lt_status *)arg = lt_fail(LT_ERR_IO, "another thread's");
    return NULL;
}

static void threads_have_messages_of_their_own(void **state)
{
    (void)state;
    lt_status there = LT_OK;
    pthread_t id;
    assert_int_equal(lt_fail(LT_ERR_IO, "mine"), LT_ERR_IO);
    assert_int_equal(pthread_create(&id, NULL, fail_elsewhere, &there), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(there, LT_ERR_IO);
    assert_text_equal(lt_error_message(), "mine");
}

static void every_code_has_a_text(void **state)
{
    (void)state;
    assert_text_equal(lt_status_text(LT_OK), "ok");
    assert_text_equal(lt_status_text(LT_ERR_INTERNAL), "internal error");
    for (int st = LT_OK; st <= LT_ERR_INTERNAL; st++)
        assert_true(strlen(lt_status_text((lt_status)st)) > 1);
    assert_text_equal(lt_status_text((lt_status)99), "unknown status");
}

static void checked_sums_and_products_see_overflow(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    assert_true(lt_mul_i64(INT64_MAX / 2, 2, &i) && i == INT64_MAX - 1);
    assert_false(lt_mul_i64(INT64_MAX / 2 + 1, 2, &i));
    assert_false(lt_add_i64(INT64_MIN, -1, &i));
    assert_false(lt_mul_u64(1ULL << 32, 1ULL << 32, &u));
    assert_false(lt_add_u64(UINT64_MAX, 1, &u));
    assert_int_equal(lt_ceil_div(7, 3), 3);
    assert_int_equal(lt_ceil_div(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(lt_round_up(257, 256), 512);
    assert_int_equal(lt_round_up(0, 256), 0);
}

LT_TEST_MAIN(LT_TEST(a_failure_keeps_its_code_and_sentence),
             LT_TEST(a_message_may_be_part_of_the_next), LT_TEST(notes_go_in_front),
             LT_TEST(failures_of_one_kind_share_their_words),
             LT_TEST(long_messages_are_cut_at_the_end), LT_TEST(threads_have_messages_of_their_own),
             LT_TEST(every_code_has_a_text), LT_TEST(checked_sums_and_products_see_overflow))
