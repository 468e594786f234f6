// SPDX-License-Identifier: Apache-2.0
// streaming: time of the GPU's memory-bound kernels at the shapes of a 4B model's step, one JSON
// line per op and pass, against what memory can do. bench/README.md says how to read and repeat it.
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "op/adamw.h"
#include "op/add.h"
#include "op/cast.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/layer_norm.h"
#include "op/linear_cross_entropy.h"
#include "op/pos_embed.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"
#include "op/swiglu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double stream_rate = 4.3e12; // of copies and fills on an H200
enum {
    MOST_SETS = 8,
    PATTERN = 1 << 22, // random numbers that tensors are filled with, again and again
    CACHE = 160 << 20, // a case whose tensors are smaller rotates through several sets of them
    T = 16384,         // tokens
    HIDDEN = 2560,
    MLP = 9728,
    N = 40960, // patches
    VISION = 1024,
    VISION_MLP = 4096,
    VOCAB = 151936,
    MERGED = 10240
};

// PLACEHOLDERS: ids, most of them the same one; ROWS: ascending; MOMENT: f32, not negative.
typedef enum kind { NONE, FLOATS, WIDE, PARAM, IDS, PLACEHOLDERS, ROWS, SCALARS, LOW, MOMENT } kind;

typedef struct shape {
    kind kind;
    int64_t rows, cols, below; // cols 0: one dim; ids are below `below`
} shape;

typedef struct bench_case {
    const char *name;
    const lt_op_def *def;
    const void *attr;
    shape in[LT_MAX_IN], state[LT_MAX_OUT]; // state: in-out tensors
    double forward_bytes, backward_bytes;   // 0: all tensors of the call
    bool only_backward, add, no_gradients;
} bench_case;

static const lt_rms_norm_attr rms = {.eps = 1e-6};
static const lt_layer_norm_attr layer = {.eps = 1e-6};
static const lt_qk_norm_rope_attr q_heads = {.eps = 1e-6, .heads = 32},
                                  k_heads = {.eps = 1e-6, .heads = 8};
static const lt_split_qkv_rope_attr split16 = {.heads = 16};
static const lt_gelu_attr by_tanh = {.kind = LT_GELU_TANH}, by_erf = {.kind = LT_GELU_ERF};
static const lt_cast_attr to_bf16 = {.dtype = LT_BF16}, to_f32 = {.dtype = LT_F32};
static const lt_linear_cross_entropy_attr loss = {.chunk = 0};
static const lt_adamw_attr adamw = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1.0};

#define ROW(n, w)                                                                                  \
    {                                                                                              \
        FLOATS, n, w, 0                                                                            \
    }
#define VECTOR(w)                                                                                  \
    {                                                                                              \
        PARAM, w, 0, 0                                                                             \
    }
#define BYTES(n, w, per) ((double)(n) * (w) * (per))
static const bench_case cases[] = {
    {"2560", &lt_op_rms_norm, &rms, .in = {ROW(T, HIDDEN), VECTOR(HIDDEN)}},
    {"2560 adding", &lt_op_rms_norm, &rms, .in = {ROW(T, HIDDEN), VECTOR(HIDDEN)}, .add = true},
    {"2048", &lt_op_rms_norm, &rms, .in = {ROW(T, 2048), VECTOR(2048)}},
    {"4096", &lt_op_rms_norm, &rms, .in = {ROW(T, 4096), VECTOR(4096)}},
    {"2560", &lt_op_add_rms_norm, &rms, .in = {ROW(T, HIDDEN), ROW(T, HIDDEN), VECTOR(HIDDEN)}},
    {"2048", &lt_op_add_rms_norm, &rms, .in = {ROW(T, 2048), ROW(T, 2048), VECTOR(2048)}},
    {"4096", &lt_op_add_rms_norm, &rms, .in = {ROW(T, 4096), ROW(T, 4096), VECTOR(4096)}},
    {"vision", &lt_op_layer_norm, &layer, .in = {ROW(N, VISION), VECTOR(VISION), VECTOR(VISION)}},
    {"1152", &lt_op_layer_norm, &layer, .in = {ROW(N, 1152), VECTOR(1152), VECTOR(1152)}},
    {"q", &lt_op_qk_norm_rope, &q_heads, .in = {ROW(T, 4096), VECTOR(128), {WIDE, T, 128, 0}}},
    {"k", &lt_op_qk_norm_rope, &k_heads, .in = {ROW(T, 1024), VECTOR(128), {WIDE, T, 128, 0}}},
    {"64", &lt_op_split_qkv_rope, &split16, .in = {ROW(N, INT64_C(3) * VISION), {WIDE, N, 64, 0}}},
    {"72", &lt_op_split_qkv_rope, &split16, .in = {ROW(N, INT64_C(3) * 1152), {WIDE, N, 72, 0}}},
    {"mlp", &lt_op_swiglu, NULL, .in = {ROW(T, MLP), ROW(T, MLP)}},
    {"tanh", &lt_op_gelu, &by_tanh, .in = {ROW(N, VISION_MLP)}},
    {"erf", &lt_op_gelu, &by_erf, .in = {ROW(N, VISION_MLP)}},
    {"residual", &lt_op_add, NULL, .in = {ROW(T, HIDDEN), ROW(T, HIDDEN)}},
    {"pixels", &lt_op_cast, &to_bf16, .in = {{WIDE, N, 1536, 0}}},
    {"widen", &lt_op_cast, &to_f32, .in = {ROW(N, 1536)}},
    {"different", &lt_op_embedding, NULL, .in = {{IDS, T, 0, VOCAB}, {PARAM, VOCAB, HIDDEN, 0}},
     .forward_bytes = BYTES(T, HIDDEN, 4), .backward_bytes = BYTES(T, HIDDEN, 10), .add = true},
    {"placeholders", &lt_op_embedding, NULL,
     .in = {{PLACEHOLDERS, T, 0, VOCAB}, {PARAM, VOCAB, HIDDEN, 0}},
     .forward_bytes = BYTES(T, HIDDEN, 4),
     .backward_bytes = BYTES(T, HIDDEN, 2) + BYTES(T - MERGED, HIDDEN, 8), .add = true},
    {"targets", &lt_op_gather_rows, NULL, .in = {ROW(T, HIDDEN), {ROWS, MERGED, 0, 0}},
     .forward_bytes = BYTES(MERGED, HIDDEN, 4), .backward_bytes = BYTES(T + 2 * MERGED, HIDDEN, 2)},
    {"pictures", &lt_op_scatter_rows, NULL,
     .in = {ROW(T, HIDDEN), ROW(MERGED, HIDDEN), {ROWS, MERGED, 0, 0}},
     .forward_bytes = BYTES(2 * T + 2 * MERGED, HIDDEN, 2),
     .backward_bytes = BYTES(2 * T + MERGED, HIDDEN, 2)},
    {"deepstack", &lt_op_scatter_add_rows, NULL,
     .in = {ROW(T, HIDDEN), ROW(MERGED, HIDDEN), {ROWS, MERGED, 0, 0}},
     .forward_bytes = BYTES(2 * T + 3 * MERGED, HIDDEN, 2)},
    {"vision", &lt_op_pos_embed_add, NULL,
     .in = {ROW(N, VISION), {PARAM, 2304, VISION, 0}, {IDS, N, 4, 2304}, {WIDE, N, 4, 0}}},
    // the logits' product has a width of 8, so that the rest is the cross-entropy: three times the
    // logits here, and the product writes them once more
    {"logits", &lt_op_linear_cross_entropy, &loss,
     .in = {ROW(4096, 8), {PARAM, VOCAB, 8, 0}, {IDS, 4096, 0, VOCAB}, {WIDE, 4096, 0, 0}},
     .backward_bytes = BYTES(4096, VOCAB, 8), .only_backward = true, .no_gradients = true},
    {"2^28", &lt_op_adamw, &adamw, .in = {{WIDE, 1 << 28, 0, 0}, {SCALARS, LT_N_SCALARS, 0, 0}},
     .state = {{FLOATS, 1 << 28, 0, 0},
               {WIDE, 1 << 28, 0, 0},
               {MOMENT, 1 << 28, 0, 0},
               {LOW, 1 << 28, 0, 0}},
     .forward_bytes = BYTES(1 << 28, 1, 28)},
    {"2^28", &lt_op_sum_squares, NULL, .in = {{WIDE, 1 << 28, 0, 0}}},
    {"2560x9728", &lt_op_sum_squares, NULL, .in = {{WIDE, HIDDEN, MLP, 0}}},
    {"2560", &lt_op_sum_squares, NULL, .in = {{WIDE, HIDDEN, 0, 0}}},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

// Tensors of a call, and the call.
typedef struct set {
    lt_op_args args;
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT], din[LT_MAX_IN], dout[LT_MAX_OUT];
} set;

typedef struct bench {
    lt_device *gpu;
    lt_stream *stream;
    lt_dtype dtype;
    int runs;
    void *pattern[2]; // on the device: f32, bf16
    lt_arena *arena;  // of a case: host twins
    lt_vec memory;    // of a case, on the device
    lt_run run;
    set sets[MOST_SETS];
} bench;

static lt_status take(bench *b, lt_tensor *t)
{
    LT_TRY(b->gpu->alloc(b->gpu, lt_tensor_bytes(t), "a tensor", &t->data));
    return lt_vec_push(&b->memory, &t->data);
}

static lt_status fill(bench *b, const lt_tensor *t)
{
    const size_t bytes = lt_tensor_bytes(t), piece = PATTERN * lt_dtype_bytes(t->dtype);
    const void *pattern = b->pattern[t->dtype == LT_F32 ? 0 : 1];
    for (size_t at = 0; at < bytes; at += piece)
        LT_TRY(b->gpu->copy(b->gpu, b->stream, (char *)t->data + at, pattern,
                            bytes - at < piece ? bytes - at : piece, LT_COPY_ON_DEVICE));
    return LT_OK;
}

static lt_status upload(bench *b, lt_tensor *t)
{
    return b->gpu->copy(b->gpu, b->stream, t->data, t->host, lt_tensor_bytes(t),
                        LT_COPY_HOST_TO_DEVICE);
}

static lt_status make_index(bench *b, const shape *s, lt_tensor *t)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(b->arena, lt_tensor_bytes(t), &memory));
    int32_t *v = memory;
    t->host = v;
    for (int64_t k = 0, n = lt_n_elems(t); k < n; k++) {
        if (s->kind == ROWS)
            v[k] = (int32_t)(k + k / 2);
        else if (s->kind == PLACEHOLDERS && k >= n - MERGED)
            v[k] = 151655;
        else
            v[k] = (int32_t)(k * 7919 % s->below);
    }
    return upload(b, t);
}

static lt_status make_scalars(bench *b, lt_tensor *t)
{
    static const double scalars[LT_N_SCALARS] = {1e-5, 10.0, 1000.0, 1.0};
    t->host = scalars;
    LT_TRY(upload(b, t));
    t->host = NULL;
    return LT_OK;
}

static lt_status make(bench *b, const shape *s, lt_tensor *t)
{
    const lt_dtype dtypes[] = {[FLOATS] = b->dtype, [WIDE] = LT_F32,         [PARAM] = b->dtype,
                               [IDS] = LT_I32,      [PLACEHOLDERS] = LT_I32, [ROWS] = LT_I32,
                               [SCALARS] = LT_F64,  [LOW] = LT_I16,          [MOMENT] = LT_F32};
    *t = s->cols > 0 ? lt_tensor_2d(dtypes[s->kind], s->rows, s->cols)
                     : lt_tensor_1d(dtypes[s->kind], s->rows);
    LT_TRY(take(b, t));
    if (dtypes[s->kind] == LT_I32)
        return make_index(b, s, t);
    if (s->kind == SCALARS)
        return make_scalars(b, t);
    if (s->kind == MOMENT)
        return b->gpu->fill(b->gpu, b->stream, t->data, 0x3a, lt_tensor_bytes(t));
    return fill(b, t);
}

static lt_status make_set(bench *b, const bench_case *c, set *s)
{
    *s = (set){.args = {.def = c->def,
                        .attr = c->attr,
                        .run = &b->run,
                        .backend = LT_CUDA,
                        .add = c->add ? ~0U : 0}};
    for (int i = 0; i < c->def->n_in; i++) {
        if (c->in[i].kind == NONE)
            continue;
        LT_TRY(make(b, &c->in[i], &s->in[i]));
        s->args.in[i] = &s->in[i];
    }
    for (int i = 0; i < c->def->n_out; i++)
        s->args.out[i] = &s->out[i];
    if (c->state[0].kind != NONE) {
        for (int i = 0; i < c->def->n_out; i++)
            LT_TRY(make(b, &c->state[i], &s->out[i]));
        return LT_OK;
    }
    LT_TRY(c->def->infer(&s->args));
    for (int i = 0; i < c->def->n_out; i++)
        LT_TRY(take(b, &s->out[i]));
    return LT_OK;
}

static lt_status make_gradients(bench *b, const bench_case *c, set *s)
{
    for (int i = 0; i < c->def->n_in && !c->no_gradients; i++) {
        if (c->in[i].kind != FLOATS && c->in[i].kind != PARAM)
            continue;
        s->din[i] = lt_tensor_as(&s->in[i], c->in[i].kind == PARAM ? LT_F32 : b->dtype);
        LT_TRY(take(b, &s->din[i]));
        LT_TRY(fill(b, &s->din[i]));
        s->args.din[i] = &s->din[i];
    }
    for (int i = 0; i < c->def->n_out && !(c->def->flags & LT_OP_YIELDS_IN_BACKWARD); i++) {
        s->dout[i] = lt_tensor_like(&s->out[i]);
        LT_TRY(take(b, &s->dout[i]));
        LT_TRY(fill(b, &s->dout[i]));
        s->args.dout[i] = &s->dout[i];
    }
    return LT_OK;
}

static double bytes_at(const lt_tensor *t, bool used)
{
    return t && used ? (double)lt_tensor_bytes(t) : 0.0;
}

static double bytes_of(const lt_op_args *a, lt_pass pass)
{
    double bytes = 0.0;
    for (int i = 0; i < LT_MAX_IN; i++)
        bytes += bytes_at(a->in[i], pass == LT_FORWARD || a->def->backward_reads & LT_IN(i)) +
                 bytes_at(a->din[i], true) + bytes_at(a->din[i], a->add & LT_IN(i));
    for (int i = 0; i < LT_MAX_OUT; i++)
        bytes += bytes_at(a->out[i], pass == LT_FORWARD || a->def->backward_reads & LT_OUT(i)) +
                 bytes_at(a->dout[i], true);
    return bytes;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Calls in a row, one after another through the sets: five times, the median.
static lt_status time_calls(bench *b, const bench_case *c, lt_pass pass, int sets, double *seconds)
{
    double each[5];
    const lt_kernel kernel = lt_op_kernel(c->def, LT_CUDA, pass);
    for (int round = -1; round < 5; round++) {
        LT_TRY(b->gpu->stream_sync(b->gpu, b->stream));
        const double begin = lt_clock_now();
        for (int i = 0; i < b->runs; i++)
            LT_TRY(kernel(&b->sets[i % sets].args));
        LT_TRY(b->gpu->stream_sync(b->gpu, b->stream));
        if (round >= 0)
            each[round] = (lt_clock_now() - begin) / b->runs;
    }
    qsort(each, 5, sizeof *each, compare);
    *seconds = each[2];
    return LT_OK;
}

static lt_status measure(bench *b, const bench_case *c, lt_pass pass, int sets)
{
    const double own = pass == LT_FORWARD ? c->forward_bytes : c->backward_bytes,
                 bytes = own > 0.0 ? own : bytes_of(&b->sets[0].args, pass);
    double seconds;
    b->run.scratch_bytes = c->def->scratch ? c->def->scratch(&b->sets[0].args, pass) : 0;
    lt_tensor scratch = lt_tensor_1d(LT_U8, (int64_t)b->run.scratch_bytes);
    LT_TRY(take(b, &scratch));
    b->run.scratch = scratch.data;
    LT_TRY(time_calls(b, c, pass, sets, &seconds));
    (void)printf("{\"case\": \"%s %s %s\", \"dtype\": \"%s\", \"shape\": \"%s\", \"us\": %.1f, "
                 "\"gbs\": %.0f, \"share\": %.3f}\n",
                 c->def->name, c->name, pass == LT_FORWARD ? "forward" : "backward",
                 lt_dtype_name(b->dtype), lt_shape_print(&b->sets[0].in[0]).s, seconds * 1e6,
                 bytes / seconds * 1e-9, bytes / seconds / stream_rate);
    (void)fflush(stdout);
    return LT_OK;
}

static lt_status measure_case(bench *b, const bench_case *c)
{
    b->run = (lt_run){.device = b->gpu, .stream = b->stream};
    LT_TRY(make_set(b, c, &b->sets[0]));
    const double bytes = bytes_of(&b->sets[0].args, LT_FORWARD);
    const int sets = bytes < CACHE ? (int)lt_min_i64(MOST_SETS, 1 + (int64_t)(CACHE / bytes)) : 1;
    for (int i = 1; i < sets; i++)
        LT_TRY(make_set(b, c, &b->sets[i]));
    if (!c->only_backward)
        LT_TRY(measure(b, c, LT_FORWARD, sets));
    if (!lt_op_kernel(c->def, LT_CUDA, LT_BACKWARD) || c->in[0].kind == WIDE)
        return LT_OK;
    for (int i = 0; i < sets; i++)
        LT_TRY(make_gradients(b, c, &b->sets[i]));
    return measure(b, c, LT_BACKWARD, sets);
}

static lt_status run_case(bench *b, const bench_case *c)
{
    LT_TRY(lt_arena_create(&b->arena, "a case"));
    lt_status st = measure_case(b, c);
    if (st == LT_OK)
        st = b->gpu->stream_sync(b->gpu, b->stream);
    for (int64_t i = 0; i < b->memory.n; i++)
        b->gpu->free(b->gpu, LT_AT(&b->memory, void *, i));
    lt_vec_clear(&b->memory);
    lt_arena_destroy(b->arena);
    return st;
}

static lt_status make_patterns(bench *b)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, PATTERN * sizeof(float), "random numbers"));
    lt_status st = LT_OK;
    for (int k = 0; k < 2 && st == LT_OK; k++) {
        const size_t bytes = PATTERN * (k == 0 ? sizeof(float) : sizeof(uint16_t));
        for (int i = 0; i < PATTERN; i++) {
            const float v = (float)(2.0 * lt_uniform(7, (uint64_t)i) - 1.0);
            if (k == 0)
                ((float *)memory)[i] = v;
            else
                ((uint16_t *)memory)[i] = lt_f32_to_bf16(v);
        }
        LT_TRY_GOTO(st, b->gpu->alloc(b->gpu, bytes, "random numbers", &b->pattern[k]), done);
        LT_TRY_GOTO(
            st,
            b->gpu->copy(b->gpu, b->stream, b->pattern[k], memory, bytes, LT_COPY_HOST_TO_DEVICE),
            done);
        st = b->gpu->stream_sync(b->gpu, b->stream);
    }
done:
    lt_mem_free(memory);
    return st;
}

static lt_status run_all(bench *b, const char *match)
{
    LT_TRY(b->gpu->stream_create(b->gpu, &b->stream));
    LT_TRY(make_patterns(b));
    for (int i = 0; i < N_CASES; i++)
        if (!match || strstr(cases[i].def->name, match))
            LT_TRY(run_case(b, &cases[i]));
    return LT_OK;
}

int main(int argc, char **argv)
{
    const char *match = NULL;
    bench b = {.dtype = LT_BF16, .runs = 40, .memory = LT_VEC_OF(void *)};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--match") == 0) {
            match = value;
        } else if (value && strcmp(argv[i], "--dtype") == 0) {
            b.dtype = strcmp(value, "f32") == 0 ? LT_F32 : LT_BF16;
        } else if (value && strcmp(argv[i], "--runs") == 0) {
            b.runs = (int)lt_max_i64(1, strtoll(value, NULL, 10));
        } else {
            (void)fputs("usage: streaming [--dtype bf16|f32] [--match PART_OF_AN_OP] [--runs N]\n",
                        stderr);
            return 2;
        }
    }
    if (lt_cuda_open(0, NULL, &b.gpu) != LT_OK) {
        (void)printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    const lt_status st = run_all(&b, match);
    if (st != LT_OK)
        (void)fprintf(stderr, "streaming: %s\n", lt_error_message());
    for (int k = 0; k < 2; k++)
        b.gpu->free(b.gpu, b.pattern[k]);
    if (b.stream)
        b.gpu->stream_destroy(b.gpu, b.stream);
    lt_vec_deinit(&b.memory);
    lt_device_close(b.gpu);
    return st == LT_OK ? 0 : 1;
}
