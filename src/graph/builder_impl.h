// SPDX-License-Identifier: Apache-2.0
// The builder's inside, shared by builder.c and differentiate.c.
#ifndef LT_GRAPH_BUILDER_IMPL_H
#define LT_GRAPH_BUILDER_IMPL_H

#include "graph/builder.h"

struct lt_builder {
    const lt_builder_opts *opts;
    lt_graph *graph;
    lt_status status; /* the first failure */
    bool
        /* nodes appended now belong to the backward part: nothing in them needs a gradient */
        backward;
    lt_val batch[LT_N_BATCH_VALUES];
    lt_val *param; /* [kind->n_params] */
};

lt_status lt_builder_init(lt_builder *b, const lt_builder_opts *opts, lt_graph *graph);
void lt_builder_deinit(lt_builder *b);
/** Edges, build function, outputs: what lt_graph_build does on an open builder. */
lt_status lt_builder_run(lt_builder *b);
/** A new value; LT_NONE after a failure. */
lt_val lt_builder_value(lt_builder *b, const lt_value *value);

static inline lt_node *lt_node_at(const lt_graph *g, int64_t i)
{
    return &LT_AT(&g->nodes, lt_node, i);
}
static inline lt_value *lt_value_at(const lt_graph *g, lt_val v)
{
    return &LT_AT(&g->values, lt_value, v);
}
#endif
