// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/isa.h"
#include "op/adamw.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { P, M, V, LO, N_STATE, STEPS = 5 };
static const lt_adamw_attr attr = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 0.5};

// Some steps of one column, from the same start; hi and lo where `split`.
static void train(void **state, lt_test_column column, const char *shape, bool split,
                  lt_tensor *out)
{
    const lt_kernel update = lt_op_kernel(&lt_op_adamw, column.backend, LT_FORWARD);
    lt_device device = {.backend = column.backend, .pool = column.pool, .impl = column.impl};
    const lt_run run = {.device = &device};
    const lt_tensor p = lt_test_random(*state, shape, 1);
    out[P] = split ? lt_test_tensor(*state, LT_BF16, shape) : lt_test_converted(*state, &p, LT_F32);
    out[M] = lt_test_tensor(*state, LT_F32, shape);
    out[V] = lt_test_tensor(*state, LT_F32, shape);
    out[LO] = lt_test_tensor(*state, LT_I16, shape);
    for (int64_t i = 0; split && i < lt_n_elems(&p); i++)
        lt_split_f32(((const float *)p.data)[i], &((uint16_t *)out[P].data)[i],
                     &((int16_t *)out[LO].data)[i]);
    for (int t = 1; t <= STEPS; t++) {
        const lt_tensor grad = lt_test_random_of(*state, LT_F32, shape, 100 + (uint64_t)t, 0.1);
        const double scalars[LT_N_SCALARS] = {1e-2 / t, 1 / (1 - pow(0.9, t)),
                                              1 / (1 - pow(0.999, t)), 0.7};
        const lt_tensor in = lt_test_f64(*state, "4", scalars);
        lt_op_args a = {.def = &lt_op_adamw, .attr = &attr, .in = {&grad, &in}, .run = &run};
        for (int i = 0; i < (split ? N_STATE : LO); i++)
            a.out[i] = &out[i];
        assert_ok(lt_op_adamw.infer(&a));
        assert_ok(update(&a));
    }
    for (int i = 0; i < N_STATE; i++)
        assert_guards(&out[i]);
}

static double master(const lt_tensor *s, bool split, int64_t i)
{
    return split ? (double)lt_join_f32(((uint16_t *)s[P].data)[i], ((int16_t *)s[LO].data)[i])
                 : lt_load(&s[P], i);
}

static void adamw_agrees_with_its_reference(void **state)
{
    static const char *const shapes[] = {"1", "31", "1000", "70001", "0"};
    lt_pool *pool;
    assert_ok(lt_pool_create(4, &pool));
    for (int s = 0; s < 5; s++) {
        for (int split = 0; split < 2; split++) {
            for (int isa = 0; isa <= (int)lt_cpu_isa(); isa++) {
                lt_cpu_state cpu = {.isa = (lt_isa)isa};
                lt_tensor want[N_STATE], got[N_STATE], more[N_STATE];
                train(state, (lt_test_column){.backend = LT_REF}, shapes[s], split, want);
                train(state, (lt_test_column){.backend = LT_CPU, .impl = &cpu}, shapes[s], split,
                      got);
                train(state, (lt_test_column){.backend = LT_CPU, .impl = &cpu, .pool = pool},
                      shapes[s], split, more);
                for (int64_t i = 0; i < lt_n_elems(&want[P]); i++)
                    assert_near(master(got, split, i), master(want, split, i), 1e-6);
                assert_true(lt_test_difference(&got[M], &want[M]) < 1e-6);
                assert_true(lt_test_difference(&got[V], &want[V]) < 1e-6);
                for (int i = 0; i < N_STATE; i++)
                    assert_true(lt_n_elems(&got[i]) == 0 ||
                                memcmp(got[i].data, more[i].data, lt_tensor_bytes(&got[i])) == 0);
            }
        }
    }
    lt_pool_destroy(pool);
}

static void both_ways_of_keeping_a_master_weight_give_the_same_bits(void **state)
{
    lt_tensor whole[N_STATE], halves[N_STATE];
    train(state, (lt_test_column){.backend = LT_CPU}, "1003", false, whole);
    train(state, (lt_test_column){.backend = LT_CPU}, "1003", true, halves);
    for (int64_t i = 0; i < 1003; i++)
        assert_true(master(whole, false, i) == master(halves, true, i));
}

static double squares(void **state, lt_backend backend, lt_pool *pool, const lt_tensor *g,
                      uint32_t add)
{
    lt_device device = {.backend = backend, .pool = pool};
    const lt_run run = {.device = &device};
    lt_tensor out = lt_test_f64(*state, "1", (const double[]){2.0});
    const lt_op_args a = {
        .def = &lt_op_sum_squares, .in = {g}, .out = {&out}, .add = add, .run = &run};
    assert_ok(lt_op_kernel(&lt_op_sum_squares, backend, LT_FORWARD)(&a));
    return *(double *)out.data;
}

static void sum_squares_agrees_with_its_reference(void **state)
{
    static const char *const shapes[] = {"1", "33", "4096", "20x1001", "0"};
    lt_pool *pool;
    assert_ok(lt_pool_create(4, &pool));
    for (int s = 0; s < 5; s++) {
        for (int d = 0; d < 2; d++) {
            for (uint32_t add = 0; add < 2; add++) {
                const lt_tensor g =
                    lt_test_random_of(*state, d ? LT_BF16 : LT_F32, shapes[s], 7, 3.0);
                const double want = squares(state, LT_REF, NULL, &g, add),
                             got = squares(state, LT_CPU, NULL, &g, add);
                assert_near(got, want, want * 1e-13);
                assert_true(got == squares(state, LT_CPU, pool, &g, add));
            }
        }
    }
    lt_pool_destroy(pool);
}

LT_TEST_MAIN(LT_TEST(adamw_agrees_with_its_reference),
             LT_TEST(both_ways_of_keeping_a_master_weight_give_the_same_bits),
             LT_TEST(sum_squares_agrees_with_its_reference))
