// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_zero(const void *ptr, size_t bytes)
{
    const uint8_t *p = ptr;
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

static void memory_is_zeroed_and_aligned_at_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4097, 1 << 20, (1 << 20) + 7};
    for (int round = 0; round < 3; round++) { // the second time the heap hands out used memory
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *ptr = NULL;
            assert_ok(lt_mem_alloc(&ptr, sizes[i], "a test"));
            assert_non_null(ptr);
            assert_int_equal((uintptr_t)ptr % 64, 0);
            assert_true(is_zero(ptr, sizes[i]));
            memset(ptr, 0xa5, sizes[i]);
            lt_mem_free(ptr);
        }
    }
    lt_mem_free(NULL);
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    // NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident;
}

static void a_large_block_costs_nothing_until_it_is_touched(void **state)
{
    (void)state;
    void *ptr = NULL;
    const long before = resident_pages();
    assert_ok(lt_mem_alloc(&ptr, (size_t)1 << 30, "a large block"));
    const long grown = resident_pages() - before;
    lt_mem_free(ptr);
    assert_true(grown * sysconf(_SC_PAGESIZE) <
                64L << 20); // asan's shadow is an eighth at most, and lazily made
}

static void resizing_keeps_the_contents(void **state)
{
    (void)state;
    void *ptr = NULL;
    assert_ok(lt_mem_resize(&ptr, 10, "a test"));
    memcpy(ptr, "123456789", 10);
    for (size_t bytes = 100; bytes < 10000000; bytes = bytes * 3 + 1) {
        assert_ok(lt_mem_resize(&ptr, bytes, "a test"));
        assert_int_equal((uintptr_t)ptr % 64, 0);
        assert_string_equal(ptr, "123456789");
    }
    assert_ok(lt_mem_resize(&ptr, 4, "a test"));
    assert_memory_equal(ptr, "1234", 4);
    lt_mem_free(ptr);
}

static void impossible_requests_are_named(void **state)
{
    void *ptr = NULL;
    assert_fails(lt_mem_alloc(&ptr, SIZE_MAX, "the moon"), LT_ERR_MEMORY,
                 "out of memory: the moon wanted 18446744073709551615 bytes");
    assert_ok(lt_mem_alloc(&ptr, 8, "a test"));
    void *const was = ptr;
    assert_fails(lt_mem_resize(&ptr, SIZE_MAX - 1, "the sun"), LT_ERR_MEMORY, "the sun wanted");
    assert_ptr_equal(ptr, was);
    lt_mem_free(ptr);
    void *none;
    assert_fails(lt_arena_take(*state, SIZE_MAX - 3, &none), LT_ERR_MEMORY, "a test wanted");
}

static void arenas_hand_out_zeroed_aligned_blocks_apart(void **state)
{
    lt_arena *arena;
    assert_ok(lt_arena_create(&arena, "blocks"));
    for (int round = 0; round < 2; round++) {
        uint8_t *blocks[200];
        for (size_t i = 0; i < 200; i++) {
            void *ptr;
            assert_ok(lt_arena_take(arena, i * i, &ptr));
            assert_int_equal((uintptr_t)ptr % 16, 0);
            assert_true(is_zero(ptr, i * i));
            memset(ptr, (int)i, i * i);
            blocks[i] = ptr;
        }
        for (size_t i = 0; i < 200; i++)
            for (size_t k = 0; k < i * i; k++)
                assert_int_equal(blocks[i][k], i);
        assert_true(lt_arena_used(arena) >= 199UL * 200 * 399 / 6);
        lt_arena_reset(arena);
        assert_int_equal(lt_arena_used(arena), 0);
    }
    lt_arena_destroy(arena);
    lt_arena_destroy(NULL);
    (void)state;
}

static void arenas_print_and_copy_text(void **state)
{
    char *text;
    assert_ok(lt_arena_printf(*state, &text, "%s-%d", "layer", 12));
    assert_text_equal(text, "layer-12");
    assert_ok(lt_arena_text(*state, "abcdef", 3, &text));
    assert_text_equal(text, "abc");
    assert_ok(lt_arena_text(*state, NULL, 0, &text));
    assert_text_equal(text, "");
}

static void arrays_grow_and_keep_their_items(void **state)
{
    (void)state;
    lt_vec v = LT_VEC_OF(int64_t);
    for (int64_t i = 0; i < 1000; i++)
        assert_ok(lt_vec_push(&v, &i));
    assert_ok(lt_vec_push(&v, NULL));
    assert_ok(lt_vec_append(&v, (int64_t[]){7, 8}, 2));
    assert_ok(lt_vec_append(&v, NULL, 0));
    assert_int_equal(v.n, 1003);
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(LT_AT(&v, int64_t, i), i);
    assert_int_equal(LT_AT(&v, int64_t, 1000), 0);
    assert_int_equal(LT_AT(&v, int64_t, 1002), 8);
    assert_ok(lt_vec_resize(&v, 2));
    assert_ok(lt_vec_resize(&v, 5));
    assert_int_equal(LT_AT(&v, int64_t, 1), 1);
    assert_int_equal(LT_AT(&v, int64_t, 4), 0);
    assert_fails(lt_vec_append(&v, &v, INT64_MAX), LT_ERR_MEMORY, "an array");
    lt_vec_clear(&v);
    assert_int_equal(v.n, 0);
    lt_vec_deinit(&v);
    assert_null(v.data);
}

LT_TEST_MAIN(LT_TEST(memory_is_zeroed_and_aligned_at_any_size),
             LT_TEST(a_large_block_costs_nothing_until_it_is_touched),
             LT_TEST(resizing_keeps_the_contents), LT_TEST(impossible_requests_are_named),
             LT_TEST(arenas_hand_out_zeroed_aligned_blocks_apart),
             LT_TEST(arenas_print_and_copy_text), LT_TEST(arrays_grow_and_keep_their_items))
