// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of a block's graph: one backward kernel (or a few nodes) per forward
// node. Where several gradients meet, a kernel adds to what the one before it wrote, or a sum node
// does, always in the same order.
#include "graph/differentiate.h"

lt_instr lt_instr_of(const lt_graph *g, int32_t node)
{
    const lt_node *n = lt_node_at(g, node);
    lt_instr x = {.def = n->def, .node = node, .pass = LT_FORWARD};
    for (int i = 0; i < LT_MAX_IN; i++) {
        x.in[i] = n->in[i];
        x.din[i] = LT_NONE;
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        x.out[i] = n->out[i];
        x.dout[i] = LT_NONE;
    }
    return x;
}

lt_val lt_root(const lt_graph *g, lt_val v)
{
    while (v != LT_NONE && lt_value_at(g, v)->kind == LT_VALUE_NODE &&
           lt_value_at(g, v)->node != LT_NONE) {
        const lt_node *node = lt_node_at(g, lt_value_at(g, v)->node);
        if (!(node->def->flags & LT_OP_VIEW))
            break;
        v = node->in[0];
    }
    return v;
}

lt_status lt_slots_grow(lt_compiled *c)
{
    const int64_t old = c->slots.n;
    LT_TRY(lt_vec_resize(&c->slots, c->graph.values.n));
    for (int64_t i = old; i < c->slots.n; i++)
        LT_AT(&c->slots, lt_slot, i) =
            (lt_slot){.alias = LT_NONE, .shape_of = LT_NONE, .offset = -1};
    return LT_OK;
}

// The gradient gathered so far for each forward value.
typedef struct gradients {
    lt_builder *b;
    lt_compiled *c;
    const lt_compile_opts *opts;
    lt_val *sum; /* [forward values] */
    bool *own;   /* [forward values] that sum's memory holds nothing else, and a kernel made it */
    int64_t n;
} gradients;

static lt_status push_new_nodes(gradients *g, int64_t from)
{
    for (int64_t i = from; i < g->c->graph.nodes.n; i++) {
        const lt_instr x = lt_instr_of(&g->c->graph, lt_int(i));
        if (!(x.def->flags & LT_OP_VIEW))
            LT_TRY(lt_vec_push(&g->c->backward, &x));
    }
    return LT_OK;
}

// A value of the backward part that has the shape of forward value v.
static lt_val gradient_value(gradients *g, lt_val v, lt_place place, int32_t index)
{
    const lt_value *of = lt_value_at(&g->c->graph, v);
    lt_tensor t = of->tensor;
    if (place == LT_PLACE_GRAD_PARAM && t.dtype != LT_F64)
        t.dtype = LT_F32;
    const lt_val out = lt_builder_value(
        g->b, &(lt_value){.kind = LT_VALUE_NODE, .index = index, .node = LT_NONE, .tensor = t});
    if (out == LT_NONE)
        return LT_NONE;
    g->b->status = lt_slots_grow(g->c);
    if (g->b->status != LT_OK)
        return LT_NONE;
    lt_slot *s = lt_slot_at(g->c, out);
    s->place = place;
    s->index = index;
    s->shape_of = v;
    return out;
}

// own: a kernel writes d, for v alone.
static lt_status add_contribution(gradients *g, lt_val v, lt_val d, bool own)
{
    if (g->sum[v] == LT_NONE) {
        g->sum[v] = d;
        g->own[v] = own;
        return LT_OK;
    }
    g->own[v] = false;
    const int64_t from = g->c->graph.nodes.n;
    g->sum[v] = g->opts->helpers.add(g->b, g->sum[v], d);
    LT_TRY(lt_builder_status(g->b));
    return push_new_nodes(g, from);
}

// Instead of a kernel: the row's own function appends nodes.
static lt_status by_nodes(gradients *g, int32_t node_number, const lt_val *dout)
{
    const lt_node node = *lt_node_at(&g->c->graph, node_number); // a copy: the array may move
    lt_val din[LT_MAX_IN];
    for (int i = 0; i < LT_MAX_IN; i++)
        din[i] = LT_NONE;
    const int64_t from = g->c->graph.nodes.n;
    LT_TRY(node.def->grad(g->b, &node, dout, din));
    LT_TRY(lt_builder_status(g->b));
    LT_TRY(lt_slots_grow(g->c));
    LT_TRY(push_new_nodes(g, from));
    for (int i = 0; i < node.def->n_in; i++) {
        if (node.in[i] == LT_NONE || din[i] == LT_NONE || !lt_value_needs_grad(g->b, node.in[i]))
            continue;
        if (lt_value_at(&g->c->graph, node.in[i])->kind == LT_VALUE_PARAM) {
            return LT_FAIL(
                LT_ERR_INTERNAL,
                "%s builds a parameter's gradient from nodes; it needs a backward kernel",
                node.def->name);
        }
        LT_TRY(add_contribution(g, node.in[i], din[i], false));
    }
    return LT_OK;
}

// Where input i's gradient goes: on top of what another kernel has left for that value, if it can;
// a sum node would read and write all of it again.
static void place_gradient(gradients *g, lt_instr *x, int i)
{
    const lt_val v = x->in[i];
    bool there = g->sum[v] != LT_NONE && g->own[v];
    for (int k = 0; k < i; k++)
        there = there && x->in[k] != v; // one kernel writes it once
    for (int k = 0; k < LT_MAX_OUT; k++)
        there = there && x->dout[k] != g->sum[v];
    if (there) {
        x->din[i] = g->sum[v];
        x->add |= LT_IN(i);
    } else {
        x->din[i] = gradient_value(g, v, LT_PLACE_WORK, 0);
    }
}

static lt_status by_kernel(gradients *g, int32_t node_number, const lt_val *dout)
{
    lt_instr x = lt_instr_of(&g->c->graph, node_number);
    x.pass = LT_BACKWARD;
    for (int i = 0; i < LT_MAX_OUT; i++)
        x.dout[i] = dout[i];
    bool any = false;
    for (int i = 0; i < x.def->n_in; i++) {
        const lt_val v = x.in[i];
        if (v == LT_NONE || (x.def->index_in & LT_IN(i)) || !lt_value_needs_grad(g->b, v))
            continue;
        const lt_value *value = lt_value_at(&g->c->graph, v);
        if (value->kind == LT_VALUE_PARAM) {
            const int32_t number = value->index;
            x.din[i] = gradient_value(g, v, LT_PLACE_GRAD_PARAM, number);
            if (g->c->grad_param[number])
                x.add |= LT_IN(i); // a second use inside this block
            g->c->grad_param[number] = true;
        } else {
            place_gradient(g, &x, i);
        }
        any = true;
    }
    LT_TRY(lt_builder_status(g->b));
    if (!any && !(x.def->flags & LT_OP_YIELDS_IN_BACKWARD))
        return LT_OK;
    bool kernel = false;
    for (int i = 0; i < LT_N_BACKENDS; i++)
        kernel = kernel || x.def->backward[i] != NULL;
    if (!kernel)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s has no gradient", x.def->name);
    LT_TRY(lt_vec_push(&g->c->backward, &x));
    for (int i = 0; i < x.def->n_in; i++) {
        if (x.din[i] != LT_NONE && x.din[i] != g->sum[x.in[i]] &&
            lt_value_at(&g->c->graph, x.in[i])->kind != LT_VALUE_PARAM)
            LT_TRY(add_contribution(g, x.in[i], x.din[i], true));
    }
    return LT_OK;
}

static lt_status one_node(gradients *g, int32_t number)
{
    const lt_node *node = lt_node_at(&g->c->graph, number);
    const bool yields = node->def->flags & LT_OP_YIELDS_IN_BACKWARD;
    lt_val dout[LT_MAX_OUT];
    bool any = yields, wanted = yields;
    for (int i = 0; i < LT_MAX_OUT; i++) {
        dout[i] = i < node->def->n_out ? g->sum[node->out[i]] : LT_NONE;
        any = any || dout[i] != LT_NONE;
        wanted = wanted || (i < node->def->n_out && lt_value_needs_grad(g->b, node->out[i]));
    }
    if (!any || !wanted)
        return LT_OK;
    g->c->yields = g->c->yields || yields;
    return node->def->grad ? by_nodes(g, number, dout) : by_kernel(g, number, dout);
}

// The gradient of an input must end in memory of its own: it is produced there, or copied.
static lt_status place_input_gradients(gradients *g)
{
    for (int64_t v = 0; v < g->n; v++) {
        const lt_value value = *lt_value_at(&g->c->graph, (lt_val)v);
        if (value.kind != LT_VALUE_EDGE || !value.needs_grad)
            continue;
        g->c->grad_edge_in[value.index] = true;
        lt_val d = g->sum[v];
        lt_slot *s = d == LT_NONE ? NULL : lt_slot_at(g->c, d);
        const bool own = s && s->place != LT_PLACE_GRAD_OUT && s->place != LT_PLACE_GRAD_IN &&
                         lt_root(&g->c->graph, d) == d;
        if (d == LT_NONE) {
            return LT_FAIL(LT_ERR_INTERNAL,
                           "block %s: input %d needs a gradient, but nothing depends on it",
                           g->opts->build.block_name, value.index);
        }
        if (!own) {
            const int64_t from = g->c->graph.nodes.n;
            d = g->opts->helpers.copy(g->b, d);
            LT_TRY(lt_builder_status(g->b));
            LT_TRY(lt_slots_grow(g->c));
            LT_TRY(push_new_nodes(g, from));
            s = lt_slot_at(g->c, d);
        }
        s->place = LT_PLACE_GRAD_IN;
        s->index = value.index;
    }
    return LT_OK;
}

static lt_status run(gradients *g)
{
    lt_compiled *c = g->c;
    for (int32_t i = 0; i < c->graph.n_edge_out; i++) {
        const lt_val v = c->graph.edge_out[i];
        if (!g->opts->out_has_grad[i] || !lt_value_needs_grad(g->b, v))
            continue;
        const lt_val d = gradient_value(g, v, LT_PLACE_GRAD_OUT, i);
        LT_TRY(lt_builder_status(g->b));
        LT_TRY(add_contribution(g, v, d, false));
    }
    for (int32_t i = c->n_forward - 1; i >= 0; i--)
        LT_TRY(one_node(g, i));
    LT_TRY(lt_slots_grow(c));
    return place_input_gradients(g);
}

lt_status lt_differentiate(lt_builder *b, const lt_compile_opts *opts, lt_compiled *c)
{
    gradients g = {.b = b, .c = c, .opts = opts, .n = c->graph.values.n};
    LT_TRY(lt_slots_grow(c));
    void *sum = NULL;
    LT_TRY(
        lt_mem_alloc(&sum, (size_t)g.n * (sizeof(lt_val) + sizeof(bool)), "gradients of a block"));
    g.sum = sum;
    g.own = (bool *)(g.sum + g.n);
    for (int64_t i = 0; i < g.n; i++)
        g.sum[i] = LT_NONE;
    b->backward = true;
    const lt_status st = run(&g);
    lt_mem_free(g.sum);
    return st;
}
