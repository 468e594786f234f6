// SPDX-License-Identifier: Apache-2.0
// Tensors between guard bytes, and one row of the op table run by itself.
#include "tests/kit/op_kit.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, GUARD_BYTE = 0xA5 }; // 256: what a plan aligns to

lt_tensor lt_test_none(void)
{
    return (lt_tensor){.rank = -1};
}

// Memory of the tensor's size with guards on both sides.
static lt_tensor with_memory(void *state, lt_tensor t)
{
    const size_t bytes = lt_tensor_bytes(&t);
    unsigned char *p = lt_test_take(state, bytes + (size_t)3 * GUARD);
    p += GUARD - (uintptr_t)p % GUARD;
    memset(p, GUARD_BYTE, bytes + (size_t)2 * GUARD);
    t.data = p + GUARD;
    if (bytes > 0)
        memset(t.data, 0, bytes);
    if (t.dtype == LT_I32)
        t.host = t.data;
    return t;
}

static lt_tensor planned(lt_dtype dtype, const char *shape)
{
    int64_t dim[LT_MAX_DIMS];
    int rank = 0;
    for (const char *p = shape; *p; rank++) {
        char *end;
        assert_true(rank < LT_MAX_DIMS);
        dim[rank] = strtoll(p, &end, 10);
        assert_true(end > p);
        p = *end == 'x' ? end + 1 : end;
    }
    return lt_tensor_nd(dtype, rank, dim);
}

lt_tensor lt_test_tensor(void *state, lt_dtype dtype, const char *shape)
{
    return with_memory(state, planned(dtype, shape));
}

lt_tensor lt_test_garbage(void *state, const lt_tensor *like)
{
    lt_tensor t = with_memory(state, lt_tensor_like(like));
    if (lt_n_elems(&t) > 0)
        memset(t.data, 0x5D, lt_tensor_bytes(&t)); // 1e18 in f32 and bf16, 1e142 in f64
    return t;
}

lt_tensor lt_test_f32(void *state, const char *shape, const float *values)
{
    lt_tensor t = lt_test_tensor(state, LT_F32, shape);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        ((float *)t.data)[i] = values[i];
    return t;
}

lt_tensor lt_test_f64(void *state, const char *shape, const double *values)
{
    lt_tensor t = lt_test_tensor(state, LT_F64, shape);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        ((double *)t.data)[i] = values[i];
    return t;
}

lt_tensor lt_test_i32(void *state, const char *shape, const int32_t *values)
{
    lt_tensor t = lt_test_tensor(state, LT_I32, shape);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        ((int32_t *)t.data)[i] = values[i];
    return t;
}

lt_tensor lt_test_random_of(void *state, lt_dtype dtype, const char *shape, uint64_t seed,
                            double scale)
{
    lt_tensor t = lt_test_tensor(state, dtype, shape);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        lt_store(&t, i, scale * lt_normal(seed, (uint64_t)i));
    return t;
}

lt_tensor lt_test_random(void *state, const char *shape, uint64_t seed)
{
    return lt_test_random_of(state, LT_F32, shape, seed, 1.0);
}

lt_tensor lt_test_random_f64(void *state, const char *shape, uint64_t seed)
{
    return lt_test_random_of(state, LT_F64, shape, seed, 1.0);
}

lt_tensor lt_test_converted(void *state, const lt_tensor *t, lt_dtype dtype)
{
    lt_tensor out = with_memory(state, lt_tensor_as(t, dtype));
    for (int64_t i = 0, n = lt_n_elems(t); i < n; i++)
        lt_store(&out, i, lt_load(t, i));
    return out;
}

void lt_test_guards(const lt_tensor *t, const char *file, int line)
{
    if (!t->data)
        return;
    const unsigned char *before = (const unsigned char *)t->data - GUARD;
    const unsigned char *after = (const unsigned char *)t->data + lt_tensor_bytes(t);
    for (int i = 0; i < GUARD; i++) {
        if (before[i] != GUARD_BYTE || after[i] != GUARD_BYTE) {
            print_error("somebody wrote %s %s\n",
                        before[i] != GUARD_BYTE ? "in front of" : "behind", lt_shape_print(t).s);
            _fail(file, line);
        }
    }
}

void lt_test_floats(const lt_tensor *t, double tol, const double *want, int64_t n, const char *file,
                    int line)
{
    if (lt_n_elems(t) != n) {
        print_error("%s does not have %lld numbers\n", lt_shape_print(t).s, (long long)n);
        _fail(file, line);
    }
    for (int64_t i = 0; i < n; i++) {
        const double got = lt_load(t, i);
        if (got == want[i] || fabs(got - want[i]) <= tol)
            continue;
        print_error("element %lld of %s is %.17g and should be %.17g within %g\n", (long long)i,
                    lt_shape_print(t).s, got, want[i], tol);
        _fail(file, line);
    }
}

double lt_test_difference(const lt_tensor *a, const lt_tensor *b)
{
    double worst = 0.0, scale = 0.0;
    assert_true(lt_same_shape(a, b));
    for (int64_t i = 0, n = lt_n_elems(a); i < n; i++) {
        const double x = lt_load(a, i), y = lt_load(b, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (isnan(x) || isnan(y) || isinf(x) || isinf(y))
            return (double)INFINITY;
        worst = fmax(worst, fabs(x - y));
    }
    for (int64_t i = 0, n = lt_n_elems(b); i < n; i++)
        if (isfinite(lt_load(b, i)))
            scale = fmax(scale, fabs(lt_load(b, i)));
    return worst / (scale > 0.0 ? scale : 1.0);
}

static void fill_inputs(lt_op_args *a, const lt_op_def *def, const lt_tensor *in, const void *attr)
{
    *a = (lt_op_args){.def = def, .attr = attr};
    for (int i = 0; i < def->n_in; i++)
        a->in[i] = in[i].rank < 0 ? NULL : &in[i];
}

// Calls the kernel of the column with a device and with exactly the scratch that the row asks for.
static lt_status launch(void *state, lt_test_column column, lt_op_args *a, lt_pass pass,
                        size_t scratch_bytes)
{
    const lt_kernel kernel = lt_op_kernel(a->def, column.backend, pass);
    assert_non_null(kernel);
    lt_device device = {
        .name = "test", .backend = column.backend, .pool = column.pool, .impl = column.impl};
    lt_tensor scratch = lt_tensor_1d(LT_U8, (int64_t)scratch_bytes);
    scratch = lt_test_garbage(state, &scratch);
    lt_run run = {.device = &device, .scratch = scratch.data, .scratch_bytes = scratch_bytes};
    a->run = &run;
    const lt_status st = kernel(a);
    assert_guards(&scratch);
    for (int i = 0; i < a->def->n_in; i++) {
        if (a->in[i])
            assert_guards(a->in[i]);
        if (a->din[i])
            assert_guards(a->din[i]);
    }
    for (int i = 0; i < a->def->n_out; i++)
        if (a->out[i])
            assert_guards(a->out[i]);
    a->run = NULL;
    return st;
}

static size_t scratch_of(const lt_op_args *a, lt_pass pass)
{
    return a->def->scratch ? a->def->scratch(a, pass) : 0;
}

lt_status lt_test_forward_on(void *state, lt_test_column column, const lt_op_def *def,
                             const lt_tensor *in, const void *attr, lt_tensor *out)
{
    lt_op_args a;
    lt_tensor shapes[LT_MAX_OUT];
    fill_inputs(&a, def, in, attr);
    for (int i = 0; i < def->n_out; i++)
        a.out[i] = &shapes[i];
    LT_TRY(def->infer(&a));
    for (int i = 0; i < def->n_out; i++) {
        out[i] = lt_test_garbage(state, &shapes[i]);
        a.out[i] = &out[i];
    }
    if (def->flags & LT_OP_VIEW) {
        if (lt_n_elems(&out[0]) > 0)
            memcpy(out[0].data, in[0].data, lt_tensor_bytes(&in[0]));
        return LT_OK;
    }
    return launch(state, column, &a, LT_FORWARD, scratch_of(&a, LT_FORWARD));
}

lt_status lt_test_forward(void *state, const lt_op_def *def, const lt_tensor *in, const void *attr,
                          lt_tensor *out)
{
    return lt_test_forward_on(state, (lt_test_column){.backend = LT_REF}, def, in, attr, out);
}

lt_status lt_test_backward_on(void *state, lt_test_column column, const lt_op_def *def,
                              const lt_tensor *in, const void *attr, lt_tensor *out,
                              const lt_tensor *dout, lt_tensor *din, uint32_t add)
{
    lt_op_args a;
    fill_inputs(&a, def, in, attr);
    for (int i = 0; i < def->n_out; i++)
        a.out[i] = &out[i];
    const size_t scratch = scratch_of(&a, LT_BACKWARD);
    lt_tensor shapes[LT_MAX_IN];
    for (int i = 0; i < def->n_in; i++) {
        if (a.in[i] && !(def->backward_reads & LT_IN(i))) {
            shapes[i] = lt_tensor_like(a.in[i]);
            a.in[i] = &shapes[i];
        }
        if (din[i].data)
            a.din[i] = &din[i];
    }
    for (int i = 0; i < def->n_out; i++) {
        if (!(def->backward_reads & LT_OUT(i)) && !(def->flags & LT_OP_YIELDS_IN_BACKWARD))
            a.out[i] = NULL;
        if (dout[i].data)
            a.dout[i] = &dout[i];
    }
    a.add = add;
    return launch(state, column, &a, LT_BACKWARD, scratch);
}
