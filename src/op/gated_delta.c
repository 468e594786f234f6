// SPDX-License-Identifier: Apache-2.0
// gated_delta: shape rule, reference and table row. The reference is the recurrence, token by token
// in double.
#include "op/gated_delta.h"
#include "device/cpu/scratch.h"
#include "op/cpu/kernels.h"
#include <math.h>
#include <string.h>

int64_t lt_gated_delta_flops(const lt_gated_delta_attr *attr)
{
    const int64_t dk = attr->key_dim, dv = attr->value_dim, c = LT_DELTA_CHUNK;
    return 2 * (int64_t)attr->value_heads * (3 * dv * c + 2 * dk * c + 3 * dk * dv);
}

static lt_status check_heads(const lt_gated_delta_attr *d)
{
    if (d->key_heads < 1 || d->value_heads < 1 || d->value_heads % d->key_heads != 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "gated_delta needs value_heads as a multiple of key_heads, got %d and %d",
                       d->value_heads, d->key_heads);
    }
    if (d->key_dim < 1 || d->value_dim < 1)
        return LT_FAIL(LT_ERR_CONFIG, "gated_delta needs heads of at least 1 number, got %d and %d",
                       d->key_dim, d->value_dim);
    if (d->chunk < 0 || d->chunk > LT_DELTA_CHUNK)
        return LT_FAIL(LT_ERR_CONFIG, "gated_delta needs a chunk of at most %d, got %d",
                       LT_DELTA_CHUNK, d->chunk);
    return LT_OK;
}

static lt_status infer(const lt_op_args *a)
{
    const lt_gated_delta_attr *d = a->attr;
    LT_TRY(check_heads(d));
    LT_TRY(lt_need_rank(a, 0, "qkv", 2));
    LT_TRY(lt_need_rank(a, 3, "segments", 1));
    LT_TRY(lt_need_dtype(a, 3, "segments", LT_I32));
    const lt_tensor *qkv = a->in[0];
    const int64_t keys = (int64_t)d->key_heads * d->key_dim,
                  values = (int64_t)d->value_heads * d->value_dim;
    LT_TRY(lt_need_2d(a, 0, "qkv", qkv->dtype, qkv->dim[0], 2 * keys + values));
    LT_TRY(lt_need_2d(a, 1, "g", lt_wide_dtype(qkv->dtype), qkv->dim[0], d->value_heads));
    LT_TRY(lt_need_2d(a, 2, "beta", lt_wide_dtype(qkv->dtype), qkv->dim[0], d->value_heads));
    *a->out[0] = lt_tensor_2d(qkv->dtype, qkv->dim[0], values);
    return LT_OK;
}

// One segment of one key head, and what its loops need.
typedef struct scan {
    const lt_op_args *a;
    const lt_gated_delta_attr *d;
    int64_t start, n, key_head, head; /* head: of values */
    int64_t dk, dv, width;            /* width of a row of qkv */
    double *q, *k, *dq, *dk_sum;      /* [n, dk]: of unit length, and their gradients */
    double *states;                   /* [n + 1, dk, dv]; forward has room for two */
    double *grad, *nu, *miss;         /* [dk, dv], [dv], [dv] */
} scan;

static int64_t place(const scan *s, int64_t t, int which, int64_t head, int64_t d)
{
    const int64_t keys = (int64_t)s->d->key_heads * s->dk;
    return (s->start + t) * s->width + which * keys + head * d;
}

// x / (sum x^2 + eps)^1/2
static void unit_rows(const scan *s, int which, double *out)
{
    for (int64_t t = 0; t < s->n; t++) {
        const int64_t at = place(s, t, which, s->key_head, s->dk);
        const double r =
            1.0 / sqrt(lt_dot(s->a->in[0], at, 1, s->a->in[0], at, 1, s->dk) + LT_UNIT_EPS);
        for (int64_t i = 0; i < s->dk; i++)
            out[t * s->dk + i] = r * lt_load(s->a->in[0], at + i);
    }
}

static lt_status open_scan(const lt_op_args *a, int64_t start, int64_t n, int64_t n_states, scan *s)
{
    const lt_gated_delta_attr *d = a->attr;
    *s = (scan){.a = a,
                .d = d,
                .start = start,
                .n = n,
                .dk = d->key_dim,
                .dv = d->value_dim,
                .width = a->in[0]->dim[1]};
    const int64_t cells = s->dk * s->dv, room = 4 * n * s->dk + (n_states + 1) * cells + 2 * s->dv;
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_DELTA, (size_t)room * sizeof(double), &memory));
    s->q = memory;
    s->k = s->q + n * s->dk;
    s->dq = s->k + n * s->dk;
    s->dk_sum = s->dq + n * s->dk;
    s->grad = s->dk_sum + n * s->dk;
    s->nu = s->grad + cells;
    s->miss = s->nu + s->dv;
    s->states = s->miss + s->dv;
    return LT_OK;
}

static double gate(const scan *s, int i, int64_t t)
{
    return lt_load(s->a->in[i], (s->start + t) * s->d->value_heads + s->head);
}

// S~ = e^g S; miss = v - S~^T k; nu = beta miss; S' = S~ + k nu^T. before and after may be one.
static void step(const scan *s, int64_t t, const double *before, double *after)
{
    const double decay = exp(gate(s, 1, t)), beta = gate(s, 2, t), *k = s->k + t * s->dk;
    for (int64_t j = 0; j < s->dv; j++)
        s->miss[j] = lt_load(s->a->in[0], place(s, t, 2, s->head, s->dv) + j);
    for (int64_t i = 0; i < s->dk; i++)
        for (int64_t j = 0; j < s->dv; j++)
            s->miss[j] -= decay * before[i * s->dv + j] * k[i];
    for (int64_t j = 0; j < s->dv; j++)
        s->nu[j] = beta * s->miss[j];
    for (int64_t i = 0; i < s->dk; i++)
        for (int64_t j = 0; j < s->dv; j++)
            after[i * s->dv + j] = decay * before[i * s->dv + j] + k[i] * s->nu[j];
}

static void forward_head(const scan *s)
{
    double *state = s->states;
    memset(state, 0, (size_t)(s->dk * s->dv) * sizeof *state);
    for (int64_t t = 0; t < s->n; t++) {
        step(s, t, state, state);
        for (int64_t j = 0; j < s->dv; j++) {
            double o = 0.0;
            for (int64_t i = 0; i < s->dk; i++)
                o += state[i * s->dv + j] * s->q[t * s->dk + i];
            lt_store(s->a->out[0], ((s->start + t) * s->d->value_heads + s->head) * s->dv + j,
                     o / sqrt((double)s->dk));
        }
    }
}

// Rows that no segment holds: zeros in a tensor, or in a gradient that is not added to.
static void clear_outside(const lt_op_args *a, const lt_tensor *t)
{
    const int32_t *s = lt_index(a->in[3]);
    const int64_t n = lt_n_elems(a->in[3]), width = lt_width(t), rows = lt_rows(t);
    const int64_t first = n > 0 ? s[0] : rows, last = n > 0 ? s[n - 1] : rows;
    for (int64_t k = 0; k < rows * width; k++)
        if (k / width < first || k / width >= last)
            lt_store(t, k, 0.0);
}

static lt_status forward_ref(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 3, a->in[0]->dim[0]));
    const int32_t *segments = lt_index(a->in[3]);
    const lt_gated_delta_attr *d = a->attr;
    scan s;
    clear_outside(a, a->out[0]);
    for (int64_t i = 0; i + 1 < lt_n_elems(a->in[3]); i++) {
        LT_TRY(open_scan(a, segments[i], segments[i + 1] - segments[i], 1, &s));
        for (s.head = 0; s.head < d->value_heads; s.head++) {
            s.key_head = s.head / (d->value_heads / d->key_heads);
            unit_rows(&s, 0, s.q);
            unit_rows(&s, 1, s.k);
            forward_head(&s);
        }
    }
    return LT_OK;
}

// Token t of the backward pass. On entry grad is that of the state after t, as later tokens see it;
// `after` and `before` are the states around t.
static void step_back(const scan *s, int64_t t, const double *before, const double *after)
{
    const double decay = exp(gate(s, 1, t)), beta = gate(s, 2, t),
                 scale = 1.0 / sqrt((double)s->dk);
    const double *q = s->q + t * s->dk, *k = s->k + t * s->dk;
    double *dq = s->dq + t * s->dk, *dk = s->dk_sum + t * s->dk, *grad = s->grad;
    const int64_t at = (s->start + t) * s->d->value_heads + s->head,
                  v = place(s, t, 2, s->head, s->dv);
    double dbeta = 0.0, dg = 0.0;
    for (int64_t j = 0; j < s->dv; j++)
        s->miss[j] = lt_load(s->a->in[0], v + j);
    for (int64_t i = 0; i < s->dk; i++)
        for (int64_t j = 0; j < s->dv; j++)
            s->miss[j] -= decay * before[i * s->dv + j] * k[i];
    for (int64_t j = 0; j < s->dv; j++) {
        const double d_o = scale * lt_dout(s->a, 0, at * s->dv + j);
        double dnu = 0.0;
        for (int64_t i = 0; i < s->dk; i++) {
            double *cell = grad + i * s->dv + j;
            *cell += q[i] * d_o;
            dq[i] += after[i * s->dv + j] * d_o;
            dnu += *cell * k[i];
            dk[i] += *cell * beta * s->miss[j];
        }
        dbeta += dnu * s->miss[j];
        const double y = beta * dnu;
        lt_put_grad(s->a, 0, v + j, y);
        for (int64_t i = 0; i < s->dk; i++) {
            const double faded = decay * before[i * s->dv + j];
            double *cell = grad + i * s->dv + j;
            dk[i] -= faded * y;
            *cell -= k[i] * y; // of the faded state
            dg += *cell * faded;
            *cell *= decay;
        }
    }
    lt_put_grad(s->a, 1, at, dg);
    lt_put_grad(s->a, 2, at, dbeta);
}

static void backward_head(const scan *s)
{
    const int64_t cells = s->dk * s->dv;
    memset(s->states, 0, (size_t)cells * sizeof *s->states);
    memset(s->grad, 0, (size_t)cells * sizeof *s->grad);
    for (int64_t t = 0; t < s->n; t++)
        step(s, t, s->states + t * cells, s->states + (t + 1) * cells);
    for (int64_t t = s->n - 1; t >= 0; t--)
        step_back(s, t, s->states + t * cells, s->states + (t + 1) * cells);
}

// dx = r (dy - y (y . dy)), y of unit length
static void put_unit_grad(const scan *s, int which, const double *y, const double *dy)
{
    for (int64_t t = 0; t < s->n; t++, y += s->dk, dy += s->dk) {
        const int64_t at = place(s, t, which, s->key_head, s->dk);
        const double r =
            1.0 / sqrt(lt_dot(s->a->in[0], at, 1, s->a->in[0], at, 1, s->dk) + LT_UNIT_EPS);
        double along = 0.0;
        for (int64_t i = 0; i < s->dk; i++)
            along += y[i] * dy[i];
        for (int64_t i = 0; i < s->dk; i++)
            lt_put_grad(s->a, 0, at + i, r * (dy[i] - y[i] * along));
    }
}

static void backward_key_head(scan *s)
{
    const int64_t group = s->d->value_heads / s->d->key_heads;
    unit_rows(s, 0, s->q);
    unit_rows(s, 1, s->k);
    memset(s->dq, 0, (size_t)(2 * s->n * s->dk) * sizeof *s->dq); // and dk_sum behind it
    for (s->head = s->key_head * group; s->head < (s->key_head + 1) * group; s->head++)
        backward_head(s);
    put_unit_grad(s, 0, s->q, s->dq);
    put_unit_grad(s, 1, s->k, s->dk_sum);
}

static lt_status backward_ref(const lt_op_args *a)
{
    LT_TRY(lt_need_segments(a, 3, a->in[0]->dim[0]));
    const int32_t *segments = lt_index(a->in[3]);
    scan s;
    for (int i = 0; i < 3; i++)
        if (a->din[i] && !(a->add & LT_IN(i)))
            clear_outside(a, a->din[i]);
    for (int64_t i = 0; i + 1 < lt_n_elems(a->in[3]); i++) {
        const int64_t n = segments[i + 1] - segments[i];
        LT_TRY(open_scan(a, segments[i], n, n + 1, &s));
        for (s.key_head = 0; s.key_head < s.d->key_heads; s.key_head++)
            backward_key_head(&s);
    }
    return LT_OK;
}

static int64_t flops(const lt_op_args *a)
{
    return a->in[0]->dim[0] * lt_gated_delta_flops(a->attr);
}

const lt_op_def lt_op_gated_delta = {
    .name = "gated_delta",
    .n_in = 4,
    .n_out = 1,
    .dtypes = LT_FLOATS,
    .index_in = LT_IN(3),
    .infer = infer,
    .forward = {[LT_REF] = forward_ref, [LT_CPU] = lt_gated_delta_fwd_cpu},
    .backward = {[LT_REF] = backward_ref, [LT_CPU] = lt_gated_delta_bwd_cpu},
    .backward_reads = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3),
    .flops = flops,
    .flags = LT_OP_MUST_SAVE | LT_OP_RECURRENCE,
};

lt_val lt_gated_delta(lt_builder *b, lt_val qkv, lt_val g, lt_val beta, lt_gated_delta_attr attr)
{
    const lt_val in[] = {qkv, g, beta, lt_batch_of(b, LT_BATCH_SEGMENTS)};
    return lt_op_apply(b, &lt_op_gated_delta, in, 4, &attr, sizeof attr, NULL);
}
