// SPDX-License-Identifier: Apache-2.0
// The backward half of a compiled block, before values are saved or recomputed.
#ifndef LT_GRAPH_DIFFERENTIATE_H
#define LT_GRAPH_DIFFERENTIATE_H

#include "graph/builder_impl.h"
#include "graph/compile.h"

/**
 * c->graph holds the forward graph of b. Appends gradient values and nodes, fills c->backward and
 * the slots of gradients.
 */
LT_NODISCARD lt_status lt_differentiate(lt_builder *b, const lt_compile_opts *opts, lt_compiled *c);
/** A forward instruction of a node. */
lt_instr lt_instr_of(const lt_graph *g, int32_t node);
/** The value whose memory v is (v itself unless it is a view). */
lt_val lt_root(const lt_graph *g, lt_val v);
/** c->slots grows to one per value of the graph; new ones are LT_PLACE_NONE. */
LT_NODISCARD lt_status lt_slots_grow(lt_compiled *c);
static inline lt_slot *lt_slot_at(const lt_compiled *c, lt_val v)
{
    return &LT_AT(&c->slots, lt_slot, v);
}
/** Choose what is saved, put recomputations into c->backward (src/graph/save.c). */
LT_NODISCARD lt_status lt_choose_saved(lt_builder *b, const lt_compile_opts *opts, lt_compiled *c);
/** Give every value its place and offset (src/graph/layout.c). */
LT_NODISCARD lt_status lt_lay_out(const lt_compile_opts *opts, lt_compiled *c);
#endif
