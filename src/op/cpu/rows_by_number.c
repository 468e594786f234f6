// SPDX-License-Identifier: Apache-2.0
// Ops that pick, replace or add rows by number, on the CPU: embedding, scatter_rows,
// scatter_add_rows, gather_rows, pos_embed_add, tile_embed.
#include "device/cpu/scratch.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include "op/op.h"
#include "op/tiles.h"
#include <stdlib.h>
#include <string.h>

enum { STRIP = 256, CORNERS = 4 };

typedef struct call {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    const int32_t *index;
    int64_t width, n_index;
} call;

static call call_of(const lt_op_args *a, int index, int64_t width)
{
    return (call){.a = a,
                  .rows = lt_cpu_rows(a),
                  .index = lt_index(a->in[index]),
                  .width = width,
                  .n_index = lt_n_elems(a->in[index])};
}

static lt_status over_rows(const call *c, int64_t n, lt_piece_fn fn)
{
    call copy = *c;
    return lt_cpu_pieces(c->a, n, lt_cpu_rows_step(c->width), fn, &copy);
}

static lt_sink plain_sink(const lt_tensor *t)
{
    return (lt_sink){.data = t->data, .bf16 = t->dtype == LT_BF16};
}

// Row `from` of src to row `to` of a sink.
static void put_row(const call *c, lt_sink dst, int64_t to, const lt_tensor *src, int64_t from)
{
    c->rows->convert(lt_sink_at(dst, to * c->width), lt_at(src, from * c->width),
                     src->dtype == LT_BF16, c->width);
}

static lt_status copy_x_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_tensor *x = c->a->in[0];
    memcpy(lt_at(c->a->out[0], from * c->width), lt_at(x, from * c->width),
           (size_t)((to - from) * c->width) * lt_dtype_bytes(x->dtype));
    return LT_OK;
}

// y = x, which may be the same memory
static lt_status copy_x(const call *c)
{
    if (c->a->out[0]->data == c->a->in[0]->data)
        return LT_OK;
    return over_rows(c, c->a->in[0]->dim[0], copy_x_piece);
}

static lt_status replace_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t m = from; m < to; m++)
        put_row(c, plain_sink(c->a->out[0]), c->index[m], c->a->in[1], m);
    return LT_OK;
}

lt_status lt_scatter_rows_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    const call c = call_of(a, 2, a->in[0]->dim[1]);
    LT_TRY(copy_x(&c));
    return over_rows(&c, c.n_index, replace_piece);
}

// The first of the ascending row numbers that is not below `row`.
static int64_t first_from(const call *c, int64_t row)
{
    int64_t low = 0, high = c->n_index;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (c->index[mid] < row)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// dx = dy, but for the replaced rows, which get zeros.
static lt_status keep_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_sink dx = lt_cpu_sink(c->a, 0);
    for (int64_t row = from, m = first_from(c, from); row < to; row++) {
        const bool replaced = m < c->n_index && c->index[m] == row;
        m += replaced;
        if (!replaced)
            put_row(c, dx, row, c->a->dout[0], row);
        else if (!dx.add)
            memset(lt_at(c->a->din[0], row * c->width), 0,
                   (size_t)c->width * lt_dtype_bytes(c->a->din[0]->dtype));
    }
    return LT_OK;
}

static lt_status pick_gradient_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t m = from; m < to; m++)
        put_row(c, lt_cpu_sink(c->a, 1), m, c->a->dout[0], c->index[m]);
    return LT_OK;
}

lt_status lt_scatter_rows_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = 0; i < 2 && !a->dout[0]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[0])
        return LT_OK;
    const call c = call_of(a, 2, a->dout[0]->dim[1]);
    if (a->din[0])
        LT_TRY(over_rows(&c, a->din[0]->dim[0], keep_piece));
    return a->din[1] ? over_rows(&c, c.n_index, pick_gradient_piece) : LT_OK;
}

static lt_status add_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t m = from; m < to; m++) {
        void *y = lt_at(c->a->out[0], c->index[m] * c->width);
        c->rows->add(y, y, lt_at(c->a->in[1], m * c->width), c->a->in[0]->dtype == LT_BF16,
                     c->width);
    }
    return LT_OK;
}

lt_status lt_scatter_add_rows_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_ascending(a, 2, "rows", a->in[0]->dim[0]));
    const call c = call_of(a, 2, a->in[0]->dim[1]);
    LT_TRY(copy_x(&c));
    return over_rows(&c, c.n_index, add_piece);
}

// out[m] = table[index[m]], for gather_rows and embedding
typedef struct pick {
    call c;
    const lt_tensor *table;
} pick;

static lt_status pick_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const pick *p = ctx;
    const size_t bytes = (size_t)p->c.width * lt_dtype_bytes(p->table->dtype);
    for (int64_t m = from; m < to; m++)
        memcpy(lt_at(p->c.a->out[0], m * p->c.width), lt_at(p->table, p->c.index[m] * p->c.width),
               bytes);
    return LT_OK;
}

static lt_status pick_rows(const lt_op_args *a, int index, int table)
{
    pick p = {.c = call_of(a, index, a->in[table]->dim[1]), .table = a->in[table]};
    return lt_cpu_pieces(a, p.c.n_index, lt_cpu_rows_step(p.c.width), pick_piece, &p);
}

lt_status lt_gather_rows_fwd_cpu(const lt_op_args *a)
{
    LT_TRY(lt_need_ascending(a, 1, "rows", a->in[0]->dim[0]));
    return pick_rows(a, 1, 0);
}

static lt_status put_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t m = from; m < to; m++)
        put_row(c, lt_cpu_sink(c->a, 0), c->index[m], c->a->dout[0], m);
    return LT_OK;
}

lt_status lt_gather_rows_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    LT_TRY(lt_cpu_zero(a, 0));
    if (!a->din[0] || !a->dout[0])
        return LT_OK;
    const call c = call_of(a, 1, a->din[0]->dim[1]);
    return over_rows(&c, c.n_index, put_back_piece);
}

/*
 * ---- tables whose rows are read by many: gradients are summed row by row, in the order of the
 * readers ----
 */

typedef struct groups {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    const int64_t *keys;            // row of the table << 32 | reader, ascending
    const int64_t *starts;          // of each group of one row in keys, and the end
    const float *weights;           // of each reader; NULL: 1
    int64_t width, strips, per_row; // per_row: readers for each row of dout
} groups;

static int compare_keys(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// A strip of columns of one row of the table: summed in double, rounded once.
static lt_status sum_group(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece, (void)to;
    const groups *g = ctx;
    const int64_t group = from / g->strips, at = from % g->strips * STRIP,
                  n = lt_min_i64(STRIP, g->width - at);
    double sum[STRIP] = {0.0};
    float row[STRIP];
    for (int64_t k = g->starts[group]; k < g->starts[group + 1]; k++) {
        const int64_t reader = g->keys[k] & INT32_MAX;
        const double weight = g->weights ? (double)g->weights[reader] : 1.0;
        const lt_tensor *dy = g->a->dout[0];
        lt_convert(row, LT_F32, lt_at(dy, reader / g->per_row * g->width + at), dy->dtype, n);
        for (int64_t j = 0; j < n; j++)
            sum[j] += weight * (double)row[j];
    }
    for (int64_t j = 0; j < n; j++)
        row[j] = (float)sum[j];
    lt_sink out = lt_cpu_sink(g->a, 1);
    out.add = true;
    const int64_t table_row = g->keys[g->starts[group]] >> 32;
    g->rows->convert(lt_sink_at(out, table_row * g->width + at), row, false, n);
    return LT_OK;
}

// din[1] (+)= the rows of dout[0], scattered by `index`.
static lt_status scatter_sums(const lt_op_args *a, const int32_t *index, int64_t n,
                              const float *weights, int64_t per_row)
{
    void *memory;
    LT_TRY(lt_cpu_zero(a, 1));
    if (!a->dout[0] || n == 0)
        return LT_OK;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_ORDER, (size_t)(2 * n + 1) * sizeof(int64_t), &memory));
    int64_t *keys = memory, *starts = keys + n, n_groups = 0;
    for (int64_t k = 0; k < n; k++)
        keys[k] = (int64_t)index[k] << 32 | k;
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (int64_t k = 0; k < n; k++)
        if (k == 0 || keys[k] >> 32 != keys[k - 1] >> 32)
            starts[n_groups++] = k;
    starts[n_groups] = n;
    groups g = {.a = a,
                .rows = lt_cpu_rows(a),
                .keys = keys,
                .starts = starts,
                .weights = weights,
                .width = a->dout[0]->dim[1],
                .per_row = per_row};
    g.strips = lt_ceil_div(g.width, STRIP);
    return lt_cpu_pieces(a, n_groups * g.strips, 1, sum_group, &g);
}

lt_status lt_embedding_fwd_cpu(const lt_op_args *a)
{
    LT_TRY(lt_need_indices(a, 0, "ids", a->in[1]->dim[0]));
    return pick_rows(a, 0, 1);
}

lt_status lt_embedding_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[1])
        return LT_OK;
    LT_TRY(lt_need_indices(a, 0, "ids", a->din[1]->dim[0]));
    return scatter_sums(a, lt_index(a->in[0]), a->in[0]->dim[0], NULL, 1);
}

static lt_status blend_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_op_args *a = c->a;
    for (int64_t n = from; n < to; n++) {
        const void *p[CORNERS];
        for (int k = 0; k < CORNERS; k++)
            p[k] = lt_at(a->in[1], c->index[n * CORNERS + k] * c->width);
        c->rows->blend(lt_at(a->out[0], n * c->width), lt_at(a->in[0], n * c->width), p,
                       (const float *)a->in[3]->data + n * CORNERS, a->in[0]->dtype == LT_BF16,
                       c->width);
    }
    return LT_OK;
}

lt_status lt_pos_embed_add_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(1) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_indices(a, 2, "corners", a->in[1]->dim[0]));
    const call c = call_of(a, 2, a->in[0]->dim[1]);
    return over_rows(&c, a->in[0]->dim[0], blend_piece);
}

static lt_status pass_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t row = from; row < to; row++)
        put_row(c, lt_cpu_sink(c->a, 0), row, c->a->dout[0], row);
    return LT_OK;
}

lt_status lt_pos_embed_add_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (a->din[0] && a->dout[0]) {
        const call c = call_of(a, 2, a->din[0]->dim[1]);
        LT_TRY(over_rows(&c, a->din[0]->dim[0], pass_piece));
    } else {
        LT_TRY(lt_cpu_zero(a, 0));
    }
    return a->din[1]
               ? scatter_sums(a, lt_index(a->in[2]), lt_n_elems(a->in[2]), a->in[3]->data, CORNERS)
               : LT_OK;
}

// ---- tile_embed: places of patches in a learned table, and a class token for each tile ----

enum { TILE_TABLE = 1, TILE_CLASS, TILE_PLACES, TILE_TILES };

// The position table's row of patch k.
static int32_t place_of_patch(const lt_op_args *a, int64_t k)
{
    const int32_t *at = lt_index(a->in[TILE_PLACES]);
    return (int32_t)(1 + at[k] * lt_tile_side(a->in[TILE_TABLE]->dim[1]) +
                     at[a->in[TILE_PLACES]->dim[1] + k]);
}

static lt_status embed_tile(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_op_args *a = c->a;
    const bool bf16 = a->in[0]->dtype == LT_BF16;
    for (int64_t t = from; t < to; t++) {
        for (int64_t row = c->index[t]; row < c->index[t + 1]; row++) {
            const int64_t k = row - t - 1;
            const bool is_class = row == c->index[t];
            const void *x = is_class ? a->in[TILE_CLASS]->data : lt_at(a->in[0], k * c->width);
            const int64_t place = is_class ? 0 : place_of_patch(a, k);
            c->rows->add(lt_at(a->out[0], row * c->width), x,
                         lt_at(a->in[TILE_TABLE], place * c->width), bf16, c->width);
        }
    }
    return LT_OK;
}

lt_status lt_tile_embed_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(TILE_TABLE) | LT_IN(TILE_CLASS) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_tile_places(a));
    call c = call_of(a, TILE_TILES, a->out[0]->dim[1]);
    return lt_cpu_pieces(a, c.n_index - 1, 1, embed_tile, &c);
}

static lt_status return_tile(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    for (int64_t t = from; t < to; t++)
        for (int64_t row = c->index[t] + 1; row < c->index[t + 1]; row++)
            put_row(c, lt_cpu_sink(c->a, 0), row - t - 1, c->a->dout[0], row);
    return LT_OK;
}

// The class token's gradient: the sum of its rows, in double.
static lt_status sum_class_rows(const call *c)
{
    const lt_tensor *dy = c->a->dout[0];
    lt_sink out = lt_cpu_sink(c->a, TILE_CLASS);
    for (int64_t at = 0; at < c->width; at += STRIP) {
        const int64_t n = lt_min_i64(STRIP, c->width - at);
        double sum[STRIP] = {0.0};
        float row[STRIP];
        for (int64_t t = 0; t + 1 < c->n_index; t++) {
            lt_convert(row, LT_F32, lt_at(dy, c->index[t] * c->width + at), dy->dtype, n);
            for (int64_t j = 0; j < n; j++)
                sum[j] += (double)row[j];
        }
        for (int64_t j = 0; j < n; j++)
            row[j] = (float)sum[j];
        c->rows->convert(lt_sink_at(out, at), row, false, n);
    }
    return LT_OK;
}

static lt_status sum_places(const call *c, int64_t n_rows)
{
    int32_t *places = c->a->run->scratch;
    LT_ASSERT(c->a->run->scratch_bytes >= (size_t)n_rows * sizeof *places);
    for (int64_t t = 0; t + 1 < c->n_index; t++) {
        places[c->index[t]] = 0;
        for (int64_t row = c->index[t] + 1; row < c->index[t + 1]; row++)
            places[row] = place_of_patch(c->a, row - t - 1);
    }
    return scatter_sums(c->a, places, n_rows, NULL, 1);
}

lt_status lt_tile_embed_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = 0; i <= TILE_CLASS && !a->dout[0]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[0])
        return LT_OK;
    LT_TRY(lt_need_tile_places(a));
    call c = call_of(a, TILE_TILES, a->dout[0]->dim[1]);
    if (a->din[0])
        LT_TRY(lt_cpu_pieces(a, c.n_index - 1, 1, return_tile, &c));
    if (a->din[TILE_TABLE])
        LT_TRY(sum_places(&c, a->dout[0]->dim[0]));
    return a->din[TILE_CLASS] ? sum_class_rows(&c) : LT_OK;
}
