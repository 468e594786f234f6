// SPDX-License-Identifier: Apache-2.0
// Compiling a block: build, differentiate, choose what is saved, lay out; and printing the result.
#include "graph/compile.h"

#include "graph/differentiate.h"

const char *lt_policy_name(lt_policy policy)
{
    static const char *const names[] = {[LT_KEEP] = "keep", [LT_LEAN] = "lean", [LT_FULL] = "full"};
    return names[policy];
}

static lt_status list_forward(lt_compiled *c)
{
    for (int32_t i = 0; i < c->n_forward; i++) {
        const lt_instr x = lt_instr_of(&c->graph, i);
        if (!(x.def->flags & LT_OP_VIEW))
            LT_TRY(lt_vec_push(&c->forward, &x));
    }
    return LT_OK;
}

int64_t lt_instr_flops(const lt_compiled *c, const lt_instr *x)
{
    if (!x->def->flops)
        return 0;
    const lt_node *node = lt_node_at(&c->graph, x->node);
    lt_op_args a = {.def = x->def, .attr = node->attr};
    for (int i = 0; i < LT_MAX_IN; i++)
        if (node->in[i] != LT_NONE)
            a.in[i] = &lt_value_at(&c->graph, node->in[i])->tensor;
    const int64_t forward = x->def->flops(&a);
    if (x->pass == LT_FORWARD)
        return forward;
    int64_t wanted =
        0; // a product has as many backward products as gradients are asked of its first two inputs
    for (int i = 0; i < 2; i++)
        wanted += x->din[i] != LT_NONE;
    return (x->def->flags & LT_OP_YIELDS_IN_BACKWARD ? 1 + wanted
            : x->def->flags & LT_OP_MUST_SAVE        ? 2
                                                     : wanted) *
           forward;
}

static void count_flops(lt_compiled *c)
{
    for (int64_t i = 0; i < c->forward.n; i++)
        c->forward_flops += lt_instr_flops(c, &LT_AT(&c->forward, lt_instr, i));
    for (int64_t i = 0; i < c->backward.n; i++) {
        const lt_instr *x = &LT_AT(&c->backward, lt_instr, i);
        *(x->again ? &c->again_flops : &c->backward_flops) += lt_instr_flops(c, x);
    }
}

static lt_status compile(lt_builder *b, const lt_compile_opts *opts, lt_compiled *c)
{
    LT_TRY(lt_builder_init(b, &opts->build, &c->graph));
    LT_TRY(lt_builder_run(b));
    c->n_forward = lt_int(c->graph.nodes.n);
    LT_TRY(lt_slots_grow(c));
    LT_TRY(list_forward(c));
    if (opts->train) {
        LT_TRY(lt_differentiate(b, opts, c));
        LT_TRY(lt_choose_saved(b, opts, c));
    }
    LT_TRY(lt_lay_out(opts, c));
    count_flops(c);
    return LT_OK;
}

lt_status lt_compile(const lt_compile_opts *opts, lt_compiled **out)
{
    void *memory = NULL, *grads = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_compiled), "compiled block"));
    lt_compiled *c = memory;
    c->slots = LT_VEC_OF(lt_slot);
    c->forward = LT_VEC_OF(lt_instr);
    c->backward = LT_VEC_OF(lt_instr);
    lt_builder b = {0};
    lt_status st =
        lt_mem_alloc(&grads, (size_t)opts->build.kind->n_params * sizeof(bool), "compiled block");
    c->grad_param = grads;
    if (st == LT_OK)
        st = compile(&b, opts, c);
    lt_builder_deinit(&b);
    if (st != LT_OK) {
        lt_error_note("compiling block %s", opts->build.block_name);
        lt_compiled_destroy(c);
        return st;
    }
    *out = c;
    return LT_OK;
}

void lt_compiled_destroy(lt_compiled *c)
{
    if (!c)
        return;
    lt_graph_deinit(&c->graph);
    lt_vec_deinit(&c->slots);
    lt_vec_deinit(&c->forward);
    lt_vec_deinit(&c->backward);
    lt_mem_free(c->grad_param);
    lt_mem_free(c);
}

static lt_status print_value(const lt_compiled *c, lt_val v, lt_buf *out)
{
    static const char *const places[] = {"-",    "edge",  "param", "batch", "out",
                                         "work", "saved", "dout",  "din",   "dparam"};
    const lt_slot *s = lt_slot_at(c, v);
    const lt_tensor *t = &lt_value_at(&c->graph, v)->tensor;
    if (s->alias != LT_NONE)
        return lt_buf_printf(out, " %%%d=%s@%%%d", v, lt_shape_print(t).s, s->alias);
    if (s->place == LT_PLACE_WORK || s->place == LT_PLACE_SAVED)
        return lt_buf_printf(out, " %%%d=%s@%s+%lld", v, lt_shape_print(t).s, places[s->place],
                             (long long)s->offset);
    return lt_buf_printf(out, " %%%d=%s@%s%d", v, lt_shape_print(t).s, places[s->place], s->index);
}

static lt_status print_values(const lt_compiled *c, const char *title, const lt_val *v, int n,
                              lt_buf *out)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (v[i] == LT_NONE)
            continue;
        if (!any)
            LT_TRY(lt_buf_printf(out, " %s", title));
        any = true;
        LT_TRY(print_value(c, v[i], out));
    }
    return LT_OK;
}

static lt_status print_list(const lt_compiled *c, const char *title, const lt_vec *list,
                            int64_t bytes, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "%s: %lld bytes of workspace\n", title, (long long)bytes));
    for (int64_t k = 0; k < list->n; k++) {
        const lt_instr *x = &LT_AT(list, lt_instr, k);
        LT_TRY(lt_buf_printf(out, "  %s%s%s", x->def->name, x->pass == LT_BACKWARD ? "'" : "",
                             x->again ? " (again)" : ""));
        LT_TRY(print_values(c, "in", x->in, LT_MAX_IN, out));
        LT_TRY(print_values(c, "dout", x->dout, LT_MAX_OUT, out));
        LT_TRY(print_values(c, "out", x->out, LT_MAX_OUT, out));
        LT_TRY(print_values(c, "din", x->din, LT_MAX_IN, out));
        if (x->scratch_bytes > 0)
            LT_TRY(lt_buf_printf(out, " scratch %zu@%lld", x->scratch_bytes,
                                 (long long)x->scratch_offset));
        LT_TRY(lt_buf_text(out, "\n"));
    }
    return LT_OK;
}

lt_status lt_compiled_print(const lt_compiled *c, lt_buf *out)
{
    LT_TRY(print_list(c, "forward", &c->forward, c->forward_bytes, out));
    LT_TRY(print_list(c, "backward", &c->backward, c->backward_bytes, out));
    return lt_buf_printf(out, "saved: %lld bytes\n", (long long)c->saved_bytes);
}
