// SPDX-License-Identifier: Apache-2.0
// A row of the op table, and what a kernel is called with.
#ifndef LT_GRAPH_OP_DEF_H
#define LT_GRAPH_OP_DEF_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LT_MAX_IN = 8, LT_MAX_OUT = 4, LT_ATTR_BYTES = 64 };

typedef int32_t lt_val; /* a value in a graph; LT_NONE: not given */
#define LT_NONE (-1)

typedef struct lt_builder lt_builder;
typedef struct lt_node lt_node;
typedef struct lt_op_def lt_op_def;
typedef enum lt_pass { LT_FORWARD, LT_BACKWARD } lt_pass;

/** Where a kernel runs. */
typedef struct lt_run {
    lt_device *device; /* its pool is the CPU kernels' pool */
    lt_stream *stream; /* NULL on the CPU */
    void *scratch;     /* as many bytes as `scratch` of the row asked for; 256-aligned */
    size_t scratch_bytes;
} lt_run;

/**
 * What infer, scratch, flops, forward and backward are called with.
 * An input or gradient that is not given is NULL. Tensors are contiguous. In `infer` only dtypes,
 * shapes and attr may be read.
 * Index tensors have their host twin in tensor->host: kernels take counts from there and never wait
 * for the device.
 * A parameter's gradient may have another dtype than the parameter (f32 for bf16): look at
 * din[i]->dtype.
 */
typedef struct lt_op_args {
    const lt_op_def *def;
    const void *attr;
    const lt_tensor *in[LT_MAX_IN];
    /* in backward: the saved outputs, NULL when not in backward_reads */
    lt_tensor *out[LT_MAX_OUT];
    const lt_tensor *dout[LT_MAX_OUT]; /* NULL: nobody gave that output a gradient (all zeros) */
    lt_tensor *din[LT_MAX_IN];         /* NULL: nobody asks */
    uint32_t add;                      /* bit i: add to din[i] instead of overwriting it */
    lt_backend backend;                /* in `scratch`: the column whose kernel will run */
    const lt_run *run;
} lt_op_args;

typedef lt_status (*lt_kernel)(const lt_op_args *a);

#define LT_IN(i) (1U << (i))
#define LT_OUT(i) (1U << (16 + (i)))
#define LT_DTYPE_BIT(t) (1U << (t))
#define LT_FLOATS (LT_DTYPE_BIT(LT_F64) | LT_DTYPE_BIT(LT_F32) | LT_DTYPE_BIT(LT_BF16))
#define LT_INDEX LT_DTYPE_BIT(LT_I32)

typedef enum lt_op_flags {
    LT_OP_CHEAP = 1,     /* recompute rather than save (policy lean) */
    LT_OP_VIEW = 2,      /* out[0] is in[0]'s memory under another shape; never launched */
    LT_OP_MUST_SAVE = 4, /* attention and the like: what skip_flash_attn_recompute keeps */
    LT_OP_IN_PLACE = 8,  /* out[0] may share memory with in[0] when nobody reads that later */
    LT_OP_YIELDS_IN_BACKWARD =
        16, /* the loss: backward also writes out[0]; training has no forward of it */
    LT_OP_RECURRENCE = 64,  /* linear attention's: MUST_SAVE, but what skip_gdn_recompute keeps */
    LT_OP_ALWAYS_SAVE = 32, /* a decision (routing): kept under every policy, never taken again */
} lt_op_flags;

struct lt_op_def {
    const char *name;
    int n_in, n_out;   /* at most; inputs may be LT_NONE where the op says so */
    uint32_t dtypes;   /* LT_DTYPE_BIT set allowed for in[0] */
    uint32_t index_in; /* LT_IN bits: index inputs (i32), which never have a gradient */
    lt_status (*infer)(const lt_op_args *a);
    lt_kernel forward[LT_N_BACKENDS],
        backward[LT_N_BACKENDS]; /* a missing CPU entry falls back to REF */
    uint32_t backward_reads;     /* LT_IN | LT_OUT bits that the backward kernel looks at */
    /* instead of backward: the gradient built from other ops. dout[i] may be LT_NONE; set din[i]
       where it needs one */
    lt_status (*grad)(lt_builder *b, const lt_node *node, const lt_val *dout, lt_val *din);
    size_t (*scratch)(
        const lt_op_args *a,
        lt_pass pass); /* NULL: none. From shapes alone; must not shrink as shapes grow */
    int64_t (*flops)(
        const lt_op_args *a); /* forward, model FLOPs (multiply and add apart); NULL: not counted */
    uint32_t flags;
};

/** The kernel of a column, with the CPU's fall-back to REF; NULL when there is none. */
lt_kernel lt_op_kernel(const lt_op_def *def, lt_backend backend, lt_pass pass);

#ifdef __cplusplus
}
#endif
#endif
