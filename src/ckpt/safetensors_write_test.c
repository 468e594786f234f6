// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "ckpt/checksum.h"
#include "ckpt/safetensors_write.h"
#include "tests/kit/lt_test.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// An item that copies a view of another file.
static lt_st_item copy_of(const lt_st_tensor *view)
{
    return (lt_st_item){.tensor = *view};
}

static lt_st_item item_of(const char *name, lt_dtype dtype, lt_tensor *values)
{
    lt_st_item item = {.from = values->dtype, .fetch = lt_st_fetch_tensor, .ctx = values};
    assert_ok(lt_st_plan(name, dtype, values->rank, values->dim, &item.tensor));
    return item;
}

static lt_tensor values_of(void **state, lt_dtype dtype, int64_t n)
{
    lt_tensor t = lt_tensor_1d(dtype, n);
    t.data = lt_test_take(*state, lt_tensor_bytes(&t));
    return t;
}

static void a_published_file_is_written_back_to_the_byte(void **state)
{
    static const char *const names[] = {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "internvl"};
    const char *out = lt_test_path(*state, lt_test_dir(*state), "out.safetensors");
    for (size_t i = 0; i < 4; i++) {
        char *name;
        assert_ok(lt_arena_printf(*state, &name, "model/%s/model.safetensors", names[i]));
        const char *path = lt_test_golden(*state, name);
        if (path == NULL) {
            print_message("golden/%s isn't here\n", name);
            skip();
        }
        lt_st *st;
        assert_ok(lt_st_open(path, &st));
        const int64_t n = lt_st_count(st);
        lt_st_item *items = lt_test_take(*state, (size_t)n * sizeof *items);
        for (int64_t k = 0; k < n; k++)
            items[k] = copy_of(lt_st_at(st, k));
        assert_ok(lt_st_write(out, items, n, lt_st_meta_at(st, 0), lt_st_meta_count(st)));
        size_t want_len, got_len;
        const char *want = lt_test_read(*state, path, &want_len),
                   *got = lt_test_read(*state, out, &got_len);
        assert_int_equal(got_len, want_len);
        assert_memory_equal(got, want, want_len);
        lt_st_close(st);
    }
}

// Every bit pattern of the two 16-bit floats but the NaNs, through fp32 masters.
static void sixteen_bit_floats_survive_fp32_to_the_bit(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "w.safetensors");
    for (int half = 0; half < 2; half++) {
        const lt_dtype dtype = half ? LT_F16 : LT_BF16;
        lt_tensor raw = values_of(state, dtype, 65536), master = values_of(state, LT_F32, 65536);
        uint16_t *bits = raw.data;
        const uint32_t exponent = half ? 0x7c00 : 0x7f80;
        for (uint32_t i = 0; i < 65536; i++)
            bits[i] = (uint16_t)((i & exponent) == exponent && (i & 0x7fffU) != exponent ? 0 : i);
        lt_convert(master.data, LT_F32, raw.data, dtype, 65536);
        const lt_st_item item = item_of("w", dtype, &master);
        assert_ok(lt_st_write(path, &item, 1, NULL, 0));
        lt_st *st;
        assert_ok(lt_st_open(path, &st));
        assert_int_equal(lt_st_at(st, 0)->bytes, 131072);
        assert_memory_equal(lt_st_at(st, 0)->data, bits, 131072);
        lt_st_close(st);
    }
}

static void split_masters_are_rebuilt_over_many_pieces(void **state)
{
    enum { N = 600001 }; // more than two pieces
    const char *path = lt_test_path(*state, lt_test_dir(*state), "state.safetensors");
    float *want = lt_test_take(*state, N * sizeof *want);
    uint16_t *hi = lt_test_take(*state, N * sizeof *hi);
    int16_t *lo = lt_test_take(*state, N * sizeof *lo);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t bits = (i * 2654435761U) & 0xbfffffffU; // no NaN, no infinity
        memcpy(&want[i], &bits, 4);
        lt_split_f32(want[i], &hi[i], &lo[i]);
    }
    lt_st_split split = {hi, lo};
    lt_st_item item = {.from = LT_F32, .fetch = lt_st_fetch_split, .ctx = &split};
    assert_ok(lt_st_plan("master.w", LT_F32, 1, (int64_t[]){N}, &item.tensor));
    assert_ok(lt_st_write(path, &item, 1, NULL, 0));
    lt_st *st;
    assert_ok(lt_st_open(path, &st));
    assert_memory_equal(lt_st_at(st, 0)->data, want, N * sizeof *want);
    lt_st_close(st);
}

static void mixed_dtypes_are_ordered_so_that_each_is_aligned(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "mixed.safetensors");
    static const lt_dtype dtypes[] = {LT_U8,  LT_BF16, LT_I64, LT_F32,
                                      LT_I16, LT_F64,  LT_I32, LT_F16};
    static const char *const names[] = {"u8",  "bf16", "i64", "f32",
                                        "i16", "f64",  "i32", "\"q\"\n\xc3\xa9"};
    lt_tensor values[8];
    lt_st_item items[8];
    for (int i = 0; i < 8; i++) {
        values[i] = values_of(state, dtypes[i], 3);
        memset(values[i].data, i + 1, lt_tensor_bytes(&values[i]));
        items[i] = item_of(names[i], dtypes[i], &values[i]);
    }
    const lt_st_pair meta[] = {{"format", "pt"}, {"step", "12"}, {"text", "{\"a\": \"\\\"\"}"}};
    assert_ok(lt_st_write(path, items, 8, meta, 3));
    lt_st *st;
    assert_ok(lt_st_open(path, &st));
    for (int i = 0; i < 8; i++) {
        const lt_st_tensor *view = lt_st_find(st, names[i]);
        lt_tensor t;
        assert_non_null(view);
        assert_ok(lt_st_as_tensor(view, &t));
        assert_non_null(t.data); // aligned
        assert_memory_equal(t.data, values[i].data, lt_tensor_bytes(&values[i]));
    }
    assert_string_equal(lt_st_meta(st, "text"), "{\"a\": \"\\\"\"}");
    lt_st_close(st);
}

static void a_file_without_tensors_is_fine(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "empty.safetensors");
    lt_tensor none = values_of(state, LT_F32, 0);
    const lt_st_item item = item_of("none", LT_F32, &none);
    lt_st *st;
    assert_ok(lt_st_write(path, NULL, 0, (lt_st_pair[]){{"step", "1"}}, 1));
    assert_ok(lt_st_open(path, &st));
    assert_string_equal(lt_st_meta(st, "step"), "1");
    lt_st_close(st);
    assert_ok(lt_st_write(path, &item, 1, NULL, 0));
    assert_ok(lt_st_open(path, &st));
    assert_int_equal(lt_st_find(st, "none")->bytes, 0);
    lt_st_close(st);
}

static lt_status fetch_that_fails(void *ctx, int64_t first, int64_t n, void *dst)
{
    (void)ctx, (void)n, (void)dst;
    return LT_FAIL(LT_ERR_DEVICE, "the device is gone at %lld", (long long)first);
}

static void what_cannot_be_written_is_refused(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "x.safetensors");
    lt_tensor values = values_of(state, LT_F32, 4);
    lt_st_item items[2] = {item_of("w", LT_F32, &values), item_of("w", LT_F32, &values)};
    assert_fails(lt_st_write(path, items, 2, NULL, 0), LT_ERR_FORMAT,
                 "tensor w would be written twice");
    items[0] = item_of("w", LT_I32, &values);
    assert_fails(lt_st_write(path, items, 1, NULL, 0), LT_ERR_DTYPE,
                 "tensor w can't be written as I32");
    items[0] = item_of("w", LT_F32, &values);
    items[0].fetch = fetch_that_fails;
    assert_fails(lt_st_write(path, items, 1, NULL, 0), LT_ERR_DEVICE,
                 "tensor w: the device is gone at 0");
    lt_st_tensor t;
    assert_fails(lt_st_plan("w", LT_F32, 2, (int64_t[]){INT64_MAX, 2}, &t), LT_ERR_SHAPE,
                 "tensor w");
    assert_fails(lt_st_write("/nonexistent/x", items, 1, NULL, 0), LT_ERR_NOT_FOUND,
                 "/nonexistent/x");
}

// ---- a disk that is full or lies

// A limit on the size of files stands in for a full disk; a child's, as it can't be lifted again.
static void a_full_disk_gives_one_sentence_with_path_and_bytes(void **state)
{
    const char *path = lt_test_path(*state, lt_test_dir(*state), "big.safetensors");
    lt_tensor values = values_of(state, LT_F32, 1 << 20);
    const lt_st_item item = item_of("w", LT_F32, &values);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = {1 << 20, 1 << 20};
        const bool right = setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                           lt_st_write(path, &item, 1, NULL, 0) == LT_ERR_IO &&
                           strstr(lt_error_message(), path) != NULL &&
                           strstr(lt_error_message(), "bytes") != NULL;
        _exit(right ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

typedef struct saboteur {
    const char *path;
    int64_t at; // the byte of the file to change while the write is under way
} saboteur;

// Changes what is already in the file, as a disk that loses a sector would.
static lt_status fetch_and_damage(void *ctx, int64_t first, int64_t n, void *dst)
{
    const saboteur *s = ctx;
    memset(dst, 0, (size_t)n * 4);
    if (first >= 3 << 18) {
        FILE *file = fopen(s->path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, s->at, SEEK_SET), 0);
        assert_int_equal(fputc(7, file), 7);
        assert_int_equal(fclose(file), 0);
    }
    return LT_OK;
}

static void a_byte_that_reads_back_differently_is_found(void **state)
{
    saboteur s = {.path = lt_test_path(*state, lt_test_dir(*state), "w.safetensors"), .at = 5000};
    lt_st_item item = {.from = LT_F32, .fetch = fetch_and_damage, .ctx = &s};
    assert_ok(lt_st_plan("w", LT_F32, 1, (int64_t[]){1 << 20}, &item.tensor));
    assert_fails(lt_st_write(s.path, &item, 1, NULL, 0), LT_ERR_IO,
                 "tensor w reads back differently");
    s.at = 40; // the header
    assert_int_not_equal(lt_st_write(s.path, &item, 1, NULL, 0), LT_OK);
    assert_text_contains(lt_error_message(), "w.safetensors");
}

static void the_checksum_depends_on_every_bit_and_not_on_the_cuts(void **state)
{
    uint8_t bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = (uint8_t)(i * 37);
    (void)state;
    for (size_t len = 0; len <= 200; len += 25) {
        lt_sum whole, cut;
        lt_sum_init(&whole);
        lt_sum_add(&whole, bytes, len);
        lt_sum_init(&cut);
        for (size_t at = 0, piece = 1; at < len; at += piece, piece = 1 + (piece * 7) % 40)
            lt_sum_add(&cut, bytes + at, piece < len - at ? piece : len - at);
        assert_true(lt_sum_value(&whole) == lt_sum_value(&cut));
        for (size_t bit = 0; bit < 8 * len; bit++) {
            lt_sum other;
            bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
            lt_sum_init(&other);
            lt_sum_add(&other, bytes, len);
            bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
            assert_true(lt_sum_value(&other) != lt_sum_value(&whole));
        }
    }
}

LT_TEST_MAIN(LT_TEST(a_published_file_is_written_back_to_the_byte),
             LT_TEST(sixteen_bit_floats_survive_fp32_to_the_bit),
             LT_TEST(split_masters_are_rebuilt_over_many_pieces),
             LT_TEST(mixed_dtypes_are_ordered_so_that_each_is_aligned),
             LT_TEST(a_file_without_tensors_is_fine), LT_TEST(what_cannot_be_written_is_refused),
             LT_TEST(a_full_disk_gives_one_sentence_with_path_and_bytes),
             LT_TEST(a_byte_that_reads_back_differently_is_found),
             LT_TEST(the_checksum_depends_on_every_bit_and_not_on_the_cuts))
