// SPDX-License-Identifier: Apache-2.0
#include "op/embedding.h"
#include "op/pos_embed.h"
#include "op/rows.h"
#include "tests/kit/cpu_kit.h"
#include <stdio.h>

// Every third of n rows, from 1 on.
static lt_tensor thirds(void **state, int n)
{
    int32_t rows[512];
    char shape[16];
    int count = 0;
    for (int i = 1; i < n; i += 3)
        rows[count++] = i;
    (void)snprintf(shape, sizeof shape, "%d", count);
    return lt_test_i32(*state, shape, rows);
}

static void rows_that_are_replaced_added_or_picked_agree(void **state)
{
    static const int sizes[][2] = {{1, 5}, {31, 33}, {40, 600}, {0, 4}};
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char x[32], f[32];
        const lt_tensor rows = thirds(state, sizes[i][0]);
        (void)snprintf(x, sizeof x, "%dx%d", sizes[i][0], sizes[i][1]);
        (void)snprintf(f, sizeof f, "%dx%d", (int)lt_n_elems(&rows), sizes[i][1]);
        const lt_tensor in[] = {lt_test_random(*state, x, 1 + i), lt_test_random(*state, f, 11 + i),
                                rows},
                        gather_in[] = {in[0], rows};
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_scatter_rows, .in = in});
        lt_test_cpu_agrees(*state,
                           &(lt_cpu_check){.def = &lt_op_scatter_rows, .in = in, .wide = LT_IN(1)});
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_scatter_add_rows, .in = in});
        lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_gather_rows, .in = gather_in});
    }
}

static void a_table_read_by_many_agrees(void **state)
{
    int32_t ids[70], corners[40 * 4];
    for (int i = 0; i < 70; i++)
        ids[i] = i % 3 == 0 ? 5 : i * i % 19;
    for (int i = 0; i < 160; i++)
        corners[i] = i / 4 % 7 + i % 2; // twice the same row in one blend
    const lt_tensor embedding_in[] = {lt_test_i32(*state, "70", ids),
                                      lt_test_random(*state, "19x300", 1)};
    lt_test_cpu_agrees(
        *state, &(lt_cpu_check){.def = &lt_op_embedding, .in = embedding_in, .params = LT_IN(1)});
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_embedding, .in = embedding_in});
    const lt_tensor none_in[] = {lt_test_i32(*state, "0", ids),
                                 lt_test_random(*state, "19x300", 1)};
    lt_test_cpu_agrees(*state,
                       &(lt_cpu_check){.def = &lt_op_embedding, .in = none_in, .params = LT_IN(1)});
    const lt_tensor pos_in[] = {
        lt_test_random(*state, "40x31", 2), lt_test_random(*state, "9x31", 3),
        lt_test_i32(*state, "40x4", corners), lt_test_random(*state, "40x4", 4)};
    lt_test_cpu_agrees(*state, &(lt_cpu_check){.def = &lt_op_pos_embed_add,
                                               .in = pos_in,
                                               .wide = LT_IN(3),
                                               .no_grad = LT_IN(3),
                                               .params = LT_IN(1)});
}

static void bad_row_numbers_are_refused(void **state)
{
    const lt_test_column cpu = {.backend = LT_CPU};
    const lt_tensor x = lt_test_random(*state, "4x3", 1), f = lt_test_random(*state, "2x3", 2);
    const lt_tensor falling[] = {x, f, lt_test_i32(*state, "2", (int32_t[]){2, 1})};
    const lt_tensor outside[] = {lt_test_i32(*state, "2", (int32_t[]){0, 4}), x};
    lt_tensor out[1];
    assert_fails(lt_test_forward_on(*state, cpu, &lt_op_scatter_rows, falling, NULL, out),
                 LT_ERR_DATA, "must ascend");
    assert_fails(lt_test_forward_on(*state, cpu, &lt_op_scatter_add_rows, falling, NULL, out),
                 LT_ERR_DATA, "must ascend");
    assert_fails(lt_test_forward_on(*state, cpu, &lt_op_embedding, outside, NULL, out), LT_ERR_DATA,
                 "ids[1] is 4");
}

LT_TEST_MAIN(LT_TEST(rows_that_are_replaced_added_or_picked_agree),
             LT_TEST(a_table_read_by_many_agrees), LT_TEST(bad_row_numbers_are_refused))
