// SPDX-License-Identifier: Apache-2.0
#include "op/linear_cross_entropy.h"
#include "tests/kit/cpu_kit.h"
#include <stdio.h>

static lt_tensor targets_below(void **state, int n, int vocab)
{
    int32_t v[512];
    char shape[16];
    for (int i = 0; i < n; i++)
        v[i] = (int32_t)((unsigned)i * 2654435761U % (unsigned)vocab);
    (void)snprintf(shape, sizeof shape, "%d", n);
    return lt_test_i32(*state, shape, v);
}

static void agree_at(void **state, int n, int width, int vocab, int64_t chunk, double scale)
{
    const lt_linear_cross_entropy_attr attr = {.chunk = chunk};
    char h[32], w[32], k[32];
    (void)snprintf(h, sizeof h, "%dx%d", n, width);
    (void)snprintf(w, sizeof w, "%dx%d", vocab, width);
    (void)snprintf(k, sizeof k, "%d", n);
    const lt_tensor in[] = {
        lt_test_random(*state, h, 1), lt_test_random_of(*state, LT_F32, w, 2, scale),
        targets_below(state, n, vocab), lt_test_random_of(*state, LT_F32, k, 3, 0.3)};
    lt_test_cpu_agrees(
        *state, &(lt_cpu_check){
                    .def = &lt_op_linear_cross_entropy,
                    .attr = &attr,
                    .in = in,
                    .wide = LT_IN(3),
                    .no_grad = LT_IN(3),
                    .params = LT_IN(1),
                    .no_upstream = LT_OUT(0),
                    .tol = 4e-6,
                    .tol_bf16 = 0.02}); // a logit that rounds the other way moves its delta by 2^-7
}

static void agree(void **state, int n, int width, int vocab, int64_t chunk)
{
    agree_at(state, n, width, vocab, chunk, 0.4);
}

// BR-42: losses of 12 and far more, where a softmax without its maximum overflows.
static void large_logits_agree_with_the_reference(void **state)
{
    agree_at(state, 2, 4, 20011, 1, 1);
    agree_at(state, 5, 8, 97, 2, 10);
    agree_at(state, 5, 8, 97, 2, 200);
}

static void loss_and_gradients_agree_with_the_reference(void **state)
{
    agree(state, 1, 1, 1, 4);
    agree(state, 31, 33, 65, 1024);
    agree(state, 33, 31, 130, 8); // several chunks, the last one short
    agree(state, 0, 8, 16, 8);
    agree(state, 3, 8, 4200, 2); // the vocabulary takes two tiles
}

static void a_loss_near_zero_keeps_its_digits(void **state)
{
    const lt_linear_cross_entropy_attr attr = {.chunk = 4};
    // z = (30, 0): the loss is log(1 + e^-30) = 9.36e-14, far below the rounding of 30
    const lt_tensor in[] = {
        lt_test_f32(*state, "1x1", (float[]){30}), lt_test_f32(*state, "2x1", (float[]){1, 0}),
        lt_test_i32(*state, "1", (int32_t[]){0}), lt_test_f32(*state, "1", (float[]){1})};
    lt_tensor out[1], din[4] = {lt_test_garbage(*state, &in[0]), lt_test_garbage(*state, &in[1])},
                      dout[1] = {{0}};
    assert_ok(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU},
                                 &lt_op_linear_cross_entropy, in, &attr, out));
    assert_near(lt_load(&out[0], 0), 0.0, 2e-7); // 1 + e^-30 is 1 in f32 sums
    assert_ok(lt_test_backward_on(*state, (lt_test_column){.backend = LT_CPU},
                                  &lt_op_linear_cross_entropy, in, &attr, out, dout, din, 0));
    assert_near(lt_load(&out[0], 0), 0.0, 2e-7);
    assert_true(lt_load(&din[1], 1) > 2.8e-12 && lt_load(&din[1], 1) < 2.9e-12); // 30 e^-30
}

static void a_target_outside_the_vocabulary_is_refused(void **state)
{
    const lt_linear_cross_entropy_attr attr = {.chunk = 4};
    const lt_tensor in[] = {lt_test_random(*state, "1x3", 1), lt_test_random(*state, "5x3", 2),
                            lt_test_i32(*state, "1", (int32_t[]){5}),
                            lt_test_f32(*state, "1", (float[]){1})};
    lt_tensor out[1];
    assert_fails(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU},
                                    &lt_op_linear_cross_entropy, in, &attr, out),
                 LT_ERR_DATA, "targets[0] is 5, not in 0 to 4");
}

LT_TEST_MAIN(LT_TEST(loss_and_gradients_agree_with_the_reference),
             LT_TEST(large_logits_agree_with_the_reference),
             LT_TEST(a_loss_near_zero_keeps_its_digits),
             LT_TEST(a_target_outside_the_vocabulary_is_refused))
