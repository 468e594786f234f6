// SPDX-License-Identifier: Apache-2.0
// Rows by number: replaced (image features), added to (deepstack), picked (targets); rows moved.
#ifndef LT_OP_ROWS_H
#define LT_OP_ROWS_H

#include "op/op.h"

/* `rows` is strictly ascending, so that every row of x is touched at most once. No
   rows at all is fine. */

/**
 * y = x, but y[rows[m]] = f[m]
 *
 * source   models.md 5.3, masked scatter; 8.7
 * in       x float[T, H]; f float[M, H], converted to x's dtype; rows i32[M] (index)
 * out      y like x
 * grads    dx = dy with those rows zero; df = dy[rows]
 * errors   LT_ERR_SHAPE; LT_ERR_DATA for a row outside x, or rows that do not ascend
 */
extern const lt_op_def lt_op_scatter_rows;
lt_val lt_scatter_rows(lt_builder *b, lt_val x, lt_val f, lt_val rows);

/**
 * y = x, but y[rows[m]] += f[m]
 *
 * source   models.md 5.3, deepstack; 8.7; one narrowing (9.2)
 * in       x float[T, H]; f like x [M, H]; rows i32[M] (index)
 * out      y like x
 * grads    dx is dy itself; df = gather_rows(dy, rows) (`grad`)
 */
extern const lt_op_def lt_op_scatter_add_rows;
lt_val lt_scatter_add_rows(lt_builder *b, lt_val x, lt_val f, lt_val rows);

/**
 * y[m] = x[rows[m]]
 *
 * in       x float[T, H]; rows i32[n] (index)
 * out      y like x [n, H]
 * grads    dx: dy in those rows, zero elsewhere
 */
extern const lt_op_def lt_op_gather_rows;
lt_val lt_gather_rows(lt_builder *b, lt_val x, lt_val rows);

typedef struct lt_shift_rows_attr {
    int32_t by;
} lt_shift_rows_attr;

/**
 * y[t] = x[t + by], zeros where there is no such row
 *
 * source   models.md 6.3: the token after the next one
 * in       x float[T, H]
 * out      y like x
 * grads    dx: dy the other way
 */
extern const lt_op_def lt_op_shift_rows;
lt_val lt_shift_rows(lt_builder *b, lt_val x, int32_t by);
#endif
