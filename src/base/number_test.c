// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"
#include "base/rng.h"
#include "tests/kit/lt_test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void doubles_print_as_python_does(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0.0, "0.0"},
                 {-0.0, "-0.0"},
                 {1.0, "1.0"},
                 {512.0, "512.0"},
                 {0.1, "0.1"},
                 {1e-5, "1e-05"},
                 {0.0001, "0.0001"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {1.5e300, "1.5e+300"},
                 {2.5, "2.5"},
                 {1234.56787109375, "1234.56787109375"},
                 {1.0 / 3.0, "0.3333333333333333"},
                 {9.5367431640625e-07, "9.5367431640625e-07"},
                 {(double)NAN, "nan"},
                 {-HUGE_VAL, "-inf"},
                 {123456789012345680.0, "1.2345678901234568e+17"},
                 {5e-324, "5e-324"},
                 {0.999, "0.999"},
                 {100.25, "100.25"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_text_equal(lt_double_text(cases[i].x).s, cases[i].text);
}

static void doubles_read_back_equal(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        const double x = lt_normal(7, i) * pow(10, lt_uniform(8, i) * 60 - 30);
        assert_true(strtod(lt_double_text(x).s, NULL) == x);
    }
}

static void byte_counts_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; // -1: refused
    } cases[] = {{"4096", 4096},
                 {"120GiB", INT64_C(120) << 30},
                 {"64 GB", 64000000000},
                 {" 1.5 MiB ", 3 << 19},
                 {"2k", 2048},
                 {"7 b", 7},
                 {"", -1},
                 {"GiB", -1},
                 {"1.2.3G", -1},
                 {"-1G", -1},
                 {"12 parsecs", -1},
                 {"99999999T", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = -1;
        assert_int_equal(lt_bytes_parse(cases[i].text, &bytes), cases[i].bytes >= 0);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

LT_TEST_MAIN(LT_TEST(doubles_print_as_python_does), LT_TEST(doubles_read_back_equal),
             LT_TEST(byte_counts_have_units))
