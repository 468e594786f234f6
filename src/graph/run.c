// SPDX-License-Identifier: Apache-2.0
// Running a pass of a compiled block on real sizes: shape rules again, addresses from the layout,
// then kernel after kernel.
#include "graph/compile.h"
#include "graph/differentiate.h"

#include <string.h>

// The tensors of all values, for one run.
typedef struct frame {
    const lt_compiled *c;
    const lt_bindings *b;
    lt_tensor *t; /* [values] */
    bool *known;  /* [values] the shape is set */
} frame;

static lt_status check_fits(const frame *f, lt_val v)
{
    const lt_value *value = lt_value_at(&f->c->graph, v);
    if (lt_tensor_bytes(&f->t[v]) <= lt_tensor_bytes(&value->tensor))
        return LT_OK;
    return LT_FAIL(LT_ERR_SHAPE, "block %s: value %d is %s, more than the plan's %s",
                   f->b->block_name, v, lt_shape_print(&f->t[v]).s,
                   lt_shape_print(&value->tensor).s);
}

static lt_status given_shapes(frame *f)
{
    for (int64_t v = 0; v < f->c->graph.values.n; v++) {
        const lt_value *value = lt_value_at(&f->c->graph, (lt_val)v);
        if (value->kind == LT_VALUE_NODE)
            continue;
        const lt_tensor *from = value->kind == LT_VALUE_EDGE    ? &f->b->edge_in[value->index]
                                : value->kind == LT_VALUE_PARAM ? &f->b->param[value->index]
                                                                : &f->b->batch[value->index];
        f->t[v] = *from;
        f->known[v] = true;
        LT_TRY(check_fits(f, (lt_val)v));
    }
    return LT_OK;
}

// A node's shape rule, once its inputs are known. Gradients get their shape from the value that
// they belong to.
static lt_status node_shapes(frame *f, int32_t number)
{
    const lt_node *node = lt_node_at(&f->c->graph, number);
    lt_op_args a = {.def = node->def, .attr = node->attr};
    for (int i = 0; i < node->def->n_in; i++) {
        if (node->in[i] != LT_NONE) {
            LT_ASSERT(f->known[node->in[i]]);
            a.in[i] = &f->t[node->in[i]];
        }
    }
    for (int i = 0; i < node->def->n_out; i++)
        a.out[i] = &f->t[node->out[i]];
    LT_TRY(node->def->infer(&a));
    for (int i = 0; i < node->def->n_out; i++) {
        f->known[node->out[i]] = true;
        LT_TRY(check_fits(f, node->out[i]));
    }
    return LT_OK;
}

static void gradient_shape(frame *f, lt_val v)
{
    const lt_slot *s = lt_slot_at(f->c, v);
    if (s->shape_of == LT_NONE || f->known[v])
        return;
    f->t[v] = lt_tensor_as(&f->t[s->shape_of], lt_value_at(&f->c->graph, v)->tensor.dtype);
    f->known[v] = true;
}

static lt_status all_shapes(frame *f, lt_pass pass)
{
    LT_TRY(given_shapes(f));
    for (int32_t i = 0; i < f->c->n_forward; i++)
        LT_TRY(node_shapes(f, i));
    if (pass == LT_FORWARD)
        return LT_OK;
    for (int64_t v = 0; v < f->c->graph.values.n; v++)
        gradient_shape(f, (lt_val)v);
    for (int32_t i = f->c->n_forward; i < f->c->graph.nodes.n; i++)
        LT_TRY(node_shapes(f, i));
    return LT_OK;
}

static void *address(const frame *f, lt_val v)
{
    const lt_slot *s = lt_slot_at(f->c, v);
    const lt_bindings *b = f->b;
    switch (s->place) {
    case LT_PLACE_NONE:
        return NULL;
    case LT_PLACE_EDGE_IN:
    case LT_PLACE_PARAM:
    case LT_PLACE_BATCH:
        return f->t[v].data;
    case LT_PLACE_EDGE_OUT:
        return b->edge_out[s->index];
    case LT_PLACE_WORK:
        return b->work + s->offset;
    case LT_PLACE_SAVED:
        return b->saved + s->offset;
    case LT_PLACE_GRAD_OUT:
        return b->grad_out[s->index].data;
    case LT_PLACE_GRAD_IN:
        return b->grad_in[s->index];
    case LT_PLACE_GRAD_PARAM:
        return b->grad_param[s->index].data;
    }
    return NULL;
}

static void all_addresses(frame *f)
{
    for (int64_t v = 0; v < f->c->graph.values.n; v++) {
        lt_val m = (lt_val)v;
        while (lt_slot_at(f->c, m)->alias != LT_NONE)
            m = lt_slot_at(f->c, m)->alias;
        f->t[v].data = address(f, m);
    }
}

static uint32_t add_bits(const frame *f, const lt_instr *x)
{
    uint32_t add = x->add;
    for (int i = 0; i < x->def->n_in; i++) {
        if (x->din[i] != LT_NONE) {
            const lt_slot *s = lt_slot_at(f->c, x->din[i]);
            if (s->place == LT_PLACE_GRAD_PARAM && f->b->grad_param_add[s->index])
                add |= LT_IN(i);
        }
    }
    return add;
}

static lt_status tap(const frame *f, const lt_instr *x)
{
    for (int i = 0; f->b->tap && x->pass == LT_FORWARD && i < x->def->n_out; i++) {
        const char *name = x->out[i] == LT_NONE ? NULL : lt_value_at(&f->c->graph, x->out[i])->name;
        if (name)
            LT_TRY(f->b->tap->fn(f->b->tap->ctx, f->b->block_name, name, &f->t[x->out[i]]));
    }
    return LT_OK;
}

static lt_status call(const lt_bindings *b, lt_kernel kernel, const lt_op_args *a, lt_pass pass)
{
    if (b->around)
        b->around(b->around_ctx, a, pass, false);
    const lt_status st = kernel(a);
    if (b->around)
        b->around(b->around_ctx, a, pass, true);
    return st;
}

static lt_status launch(const frame *f, const lt_instr *x)
{
    const lt_kernel kernel = lt_op_kernel(x->def, f->b->device->backend, x->pass);
    if (!kernel)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s has no %s kernel for %s", x->def->name,
                       x->pass == LT_FORWARD ? "forward" : "backward", f->b->device->name);
    const lt_run run = {.device = f->b->device,
                        .stream = f->b->stream,
                        .scratch = x->scratch_bytes ? f->b->work + x->scratch_offset : NULL,
                        .scratch_bytes = x->scratch_bytes};
    lt_op_args a = {.def = x->def,
                    .attr = x->attr,
                    .run = &run,
                    .add = x->pass == LT_BACKWARD ? add_bits(f, x) : 0};
    for (int i = 0; i < LT_MAX_IN; i++) {
        a.in[i] = x->in[i] == LT_NONE ? NULL : &f->t[x->in[i]];
        a.din[i] = x->din[i] == LT_NONE ? NULL : &f->t[x->din[i]];
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        a.out[i] = x->out[i] == LT_NONE ? NULL : &f->t[x->out[i]];
        a.dout[i] = x->dout[i] == LT_NONE ? NULL : &f->t[x->dout[i]];
    }
    LT_TRY(call(f->b, kernel, &a, x->pass));
    return tap(f, x);
}

static lt_status run_frame(frame *f, lt_pass pass, lt_tensor *out_shapes)
{
    LT_TRY(all_shapes(f, pass));
    all_addresses(f);
    const lt_vec *list = pass == LT_FORWARD ? &f->c->forward : &f->c->backward;
    for (int64_t k = 0; k < list->n; k++) {
        const lt_instr *x = &LT_AT(list, lt_instr, k);
        const lt_status st = launch(f, x);
        if (st != LT_OK) {
            lt_error_note("block %s, %s of op %s", f->b->block_name,
                          pass == LT_FORWARD ? "forward" : "backward", x->def->name);
            return st;
        }
    }
    for (int32_t i = 0; out_shapes && i < f->c->graph.n_edge_out; i++)
        out_shapes[i] = f->t[f->c->graph.edge_out[i]];
    return LT_OK;
}

lt_status lt_compiled_run(const lt_compiled *c, lt_pass pass, const lt_bindings *b,
                          lt_tensor *out_shapes)
{
    const int64_t n = c->graph.values.n;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (sizeof(lt_tensor) + sizeof(bool)),
                        "tensors of a block"));
    frame f = {.c = c, .b = b, .t = memory, .known = (bool *)((lt_tensor *)memory + n)};
    const lt_status st = run_frame(&f, pass, out_shapes);
    lt_mem_free(memory);
    return st;
}
