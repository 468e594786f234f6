// SPDX-License-Identifier: Apache-2.0
// Rotary positions: the two tables, and the vision tower's split of qkv with rotation. The text's
// own is qk_norm_rope.
#ifndef LT_OP_ROPE_H
#define LT_OP_ROPE_H

#include "op/op.h"

/* A table row holds the cosines of all angles, then their sines: [cos 0 .. cos m-1 | sin 0 ..
   sin m-1], m half the rotary width. */

typedef struct lt_rope_table_attr {
    double theta;       /* base */
    int32_t width;      /* rotary width Dr: the head's width, or a part of it */
    int32_t section[3]; /* frequencies of the temporal, height and width axis; they sum to Dr / 2 */
    bool interleaved;   /* frequency i on axis i mod 3 while it has some; else axis after axis */
    lt_dtype dtype;     /* of the table: f32, or f64 for the reference */
} lt_rope_table_attr;

/**
 * Rotary angles of text: pos * f_i, f_i = theta^(-2i/Dr) rounded to fp32; the product in fp32 (f64
 * where the table is f64)
 *
 * source   models.md 5.4, 9.4. Plain RoPE is section {Dr/2, 0, 0}
 * in       positions i32[3, T] (index)
 * out      table attr.dtype [T, Dr]
 * grads    none
 * errors   LT_ERR_SHAPE, LT_ERR_CONFIG when the sections do not sum to Dr / 2
 */
extern const lt_op_def lt_op_rope_table;
/** attr.dtype is set from the builder's compute dtype. */
lt_val lt_rope_table(lt_builder *b, lt_val positions, lt_rope_table_attr attr);

typedef struct lt_vision_rope_table_attr {
    double theta;   /* 10000 */
    int32_t width;  /* d, the head's width; a multiple of 4 */
    lt_dtype dtype; /* of the table */
} lt_vision_rope_table_attr;

/**
 * Rotary angles of patches: phi = [row f_0 .. row f_m-1, col f_0 .. col f_m-1], m = d/4, f_i =
 * theta^(-2i/(d/2))
 *
 * source   models.md 5.1, step 3
 * in       patch_pos i32[2, N] (index): rows, then columns
 * out      table attr.dtype [N, d]
 * grads    none
 */
extern const lt_op_def lt_op_vision_rope_table;
lt_val lt_vision_rope_table(lt_builder *b, lt_val patch_pos, double theta, int32_t width);

typedef struct lt_split_qkv_rope_attr {
    int32_t heads;
} lt_split_qkv_rope_attr;

/**
 * [q | k | v] = qkv; every head of q and k rotated: y1 = x1 c - x2 s, y2 = x2 c + x1 s; v copied
 *
 * source   models.md 5.1 step 5, 8.3; fp32 island, narrowed once (9.2); the table stays wide
 * in       qkv float[N, 3C]; table wide dtype [N, C / heads]
 * out      q, k, v like qkv [N, C]
 * grads    dqkv; a missing gradient of q, k or v counts as zeros
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_split_qkv_rope;
/** out[3]: q, k, v */
void lt_split_qkv_rope(lt_builder *b, lt_val qkv, lt_val table, int32_t heads, lt_val *out);
#endif
