// SPDX-License-Identifier: Apache-2.0
#include "op/layer_norm.h"
#include "tests/kit/op_kit.h"

static const lt_layer_norm_attr eps6 = {.eps = 1e-6}, eps5 = {.eps = 1e-5};

static void known_values_come_out(void **state)
{
    // mean 2, variance 2/3: xhat = -+1.2247449
    const lt_tensor in[] = {lt_test_f32(*state, "1x3", (float[]){1, 2, 3}),
                            lt_test_f32(*state, "3", (float[]){1, 1, 2}),
                            lt_test_f32(*state, "3", (float[]){0, 5, 1})};
    const lt_layer_norm_attr none = {.eps = 0};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &none, out));
    assert_floats(&out[0], 1e-6, -1.2247449, 5, 3.4494897);
}

// models.md 13.3: no golden tells the two eps apart
static void eps_shows_in_a_row_of_low_variance(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "1x2", (float[]){0.001F, -0.001F}),
                            lt_test_f32(*state, "2", (float[]){1, 1}),
                            lt_test_f32(*state, "2", (float[]){0, 0})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &eps5, out));
    assert_floats(&out[0], 1e-6, 0.301511, -0.301511);
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &eps6, out));
    assert_floats(&out[0], 1e-6, 0.707107, -0.707107);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_tensor in[] = {lt_test_random_f64(*state, "5x7", 1),
                            lt_test_random_f64(*state, "7", 2), lt_test_random_f64(*state, "7", 3)};
    assert_ok(lt_gradcheck(*state, &lt_op_layer_norm, in, &eps6, (lt_gradcheck_opts){.seed = 4}));
    const lt_tensor none[] = {lt_test_tensor(*state, LT_F64, "0x7"), in[1], in[2]};
    assert_ok(lt_gradcheck(*state, &lt_op_layer_norm, none, &eps6, (lt_gradcheck_opts){.seed = 4}));
}

static void a_large_mean_costs_no_digits(void **state)
{
    lt_tensor in[] = {lt_test_f32(*state, "1x4", (float[]){4097, 4098, 4099, 4100}),
                      lt_test_f32(*state, "4", (float[]){1, 1, 1, 1}),
                      lt_test_tensor(*state, LT_F32, "4")},
              out[1];
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &eps6, out));
    assert_floats(&out[0], 1e-5, -1.3416408, -0.4472136, 0.4472136, 1.3416408);
}

static void bf16_is_rounded_once(void **state)
{
    const lt_tensor in[] = {lt_test_random_of(*state, LT_BF16, "5x33", 1, 1.0),
                            lt_test_random_of(*state, LT_BF16, "33", 2, 1.0),
                            lt_test_random_of(*state, LT_BF16, "33", 3, 1.0)};
    lt_tensor exact[3], out[1], wide[1];
    for (int i = 0; i < 3; i++)
        exact[i] = lt_test_converted(*state, &in[i], LT_F64);
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, in, &eps6, out));
    assert_ok(lt_test_forward(*state, &lt_op_layer_norm, exact, &eps6, wide));
    const lt_tensor want = lt_test_converted(*state, &wide[0], LT_BF16);
    assert_memory_equal(out[0].data, want.data, lt_tensor_bytes(&want));
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    const lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "8", 2),
                            lt_test_random(*state, "7", 2)};
    lt_tensor out[1];
    assert_fails(lt_test_forward(*state, &lt_op_layer_norm, in, &eps6, out), LT_ERR_SHAPE,
                 "bias as f32[8], got f32[7]");
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(eps_shows_in_a_row_of_low_variance),
             LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(a_large_mean_costs_no_digits), LT_TEST(bf16_is_rounded_once),
             LT_TEST(shapes_that_do_not_fit_are_named))
