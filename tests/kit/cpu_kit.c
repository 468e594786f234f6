// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels against the reference, in all the ways that must agree.
#include "tests/kit/cpu_kit.h"
#include "base/rng.h"
#include "device/cpu/isa.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_POOLS = 3 };

// One dtype's inputs, and what the reference makes of them.
typedef struct run {
    void *state;
    const lt_cpu_check *check;
    lt_dtype dtype;
    double tol;
    lt_pool *pool[N_POOLS];
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT], dout[LT_MAX_OUT];
    const char *what; // for messages
    bool poisoned;    // an input holds a NaN
} run;

static const lt_test_column ref = {.backend = LT_REF};

static lt_tensor random_like(const run *r, const lt_tensor *like, uint64_t seed)
{
    lt_tensor t = lt_test_garbage(r->state, like);
    for (int64_t i = 0, n = lt_n_elems(&t); i < n; i++)
        lt_store(&t, i, lt_normal(seed, (uint64_t)i));
    return t;
}

static lt_tensor copy_of(void *state, const lt_tensor *t)
{
    lt_tensor c = lt_test_garbage(state, t);
    if (lt_n_elems(t) > 0)
        memcpy(c.data, t->data, lt_tensor_bytes(t));
    return c;
}

// NaN exactly where the reference has it, else near.
static void compare(const run *r, const lt_tensor *got, const lt_tensor *want, const char *name,
                    int i, lt_isa isa)
{
    const double d = lt_test_difference(got, want);
    int64_t worst = 0;
    double most = -1.0, scale = 0.0;
    if (d <= r->tol)
        return;
    for (int64_t k = 0, n = lt_n_elems(got); k < n; k++) {
        const double x = lt_load(got, k), y = lt_load(want, k);
        const bool known = isnan(x) && (isnan(y) || (r->poisoned && r->check->nan_spreads));
        const double off = x == y || known        ? 0.0
                           : isnan(x) || isnan(y) ? (double)INFINITY
                                                  : fabs(x - y);
        worst = off > most ? k : worst;
        most = fmax(most, off);
        scale = fmax(scale, isfinite(y) ? fabs(y) : 0.0);
    }
    if (most <= r->tol * scale)
        return;
    fail_msg("%s in %s (%s), %s: %s[%d] %s differs from REF by %g (allowed %g); most at %lld: "
             "%.9g, REF %.9g",
             r->check->def->name, lt_dtype_name(r->dtype), lt_isa_name(isa), r->what, name, i,
             lt_shape_print(got).s, d, r->tol, (long long)worst, lt_load(got, worst),
             lt_load(want, worst));
}

static void same_bits(const run *r, const lt_tensor *a, const lt_tensor *b, int i, lt_isa isa)
{
    const size_t bytes = lt_tensor_bytes(a);
    if (bytes == 0 || (a->data && b->data && memcmp(a->data, b->data, bytes) == 0))
        return;
    fail_msg("%s in %s (%s), %s: tensor %d has other bits on more threads", r->check->def->name,
             lt_dtype_name(r->dtype), lt_isa_name(isa), r->what, i);
}

static void forward(run *r)
{
    const lt_cpu_check *c = r->check;
    assert_ok(lt_test_forward_on(r->state, ref, c->def, r->in, c->attr, r->out));
    if (!c->def->forward[LT_CPU])
        return;
    for (int isa = 0; isa <= (int)lt_cpu_isa(); isa++) {
        lt_cpu_state cpu = {.isa = (lt_isa)isa};
        lt_tensor first[LT_MAX_OUT] = {{0}};
        for (int p = 0; p < N_POOLS; p++) {
            const lt_test_column column = {.backend = LT_CPU, .pool = r->pool[p], .impl = &cpu};
            lt_tensor out[LT_MAX_OUT];
            assert_ok(lt_test_forward_on(r->state, column, c->def, r->in, c->attr, out));
            for (int i = 0; i < c->def->n_out; i++) {
                if (p == 0)
                    compare(r, &out[i], &r->out[i], "out", i, cpu.isa);
                else
                    same_bits(r, &out[i], &first[i], i, cpu.isa);
                first[i] = p == 0 ? out[i] : first[i];
            }
        }
    }
}

static bool has_grad(const run *r, int i)
{
    const lt_cpu_check *c = r->check;
    return r->in[i].rank >= 0 && lt_dtype_is_float(r->in[i].dtype) &&
           !((c->no_grad | c->def->index_in) & LT_IN(i));
}

// Buffers of gradients as they are before the call: garbage, or numbers to add to.
static void start_gradients(const run *r, uint32_t asked, uint32_t add, lt_tensor *din)
{
    for (int i = 0; i < r->check->def->n_in; i++) {
        din[i] = (lt_tensor){0};
        if (!(asked & LT_IN(i)))
            continue;
        const bool wide = r->check->params & LT_IN(i);
        const lt_tensor like = lt_tensor_as(&r->in[i], wide ? LT_F32 : r->in[i].dtype);
        din[i] = add & LT_IN(i) ? random_like(r, &like, 77 + (uint64_t)i)
                                : lt_test_garbage(r->state, &like);
    }
}

static void backward_once(run *r, const lt_test_column *column, const lt_tensor *dout,
                          uint32_t asked, uint32_t add, lt_tensor *out, lt_tensor *din)
{
    const lt_cpu_check *c = r->check;
    const bool yields = c->def->flags & LT_OP_YIELDS_IN_BACKWARD;
    for (int i = 0; i < c->def->n_out; i++)
        out[i] = yields ? lt_test_garbage(r->state, &r->out[i]) : copy_of(r->state, &r->out[i]);
    start_gradients(r, asked, add, din);
    assert_ok(lt_test_backward_on(r->state, *column, c->def, r->in, c->attr, out, dout, din, add));
}

static void backward(run *r, const lt_tensor *dout, uint32_t asked, uint32_t add, const char *what)
{
    const lt_cpu_check *c = r->check;
    lt_tensor want[LT_MAX_IN], want_out[LT_MAX_OUT], first[LT_MAX_IN] = {{0}};
    r->what = what;
    backward_once(r, &ref, dout, asked, add, want_out, want);
    for (int isa = 0; isa <= (int)lt_cpu_isa(); isa++) {
        lt_cpu_state cpu = {.isa = (lt_isa)isa};
        for (int p = 0; p < N_POOLS; p++) {
            const lt_test_column column = {.backend = LT_CPU, .pool = r->pool[p], .impl = &cpu};
            lt_tensor din[LT_MAX_IN], out[LT_MAX_OUT];
            backward_once(r, &column, dout, asked, add, out, din);
            for (int i = 0; i < c->def->n_in; i++) {
                if (!din[i].data)
                    continue;
                if (p == 0)
                    compare(r, &din[i], &want[i], "din", i, cpu.isa);
                else
                    same_bits(r, &din[i], &first[i], i, cpu.isa);
                first[i] = p == 0 ? din[i] : first[i];
            }
            for (int i = 0; i < c->def->n_out; i++)
                compare(r, &out[i], &want_out[i], "out", i, cpu.isa);
        }
    }
}

static void all_backwards(run *r)
{
    const lt_cpu_check *c = r->check;
    uint32_t all = 0;
    if (!c->def->backward[LT_CPU])
        return;
    for (int i = 0; i < c->def->n_in; i++)
        all |= has_grad(r, i) ? LT_IN(i) : 0;
    backward(r, r->dout, all, 0, "backward over garbage");
    backward(r, r->dout, all, all, "backward with add bits");
    for (int i = 0; i < c->def->n_in; i++) {
        if (all & LT_IN(i)) {
            backward(r, r->dout, LT_IN(i), 0, "one gradient alone");
            backward(r, r->dout, all, LT_IN(i), "one add bit alone");
        }
    }
    for (int i = 0; i < c->def->n_out; i++) {
        lt_tensor dout[LT_MAX_OUT];
        memcpy(dout, r->dout, sizeof dout);
        dout[i] = (lt_tensor){0};
        backward(r, dout, all, 0, "a missing upstream gradient");
        backward(r, dout, all, all, "a missing upstream gradient, with add bits");
    }
    backward(r, r->dout, 0, 0, "no gradient asked for");
}

// A NaN in each float input in turn.
static void poisoned(run *r)
{
    const lt_cpu_check *c = r->check;
    r->poisoned = true;
    for (int i = 0; i < c->def->n_in; i++) {
        if (r->in[i].rank < 0 || !lt_dtype_is_float(r->in[i].dtype) || lt_n_elems(&r->in[i]) == 0)
            continue;
        const lt_tensor clean = r->in[i];
        uint32_t all = 0;
        r->in[i] = copy_of(r->state, &clean);
        lt_store(&r->in[i], lt_n_elems(&clean) / 2, (double)NAN);
        r->what = "a NaN in an input";
        forward(r);
        for (int k = 0; k < c->def->n_in; k++)
            all |= has_grad(r, k) ? LT_IN(k) : 0;
        if (c->def->backward[LT_CPU])
            backward(r, r->dout, all, 0, "a NaN in an input, backward");
        r->in[i] = clean;
    }
}

static void run_dtype(run *r)
{
    const lt_cpu_check *c = r->check;
    for (int i = 0; i < c->def->n_in; i++) {
        const bool keep =
            c->in[i].rank < 0 || !lt_dtype_is_float(c->in[i].dtype) || (c->wide & LT_IN(i));
        r->in[i] = keep ? c->in[i] : lt_test_converted(r->state, &c->in[i], r->dtype);
    }
    r->what = "forward";
    forward(r);
    for (int i = 0; i < c->def->n_out; i++)
        r->dout[i] = c->no_upstream & LT_OUT(i) ? (lt_tensor){0}
                                                : random_like(r, &r->out[i], 5 + (uint64_t)i);
    all_backwards(r);
    poisoned(r);
}

void lt_test_cpu_agrees(void *state, const lt_cpu_check *check)
{
    static const int threads[N_POOLS] = {1, 2, 4};
    run r = {.check = check};
    for (int p = 0; p < N_POOLS; p++)
        assert_ok(lt_pool_create(threads[p], &r.pool[p]));
    for (int d = 0; d < 2; d++) {
        lt_arena *arena;
        assert_ok(lt_arena_create(&arena, "a check"));
        r.state = arena;
        r.dtype = d == 0 ? LT_F32 : LT_BF16;
        r.tol = d == 0 ? (check->tol > 0 ? check->tol : 2e-6)
                       : (check->tol_bf16 > 0 ? check->tol_bf16 : 0.008);
        run_dtype(&r);
        lt_arena_destroy(arena);
    }
    for (int p = 0; p < N_POOLS; p++)
        lt_pool_destroy(r.pool[p]);
    (void)state;
}
