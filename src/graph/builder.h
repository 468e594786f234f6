// SPDX-License-Identifier: Apache-2.0
// Building a block's graph: op constructors take a builder and give value ids back. The first error
// sticks.
#ifndef LT_GRAPH_BUILDER_H
#define LT_GRAPH_BUILDER_H

#include "base/memory.h"
#include "graph/batch.h"
#include "graph/op_def.h"
#include <stdalign.h>

typedef enum lt_init {
    LT_INIT_NORMAL,
    LT_INIT_ZERO,
    LT_INIT_ONE,
    LT_INIT_VALUE,
    LT_INIT_LOG_UNIFORM
} lt_init; /* NORMAL: mean 0, initializer_range; LOG_UNIFORM: ln of [0.01, value] */

/** One parameter of a block kind. */
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order of reading a row
typedef struct lt_param_spec {
    const char *name; /* below the block's own path: "self_attn.q_proj.weight" */
    int32_t rank;
    int64_t dim[LT_MAX_DIMS];
    lt_init init;
    double value; /* of LT_INIT_VALUE and LT_INIT_LOG_UNIFORM */
} lt_param_spec;

/**
 * One repeated piece of a model. All blocks of a kind share compiled graphs; only their parameters
 * differ.
 */
typedef struct lt_block_kind {
    const char *name;              /* "decoder_layer" */
    int32_t n_params, n_in, n_out; /* n_in: edges from other blocks */
    const lt_param_spec *params;
    const void *config; /* what `build` reads; the model's */
    /* in[n_in] edges, out[n_out] to be set; errors stick in the builder */
    lt_status (*build)(lt_builder *b, const void *config, const lt_val *in, lt_val *out);
} lt_block_kind;

typedef enum lt_value_kind {
    LT_VALUE_EDGE,
    LT_VALUE_PARAM,
    LT_VALUE_BATCH,
    LT_VALUE_NODE
} lt_value_kind;

typedef struct lt_value {
    lt_value_kind kind;
    int32_t index;    /* edge number, parameter number, batch value, or output number of its node */
    int32_t node;     /* the producing node (LT_VALUE_NODE) */
    bool needs_grad;  /* something trainable, or an edge that needs a gradient, lies below it */
    lt_tensor tensor; /* capacity shape, no data */
    const char *name; /* lt_name, or NULL */
} lt_value;

struct lt_node {
    const lt_op_def *def;
    lt_val in[LT_MAX_IN], out[LT_MAX_OUT];
    alignas(8) unsigned char attr[LT_ATTR_BYTES];
};

/** A block's forward graph at one capacity; nodes and values in order of creation. */
typedef struct lt_graph {
    lt_vec nodes;  /* lt_node */
    lt_vec values; /* lt_value */
    lt_val edge_out[LT_MAX_OUT];
    int32_t n_edge_in, n_edge_out;
} lt_graph;

typedef struct lt_builder_opts {
    const lt_block_kind *kind;
    const char *block_name; /* for messages: "model.language_model.layers.0" */
    lt_dtype compute; /* dtype of activations and parameters: f32, bf16, or f64 for the reference */
    lt_extents capacity;
    int64_t pixel_width;
    const lt_tensor *edge_in;    /* [kind->n_in] capacity shapes */
    const bool *edge_needs_grad; /* [kind->n_in] */
    const bool *param_trainable; /* [kind->n_params] */
} lt_builder_opts;

/**
 * Run kind->build. graph: start from {0}, end with lt_graph_deinit. errors: the builder's first,
 * with block, op and shapes
 */
LT_NODISCARD lt_status lt_graph_build(const lt_builder_opts *opts, lt_graph *graph);
void lt_graph_deinit(lt_graph *graph);

/* ---- for op constructors and model code ---- */

/**
 * Append a node. in: up to def->n_in values (LT_NONE where optional); attr: up to LT_ATTR_BYTES,
 * zero-padded copy.
 * Returns out[0]; all outputs through `outs` [def->n_out] (may be NULL). LT_NONE once the builder
 * has failed.
 */
lt_val lt_op_apply(lt_builder *b, const lt_op_def *def, const lt_val *in, int n_in,
                   const void *attr, size_t attr_bytes, lt_val *outs);
/** The parameter of that name in the kind's list; a name that is not there is an error. */
lt_val lt_param_of(lt_builder *b, const char *name);
/**
 * The parameter path + suffix ("self_attn.q_proj", ".bias"), or LT_NONE without an error when the
 * kind has none.
 */
lt_val lt_param_if(lt_builder *b, const char *path, const char *suffix);
lt_val lt_batch_of(lt_builder *b, lt_batch_value which);
/** Names a value, so that a tap can dump it. text must outlive the graph. */
lt_val lt_name(lt_builder *b, lt_val v, const char *text);
/** Shape and dtype of a value (capacity). An empty tensor after an error. */
lt_tensor lt_value_tensor(const lt_builder *b, lt_val v);
bool lt_value_needs_grad(const lt_builder *b, lt_val v);
/** dtype of activations: f32, bf16 or f64. */
lt_dtype lt_builder_compute(const lt_builder *b);
lt_status lt_builder_status(const lt_builder *b);
/** Make the builder fail; the first failure sticks. Returns LT_NONE. */
lt_val lt_builder_fail(lt_builder *b, lt_status code, const char *fmt, ...) LT_PRINTF(3, 4);
#endif
