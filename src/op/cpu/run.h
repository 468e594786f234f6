// SPDX-License-Identifier: Apache-2.0
// What the CPU's kernels share: which arguments they take, and loops over pieces of fixed size.
#ifndef LT_OP_CPU_RUN_H
#define LT_OP_CPU_RUN_H

#include "device/cpu/isa.h"
#include "graph/op_def.h"

/** Every float tensor of the call is f32 or bf16, and those that `same_as_in0` (LT_IN, LT_OUT bits) names have in[0]'s dtype. */
bool lt_cpu_takes(const lt_op_args *a, uint32_t same_as_in0);
/** The reference kernel of the call's row. */
lt_status lt_cpu_reference(const lt_op_args *a, lt_pass pass);

lt_pool *lt_cpu_pool(const lt_op_args *a);
lt_isa lt_cpu_isa_of(const lt_op_args *a);

/** Pieces of `step` items, from..to: bits may depend on how items are cut, so step follows from shapes alone. */
typedef lt_status (*lt_piece_fn)(void *ctx, int64_t piece, int64_t from, int64_t to);
LT_NODISCARD lt_status lt_cpu_pieces(const lt_op_args *a, int64_t n, int64_t step, lt_piece_fn fn,
                                     void *ctx);
/** Rows of that width in a piece: about 16 Ki numbers. */
int64_t lt_cpu_rows_step(int64_t width);

/** Element i of a tensor, as a pointer. */
void *lt_at(const lt_tensor *t, int64_t i);
#endif
