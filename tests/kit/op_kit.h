// SPDX-License-Identifier: Apache-2.0
// The test kit for ops: tensors between guard bytes, one row of the table run by itself, gradients
// against differences.
#ifndef LT_TESTS_KIT_OP_KIT_H
#define LT_TESTS_KIT_OP_KIT_H

#include "graph/op_def.h"
#include "tests/kit/lt_test.h"

/* ---- tensors: contiguous, in the test's arena, 256-byte aligned, guard bytes on both sides.
   Shapes are texts: "4x8", "3", "0x8" ---- */

/** What stands in an input list where nothing is given. */
lt_tensor lt_test_none(void);
lt_tensor lt_test_tensor(void *state, lt_dtype dtype, const char *shape); /* all bytes 0 */
/**
 * Memory for a planned tensor, filled with bytes that no kernel leaves by accident (a large finite
 * number in every dtype).
 */
lt_tensor lt_test_garbage(void *state, const lt_tensor *like);
lt_tensor lt_test_f32(void *state, const char *shape, const float *values);
lt_tensor lt_test_f64(void *state, const char *shape, const double *values);
/** An index tensor; its host twin is its data. */
lt_tensor lt_test_i32(void *state, const char *shape, const int32_t *values);
/** Standard normal numbers times `scale`, rounded to the dtype; the same for the same seed. */
lt_tensor lt_test_random_of(void *state, lt_dtype dtype, const char *shape, uint64_t seed,
                            double scale);
lt_tensor lt_test_random(void *state, const char *shape, uint64_t seed); /* f32 */
lt_tensor lt_test_random_f64(void *state, const char *shape, uint64_t seed);
/** t's numbers in another float dtype. */
lt_tensor lt_test_converted(void *state, const lt_tensor *t, lt_dtype dtype);

/** Nobody wrote beside the tensor. Fails the test otherwise. */
#define assert_guards(t) lt_test_guards((t), __FILE__, __LINE__)
void lt_test_guards(const lt_tensor *t, const char *file, int line);
/** assert_floats(&t, tol, v0, v1, ...): the tensor has just these numbers, each within tol. */
#define assert_floats(t, tol, ...)                                                                 \
    lt_test_floats((t), (tol), (const double[]){__VA_ARGS__},                                      \
                   (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), __FILE__,    \
                   __LINE__)
void lt_test_floats(const lt_tensor *t, double tol, const double *want, int64_t n, const char *file,
                    int line);
/**
 * max |a - b| over all elements, relative to max |b| (to 1 where that is 0); infinity where only
 * one of them is NaN.
 */
double lt_test_difference(const lt_tensor *a, const lt_tensor *b);

/* ---- one row of the table, run by itself: in[def->n_in], out[def->n_out] ---- */

/**
 * infer, then the REF kernel. Outputs start as garbage; all guards are looked at. errors: those of
 * infer and of the kernel
 */
lt_status lt_test_forward(void *state, const lt_op_def *def, const lt_tensor *in, const void *attr,
                          lt_tensor *out);

/** What a single run can be told; zeros are REF on one thread. */
typedef struct lt_test_column {
    lt_backend backend;
    lt_pool *pool;
    void *impl; /* the device's own state: an lt_cpu_state, for instance */
} lt_test_column;
lt_status lt_test_forward_on(void *state, lt_test_column column, const lt_op_def *def,
                             const lt_tensor *in, const void *attr, lt_tensor *out);

/**
 * The backward kernel. din[i].data NULL: that gradient is not asked for; dout[i].data NULL: that
 * output has no gradient. The kernel is given only what backward_reads names: of other inputs the
 * shape, of other outputs nothing. out: as forward left it (a loss is written).
 */
lt_status lt_test_backward_on(void *state, lt_test_column column, const lt_op_def *def,
                              const lt_tensor *in, const void *attr, lt_tensor *out,
                              const lt_tensor *dout, lt_tensor *din, uint32_t add);

typedef struct lt_gradcheck_opts {
    uint64_t seed;
    double step;      /* of the differences; 0: 1e-3 (four points: truncation is about step^4) */
    double rel_tol;   /* of the tensor's largest gradient, or of 1 if that is less; 0: 1e-9 */
    uint32_t no_grad; /* LT_IN bits: float inputs that have no gradient (tables) */
    uint32_t no_upstream; /* LT_OUT bits: outputs that nothing differentiates through (lse) */
    size_t attr_bytes;    /* size of *attr; only rows with a `grad` function need it */
} lt_gradcheck_opts;
/**
 * Every gradient of the row in f64 against central differences of sum(out * dy), dy random. With a
 * backward kernel: buffers start as garbage, with and without the add bits, each input alone, each
 * upstream gradient missing in turn, and all of them. With a `grad` function: through a compiled
 * block of that one op.
 * in       [def->n_in] f64 (index inputs i32; f32 where the op fixes it, with a bit in no_grad)
 * errors   LT_ERR_NUMERIC with the op, the input, the element and both numbers
 */
lt_status lt_gradcheck(void *state, const lt_op_def *def, const lt_tensor *in, const void *attr,
                       lt_gradcheck_opts opts);
/**
 * How many gradients lt_gradcheck has compared in this program: a test that means to check must
 * see it grow.
 */
int64_t lt_gradcheck_count(void);
#endif
