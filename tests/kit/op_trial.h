// SPDX-License-Identifier: Apache-2.0
// Random inputs for any row of the op table: shapes, numbers, indices and settings drawn from a
// seed.
#ifndef LT_TESTS_KIT_OP_TRIAL_H
#define LT_TESTS_KIT_OP_TRIAL_H

#include "base/memory.h"
#include "op/ops.h"

/** One draw. Tensors lie in the arena; index tensors are their own host twins. */
typedef struct op_trial {
    const lt_op_def *def;
    lt_arena *arena;
    uint64_t seed, draws;
    lt_dtype dtype; /* of activations */
    _Alignas(8) unsigned char attr[LT_ATTR_BYTES];
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT]; /* out: planned by infer, or filled where in_out */
    bool given[LT_MAX_IN];
    uint32_t no_grad, no_upstream; /* LT_IN and LT_OUT bits */
    uint32_t weights;              /* LT_IN bits: parameters, whose gradient is wide */
    uint32_t add;                  /* LT_IN bits, drawn */
    bool in_out;                   /* outputs are read too */
    int absent_out;                /* an output that is not given; -1: none */
} op_trial;

typedef struct op_maker {
    const char *op;
    lt_status (*make)(op_trial *t);
} op_maker;

/** A maker for every row that has kernels. */
const op_maker *trial_makers(int *n);
lt_status trial_create(const op_maker *maker, lt_dtype dtype, uint64_t seed, op_trial *out);
void trial_destroy(op_trial *t);
bool trial_chance(op_trial *t, double p);
/** Standard normal numbers in that dtype. */
lt_status trial_random(op_trial *t, lt_dtype dtype, int rank, const int64_t *dim, lt_tensor *out);
#endif
