// SPDX-License-Identifier: Apache-2.0
#include "op/swiglu.h"
#include "tests/kit/op_kit.h"

static void known_values_come_out(void **state)
{
    const float ln3 = 1.0986123F; // sigmoid(ln 3) = 3/4 and sigmoid(-ln 3) = 1/4, so by hand:
    const lt_tensor in[] = {lt_test_f32(*state, "3", (float[]){0, ln3, -ln3}),
                            lt_test_f32(*state, "3", (float[]){5, 2, 4})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_swiglu, in, NULL, out));
    assert_floats(&out[0], 1e-6, 0.0, 1.5 * 1.0986123, -1.0986123);
}

static void gradients_agree_with_finite_differences(void **state)
{
    const lt_tensor in[] = {lt_test_random_f64(*state, "5x7", 1),
                            lt_test_random_f64(*state, "5x7", 2)};
    assert_ok(lt_gradcheck(*state, &lt_op_swiglu, in, NULL, (lt_gradcheck_opts){.seed = 3}));
}

static void far_gates_give_the_gate_or_zero(void **state)
{
    const lt_tensor in[] = {lt_test_f32(*state, "3", (float[]){-1e4F, 1e4F, -90}),
                            lt_test_f32(*state, "3", (float[]){1, 2, 1})};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_swiglu, in, NULL, out));
    assert_floats(&out[0], 1e-36, 0.0, 2e4, -7.37e-38);
}

static void bf16_is_rounded_once(void **state)
{
    lt_tensor gate = lt_test_random(*state, "1x64", 4), up = lt_test_random(*state, "1x64", 5);
    const lt_tensor in[] = {lt_test_converted(*state, &gate, LT_BF16),
                            lt_test_converted(*state, &up, LT_BF16)};
    const lt_tensor exact[] = {lt_test_converted(*state, &in[0], LT_F64),
                               lt_test_converted(*state, &in[1], LT_F64)};
    lt_tensor out[1], wide[1];
    assert_ok(lt_test_forward(*state, &lt_op_swiglu, in, NULL, out));
    assert_ok(lt_test_forward(*state, &lt_op_swiglu, exact, NULL, wide));
    const lt_tensor want = lt_test_converted(*state, &wide[0], LT_BF16);
    assert_memory_equal(out[0].data, want.data, lt_tensor_bytes(&want));
}

static void unequal_shapes_are_named_in_the_error(void **state)
{
    const lt_tensor in[] = {lt_test_random(*state, "4x8", 1), lt_test_random(*state, "4x9", 2)};
    lt_tensor out[1];
    assert_fails(lt_test_forward(*state, &lt_op_swiglu, in, NULL, out), LT_ERR_SHAPE,
                 "f32[4,8] and f32[4,9]");
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(gradients_agree_with_finite_differences),
             LT_TEST(far_gates_give_the_gate_or_zero), LT_TEST(bf16_is_rounded_once),
             LT_TEST(unequal_shapes_are_named_in_the_error))
