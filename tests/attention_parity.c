// SPDX-License-Identifier: Apache-2.0
// attention_parity: the library's fused attention in bf16 beside the plain kernels in f32 on the
// same numbers, over shapes of text and of vision towers. Outputs and scratch start as garbage
// between guard bytes, gradients overwrite or add, the deterministic form is run twice. With the
// argument `time`: rates of large shapes, on a hot chip; `deterministic`, `small`: those cases
// alone (small: for compute-sanitizer). Exit code 1 when something is outside its limit, 77 when
// there is no GPU.
#include "base/memory.h"
#include "base/rng.h"
#include "op/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of norms: |difference| / |value|. bf16 rounds to 2^-9 on average over a third of it; the fused
// kernels also round weights and their gradients in between (spec: 2.0e-3 to 3.0e-3 against f64).
static const double limit_out = 4e-3, limit_grad = 6e-3, limit_lse = 1e-4; // lse: largest, absolute

enum {
    GUARD = 256,
    GUARDS = 2 * GUARD,
    GUARD_BYTE = 0xA5,
    GARBAGE_BYTE = 0xFF,
    MAX_SEGMENTS = 300
};

typedef struct attention_case {
    int32_t heads, kv_heads, d;
    bool causal, deterministic;
    const char *lengths; // "3x128 7 0": segments; a leading "+5" leaves rows outside of all
    uint32_t add, missing;
} attention_case;

static const attention_case cases[] = {
    {32, 8, 128, true, false, "17", 0, 0},
    {32, 8, 128, true, false, "64", 0, 0},
    {32, 8, 128, true, false, "65", 0, 0},
    {32, 8, 128, true, false, "127", 0, 0},
    {32, 8, 128, true, false, "128", 0, 0},
    {32, 8, 128, true, false, "1000", 0, 0},
    {32, 8, 128, true, false, "2048", 0, 0},
    {32, 8, 128, true, false, "1", 0, 0},
    {8, 2, 128, true, false, "1000", 0, 0},
    {8, 1, 128, true, false, "1000", 0, 0},
    {8, 8, 128, true, false, "1000", 0, 0},
    {16, 8, 128, true, false, "512", 0, 0},
    {8, 2, 128, true, false, "4x512", 0, 0},
    {8, 8, 64, true, false, "3x256", 0, 0},
    {8, 2, 128, true, false, "700 400 100", 0, 0},
    {8, 2, 128, true, false, "30 1000 1 900 0 5 128 1 1 64 300", 0, 0},
    {8, 2, 128, true, false, "40x1 3", 0, 0},
    {8, 2, 128, true, false, "+5 256 256 +3", 0, 0},
    {8, 2, 128, true, false, "+5 200 60 +9", 0, 0},
    {8, 2, 128, true, false, "1000", 1, 0},
    {8, 2, 128, true, false, "512", 7, 0},
    {8, 2, 128, true, false, "700 400", 6, 1},
    {8, 2, 128, true, false, "256 256", 0, 6},
    {8, 2, 128, true, true, "1000", 0, 0},
    {8, 2, 128, true, true, "1024", 0, 0},
    {32, 8, 128, true, true, "2048", 0, 0},
    {8, 2, 128, true, true, "700 400 100 1", 0, 0},
    {8, 2, 128, true, true, "+3 17 64 65 1 2 0 300 +2", 7, 0},
    {8, 2, 128, true, true, "4x256", 0, 0},
    {8, 2, 128, true, true, "4x128", 0, 0},
    {8, 2, 128, true, true, "1", 0, 0},
    {8, 2, 128, true, true, "17", 0, 0},
    {8, 2, 128, true, true, "129 131 140 150", 0, 0},
    {8, 2, 256, true, true, "12 100 300", 0, 0},
    {4, 4, 64, false, true, "30x4 129", 0, 0},
    {16, 16, 64, false, true, "2x512", 0, 0},
    {16, 16, 72, false, true, "2x512", 0, 0},
    {4, 2, 8, true, true, "300 200", 0, 0},
    {16, 16, 72, false, true, "500 300", 0, 0},
    {16, 16, 64, false, false, "2x1024", 0, 0},
    {16, 16, 64, false, false, "1024 640 96 1024", 0, 0},
    {16, 16, 64, false, false, "100x64", 0, 0},
    {16, 16, 72, false, false, "2x1024", 0, 0},
    {16, 16, 72, false, false, "1024 640 96 1024 4", 0, 0},
    {16, 16, 80, false, false, "2x1024", 0, 0},
    {16, 16, 80, false, false, "1024 640 96", 0, 0},
    {4, 2, 40, false, false, "300 200", 0, 0},
    {4, 2, 8, true, false, "300 200", 0, 0},
    {6, 3, 96, true, false, "384 200", 0, 0},
    {8, 2, 256, true, false, "512 200", 0, 0},
    {8, 2, 256, true, false, "512", 0, 0},
    {4, 2, 72, true, false, "300 200 80", 7, 0},
    {3, 1, 20, true, false, "50", 0, 0},
    {8, 2, 128, true, false, "0", 0, 0},
    {8, 2, 128, true, false, "+100 0", 0, 0},
};

typedef struct buffer {
    lt_tensor t; // on the device; NULL data: none
    void *memory;
} buffer;

typedef struct world {
    lt_device *gpu;
    lt_stream *stream;
    lt_arena *arena; // of a case
    lt_vec held;     // device memory of a case
    const char *broken;
} world;

static void hear(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)ctx;
    (void)level;
    (void)area;
    printf("     %s\n", text);
}

// ---- memory

static lt_status take(world *w, lt_tensor shape, int byte, buffer *out)
{
    const size_t bytes = lt_tensor_bytes(&shape);
    out->t = shape;
    LT_TRY(w->gpu->alloc(w->gpu, bytes + GUARDS, "a tensor of the test", &out->memory));
    LT_TRY(lt_vec_push(&w->held, &out->memory));
    out->t.data = (char *)out->memory + GUARD;
    LT_TRY(w->gpu->fill(w->gpu, w->stream, out->memory, GUARD_BYTE, bytes + GUARDS));
    return w->gpu->fill(w->gpu, w->stream, out->t.data, byte, bytes);
}

static lt_status fetch(world *w, const buffer *b, lt_tensor *out)
{
    const size_t bytes = lt_tensor_bytes(&b->t);
    void *memory = NULL;
    LT_TRY(lt_arena_take(w->arena, bytes + GUARDS, &memory));
    LT_TRY(
        w->gpu->copy(w->gpu, w->stream, memory, b->memory, bytes + GUARDS, LT_COPY_DEVICE_TO_HOST));
    LT_TRY(w->gpu->stream_sync(w->gpu, w->stream));
    const unsigned char *byte = memory;
    for (size_t i = 0; i < GUARD; i++)
        if (byte[i] != GUARD_BYTE || byte[GUARD + bytes + i] != GUARD_BYTE)
            w->broken = "bytes beside a tensor were written";
    *out = b->t;
    out->data = (char *)memory + GUARD;
    return LT_OK;
}

static void give_back(world *w)
{
    for (int64_t i = 0; i < w->held.n; i++)
        w->gpu->free(w->gpu, LT_AT(&w->held, void *, i));
    lt_vec_clear(&w->held);
    lt_arena_reset(w->arena);
}

// Normal numbers that bf16 has, in bf16 and in f32.
static lt_status numbers(world *w, int64_t rows, int64_t cols, uint64_t seed, buffer out[2])
{
    const lt_tensor narrow = lt_tensor_2d(LT_BF16, rows, cols),
                    wide = lt_tensor_as(&narrow, LT_F32);
    const int64_t n = rows * cols;
    void *memory = NULL;
    LT_TRY(lt_arena_take(w->arena, (size_t)n * 6, &memory));
    float *f = memory;
    uint16_t *h = (uint16_t *)(f + n);
    uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
    for (int64_t i = 0; i < n; i++) { // a sum of twelve uniform numbers, quick enough for millions
        uint32_t sum = 0;
        for (int k = 0; k < 3; k++) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            const uint32_t bits = (uint32_t)(state >> 32);
            sum += (bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24);
        }
        h[i] = lt_f32_to_bf16(((float)sum - 12.0F * 127.5F) / 256.0F);
        f[i] = lt_bf16_to_f32(h[i]);
    }
    LT_TRY(take(w, narrow, GARBAGE_BYTE, &out[0]));
    LT_TRY(take(w, wide, GARBAGE_BYTE, &out[1]));
    LT_TRY(
        w->gpu->copy(w->gpu, w->stream, out[0].t.data, h, (size_t)n * 2, LT_COPY_HOST_TO_DEVICE));
    LT_TRY(
        w->gpu->copy(w->gpu, w->stream, out[1].t.data, f, (size_t)n * 4, LT_COPY_HOST_TO_DEVICE));
    return w->gpu->stream_sync(w->gpu, w->stream);
}

// "+5 2x128 7": a table that starts at 5.
static int64_t read_lengths(const char *text, int32_t segments[MAX_SEGMENTS + 1], int64_t *n)
{
    int64_t count = 0, at = 0;
    segments[0] = 0;
    while (*text) {
        char *end = NULL;
        const bool outside = *text == '+';
        long value = strtol(text + outside, &end, 10), times = 1;
        if (*end == 'x') {
            times = value;
            value = strtol(end + 1, &end, 10);
        }
        for (long k = 0; k < times; k++) {
            at += value;
            if (outside && count == 0)
                segments[0] = (int32_t)at;
            else if (!outside && count < MAX_SEGMENTS)
                segments[++count] = (int32_t)at;
        }
        text = *end ? end + 1 : end;
    }
    *n = count;
    return at;
}

// ---- a case

typedef struct subject {
    const attention_case *c;
    lt_attention_attr attr;
    int64_t tokens;
    buffer q[2], k[2], v[2], d_out[2]; // bf16, f32
    buffer before[3][2];               // what gradients are added to
    lt_tensor segments;
    size_t scratch[2]; // bytes by pass
    void *scratch_memory;
} subject;

typedef struct result {
    buffer o, lse, grad[3];
} result;

static lt_status open_subject(world *w, const attention_case *c, subject *s)
{
    void *memory = NULL;
    buffer table;
    int64_t n;
    *s = (subject){.c = c};
    s->attr = (lt_attention_attr){.heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .causal = c->causal,
                                  .deterministic = c->deterministic};
    LT_TRY(lt_arena_take(w->arena, (MAX_SEGMENTS + 1) * sizeof(int32_t), &memory));
    s->tokens = read_lengths(c->lengths, memory, &n);
    const int64_t q = (int64_t)c->heads * c->d, kv = (int64_t)c->kv_heads * c->d;
    LT_TRY(numbers(w, s->tokens, q, 1, s->q));
    LT_TRY(numbers(w, s->tokens, kv, 2, s->k));
    LT_TRY(numbers(w, s->tokens, kv, 3, s->v));
    LT_TRY(numbers(w, s->tokens, q, 4, s->d_out));
    for (int i = 0; i < 3; i++)
        LT_TRY(numbers(w, s->tokens, i == 0 ? q : kv, 5 + (uint64_t)i, s->before[i]));
    LT_TRY(take(w, lt_tensor_1d(LT_I32, n + 1), 0, &table));
    s->segments = table.t;
    s->segments.host = memory;
    LT_TRY(w->gpu->copy(w->gpu, w->stream, table.t.data, memory, (size_t)(n + 1) * 4,
                        LT_COPY_HOST_TO_DEVICE));
    lt_op_args a = {.def = &lt_op_attention, .attr = &s->attr, .add = c->add, .backend = LT_CUDA};
    a.in[0] = &s->q[0].t, a.in[1] = &s->k[0].t, a.in[2] = &s->v[0].t, a.in[3] = &s->segments;
    for (int i = 0; i < 3; i++)
        a.din[i] = c->missing & LT_IN(i) ? NULL : &s->q[0].t;
    for (int pass = 0; pass < 2; pass++)
        s->scratch[pass] = lt_op_attention.scratch(&a, (lt_pass)pass);
    return LT_OK;
}

// wide: the plain kernels in f32, which have no scratch; o and lse may come from another run.
static lt_status run(world *w, const subject *s, bool wide, lt_pass pass, result *r)
{
    buffer scratch = {0};
    const size_t bytes = wide ? 0 : s->scratch[pass];
    if (bytes > 0)
        LT_TRY(take(w, lt_tensor_1d(LT_U8, (int64_t)bytes), GARBAGE_BYTE, &scratch));
    const lt_run how = {
        .device = w->gpu, .stream = w->stream, .scratch = scratch.t.data, .scratch_bytes = bytes};
    lt_op_args a = {.def = &lt_op_attention, .attr = &s->attr, .run = &how};
    a.in[0] = &s->q[wide].t, a.in[1] = &s->k[wide].t, a.in[2] = &s->v[wide].t;
    a.in[3] = &s->segments;
    if (pass == LT_FORWARD) {
        LT_TRY(take(w, lt_tensor_like(a.in[0]), GARBAGE_BYTE, &r->o));
        LT_TRY(take(w, lt_tensor_2d(LT_F32, s->c->heads, s->tokens), GARBAGE_BYTE, &r->lse));
    }
    a.out[0] = &r->o.t, a.out[1] = &r->lse.t;
    for (int i = 0; pass == LT_BACKWARD && i < 3; i++) {
        if (s->c->missing & LT_IN(i))
            continue;
        LT_TRY(take(w, lt_tensor_like(a.in[i]), GARBAGE_BYTE, &r->grad[i]));
        if (s->c->add & LT_IN(i))
            LT_TRY(w->gpu->copy(w->gpu, w->stream, r->grad[i].t.data, s->before[i][wide].t.data,
                                lt_tensor_bytes(&r->grad[i].t), LT_COPY_ON_DEVICE));
        a.din[i] = &r->grad[i].t;
    }
    a.dout[0] = pass == LT_BACKWARD ? &s->d_out[wide].t : NULL;
    a.add = s->c->add;
    LT_TRY((pass == LT_FORWARD ? lt_op_attention.forward : lt_op_attention.backward)[LT_CUDA](&a));
    lt_tensor ignored;
    return scratch.memory && bytes < (64U << 20) ? fetch(w, &scratch, &ignored)
                                                 : w->gpu->stream_sync(w->gpu, w->stream);
}

static lt_status difference(world *w, const buffer *got, const buffer *want, bool largest,
                            double *out)
{
    lt_tensor x, y;
    LT_TRY(fetch(w, got, &x));
    LT_TRY(fetch(w, want, &y));
    double sum = 0.0, norm = 0.0, most = 0.0;
    for (int64_t i = 0, n = lt_n_elems(&x); i < n; i++) {
        const double a = lt_load(&x, i), b = lt_load(&y, i);
        if (a == b)
            continue;
        sum += (a - b) * (a - b);
        most = fabs(a - b) <= most ? most : fabs(a - b); // keeps a NaN
    }
    for (int64_t i = 0, n = lt_n_elems(&y); i < n; i++)
        if (isfinite(lt_load(&y, i)))
            norm += lt_load(&y, i) * lt_load(&y, i);
    *out = largest ? most : sqrt(sum / fmax(norm, 1e-30));
    return LT_OK;
}

static lt_status same_bits(world *w, const buffer *a, const buffer *b)
{
    lt_tensor x, y;
    if (!a->memory)
        return LT_OK;
    LT_TRY(fetch(w, a, &x));
    LT_TRY(fetch(w, b, &y));
    if (memcmp(x.data, y.data, lt_tensor_bytes(&x)) != 0)
        w->broken = "two runs gave different bits";
    return LT_OK;
}

static bool judge(const world *w, const attention_case *c, const double error[5])
{
    const double limit[5] = {limit_out, limit_lse, limit_grad, limit_grad, limit_grad};
    bool ok = !w->broken;
    for (int i = 0; i < 5; i++)
        ok = ok && error[i] <= limit[i]; // false for a NaN
    printf(
        "%s %d/%d d%d%s%s \"%s\" add %u without %u: o %.2e lse %.1e dq %.2e dk %.2e dv %.2e%s%s\n",
        ok ? "ok  " : "FAIL", c->heads, c->kv_heads, c->d, c->causal ? " causal" : "",
        c->deterministic ? " deterministic" : "", c->lengths, c->add, c->missing, error[0],
        error[1], error[2], error[3], error[4], w->broken ? ": " : "", w->broken ? w->broken : "");
    (void)fflush(stdout);
    return ok;
}

static lt_status one_case(world *w, const attention_case *c, bool *ok)
{
    subject s;
    result want = {0}, got = {0}, again = {0};
    double error[5] = {0};
    w->broken = NULL;
    LT_TRY(open_subject(w, c, &s));
    LT_TRY(run(w, &s, true, LT_FORWARD, &want));
    LT_TRY(run(w, &s, true, LT_BACKWARD, &want));
    LT_TRY(run(w, &s, false, LT_FORWARD, &got));
    LT_TRY(run(w, &s, false, LT_FORWARD, &again));
    LT_TRY(difference(w, &got.o, &want.o, false, &error[0]));
    LT_TRY(difference(w, &got.lse, &want.lse, true, &error[1]));
    LT_TRY(same_bits(w, &got.o, &again.o));
    LT_TRY(same_bits(w, &got.lse, &again.lse));
    LT_TRY(run(w, &s, false, LT_BACKWARD, &got));
    for (int i = 0; i < 3; i++)
        if (got.grad[i].memory)
            LT_TRY(difference(w, &got.grad[i], &want.grad[i], false, &error[2 + i]));
    if (c->deterministic) {
        for (int k = 0; k < 3; k++) {
            LT_TRY(run(w, &s, false, LT_BACKWARD, &again));
            for (int i = 0; i < 3; i++)
                LT_TRY(same_bits(w, &got.grad[i], &again.grad[i]));
        }
    }
    *ok = judge(w, c, error);
    return LT_OK;
}

// ---- times

static const attention_case timed[] = {
    {32, 8, 128, true, false, "4096", 0, 0},
    {32, 8, 128, true, false, "16384", 0, 0},
    {32, 8, 128, true, false, "4x4096", 0, 0},
    {32, 8, 128, true, false, "9000 4000 2500 800 84", 0, 0},
    {32, 8, 128, true, true, "16384", 0, 0},
    {32, 8, 128, true, true, "4095 4096 4094 4099", 0, 0},
    {16, 16, 64, false, false, "10x4096", 0, 0},
    {16, 16, 64, false, false, "4096 4092 3900 4000 4096 3996 4040 4096 4096 4096", 0, 0},
    {16, 16, 64, false, false, "4096 1024 2048 300 4096 3996 1500 700 4096 4096", 0, 0},
    {16, 16, 72, false, false, "10x4096", 0, 0},
};

static lt_status time_pass(world *w, const subject *s, lt_pass pass, result *r, buffer *scratch,
                           double *ms)
{
    const lt_run how = {.device = w->gpu,
                        .stream = w->stream,
                        .scratch = scratch->t.data,
                        .scratch_bytes = lt_tensor_bytes(&scratch->t)};
    lt_op_args a = {.def = &lt_op_attention, .attr = &s->attr, .run = &how};
    a.in[0] = &s->q[0].t, a.in[1] = &s->k[0].t, a.in[2] = &s->v[0].t, a.in[3] = &s->segments;
    a.out[0] = &r->o.t, a.out[1] = &r->lse.t;
    a.dout[0] = pass == LT_BACKWARD ? &s->d_out[0].t : NULL;
    for (int i = 0; pass == LT_BACKWARD && i < 3; i++)
        a.din[i] = &r->grad[i].t;
    const lt_kernel kernel =
        (pass == LT_FORWARD ? lt_op_attention.forward : lt_op_attention.backward)[LT_CUDA];
    const double begin = lt_clock_now();
    LT_TRY(kernel(&a));
    LT_TRY(w->gpu->stream_sync(w->gpu, w->stream));
    const double first = lt_clock_now() - begin;
    double host = 0.0;
    enum { WARM, MEASURE, N_ROUNDS };
    for (int round = WARM; round < N_ROUNDS; round++) {
        const double from = lt_clock_now();
        int n = 0;
        while (n < 10 || lt_clock_now() - from < 0.35) {
            const double call = lt_clock_now();
            LT_TRY(kernel(&a));
            host = lt_clock_now() - call;
            if (++n % 10 == 0)
                LT_TRY(w->gpu->stream_sync(w->gpu, w->stream));
        }
        LT_TRY(w->gpu->stream_sync(w->gpu, w->stream));
        *ms = (lt_clock_now() - from) * 1e3 / n;
    }
    printf("%s %.3f ms (first %.0f ms, host %.0f us)", pass == LT_FORWARD ? "forward" : "backward",
           *ms, first * 1e3, host * 1e6);
    return LT_OK;
}

static lt_status time_case(world *w, const attention_case *c)
{
    subject s;
    result r = {0};
    buffer scratch;
    double ms;
    LT_TRY(open_subject(w, c, &s));
    const int64_t q = (int64_t)c->heads * c->d, kv = (int64_t)c->kv_heads * c->d;
    LT_TRY(take(w, lt_tensor_2d(LT_BF16, s.tokens, q), 0, &r.o));
    LT_TRY(take(w, lt_tensor_2d(LT_F32, c->heads, s.tokens), 0, &r.lse));
    for (int i = 0; i < 3; i++)
        LT_TRY(take(w, lt_tensor_2d(LT_BF16, s.tokens, i == 0 ? q : kv), 0, &r.grad[i]));
    const size_t bytes = s.scratch[0] > s.scratch[1] ? s.scratch[0] : s.scratch[1];
    LT_TRY(take(w, lt_tensor_1d(LT_U8, (int64_t)bytes), 0, &scratch));
    double pairs = 0.0;
    const int32_t *at = s.segments.host;
    for (int64_t i = 0; i + 1 < lt_n_elems(&s.segments); i++)
        pairs += (double)(at[i + 1] - at[i]) * (double)(at[i + 1] - at[i]) * (c->causal ? 0.5 : 1);
    const double flops = 4.0 * pairs * (double)q;
    printf("time %d/%d d%d%s%s \"%s\": ", c->heads, c->kv_heads, c->d, c->causal ? " causal" : "",
           c->deterministic ? " deterministic" : "", c->lengths);
    LT_TRY(time_pass(w, &s, LT_FORWARD, &r, &scratch, &ms));
    printf(" %.0f TFLOP/s; ", flops / ms / 1e9);
    LT_TRY(time_pass(w, &s, LT_BACKWARD, &r, &scratch, &ms));
    printf(" %.0f TFLOP/s; scratch %.0f + %.0f MiB\n", 2.5 * flops / ms / 1e9,
           (double)s.scratch[0] / (1 << 20), (double)s.scratch[1] / (1 << 20));
    (void)fflush(stdout);
    return LT_OK;
}

// ---- the program

enum { SMALL_TOKENS = 600 };

static int check_all(world *w, bool times, bool deterministic, bool small)
{
    int passed = 0, failed = 0;
    const attention_case *list = times ? timed : cases;
    const size_t n = times ? sizeof timed / sizeof timed[0] : sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < n; i++) {
        bool ok = true;
        int32_t segments[MAX_SEGMENTS + 1];
        int64_t n_segments;
        if ((deterministic && !list[i].deterministic) ||
            (small && read_lengths(list[i].lengths, segments, &n_segments) > SMALL_TOKENS))
            continue;
        const lt_status st = times ? time_case(w, &list[i]) : one_case(w, &list[i], &ok);
        if (st != LT_OK)
            printf("FAIL %d/%d d%d \"%s\": %s\n", list[i].heads, list[i].kv_heads, list[i].d,
                   list[i].lengths, lt_error_message());
        ok &&st == LT_OK ? passed++ : failed++;
        give_back(w);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

int main(int argc, char **argv)
{
    const bool times = argc == 2 && strcmp(argv[1], "time") == 0,
               deterministic = argc == 2 && strcmp(argv[1], "deterministic") == 0,
               small = argc == 2 && strcmp(argv[1], "small") == 0;
    if (argc > 2 || (argc == 2 && !times && !deterministic && !small)) {
        (void)fputs("usage: attention_parity [time|deterministic|small]\n", stderr);
        return 2;
    }
    world w = {.held = LT_VEC_OF(void *)};
    const lt_log log = {.fn = hear};
    if (lt_cuda_open(0, NULL, &w.gpu) != LT_OK) {
        printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    w.gpu->log = &log;
    printf("%s: %s\n", w.gpu->name, w.gpu->description);
    int rc = 1;
    if (lt_arena_create(&w.arena, "test") == LT_OK &&
        w.gpu->stream_create(w.gpu, &w.stream) == LT_OK)
        rc = check_all(&w, times, deterministic, small);
    else
        printf("FAIL %s\n", lt_error_message());
    if (w.stream)
        w.gpu->stream_destroy(w.gpu, w.stream);
    lt_vec_deinit(&w.held);
    lt_arena_destroy(w.arena);
    lt_device_close(w.gpu);
    return rc;
}
