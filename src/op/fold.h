// SPDX-License-Identifier: Apache-2.0
// fold_rows and unfold_rows: groups of rows side by side (the patch merger's concatenation), and
// back. Views, never launched.
#ifndef LT_OP_FOLD_H
#define LT_OP_FOLD_H

#include "op/op.h"

typedef struct lt_fold_attr {
    int64_t group;
} lt_fold_attr;

/**
 * y = x with every `group` consecutive rows as one: [R, W] -> [R / group, group W]
 *
 * source   models.md 5.1 step 6; patches of a merge group are neighbours
 * grads    unfold_rows(dy) (`grad`)
 * errors   LT_ERR_SHAPE when R is not a multiple of the group
 */
extern const lt_op_def lt_op_fold_rows;
lt_val lt_fold_rows(lt_builder *b, lt_val x, int64_t group);

/** The inverse: [R, group W] -> [R group, W]. */
extern const lt_op_def lt_op_unfold_rows;
lt_val lt_unfold_rows(lt_builder *b, lt_val x, int64_t group);
#endif
