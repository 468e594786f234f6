// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "op/adamw.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <string.h>

static const lt_adamw_attr usual = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1.0};

// Scalars of step t, as the trainer computes them.
static lt_tensor scalars(void *state, const lt_adamw_attr *c, double lr, int t, double clip)
{
    const double values[LT_N_SCALARS] = {[LT_SCALAR_LR] = lr,
                                         [LT_SCALAR_M_CORRECTION] = 1.0 / (1.0 - pow(c->beta1, t)),
                                         [LT_SCALAR_V_CORRECTION] = 1.0 / (1.0 - pow(c->beta2, t)),
                                         [LT_SCALAR_CLIP] = clip};
    return lt_test_f64(state, "4", values);
}

// The op works on the tensors it is given.
static lt_status update(const lt_adamw_attr *attr, const lt_tensor *grad, const lt_tensor *scalar,
                        lt_tensor *state4)
{
    lt_op_args a = {.def = &lt_op_adamw,
                    .attr = attr,
                    .in = {grad, scalar},
                    .out = {&state4[0], &state4[1], &state4[2]}};
    if (state4[3].data)
        a.out[3] = &state4[3];
    LT_TRY(lt_op_adamw.infer(&a));
    LT_TRY(lt_op_adamw.forward[LT_REF](&a));
    for (int i = 0; i < 4; i++)
        assert_guards(&state4[i]);
    return LT_OK;
}

static void the_first_step_moves_by_the_rate_against_the_sign(void **state)
{
    // m and v are corrected to g and g^2: the step is lr g / (|g| + eps), after p (1 - lr wd)
    lt_tensor s[4] = {lt_test_f32(*state, "3", (float[]){1, 2, -4}),
                      lt_test_tensor(*state, LT_F32, "3"),
                      lt_test_tensor(*state, LT_F32, "3"),
                      {0}};
    const lt_tensor g = lt_test_f32(*state, "3", (float[]){0.5F, -3, 0}),
                    scalar = scalars(*state, &usual, 0.01, 1, 1.0);
    assert_ok(update(&usual, &g, &scalar, s));
    assert_floats(&s[0], 5e-7, 0.999 - 0.01, 1.998 + 0.01, -3.996);
    assert_floats(&s[1], 1e-7, 0.05, -0.3, 0);
    assert_floats(&s[2], 1e-8, 0.00025, 0.009, 0);
}

static void ten_steps_follow_the_formula_in_double(void **state)
{
    const lt_adamw_attr c = {
        .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.05, .lr_scale = 0.5};
    lt_tensor s[4] = {lt_test_f64(*state, "1", (double[]){0.3}),
                      lt_test_tensor(*state, LT_F64, "1"),
                      lt_test_tensor(*state, LT_F64, "1"),
                      {0}};
    double p = 0.3, m = 0.0, v = 0.0;
    for (int t = 1; t <= 10; t++) {
        const double raw = lt_normal(7, (uint64_t)t), clip = 0.25, lr = 0.1 / t;
        const lt_tensor g = lt_test_f64(*state, "1", &raw),
                        scalar = scalars(*state, &c, lr, t, clip);
        assert_ok(update(&c, &g, &scalar, s));
        m = 0.8 * m + 0.2 * raw * clip;
        v = 0.95 * v + 0.05 * raw * clip * raw * clip;
        p = p * (1 - 0.5 * lr * 0.05) -
            0.5 * lr * (m / (1 - pow(0.8, t))) / (sqrt(v / (1 - pow(0.95, t))) + 1e-4);
        assert_floats(&s[0], 1e-15, p);
    }
}

static void a_split_master_takes_the_steps_of_the_fp32_one_bit_for_bit(void **state)
{
    enum { N = 257 };
    const lt_tensor start = lt_test_random(*state, "257", 1);
    lt_tensor whole[4] = {lt_test_converted(*state, &start, LT_F32),
                          lt_test_tensor(*state, LT_F32, "257"),
                          lt_test_tensor(*state, LT_F32, "257"),
                          {0}};
    lt_tensor split[4] = {
        lt_test_tensor(*state, LT_BF16, "257"), lt_test_tensor(*state, LT_F32, "257"),
        lt_test_tensor(*state, LT_F32, "257"), lt_test_tensor(*state, LT_I16, "257")};
    for (int i = 0; i < N; i++)
        lt_split_f32(((float *)start.data)[i], &((uint16_t *)split[0].data)[i],
                     &((int16_t *)split[3].data)[i]);
    for (int t = 1; t <= 5; t++) {
        const lt_tensor g = lt_test_random(*state, "257", 10 + (uint64_t)t),
                        scalar = scalars(*state, &usual, 1e-3, t, 1.0);
        assert_ok(update(&usual, &g, &scalar, whole));
        assert_ok(update(&usual, &g, &scalar, split));
    }
    for (int i = 0; i < N; i++) {
        const float joined =
            lt_join_f32(((uint16_t *)split[0].data)[i], ((int16_t *)split[3].data)[i]);
        assert_memory_equal(&joined, &((float *)whole[0].data)[i], sizeof joined);
    }
    assert_memory_equal(split[2].data, whole[2].data, N * sizeof(float));
}

static void an_empty_shard_is_fine(void **state)
{
    lt_tensor s[4] = {lt_test_tensor(*state, LT_F32, "0"),
                      lt_test_tensor(*state, LT_F32, "0"),
                      lt_test_tensor(*state, LT_F32, "0"),
                      {0}};
    const lt_tensor g = lt_test_tensor(*state, LT_F32, "0"),
                    scalar = scalars(*state, &usual, 1e-3, 1, 1.0);
    assert_ok(update(&usual, &g, &scalar, s));
}

static void state_that_does_not_fit_is_named(void **state)
{
    lt_tensor s[4] = {lt_test_tensor(*state, LT_F32, "3"),
                      lt_test_tensor(*state, LT_F32, "4"),
                      lt_test_tensor(*state, LT_F32, "3"),
                      {0}};
    const lt_tensor g = lt_test_tensor(*state, LT_F32, "3"),
                    scalar = scalars(*state, &usual, 1e-3, 1, 1.0);
    assert_fails(update(&usual, &g, &scalar, s), LT_ERR_SHAPE,
                 "m and grad of one shape, got f32[4] and f32[3]");
    s[1] = lt_test_tensor(*state, LT_BF16, "3");
    assert_fails(update(&usual, &g, &scalar, s), LT_ERR_DTYPE, "m as f32");
    s[1] = s[2];
    s[0] = lt_test_tensor(*state, LT_BF16, "3");
    assert_fails(update(&usual, &g, &scalar, s), LT_ERR_SHAPE,
                 "lo and grad of one shape, got nothing");
}

static void squares_are_summed_in_blocks_and_added_where_asked(void **state)
{
    enum { N = 2 * LT_SUM_BLOCK + 1 };
    lt_tensor g = lt_test_tensor(*state, LT_F32, "8193"), out = lt_test_tensor(*state, LT_F64, "1");
    double want = 0.0, block = 0.0;
    for (int i = 0; i < N; i++) {
        const float x = (float)lt_normal(3, (uint64_t)i);
        ((float *)g.data)[i] = x;
        block += (double)x * (double)x;
        if (i % LT_SUM_BLOCK == LT_SUM_BLOCK - 1 || i == N - 1) {
            want += block;
            block = 0.0;
        }
    }
    lt_op_args a = {.def = &lt_op_sum_squares, .in = {&g}, .out = {&out}};
    ((double *)out.data)[0] = 1e300;
    assert_ok(lt_op_sum_squares.forward[LT_REF](&a));
    assert_memory_equal(out.data, &want, sizeof want);
    a.add = LT_IN(0);
    assert_ok(lt_op_sum_squares.forward[LT_REF](&a));
    want += want;
    assert_memory_equal(out.data, &want, sizeof want);
    g = lt_test_tensor(*state, LT_F32, "0");
    a.add = 0;
    assert_ok(lt_op_sum_squares.forward[LT_REF](&a));
    assert_floats(&out, 0, 0);
}

LT_TEST_MAIN(LT_TEST(the_first_step_moves_by_the_rate_against_the_sign),
             LT_TEST(ten_steps_follow_the_formula_in_double),
             LT_TEST(a_split_master_takes_the_steps_of_the_fp32_one_bit_for_bit),
             LT_TEST(an_empty_shard_is_fine), LT_TEST(state_that_does_not_fit_is_named),
             LT_TEST(squares_are_summed_in_blocks_and_added_where_asked))
