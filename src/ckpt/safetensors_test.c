// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/text.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_write.h"
#include "tests/kit/lt_test.h"
#include <string.h>

// ---- files by hand

// length, header, `n_data` bytes that count up
static uint8_t *file_of(void **state, const char *header, size_t n_data, size_t *len)
{
    const size_t n = strlen(header);
    uint8_t *bytes = lt_test_take(*state, 8 + n + n_data);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)n >> (8 * i));
    for (size_t i = 0; i < n; i++)
        bytes[8 + i] = (uint8_t)header[i];
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = (uint8_t)(i + 1);
    *len = 8 + n + n_data;
    return bytes;
}

#define ENTRY(name, dtype, shape, range)                                                           \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" range "]}"

static void views_point_into_the_bytes(void **state)
{
    size_t len;
    const char *header =
        "{" ENTRY("b", "I16", "3", "8,14") ",\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}"
                                           "," ENTRY("a", "F32", "2,1", "0,8") "," ENTRY(
                                               "none", "F32", "0,7",
                                               "14,14") "," ENTRY("scalar", "U8", "", "14,15") "}";
    const uint8_t *bytes = file_of(state, header, 15, &len);
    lt_st *st;
    assert_ok(lt_st_parse(bytes, len, "x.safetensors", &st));
    assert_int_equal(lt_st_count(st), 4);
    assert_string_equal(lt_st_at(st, 0)->name, "a"); // in the order of the data
    const lt_st_tensor *b = lt_st_find(st, "b");
    assert_ptr_equal(b->data, bytes + len - 15 + 8);
    assert_int_equal(b->bytes, 6);
    assert_int_equal(b->dtype, LT_I16);
    assert_int_equal(b->dim[0], 3);
    assert_int_equal(lt_st_find(st, "none")->bytes, 0);
    assert_int_equal(lt_st_find(st, "scalar")->rank, 0);
    assert_int_equal(lt_st_elems(lt_st_find(st, "scalar")), 1);
    assert_null(lt_st_find(st, "c"));
    assert_string_equal(lt_st_meta(st, "format"), "pt");
    assert_string_equal(lt_st_meta_at(st, 1)->key, "k");
    assert_null(lt_st_meta(st, "q"));
    lt_st_close(st);
}

static void dtypes_that_lathe_does_not_know_are_opaque_bytes(void **state)
{
    size_t len;
    const char *header =
        "{" ENTRY("a", "F8_E4M3", "2,2", "0,4") "," ENTRY("b", "BOOL", "1", "4,5") "," ENTRY(
            "c", "U16", "2", "5,9") "," ENTRY("d", "F4", "4", "9,11") "," ENTRY("e", "Q3_FUTURE",
                                                                                "9", "11,15") "}";
    const uint8_t *bytes = file_of(state, header, 15, &len);
    lt_st *st;
    assert_ok(lt_st_parse(bytes, len, "x", &st));
    for (int64_t i = 0; i < 5; i++) {
        lt_tensor t;
        uint8_t buffer[16];
        assert_int_equal(lt_st_at(st, i)->dtype, LT_N_DTYPES);
        assert_fails(lt_st_as_tensor(lt_st_at(st, i), &t), LT_ERR_UNSUPPORTED,
                     "can be carried over");
        assert_fails(lt_st_read(lt_st_at(st, i), 0, 1, LT_F32, buffer), LT_ERR_DTYPE,
                     "can't be read as F32");
        assert_fails(lt_st_read(lt_st_at(st, i), 0, 1, LT_N_DTYPES, buffer), LT_ERR_DTYPE,
                     "can't be read");
    }
    assert_string_equal(lt_st_find(st, "e")->dtype_text, "Q3_FUTURE");
    lt_st_close(st);
}

// ---- headers that are refused

static const struct {
    const char *header;
    size_t n_data;
    const char *message; // part of it; the file's name is in all
} refused[] = {
    {"", 0, "isn't valid"},
    {"[]", 0, "JSON object"},
    {"{\"a\":", 0, "isn't valid"},
    {"{} {}", 0, "isn't valid"},
    {"{" ENTRY("w", "F32", "1", "0,4") "," ENTRY("w", "F32", "1", "4,8") "}", 8, "duplicate"},
    {"{\"w\":[1]}", 0, "tensor w: its entry has to be an object"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor w: data_offsets"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor w: shape"},
    {"{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w: dtype"},
    {"{\"w\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor w: dtype"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "tensor w: shape"},
    {"{" ENTRY("w", "F32", "-1", "0,4") "}", 4, "tensor w: dim 0"},
    {"{" ENTRY("w", "F32", "1.0", "0,4") "}", 4, "tensor w: dim 0"},
    {"{" ENTRY("w", "F32", "1", "4,0") "}", 4, "tensor w: data_offsets"},
    {"{" ENTRY("w", "F32", "1", "-4,0") "}", 4, "tensor w: data_offsets"},
    {"{" ENTRY("w", "F32", "1", "0,4,8") "}", 8, "tensor w: data_offsets"},
    {"{" ENTRY("w", "F32", "1", "0,18446744073709551616") "}", 4, "isn't valid"},
    {"{" ENTRY("w", "F32", "2", "0,4") "}", 4,
     "tensor w: its range has 4 bytes and its shape F32[2] needs 8"},
    {"{" ENTRY("w", "F4", "3", "0,2") "}", 2, "needs 1.5"},
    {"{" ENTRY("w", "F32", "4294967296,4294967296", "0,4") "}", 4, "tensor w: its shape overflows"},
    {"{" ENTRY("w", "F32", "4294967296,4294967296,0", "0,0") "}", 0,
     "tensor w: its shape overflows"},
    {"{" ENTRY("w", "F64", "1152921504606846976", "0,0") "}", 0, "tensor w: its shape overflows"},
    {"{" ENTRY("v", "F32", "1", "0,4") "," ENTRY("w", "F32", "1", "2,6") "}", 6,
     "tensor w overlaps tensor v"},
    {"{" ENTRY("v", "F32", "2", "0,8") "," ENTRY("w", "F32", "1", "0,4") "}", 8,
     "tensor v overlaps tensor w"},
    {"{" ENTRY("v", "F32", "1", "0,4") "," ENTRY("w", "F32", "1", "8,12") "}", 12,
     "bytes 4 to 8 of the data, before tensor w"},
    {"{" ENTRY("v", "F32", "1", "0,4") "}", 6, "the last 2 bytes"},
    {"{}", 1, "the last 1 bytes"},
    {"{" ENTRY("v", "F32", "1", "0,4") "," ENTRY("w", "F32", "2", "4,12") "}", 11,
     "cut short: tensor w is bytes 4 to 12"},
    {"{" ENTRY("w", "U8", "1000000000000", "0,1000000000000") "}", 4, "cut short: tensor w"},
    {"{" ENTRY("", "U8", "1", "0,1") "}", 1, "name has 0 bytes"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: the value of a isn't a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ has to be"},
    {"{\"a\\u0000b\":{}}", 0, "isn't valid"},
    {"{\"a\xff\":{}}", 0, "isn't valid"},
};

static void each_broken_header_is_refused_by_name(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        size_t len;
        const uint8_t *bytes = file_of(state, refused[i].header, refused[i].n_data, &len);
        lt_st *st = NULL;
        assert_fails(lt_st_parse(bytes, len, "dir/x.safetensors", &st), LT_ERR_FORMAT,
                     refused[i].message);
        assert_text_contains(lt_error_message(), "dir/x.safetensors");
        assert_null(st);
    }
}

static void every_truncation_is_refused_and_names_the_tensor_it_hits(void **state)
{
    size_t len;
    const char *header =
        "{" ENTRY("first", "F32", "2", "0,8") "," ENTRY("second", "F32", "1", "8,12") "}";
    const uint8_t *bytes = file_of(state, header, 12, &len);
    for (size_t cut = 0; cut < len; cut++) {
        // In a block of its own size, so that a sanitizer sees reads past the end.
        void *copy;
        assert_ok(lt_mem_alloc(&copy, cut, "cut file"));
        memcpy(copy, bytes, cut);
        lt_st *st;
        const char *part = cut >= len - 4    ? "tensor second"
                           : cut >= len - 12 ? "tensor first"
                                             : "cut short";
        assert_fails(lt_st_parse(copy, cut, "x.safetensors", &st), LT_ERR_FORMAT, part);
        assert_text_contains(lt_error_message(), "cut short");
        lt_mem_free(copy);
    }
}

static void a_header_length_beyond_the_file_or_the_limit_is_refused(void **state)
{
    (void)state;
    lt_st *st;
    const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    const uint8_t beyond[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
    assert_fails(lt_st_parse(huge, sizeof huge, "x", &st), LT_ERR_FORMAT,
                 "18446744073709551615 bytes");
    assert_fails(lt_st_parse(beyond, sizeof beyond, "x", &st), LT_ERR_FORMAT,
                 "9 bytes wanted, 8 there");
    assert_fails(lt_st_open("/nonexistent/x.safetensors", &st), LT_ERR_NOT_FOUND,
                 "/nonexistent/x.safetensors");
}

// ---- reading values

static void values_are_read_at_any_alignment_and_converted(void **state)
{
    const float want[5] = {1.5F, -2.0F, 0.0F, 65536.0F, 0.333251953125F};
    for (size_t pad = 0; pad < 4; pad++) { // a header that isn't a multiple of 8 long
        lt_buf text = {0};
        size_t len;
        assert_ok(lt_buf_text(&text, "{" ENTRY("w", "F32", "5", "0,20") "}"));
        for (size_t i = 0; i < pad; i++)
            assert_ok(lt_buf_text(&text, " "));
        uint8_t *bytes = file_of(state, text.data, 20, &len);
        lt_buf_deinit(&text);
        memcpy(bytes + len - 20, want, sizeof want);
        lt_st *st;
        assert_ok(lt_st_parse(bytes, len, "x", &st));
        const lt_st_tensor *w = lt_st_find(st, "w");
        float f32[3];
        double f64[5];
        uint16_t bf16[2];
        assert_ok(lt_st_read(w, 2, 3, LT_F32, f32));
        assert_memory_equal(f32, want + 2, sizeof f32);
        assert_ok(lt_st_read(w, 0, 5, LT_F64, f64));
        for (int i = 0; i < 5; i++)
            assert_true(f64[i] == (double)want[i]);
        assert_ok(lt_st_read(w, 0, 2, LT_BF16, bf16));
        assert_int_equal(bf16[0], 0x3fc0);
        assert_int_equal(bf16[1], 0xc000);
        lt_tensor t;
        assert_ok(lt_st_as_tensor(w, &t));
        assert_int_equal(t.data != NULL, (uintptr_t)w->data % 4 == 0);
        assert_fails(lt_st_read(w, 4, 2, LT_F32, f32), LT_ERR_SHAPE,
                     "tensor w has 5 elements; [4, 6)");
        assert_fails(lt_st_read(w, -1, 1, LT_F32, f32), LT_ERR_SHAPE, "[-1, 0)");
        assert_fails(lt_st_read(w, 0, 1, LT_I32, f32), LT_ERR_DTYPE, "can't be read as I32");
        lt_st_close(st);
    }
}

static void a_long_unaligned_tensor_converts_like_an_aligned_one(void **state)
{
    enum { N = 10007 };
    size_t len;
    uint8_t *bytes =
        file_of(state, "{" ENTRY("w", "BF16", "10007", "0,20014") "}  ", 2UL * N, &len);
    lt_st *st;
    assert_ok(lt_st_parse(bytes, len, "x", &st));
    float *got = lt_test_take(*state, N * sizeof(float));
    assert_ok(lt_st_read(lt_st_at(st, 0), 0, N, LT_F32, got));
    for (size_t i = 0; i < N; i++) {
        uint16_t v;
        memcpy(&v, bytes + len - 2UL * N + 2 * i, 2);
        const float want = lt_bf16_to_f32(v);
        assert_memory_equal(&got[i], &want, sizeof want);
    }
    lt_st_close(st);
}

static void golden_files_are_read(void **state)
{
    const char *path = lt_test_golden(*state, "model/qwen3_vl/model.safetensors");
    if (path == NULL) {
        print_message("golden/model/qwen3_vl isn't here\n");
        skip();
    }
    lt_st *st;
    assert_ok(lt_st_open(path, &st));
    const lt_st_tensor *head = lt_st_find(st, "lm_head.weight");
    lt_tensor t;
    assert_non_null(head);
    assert_ok(lt_st_as_tensor(head, &t));
    assert_int_equal(t.dim[0], 320);
    assert_int_equal(t.dim[1], 48);
    assert_ptr_equal(t.data, head->data);
    lt_st_close(st);
}

LT_TEST_MAIN(LT_TEST(views_point_into_the_bytes),
             LT_TEST(dtypes_that_lathe_does_not_know_are_opaque_bytes),
             LT_TEST(each_broken_header_is_refused_by_name),
             LT_TEST(every_truncation_is_refused_and_names_the_tensor_it_hits),
             LT_TEST(a_header_length_beyond_the_file_or_the_limit_is_refused),
             LT_TEST(values_are_read_at_any_alignment_and_converted),
             LT_TEST(a_long_unaligned_tensor_converts_like_an_aligned_one),
             LT_TEST(golden_files_are_read))
