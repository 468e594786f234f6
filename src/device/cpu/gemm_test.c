// SPDX-License-Identifier: Apache-2.0
// Matrix products against sums in double: all transpositions, dtypes and awkward sizes, on every
// set of kernels that this processor has, and through oneDNN where it is built in.
#include "device/cpu/gemm_core.h"
#include "device/cpu/onednn.h"
#include "tests/kit/lt_test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, ONEDNN = LT_N_ISAS, N_WAYS };

// A product by one of the ways: the kernels of an instruction set, or oneDNN. False: not on this
// machine.
static bool multiply(int way, lt_pool *pool, const lt_gemm *g)
{
    if (way == ONEDNN) {
        bool done = false;
        assert_ok(lt_onednn_gemm(pool, g, &done));
        return done;
    }
    if (way > (int)lt_cpu_isa())
        return false;
    assert_ok(lt_gemm_portable(pool, g, (lt_isa)way));
    return true;
}

static double element(const void *p, lt_dtype dtype, int64_t i)
{
    lt_tensor t = {.dtype = dtype};
    memcpy(&t.data, &p, sizeof p);
    return lt_load(&t, i);
}

static uint32_t next(uint32_t *state)
{
    return *state = *state * 1664525U + 1013904223U;
}

// Random numbers of a dtype between -1 and 1, with `n` elements, in the test's arena.
static void *random_numbers(void **state, lt_dtype dtype, int64_t n, uint32_t seed)
{
    lt_tensor t = {.dtype = dtype};
    t.data = lt_test_take(*state, (size_t)(n + 1) * lt_dtype_bytes(dtype));
    for (int64_t i = 0; i < n; i++)
        lt_store(&t, i, (double)(int32_t)next(&seed) / 2147483648.0);
    return t.data;
}

typedef struct problem {
    lt_gemm g;
    void *c_start; // what C holds before
    size_t c_bytes;
    double *want, *size; // filled by `solve`: sums, and sums of absolute values
} problem;

// Strides a little wider than the matrices.
static problem make_problem(void **state, int64_t m, int64_t n, int64_t k, unsigned bits,
                            uint32_t seed)
{
    lt_gemm g = {
        .m = m, .n = n, .k = k, .trans_a = bits & 1, .trans_b = bits & 2, .accumulate = bits & 4};
    g.ab_dtype = bits & 8 ? LT_BF16 : LT_F32;
    g.c_dtype = bits & 16 ? LT_BF16 : LT_F32;
    g.bias_dtype = bits & 64 ? LT_BF16 : LT_F32;
    g.stream = seed & 1;
    g.lda = (g.trans_a ? m : k) + (int64_t)(seed % 3);
    g.ldb = (g.trans_b ? k : n) + (int64_t)(seed % 2);
    g.ldc = n + (int64_t)(seed % 5);
    g.a = random_numbers(state, g.ab_dtype, g.lda * (g.trans_a ? k : m), seed);
    g.b = random_numbers(state, g.ab_dtype, g.ldb * (g.trans_b ? n : k), seed + 1);
    if (bits & 32)
        g.bias = random_numbers(state, g.bias_dtype, n, seed + 2);
    problem p = {.g = g, .c_bytes = (size_t)(g.ldc * m) * lt_dtype_bytes(g.c_dtype)};
    p.c_start = random_numbers(state, g.c_dtype, g.ldc * m, seed + 3);
    return p;
}

// The product by a way, into fresh memory between guards; NULL when there is no such way here.
static void *run(void **state, const problem *p, int way, lt_pool *pool)
{
    unsigned char *memory = lt_test_take(*state, p->c_bytes + (size_t)2 * GUARD);
    memset(memory, GUARD_BYTE, p->c_bytes + (size_t)2 * GUARD);
    memcpy(memory + GUARD, p->c_start, p->c_bytes);
    lt_gemm g = p->g;
    g.c = memory + GUARD;
    if (!multiply(way, pool, &g))
        return NULL;
    for (size_t i = 0; i < GUARD; i++)
        if (memory[i] != GUARD_BYTE || memory[GUARD + p->c_bytes + i] != GUARD_BYTE)
            fail_msg("way %d wrote outside of C, %zu bytes from it", way, i);
    return memory + GUARD;
}

static double exact(const problem *p, int64_t i, int64_t j, double *size)
{
    const lt_gemm *g = &p->g;
    double sum = 0;
    *size = 0;
    for (int64_t q = 0; q < g->k; q++) {
        const double term =
            element(g->a, g->ab_dtype, g->trans_a ? q * g->lda + i : i * g->lda + q) *
            element(g->b, g->ab_dtype, g->trans_b ? j * g->ldb + q : q * g->ldb + j);
        sum += term;
        *size += fabs(term);
    }
    if (g->accumulate)
        sum += element(p->c_start, g->c_dtype, i * g->ldc + j);
    if (g->bias)
        sum += element(g->bias, g->bias_dtype, j);
    *size += 2;
    return sum;
}

static void solve(void **state, problem *p)
{
    const int64_t m = p->g.m, n = p->g.n;
    p->want = lt_test_take(*state, sizeof(double) * (size_t)(m * n));
    p->size = lt_test_take(*state, sizeof(double) * (size_t)(m * n));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            p->want[i * n + j] = exact(p, i, j, &p->size[i * n + j]);
}

// Every element near the sum in double; what lies between the rows is untouched.
static void check(const problem *p, int way, const void *c)
{
    const lt_gemm *g = &p->g;
    // Rounding errors of fp32 sums, which are added up in blocks; one narrowing for bf16 (two where
    // the library narrows before it adds).
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            const double want = p->want[i * g->n + j], got = element(c, g->c_dtype, i * g->ldc + j);
            const double tol = p->size[i * g->n + j] * 1e-6 +
                               (g->c_dtype == LT_BF16 ? fabs(want) * 0.0041 + 1e-3 : 0);
            if (!(fabs(got - want) <= tol)) {
                fail_msg("way %d, %lldx%lldx%lld at (%lld, %lld): got %.9g, want %.9g", way,
                         (long long)g->m, (long long)g->n, (long long)g->k, (long long)i,
                         (long long)j, got, want);
            }
        }
        for (int64_t j = g->n; j < g->ldc; j++)
            assert_true(element(c, g->c_dtype, i * g->ldc + j) ==
                        element(p->c_start, g->c_dtype, i * g->ldc + j));
    }
}

static void every_kind_of_product_is_near_the_sum_in_double(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 33, 31},    {31, 1, 33}, {33, 31, 1},
                                       {6, 16, 256},  {14, 32, 257},  {31, 33, 5}, {97, 40, 16},
                                       {20, 300, 33}, {110, 17, 300}, {7, 9, 1000}};
    lt_pool *pool;
    assert_ok(lt_pool_create(2, &pool));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned bits = 0; bits < 128; bits += s < 4 ? 1 : 5) {
            problem p = make_problem(state, sizes[s][0], sizes[s][1], sizes[s][2], bits,
                                     (uint32_t)(s * 128 + bits));
            solve(state, &p);
            for (int way = 0; way < N_WAYS; way++) {
                const void *c = run(state, &p, way, pool);
                if (c)
                    check(&p, way, c);
            }
            lt_arena_reset(*state);
        }
    }
    lt_pool_destroy(pool);
}

static void the_default_way_is_near_the_sum_in_double(void **state)
{
    for (unsigned bits = 0; bits < 128; bits += 5) {
        problem p = make_problem(state, 33, 65, 100, bits, bits + 7);
        solve(state, &p);
        p.g.c = lt_test_take(*state, p.c_bytes);
        memcpy(p.g.c, p.c_start, p.c_bytes);
        assert_ok(lt_cpu_gemm(NULL, &p.g));
        check(&p, -1, p.g.c);
    }
}

static void bits_depend_neither_on_threads_nor_on_other_rows(void **state)
{
    enum { N_THREADS = 3 };
    static const int threads[N_THREADS] = {1, 2, 4};
    lt_pool *pool[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_ok(lt_pool_create(threads[i], &pool[i]));
    for (unsigned bits = 0; bits < 128; bits += 9) {
        const problem p = make_problem(state, 530, 130, 70, bits, bits);
        for (int way = 0; way < N_WAYS; way++) {
            const void *c = run(state, &p, way, pool[0]);
            for (int i = 1; c && i < N_THREADS; i++)
                assert_memory_equal(c, run(state, &p, way, pool[i]), p.c_bytes);
            problem few = p; // the first rows alone, and a single one
            static const int64_t counts[] = {513, 33, 1};
            for (int i = 0; c && i < 3; i++) {
                few.g.m = counts[i];
                few.c_bytes = (size_t)(few.g.ldc * few.g.m) * lt_dtype_bytes(p.g.c_dtype);
                assert_memory_equal(c, run(state, &few, way, pool[1]), few.c_bytes);
            }
        }
        lt_arena_reset(*state);
    }
    for (int i = 0; i < N_THREADS; i++)
        lt_pool_destroy(pool[i]);
}

// Some elements of a product near their sums in double.
static void check_some(void **state, int64_t m, int64_t n, int64_t k, unsigned bits)
{
    const problem p = make_problem(state, m, n, k, bits, 11);
    for (int way = 0; way < N_WAYS; way++) {
        const void *c = run(state, &p, way, NULL);
        for (int64_t i = 0; c && i < p.g.m; i += 29) {
            for (int64_t j = i % 7; j < p.g.n; j += 37) {
                double size;
                const double want = exact(&p, i, j, &size);
                const double tol = size * 1e-6 + (bits & 16 ? fabs(want) * 0.0041 + 1e-3 : 0);
                assert_near(element(c, p.g.c_dtype, i * p.g.ldc + j), want, tol);
            }
        }
    }
}

static void several_blocks_are_packed_one_after_another(void **state)
{
    check_some(state, 410, 530, 6000, 2);              // neither A nor B is packed as a whole
    check_some(state, 9, 20, 33000, 2 | 4 | 32);       // k takes several slabs
    check_some(state, 9, 300, 33000, 2 | 4 | 16 | 32); // and C is narrowed once
}

static void no_numbers_to_add_leave_bias_and_sum(void **state)
{
    lt_gemm g = {.m = 3,
                 .n = 5,
                 .k = 0,
                 .lda = 0,
                 .ldb = 5,
                 .ldc = 5,
                 .c_dtype = LT_F32,
                 .ab_dtype = LT_F32,
                 .bias_dtype = LT_F32};
    float c[15], bias[5] = {1, 2, 3, 4, 5};
    memset(c, 0xff, sizeof c);
    g.c = c;
    assert_ok(lt_cpu_gemm(NULL, &g));
    for (int i = 0; i < 15; i++)
        assert_true(c[i] == 0.0F);
    g.bias = bias;
    g.accumulate = true;
    assert_ok(lt_cpu_gemm(NULL, &g));
    assert_ok(lt_cpu_gemm(NULL, &g));
    for (int i = 0; i < 15; i++)
        assert_true(c[i] == 2.0F * bias[i % 5]);
    g.m = 0;
    g.c = NULL;
    assert_ok(lt_cpu_gemm(NULL, &g)); // no rows: nothing is touched
    (void)state;
}

static void a_nan_reaches_its_row_and_no_other(void **state)
{
    for (int way = 0; way < N_WAYS; way++) {
        problem p = make_problem(state, 40, 20, 30, 2, 3);
        float *a;
        memcpy(&a, &p.g.a, sizeof a);
        a[7 * p.g.lda + 29] = NAN;
        const float *c = run(state, &p, way, NULL);
        for (int64_t i = 0; c && i < p.g.m; i++)
            for (int64_t j = 0; j < p.g.n; j++)
                assert_true(isnan(c[i * p.g.ldc + j]) == (i == 7));
    }
}

static void wrong_dtypes_and_strides_are_refused(void **state)
{
    problem p = make_problem(state, 4, 5, 6, 0, 3);
    p.g.c = p.c_start;
    lt_gemm g = p.g;
    g.ab_dtype = LT_F64;
    assert_fails(lt_cpu_gemm(NULL, &g), LT_ERR_DTYPE, "got f64 times f64 into f32");
    g = p.g;
    g.ldb = 4;
    assert_fails(lt_cpu_gemm(NULL, &g), LT_ERR_SHAPE, "m 4, n 5, k 6 got row strides 6, 4, 8");
}

LT_TEST_MAIN(LT_TEST(every_kind_of_product_is_near_the_sum_in_double),
             LT_TEST(the_default_way_is_near_the_sum_in_double),
             LT_TEST(bits_depend_neither_on_threads_nor_on_other_rows),
             LT_TEST(several_blocks_are_packed_one_after_another),
             LT_TEST(no_numbers_to_add_leave_bias_and_sum),
             LT_TEST(a_nan_reaches_its_row_and_no_other),
             LT_TEST(wrong_dtypes_and_strides_are_refused))
