// SPDX-License-Identifier: Apache-2.0
// The packer against golden/sequence/knapsack.json and in the whole: see also
// tests/golden_sequence.c.
#include "data/pack.h"

#include "tests/kit/lt_test.h"

static lt_bins pack(void **state, const int64_t *lengths, int64_t n, int64_t capacity)
{
    lt_bins b;
    assert_ok(lt_pack_bins(lengths, n, capacity, *state, &b));
    assert_int_equal(b.n_items, n);
    return b;
}

static void the_largest_that_fits_goes_first(void **state)
{
    static const int64_t lengths[] = {5, 10, 7, 4, 4, 8, 8, 10, 8, 9, 10, 9},
                         want[] = {10, 7, 1, 11, 9, 8, 6, 5, 2, 0, 4, 3},
                         first[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12};
    const lt_bins b = pack(state, lengths, 12, 10);
    assert_int_equal(b.n, 11);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(b.items[i], want[i]);
        assert_int_equal(b.first[i], first[i]);
    }
}

static void equal_lengths_are_taken_from_the_end_and_bins_are_full(void **state)
{
    int64_t lengths[100000];
    for (int64_t i = 0; i < 100000; i++)
        lengths[i] = 1;
    const lt_bins b = pack(state, lengths, 100000, 7); // would hang if it were quadratic
    assert_int_equal(b.n, 14286);
    for (int64_t i = 0; i < b.n_items; i++)
        assert_int_equal(b.items[i], 99999 - i);
}

static void lengths_out_of_range_and_no_lengths_at_all(void **state)
{
    lt_bins b;
    assert_fails(lt_pack_bins((int64_t[]){4}, 1, 3, *state, &b), LT_ERR_DATA,
                 "a sample of 4 tokens cannot be packed into 3");
    assert_fails(lt_pack_bins((int64_t[]){0}, 1, 3, *state, &b), LT_ERR_DATA, "0 tokens");
    assert_int_equal(pack(state, NULL, 0, 3).n, 0);
}

static void shares_are_contiguous_and_the_first_ones_larger(void **state)
{
    static const int64_t want[] = {0, 4, 7, 10};
    (void)state;
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(lt_pack_share(10, 3, i), want[i]);
}

LT_TEST_MAIN(LT_TEST(the_largest_that_fits_goes_first),
             LT_TEST(equal_lengths_are_taken_from_the_end_and_bins_are_full),
             LT_TEST(lengths_out_of_range_and_no_lengths_at_all),
             LT_TEST(shares_are_contiguous_and_the_first_ones_larger))
