// SPDX-License-Identifier: Apache-2.0
// What a block keeps for its backward, and what it computes again: forward nodes are cloned into
// the backward part right
// before their first reader.
#include "graph/differentiate.h"

typedef struct saver {
    lt_builder *b;
    lt_compiled *c;
    lt_policy policy;
    bool keep_attention, keep_scans;
    int64_t n_values; /* forward values */
    lt_val *again;    /* [n_values] the recomputed copy, or LT_NONE */
    lt_vec list;      /* the new backward instructions */
} saver;

static int32_t edge_out_of(const lt_compiled *c, lt_val root)
{
    for (int32_t i = 0; i < c->graph.n_edge_out; i++)
        if (lt_root(&c->graph, c->graph.edge_out[i]) == root)
            return i;
    return LT_NONE;
}

static bool keeps(const saver *s, const lt_op_def *def)
{
    if (def->flags & LT_OP_ALWAYS_SAVE)
        return true;
    switch (s->policy) {
    case LT_KEEP:
        return true;
    case LT_LEAN:
        return !(def->flags & LT_OP_CHEAP);
    case LT_FULL:
    case LT_N_POLICIES:
        break;
    }
    if (def->flags & LT_OP_RECURRENCE)
        return s->keep_scans;
    return s->keep_attention && (def->flags & LT_OP_MUST_SAVE);
}

// A value of the backward part with the shape of forward value v.
static lt_val copy_of(saver *s, lt_val v, lt_val alias)
{
    lt_value value = *lt_value_at(&s->c->graph, v);
    value.needs_grad = false;
    value.node = LT_NONE;
    const lt_val out = lt_builder_value(s->b, &value);
    if (out == LT_NONE)
        return LT_NONE;
    s->b->status = lt_slots_grow(s->c);
    if (s->b->status != LT_OK)
        return LT_NONE;
    lt_slot *slot = lt_slot_at(s->c, out);
    slot->shape_of = v;
    slot->alias = alias;
    slot->place = alias == LT_NONE ? LT_PLACE_WORK : LT_PLACE_NONE;
    s->again[v] = out;
    return out;
}

static lt_val at_hand(saver *s, lt_val v);

static lt_status run_again(saver *s, int32_t node)
{
    lt_instr x = lt_instr_of(&s->c->graph, node);
    x.again = true;
    for (int i = 0; i < x.def->n_in; i++)
        if (x.in[i] != LT_NONE)
            x.in[i] = at_hand(s, x.in[i]);
    for (int i = 0; i < x.def->n_out; i++)
        x.out[i] = copy_of(s, x.out[i], LT_NONE);
    LT_TRY(lt_builder_status(s->b));
    return lt_vec_push(&s->list, &x);
}

// The value to read in the backward part instead of forward value v.
static lt_val at_hand(saver *s, lt_val v)
{
    if (v >= s->n_values || s->b->status != LT_OK)
        return v;
    const lt_value value = *lt_value_at(&s->c->graph, v);
    if (value.kind == LT_VALUE_EDGE)
        s->c->reads_edge_in[value.index] = true;
    if (value.kind != LT_VALUE_NODE || value.node == LT_NONE || value.node >= s->c->n_forward)
        return v;
    if (s->again[v] != LT_NONE)
        return s->again[v];
    const lt_node node = *lt_node_at(&s->c->graph, value.node);
    if (node.def->flags & LT_OP_VIEW) {
        const lt_val base = at_hand(s, node.in[0]);
        return base == node.in[0] ? v : copy_of(s, v, base);
    }
    if (keeps(s, node.def)) {
        const int32_t edge = edge_out_of(s->c, v);
        if (edge != LT_NONE)
            s->c->reads_edge_out[edge] = true;
        else
            lt_slot_at(s->c, v)->place = LT_PLACE_SAVED;
        return v;
    }
    const lt_status st = run_again(s, value.node);
    if (s->b->status == LT_OK)
        s->b->status = st;
    return s->again[v];
}

// Reads become what is at hand; the rest of a backward kernel's forward values is not given to it.
static lt_status rewrite(saver *s, lt_instr x)
{
    const bool kernel = x.pass == LT_BACKWARD;
    for (int i = 0; i < x.def->n_in; i++) {
        if (kernel && !(x.def->backward_reads & LT_IN(i)) && !(x.def->index_in & LT_IN(i)))
            x.in[i] = LT_NONE;
        if (x.in[i] != LT_NONE)
            x.in[i] = at_hand(s, x.in[i]);
    }
    for (int i = 0; kernel && i < x.def->n_out; i++) {
        if (x.def->flags & LT_OP_YIELDS_IN_BACKWARD) {
            const int32_t edge = edge_out_of(s->c, x.out[i]);
            if (edge != LT_NONE)
                s->c->reads_edge_out[edge] = true;
        } else {
            x.out[i] = x.def->backward_reads & LT_OUT(i) ? at_hand(s, x.out[i]) : LT_NONE;
        }
    }
    LT_TRY(lt_builder_status(s->b));
    return lt_vec_push(&s->list, &x);
}

lt_status lt_choose_saved(lt_builder *b, const lt_compile_opts *opts, lt_compiled *c)
{
    // Values of the forward part: all that existed before differentiation. Their nodes come first.
    int64_t n = 0;
    for (int64_t v = 0; v < c->graph.values.n; v++) {
        const lt_value *value = lt_value_at(&c->graph, (lt_val)v);
        const bool later =
            value->kind == LT_VALUE_NODE && (value->node == LT_NONE || value->node >= c->n_forward);
        if (!later)
            n = v + 1;
    }
    saver s = {.b = b,
               .c = c,
               .n_values = n,
               .list = LT_VEC_OF(lt_instr),
               .policy = c->yields ? LT_FULL : opts->policy,
               .keep_scans = opts->keep_scans && !c->yields,
               .keep_attention = opts->keep_attention && !c->yields};
    void *again = NULL;
    LT_TRY(lt_mem_alloc(&again, (size_t)n * sizeof(lt_val), "recomputed values"));
    s.again = again;
    for (int64_t i = 0; i < n; i++)
        s.again[i] = LT_NONE;
    lt_status st = LT_OK;
    for (int64_t i = 0; st == LT_OK && i < c->backward.n; i++)
        st = rewrite(&s, LT_AT(&c->backward, lt_instr, i));
    lt_mem_free(s.again);
    lt_vec_deinit(&c->backward);
    c->backward = s.list;
    return st;
}
