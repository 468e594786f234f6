// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "op/gated_delta.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QKV, DECAY, BETA, SEGMENTS, N_INPUTS };

// Sizes of a call, and how strongly its gates work: g uniform in [-2 decay, 0], beta in [0, 1].
typedef struct shape {
    int tokens, key_heads, value_heads, key_dim, value_dim;
    double decay;
    const char *n_segments;
    const int32_t *segments;
} shape;

static lt_gated_delta_attr attr_of(const shape *s, int chunk)
{
    return (lt_gated_delta_attr){.key_heads = s->key_heads,
                                 .value_heads = s->value_heads,
                                 .key_dim = s->key_dim,
                                 .value_dim = s->value_dim,
                                 .chunk = chunk};
}

static lt_tensor uniform(void *state, lt_dtype dtype, const char *dims, uint64_t seed, double low,
                         double high)
{
    lt_tensor t = lt_test_tensor(state, dtype, dims);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        lt_store(&t, i, low + (high - low) * lt_uniform(lt_rng_key(seed, "gates"), (uint64_t)i));
    return t;
}

static void inputs_of(void *state, lt_dtype dtype, const shape *s, lt_tensor *in)
{
    const lt_dtype wide = lt_wide_dtype(dtype);
    char qkv[48], gates[48];
    (void)snprintf(qkv, sizeof qkv, "%dx%d", s->tokens,
                   2 * s->key_heads * s->key_dim + s->value_heads * s->value_dim);
    (void)snprintf(gates, sizeof gates, "%dx%d", s->tokens, s->value_heads);
    in[QKV] = lt_test_random_of(state, dtype, qkv, 1, 1.0);
    in[DECAY] = uniform(state, wide, gates, 2, -2.0 * s->decay, 0.0);
    in[BETA] = uniform(state, wide, gates, 3, 0.0, 1.0);
    in[SEGMENTS] = lt_test_i32(state, s->n_segments, s->segments);
}

// Two tokens: q_1 = k_1 = (1, 0), v_1 = 2, e^g = beta = 1/2 there; k_2 = (0.6, 0.8), q_2 = (0, 1),
// v_2 = 2, e^g = 1/2, beta = 1. So nu_1 = 1, S = (1, 0); then S~ = (0.5, 0), nu_2 = 2 - 0.3 = 1.7
// and S = (1.52, 1.36). o is S^T q / sqrt 2.
static void known_values_come_out(void **state)
{
    const double qkv[] = {1, 0, 1, 0, 2, 0, 3, 0.6, 0.8, 2}, half = -0.69314718055994530942;
    const lt_tensor in[] = {lt_test_f64(*state, "2x5", qkv),
                            lt_test_f64(*state, "2x1", (double[]){half, half}),
                            lt_test_f64(*state, "2x1", (double[]){0.5, 1}),
                            lt_test_i32(*state, "2", (int32_t[]){0, 2})};
    const lt_gated_delta_attr attr = {
        .key_heads = 1, .value_heads = 1, .key_dim = 2, .value_dim = 1};
    lt_tensor out[1];
    assert_ok(lt_test_forward(*state, &lt_op_gated_delta, in, &attr, out));
    assert_floats(&out[0], 3e-6, 1 / sqrt(2), 1.36 / sqrt(2)); // lengths have 1e-6 below the root
}

// Outputs and all gradients in chunks against those token by token, in double.
static void chunks_agree(void *state, const shape *s, double tol)
{
    static const int chunks[] = {16, 32, 64, 5};
    const lt_test_column ref = {.backend = LT_REF}, cpu = {.backend = LT_CPU};
    lt_tensor in[N_INPUTS], out[1], want[N_INPUTS], got_out[1], got[N_INPUTS];
    inputs_of(state, LT_F64, s, in);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        const lt_gated_delta_attr attr = attr_of(s, chunks[c]);
        assert_ok(lt_test_forward(state, &lt_op_gated_delta, in, &attr, out));
        assert_ok(lt_test_forward_on(state, cpu, &lt_op_gated_delta, in, &attr, got_out));
        assert_true(lt_test_difference(&got_out[0], &out[0]) <= tol);
        char dims[48];
        (void)snprintf(dims, sizeof dims, "%dx%d", s->tokens, s->value_heads * s->value_dim);
        const lt_tensor dout[] = {lt_test_random_f64(state, dims, 4)};
        for (int i = 0; i < N_INPUTS; i++) {
            want[i] = i == SEGMENTS ? lt_test_none() : lt_test_garbage(state, &in[i]);
            got[i] = i == SEGMENTS ? lt_test_none() : lt_test_garbage(state, &in[i]);
        }
        assert_ok(
            lt_test_backward_on(state, ref, &lt_op_gated_delta, in, &attr, out, dout, want, 0));
        assert_ok(
            lt_test_backward_on(state, cpu, &lt_op_gated_delta, in, &attr, out, dout, got, 0));
        for (int i = 0; i < SEGMENTS; i++) {
            const double d = lt_test_difference(&got[i], &want[i]);
            if (!(d <= tol))
                fail_msg("chunk %d: gradient %d is off by %g", chunks[c], i, d);
        }
    }
}

static void chunks_are_the_recurrence(void **state)
{
    // more value heads than key heads, odd dims, empty segments, borders of chunks and beside them
    const int32_t a[] = {0, 64, 64, 129, 130, 200}, b[] = {0, 191}, c[] = {3, 20, 70};
    const shape shapes[] = {{200, 2, 4, 8, 6, 0.5, "6", a},
                            {191, 1, 3, 7, 5, 0.1, "2", b},
                            {80, 3, 3, 5, 11, 1.0, "3", c},
                            {65, 1, 1, 1, 1, 0.3, "2", (const int32_t[]){0, 65}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        chunks_agree(*state, &shapes[i], 1e-10);
}

static void chunks_are_the_recurrence_for_slow_and_for_fast_decays(void **state)
{
    const int32_t all[] = {0, 150};
    for (int i = 0; i < 4; i++) {
        const double decay[] = {0.001, 5.0, 100.0, 0.0};
        chunks_agree(*state, &(shape){150, 1, 2, 6, 4, decay[i], "2", all}, 1e-10);
    }
}

// Long, with gates at their ends: nothing kept, everything kept, nothing written, all written.
static void sixteen_thousand_tokens_stay_finite_in_bf16(void **state)
{
    const int32_t all[] = {0, 16384};
    const shape s = {16384, 1, 2, 16, 16, 0.01, "2", all};
    const lt_gated_delta_attr attr = attr_of(&s, 0);
    const lt_test_column cpu = {.backend = LT_CPU};
    lt_tensor in[N_INPUTS], out[1], din[N_INPUTS];
    inputs_of(*state, LT_BF16, &s, in);
    for (int64_t t = 4096; t < 16384; t++) {
        const double ends[] = {0.0, -1e30, -80.0, -0.0};
        for (int64_t h = 0; h < 2; h++) {
            lt_store(&in[DECAY], 2 * t + h, ends[(t / 1000 + t % 7 / 6) % 4]);
            lt_store(&in[BETA], 2 * t + h, (double)(t / 500 % 2));
        }
    }
    assert_ok(lt_test_forward_on(*state, cpu, &lt_op_gated_delta, in, &attr, out));
    const lt_tensor dout[] = {lt_test_random_of(*state, LT_BF16, "16384x32", 4, 1.0)};
    for (int i = 0; i < SEGMENTS; i++)
        din[i] = lt_test_garbage(*state, &in[i]);
    din[SEGMENTS] = lt_test_none();
    assert_ok(lt_test_backward_on(*state, cpu, &lt_op_gated_delta, in, &attr, out, dout, din, 0));
    double most = 0.0;
    for (int i = -1; i < SEGMENTS; i++) {
        const lt_tensor *t = i < 0 ? &out[0] : &din[i];
        for (int64_t k = 0, n = lt_n_elems(t); k < n; k++) {
            if (!isfinite(lt_load(t, k)) || fabs(lt_load(t, k)) > 1e6)
                fail_msg("tensor %d has %g at %lld", i, lt_load(t, k), (long long)k);
            most = fmax(most, fabs(lt_load(t, k)));
        }
    }
    assert_true(most > 0.0);
}

// Rows of segment 1 of one run against those of a run where segment 0 differs, or is not there.
static void a_segment_knows_nothing_of_its_neighbours(void **state)
{
    const shape s = {170, 2, 4, 8, 8, 0.05, "4", (const int32_t[]){0, 70, 70, 170}};
    const shape alone = {100, 2, 4, 8, 8, 0.05, "2", (const int32_t[]){0, 100}};
    const lt_gated_delta_attr attr = attr_of(&s, 0);
    for (int backend = LT_REF; backend <= LT_CPU; backend++) {
        const lt_test_column column = {.backend = (lt_backend)backend};
        lt_tensor in[N_INPUTS], one[N_INPUTS], first[1], second[1], third[1];
        inputs_of(*state, LT_F32, &s, in);
        inputs_of(*state, LT_F32, &alone, one);
        for (int i = 0; i < SEGMENTS; i++) {
            const size_t row = lt_tensor_bytes(&in[i]) / 170;
            memcpy(one[i].data, (const char *)in[i].data + 70 * row, 100 * row);
        }
        assert_ok(lt_test_forward_on(*state, column, &lt_op_gated_delta, in, &attr, first));
        for (int64_t k = 0; k < (int64_t)70 * 64; k++)
            ((float *)in[QKV].data)[k] = 1e3F;
        assert_ok(lt_test_forward_on(*state, column, &lt_op_gated_delta, in, &attr, second));
        assert_ok(lt_test_forward_on(*state, column, &lt_op_gated_delta, one, &attr, third));
        const size_t row = lt_tensor_bytes(&first[0]) / 170;
        assert_memory_equal((const char *)first[0].data + 70 * row,
                            (const char *)second[0].data + 70 * row, 100 * row);
        assert_memory_equal((const char *)first[0].data + 70 * row, third[0].data, 100 * row);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    const shape s = {8, 2, 4, 3, 2, 0.1, "2", (const int32_t[]){0, 8}};
    lt_tensor in[N_INPUTS], out[1];
    inputs_of(*state, LT_F32, &s, in);
    lt_gated_delta_attr attr = attr_of(&s, 65);
    assert_fails(lt_test_forward(*state, &lt_op_gated_delta, in, &attr, out), LT_ERR_CONFIG,
                 "a chunk of at most 64, got 65");
    attr = attr_of(&s, 0);
    attr.value_heads = 3;
    assert_fails(lt_test_forward(*state, &lt_op_gated_delta, in, &attr, out), LT_ERR_CONFIG,
                 "value_heads as a multiple of key_heads, got 3 and 2");
    attr = attr_of(&s, 0);
    attr.key_dim = 4;
    assert_fails(lt_test_forward(*state, &lt_op_gated_delta, in, &attr, out), LT_ERR_SHAPE,
                 "[8,24]");
    attr = attr_of(&s, 0);
    in[SEGMENTS] = lt_test_i32(*state, "3", (const int32_t[]){0, 9, 8});
    assert_fails(lt_test_forward(*state, &lt_op_gated_delta, in, &attr, out), LT_ERR_DATA,
                 "segments[1] is 9, not in 0 to 8");
}

LT_TEST_MAIN(LT_TEST(known_values_come_out), LT_TEST(chunks_are_the_recurrence),
             LT_TEST(chunks_are_the_recurrence_for_slow_and_for_fast_decays),
             LT_TEST(sixteen_thousand_tokens_stay_finite_in_bf16),
             LT_TEST(a_segment_knows_nothing_of_its_neighbours),
             LT_TEST(what_does_not_fit_is_refused))
