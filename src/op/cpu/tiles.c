// SPDX-License-Identifier: Apache-2.0
// What a tower with class tokens and layer scale needs on the CPU: tile_patches, scale_add.
// (tile_embed is in rows_by_number.c, beside the sums of tables.)
#include "op/tiles.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"
#include <string.h>

enum { X, SCALE, BRANCH, N_INPUTS };

typedef struct call {
    const lt_op_args *a;
    const lt_row_kernels *rows;
    const int32_t *tiles;
    int64_t width;
    bool bf16;
    float *parts; // scale_add: each piece's sums; NULL: the scale wants no gradient
} call;

// ---- tile_patches ----

static lt_status take_tile(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_tensor *x = c->a->in[0];
    for (int64_t t = from; t < to; t++) {
        memcpy(lt_at(c->a->out[0], (c->tiles[t] - t) * c->width),
               lt_at(x, (c->tiles[t] + 1) * c->width),
               (size_t)((c->tiles[t + 1] - c->tiles[t] - 1) * c->width) * lt_dtype_bytes(x->dtype));
    }
    return LT_OK;
}

static lt_status give_tile(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_sink dx = lt_cpu_sink(c->a, 0);
    const size_t bytes = (size_t)c->width * lt_dtype_bytes(c->a->din[0]->dtype);
    for (int64_t t = from; t < to; t++) {
        const int64_t row = c->tiles[t];
        if (!dx.add)
            memset(lt_at(c->a->din[0], row * c->width), 0, bytes);
        c->rows->convert(lt_sink_at(dx, (row + 1) * c->width),
                         lt_at(c->a->dout[0], (row - t) * c->width), c->bf16,
                         (c->tiles[t + 1] - row - 1) * c->width);
    }
    return LT_OK;
}

lt_status lt_tile_patches_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    LT_TRY(lt_need_tiles(a, 1, a->in[0]->dim[0]));
    call c = {.a = a, .tiles = lt_index(a->in[1]), .width = a->in[0]->dim[1]};
    return lt_cpu_pieces(a, lt_n_elems(a->in[1]) - 1, 1, take_tile, &c);
}

lt_status lt_tile_patches_bwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, 0))
        return lt_cpu_reference(a, LT_BACKWARD);
    if (!a->din[0] || !a->dout[0])
        return lt_cpu_zero(a, 0);
    call c = {.a = a,
              .rows = lt_cpu_rows(a),
              .tiles = lt_index(a->in[1]),
              .width = a->din[0]->dim[1],
              .bf16 = a->dout[0]->dtype == LT_BF16};
    return lt_cpu_pieces(a, lt_n_elems(a->in[1]) - 1, 1, give_tile, &c);
}

// ---- scale_add ----

static lt_status scale_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const call *c = ctx;
    const lt_op_args *a = c->a;
    for (int64_t row = from; row < to; row++) {
        const int64_t at = row * c->width;
        c->rows->scale_add(lt_at(a->out[0], at), lt_at(a->in[X], at), a->in[SCALE]->data,
                           lt_at(a->in[BRANCH], at), c->bf16, c->width);
    }
    return LT_OK;
}

static lt_status scale_back_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    const call *c = ctx;
    const lt_op_args *a = c->a;
    float *sums = c->parts ? c->parts + piece * c->width : NULL;
    if (sums)
        memset(sums, 0, (size_t)c->width * sizeof *sums);
    for (int64_t row = from; row < to; row++) {
        const int64_t at = row * c->width;
        const void *dy = lt_at(a->dout[0], at);
        if (a->din[X])
            c->rows->convert(lt_sink_at(lt_cpu_sink(a, X), at), dy, c->bf16, c->width);
        c->rows->scale_grad(lt_sink_at(lt_cpu_sink(a, BRANCH), at), sums, a->in[SCALE]->data,
                            lt_at(a->in[BRANCH], at), dy, c->bf16, c->width);
    }
    return LT_OK;
}

lt_status lt_scale_add_fwd_cpu(const lt_op_args *a)
{
    if (!lt_cpu_takes(a, LT_IN(SCALE) | LT_IN(BRANCH) | LT_OUT(0)))
        return lt_cpu_reference(a, LT_FORWARD);
    call c = {.a = a,
              .rows = lt_cpu_rows(a),
              .width = a->in[X]->dim[1],
              .bf16 = a->in[X]->dtype == LT_BF16};
    return lt_cpu_pieces(a, a->in[X]->dim[0], lt_cpu_rows_step(c.width), scale_piece, &c);
}

lt_status lt_scale_add_bwd_cpu(const lt_op_args *a)
{
    const lt_tensor *f = a->in[BRANCH];
    if (!lt_cpu_takes(a, 0) || a->in[SCALE]->dtype != f->dtype)
        return lt_cpu_reference(a, LT_BACKWARD);
    for (int i = 0; i < N_INPUTS && !a->dout[0]; i++)
        LT_TRY(lt_cpu_zero(a, i));
    if (!a->dout[0])
        return LT_OK;
    const int64_t n = f->dim[0], n_parts = lt_ceil_div(n, LT_CPU_PART_ROWS);
    call c = {.a = a,
              .rows = lt_cpu_rows(a),
              .width = f->dim[1],
              .bf16 = f->dtype == LT_BF16,
              .parts = a->din[SCALE] ? a->run->scratch : NULL};
    LT_ASSERT(!c.parts || a->run->scratch_bytes >= lt_cpu_part_bytes(n, c.width));
    LT_TRY(lt_cpu_pieces(a, n, LT_CPU_PART_ROWS, scale_back_piece, &c));
    return lt_cpu_sum_parts(a, SCALE, c.parts, c.width, n_parts, c.width);
}
