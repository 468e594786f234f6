// SPDX-License-Identifier: Apache-2.0
// Where every value of a compiled block lives: given memory, the saved area, or an offset of a
// pass's workspace.
#include "graph/differentiate.h"
#include "graph/pack.h"

#include <string.h>

static lt_val memory_of(const lt_compiled *c, lt_val v)
{
    while (v != LT_NONE && lt_slot_at(c, v)->alias != LT_NONE)
        v = lt_slot_at(c, v)->alias;
    return v;
}

static size_t bytes_of(const lt_compiled *c, lt_val v)
{
    return lt_tensor_bytes(&lt_value_at(&c->graph, v)->tensor);
}

static lt_status place_given(lt_compiled *c)
{
    for (int64_t v = 0; v < c->graph.values.n; v++) {
        const lt_value *value = lt_value_at(&c->graph, (lt_val)v);
        lt_slot *s = lt_slot_at(c, (lt_val)v);
        static const lt_place places[] = {[LT_VALUE_EDGE] = LT_PLACE_EDGE_IN,
                                          [LT_VALUE_PARAM] = LT_PLACE_PARAM,
                                          [LT_VALUE_BATCH] = LT_PLACE_BATCH};
        if (value->kind == LT_VALUE_NODE)
            continue;
        s->place = places[value->kind];
        s->index = value->index;
    }
    for (int32_t i = 0; i < c->graph.n_edge_out; i++) {
        lt_slot *s = lt_slot_at(c, lt_root(&c->graph, c->graph.edge_out[i]));
        if (s->place == LT_PLACE_EDGE_OUT)
            return LT_FAIL(LT_ERR_INTERNAL, "outputs %d and %d of a block are one value", s->index,
                           i);
        s->place = LT_PLACE_EDGE_OUT;
        s->index = i;
    }
    return LT_OK;
}

static void set_views(lt_compiled *c)
{
    for (int64_t i = 0; i < c->graph.nodes.n; i++) {
        const lt_node *node = lt_node_at(&c->graph, i);
        if (node->def->flags & LT_OP_VIEW)
            lt_slot_at(c, node->out[0])->alias = node->in[0];
    }
}

// First and last instruction of a list that touches each value's memory.
typedef struct lifetimes {
    int32_t *begin, *end; /* [values]; begin -1: not made in this list */
} lifetimes;

static void touch(const lt_compiled *c, lifetimes *l, lt_val v, int32_t at, bool made)
{
    const lt_val m = memory_of(c, v);
    if (m == LT_NONE)
        return;
    if (made && l->begin[m] < 0)
        l->begin[m] = at;
    l->end[m] = at;
}

static void measure(const lt_compiled *c, const lt_vec *list, lifetimes *l)
{
    for (int64_t v = 0; v < c->graph.values.n; v++)
        l->begin[v] = l->end[v] = -1;
    for (int64_t k = 0; k < list->n; k++) {
        const lt_instr *x = &LT_AT(list, lt_instr, k);
        for (int i = 0; i < LT_MAX_IN; i++) {
            touch(c, l, x->in[i], lt_int(k), false);
            touch(c, l, x->din[i], lt_int(k), true);
        }
        for (int i = 0; i < LT_MAX_OUT; i++) {
            touch(c, l, x->dout[i], lt_int(k), false);
            touch(c, l, x->out[i], lt_int(k), x->pass == LT_FORWARD);
        }
    }
}

static bool is_work(const lt_compiled *c, lt_val v)
{
    const lt_place p = lt_slot_at(c, v)->place;
    return p == LT_PLACE_NONE || p == LT_PLACE_WORK;
}

// out[0] may take over the memory of in[0] when this instruction is its last reader.
static void share_in_place(lt_compiled *c, const lt_vec *list, lifetimes *l)
{
    for (int64_t k = 0; k < list->n; k++) {
        const lt_instr *x = &LT_AT(list, lt_instr, k);
        if (!(x->def->flags & LT_OP_IN_PLACE) || x->pass != LT_FORWARD)
            continue;
        const lt_val from = memory_of(c, x->in[0]);
        if (from == LT_NONE || !is_work(c, from) || l->begin[from] < 0 || l->end[from] != k)
            continue;
        if (!is_work(c, x->out[0]) || bytes_of(c, from) != bytes_of(c, x->out[0]))
            continue;
        bool shared = false;
        for (int i = 1; i < x->def->n_in; i++)
            shared = shared || (x->in[i] != LT_NONE && memory_of(c, x->in[i]) == from);
        if (shared)
            continue;
        lt_slot_at(c, x->out[0])->alias = from;
        l->end[from] = l->end[x->out[0]];
    }
}

// An item per piece of memory made in the list, then one per instruction's scratch.
static lt_status pack_list(lt_compiled *c, lt_vec *list, lifetimes *l, int64_t *peak)
{
    const int64_t n_values = c->graph.values.n, n = n_values + list->n;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * sizeof(lt_pack_item), "workspace layout"));
    lt_pack_item *items = memory;
    for (int64_t v = 0; v < n_values; v++) {
        const lt_val m = (lt_val)v;
        if (l->begin[v] >= 0 && lt_slot_at(c, m)->alias == LT_NONE && is_work(c, m))
            items[v] = (lt_pack_item){(int64_t)bytes_of(c, m), l->begin[v], l->end[v], 0};
    }
    for (int64_t k = 0; k < list->n; k++)
        items[n_values + k] = (lt_pack_item){(int64_t)LT_AT(list, lt_instr, k).scratch_bytes,
                                             lt_int(k), lt_int(k), 0};
    const lt_status st = lt_pack(items, n, peak);
    for (int64_t v = 0; st == LT_OK && v < n_values; v++) {
        lt_slot *s = lt_slot_at(c, (lt_val)v);
        if (l->begin[v] >= 0 && s->alias == LT_NONE && is_work(c, (lt_val)v)) {
            s->place = LT_PLACE_WORK;
            s->offset = items[v].offset;
        }
    }
    for (int64_t k = 0; st == LT_OK && k < list->n; k++)
        LT_AT(list, lt_instr, k).scratch_offset = items[n_values + k].offset;
    lt_mem_free(memory);
    return st;
}

static void place_saved(lt_compiled *c)
{
    for (int64_t v = 0; v < c->graph.values.n; v++) {
        lt_slot *s = lt_slot_at(c, (lt_val)v);
        if (s->place != LT_PLACE_SAVED)
            continue;
        s->offset = c->saved_bytes;
        c->saved_bytes += lt_round_up((int64_t)bytes_of(c, (lt_val)v), LT_ALIGN);
    }
}

static size_t scratch_of(const lt_compiled *c, const lt_instr *x, lt_backend backend)
{
    if (!x->def->scratch)
        return 0;
    lt_tensor out[LT_MAX_OUT], din[LT_MAX_IN];
    lt_op_args a = {.def = x->def, .attr = x->attr, .add = x->add, .backend = backend};
    const lt_node *node = lt_node_at(&c->graph, x->node);
    for (int i = 0; i < LT_MAX_IN; i++) {
        if (node->in[i] != LT_NONE)
            a.in[i] = &lt_value_at(&c->graph, node->in[i])->tensor;
        if (x->din[i] != LT_NONE) {
            din[i] = lt_value_at(&c->graph, x->din[i])->tensor;
            a.din[i] = &din[i];
        }
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        if (node->out[i] != LT_NONE) {
            out[i] = lt_value_at(&c->graph, node->out[i])->tensor;
            a.out[i] = &out[i];
        }
    }
    return x->def->scratch(&a, x->pass);
}

static void finish_instrs(lt_compiled *c, lt_vec *list, lt_backend backend)
{
    for (int64_t k = 0; k < list->n; k++) {
        lt_instr *x = &LT_AT(list, lt_instr, k);
        x->attr = lt_node_at(&c->graph, x->node)->attr;
        x->scratch_bytes = scratch_of(c, x, backend);
    }
}

lt_status lt_lay_out(const lt_compile_opts *opts, lt_compiled *c)
{
    LT_TRY(lt_slots_grow(c));
    set_views(c);
    LT_TRY(place_given(c));
    finish_instrs(c, &c->forward, opts->backend);
    finish_instrs(c, &c->backward, opts->backend);
    place_saved(c);
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)c->graph.values.n * 2 * sizeof(int32_t), "lifetimes"));
    lifetimes l = {.begin = memory, .end = (int32_t *)memory + c->graph.values.n};
    measure(c, &c->forward, &l);
    share_in_place(c, &c->forward, &l);
    lt_status st = pack_list(c, &c->forward, &l, &c->forward_bytes);
    if (st == LT_OK && opts->train) {
        measure(c, &c->backward, &l);
        share_in_place(c, &c->backward, &l);
        st = pack_list(c, &c->backward, &l, &c->backward_bytes);
    }
    lt_mem_free(memory);
    return st;
}
