// SPDX-License-Identifier: Apache-2.0
// Building a block's graph: values, nodes, shape rules; the first error sticks.
#include "graph/builder_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lt_status lt_builder_status(const lt_builder *b)
{
    return b->status;
}

lt_val lt_builder_fail(lt_builder *b, lt_status code, const char *fmt, ...)
{
    if (b->status != LT_OK)
        return LT_NONE;
    char text[512];
    va_list list;
    va_start(list, fmt);
    (void)vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    b->status = LT_FAIL(code, "block %s: %s", b->opts->block_name, text);
    return LT_NONE;
}

lt_val lt_builder_value(lt_builder *b, const lt_value *value)
{
    if (b->status != LT_OK)
        return LT_NONE;
    b->status = lt_vec_push(&b->graph->values, value);
    return b->status == LT_OK ? lt_int(b->graph->values.n - 1) : LT_NONE;
}

lt_tensor lt_value_tensor(const lt_builder *b, lt_val v)
{
    if (v < 0 || v >= b->graph->values.n)
        return (lt_tensor){.dtype = LT_F32};
    return lt_value_at(b->graph, v)->tensor;
}

bool lt_value_needs_grad(const lt_builder *b, lt_val v)
{
    return v >= 0 && lt_value_at(b->graph, v)->needs_grad;
}

lt_dtype lt_builder_compute(const lt_builder *b)
{
    return b->opts->compute;
}

lt_val lt_name(lt_builder *b, lt_val v, const char *text)
{
    if (b->status == LT_OK && v >= 0)
        lt_value_at(b->graph, v)->name = text;
    return v;
}

static lt_val param_number(lt_builder *b, int32_t i)
{
    if (b->param[i] == LT_NONE) {
        const lt_param_spec *p = &b->opts->kind->params[i];
        b->param[i] = lt_builder_value(
            b, &(lt_value){.kind = LT_VALUE_PARAM,
                           .index = i,
                           .node = LT_NONE,
                           .needs_grad = b->opts->param_trainable[i],
                           .tensor = lt_tensor_nd(b->opts->compute, p->rank, p->dim)});
    }
    return b->param[i];
}

static int32_t find_param(const lt_builder *b, const char *path, const char *suffix)
{
    const size_t len = strlen(path);
    for (int32_t i = 0; i < b->opts->kind->n_params; i++) {
        const char *name = b->opts->kind->params[i].name;
        if (strncmp(name, path, len) == 0 && strcmp(name + len, suffix) == 0)
            return i;
    }
    return LT_NONE;
}

lt_val lt_param_of(lt_builder *b, const char *name)
{
    const int32_t i = find_param(b, name, "");
    if (i == LT_NONE)
        return lt_builder_fail(b, LT_ERR_INTERNAL, "kind %s has no parameter %s",
                               b->opts->kind->name, name);
    return param_number(b, i);
}

lt_val lt_param_if(lt_builder *b, const char *path, const char *suffix)
{
    const int32_t i = find_param(b, path, suffix);
    return i == LT_NONE ? LT_NONE : param_number(b, i);
}

lt_val lt_batch_of(lt_builder *b, lt_batch_value which)
{
    if (b->batch[which] == LT_NONE) {
        b->batch[which] =
            lt_builder_value(b, &(lt_value){.kind = LT_VALUE_BATCH,
                                            .index = (int32_t)which,
                                            .node = LT_NONE,
                                            .tensor = lt_batch_tensor(which, &b->opts->capacity,
                                                                      b->opts->pixel_width)});
    }
    return b->batch[which];
}

// What the op's row asks of its inputs, before its own shape rule runs.
static lt_status check_inputs(const lt_builder *b, const lt_op_def *def, const lt_val *in, int n_in)
{
    if (n_in > def->n_in)
        return LT_FAIL(LT_ERR_INTERNAL, "%s takes %d inputs, got %d", def->name, def->n_in, n_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i] == LT_NONE)
            continue;
        const lt_tensor *t = &lt_value_at(b->graph, in[i])->tensor;
        const bool index = def->index_in & LT_IN(i);
        if (index && t->dtype != LT_I32)
            return LT_FAIL(LT_ERR_DTYPE, "%s input %d is an index and must be i32, got %s",
                           def->name, i, lt_shape_print(t).s);
        if (i == 0 && !index && !(def->dtypes & LT_DTYPE_BIT(t->dtype)))
            return LT_FAIL(LT_ERR_DTYPE, "%s does not take %s", def->name, lt_shape_print(t).s);
    }
    return LT_OK;
}

static bool any_needs_grad(const lt_builder *b, const lt_op_def *def, const lt_val *in, int n_in)
{
    if (b->backward)
        return false;
    for (int i = 0; i < n_in; i++) {
        if (in[i] != LT_NONE && !(def->index_in & LT_IN(i)) &&
            lt_value_at(b->graph, in[i])->needs_grad)
            return true;
    }
    return false;
}

static lt_status append(lt_builder *b, const lt_op_def *def, const lt_val *in, int n_in,
                        const void *attr, size_t attr_bytes, lt_node *node)
{
    LT_TRY(check_inputs(b, def, in, n_in));
    *node = (lt_node){.def = def};
    for (int i = 0; i < LT_MAX_IN; i++)
        node->in[i] = i < n_in ? in[i] : LT_NONE;
    LT_ASSERT(attr_bytes <= LT_ATTR_BYTES);
    if (attr_bytes > 0)
        memcpy(node->attr, attr, attr_bytes);
    lt_tensor out[LT_MAX_OUT] = {0};
    lt_op_args args = {.def = def, .attr = node->attr};
    for (int i = 0; i < n_in; i++)
        if (in[i] != LT_NONE)
            args.in[i] = &lt_value_at(b->graph, in[i])->tensor;
    for (int i = 0; i < def->n_out; i++)
        args.out[i] = &out[i];
    LT_TRY(def->infer(&args));
    const bool needs = any_needs_grad(b, def, in, n_in);
    const int32_t number = lt_int(b->graph->nodes.n);
    for (int i = 0; i < LT_MAX_OUT; i++) {
        node->out[i] = LT_NONE;
        if (i < def->n_out) {
            node->out[i] = lt_builder_value(
                b, &(lt_value){.kind = LT_VALUE_NODE,
                               .index = i,
                               .node = number,
                               .needs_grad = needs && lt_dtype_is_float(out[i].dtype),
                               .tensor = out[i]});
        }
    }
    LT_TRY(b->status);
    return lt_vec_push(&b->graph->nodes, node);
}

lt_val lt_op_apply(lt_builder *b, const lt_op_def *def, const lt_val *in, int n_in,
                   const void *attr, size_t attr_bytes, lt_val *outs)
{
    lt_node node = {.out = {LT_NONE, LT_NONE, LT_NONE, LT_NONE}};
    if (b->status == LT_OK) {
        b->status = append(b, def, in, n_in, attr, attr_bytes, &node);
        if (b->status != LT_OK)
            lt_error_note("block %s, op %s (number %lld)", b->opts->block_name, def->name,
                          (long long)b->graph->nodes.n);
    }
    for (int i = 0; outs && i < def->n_out; i++)
        outs[i] = b->status == LT_OK ? node.out[i] : LT_NONE;
    return b->status == LT_OK ? node.out[0] : LT_NONE;
}

lt_status lt_builder_init(lt_builder *b, const lt_builder_opts *opts, lt_graph *graph)
{
    *graph = (lt_graph){.nodes = LT_VEC_OF(lt_node), .values = LT_VEC_OF(lt_value)};
    *b = (lt_builder){.opts = opts, .graph = graph};
    for (int i = 0; i < LT_N_BATCH_VALUES; i++)
        b->batch[i] = LT_NONE;
    const int32_t n = opts->kind->n_params;
    void *param = NULL;
    LT_TRY(lt_mem_alloc(&param, (size_t)n * sizeof(lt_val), "builder parameters"));
    b->param = param;
    for (int32_t i = 0; i < n; i++)
        b->param[i] = LT_NONE;
    return LT_OK;
}

void lt_builder_deinit(lt_builder *b)
{
    lt_mem_free(b->param);
    b->param = NULL;
}

// An output lives in memory of its own, so it must be made by a node, and by one that is not a view
// of an input.
static lt_status check_output(const lt_builder *b, int i)
{
    const lt_graph *g = b->graph;
    lt_val v = g->edge_out[i];
    while (v != LT_NONE && lt_value_at(g, v)->kind == LT_VALUE_NODE) {
        const lt_node *node = lt_node_at(g, lt_value_at(g, v)->node);
        if (!(node->def->flags & LT_OP_VIEW))
            return LT_OK;
        v = node->in[0];
    }
    return LT_FAIL(LT_ERR_INTERNAL, "block %s: output %d is not computed by the block",
                   b->opts->block_name, i);
}

lt_status lt_builder_run(lt_builder *b)
{
    const lt_builder_opts *o = b->opts;
    lt_graph *g = b->graph;
    lt_val in[LT_MAX_IN], out[LT_MAX_OUT] = {LT_NONE, LT_NONE, LT_NONE, LT_NONE};
    LT_ASSERT(o->kind->n_in <= LT_MAX_IN && o->kind->n_out <= LT_MAX_OUT);
    for (int32_t i = 0; i < o->kind->n_in; i++) {
        in[i] = lt_builder_value(b, &(lt_value){.kind = LT_VALUE_EDGE,
                                                .index = i,
                                                .node = LT_NONE,
                                                .needs_grad = o->edge_needs_grad[i],
                                                .tensor = o->edge_in[i]});
    }
    const lt_status st = o->kind->build(b, o->kind->config, in, out);
    LT_TRY(b->status);
    LT_TRY(st);
    g->n_edge_in = o->kind->n_in;
    g->n_edge_out = o->kind->n_out;
    for (int i = 0; i < LT_MAX_OUT; i++)
        g->edge_out[i] = out[i];
    for (int32_t i = 0; i < g->n_edge_out; i++)
        LT_TRY(check_output(b, i));
    return LT_OK;
}

lt_status lt_graph_build(const lt_builder_opts *opts, lt_graph *graph)
{
    lt_builder b;
    lt_status st = lt_builder_init(&b, opts, graph);
    if (st == LT_OK)
        st = lt_builder_run(&b);
    lt_builder_deinit(&b);
    return st;
}

void lt_graph_deinit(lt_graph *graph)
{
    lt_vec_deinit(&graph->nodes);
    lt_vec_deinit(&graph->values);
}
