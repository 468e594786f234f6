// SPDX-License-Identifier: Apache-2.0
#include "op/embedding.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <stdio.h>

static const lt_test_column ref = {.backend = LT_REF};
static const lt_linear_cross_entropy_attr whole = {.chunk = LT_LOSS_CHUNK};
enum { H, W, TARGETS, KAPPA };

// Loss, dh and dw in one go, as training has them. Give a din with data for what is asked.
static lt_status yield(void *state, const lt_tensor *in, int64_t chunk, lt_tensor *loss,
                       lt_tensor *dh, lt_tensor *dw)
{
    const lt_linear_cross_entropy_attr attr = {.chunk = chunk};
    const lt_tensor none[1] = {{0}}, shape = lt_tensor_1d(lt_wide_dtype(in[H].dtype), 1);
    lt_tensor din[4] = {{0}};
    *loss = lt_test_garbage(state, &shape);
    if (dh)
        din[H] = *dh = lt_test_garbage(state, &in[H]);
    if (dw) {
        const lt_tensor wide = lt_tensor_as(&in[W], lt_wide_dtype(in[W].dtype));
        din[W] = *dw = lt_test_garbage(state, &wide);
    }
    return lt_test_backward_on(state, ref, &lt_op_linear_cross_entropy, in, &attr, loss, none, din,
                               0);
}

static void known_values_come_out(void **state)
{
    // logits (0, ln 3): softmax (1/4, 3/4)
    const lt_tensor in[] = {lt_test_f64(*state, "1x1", (double[]){log(3)}),
                            lt_test_f64(*state, "2x1", (double[]){0, 1}),
                            lt_test_i32(*state, "1", (int32_t[]){0}),
                            lt_test_f32(*state, "1", (float[]){0.5F})};
    lt_tensor out[1], dh, dw;
    assert_ok(lt_test_forward(*state, &lt_op_linear_cross_entropy, in, &whole, out));
    assert_floats(&out[0], 1e-15, 0.5 * log(4));
    assert_ok(yield(*state, in, 1024, &out[0], &dh, &dw));
    assert_floats(&out[0], 1e-15, 0.5 * log(4));
    assert_floats(&dh, 1e-15, 0.375);
    assert_floats(&dw, 1e-15, -0.375 * log(3), 0.375 * log(3));
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_gradcheck_opts opts = {.seed = 3, .no_grad = LT_IN(KAPPA)};
    const lt_tensor in[] = {
        lt_test_random_f64(*state, "5x3", 1), lt_test_random_f64(*state, "7x3", 2),
        lt_test_i32(*state, "5", (int32_t[]){0, 6, 3, 3, 1}), lt_test_random(*state, "5", 4)};
    assert_ok(lt_gradcheck(*state, &lt_op_linear_cross_entropy, in, &whole, opts));
    const lt_linear_cross_entropy_attr two = {.chunk = 2};
    assert_ok(lt_gradcheck(*state, &lt_op_linear_cross_entropy, in, &two, opts));
    const lt_tensor none[] = {lt_test_tensor(*state, LT_F64, "0x3"), in[W],
                              lt_test_i32(*state, "0", NULL), lt_test_tensor(*state, LT_F32, "0")};
    assert_ok(lt_gradcheck(*state, &lt_op_linear_cross_entropy, none, &whole, opts));
}

// The plain way: all logits, softmax, and linear's own backward.
static double plain(void *state, const lt_tensor *in, lt_tensor *dh, lt_tensor *dw)
{
    const lt_tensor product[] = {in[H], in[W], lt_test_none()};
    lt_tensor z[1], din[3] = {{0}};
    assert_ok(lt_test_forward(state, &lt_op_linear, product, NULL, z));
    const int64_t n = z[0].dim[0], vocab = z[0].dim[1];
    const lt_tensor dz = lt_test_garbage(state, &z[0]);
    double loss = 0.0;
    for (int64_t t = 0; t < n; t++) {
        const int32_t target = lt_index(&in[TARGETS])[t];
        double sum = 0.0;
        for (int64_t v = 0; v < vocab; v++)
            sum += exp(lt_load(&z[0], t * vocab + v));
        loss += lt_load(&in[KAPPA], t) * (log(sum) - lt_load(&z[0], t * vocab + target));
        for (int64_t v = 0; v < vocab; v++)
            ((double *)dz.data)[t * vocab + v] =
                lt_load(&in[KAPPA], t) * (exp(lt_load(&z[0], t * vocab + v)) / sum - (v == target));
    }
    din[0] = *dh = lt_test_garbage(state, &in[H]);
    din[1] = *dw = lt_test_garbage(state, &in[W]);
    assert_ok(lt_test_backward_on(state, ref, &lt_op_linear, product, NULL, z, &dz, din, 0));
    return loss;
}

static void random_batch(void *state, lt_dtype dtype, lt_tensor *in)
{
    enum { ROWS = 13, VOCAB = 33 };
    int32_t targets[ROWS];
    for (int t = 0; t < ROWS; t++)
        targets[t] = t * 7 % VOCAB;
    in[H] = lt_test_random_of(state, dtype, "13x5", 1, 1.0);
    in[W] = lt_test_random_of(state, dtype, "33x5", 2, 1.0);
    in[TARGETS] = lt_test_i32(state, "13", targets);
    in[KAPPA] = lt_test_random(state, "13", 3);
}

// BR-40
static void every_chunk_length_gives_the_gradients_of_the_plain_way(void **state)
{
    lt_tensor in[4], loss, dh, dw, plain_dh, plain_dw;
    random_batch(*state, LT_F64, in);
    const double want = plain(*state, in, &plain_dh, &plain_dw);
    const int64_t chunks[] = {1, 2, 3, 7, 12, 13, 14, 1024};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        assert_ok(yield(*state, in, chunks[i], &loss, &dh, &dw));
        assert_near(lt_load(&loss, 0), want, 1e-13);
        assert_true(lt_test_difference(&dh, &plain_dh) < 1e-14);
        assert_true(lt_test_difference(&dw, &plain_dw) < 1e-14);
    }
}

// BR-40: summed in bf16, the head's gradient would differ by 2^-9 at every chunk
static void the_heads_gradient_of_bf16_rows_is_summed_in_fp32(void **state)
{
    lt_tensor in[4], loss[2], dh[2], dw[2];
    random_batch(*state, LT_BF16, in);
    assert_ok(yield(*state, in, 1024, &loss[0], &dh[0], &dw[0]));
    assert_ok(yield(*state, in, 1, &loss[1], &dh[1], &dw[1]));
    assert_int_equal(dw[0].dtype, LT_F32);
    assert_memory_equal(loss[0].data, loss[1].data, sizeof(float));
    assert_memory_equal(dh[0].data, dh[1].data, lt_tensor_bytes(&dh[0]));
    assert_true(lt_test_difference(&dw[1], &dw[0]) < 1e-6);
}

static void bf16_narrows_logits_and_their_gradients(void **state)
{
    // z = 1 + 2^-8 becomes 1: delta = (e / (1 + e), -e / (1 + e)) in bf16
    const lt_tensor h = lt_test_f32(*state, "1x2", (float[]){1, 0x1p-8F}),
                    w = lt_test_f32(*state, "2x2", (float[]){1, 1, 0, 0});
    const lt_tensor in[] = {
        lt_test_converted(*state, &h, LT_BF16), lt_test_converted(*state, &w, LT_BF16),
        lt_test_i32(*state, "1", (int32_t[]){1}), lt_test_f32(*state, "1", (float[]){1})};
    const double p = lt_narrowed(LT_BF16, exp(1) / (1 + exp(1)));
    lt_tensor loss, dh, dw;
    assert_ok(yield(*state, in, 8, &loss, &dh, &dw));
    assert_int_equal(loss.dtype, LT_F32);
    assert_floats(&loss, 1e-7, log(1 + exp(1)));
    assert_floats(&dh, 0, p, p);
    assert_floats(&dw, 1e-9, p, p * 0x1p-8, -p, -p * 0x1p-8);
}

// BR-42: Qwen's vocabulary under a head that knows nothing
static void a_random_head_over_the_full_vocabulary_has_a_loss_of_twelve(void **state)
{
    enum { VOCAB = 151936, N = 2, K = 4 };
    const lt_tensor in[] = {lt_test_random_of(*state, LT_F32, "2x4", 1, 0.5),
                            lt_test_random_of(*state, LT_F32, "151936x4", 2, 0.5),
                            lt_test_i32(*state, "2", (int32_t[]){151935, 77}),
                            lt_test_f32(*state, "2", (float[]){0.75F, 0.25F})};
    lt_tensor loss, dh, dw;
    assert_ok(yield(*state, in, 1, &loss, &dh, &dw));
    double want = 0.0;
    for (int64_t t = 0; t < N; t++) {
        double sum = 0.0, at_target = 0.0, dh_0 = 0.0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t v = 0; v < VOCAB; v++) {
                double score = 0.0;
                for (int64_t k = 0; k < K; k++)
                    score += lt_load(&in[H], t * K + k) * lt_load(&in[W], v * K + k);
                if (v == lt_index(&in[TARGETS])[t])
                    at_target = score;
                if (pass == 0)
                    sum += exp(score);
                else
                    dh_0 += exp(score) / sum * lt_load(&in[W], v * K);
            }
        }
        dh_0 -= lt_load(&in[W], (int64_t)lt_index(&in[TARGETS])[t] * K);
        want += lt_load(&in[KAPPA], t) * (log(sum) - at_target);
        assert_near(lt_load(&dh, t * K), lt_load(&in[KAPPA], t) * dh_0, 1e-7);
    }
    assert_near(want, 12.0, 1.0);
    assert_near(lt_load(&loss, 0), want, 1e-6);
    double column = 0.0; // over the vocabulary, delta sums to zero
    for (int64_t v = 0; v < VOCAB; v++)
        column += lt_load(&dw, v * K);
    assert_near(column, 0.0, 1e-5);
}

static void logits_of_ten_thousand_stay_exact(void **state)
{
    // rows (1e4, -1e4) and (-1e4, 1e4), (0, 0): losses 0, 2e4, ln 2 for target 0
    const lt_tensor in[] = {lt_test_f32(*state, "3x1", (float[]){1, -1, 0}),
                            lt_test_f32(*state, "2x1", (float[]){1e4F, -1e4F}),
                            lt_test_i32(*state, "3", (int32_t[]){0, 0, 0}),
                            lt_test_f32(*state, "3", (float[]){1, 1, 2})};
    lt_tensor loss, dh, dw;
    assert_ok(yield(*state, in, 2, &loss, &dh, &dw));
    assert_floats(&loss, 2e-3, 20000 + 2 * log(2)); // half an ulp of 2e4 in fp32 is 1e-3
    assert_floats(&dh, 0, 0, -20000, -20000);
    assert_floats(&dw, 0, 1, -1);
    for (int dtype = LT_F64; dtype <= LT_BF16;
         dtype++) { // many equal logits of +-1e4: the loss is ln V whatever they are
        lt_tensor flat[] = {lt_test_tensor(*state, (lt_dtype)dtype, "1x1"),
                            lt_test_tensor(*state, (lt_dtype)dtype, "1000x1"), in[2], in[3]};
        flat[TARGETS] = lt_test_i32(*state, "1", (int32_t[]){999});
        flat[KAPPA] = lt_test_f32(*state, "1", (float[]){1});
        lt_store(&flat[H], 0, -9984); // a bf16 number
        for (int v = 0; v < 1000; v++)
            lt_store(&flat[W], v, 1);
        assert_ok(yield(*state, flat, 1, &loss, &dh, &dw));
        assert_floats(&loss, 1e-6, log(1000));
        assert_near(lt_load(&dh, 0), 0, dtype == LT_BF16 ? 0x1p-9 : 1e-6);
    }
}

static void a_small_loss_keeps_its_digits(void **state)
{
    const lt_tensor in[] = {lt_test_f64(*state, "1x1", (double[]){1}),
                            lt_test_f64(*state, "2x1", (double[]){1000, 970}),
                            lt_test_i32(*state, "1", (int32_t[]){0}),
                            lt_test_f32(*state, "1", (float[]){1})};
    lt_tensor loss;
    assert_ok(yield(*state, in, 1, &loss, NULL, NULL));
    assert_near(lt_load(&loss, 0) / log1p(exp(-30.0)), 1.0, 1e-2);
}

static void a_tied_heads_gradient_adds_to_the_embeddings(void **state)
{
    lt_tensor in[4], loss, dh, dw, din[4] = {{0}}, words[2], out[1];
    random_batch(*state, LT_F64, in);
    words[0] = lt_test_i32(*state, "4", (int32_t[]){3, 32, 3, 0});
    words[1] = in[W];
    assert_ok(lt_test_forward(*state, &lt_op_embedding, words, NULL, out));
    const lt_tensor dx = lt_test_random_f64(*state, "4x5", 9);
    lt_tensor embedding_din[2] = {{0}, lt_test_garbage(*state, &in[W])};
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_embedding, words, NULL, out, &dx,
                                  embedding_din, 0));
    const lt_tensor alone = lt_test_converted(*state, &embedding_din[1], LT_F64), none[1] = {{0}};
    assert_ok(yield(*state, in, 4, &loss, &dh, &dw));
    din[W] = embedding_din[1]; // the head is the second writer of the one gradient
    const lt_linear_cross_entropy_attr attr = {.chunk = 4};
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_linear_cross_entropy, in, &attr, &loss, none,
                                  din, LT_IN(W)));
    for (int64_t k = 0; k < lt_n_elems(&alone); k++)
        assert_near(lt_load(&din[W], k), lt_load(&alone, k) + lt_load(&dw, k), 1e-14);
}

static void no_targets_give_a_loss_of_zero(void **state)
{
    const lt_tensor in[] = {lt_test_tensor(*state, LT_F32, "0x2"), lt_test_random(*state, "3x2", 1),
                            lt_test_i32(*state, "0", NULL), lt_test_tensor(*state, LT_F32, "0")};
    lt_tensor loss, dh, dw, out[1];
    assert_ok(yield(*state, in, 1024, &loss, &dh, &dw));
    assert_floats(&loss, 0, 0);
    assert_floats(&dw, 0, 0, 0, 0, 0, 0, 0);
    assert_ok(lt_test_forward(*state, &lt_op_linear_cross_entropy, in, &whole, out));
    assert_floats(&out[0], 0, 0);
}

static void a_target_outside_the_vocabulary_is_named(void **state)
{
    lt_tensor in[4], out[1];
    random_batch(*state, LT_F32, in);
    ((int32_t *)in[TARGETS].data)[4] = 33;
    assert_fails(lt_test_forward(*state, &lt_op_linear_cross_entropy, in, &whole, out), LT_ERR_DATA,
                 "targets[4] is 33, not in 0 to 32");
    in[KAPPA] = lt_test_random(*state, "12", 1);
    assert_fails(lt_test_forward(*state, &lt_op_linear_cross_entropy, in, &whole, out),
                 LT_ERR_SHAPE, "kappa as f32[13], got f32[12]");
}

static void scratch_grows_with_the_rows_up_to_a_chunk(void **state)
{
    size_t before = 0;
    const lt_linear_cross_entropy_attr attr = {.chunk = 4};
    for (int n = 0; n < 9; n++) {
        char shape[16];
        (void)snprintf(shape, sizeof shape, "%dx2", n);
        const lt_tensor h = lt_test_tensor(*state, LT_F32, shape),
                        w = lt_test_tensor(*state, LT_F32, "5x2");
        const lt_op_args a = {.def = &lt_op_linear_cross_entropy, .attr = &attr, .in = {&h, &w}};
        const size_t now = lt_op_linear_cross_entropy.scratch(&a, LT_BACKWARD);
        assert_true(n == 0 ? now == 0 : now >= before);
        if (n > 4)
            assert_int_equal(now, before);
        before = now;
    }
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(every_chunk_length_gives_the_gradients_of_the_plain_way),
             LT_TEST(the_heads_gradient_of_bf16_rows_is_summed_in_fp32),
             LT_TEST(bf16_narrows_logits_and_their_gradients),
             LT_TEST(a_random_head_over_the_full_vocabulary_has_a_loss_of_twelve),
             LT_TEST(logits_of_ten_thousand_stay_exact), LT_TEST(a_small_loss_keeps_its_digits),
             LT_TEST(a_tied_heads_gradient_adds_to_the_embeddings),
             LT_TEST(no_targets_give_a_loss_of_zero),
             LT_TEST(a_target_outside_the_vocabulary_is_named),
             LT_TEST(scratch_grows_with_the_rows_up_to_a_chunk))
