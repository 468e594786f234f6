// SPDX-License-Identifier: Apache-2.0
// tile_embed and tile_patches: shape rules, references and table rows.
#include "op/tiles.h"
#include "op/cpu/kernels.h"
#include "op/cuda/kernels.h"
#include <math.h>

enum { Z, TABLE, CLASS, PLACES, TILES };

int64_t lt_tile_side(int64_t table_rows)
{
    const int64_t side = (int64_t)llround(sqrt((double)lt_max_i64(table_rows - 1, 0)));
    return side * side + 1 == table_rows ? side : 0;
}

lt_status lt_need_tiles(const lt_op_args *a, int i, int64_t rows)
{
    const int32_t *at = lt_index(a->in[i]);
    const int64_t n = lt_n_elems(a->in[i]);
    for (int64_t t = 0; t < n; t++) {
        if ((t == 0 && at[0] != 0) || (t > 0 && at[t] <= at[t - 1]) ||
            (t == n - 1 && at[t] != rows)) {
            return LT_FAIL(LT_ERR_DATA,
                           "%s: tiles[%lld] is %d; tiles go from 0 to %lld, each with a row for "
                           "its class token",
                           a->def->name, (long long)t, at[t], (long long)rows);
        }
    }
    return LT_OK;
}

lt_status lt_need_tile_places(const lt_op_args *a)
{
    const lt_tensor *like = a->out[0] ? a->out[0] : a->dout[0];
    LT_TRY(lt_need_indices(a, PLACES, "patch_pos", lt_tile_side(a->in[TABLE]->dim[1])));
    return like ? lt_need_tiles(a, TILES, lt_rows(like)) : LT_OK;
}

static int64_t n_tiles(const lt_op_args *a, int i)
{
    return a->in[i]->dim[0] - 1;
}

static lt_status need_tile_table(const lt_op_args *a, int i)
{
    LT_TRY(lt_need_rank(a, i, "tiles", 1));
    LT_TRY(lt_need_dtype(a, i, "tiles", LT_I32));
    if (n_tiles(a, i) < 0)
        return LT_FAIL(LT_ERR_SHAPE, "%s needs tiles with an end, got no entry", a->def->name);
    return LT_OK;
}

// ---- tile_embed ----

static lt_status infer_embed(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, Z, "z", 2));
    LT_TRY(lt_need_rank(a, TABLE, "p", 3));
    LT_TRY(lt_need_rank(a, CLASS, "cls", 3));
    const lt_tensor *z = a->in[Z], *p = a->in[TABLE], *cls = a->in[CLASS];
    LT_TRY(lt_need_dtype(a, TABLE, "p", z->dtype));
    LT_TRY(lt_need_dtype(a, CLASS, "cls", z->dtype));
    const int64_t width = z->dim[1];
    if (p->dim[0] != 1 || p->dim[2] != width || lt_tile_side(p->dim[1]) < 1 || cls->dim[0] != 1 ||
        cls->dim[1] != 1 || cls->dim[2] != width) {
        return LT_FAIL(LT_ERR_SHAPE,
                       "tile_embed needs p as [1, a square + 1, %lld] and cls as [1, 1, %lld], got "
                       "%s and %s",
                       (long long)width, (long long)width, lt_shape_print(p).s,
                       lt_shape_print(cls).s);
    }
    LT_TRY(lt_need_2d(a, PLACES, "patch_pos", LT_I32, 2, z->dim[0]));
    LT_TRY(need_tile_table(a, TILES));
    *a->out[0] = lt_tensor_2d(z->dtype, z->dim[0] + n_tiles(a, TILES), width);
    return LT_OK;
}

// Row of the position table for patch k.
static int64_t table_row(const lt_op_args *a, int64_t k)
{
    const int32_t *at = lt_index(a->in[PLACES]);
    return 1 + at[k] * lt_tile_side(a->in[TABLE]->dim[1]) + at[a->in[PLACES]->dim[1] + k];
}

static lt_status embed_ref(const lt_op_args *a)
{
    const lt_tensor *z = a->in[Z], *p = a->in[TABLE];
    const int32_t *tiles = lt_index(a->in[TILES]);
    const int64_t width = z->dim[1];
    LT_TRY(lt_need_tile_places(a));
    for (int64_t t = 0; t < n_tiles(a, TILES); t++) {
        for (int64_t row = tiles[t]; row < tiles[t + 1]; row++) {
            const int64_t k = row - t - 1, from = row == tiles[t] ? 0 : table_row(a, k);
            for (int64_t j = 0; j < width; j++) {
                const double v = from == 0 ? lt_load(a->in[CLASS], j) : lt_load(z, k * width + j);
                lt_store(a->out[0], row * width + j, v + lt_load(p, from * width + j));
            }
        }
    }
    return LT_OK;
}

// The sum over tiles of column j of what table row `row` was added to.
static double sum_of_readers(const lt_op_args *a, int64_t row, int64_t j, int64_t width)
{
    const int32_t *tiles = lt_index(a->in[TILES]);
    double sum = 0.0;
    for (int64_t t = 0; t < n_tiles(a, TILES); t++) {
        for (int64_t r = tiles[t]; r < tiles[t + 1]; r++)
            if (row == (r == tiles[t] ? 0 : table_row(a, r - t - 1)))
                sum += lt_dout(a, 0, r * width + j);
    }
    return sum;
}

static lt_status embed_backward_ref(const lt_op_args *a)
{
    const int32_t *tiles = lt_index(a->in[TILES]);
    const int64_t width = lt_width(a->in[TABLE]);
    for (int64_t t = 0; a->din[Z] && t < n_tiles(a, TILES); t++) {
        for (int64_t row = tiles[t] + 1; row < tiles[t + 1]; row++)
            for (int64_t j = 0; j < width; j++)
                lt_put_grad(a, Z, (row - t - 1) * width + j, lt_dout(a, 0, row * width + j));
    }
    for (int64_t row = 0; a->din[TABLE] && row < a->din[TABLE]->dim[1]; row++)
        for (int64_t j = 0; j < width; j++)
            lt_put_grad(a, TABLE, row * width + j, sum_of_readers(a, row, j, width));
    for (int64_t j = 0; a->din[CLASS] && j < width; j++)
        lt_put_grad(a, CLASS, j, sum_of_readers(a, 0, j, width));
    return LT_OK;
}

// For the CPU: the table row that each row reads.
static size_t embed_scratch(const lt_op_args *a, lt_pass pass)
{
    const int64_t rows = a->in[PLACES]->dim[1] + n_tiles(a, TILES);
    return pass == LT_BACKWARD ? (size_t)lt_max_i64(rows, 0) * sizeof(int32_t) : 0;
}

const lt_op_def lt_op_tile_embed = {
    .name = "tile_embed",
    .n_in = 5,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(PLACES) | LT_IN(TILES),
    .infer = infer_embed,
    .forward = {[LT_REF] = embed_ref,
                [LT_CPU] = lt_tile_embed_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_tile_embed_fwd_cuda)},
    .backward = {[LT_REF] = embed_backward_ref,
                 [LT_CPU] = lt_tile_embed_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_tile_embed_bwd_cuda)},
    .backward_reads = LT_IN(TABLE) | LT_IN(PLACES) | LT_IN(TILES),
    .scratch = embed_scratch,
    .flags = LT_OP_CHEAP,
};

lt_val lt_tile_embed(lt_builder *b, lt_val z, lt_val p, lt_val cls)
{
    const lt_val in[] = {z, p, cls, lt_batch_of(b, LT_BATCH_PATCH_POS),
                         lt_batch_of(b, LT_BATCH_TILE_SEGMENTS)};
    return lt_op_apply(b, &lt_op_tile_embed, in, 5, NULL, 0, NULL);
}

// ---- tile_patches ----

static lt_status infer_patches(const lt_op_args *a)
{
    LT_TRY(lt_need_rank(a, 0, "x", 2));
    LT_TRY(need_tile_table(a, 1));
    const lt_tensor *x = a->in[0];
    if (x->dim[0] < n_tiles(a, 1))
        return LT_FAIL(LT_ERR_SHAPE, "tile_patches needs a row for each of %lld tiles, got %s",
                       (long long)n_tiles(a, 1), lt_shape_print(x).s);
    *a->out[0] = lt_tensor_2d(x->dtype, x->dim[0] - n_tiles(a, 1), x->dim[1]);
    return LT_OK;
}

static lt_status patches_ref(const lt_op_args *a)
{
    const int32_t *tiles = lt_index(a->in[1]);
    LT_TRY(lt_need_tiles(a, 1, a->in[0]->dim[0]));
    for (int64_t t = 0; t < n_tiles(a, 1); t++)
        for (int64_t row = tiles[t] + 1; row < tiles[t + 1]; row++)
            lt_copy_row(a->out[0], row - t - 1, a->in[0], row);
    return LT_OK;
}

static lt_status patches_backward_ref(const lt_op_args *a)
{
    const int32_t *tiles = lt_index(a->in[1]);
    if (!a->din[0])
        return LT_OK;
    const int64_t width = a->din[0]->dim[1];
    for (int64_t t = 0; t < n_tiles(a, 1); t++) {
        for (int64_t row = tiles[t]; row < tiles[t + 1]; row++) {
            for (int64_t j = 0; j < width; j++)
                lt_put_grad(a, 0, row * width + j,
                            row == tiles[t] ? 0.0 : lt_dout(a, 0, (row - t - 1) * width + j));
        }
    }
    return LT_OK;
}

const lt_op_def lt_op_tile_patches = {
    .name = "tile_patches",
    .n_in = 2,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(1),
    .infer = infer_patches,
    .forward = {[LT_REF] = patches_ref,
                [LT_CPU] = lt_tile_patches_fwd_cpu,
                [LT_CUDA] = LT_CUDA_KERNEL(lt_tile_patches_fwd_cuda)},
    .backward = {[LT_REF] = patches_backward_ref,
                 [LT_CPU] = lt_tile_patches_bwd_cpu,
                 [LT_CUDA] = LT_CUDA_KERNEL(lt_tile_patches_bwd_cuda)},
    .backward_reads = LT_IN(1),
    .flags = LT_OP_CHEAP,
};

lt_val lt_tile_patches(lt_builder *b, lt_val x)
{
    const lt_val in[] = {x, lt_batch_of(b, LT_BATCH_TILE_SEGMENTS)};
    return lt_op_apply(b, &lt_op_tile_patches, in, 2, NULL, 0, NULL);
}
