// SPDX-License-Identifier: Apache-2.0
// Rows of a tower with a class token: one more row in front of the patches of each tile.
#ifndef LT_OP_TILES_H
#define LT_OP_TILES_H

#include "op/op.h"

/*
 * Patch k of tile t is row k of [N, C] without class tokens, and row k + t + 1 of [N + F, C] with
 * them. tiles i32[F + 1] has the first row of each tile in the longer form, its class token's, and
 * N + F at the end (LT_BATCH_TILE_SEGMENTS).
 */

/**
 * Class tokens before the patches of each tile, and the learned position of every row:
 *   y[class row of t] = cls + p[0],   y[k + t + 1] = z[k] + p[1 + row_k G + col_k],   G^2 + 1 = R
 *
 * source   models.md 5.2, 8.7; sums in fp32, narrowed once
 * in       z float[N, C]; p like z [1, R, C]; cls like z [1, 1, C]; patch_pos i32[2, N] (index):
 *          rows, then columns; tiles i32[F + 1] (index)
 * out      y like z [N + F, C]
 * grads    dz: the rows of dy that are patches; dp, dcls: sums over tiles
 * errors   LT_ERR_SHAPE (R - 1 is no square), LT_ERR_DATA for a place outside the table or a bad
 *          table of tiles
 */
extern const lt_op_def lt_op_tile_embed;
/** Takes the batch's patch positions and tiles. */
lt_val lt_tile_embed(lt_builder *b, lt_val z, lt_val p, lt_val cls);

/**
 * The rows that are patches: y[k] = x[k + t + 1]
 *
 * in       x float[N + F, C]; tiles i32[F + 1] (index)
 * out      y like x [N, C]
 * grads    dx: dy in those rows, zero in class tokens
 * errors   LT_ERR_SHAPE, LT_ERR_DATA
 */
extern const lt_op_def lt_op_tile_patches;
/** Takes the batch's tiles. */
lt_val lt_tile_patches(lt_builder *b, lt_val x);

/** What both kernels rely on: tiles go from 0 to `rows`, each with a class token. LT_ERR_DATA */
LT_NODISCARD lt_status lt_need_tiles(const lt_op_args *a, int i, int64_t rows);
/** All of tile_embed's index inputs. LT_ERR_DATA */
LT_NODISCARD lt_status lt_need_tile_places(const lt_op_args *a);
/** The side G of a table of R = G^2 + 1 rows; 0 when R - 1 is no square. */
int64_t lt_tile_side(int64_t table_rows);
#endif
