// SPDX-License-Identifier: Apache-2.0
#include "op/linear.h"
#include "tests/kit/cpu_kit.h"
#include <stdio.h>

static void linear_agrees_with_its_reference(void **state)
{
    static const int sizes[][3] = {{1, 1, 1}, {31, 33, 5}, {33, 31, 70}, {0, 8, 16}, {5, 300, 65}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int bias = 0; bias < 2; bias++) {
            char x[32], w[32], b[32];
            (void)snprintf(x, sizeof x, "%dx%d", sizes[i][0], sizes[i][1]);
            (void)snprintf(w, sizeof w, "%dx%d", sizes[i][2], sizes[i][1]);
            (void)snprintf(b, sizeof b, "%d", sizes[i][2]);
            const lt_tensor in[] = {lt_test_random(*state, x, 1 + i),
                                    lt_test_random(*state, w, 2 + i),
                                    bias ? lt_test_random(*state, b, 3 + i) : lt_test_none()};
            lt_test_cpu_agrees(
                *state,
                &(lt_cpu_check){.def = &lt_op_linear, .in = in, .params = LT_IN(1) | LT_IN(2)});
        }
    }
}

static void a_weight_of_many_dims_is_a_matrix(void **state)
{
    const lt_tensor in[] = {lt_test_random(*state, "7x24", 1), lt_test_random(*state, "5x2x3x4", 2),
                            lt_test_random(*state, "5", 3)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_linear, .in = in});
}

static void f64_goes_to_the_reference(void **state)
{
    const lt_tensor in[] = {lt_test_random_f64(*state, "3x4", 1),
                            lt_test_random_f64(*state, "2x4", 2), lt_test_none()};
    lt_tensor want[1], got[1];
    assert_ok(lt_test_forward(*state, &lt_op_linear, in, NULL, want));
    assert_ok(lt_test_forward_on(*state, (lt_test_column){.backend = LT_CPU}, &lt_op_linear, in,
                                 NULL, got));
    assert_memory_equal(got[0].data, want[0].data, lt_tensor_bytes(&want[0]));
}

LT_TEST_MAIN(LT_TEST(linear_agrees_with_its_reference), LT_TEST(a_weight_of_many_dims_is_a_matrix),
             LT_TEST(f64_goes_to_the_reference))
