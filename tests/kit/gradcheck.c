// SPDX-License-Identifier: Apache-2.0
// Gradients of one op against central differences, in f64: by its backward kernel, or through a
// compiled block of that op.
#include "base/rng.h"
#include "graph/compile.h"
#include "op/add.h"
#include "tests/kit/op_kit.h"
#include <math.h>
#include <string.h>

static int64_t n_compared;

int64_t lt_gradcheck_count(void)
{
    return n_compared;
}

typedef struct check {
    void *state;
    const lt_op_def *def;
    const lt_tensor *in;
    const void *attr;
    lt_gradcheck_opts opts;
    lt_tensor out[LT_MAX_OUT], dout[LT_MAX_OUT];
    lt_tensor numeric[LT_MAX_IN]; /* f64, by differences; rank -1 for inputs without a gradient */
    uint32_t wanted;              /* LT_IN bits */
} check;

static bool has_gradient(const check *c, int i)
{
    return c->in[i].rank >= 0 && lt_dtype_is_float(c->in[i].dtype) &&
           !(c->opts.no_grad & LT_IN(i)) && !(c->def->index_in & LT_IN(i));
}

// sum over outputs of out * dout
static lt_status objective(check *c, lt_arena *arena, const lt_tensor *in, double *value)
{
    lt_tensor out[LT_MAX_OUT];
    LT_TRY(lt_test_forward(arena, c->def, in, c->attr, out));
    *value = 0.0;
    for (int o = 0; o < c->def->n_out; o++)
        for (int64_t k = 0, n = c->dout[o].data ? lt_n_elems(&out[o]) : 0; k < n; k++)
            *value += lt_load(&out[o], k) * lt_load(&c->dout[o], k);
    return LT_OK;
}

// f' from f(x - 2h), f(x - h), f(x + h), f(x + 2h)
static lt_status difference(check *c, lt_arena *arena, lt_tensor *in, int i, int64_t k,
                            double *slope)
{
    const double h = c->opts.step, at = lt_load(&in[i], k);
    const double step[4] = {-2.0 * h, -h, h, 2.0 * h}, weight[4] = {1.0, -8.0, 8.0, -1.0};
    *slope = 0.0;
    for (int p = 0; p < 4; p++) {
        double value;
        lt_store(&in[i], k, at + step[p]);
        LT_TRY(objective(c, arena, in, &value));
        *slope += weight[p] * value / (12.0 * h);
        lt_arena_reset(arena);
    }
    lt_store(&in[i], k, at);
    return LT_OK;
}

static lt_status numeric_gradients(check *c)
{
    lt_arena *arena;
    lt_tensor in[LT_MAX_IN];
    LT_TRY(lt_arena_create(&arena, "differences"));
    lt_status st = LT_OK;
    for (int i = 0; i < c->def->n_in; i++)
        in[i] = has_gradient(c, i) ? lt_test_converted(c->state, &c->in[i], LT_F64) : c->in[i];
    for (int i = 0; i < c->def->n_in && st == LT_OK; i++) {
        c->numeric[i] = lt_test_none();
        if (!has_gradient(c, i))
            continue;
        c->wanted |= LT_IN(i);
        c->numeric[i] = lt_test_garbage(c->state, &in[i]);
        for (int64_t k = 0, n = lt_n_elems(&in[i]); k < n && st == LT_OK; k++) {
            double slope;
            st = difference(c, arena, in, i, k, &slope);
            if (st == LT_OK)
                lt_store(&c->numeric[i], k, slope);
        }
    }
    lt_arena_destroy(arena);
    return st;
}

// got - before (where given) is the numeric gradient, within the tolerance
static lt_status compare(const check *c, int i, const lt_tensor *got, const lt_tensor *before,
                         const char *how)
{
    double scale = 1.0;
    const int64_t n = lt_n_elems(got);
    for (int64_t k = 0; k < n; k++)
        scale = fmax(scale, fabs(lt_load(&c->numeric[i], k)));
    for (int64_t k = 0; k < n; k++) {
        const double want = lt_load(&c->numeric[i], k),
                     g = lt_load(got, k) - (before && before->data ? lt_load(before, k) : 0.0);
        n_compared++;
        if (!(fabs(g - want) <= c->opts.rel_tol * scale)) {
            return LT_FAIL(
                LT_ERR_NUMERIC,
                "%s: gradient of input %d, element %lld of %s (%s): %.15g, by differences %.15g",
                c->def->name, i, (long long)k, lt_shape_print(got).s, how, g, want);
        }
    }
    return LT_OK;
}

// One call of the backward kernel for the inputs in `asked`, adding where `add` says so.
static lt_status by_kernel(check *c, uint32_t asked, uint32_t add, const char *how)
{
    lt_tensor din[LT_MAX_IN] = {0}, before[LT_MAX_IN] = {0}, out[LT_MAX_OUT];
    for (int i = 0; i < c->def->n_in; i++) {
        din[i] = before[i] = (lt_tensor){0};
        if (!(asked & LT_IN(i)))
            continue;
        before[i] = lt_test_converted(c->state, &c->numeric[i], LT_F64); // for the shape
        for (int64_t k = 0, n = lt_n_elems(&before[i]); k < n; k++)
            lt_store(&before[i], k, lt_normal(c->opts.seed + 77, (uint64_t)k));
        din[i] = lt_test_garbage(c->state, &before[i]);
        if ((add & LT_IN(i)) && lt_n_elems(&din[i]) > 0)
            memcpy(din[i].data, before[i].data, lt_tensor_bytes(&din[i]));
    }
    for (int o = 0; o < c->def->n_out; o++)
        out[o] = c->def->flags & LT_OP_YIELDS_IN_BACKWARD ? lt_test_garbage(c->state, &c->out[o])
                                                          : c->out[o];
    LT_TRY(lt_test_backward_on(c->state, (lt_test_column){.backend = LT_REF}, c->def, c->in,
                               c->attr, out, c->dout, din, add));
    for (int i = 0; i < c->def->n_in; i++)
        if (asked & LT_IN(i))
            LT_TRY(compare(c, i, &din[i], add & LT_IN(i) ? &before[i] : NULL, how));
    for (int o = 0; o < c->def->n_out; o++) {
        if (!(lt_test_difference(&out[o], &c->out[o]) <= c->opts.rel_tol))
            return LT_FAIL(LT_ERR_NUMERIC, "%s: backward leaves output %d different from forward's",
                           c->def->name, o);
    }
    return LT_OK;
}

static lt_status all_askings(check *c)
{
    LT_TRY(by_kernel(c, c->wanted, 0, "overwriting garbage"));
    LT_TRY(by_kernel(c, c->wanted, c->wanted, "adding"));
    for (int i = 0; i < c->def->n_in; i++) {
        if (!(c->wanted & LT_IN(i)))
            continue;
        LT_TRY(by_kernel(c, LT_IN(i), 0, "asked for alone"));
        LT_TRY(by_kernel(c, c->wanted, LT_IN(i), "only one adding"));
    }
    return LT_OK;
}

// ---- rows that build their gradient from nodes: a block of that one op

typedef struct one_op {
    const lt_op_def *def;
    const void *attr;
    size_t attr_bytes;
    uint32_t given; /* LT_IN bits */
} one_op;

static lt_status build_one(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const one_op *op = config;
    lt_val arg[LT_MAX_IN];
    for (int i = 0, edge = 0; i < op->def->n_in; i++)
        arg[i] = op->given & LT_IN(i) ? in[edge++] : LT_NONE;
    lt_op_apply(b, op->def, arg, op->def->n_in, op->attr, op->attr_bytes, out);
    for (int o = 0; o < op->def->n_out && (op->def->flags & LT_OP_VIEW); o++)
        out[o] = lt_copy(b, out[o]); // a view cannot leave a block
    return lt_builder_status(b);
}

static lt_status run_block(check *c, const lt_compiled *block, lt_tensor *edge, lt_tensor *din,
                           int n_edges)
{
    void *edge_out[LT_MAX_OUT], *grad_in[LT_MAX_IN];
    lt_device device = {.name = "test", .backend = LT_REF};
    for (int o = 0; o < c->def->n_out; o++)
        edge_out[o] = c->out[o].data;
    for (int i = 0; i < n_edges; i++)
        grad_in[i] = din[i].data;
    const lt_tensor batch[LT_N_BATCH_VALUES] = {0};
    const int64_t work = lt_max_i64(block->forward_bytes, block->backward_bytes);
    const lt_tensor area = lt_tensor_1d(LT_U8, work),
                    kept = lt_tensor_1d(LT_U8, block->saved_bytes);
    const lt_tensor work_area = lt_test_garbage(c->state, &area),
                    saved_area = lt_test_garbage(c->state, &kept);
    const lt_bindings bindings = {.block_name = "one op",
                                  .device = &device,
                                  .batch = batch,
                                  .edge_in = edge,
                                  .edge_out = edge_out,
                                  .grad_out = c->dout,
                                  .grad_in = grad_in,
                                  .work = work_area.data,
                                  .saved = saved_area.data};
    LT_TRY(lt_compiled_run(block, LT_FORWARD, &bindings, NULL));
    LT_TRY(lt_compiled_run(block, LT_BACKWARD, &bindings, NULL));
    assert_guards(&work_area);
    assert_guards(&saved_area);
    return LT_OK;
}

static lt_status by_block(check *c)
{
    one_op op = {.def = c->def, .attr = c->attr, .attr_bytes = c->opts.attr_bytes};
    lt_tensor edge[LT_MAX_IN], shape[LT_MAX_IN], din[LT_MAX_IN];
    bool needs[LT_MAX_IN], out_has[LT_MAX_OUT];
    int input[LT_MAX_IN], n_edges = 0;
    for (int i = 0; i < c->def->n_in; i++) {
        if (c->in[i].rank < 0)
            continue;
        op.given |= LT_IN(i);
        edge[n_edges] = c->in[i];
        shape[n_edges] = lt_tensor_like(&c->in[i]);
        needs[n_edges] = has_gradient(c, i);
        din[n_edges] = needs[n_edges] ? lt_test_garbage(c->state, &c->in[i]) : (lt_tensor){0};
        input[n_edges++] = i;
    }
    for (int o = 0; o < c->def->n_out; o++)
        out_has[o] = c->dout[o].data != NULL;
    const lt_block_kind kind = {.name = c->def->name,
                                .n_in = n_edges,
                                .n_out = c->def->n_out,
                                .config = &op,
                                .build = build_one};
    const lt_compile_opts opts = {.build = {.kind = &kind,
                                            .block_name = "one op",
                                            .compute = LT_F64,
                                            .edge_in = shape,
                                            .edge_needs_grad = needs},
                                  .train = true,
                                  .out_has_grad = out_has,
                                  .helpers = {.add = lt_add, .copy = lt_copy}};
    lt_compiled *block = NULL;
    lt_status st = lt_compile(&opts, &block);
    if (st == LT_OK)
        st = run_block(c, block, edge, din, n_edges);
    lt_compiled_destroy(block);
    for (int e = 0; e < n_edges && st == LT_OK; e++) {
        assert_guards(&din[e]);
        if (needs[e])
            st = compare(c, input[e], &din[e], NULL, "through a block");
    }
    return st;
}

// With a random dy for every output but those in `missing`.
static lt_status one_round(check *c, uint32_t missing)
{
    c->wanted = 0;
    for (int o = 0; o < c->def->n_out; o++) {
        c->dout[o] = (lt_tensor){0};
        if ((missing | c->opts.no_upstream) & LT_OUT(o))
            continue;
        c->dout[o] = lt_test_garbage(c->state, &c->out[o]);
        for (int64_t k = 0, n = lt_n_elems(&c->dout[o]); k < n; k++) {
            const double dy = lt_normal(c->opts.seed + 11 * (uint64_t)(o + 1), (uint64_t)k);
            lt_store(&c->dout[o], k, c->def->flags & LT_OP_YIELDS_IN_BACKWARD ? 1.0 : dy);
        }
    }
    return numeric_gradients(c);
}

lt_status lt_gradcheck(void *state, const lt_op_def *def, const lt_tensor *in, const void *attr,
                       lt_gradcheck_opts opts)
{
    check c = {.state = state, .def = def, .in = in, .attr = attr, .opts = opts};
    c.opts.step = opts.step > 0.0 ? opts.step : 1e-3;
    c.opts.rel_tol = opts.rel_tol > 0.0 ? opts.rel_tol : 1e-9;
    LT_TRY(lt_test_forward(state, def, in, attr, c.out));
    LT_TRY(one_round(&c, 0));
    if (def->grad)
        return by_block(&c);
    LT_TRY(all_askings(&c));
    const uint32_t all = LT_OUT(0) * ((1U << def->n_out) - 1U);
    for (int o = 0; o < def->n_out && !(def->flags & LT_OP_YIELDS_IN_BACKWARD); o++) {
        LT_TRY(one_round(&c, LT_OUT(o)));
        LT_TRY(all_askings(&c));
        if (def->n_out == 1)
            break;
        LT_TRY(one_round(&c, all & ~LT_OUT(o)));
        LT_TRY(all_askings(&c));
    }
    return LT_OK;
}
