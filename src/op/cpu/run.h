// SPDX-License-Identifier: Apache-2.0
// What the CPU's kernels share: which arguments they take, and loops over pieces of fixed size.
#ifndef LT_OP_CPU_RUN_H
#define LT_OP_CPU_RUN_H

#include "graph/op_def.h"
#include "op/cpu/rows.h"

/* Numbers of a weight's gradient from which it is stored past the caches: smaller ones may still be
 * there when the optimizer comes. */
enum { LT_CPU_STREAM_FROM = 1 << 20 };

/**
 * Every float tensor of the call is f32 or bf16, and those that `same_as_in0` (LT_IN, LT_OUT bits)
 * names have in[0]'s dtype.
 */
bool lt_cpu_takes(const lt_op_args *a, uint32_t same_as_in0);
/** The reference kernel of the call's row. */
lt_status lt_cpu_reference(const lt_op_args *a, lt_pass pass);

lt_pool *lt_cpu_pool(const lt_op_args *a);
/** The row kernels of the call's device. */
const lt_row_kernels *lt_cpu_rows(const lt_op_args *a);
/** Where gradient i goes; data NULL when nobody asks. */
lt_sink lt_cpu_sink(const lt_op_args *a, int i);
/** Element i of a sink. */
lt_sink lt_sink_at(lt_sink s, int64_t i);
/** The data of a tensor, NULL for no tensor. */
void *lt_cpu_data(const lt_tensor *t);
/** din[i] is zeros where it is not added to: what a missing upstream gradient means. */
LT_NODISCARD lt_status lt_cpu_zero(const lt_op_args *a, int i);

/**
 * Pieces of `step` items, from..to: bits may depend on how items are cut, so step follows from
 * shapes alone.
 */
typedef lt_status (*lt_piece_fn)(void *ctx, int64_t piece, int64_t from, int64_t to);
LT_NODISCARD lt_status lt_cpu_pieces(const lt_op_args *a, int64_t n, int64_t step, lt_piece_fn fn,
                                     void *ctx);
/** Rows of that width in a piece: about 16 Ki numbers. */
int64_t lt_cpu_rows_step(int64_t width);

/**
 * Gradients of a norm's parameters are summed in pieces of LT_CPU_PART_ROWS rows, each with a row
 * of sums in the call's scratch, which are then added up in order: so many bytes for `rows` rows of
 * `sums` numbers.
 */
enum { LT_CPU_PART_ROWS = 32 };
size_t lt_cpu_part_bytes(int64_t rows, int64_t sums);
/** din[i] [n] gets the sums parts[p * ld + j] over all p. */
LT_NODISCARD lt_status lt_cpu_sum_parts(const lt_op_args *a, int i, const float *parts, int64_t ld,
                                        int64_t n_parts, int64_t n);

/** Element i of a tensor, as a pointer. */
void *lt_at(const lt_tensor *t, int64_t i);
#endif
