// SPDX-License-Identifier: Apache-2.0
#include "device/gemm.h"
#include "op/grouped_linear.h"
#include "op/moe_rows.h"
#include "tests/kit/cpu_kit.h"

// Where copy i of n goes: a permutation.
static lt_tensor places(void *state, const char *shape, int32_t step)
{
    lt_tensor t = lt_test_tensor(state, LT_I32, shape);
    const int64_t n = lt_n_elems(&t);
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t.data)[i] = (int32_t)(i * step % n);
    return t;
}

static void permute_and_combine_agree_with_their_references(void **state)
{
    static const struct {
        const char *x, *place, *rows;
        int32_t step;
    } cases[] = {{"5x7", "5x3", "15x7", 4},
                 {"1x1", "1x1", "1x1", 1},
                 {"40x300", "40x8", "320x300", 7},
                 {"0x5", "0x2", "0x5", 1},
                 {"2x9", "2x70", "140x9", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lt_tensor place = places(*state, cases[i].place, cases[i].step);
        const lt_tensor in[] = {lt_test_random(*state, cases[i].x, 1), place};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_moe_permute, .in = in});
        const lt_tensor back[] = {lt_test_random(*state, cases[i].rows, 2),
                                  lt_test_random(*state, cases[i].place, 3), place};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_moe_combine, .in = back});
    }
}

static void grouped_products_agree_with_their_reference(void **state)
{
    static const struct {
        const char *x, *w, *n;
        int32_t offsets[6];
    } cases[] = {{"7x5", "4x3x5", "5", {0, 2, 2, 6, 7}}, // an expert without rows
                 {"9x33", "3x17x33", "4", {0, 0, 9, 9}}, // all rows at one expert
                 {"0x5", "2x3x5", "3", {0, 0, 0}},       // nobody anywhere
                 {"150x64", "5x96x64", "6", {0, 1, 64, 100, 101, 150}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lt_tensor in[] = {lt_test_random(*state, cases[i].x, 1),
                                lt_test_random(*state, cases[i].w, 2),
                                lt_test_i32(*state, cases[i].n, cases[i].offsets)};
        lt_test_cpu_agrees(
            *state, &(lt_cpu_check){.def = &lt_op_grouped_linear, .in = in, .params = LT_IN(1)});
    }
}

// The bits of an expert's rows are those of its own product, whatever pieces it is cut into, and
// however many rows the others have: 1 (narrow pieces), 127, 800 (two pieces down), none.
static void a_grouped_product_has_the_bits_of_single_ones(void **state)
{
    enum { K = 70, N = 1100, E = 4 };
    static const int32_t offsets[E + 1] = {0, 1, 128, 128, 928};
    lt_tensor x = lt_test_random_of(*state, LT_F32, "928x70", 1, 1.0),
              w = lt_test_random_of(*state, LT_F32, "4x1100x70", 2, 1.0),
              at = lt_test_i32(*state, "5", offsets),
              y = lt_test_tensor(*state, LT_F32, "928x1100"),
              want = lt_test_tensor(*state, LT_F32, "928x1100");
    for (int64_t e = 0; e < E; e++) {
        const int64_t first = offsets[e];
        const lt_gemm g = {.m = offsets[e + 1] - first,
                           .n = N,
                           .k = K,
                           .lda = K,
                           .ldb = K,
                           .ldc = N,
                           .trans_b = true,
                           .ab_dtype = LT_F32,
                           .c_dtype = LT_F32,
                           .bias_dtype = LT_F32,
                           .a = (const float *)x.data + first * K,
                           .b = (const float *)w.data + e * N * K,
                           .c = (float *)want.data + first * N};
        assert_ok(lt_cpu_gemm(NULL, &g));
    }
    for (int threads = 1; threads <= 3; threads++) {
        lt_pool *pool = NULL;
        lt_device *device = NULL;
        assert_ok(lt_pool_create(threads, &pool));
        assert_ok(lt_cpu_open(pool, &device));
        const lt_run run = {.device = device};
        const lt_op_args a = {
            .def = &lt_op_grouped_linear, .in = {&x, &w, &at}, .out = {&y}, .run = &run};
        memset(y.data, 0x7f, lt_tensor_bytes(&y));
        assert_ok(lt_op_kernel(a.def, LT_CPU, LT_FORWARD)(&a));
        assert_memory_equal(y.data, want.data, lt_tensor_bytes(&y));
        lt_device_close(device);
        lt_pool_destroy(pool);
    }
}

static void swiglu_halves_agrees_with_its_reference(void **state)
{
    static const char *const shapes[] = {"1x2", "33x14", "0x6", "3x7000"};
    for (uint64_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const lt_tensor in[] = {lt_test_random_of(*state, LT_F32, shapes[i], 1 + i, 4.0)};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_swiglu_halves, .in = in});
    }
}

LT_TEST_MAIN(LT_TEST(permute_and_combine_agree_with_their_references),
             LT_TEST(grouped_products_agree_with_their_reference),
             LT_TEST(a_grouped_product_has_the_bits_of_single_ones),
             LT_TEST(swiglu_halves_agrees_with_its_reference))
