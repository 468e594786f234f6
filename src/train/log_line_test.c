// SPDX-License-Identifier: Apache-2.0
#include "tests/kit/lt_test.h"
#include "train/log_line.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

static void use_utc(void)
{
    setenv("TZ", "UTC", 1); // NOLINT(concurrency-mt-unsafe): one thread
    tzset();
}

static void a_step_prints_to_the_character(void **state)
{
    (void)state;
    use_utc();
    lt_buf out = {0};
    const lt_step_line line = {.unix_seconds = 1767323045,
                               .iteration = 1,
                               .n_iterations = 10000,
                               .consumed_samples = 8,
                               .elapsed_ms = 6603.74,
                               .lr = 0,
                               .global_batch = 8,
                               .loss = 10.1657,
                               .grad_norm = 50.0006};
    assert_ok(lt_step_line_text(&line, &out));
    assert_text_equal(out.data, " [2026-01-02 03:04:05] iteration        1/   10000 | consumed "
                                "samples:            8 | elapsed time per iteration (ms): 6603.7 | "
                                "learning rate: 0.000000E+00 | global batch size:     8 | loss: "
                                "1.016570E+01 | grad norm: 50.001 |");
    lt_buf_deinit(&out);
}

// BR-51: the pooled figure hides what one layer does.
static void experts_have_a_line_with_a_figure_for_each_layer(void **state)
{
    (void)state;
    static const double layers[] = {1.0, 3.99996, 0.0 / 1.0};
    lt_buf out = {0};
    const lt_experts_line line = {.layers = layers, .n = 3, .layer = 1, .expert = 7, .share = 2.5};
    assert_ok(lt_experts_line_text(&line, &out));
    assert_text_equal(out.data, " aux loss of layers: 1.0000 4.0000 0.0000 | busiest: expert 7 of "
                                "layer 1, 2.50 times an even share |");
    lt_buf_deinit(&out);
}

static void extra_losses_stand_between_loss_and_norm(void **state)
{
    (void)state;
    use_utc();
    lt_buf out = {0};
    const double mtp[] = {2.5, 0.125};
    const lt_step_line line = {.iteration = 123456789,
                               .n_iterations = 123456789,
                               .consumed_samples = 1234567890123,
                               .elapsed_ms = 0.04,
                               .lr = 1e-5,
                               .global_batch = 123456,
                               .loss = -1e-100,
                               .mtp_losses = mtp,
                               .n_mtp = 2,
                               .aux_loss = 3.0,
                               .grad_norm = 0.0004};
    assert_ok(lt_step_line_text(&line, &out));
    assert_text_equal(out.data,
                      " [1970-01-01 00:00:00] iteration 123456789/123456789 | consumed samples: "
                      "1234567890123 | elapsed time per iteration (ms): 0.0 | "
                      "learning rate: 1.000000E-05 | global batch size: 123456 | loss: "
                      "-1.000000E-100 | mtp_1 loss: 2.500000E+00 | mtp_2 loss: 1.250000E-01 | "
                      "aux loss: 3.000000E+00 | grad norm: 0.000 |");
    lt_buf_deinit(&out);
}

static void numbers_that_are_none_print_in_capitals(void **state)
{
    (void)state;
    use_utc();
    lt_buf out = {0};
    const lt_step_line line = {.loss = -(double)NAN, .aux_loss = -HUGE_VAL, .grad_norm = HUGE_VAL};
    assert_ok(lt_step_line_text(&line, &out));
    assert_text_contains(out.data, "| loss: NAN | aux loss: -INF | grad norm: INF |");
    lt_buf_clear(&out);
    assert_ok(lt_step_line_text(&(lt_step_line){.grad_norm = (double)NAN}, &out));
    assert_text_contains(out.data, "| grad norm: NAN |");
    lt_buf_deinit(&out);
}

static void the_other_lines_print_to_the_character(void **state)
{
    (void)state;
    use_utc();
    lt_buf out = {0};
    assert_ok(lt_validation_line_text(1767323045, 500, 25, 1.5, &out));
    assert_text_equal(out.data, " [2026-01-02 03:04:05] ** validation after iteration 500 ** | "
                                "validation steps: 25 | validation loss: 1.500000E+00 |");
    lt_buf_clear(&out);
    const lt_memory_line memory = {.rank = 3,
                                   .iterations = 2,
                                   .allocated = 1 << 20,
                                   .max_allocated = (1 << 20) + 1,
                                   .reserved = INT64_C(5) << 39,
                                   .max_reserved = 1};
    assert_ok(lt_memory_line_text(&memory, &out));
    assert_text_equal(
        out.data, "[Rank 3] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: "
                  "1.0000009536743164 | reserved: 2621440.0 | max reserved: 9.5367431640625e-07");
    lt_buf_clear(&out);
    assert_ok(lt_saved_line_text("out/iter_0000010", &out));
    assert_text_equal(out.data, "Saved checkpoint to out/iter_0000010");
    lt_buf_clear(&out);
    assert_ok(lt_loaded_line_text("out", &out));
    assert_text_equal(out.data, "Loaded checkpoint from out");
    lt_buf_deinit(&out);
}

LT_TEST_MAIN(LT_TEST(a_step_prints_to_the_character),
             LT_TEST(extra_losses_stand_between_loss_and_norm),
             LT_TEST(experts_have_a_line_with_a_figure_for_each_layer),
             LT_TEST(numbers_that_are_none_print_in_capitals),
             LT_TEST(the_other_lines_print_to_the_character))
