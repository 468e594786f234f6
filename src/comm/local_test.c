// SPDX-License-Identifier: Apache-2.0
#include "comm/local.h"

#include "tests/kit/comm_checks.h"
#include "tests/kit/lt_test.h"

#include <time.h>

static void sums_have_the_bits_of_the_tree_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 9; n++)
        assert_ok(lt_local_run(n, lt_check_sums, NULL));
}

static void sums_over_blocks_of_ranks_nest(void **state)
{
    (void)state;
    for (int32_t width = 1; width <= 8; width *= 2)
        assert_ok(lt_local_run(8, lt_check_nested_sums, &width));
}

static void bytes_come_where_they_should(void **state)
{
    (void)state;
    assert_ok(lt_local_run(5, lt_check_bytes, NULL));
}

static lt_status fail_on_two(void *ctx, lt_group *world)
{
    (void)ctx;
    double x = 1.0;
    lt_group *half = NULL;
    LT_TRY(lt_group_split(world, lt_group_rank(world) / 2, &half));
    lt_status st = LT_OK;
    for (int i = 0; st == LT_OK && i < 100; i++) {
        if (lt_group_rank(world) == 2 && i == 5)
            st = LT_FAIL(LT_ERR_DATA, "record 17 is broken");
        if (st == LT_OK)
            st = lt_all_reduce_f64(half, &x, 1);
        if (st == LT_OK)
            st = lt_all_reduce_f64(world, &x, 1);
    }
    lt_group_close(half);
    return st;
}

static void a_failing_rank_ends_all_with_its_sentence(void **state)
{
    (void)state;
    assert_fails(lt_local_run(4, fail_on_two, NULL), LT_ERR_DATA,
                 "rank 2 of 4: record 17 is broken");
}

// Rank 0 waits for rank 1, which comes after rank 2 has failed and rank 0 has left.
static lt_status come_late(void *ctx, lt_group *world)
{
    (void)ctx;
    lt_group *pair = NULL;
    LT_TRY(lt_group_split(world, lt_group_rank(world) / 2, &pair));
    lt_status st = LT_OK;
    if (lt_group_rank(world) == 1)
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (lt_group_rank(world) == 2)
        st = LT_FAIL(LT_ERR_DATA, "record 18 is broken");
    else
        st = lt_barrier(pair);
    lt_group_close(pair);
    return st;
}

static void nobody_waits_for_those_who_left(void **state)
{
    (void)state;
    assert_fails(lt_local_run(3, come_late, NULL), LT_ERR_DATA, "record 18 is broken");
}

static void different_calls_are_an_error_and_no_hang(void **state)
{
    (void)state;
    assert_fails(lt_local_run(3, lt_issue_different_calls, NULL), LT_ERR_INTERNAL,
                 "issues barrier");
}

static void the_number_of_ranks_has_bounds(void **state)
{
    (void)state;
    assert_fails(lt_local_run(0, lt_issue_different_calls, NULL), LT_ERR_CONFIG, "0 ranks");
    assert_fails(lt_local_run(65, lt_issue_different_calls, NULL), LT_ERR_CONFIG, "65 ranks");
}

LT_TEST_MAIN(LT_TEST(sums_have_the_bits_of_the_tree_on_any_number_of_ranks),
             LT_TEST(sums_over_blocks_of_ranks_nest), LT_TEST(bytes_come_where_they_should),
             LT_TEST(a_failing_rank_ends_all_with_its_sentence),
             LT_TEST(nobody_waits_for_those_who_left),
             LT_TEST(different_calls_are_an_error_and_no_hang),
             LT_TEST(the_number_of_ranks_has_bounds))
