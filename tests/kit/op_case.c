// SPDX-License-Identifier: Apache-2.0
// Inputs of op cases, and columns of the op table against the reference.
#include "tests/kit/op_case.h"
#include "base/rng.h"
#include <math.h>
#include <string.h>

static lt_dtype wide(lt_dtype dtype)
{
    return dtype == LT_F64 ? LT_F64 : LT_F32;
}

static lt_tensor index_input(void *state, const lt_case_input *in)
{
    if (in->list)
        return lt_test_i32(state, in->shape, in->list);
    lt_tensor t = lt_test_tensor(state, LT_I32, in->shape);
    for (int64_t k = 0, n = lt_n_elems(&t); k < n; k++)
        ((int32_t *)t.data)[k] = (int32_t)(k * in->step % in->below);
    return t;
}

void lt_case_inputs(void *state, const lt_op_case *c, lt_dtype dtype, lt_tensor *in)
{
    for (int i = 0; i < c->def->n_in; i++) {
        const lt_case_input *from = &c->in[i];
        const uint64_t seed = 100 + (uint64_t)i;
        switch (from->kind) {
        case LT_CASE_NONE:
            in[i] = lt_test_none();
            break;
        case LT_CASE_VALUE:
        case LT_CASE_PARAM:
            in[i] = lt_test_random_of(state, dtype, from->shape, seed, 1.0);
            break;
        case LT_CASE_SIDE:
            in[i] = lt_test_random_of(state, wide(dtype), from->shape, seed, 1.0);
            break;
        case LT_CASE_F32:
            in[i] = lt_test_random_of(state, LT_F32, from->shape, seed, 1.0);
            break;
        case LT_CASE_INDEX:
            in[i] = index_input(state, from);
            break;
        }
    }
}

uint32_t lt_case_no_grad(const lt_op_case *c)
{
    uint32_t bits = 0;
    for (int i = 0; i < LT_MAX_IN; i++)
        if (c->in[i].kind == LT_CASE_SIDE || c->in[i].kind == LT_CASE_F32)
            bits |= LT_IN(i);
    return bits;
}

typedef struct columns {
    void *state;
    const lt_op_case *c;
    lt_dtype dtype;
    lt_backend backend;
    lt_pool *const *pools;
    int n_pools;
    double rel_tol;
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT], dout[LT_MAX_OUT];
} columns;

static lt_status agree(const columns *k, const lt_tensor *got, const lt_tensor *want,
                       const char *what, int number)
{
    const double d = got->dtype == want->dtype ? lt_test_difference(got, want) : (double)INFINITY;
    if (!(d <= k->rel_tol)) {
        return LT_FAIL(LT_ERR_NUMERIC,
                       "%s in %s: %s %d differs from the reference by %g (%s and %s)",
                       k->c->def->name, lt_dtype_name(k->dtype), what, number, d,
                       lt_shape_print(got).s, lt_shape_print(want).s);
    }
    return LT_OK;
}

static lt_status same_bits(const columns *k, const lt_tensor *a, const lt_tensor *b,
                           const char *what, int number)
{
    const size_t bytes = lt_tensor_bytes(a);
    if (bytes > 0 && (!b->data || memcmp(a->data, b->data, bytes) != 0)) {
        return LT_FAIL(LT_ERR_NUMERIC,
                       "%s in %s: the bits of %s %d depend on the number of threads",
                       k->c->def->name, lt_dtype_name(k->dtype), what, number);
    }
    return LT_OK;
}

static lt_status forward(columns *k, const char *what)
{
    lt_tensor out[LT_MAX_OUT], first[LT_MAX_OUT] = {{0}};
    LT_TRY(lt_test_forward(k->state, k->c->def, k->in, k->c->attr, k->out));
    for (int p = 0; p < k->n_pools; p++) {
        const lt_test_column column = {.backend = k->backend, .pool = k->pools[p]};
        LT_TRY(lt_test_forward_on(k->state, column, k->c->def, k->in, k->c->attr, out));
        for (int o = 0; o < k->c->def->n_out; o++) {
            LT_TRY(agree(k, &out[o], &k->out[o], what, o));
            if (p == 0)
                first[o] = out[o];
            LT_TRY(same_bits(k, &out[o], &first[o], what, o));
        }
    }
    return LT_OK;
}

// What the gradients of `asked` start from: garbage, or random numbers that they are added to.
static void gradient_buffers(const columns *k, uint32_t asked, uint32_t add, lt_tensor *din)
{
    for (int i = 0; i < k->c->def->n_in; i++) {
        din[i] = (lt_tensor){0};
        if (!(asked & LT_IN(i)))
            continue;
        const lt_tensor shape = lt_tensor_as(
            &k->in[i], k->c->in[i].kind == LT_CASE_PARAM ? wide(k->dtype) : k->in[i].dtype);
        din[i] = lt_test_garbage(k->state, &shape);
        for (int64_t e = 0, n = add & LT_IN(i) ? lt_n_elems(&shape) : 0; e < n; e++)
            lt_store(&din[i], e, lt_normal(55, (uint64_t)e));
    }
}

static lt_status backward(columns *k, uint32_t asked, uint32_t add, const char *what)
{
    lt_tensor want[LT_MAX_IN], din[LT_MAX_IN], first[LT_MAX_IN] = {{0}}, out[LT_MAX_OUT];
    gradient_buffers(k, asked, add, want);
    LT_TRY(lt_test_backward_on(k->state, (lt_test_column){.backend = LT_REF}, k->c->def, k->in,
                               k->c->attr, k->out, k->dout, want, add));
    for (int p = 0; p < k->n_pools; p++) {
        gradient_buffers(k, asked, add, din);
        for (int o = 0; o < k->c->def->n_out;
             o++) { // the reference's outputs, so that only the backward is judged
            out[o] = k->c->def->flags & LT_OP_YIELDS_IN_BACKWARD
                         ? lt_test_garbage(k->state, &k->out[o])
                         : k->out[o];
        }
        LT_TRY(lt_test_backward_on(k->state,
                                   (lt_test_column){.backend = k->backend, .pool = k->pools[p]},
                                   k->c->def, k->in, k->c->attr, out, k->dout, din, add));
        for (int o = 0; o < k->c->def->n_out; o++)
            LT_TRY(agree(k, &out[o], &k->out[o], "after backward, output", o));
        for (int i = 0; i < k->c->def->n_in; i++) {
            if (!(asked & LT_IN(i)))
                continue;
            LT_TRY(agree(k, &din[i], &want[i], what, i));
            if (p == 0)
                first[i] = din[i];
            LT_TRY(same_bits(k, &din[i], &first[i], what, i));
        }
    }
    return LT_OK;
}

static void upstream(columns *k, uint32_t missing)
{
    for (int o = 0; o < k->c->def->n_out; o++) {
        k->dout[o] = (lt_tensor){0};
        if ((missing | k->c->no_upstream) & LT_OUT(o))
            continue;
        k->dout[o] = lt_test_garbage(k->state, &k->out[o]);
        for (int64_t e = 0, n = lt_n_elems(&k->dout[o]); e < n; e++)
            lt_store(&k->dout[o], e, lt_normal(66 + (uint64_t)o, (uint64_t)e));
    }
}

static lt_status all_backwards(columns *k)
{
    uint32_t wanted = 0;
    for (int i = 0; i < k->c->def->n_in; i++)
        if (k->c->in[i].kind == LT_CASE_VALUE || k->c->in[i].kind == LT_CASE_PARAM)
            wanted |= LT_IN(i);
    upstream(k, 0);
    LT_TRY(backward(k, wanted, 0, "gradient over garbage of input"));
    LT_TRY(backward(k, wanted, wanted, "added gradient of input"));
    for (int i = 0; i < k->c->def->n_in; i++) {
        if (wanted & LT_IN(i)) {
            LT_TRY(backward(k, LT_IN(i), 0, "gradient alone of input"));
            LT_TRY(backward(k, wanted, LT_IN(i), "gradient, one added, of input"));
        }
    }
    for (int o = 0; o < k->c->def->n_out && !(k->c->def->flags & LT_OP_YIELDS_IN_BACKWARD); o++) {
        upstream(k, LT_OUT(o));
        LT_TRY(backward(k, wanted, 0, "gradient, one upstream missing, of input"));
        LT_TRY(backward(k, wanted, wanted, "added gradient, one upstream missing, of input"));
    }
    return LT_OK;
}

// A NaN in the middle of the first activations spreads as the reference says.
static lt_status with_a_nan(columns *k)
{
    for (int i = 0; i < k->c->def->n_in; i++) {
        if (k->c->in[i].kind == LT_CASE_VALUE && lt_n_elems(&k->in[i]) > 0) {
            lt_store(&k->in[i], lt_n_elems(&k->in[i]) / 2, (double)NAN);
            return forward(k, "output, with a NaN,");
        }
    }
    return LT_OK;
}

lt_status lt_column_agrees(void *state, const lt_op_case *c, lt_dtype dtype, lt_backend backend,
                           lt_pool *const *pools, int n_pools, double rel_tol)
{
    columns k = {.state = state,
                 .c = c,
                 .dtype = dtype,
                 .backend = backend,
                 .pools = pools,
                 .n_pools = n_pools,
                 .rel_tol = rel_tol};
    lt_case_inputs(state, c, dtype, k.in);
    LT_TRY(forward(&k, "output"));
    if (c->def->backward[LT_REF])
        LT_TRY(all_backwards(&k));
    return with_a_nan(&k);
}
