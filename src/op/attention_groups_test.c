// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "op/attention_groups.h"
#include "tests/kit/lt_test.h"
#include <math.h>

static void every_segment_is_in_one_group_and_fits(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 300; trial++) {
        int32_t segments[65] = {0};
        const int64_t n = 1 + (int64_t)(lt_uniform(trial, 0) * 64.0);
        const double spread = lt_uniform(trial, 1) * 14.0;
        for (int64_t i = 0; i < n; i++) {
            const double length = exp2(spread * lt_uniform(trial, 2 + (uint64_t)i));
            segments[i + 1] =
                segments[i] + (lt_uniform(trial, 100 + (uint64_t)i) < 0.1 ? 0 : (int32_t)length);
        }
        lt_attention_group g[LT_MAX_ATTENTION_GROUPS];
        const int n_groups = lt_attention_groups(segments, n, g);
        int64_t members = 0, tokens = segments[n];
        for (int k = 0; k < n_groups; k++) {
            assert_true(g[k].n > 0 && g[k].batch >= g[k].n && g[k].length >= g[k].most);
            assert_true(g[k].batch <= 2 * g[k].n && g[k].length % 64 == 0);
            assert_true(k == 0 || g[k].most <= g[k - 1].above);
            assert_true(g[k].batch * g[k].length <= lt_attention_most_padded(tokens, n));
            members += g[k].n;
        }
        const lt_attention_group few = lt_attention_short_group(segments, n);
        int64_t n_short = 0;
        for (int64_t i = 0; i < n; i++) {
            members -= segments[i + 1] > segments[i];
            n_short += segments[i + 1] > segments[i] && segments[i + 1] - segments[i] <= 128;
        }
        assert_int_equal(members, 0);
        assert_int_equal(few.n, n_short);
        assert_true(few.batch >= few.n && few.batch * few.length <= lt_attention_most_short(n));
    }
}

static void lengths_that_kernels_are_prepared_for_are_few(void **state)
{
    (void)state;
    assert_int_equal(lt_attention_length(1), 128);
    assert_int_equal(lt_attention_length(129), 192);
    assert_int_equal(lt_attention_length(4096), 4096);
    assert_int_equal(lt_attention_length(4097), 4096 + 256);
    for (int64_t n = 1024; n < 70000; n += 37)
        assert_true(lt_attention_length(n) <= n + n / 16 + 1);
}

static void bounds_never_shrink(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 5000; n++) {
        assert_true(lt_attention_most_padded(n, 3) <= lt_attention_most_padded(n + 1, 3));
        assert_true(lt_attention_most_padded(99, n) <= lt_attention_most_padded(99, n + 1));
    }
}

static void equal_lengths_are_seen(void **state)
{
    (void)state;
    assert_int_equal(lt_attention_equal_length((const int32_t[]){5, 133, 261}, 2), 128);
    assert_int_equal(lt_attention_equal_length((const int32_t[]){0, 100, 200}, 2), 0);
    assert_int_equal(lt_attention_equal_length((const int32_t[]){0, 128, 384}, 2), 0);
    assert_int_equal(lt_attention_equal_length((const int32_t[]){0}, 0), 0);
    assert_int_equal(lt_attention_equal_length((const int32_t[]){0, 0}, 1), 0);
}

LT_TEST_MAIN(LT_TEST(every_segment_is_in_one_group_and_fits),
             LT_TEST(lengths_that_kernels_are_prepared_for_are_few), LT_TEST(bounds_never_shrink),
             LT_TEST(equal_lengths_are_seen))
