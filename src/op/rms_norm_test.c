// SPDX-License-Identifier: Apache-2.0
#include "op/add.h"
#include "op/rms_norm.h"
#include "tests/kit/op_kit.h"
#include <math.h>

static const lt_rms_norm_attr eps6 = {.eps = 1e-6};

static void known_values_come_out(void **state)
{
    // mean square of (3, 4, 0, 0) is 25/4: r = 2/5
    const lt_tensor in[] = {lt_test_f32(*state, "1x4", (float[]){3, 4, 0, 0}),
                            lt_test_f32(*state, "4", (float[]){1, 2, 3, 4})};
    const lt_rms_norm_attr none = {.eps = 0};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_rms_norm, in, &none, out));
    assert_floats(&out[0], 1e-6, 1.2, 3.2, 0, 0);
}

static void eps_stands_inside_the_root(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "1x2", (float[]){0.001F, -0.001F}),
                            lt_test_f32(*state, "2", (float[]){1, 1})};
    lt_tensor out[1];
    assert_ok(
        lt_test_forward(*state, &lt_op_rms_norm, in, &eps6, out)); // (1e-6 + 1e-6)^-1/2 / 1000
    assert_floats(&out[0], 1e-6, 0.70710678, -0.70710678);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_tensor in[] = {lt_test_random_f64(*state, "5x7", 1),
                            lt_test_random_f64(*state, "7", 2)};
    assert_ok(lt_gradcheck(*state, &lt_op_rms_norm, in, &eps6, (lt_gradcheck_opts){.seed = 3}));
    const lt_tensor sum[] = {lt_test_random_f64(*state, "4x5", 4),
                             lt_test_random_f64(*state, "4x5", 5),
                             lt_test_random_f64(*state, "5", 6)};
    assert_ok(
        lt_gradcheck(*state, &lt_op_add_rms_norm, sum, &eps6, (lt_gradcheck_opts){.seed = 7}));
    const lt_tensor none[] = {lt_test_tensor(*state, LT_F64, "0x5"),
                              lt_test_random_f64(*state, "5", 6)};
    assert_ok(lt_gradcheck(*state, &lt_op_rms_norm, none, &eps6, (lt_gradcheck_opts){.seed = 7}));
}

static void bf16_narrows_the_normalised_row_and_then_the_product(void **state)
{
    lt_tensor x = lt_test_random_of(*state, LT_BF16, "3x33", 1, 1.0), out[1];
    const lt_tensor in[] = {x, lt_test_random_of(*state, LT_BF16, "33", 2, 1.0)};
    assert_ok(lt_test_forward(*state, &lt_op_rms_norm, in, &eps6, out));
    int differ =
        0; // from a single narrowing: the test would see nothing if the two forms always agreed
    for (int row = 0; row < 3; row++) {
        double square = 0.0;
        for (int j = 0; j < 33; j++)
            square += lt_load(&x, row * 33 + j) * lt_load(&x, row * 33 + j) / 33.0;
        const double r = 1.0 / sqrt(square + 1e-6);
        for (int j = 0; j < 33; j++) {
            const double xhat = lt_load(&x, row * 33 + j) * r, w = lt_load(&in[1], j);
            const double want = lt_narrowed(LT_BF16, w * lt_narrowed(LT_BF16, xhat));
            assert_near(lt_load(&out[0], row * 33 + j), want, 0);
            differ += want != lt_narrowed(LT_BF16, w * xhat);
        }
    }
    assert_true(differ > 0);
}

static void the_fused_form_is_add_and_then_norm_bit_for_bit(void **state)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const lt_dtype dtype = bf16 ? LT_BF16 : LT_F32;
        const lt_tensor in[] = {lt_test_random_of(*state, dtype, "7x31", 1, 1.0),
                                lt_test_random_of(*state, dtype, "7x31", 2, 1.0),
                                lt_test_random_of(*state, dtype, "31", 3, 1.0)};
        lt_tensor fused[2], sum[1], norm[1];
        assert_ok(lt_test_forward(*state, &lt_op_add_rms_norm, in, &eps6, fused));
        assert_ok(lt_test_forward(*state, &lt_op_add, in, NULL, sum));
        assert_ok(
            lt_test_forward(*state, &lt_op_rms_norm, (lt_tensor[]){sum[0], in[2]}, &eps6, norm));
        assert_memory_equal(fused[0].data, sum[0].data, lt_tensor_bytes(&sum[0]));
        assert_memory_equal(fused[1].data, norm[0].data, lt_tensor_bytes(&norm[0]));
    }
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "9", 2),
                      lt_test_none()},
              out[2];
    assert_fails(lt_test_forward(*state, &lt_op_rms_norm, in, &eps6, out), LT_ERR_SHAPE,
                 "w as f32[8], got f32[9]");
    in[1] = lt_test_random(*state, "4x9", 2);
    in[2] = lt_test_random(*state, "8", 2);
    assert_fails(lt_test_forward(*state, &lt_op_add_rms_norm, in, &eps6, out), LT_ERR_SHAPE,
                 "x and a of one shape, got f32[4,8] and f32[4,9]");
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(eps_stands_inside_the_root),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(bf16_narrows_the_normalised_row_and_then_the_product),
             LT_TEST(the_fused_form_is_add_and_then_norm_bit_for_bit),
             LT_TEST(shapes_that_do_not_fit_are_named))
