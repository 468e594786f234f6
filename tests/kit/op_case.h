// SPDX-License-Identifier: Apache-2.0
// Cases of ops as data: which op, inputs by kind and shape, settings. Gradients and columns of the
// table are tested with them.
#ifndef LT_TESTS_KIT_OP_CASE_H
#define LT_TESTS_KIT_OP_CASE_H

#include "tests/kit/op_kit.h"

typedef enum lt_case_kind {
    LT_CASE_NONE,  /* not given */
    LT_CASE_VALUE, /* activations: in the dtype of the run */
    LT_CASE_PARAM, /* like VALUE; its gradient is in the wide dtype */
    LT_CASE_SIDE,  /* a table in the wide dtype, without a gradient */
    LT_CASE_F32,   /* f32 in every run, without a gradient */
    LT_CASE_INDEX
} lt_case_kind;

/** Floats are random. Index k is list[k], or, without a list: k * step % below */
typedef struct lt_case_input {
    lt_case_kind kind;
    const char *shape;
    const int32_t *list;
    int32_t step, below;
} lt_case_input;
// clang-format off
#define VALUE(dims) {.kind = LT_CASE_VALUE, .shape = (dims)}
#define PARAM(dims) {.kind = LT_CASE_PARAM, .shape = (dims)}
#define SIDE(dims) {.kind = LT_CASE_SIDE, .shape = (dims)}
#define F32(dims) {.kind = LT_CASE_F32, .shape = (dims)}
#define LIST(dims, ...) \
    {.kind = LT_CASE_INDEX, .shape = (dims), .list = (const int32_t[]){__VA_ARGS__}}
#define EVERY(dims, n, m) {.kind = LT_CASE_INDEX, .shape = (dims), .step = (n), .below = (m)}
#define ATTR(type, ...) .attr = &(const type){__VA_ARGS__}, .attr_bytes = sizeof(type)
// clang-format on

typedef struct lt_op_case {
    const lt_op_def *def;
    lt_case_input in[LT_MAX_IN];
    const void *attr;
    size_t attr_bytes;
    uint32_t no_upstream; /* LT_OUT bits */
} lt_op_case;

/** in[def->n_in] for a run in `dtype`. */
void lt_case_inputs(void *state, const lt_op_case *c, lt_dtype dtype, lt_tensor *in);
/** LT_IN bits of the float inputs that have no gradient. */
uint32_t lt_case_no_grad(const lt_op_case *c);

/**
 * The kernels of a column against the reference, forward and backward, in dtype f32 or bf16:
 * outputs and gradients within rel_tol of the largest number, NaN where the reference has NaN;
 * gradients overwriting garbage, adding, and each alone; each upstream gradient missing in turn.
 * All on every one of the pools, with the same bits.
 * errors   LT_ERR_NUMERIC with the op, what was compared, and the difference
 */
lt_status lt_column_agrees(void *state, const lt_op_case *c, lt_dtype dtype, lt_backend backend,
                           lt_pool *const *pools, int n_pools, double rel_tol);
#endif
