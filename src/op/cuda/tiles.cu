// SPDX-License-Identifier: Apache-2.0
// Rows of a tower with class tokens: tile_embed, tile_patches; and what its blocks do with rows:
// scale_add, split_thirds, split_heads, join.
#include "op/cuda/columns.cuh"
extern "C" {
#include "op/split.h"
#include "op/tiles.h"
}

// ---- where a row comes from

struct tile_table {
    const int32_t *tiles; // [n + 1] first rows
    int64_t n;
    // The tile of a row: the last one that begins at or before it.
    __device__ int64_t of_row(int64_t row) const
    {
        int64_t low = 0, high = n - 1;
        while (low < high) {
            const int64_t mid = (low + high + 1) / 2;
            if (tiles[mid] <= row)
                low = mid;
            else
                high = mid - 1;
        }
        return low;
    }
};

static tile_table table_of(const lt_tensor *tiles)
{
    return {lt_read_index(tiles), tiles->dim[0] - 1};
}

struct embed_args {
    tile_table table;
    const int32_t *places; // [2, patches]
    int64_t patches, side, width;
    // The table's row for a row that is patch k of its tile's; 0 for a class token (k < 0).
    __device__ int64_t place(int64_t row, int64_t *k) const
    {
        const int64_t t = table.of_row(row);
        *k = row == table.tiles[t] ? -1 : row - t - 1;
        return *k < 0 ? 0 : 1 + places[*k] * side + places[patches + *k];
    }
};

static embed_args embed_of(const lt_op_args *a)
{
    return {table_of(a->in[4]), lt_read_index(a->in[3]), a->in[3]->dim[1],
            lt_tile_side(a->in[1]->dim[1]), a->in[1]->dim[2]};
}

__global__ static void embed(embed_args e, lt_reader z, lt_reader p, lt_reader cls, lt_writer y,
                             int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t row = i / e.width, j = i % e.width;
    int64_t k = 0;
    const int64_t place = e.place(row, &k);
    y.put(i, (k < 0 ? cls[j] : z[k * e.width + j]) + p[place * e.width + j]);
}

lt_status lt_tile_embed_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_tile_places(a));
    const int64_t n = lt_n_elems(a->out[0]);
    return lt_launch_each(a, embed, n, embed_of(a), lt_read(a->in[0]), lt_read(a->in[1]),
                          lt_read(a->in[2]), lt_write(a->out[0]), n);
}

__global__ static void patch_rows(embed_args e, lt_reader dy, lt_writer dz, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    int64_t k = 0;
    (void)e.place(i / e.width, &k);
    if (k >= 0)
        dz.put(k * e.width + i % e.width, dy[i]);
}

// A block a row of the table, a thread a column: all rows that read it, in order. Row 0 is also the
// class token's gradient.
__global__ static void table_rows(embed_args e, lt_reader dy, lt_writer dp, lt_writer dcls,
                                  int64_t rows)
{
    const int64_t place = blockIdx.x;
    for (int64_t j = threadIdx.x; j < e.width; j += blockDim.x) {
        float sum = 0.0F;
        for (int64_t t = 0; t < e.table.n; t++) {
            const int64_t from = e.table.tiles[t], to = e.table.tiles[t + 1];
            if (place == 0) {
                sum += dy[from * e.width + j];
                continue;
            }
            for (int64_t row = from + 1; row < to; row++) {
                const int64_t k = row - t - 1;
                if (1 + e.places[k] * e.side + e.places[e.patches + k] == place)
                    sum += dy[row * e.width + j];
            }
        }
        dp.put(place * e.width + j, sum);
        if (place == 0)
            dcls.put(j, sum);
    }
}

lt_status lt_tile_embed_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_tile_places(a));
    const embed_args e = embed_of(a);
    const lt_reader dy = lt_read(a->dout[0]);
    const int64_t rows = e.patches + e.table.n;
    if (a->din[0])
        LT_TRY(a->dout[0] ? lt_launch_each(a, patch_rows, rows * e.width, e, dy,
                                           lt_write_grad(a, 0), rows * e.width)
                          : lt_zero_grad_cuda(a, 0));
    if (!a->din[1] && !a->din[2])
        return LT_OK;
    return lt_launch(a, table_rows, a->in[1]->dim[1], LT_BLOCK, 0, e, dy, lt_write_grad(a, 1),
                     lt_write_grad(a, 2), rows);
}

// ---- tile_patches

__global__ static void without_class(tile_table t, lt_reader x, lt_writer y, int64_t n,
                                     int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t row = i / width, tile = t.of_row(row);
    if (row != t.tiles[tile])
        y.put((row - tile - 1) * width + i % width, x[i]);
}

__global__ static void with_class(tile_table t, lt_reader dy, lt_writer dx, int64_t n,
                                  int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t row = i / width, tile = t.of_row(row);
    dx.put(i, row == t.tiles[tile] ? 0.0F : dy[(row - tile - 1) * width + i % width]);
}

lt_status lt_tile_patches_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(lt_need_tiles(a, 1, a->in[0]->dim[0]));
    const int64_t n = lt_n_elems(a->in[0]);
    return lt_launch_each(a, without_class, n, table_of(a->in[1]), lt_read(a->in[0]),
                          lt_write(a->out[0]), n, a->in[0]->dim[1]);
}

lt_status lt_tile_patches_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    const int64_t n = lt_n_elems(a->din[0]);
    return lt_launch_each(a, with_class, n, table_of(a->in[1]), lt_read(a->dout[0]),
                          lt_write_grad(a, 0), n, a->din[0]->dim[1]);
}

// ---- scale_add: y = x + s f

__global__ static void scale_add(lt_reader x, lt_reader s, lt_reader f, lt_writer y, int64_t n,
                                 int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i < n)
        y.put(i, x[i] + s[i % width] * f[i]);
}

lt_status lt_scale_add_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t n = lt_n_elems(a->in[0]);
    return lt_launch_each(a, scale_add, n, lt_read(a->in[0]), lt_read(a->in[1]), lt_read(a->in[2]),
                          lt_write(a->out[0]), n, a->in[0]->dim[1]);
}

// dx = dy, df = s dy; dx may be the memory of dy, and is then written last
__global__ static void scale_back(lt_reader dy, lt_reader s, lt_writer dx, lt_writer df, int64_t n,
                                  int64_t width)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const float d = dy[i];
    df.put(i, s[i % width] * d);
    dx.put(i, d);
}

struct scale_term {
    lt_reader dy, f;
    int64_t width;
    __device__ float operator()(int64_t row, int64_t j) const
    {
        return dy[row * width + j] * f[row * width + j];
    }
};

lt_status lt_scale_add_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    const int64_t width = a->in[2]->dim[1], rows = a->in[2]->dim[0];
    const lt_reader dy = lt_read(a->dout[0]);
    LT_TRY(lt_sum_columns(a, scale_term{dy, lt_read(a->in[2]), width}, rows, width,
                          lt_write_grad(a, 1)));
    return lt_launch_each(a, scale_back, rows * width, dy, lt_read(a->in[1]), lt_write_grad(a, 0),
                          lt_write_grad(a, 2), rows * width, width);
}

// ---- split_thirds, split_heads, join: pieces of one width, dealt out to the parts in turn

enum { MOST_PARTS = 3 };
struct dealt {
    lt_reader from[MOST_PARTS];
    lt_writer to[MOST_PARTS];
    int64_t parts, piece;
};

// The whole is read, the parts are written.
__global__ static void deal(dealt d, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t number = i / d.piece;
    d.to[number % d.parts].put(number / d.parts * d.piece + i % d.piece, d.from[0][i]);
}

__global__ static void collect(dealt d, int64_t n)
{
    const int64_t i = lt_thread_number();
    if (i >= n)
        return;
    const int64_t number = i / d.piece;
    d.to[0].put(i, d.from[number % d.parts][number / d.parts * d.piece + i % d.piece]);
}

lt_status lt_split_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    dealt d = {};
    d.parts = a->def->n_out;
    d.piece = lt_split_piece(a, a->in[0]);
    d.from[0] = lt_read(a->in[0]);
    for (int i = 0; i < a->def->n_out; i++)
        d.to[i] = lt_write(a->out[i]);
    return lt_launch_each(a, deal, lt_n_elems(a->in[0]), d, lt_n_elems(a->in[0]));
}

lt_status lt_split_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    if (!a->din[0])
        return LT_OK;
    dealt d = {};
    d.parts = a->def->n_out;
    d.piece = lt_split_piece(a, a->din[0]);
    for (int i = 0; i < a->def->n_out; i++)
        d.from[i] = lt_read(a->dout[i]);
    d.to[0] = lt_write_grad(a, 0);
    return lt_launch_each(a, collect, lt_n_elems(a->din[0]), d, lt_n_elems(a->din[0]));
}

lt_status lt_join_fwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    dealt d = {};
    d.parts = a->def->n_in;
    d.piece = a->in[0]->dim[1];
    for (int i = 0; i < a->def->n_in; i++)
        d.from[i] = lt_read(a->in[i]);
    d.to[0] = lt_write(a->out[0]);
    return lt_launch_each(a, collect, lt_n_elems(a->out[0]), d, lt_n_elems(a->out[0]));
}

lt_status lt_join_bwd_cuda(const lt_op_args *a)
{
    LT_TRY(lt_cuda_begin(a));
    int64_t width = 0, n = 0;
    for (int i = 0; i < a->def->n_in; i++) {
        width = a->din[i] ? a->din[i]->dim[1] : width;
        n = a->din[i] ? a->def->n_in * lt_n_elems(a->din[i]) : n;
    }
    dealt d = {};
    d.parts = a->def->n_in;
    d.piece = width;
    d.from[0] = lt_read(a->dout[0]);
    for (int i = 0; i < a->def->n_in; i++)
        d.to[i] = lt_write_grad(a, i);
    return lt_launch_each(a, deal, n, d, n);
}
