// SPDX-License-Identifier: Apache-2.0
// Shapes and checks of a micro-batch's values.
#include "graph/batch.h"

bool lt_extents_equal(const lt_extents *a, const lt_extents *b)
{
    for (int i = 0; i < LT_N_EXTENTS; i++)
        if (a->n[i] != b->n[i])
            return false;
    return true;
}

bool lt_extents_fit(const lt_extents *real, const lt_extents *capacity)
{
    for (int i = 0; i < LT_N_EXTENTS; i++)
        if (real->n[i] > capacity->n[i])
            return false;
    return true;
}

// The step is an eighth of the largest power of two below n: at most an eighth is wasted.
static int64_t bucket(int64_t n)
{
    int64_t step = 16;
    while (step * 16 <= n)
        step *= 2;
    return lt_round_up(n, step);
}

lt_extents lt_extents_bucket(const lt_extents *real)
{
    lt_extents out;
    for (int i = 0; i < LT_N_EXTENTS; i++)
        out.n[i] = bucket(real->n[i]);
    if (real->n[LT_EXT_MERGED] > 0) // a whole number of patches makes a visual token
        out.n[LT_EXT_PATCHES] =
            out.n[LT_EXT_MERGED] * (real->n[LT_EXT_PATCHES] / real->n[LT_EXT_MERGED]);
    return out;
}

lt_extents lt_extents_max(const lt_extents *a, const lt_extents *b)
{
    lt_extents out;
    for (int i = 0; i < LT_N_EXTENTS; i++)
        out.n[i] = lt_max_i64(a->n[i], b->n[i]);
    return out;
}

const char *lt_extent_name(lt_extent e)
{
    static const char *const names[] = {
#define LT_EXTENT_NAME(name, text) [LT_EXT_##name] = (text),
        LT_EXTENT_LIST(LT_EXTENT_NAME)
#undef LT_EXTENT_NAME
    };
    return names[e];
}

// Dims as extent + plus, or a constant; 0 stands for the model's pixel width.
enum { NO_EXTENT = -1 };
typedef struct value_dim {
    int extent, plus;
} value_dim;
typedef struct value_row {
    const char *name;
    lt_dtype dtype;
    int32_t rank;
    value_dim dim[2];
} value_row;

static const value_row rows[LT_N_BATCH_VALUES] = {
    [LT_BATCH_IDS] = {"ids", LT_I32, 1, {{LT_EXT_TOKENS, 0}}},
    [LT_BATCH_POSITIONS] = {"positions", LT_I32, 2, {{NO_EXTENT, 3}, {LT_EXT_TOKENS, 0}}},
    [LT_BATCH_SEGMENTS] = {"segments", LT_I32, 1, {{LT_EXT_SAMPLES, 1}}},
    [LT_BATCH_VIS_ROWS] = {"vis_rows", LT_I32, 1, {{LT_EXT_MERGED, 0}}},
    [LT_BATCH_PIXELS] = {"pixels", LT_F32, 2, {{LT_EXT_PATCHES, 0}, {NO_EXTENT, 0}}},
    [LT_BATCH_FRAME_SEGMENTS] = {"frame_segments", LT_I32, 1, {{LT_EXT_FRAMES, 1}}},
    [LT_BATCH_TILE_SEGMENTS] = {"tile_segments", LT_I32, 1, {{LT_EXT_FRAMES, 1}}},
    [LT_BATCH_PATCH_POS] = {"patch_pos", LT_I32, 2, {{NO_EXTENT, 2}, {LT_EXT_PATCHES, 0}}},
    [LT_BATCH_CORNERS] = {"corners", LT_I32, 2, {{LT_EXT_PATCHES, 0}, {NO_EXTENT, 4}}},
    [LT_BATCH_CORNER_WEIGHTS] = {"corner_weights",
                                 LT_F32,
                                 2,
                                 {{LT_EXT_PATCHES, 0}, {NO_EXTENT, 4}}},
    [LT_BATCH_TARGET_ROWS] = {"target_rows", LT_I32, 1, {{LT_EXT_TARGETS, 0}}},
    [LT_BATCH_TARGETS] = {"targets", LT_I32, 1, {{LT_EXT_TARGETS, 0}}},
    [LT_BATCH_KAPPA] = {"kappa", LT_F32, 1, {{LT_EXT_TARGETS, 0}}},
    [LT_BATCH_NEXT_KAPPA] = {"next_kappa", LT_F32, 1, {{LT_EXT_TARGETS, 0}}},
    [LT_BATCH_BALANCE] = {"balance", LT_F32, 1, {{NO_EXTENT, 1}}},
};

const char *lt_batch_value_name(lt_batch_value v)
{
    return rows[v].name;
}

lt_tensor lt_batch_tensor(lt_batch_value v, const lt_extents *e, int64_t pixel_width)
{
    int64_t dim[2] = {0, 0};
    for (int i = 0; i < rows[v].rank; i++) {
        const value_dim d = rows[v].dim[i];
        dim[i] = d.extent != NO_EXTENT ? e->n[d.extent] + d.plus : d.plus;
        if (d.extent == NO_EXTENT && d.plus == 0)
            dim[i] = pixel_width;
    }
    return lt_tensor_nd(rows[v].dtype, rows[v].rank, dim);
}

static lt_status check_bounds(const lt_batch_view *b, lt_batch_value v, int64_t below)
{
    const lt_tensor *t = &b->value[v];
    const int32_t *x = t->data;
    for (int64_t i = 0, n = lt_n_elems(t); i < n; i++) {
        if (x[i] < 0 || x[i] >= below) {
            return LT_FAIL(LT_ERR_DATA,
                           "batch value %s[%lld] is %d, it must be at least 0 and below %lld",
                           rows[v].name, (long long)i, x[i], (long long)below);
        }
    }
    return LT_OK;
}

static lt_status check_rising(const lt_batch_view *b, lt_batch_value v)
{
    const lt_tensor *t = &b->value[v];
    const int32_t *x = t->data;
    for (int64_t i = 1, n = lt_n_elems(t); i < n; i++) {
        if (x[i] <= x[i - 1])
            return LT_FAIL(LT_ERR_DATA, "batch value %s must rise, but entry %lld is %d after %d",
                           rows[v].name, (long long)i, x[i], x[i - 1]);
    }
    return LT_OK;
}

// A segment table starts at 0, never falls, and ends at the number of rows it cuts.
static lt_status check_segments(const lt_batch_view *b, lt_batch_value v, int64_t rows_cut)
{
    const lt_tensor *t = &b->value[v];
    const int32_t *x = t->data;
    const int64_t n = lt_n_elems(t);
    for (int64_t i = 0; i < n; i++) {
        if ((i == 0 && x[0] != 0) || (i > 0 && x[i] < x[i - 1]) ||
            (i == n - 1 && x[i] != rows_cut)) {
            return LT_FAIL(
                LT_ERR_DATA,
                "batch value %s must go from 0 to %lld without falling, entry %lld is %d",
                rows[v].name, (long long)rows_cut, (long long)i, x[i]);
        }
    }
    return LT_OK;
}

lt_status lt_batch_check(const lt_batch_view *b, int64_t pixel_width, int64_t vocab)
{
    const lt_extents *e = &b->extents;
    for (int v = 0; v < LT_N_BATCH_VALUES; v++) {
        const lt_tensor want = lt_batch_tensor((lt_batch_value)v, e, pixel_width);
        if (!lt_same_shape(&want, &b->value[v]) || want.dtype != b->value[v].dtype)
            return LT_FAIL(LT_ERR_SHAPE, "batch value %s is %s, the counts of the batch ask for %s",
                           rows[v].name, lt_shape_print(&b->value[v]).s, lt_shape_print(&want).s);
        if (lt_n_elems(&want) > 0 && !b->value[v].data)
            return LT_FAIL(LT_ERR_DATA, "batch value %s %s has no data", rows[v].name,
                           lt_shape_print(&want).s);
    }
    LT_TRY(check_bounds(b, LT_BATCH_IDS, vocab));
    LT_TRY(check_bounds(b, LT_BATCH_TARGETS, vocab));
    LT_TRY(check_bounds(b, LT_BATCH_VIS_ROWS, e->n[LT_EXT_TOKENS]));
    LT_TRY(check_bounds(b, LT_BATCH_TARGET_ROWS, e->n[LT_EXT_TOKENS]));
    LT_TRY(check_rising(b, LT_BATCH_VIS_ROWS));
    LT_TRY(check_rising(b, LT_BATCH_TARGET_ROWS));
    LT_TRY(check_segments(b, LT_BATCH_SEGMENTS, e->n[LT_EXT_TOKENS]));
    LT_TRY(check_segments(b, LT_BATCH_FRAME_SEGMENTS, e->n[LT_EXT_PATCHES]));
    return check_segments(b, LT_BATCH_TILE_SEGMENTS, e->n[LT_EXT_PATCHES] + e->n[LT_EXT_FRAMES]);
}
