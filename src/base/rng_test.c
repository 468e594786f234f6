// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "tests/kit/lt_test.h"
#include <math.h>

static void mt19937_draws_the_published_numbers(void **state)
{
    (void)state;
    lt_mt19937 g;
    lt_mt19937_seed(
        &g,
        5489); // Matsumoto and Nishimura's default seed; the 10000th draw is in the C++ standard
    uint32_t last = lt_mt19937_next(&g);
    assert_int_equal(last, 3499211612U);
    for (int i = 1; i < 10000; i++)
        last = lt_mt19937_next(&g);
    assert_int_equal(last, 4123659995U);
}

static void the_seed_keeps_its_low_32_bits(void **state)
{
    (void)state;
    lt_mt19937 a, b;
    lt_mt19937_seed(&a, 9007199254740993U);
    lt_mt19937_seed(&b, 1);
    assert_memory_equal(&a, &b, sizeof a);
}

// golden/data/randperm.json, key "0:100"
static void randperm_of_100_is_torchs(void **state)
{
    static const int64_t want[100] = {
        44, 19, 93, 90, 71, 69, 37, 95, 53, 91, 81, 42, 80, 85, 74, 56, 76, 63, 82, 40,
        26, 92, 57, 10, 16, 66, 89, 41, 97, 8,  31, 24, 35, 30, 65, 7,  98, 23, 20, 29,
        78, 61, 94, 15, 4,  52, 59, 5,  54, 46, 3,  28, 2,  70, 6,  60, 49, 68, 55, 72,
        79, 77, 45, 1,  32, 34, 11, 0,  22, 12, 87, 50, 25, 47, 36, 96, 9,  83, 62, 84,
        18, 17, 75, 67, 13, 48, 39, 21, 64, 88, 38, 27, 14, 73, 33, 58, 86, 43, 99, 51};
    (void)state;
    int64_t got[100];
    lt_randperm(100, 0, got);
    assert_memory_equal(got, want, sizeof want);
}

// golden/sampler/randperm.json, the first and last eight of the large cases
static void long_permutations_begin_and_end_as_torchs(void **state)
{
    static const struct {
        int64_t n;
        uint64_t seed;
        int64_t first[4], last[4];
    } cases[] = {
        {1000, 7, {615, 284, 599, 580}, {594, 570, 477, 409}},
        {20000, 0, {16044, 15558, 2137, 17756}, {19300, 566, 6265, 6726}},
        {100003, 1, {42115, 90486, 39189, 3371}, {75889, 72179, 92316, 45757}},
        {1000000, 7, {741615, 414869, 732421, 979396}, {703803, 620570, 712523, 941491}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int64_t *got = lt_test_take(*state, (size_t)cases[c].n * sizeof *got);
        lt_randperm(cases[c].n, cases[c].seed, got);
        assert_memory_equal(got, cases[c].first, sizeof cases[c].first);
        assert_memory_equal(got + cases[c].n - 4, cases[c].last, sizeof cases[c].last);
    }
}

static void permutations_of_none_and_one_exist(void **state)
{
    (void)state;
    int64_t got[1] = {7};
    lt_randperm(0, 3, got);
    assert_int_equal(got[0], 7);
    lt_randperm(1, 3, got);
    assert_int_equal(got[0], 0);
}

// Known answers of Random123 1.09, file kat_vectors.
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, hi, lo;
        uint32_t want[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}},
        {0x299f31d0a4093822U,
         0x0370734413198a2eU,
         0x85a308d3243f6a88U,
         {0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t got[4];
        lt_philox(cases[c].key, cases[c].hi, cases[c].lo, got);
        assert_memory_equal(got, cases[c].want, sizeof got);
    }
}

static void normals_and_uniforms_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum = 0, squares = 0, fourth = 0, mean = 0, cross = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double x = lt_normal(11, i), u = lt_uniform(11, i);
        assert_true(isfinite(x) && u >= 0 && u < 1);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        mean += u;
        cross += x * (u - 0.5);
    }
    // Five standard errors: 1/sqrt(N), sqrt(2/N), sqrt(96/N), sqrt(1/12N), sqrt(1/12N).
    assert_near(sum / N, 0, 0.016);
    assert_near(squares / N, 1, 0.023);
    assert_near(fourth / N, 3, 0.155);
    assert_near(mean / N, 0.5, 0.0046);
    assert_near(cross / N, 0, 0.0046);
}

static void keys_depend_on_seed_and_name(void **state)
{
    (void)state;
    assert_true(lt_rng_key(1, "a.weight") == lt_rng_key(1, "a.weight"));
    assert_true(lt_rng_key(1, "a.weight") != lt_rng_key(2, "a.weight"));
    assert_true(lt_rng_key(1, "a.weight") != lt_rng_key(1, "b.weight"));
}

LT_TEST_MAIN(LT_TEST(mt19937_draws_the_published_numbers), LT_TEST(the_seed_keeps_its_low_32_bits),
             LT_TEST(randperm_of_100_is_torchs), LT_TEST(long_permutations_begin_and_end_as_torchs),
             LT_TEST(permutations_of_none_and_one_exist), LT_TEST(philox_gives_the_known_answers),
             LT_TEST(normals_and_uniforms_have_their_moments),
             LT_TEST(keys_depend_on_seed_and_name))
