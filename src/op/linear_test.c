// SPDX-License-Identifier: Apache-2.0
#include "op/linear.h"
#include "tests/kit/op_kit.h"

static const lt_test_column ref = {.backend = LT_REF};

static void known_values_come_out(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "2x2", (float[]){1, 2, 3, 4}),
                            lt_test_f32(*state, "3x2", (float[]){1, 0, 0, 1, 1, -1}),
                            lt_test_f32(*state, "3", (float[]){10, 20, 30})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, out));
    assert_floats(&out[0], 0, 11, 22, 29, 13, 24, 29);
}

static void gradients_agree_with_finite_differences(void **state)
{
    lt_tensor in[] = {lt_test_random_f64(*state, "5x7", 1), lt_test_random_f64(*state, "3x7", 2),
                      lt_test_random_f64(*state, "3", 3)};
    assert_ok(lt_gradcheck(*state, &lt_op_linear, in, NULL, (lt_gradcheck_opts){.seed = 4}));
    in[2] = lt_test_none();
    assert_ok(lt_gradcheck(*state, &lt_op_linear, in, NULL, (lt_gradcheck_opts){.seed = 5}));
    in[1] = lt_test_random_f64(*state, "3x7x1x1", 6); // dw has the weight's own shape
    assert_ok(lt_gradcheck(*state, &lt_op_linear, in, NULL, (lt_gradcheck_opts){.seed = 7}));
}

// A video of CH channels and FR frames, cut into GY x GX patches of P x P pixels.
enum { CH = 3, FR = 2, P = 4, GY = 2, GX = 3, O = 5, K = CH * FR * P * P };

// Pixel of the video; patch rows and weights are flattened as (channel, frame, y, x).
static int64_t pixel(int64_t c, int64_t f, int64_t y, int64_t x)
{
    return ((c * FR + f) * GY * P + y) * GX * P + x;
}

static int64_t in_patch(int64_t c, int64_t f, int64_t y, int64_t x)
{
    return ((c * FR + f) * P + y) * P + x;
}

static double convolve(const lt_tensor *video, const lt_tensor *w, int64_t o, int64_t gy,
                       int64_t gx)
{
    double sum = 0.0;
    for (int c = 0; c < CH; c++) {
        for (int f = 0; f < FR; f++) {
            for (int y = 0; y < P; y++) {
                for (int x = 0; x < P; x++)
                    sum += lt_load(video, pixel(c, f, gy * P + y, gx * P + x)) *
                           lt_load(w, o * K + in_patch(c, f, y, x));
            }
        }
    }
    return sum;
}

// BR-34
static void patch_rows_times_a_weight_are_a_convolution_in_three_dims(void **state)
{
    const lt_tensor video = lt_test_random(*state, "3x2x8x12", 1);
    lt_tensor out[1],
        in[] = {lt_test_tensor(*state, LT_F32, "6x96"), lt_test_random(*state, "5x3x2x4x4", 2),
                lt_test_random(*state, "5", 3)};
    for (int64_t gy = 0; gy < GY; gy++) {
        for (int64_t gx = 0; gx < GX; gx++) {
            for (int64_t k = 0; k < K; k++) {
                lt_store(&in[0], (gy * GX + gx) * K + k,
                         lt_load(&video, pixel(k / FR / P / P, k / P / P % FR, gy * P + k / P % P,
                                               gx * P + k % P)));
            }
        }
    }
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, out));
    assert_int_equal(out[0].rank, 2);
    for (int64_t gy = 0; gy < GY; gy++) {
        for (int64_t gx = 0; gx < GX; gx++) {
            for (int64_t o = 0; o < O; o++)
                assert_near(lt_load(&out[0], (gy * GX + gx) * O + o),
                            convolve(&video, &in[1], o, gy, gx) + lt_load(&in[2], o), 2e-6);
        }
    }
}

static void bf16_adds_the_bias_before_the_one_rounding(void **state)
{
    // 1 + 2^-8 lies between two bf16 numbers; with the bias 2^-8 the sum 1 + 2^-7 is one of them
    const lt_tensor x = lt_test_f32(*state, "1x2", (float[]){1, 1}),
                    w = lt_test_f32(*state, "1x2", (float[]){1, 0x1p-8F}),
                    bias = lt_test_f32(*state, "1", (float[]){0x1p-8F});
    const lt_tensor in[] = {lt_test_converted(*state, &x, LT_BF16),
                            lt_test_converted(*state, &w, LT_BF16),
                            lt_test_converted(*state, &bias, LT_BF16)};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, out));
    assert_int_equal(out[0].dtype, LT_BF16);
    assert_floats(&out[0], 0, 1.0 + 0x1p-7);
}

static void no_rows_give_weight_gradients_of_zero(void **state)
{
    const lt_tensor in[] = {lt_test_tensor(*state, LT_F32, "0x4"), lt_test_random(*state, "2x4", 1),
                            lt_test_random(*state, "2", 2)};
    lt_tensor out[1], din[3] = {{0}};
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, out));
    assert_int_equal(out[0].dim[0], 0);
    din[1] = lt_test_garbage(*state, &in[1]);
    din[2] = lt_test_garbage(*state, &in[2]);
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_linear, in, NULL, out, out, din, 0));
    assert_floats(&din[1], 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_floats(&din[2], 0, 0, 0);
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_linear, in, NULL, out, out, din, LT_IN(1)));
    assert_floats(&din[1], 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void a_bf16_weight_may_have_an_f32_gradient(void **state)
{
    const lt_tensor x = lt_test_f32(*state, "2x1", (float[]){1, 0x1p-9F}),
                    w = lt_test_f32(*state, "1x1", (float[]){1}),
                    one = lt_test_f32(*state, "2x1", (float[]){1, 1});
    const lt_tensor in[] = {lt_test_converted(*state, &x, LT_BF16),
                            lt_test_converted(*state, &w, LT_BF16), lt_test_none()};
    const lt_tensor dout[] = {lt_test_converted(*state, &one, LT_BF16)};
    lt_tensor out[1], din[3] = {{0}};
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, out));
    din[1] = lt_test_garbage(*state, &w);
    assert_ok(lt_test_backward_on(*state, ref, &lt_op_linear, in, NULL, out, dout, din, 0));
    assert_floats(&din[1], 0, 1.0 + 0x1p-9); // bf16 would lose the second term
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "3x9", 2),
                      lt_test_none()},
              out[1];
    assert_fails(lt_test_forward(*state, &lt_op_linear, in, NULL, out), LT_ERR_SHAPE,
                 "got f32[4,8] and f32[3,9]");
    in[1] = lt_test_random_f64(*state, "3x8", 2);
    assert_fails(lt_test_forward(*state, &lt_op_linear, in, NULL, out), LT_ERR_DTYPE,
                 "w as f32, got f64[3,8]");
    in[1] = lt_test_random(*state, "3x8", 2);
    in[2] = lt_test_random(*state, "4", 2);
    assert_fails(lt_test_forward(*state, &lt_op_linear, in, NULL, out), LT_ERR_SHAPE,
                 "bias as f32[3], got f32[4]");
    in[1] = lt_test_none();
    assert_fails(lt_test_forward(*state, &lt_op_linear, in, NULL, out), LT_ERR_SHAPE,
                 "needs w, which is not given");
}

static void flops_count_multiplications_and_additions(void **state)
{
    const lt_tensor x = lt_test_random(*state, "5x7", 1), w = lt_test_random(*state, "3x7", 1);
    const lt_op_args a = {.def = &lt_op_linear, .in = {&x, &w}};
    assert_int_equal(lt_op_linear.flops(&a), 2 * 5 * 7 * 3);
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(patch_rows_times_a_weight_are_a_convolution_in_three_dims),
             LT_TEST(bf16_adds_the_bias_before_the_one_rounding),
             LT_TEST(no_rows_give_weight_gradients_of_zero),
             LT_TEST(a_bf16_weight_may_have_an_f32_gradient),
             LT_TEST(shapes_that_do_not_fit_are_named),
             LT_TEST(flops_count_multiplications_and_additions))
