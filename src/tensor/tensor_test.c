// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor.h"
#include "tests/kit/lt_test.h"
#include <math.h>
#include <string.h>

static void shapes_count_and_print(void **state)
{
    (void)state;
    const lt_tensor t = lt_tensor_nd(LT_BF16, 3, (const int64_t[]){2, 3, 4});
    assert_int_equal(lt_n_elems(&t), 24);
    assert_int_equal(lt_tensor_bytes(&t), 48);
    assert_int_equal(lt_rows(&t), 6);
    assert_int_equal(lt_width(&t), 4);
    assert_text_equal(lt_shape_print(&t).s, "bf16[2,3,4]");
    const lt_tensor scalar = lt_tensor_nd(LT_F32, 0, NULL), none = lt_tensor_2d(LT_I64, 0, 9);
    assert_int_equal(lt_n_elems(&scalar), 1);
    assert_int_equal(lt_rows(&scalar), 1);
    assert_text_equal(lt_shape_print(&scalar).s, "f32[]");
    assert_int_equal(lt_n_elems(&none), 0);
    assert_text_equal(lt_shape_print(&none).s, "i64[0,9]");
    const int64_t wide = 1234567890123456789;
    const lt_tensor huge =
        lt_tensor_nd(LT_F32, 6, (const int64_t[]){wide, wide, wide, wide, wide, wide});
    assert_int_equal(strlen(lt_shape_print(&huge).s),
                     sizeof(lt_shape_text) - 1); // cut, not overrun
}

static void shapes_are_compared_without_dtype(void **state)
{
    (void)state;
    const lt_tensor a = lt_tensor_2d(LT_F32, 4, 8), b = lt_tensor_as(&a, LT_F64),
                    c = lt_tensor_1d(LT_F32, 32);
    assert_true(lt_same_shape(&a, &b));
    assert_false(lt_same_shape(&a, &c));
    assert_int_equal(b.dtype, LT_F64);
    lt_tensor bound = a;
    bound.data = &bound;
    bound.host = &bound;
    const lt_tensor like = lt_tensor_like(&bound);
    assert_null(like.data);
    assert_null(like.host);
}

static void elements_of_every_dtype_come_back(void **state)
{
    static const double values[] = {0, 1, 2, 100, 255};
    for (int d = 0; d < LT_N_DTYPES; d++) {
        lt_tensor t = lt_tensor_1d((lt_dtype)d, 5);
        t.data = lt_test_take(*state, lt_tensor_bytes(&t));
        for (int i = 0; i < 5; i++)
            lt_store(&t, i, values[i]);
        for (int i = 0; i < 5; i++) {
            assert_near(lt_load(&t, i), values[i], 0);
            assert_int_equal(lt_load_int(&t, i), (int64_t)values[i]);
        }
    }
}

static void integers_round_to_even_and_stay_in_range(void **state)
{
    static const struct {
        lt_dtype dtype;
        double v;
        int64_t want;
    } cases[] = {
        {LT_I32, 2.5, 2},
        {LT_I32, 3.5, 4},
        {LT_I32, -2.5, -2},
        {LT_I32, 1e300, INT32_MAX},
        {LT_I32, -1e300, INT32_MIN},
        {LT_U8, 300, 255},
        {LT_U8, -1, 0},
        {LT_I16, 40000, 32767},
        {LT_I64, 1e300, 0x7ffffffffffffc00},
        {LT_I64, -1e300, INT64_MIN},
        {LT_U8, (double)NAN, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        lt_tensor t = lt_tensor_1d(cases[c].dtype, 1);
        t.data = lt_test_take(*state, 8);
        lt_store(&t, 0, cases[c].v);
        assert_true(lt_load_int(&t, 0) == cases[c].want);
    }
}

static float bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void every_f16_survives_the_way_through_f32(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = lt_f16_to_f32((uint16_t)h);
        if ((h & 0x7fffU) > 0x7c00U) {
            assert_true(isnan(f) && (lt_f32_to_f16(f) & 0x7fffU) > 0x7c00U);
            continue;
        }
        assert_int_equal(lt_f32_to_f16(f), h);
        const int exponent = (int)(h >> 10 & 31U), fraction = (int)(h & 0x3ffU);
        const double magnitude =
            exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        if (exponent != 31)
            assert_near((double)f, h & 0x8000U ? -magnitude : magnitude, 0);
    }
}

static void f16_and_bf16_round_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double v;
        uint16_t f16, bf16;
    } cases[] = {
        {1.0, 0x3c00, 0x3f80},
        {1 + 0x1p-11, 0x3c00, 0x3f80},           // a tie of f16, to even
        {1 + 0x3p-11, 0x3c02, 0x3f80},           // the next one goes up
        {1 + 0x1p-11 + 0x1p-40, 0x3c01, 0x3f80}, // above the tie by less than a float can hold
        {1 + 0x1p-8, 0x3c04, 0x3f80},            // a tie of bf16
        {1 + 0x1p-8 + 0x1p-40, 0x3c04, 0x3f81},  // rounding through float would make it a tie
        {1 + 0x3p-8 - 0x1p-40, 0x3c0c, 0x3f81},  // and from below
        {65519.99, 0x7bff, 0x4780},
        {65520, 0x7c00, 0x4780},
        {-65536, 0xfc00, 0xc780},
        {0x1p-24, 0x0001, 0x3380},
        {0x1p-25, 0x0000, 0x3300}, // half of the least f16: a tie, to zero
        {0x1p-25 + 0x1p-70, 0x0001, 0x3300},
        {-0x1.8p-24, 0x8002, 0xb3c0},
        {0x1p-14 - 0x1p-26, 0x0400, 0x3880}, // the largest subnormal rounds up to a normal
        {0x1p-133, 0, 0x0001},               // the least bf16
        {0x1p-134, 0, 0},
        {0x1p-134 + 0x1p-180, 0, 1},
        {0x1p-160, 0, 0},
        {3.4e38, 0x7c00, 0x7f80},
        {1e300, 0x7c00, 0x7f80},
        {-(double)INFINITY, 0xfc00, 0xff80},
        {-0.0, 0x8000, 0x8000},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint16_t h[2] = {1, 1};
        lt_convert(&h[0], LT_F16, &cases[c].v, LT_F64, 1);
        lt_convert(&h[1], LT_BF16, &cases[c].v, LT_F64, 1);
        if (h[0] != cases[c].f16 || h[1] != cases[c].bf16)
            fail_msg("%a became f16 %04x and bf16 %04x", cases[c].v, h[0], h[1]);
    }
}

static void every_pair_of_float_dtypes_converts(void **state)
{
    static const lt_dtype floats[] = {LT_F64, LT_F32, LT_BF16, LT_F16};
    static const double values[] = {0, -1.5, 0.25, 96, -0.0078125}; // exact in all four
    enum { N = 5 };
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            char *src = (char *)lt_test_take(*state, 64) + 1,
                 *dst = (char *)lt_test_take(*state, 64) + 1; // unaligned
            double back[N];
            lt_convert(src, floats[a], values, LT_F64, N);
            lt_convert(dst, floats[b], src, floats[a], N);
            lt_convert(back, LT_F64, dst, floats[b], N);
            assert_memory_equal(back, values, sizeof back);
        }
    }
    lt_convert(NULL, LT_F32, NULL, LT_BF16, 0);
}

static void a_nan_stays_a_nan(void **state)
{
    (void)state;
    const float nans[] = {bits(0x7f800001U), bits(0xff800001U), bits(0x7fffffffU), (float)NAN};
    for (int i = 0; i < 4; i++) {
        assert_true(isnan(lt_bf16_to_f32(lt_f32_to_bf16(nans[i]))));
        assert_true(isnan(lt_f16_to_f32(lt_f32_to_f16(nans[i]))));
    }
}

static void a_split_master_weight_joins_exactly(void **state)
{
    (void)state;
    uint32_t u = 1;
    for (int i = 0; i < 200000; i++) {
        u = u * 1664525U + 1013904223U;
        const float f = bits(u);
        uint16_t hi;
        int16_t lo;
        lt_split_f32(f, &hi, &lo);
        const float back = lt_join_f32(hi, lo);
        assert_memory_equal(&back, &f, sizeof f);
    }
    uint16_t hi;
    int16_t lo;
    lt_split_f32(bits(0x3f808000U), &hi, &lo); // a tie goes away from zero
    assert_int_equal(hi, 0x3f81);
    assert_int_equal(lo, -32768);
}

LT_TEST_MAIN(LT_TEST(shapes_count_and_print), LT_TEST(shapes_are_compared_without_dtype),
             LT_TEST(elements_of_every_dtype_come_back),
             LT_TEST(integers_round_to_even_and_stay_in_range),
             LT_TEST(every_f16_survives_the_way_through_f32),
             LT_TEST(f16_and_bf16_round_to_nearest_even),
             LT_TEST(every_pair_of_float_dtypes_converts), LT_TEST(a_nan_stays_a_nan),
             LT_TEST(a_split_master_weight_joins_exactly))
