// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>

static void prints_as(const lt_schedule *s, int64_t k, const char *text)
{
    char got[32];
    snprintf(got, sizeof got, "%.6E", lt_schedule_lr(s, k));
    assert_text_equal(got, text);
}

// spec/config-trainer-checkpoint.md, section 7.3
static void cosine_over_2000_steps_has_the_published_rates(void **state)
{
    (void)state;
    const lt_schedule s = {LT_DECAY_COSINE, .lr = 1e-5, .warmup_ratio = 0.1, .decay_ratio = 1,
                           .steps = 2000};
    static const struct {
        int64_t k;
        const char *text;
    } rows[] = {{0, "0.000000E+00"},    {1, "5.000000E-08"},   {199, "9.950000E-06"},
                {200, "1.000000E-05"},  {201, "9.999992E-06"}, {1100, "5.000000E-06"},
                {1999, "7.615434E-12"}, {2000, "0.000000E+00"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        prints_as(&s, rows[i].k, rows[i].text);
}

static void cosine_over_10_steps_has_the_published_rates(void **state)
{
    (void)state;
    const lt_schedule s = {LT_DECAY_COSINE, .lr = 1e-5, .warmup_ratio = 0.1, .decay_ratio = 1,
                           .steps = 10};
    static const char *const rows[] = {"0.000000E+00", "1.000000E-05", "9.698463E-06",
                                       "8.830222E-06", "7.500000E-06", "5.868241E-06",
                                       "4.131759E-06", "2.500000E-06", "1.169778E-06",
                                       "3.015369E-07", "0.000000E+00"};
    for (int k = 0; k <= 10; k++)
        prints_as(&s, k, rows[k]);
}

static void linear_ends_at_its_floor(void **state)
{
    (void)state;
    const lt_schedule s = {LT_DECAY_LINEAR,    .lr = 1,   .lr_min = 0.5, .warmup_ratio = 0.25,
                           .decay_ratio = 0.1, .steps = 4};
    const double rates[] = {0, 1, 2.0 / 3.0, 1.0 / 3.0, 1e-7};
    for (int k = 0; k <= 4; k++)
        assert_near(lt_schedule_lr(&s, k), rates[k], 1e-15);
}

static void cosine_keeps_its_floor_behind_the_decay(void **state)
{
    (void)state;
    const lt_schedule s = {
        LT_DECAY_COSINE,    .lr = 1,    .lr_min = 0.1, .lr_start = 0.2, .warmup_ratio = 0.2,
        .decay_ratio = 0.6, .steps = 10};
    const double rates[] = {0.2, 0.6, 1,  0.8681980515339463, 0.55, 0.2318019484660537, 0.1, 0.1,
                            0.1, 0.1, 0.1};
    for (int k = 0; k <= 10; k++)
        assert_near(lt_schedule_lr(&s, k), rates[k], 1e-15);
}

static void a_constant_rate_stays_and_a_zero_peak_is_zero_everywhere(void **state)
{
    (void)state;
    lt_schedule s = {LT_DECAY_CONSTANT, .lr = 3e-4, .decay_ratio = 1, .steps = 5};
    for (int k = 0; k <= 5; k++)
        assert_true(lt_schedule_lr(&s, k) == 3e-4 && lt_schedule_factor(&s, k) == 1);
    s.lr = 0;
    for (int d = LT_DECAY_CONSTANT; d <= LT_DECAY_COSINE; d++) {
        s.decay = (lt_decay)d;
        assert_true(lt_schedule_lr(&s, 2) == 0 && lt_schedule_factor(&s, 2) == 0);
    }
}

static void a_group_follows_with_its_own_peak(void **state)
{
    (void)state;
    const lt_schedule s = {LT_DECAY_COSINE,     .lr = 2e-5,       .lr_min = 1e-6,
                           .warmup_ratio = 0.1, .decay_ratio = 1, .steps = 100};
    for (int k = 0; k <= 100; k += 7)
        assert_near(lt_schedule_factor(&s, k) * 2e-6, lt_schedule_lr(&s, k) * 0.1, 1e-20);
}

LT_TEST_MAIN(LT_TEST(cosine_over_2000_steps_has_the_published_rates),
             LT_TEST(cosine_over_10_steps_has_the_published_rates),
             LT_TEST(linear_ends_at_its_floor), LT_TEST(cosine_keeps_its_floor_behind_the_decay),
             LT_TEST(a_constant_rate_stays_and_a_zero_peak_is_zero_everywhere),
             LT_TEST(a_group_follows_with_its_own_peak))
