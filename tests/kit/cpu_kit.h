// SPDX-License-Identifier: Apache-2.0
// Judging the CPU's kernels by the reference: one call runs a row of the op table in all the ways
// that must agree.
#ifndef LT_TESTS_KIT_CPU_KIT_H
#define LT_TESTS_KIT_CPU_KIT_H

#include "tests/kit/op_kit.h"

typedef struct lt_cpu_check {
    const lt_op_def *def;
    const void *attr;
    const lt_tensor *in; /* [def->n_in]; float inputs f32, given to the kernels in each dtype */
    uint32_t wide;       /* LT_IN bits: inputs that stay f32 in bf16 (tables, weights of a blend) */
    uint32_t params;     /* LT_IN bits: inputs whose gradient is f32 in bf16 too */
    uint32_t no_grad;    /* LT_IN bits: float inputs without a gradient */
    uint32_t no_upstream; /* LT_OUT bits: outputs that nothing differentiates through */
    uint32_t wide_out;    /* LT_OUT bits: outputs that are f32 in bf16 (lse, loss) */
    /* a NaN may reach more than in REF: 0 times a masked NaN is a NaN in a product of blocks */
    bool nan_spreads;
    /* of the largest element; 0: 2e-6, and 0.008 (two units in the last place of bf16) */
    double tol, tol_bf16;
} lt_cpu_check;

/**
 * In f32 and bf16, with the kernels of every instruction set that this processor has, on 1, 2 and 4
 * threads (the same bits):
 * forward; backward with all gradients asked for, overwriting garbage, and adding; each alone; each
 * upstream gradient missing;
 * one NaN in each float input. Every result within tolerance of REF, and NaN just where REF has it.
 */
void lt_test_cpu_agrees(void *state, const lt_cpu_check *check);
#endif
