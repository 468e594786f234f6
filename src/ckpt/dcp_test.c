// SPDX-License-Identifier: Apache-2.0
#include "ckpt/dcp.h"
#include "ckpt/dcp_write.h"
#include "tests/kit/lt_test.h"
#include <string.h>

enum { ROWS = 5, COLS = 3, N = ROWS * COLS };

static lt_status fetch_counting(void *ctx, int64_t first, int64_t n, void *dst)
{
    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        ((float *)dst)[i] = (float)(first + i);
    return LT_OK;
}

static void add_tensor(lt_dcp_plan *plan, const char *name, const char *dtype, int32_t rank,
                       const int64_t *dim)
{
    const lt_dcp_path path = lt_dcp_path_of("model", name);
    assert_ok(lt_dcp_plan_tensor(plan, &path, dtype, rank, dim));
}

static void add_rows(lt_dcp_plan *plan, int32_t file, int64_t first, int64_t n)
{
    const lt_dcp_rows rows = {
        .file = file, .first = first, .n = n, .from = LT_F32, .fetch = fetch_counting};
    assert_ok(lt_dcp_plan_rows(plan, &rows));
}

static void add_value(lt_dcp_plan *plan)
{
    const lt_dcp_path path = {.step = {{"optimizer", 0}, {"param_groups", 0}, {NULL, 0}, {"lr", 0}},
                              .n = 4};
    lt_pkl p = {0};
    lt_pkl_begin(&p, false);
    lt_pkl_float(&p, 0.25);
    assert_ok(lt_pkl_end(&p));
    assert_ok(lt_dcp_plan_value(plan, &path, 0, &p.out));
    lt_pkl_deinit(&p);
}

// A tensor over two files, one in bf16, one without dims, one without elements, and a value.
static const char *checkpoint(void **state)
{
    const char *dir = lt_test_dir(*state);
    const int64_t dim[] = {ROWS, COLS}, empty[] = {0, 4}, seven[] = {7};
    lt_dcp_plan plan;
    int32_t file[2];
    int64_t bytes;
    assert_ok(lt_dcp_plan_init(&plan));
    assert_ok(lt_dcp_plan_file(&plan, "__0_0.distcp", &file[0]));
    assert_ok(lt_dcp_plan_file(&plan, "__1_0.distcp", &file[1]));
    add_value(&plan);
    add_tensor(&plan, "w", "F32", 2, dim);
    add_rows(&plan, file[0], 0, 3);
    add_rows(&plan, file[1], 3, 2);
    add_tensor(&plan, "narrow", "BF16", 1, seven);
    add_rows(&plan, file[1], 0, 7);
    add_tensor(&plan, "scalar", "F32", 0, NULL);
    add_rows(&plan, file[0], 0, 1);
    add_tensor(&plan, "empty", "F32", 2, empty);
    add_rows(&plan, file[0], 0, 0);
    assert_ok(lt_dcp_plan_place(&plan, &bytes));
    for (int i = 0; i < 2; i++)
        assert_ok(lt_dcp_write_file(&plan, dir, file[i], NULL));
    assert_ok(lt_dcp_write_metadata(&plan, dir));
    lt_dcp_plan_deinit(&plan);
    return dir;
}

static lt_dcp *opened(const char *dir)
{
    lt_dcp *d;
    assert_ok(lt_dcp_open(dir, &d));
    return d;
}

static void what_is_written_is_read_whole_and_in_parts(void **state)
{
    lt_dcp *d = opened(checkpoint(state));
    float v[N];
    const lt_st_tensor *w = lt_dcp_find(d, "model.w")->tensor;
    assert_int_equal(lt_dcp_count(d), 5);
    for (int64_t first = 0; first < N; first++) {
        const int64_t n = N - first;
        assert_ok(lt_st_read(w, first, n, LT_F32, v));
        for (int64_t i = 0; i < n; i++)
            assert_near((double)v[i], (double)(first + i), 0.0);
    }
    assert_ok(lt_st_read(lt_dcp_find(d, "model.narrow")->tensor, 2, 4, LT_F32, v));
    assert_near((double)v[3], 5.0, 0.0);
    assert_ok(lt_st_read(lt_dcp_find(d, "model.scalar")->tensor, 0, 1, LT_F32, v));
    assert_near((double)v[0], 0.0, 0.0);
    assert_int_equal(lt_st_elems(lt_dcp_find(d, "model.empty")->tensor), 0);
    const lt_pickle *lr;
    double x = 0;
    const lt_dcp_entry *e = lt_dcp_find(d, "optimizer.param_groups.0.lr");
    assert_ok(lt_dcp_value(d, e, *state, &lr));
    assert_true(lt_pickle_real(lr, &x) && x == 0.25);
    assert_int_equal(e->path->n, 4);
    lt_dcp_close(d);
}

// ---- damage

static char *read_file(void **state, const char *dir, const char *name, size_t *len)
{
    return lt_test_read(*state, lt_test_path(*state, dir, name), len);
}

// Every place of `from` in .metadata becomes `to`, which is as long.
static const char *with_metadata(void **state, const char *from, const char *to, size_t n)
{
    const char *dir = checkpoint(state);
    size_t len;
    bool found = false;
    char *bytes = read_file(state, dir, LT_DCP_METADATA, &len);
    for (size_t i = 0; i + n <= len; i++) {
        if (memcmp(bytes + i, from, n) == 0) {
            memcpy(bytes + i, to, n);
            found = true;
        }
    }
    assert_true(found);
    lt_test_write(lt_test_path(*state, dir, LT_DCP_METADATA), bytes, len);
    return dir;
}

static void pieces_that_overlap_or_are_missing_are_named(void **state)
{
    lt_dcp *d;
    // offset (3, 0) becomes (2, 0): rows 2 and 3, and 0 to 2
    assert_fails(lt_dcp_open(with_metadata(state, "K\3K\0\x86", "K\2K\0\x86", 5), &d),
                 LT_ERR_FORMAT, "model.w: two of its pieces overlap");
    // size (2, 3) becomes (1, 3)
    assert_fails(lt_dcp_open(with_metadata(state, "K\2K\3\x86", "K\1K\3\x86", 5), &d),
                 LT_ERR_FORMAT, "model.w: its pieces hold 12 of its 15 elements");
    // size (3, 3) becomes (9, 3)
    assert_fails(lt_dcp_open(with_metadata(state, "K\3K\3\x86", "K\x09K\3\x86", 5), &d),
                 LT_ERR_FORMAT, "model.w: a piece lies outside of its tensor");
}

static void names_that_have_no_place_are_refused(void **state)
{
    lt_dcp *d;
    assert_fails(lt_dcp_open(with_metadata(state, "__1_0.distcp", "../../passwd", 12), &d),
                 LT_ERR_FORMAT, "is no name in this folder");
    assert_fails(lt_dcp_open(with_metadata(state, "torch\nSize", "posix\nfork", 10), &d),
                 LT_ERR_FORMAT, "names posix.fork, which has no place in it");
    assert_fails(lt_dcp_open(with_metadata(state, "__1_0.distcp", "__7_0.distcp", 12), &d),
                 LT_ERR_NOT_FOUND, "__7_0.distcp is missing");
}

static void a_file_that_is_cut_or_damaged_is_named_with_the_key(void **state)
{
    const char *dir = checkpoint(state), *path = lt_test_path(*state, dir, "__1_0.distcp");
    size_t len;
    lt_dcp *d;
    char *bytes = read_file(state, dir, "__1_0.distcp", &len);
    lt_test_write(path, bytes, len - 1);
    assert_fails(lt_dcp_open(dir, &d), LT_ERR_FORMAT, "__1_0.distcp is cut short: model.narrow");
    const uint8_t nine[] = {0, 0, 0x10, 0x41}; // as a float: row 3 begins with it
    for (size_t i = 0; i + 4 <= len; i++) {
        if (memcmp(bytes + i, nine, 4) == 0) {
            bytes[i] ^= 1;
            break;
        }
    }
    lt_test_write(path, bytes, len);
    d = opened(dir);
    float v[N];
    const lt_st_tensor *w = lt_dcp_find(d, "model.w")->tensor;
    assert_ok(lt_st_read(w, 0, 9, LT_F32, v)); // the other piece is whole
    assert_fails(lt_st_read(w, 0, N, LT_F32, v), LT_ERR_FORMAT,
                 "__1_0.distcp, model.w: its data/0 is damaged");
    assert_fails(lt_dcp_check(d, lt_dcp_find(d, "model.w"), NULL), LT_ERR_FORMAT, "is damaged");
    lt_dcp_close(d);
}

LT_TEST_MAIN(LT_TEST(what_is_written_is_read_whole_and_in_parts),
             LT_TEST(pieces_that_overlap_or_are_missing_are_named),
             LT_TEST(names_that_have_no_place_are_refused),
             LT_TEST(a_file_that_is_cut_or_damaged_is_named_with_the_key))
