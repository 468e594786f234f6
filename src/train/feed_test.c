// SPDX-License-Identifier: Apache-2.0
#include "tests/kit/lt_test.h"
#include "train/feed.h"

// Two micro-batches of two samples: 2 and 1 targets; 3 and none. One label of the last stands in
// its first column, where it is counted but never predicted: 7 labels, 6 targets.
typedef struct step {
    lt_batch batch[2];
    const lt_batch *at[2];
} step;
static int32_t sample_of_first[] = {0, 0, 1}, sample_of_second[] = {0, 0, 0};
static int64_t targets_of_first[] = {2, 1}, targets_of_second[] = {3, 0};

static void make_step(step *s)
{
    *s = (step){.batch = {{.n_samples = 2,
                           .n_targets = 3,
                           .n_labels = 3,
                           .target_sample = sample_of_first,
                           .sample_targets = targets_of_first},
                          {.n_samples = 2,
                           .n_targets = 3,
                           .n_labels = 4,
                           .target_sample = sample_of_second,
                           .sample_targets = targets_of_second}}};
    s->at[0] = &s->batch[0];
    s->at[1] = &s->batch[1];
}

static void assert_weights(lt_loss_type type, const double *first, const double *second)
{
    step s;
    make_step(&s);
    const double *want[] = {first, second};
    const lt_loss_counts counts = lt_count_losses(s.at, 2);
    assert_int_equal(counts.targets, 6);
    assert_int_equal(counts.labels, 7);
    for (int64_t i = 0; i < 2; i++) {
        float kappa[3] = {-1, -1, -1};
        lt_loss_weights(type, s.at, 2, &counts, i, kappa);
        for (int k = 0; k < 3; k++)
            assert_near((double)kappa[k], want[i][k], 1e-7); // the rounding of a float
    }
}

// Means of micro-batches of 3 targets each, over 2 micro-batches.
static void raw_and_default_are_means_of_means(void **state)
{
    (void)state;
    const double each[] = {1.0 / 6, 1.0 / 6, 1.0 / 6};
    assert_weights(LT_LOSS_RAW, each, each);
    assert_weights(LT_LOSS_DEFAULT, each, each);
}

// 2 micro-batches of 2 samples: a quarter for each sample, shared by its targets. A sample without
// targets still counts among the 2.
static void per_sample_gives_each_sample_its_share(void **state)
{
    (void)state;
    assert_weights(LT_LOSS_PER_SAMPLE, (const double[]){1.0 / 8, 1.0 / 8, 1.0 / 4},
                   (const double[]){1.0 / 12, 1.0 / 12, 1.0 / 12});
}

static void per_token_counts_labels_of_the_whole_step(void **state)
{
    (void)state;
    const double each[] = {1.0 / 7, 1.0 / 7, 1.0 / 7};
    assert_weights(LT_LOSS_PER_TOKEN, each, each);
}

// Samples begin at rows 0 and 4. Targets stand at rows 0, 2 and 3 of the first, 4 and 5 of the
// other: as the token after next of the row before, those at 0 and 4 have no row in their sample.
static void the_token_after_next_counts_those_that_have_a_row_before(void **state)
{
    (void)state;
    int32_t rows[] = {0, 2, 3, 4, 5}, sample[] = {0, 0, 0, 1, 1}, segments[] = {0, 4, 7};
    int64_t of_sample[] = {3, 2};
    const lt_batch b = {.n_samples = 2,
                        .n_targets = 5,
                        .target_rows = rows,
                        .target_sample = sample,
                        .segments = segments,
                        .sample_targets = of_sample};
    const lt_batch *at[] = {&b, &b};
    const lt_loss_counts counts = {.targets = 10, .labels = 12};
    static const double want[][5] = {[LT_LOSS_RAW] = {0, 1.0 / 6, 1.0 / 6, 0, 1.0 / 6},
                                     [LT_LOSS_DEFAULT] = {0, 1.0 / 6, 1.0 / 6, 0, 1.0 / 6},
                                     [LT_LOSS_PER_SAMPLE] = {0, 1.0 / 8, 1.0 / 8, 0, 1.0 / 4},
                                     [LT_LOSS_PER_TOKEN] = {0, 0.1, 0.1, 0, 0.1}};
    for (int type = LT_LOSS_RAW; type <= LT_LOSS_PER_TOKEN; type++) {
        float kappa[5];
        lt_next_weights((lt_loss_type)type, at, 2, &counts, 0, 0.5, kappa);
        for (int k = 0; k < 5; k++)
            assert_near((double)kappa[k], 0.5 * want[type][k], 1e-7);
    }
}

// BR-43: nothing to divide by.
static void a_micro_batch_without_targets_weighs_nothing(void **state)
{
    (void)state;
    step s;
    make_step(&s);
    s.batch[1] = (lt_batch){.n_samples = 2};
    const lt_loss_counts counts = lt_count_losses(s.at, 2);
    for (int type = LT_LOSS_RAW; type <= LT_LOSS_PER_TOKEN; type++) {
        float kappa[3] = {0};
        lt_loss_weights((lt_loss_type)type, s.at, 2, &counts, 1, kappa); // writes none
        assert_true(kappa[0] == 0.0F);
    }
    float kappa[3];
    lt_loss_weights(LT_LOSS_DEFAULT, s.at, 2, &counts, 0, kappa);
    assert_near((double)kappa[0], 1.0 / 6, 1e-7);
}

LT_TEST_MAIN(LT_TEST(raw_and_default_are_means_of_means),
             LT_TEST(per_sample_gives_each_sample_its_share),
             LT_TEST(per_token_counts_labels_of_the_whole_step),
             LT_TEST(a_micro_batch_without_targets_weighs_nothing),
             LT_TEST(the_token_after_next_counts_those_that_have_a_row_before))
