// SPDX-License-Identifier: Apache-2.0
// What all ops share: checks for shape rules, and the helpers of reference kernels.
#ifndef LT_OP_OP_H
#define LT_OP_OP_H

#include "graph/builder.h"

/**
 * dtype of what is kept beside activations of that dtype: statistics, rotary tables, loss,
 * parameter gradients. f64 for f64, f32 for all others.
 */
lt_dtype lt_wide_dtype(lt_dtype compute);

/* ---- shape rules: each check fails with a sentence "OP needs ..., got ..." ---- */

/** Input i is there and has that rank. name: as the op's header calls it. errors: LT_ERR_SHAPE */
LT_NODISCARD lt_status lt_need_rank(const lt_op_args *a, int i, const char *name, int rank);
/** Input i is there and has the dtype. errors: LT_ERR_DTYPE, LT_ERR_SHAPE when missing */
LT_NODISCARD lt_status lt_need_dtype(const lt_op_args *a, int i, const char *name, lt_dtype dtype);
/** Input i is there and is [dims] of that dtype. errors: LT_ERR_DTYPE, LT_ERR_SHAPE */
LT_NODISCARD lt_status lt_need_1d(const lt_op_args *a, int i, const char *name, lt_dtype dtype,
                                  int64_t n);
LT_NODISCARD lt_status lt_need_2d(const lt_op_args *a, int i, const char *name, lt_dtype dtype,
                                  int64_t rows, int64_t cols);
/** Inputs i and j have one shape and dtype. errors: LT_ERR_DTYPE, LT_ERR_SHAPE */
LT_NODISCARD lt_status lt_need_alike(const lt_op_args *a, int i, const char *name_i, int j,
                                     const char *name_j);

/* ---- reference kernels ---- */

/**
 * v as it reads after a store in `dtype`, if that is bf16; v itself otherwise (references keep
 * double).
 */
double lt_narrowed(lt_dtype dtype, double v);
/** Element k of dout[i]; 0 when nobody gave that output a gradient. */
double lt_dout(const lt_op_args *a, int i, int64_t k);
/** din[i][k] = v, or += v where bit i of a->add is set. Nothing when nobody asks for din[i]. */
void lt_put_grad(const lt_op_args *a, int i, int64_t k, double v);
/**
 * For gradients that are scattered: zero din[i] unless its add bit is set, then lt_add_grad what
 * there is.
 */
void lt_zero_grad(const lt_op_args *a, int i);
void lt_add_grad(const lt_op_args *a, int i, int64_t k, double v);

/** sum over k of a[a_from + k a_step] * b[b_from + k b_step], in double, k ascending. */
double lt_dot(const lt_tensor *a, int64_t a_from, int64_t a_step, const lt_tensor *b,
              int64_t b_from, int64_t b_step, int64_t n);
/** The first n doubles of the call's scratch; asserts that the row asked for as many. */
double *lt_scratch_f64(const lt_op_args *a, int64_t n);

/** The host twin of an i32 index tensor; NULL when it has no elements. */
const int32_t *lt_index(const lt_tensor *t);
/**
 * All of an index input's numbers lie in [0, n). errors: LT_ERR_DATA, with the place and the
 * number
 */
LT_NODISCARD lt_status lt_need_indices(const lt_op_args *a, int i, const char *name, int64_t n);
/** The same, and each number is larger than the one before it. */
LT_NODISCARD lt_status lt_need_ascending(const lt_op_args *a, int i, const char *name, int64_t n);
/**
 * A segment table's numbers neither fall nor leave [0, rows]. errors: LT_ERR_DATA, with the place
 * and the number
 */
LT_NODISCARD lt_status lt_need_segments(const lt_op_args *a, int i, int64_t rows);
/** Copy row `from` of src to row `to` of dst, converting. Both are [rows, width] of one width. */
void lt_copy_row(lt_tensor *dst, int64_t to, const lt_tensor *src, int64_t from);
#endif
