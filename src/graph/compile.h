// SPDX-License-Identifier: Apache-2.0
// From a block's graph to a compiled block: differentiated, saved values chosen, memory laid out
// for a capacity.
#ifndef LT_GRAPH_COMPILE_H
#define LT_GRAPH_COMPILE_H

#include "base/text.h"
#include "graph/builder.h"

/** What a block keeps between its forward and its backward. Every policy gives the same bits. */
typedef enum lt_policy {
    LT_KEEP, /* all that the backward kernels read */
    LT_LEAN, /* only what is dear: matrix products and attention; CHEAP ops are run again */
    LT_FULL, /* only the block's inputs */
    LT_N_POLICIES
} lt_policy;
const char *lt_policy_name(lt_policy policy);

/**
 * Constructors of the ops that the compiler itself places; ops live in a later folder, so the
 * caller names them.
 */
typedef struct lt_helper_ops {
    lt_val (*add)(lt_builder *b, lt_val x, lt_val y); /* the sum node of gradients */
    lt_val (*copy)(lt_builder *b, lt_val x);          /* the same numbers in memory of their own */
} lt_helper_ops;

typedef struct lt_compile_opts {
    lt_builder_opts build;
    lt_policy policy;
    lt_backend backend;       /* whose kernels will run: what scratch they want */
    bool keep_attention;      /* policy full: outputs of MUST_SAVE ops are kept all the same */
    bool keep_scans;          /* the same for RECURRENCE ops, which keep_attention leaves out */
    bool train;               /* false: forward only */
    const bool *out_has_grad; /* [kind->n_out] whether BACKWARD is given that output's gradient */
    lt_helper_ops helpers;
} lt_compile_opts;

/** Where a value lives. */
typedef enum lt_place {
    LT_PLACE_NONE,      /* not used */
    LT_PLACE_EDGE_IN,   /* given: the producer's output */
    LT_PLACE_PARAM,     /* given */
    LT_PLACE_BATCH,     /* given */
    LT_PLACE_EDGE_OUT,  /* given: this block's output */
    LT_PLACE_WORK,      /* at an offset of the workspace of the running pass */
    LT_PLACE_SAVED,     /* at an offset of the block's saved area, alive from forward to backward */
    LT_PLACE_GRAD_OUT,  /* given: gradient of an output */
    LT_PLACE_GRAD_IN,   /* given: where the gradient of an input goes */
    LT_PLACE_GRAD_PARAM /* given: the parameter's gradient buffer */
} lt_place;

/** One value of the compiled block; its number is the value's number in the graph. */
typedef struct lt_slot {
    lt_place place;
    int32_t index;  /* edge, parameter or batch value */
    int64_t offset; /* WORK, SAVED */
    lt_val alias;   /* a view: the value whose memory this is, or LT_NONE */
    lt_val
        /* a gradient: the value whose real shape it has; LT_NONE: its own node's shape rule */
        shape_of;
} lt_slot;

/** One kernel call. */
typedef struct lt_instr {
    const lt_op_def *def;
    const void *attr; /* in the graph's node */
    lt_pass pass;
    int32_t node; /* its node in the graph; for BACKWARD the forward node it differentiates */
    bool again;   /* a recomputation */
    uint32_t
        /* LT_IN bits known here; a parameter's first writer of the step is decided at run time */
        add;
    lt_val in[LT_MAX_IN], out[LT_MAX_OUT], dout[LT_MAX_OUT], din[LT_MAX_IN];
    size_t scratch_bytes;
    int64_t scratch_offset;
} lt_instr;

typedef struct lt_compiled {
    lt_graph graph;    /* forward nodes first, then those of the backward part */
    int32_t n_forward; /* nodes of the forward part */
    lt_vec slots;      /* lt_slot, one per value */
    lt_vec forward;    /* lt_instr */
    lt_vec backward;   /* lt_instr */
    int64_t forward_bytes, backward_bytes; /* workspace peaks */
    int64_t saved_bytes;
    bool reads_edge_in[LT_MAX_IN];   /* BACKWARD looks at that input */
    bool reads_edge_out[LT_MAX_OUT]; /* BACKWARD looks at that output (or, for a loss, writes it) */
    bool yields;                     /* a loss block: training has no FORWARD of it */
    bool grad_edge_in[LT_MAX_IN];    /* BACKWARD writes that input's gradient */
    bool *grad_param;                /* [n_params] BACKWARD writes that gradient */
    int64_t forward_flops, backward_flops, again_flops; /* at capacity */
} lt_compiled;

/** errors   those of building; LT_ERR_UNSUPPORTED for an op without a gradient */
LT_NODISCARD lt_status lt_compile(const lt_compile_opts *opts, lt_compiled **out);
void lt_compiled_destroy(lt_compiled *c);
/** Model FLOPs of one kernel call at capacity. */
int64_t lt_instr_flops(const lt_compiled *c, const lt_instr *x);
/** One line per instruction with places and bytes. */
LT_NODISCARD lt_status lt_compiled_print(const lt_compiled *c, lt_buf *out);

/**
 * Who looks on: `fn` is called after a kernel whose output has a name (lt_name), on device memory.
 */
typedef struct lt_tap {
    lt_status (*fn)(void *ctx, const char *block, const char *value, const lt_tensor *t);
    void *ctx;
} lt_tap;

/** What a pass of a compiled block runs on. Tensors carry real shapes and memory. */
typedef struct lt_bindings {
    const char *block_name;
    lt_device *device;
    lt_stream *stream;
    const lt_tensor *batch;      /* [LT_N_BATCH_VALUES] */
    const lt_tensor *param;      /* [n_params] in the compute dtype */
    const lt_tensor *edge_in;    /* [n_in] */
    void *const *edge_out;       /* [n_out] memory for the outputs */
    const lt_tensor *grad_out;   /* [n_out] data NULL where none is given */
    void *const *grad_in;        /* [n_in] NULL where none is wanted */
    const lt_tensor *grad_param; /* [n_params] data NULL for frozen ones */
    const bool *grad_param_add;  /* [n_params] add to what is there (a later writer of the step) */
    unsigned char *work, *saved;
    const lt_tap *tap; /* may be NULL */
    /* NULL: nobody measures. Right before every kernel, and right after it (on a GPU: after its
       launch) */
    void (*around)(void *ctx, const lt_op_args *a, lt_pass pass, bool after);
    void *around_ctx;
} lt_bindings;

/**
 * Run a pass. out_shapes (may be NULL) [n_out]: the outputs' real tensors.
 * errors   LT_ERR_SHAPE when a real shape does not fit the capacity; a kernel's own, with block and
 *          op
 */
LT_NODISCARD lt_status lt_compiled_run(const lt_compiled *c, lt_pass pass, const lt_bindings *b,
                                       lt_tensor *out_shapes);
#endif
