// SPDX-License-Identifier: Apache-2.0
// ops: time of single kernels of the CPU at the shapes of the step's preset `small`, one JSON line
// per op, pass and dtype. bench/README.md says how to read and repeat it.
#include "base/memory.h"
#include "bench/parts/peak.h"
#include "bench/parts/process.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/gelu.h"
#include "op/grouped_linear.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/swiglu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 200, PEAK_N = 2048, PEAK_RUNS = 5 };

/* ---- the cases ---- */

// An input: its shape, and what its numbers are. IDS: below `below`; SEGMENTS: 0 and the rows;
// EXPERTS: a PARAM for each of `below` experts; OFFSETS: the rows shared out evenly among them.
typedef struct input {
    enum { NONE, FLOATS, WIDE, PARAM, EXPERTS, IDS, SEGMENTS, OFFSETS } kind;
    int64_t rows, cols, below; // cols 0: one dim
} input;

typedef struct bench_case {
    const char *name;
    const lt_op_def *def;
    const void *attr;
    input in[LT_MAX_IN];
} bench_case;

static const lt_rms_norm_attr rms = {.eps = 1e-6};
static const lt_layer_norm_attr layer = {.eps = 1e-6};
static const lt_qk_norm_rope_attr qk = {.eps = 1e-6, .heads = 8};
static const lt_gelu_attr gelu_tanh = {.kind = LT_GELU_TANH};
static const lt_attention_attr causal = {.heads = 8, .kv_heads = 4, .causal = true};
static const lt_attention_attr packed = {.heads = 16, .kv_heads = 16};
static const lt_linear_cross_entropy_attr loss = {.chunk = LT_LOSS_CHUNK};

// hidden 1024, MLP 3072, 8 heads of 128 and 4 for keys, vocabulary 151936, 1024 tokens
static const bench_case cases[] = {
    {"square", &lt_op_linear, NULL, {{FLOATS, 2048, 2048, 0}, {PARAM, 2048, 2048, 0}}},
    {"up", &lt_op_linear, NULL, {{FLOATS, 1024, 1024, 0}, {PARAM, 3072, 1024, 0}}},
    {"down", &lt_op_linear, NULL, {{FLOATS, 1024, 3072, 0}, {PARAM, 1024, 3072, 0}}},
    {"qkv", &lt_op_linear, NULL, {{FLOATS, 1024, 1024, 0}, {PARAM, 512, 1024, 0}}},
    {"vision",
     &lt_op_linear,
     NULL,
     {{FLOATS, 512, 384, 0}, {PARAM, 1536, 384, 0}, {PARAM, 1536, 0, 0}}},
    {"causal",
     &lt_op_attention,
     &causal,
     {{FLOATS, 1024, 1024, 0},
      {FLOATS, 1024, 512, 0},
      {FLOATS, 1024, 512, 0},
      {SEGMENTS, 1024, 0, 0}}},
    {"packed",
     &lt_op_attention,
     &packed,
     {{FLOATS, 512, 384, 0}, {FLOATS, 512, 384, 0}, {FLOATS, 512, 384, 0}, {SEGMENTS, 512, 0, 0}}},
    {"few rows",
     &lt_op_grouped_linear,
     NULL,
     {{FLOATS, 256, 1024, 0}, {EXPERTS, 768, 1024, 32}, {OFFSETS, 256, 0, 32}}},
    {"many rows",
     &lt_op_grouped_linear,
     NULL,
     {{FLOATS, 1024, 1024, 0}, {EXPERTS, 768, 1024, 8}, {OFFSETS, 1024, 0, 8}}},
    {"norm", &lt_op_rms_norm, &rms, {{FLOATS, 1024, 1024, 0}, {PARAM, 1024, 0, 0}}},
    {"norm",
     &lt_op_add_rms_norm,
     &rms,
     {{FLOATS, 1024, 1024, 0}, {FLOATS, 1024, 1024, 0}, {PARAM, 1024, 0, 0}}},
    {"norm",
     &lt_op_layer_norm,
     &layer,
     {{FLOATS, 1024, 1024, 0}, {PARAM, 1024, 0, 0}, {PARAM, 1024, 0, 0}}},
    {"q",
     &lt_op_qk_norm_rope,
     &qk,
     {{FLOATS, 1024, 1024, 0}, {PARAM, 128, 0, 0}, {WIDE, 1024, 128, 0}}},
    {"mlp", &lt_op_swiglu, NULL, {{FLOATS, 1024, 3072, 0}, {FLOATS, 1024, 3072, 0}}},
    {"mlp", &lt_op_gelu, &gelu_tanh, {{FLOATS, 1024, 3072, 0}}},
    {"residual", &lt_op_add, NULL, {{FLOATS, 1024, 1024, 0}, {FLOATS, 1024, 1024, 0}}},
    {"tokens", &lt_op_embedding, NULL, {{IDS, 1024, 0, 1024}, {PARAM, 1024, 1024, 0}}},
    {"head",
     &lt_op_linear_cross_entropy,
     &loss,
     {{FLOATS, 256, 1024, 0}, {PARAM, 151936, 1024, 0}, {IDS, 256, 0, 151936}, {WIDE, 256, 0, 0}}},
};
enum { N_CASES = (int)(sizeof cases / sizeof cases[0]) };

/* ---- one case ---- */

typedef struct options {
    const char *match, *dtype, *products;
    int64_t threads, runs;
} options;

typedef struct bench {
    const options *o;
    lt_pool *pool;
    lt_device *device;
    lt_dtype dtype;
    bench_rate flops_peak, bytes_peak;
    bench_commit commit;
    lt_arena *arena; // of a case
    lt_op_args args;
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT], din[LT_MAX_IN], dout[LT_MAX_OUT];
    lt_run run;
} bench;

static lt_status take(const bench *b, lt_tensor *t)
{
    return lt_arena_take(b->arena, lt_tensor_bytes(t), &t->data);
}

static void fill(lt_tensor *t, uint32_t x)
{
    for (int64_t i = 0, n = lt_n_elems(t); i < n; i++) {
        x = x * 1664525U + 1013904223U;
        const float v = (float)(int32_t)x / 2147483648.0F;
        if (t->dtype == LT_BF16)
            ((uint16_t *)t->data)[i] = lt_f32_to_bf16(v);
        else
            ((float *)t->data)[i] = v;
    }
}

static lt_status make_input(bench *b, const input *in, int i)
{
    lt_tensor *t = &b->in[i];
    const bool index = in->kind == IDS || in->kind == SEGMENTS || in->kind == OFFSETS;
    const lt_dtype dtype = index ? LT_I32 : in->kind == WIDE ? LT_F32 : b->dtype;
    const int64_t n = in->kind == SEGMENTS  ? 2
                      : in->kind == OFFSETS ? in->below + 1
                                            : in->rows,
                  dim[] = {in->below, in->rows, in->cols};
    *t = in->cols > 0 ? lt_tensor_2d(dtype, in->rows, in->cols) : lt_tensor_1d(dtype, n);
    if (in->kind == EXPERTS)
        *t = lt_tensor_nd(dtype, 3, dim);
    LT_TRY(take(b, t));
    b->args.in[i] = t;
    if (!index) {
        fill(t, (uint32_t)i);
        return LT_OK;
    }
    int32_t *v = t->data;
    t->host = v;
    for (int64_t k = 0; in->kind == IDS && k < n; k++)
        v[k] = (int32_t)(k * 7919 % in->below);
    if (in->kind == SEGMENTS)
        v[1] = (int32_t)in->rows;
    for (int64_t k = 0; in->kind == OFFSETS && k < n; k++)
        v[k] = (int32_t)(k * in->rows / in->below);
    return LT_OK;
}

// Inputs, outputs, and what a backward wants.
static lt_status open_case(bench *b, const bench_case *c)
{
    b->args = (lt_op_args){.def = c->def, .attr = c->attr, .run = &b->run};
    b->run = (lt_run){.device = b->device};
    for (int i = 0; i < c->def->n_in; i++)
        if (c->in[i].kind != NONE)
            LT_TRY(make_input(b, &c->in[i], i));
    for (int i = 0; i < c->def->n_out; i++)
        b->args.out[i] = &b->out[i];
    LT_TRY(c->def->infer(&b->args));
    for (int i = 0; i < c->def->n_out; i++)
        LT_TRY(take(b, &b->out[i]));
    return LT_OK;
}

static lt_status open_gradients(bench *b, const bench_case *c)
{
    for (int i = 0; i < c->def->n_in; i++) {
        if (c->in[i].kind != FLOATS && c->in[i].kind != PARAM && c->in[i].kind != EXPERTS)
            continue;
        b->din[i] = lt_tensor_as(&b->in[i], c->in[i].kind == FLOATS ? b->dtype : LT_F32);
        LT_TRY(take(b, &b->din[i]));
        b->args.din[i] = &b->din[i];
    }
    for (int i = 0; i < c->def->n_out; i++) {
        if (b->out[i].dtype != b->dtype || b->out[i].rank != 2)
            continue; // lse, loss
        b->dout[i] = lt_tensor_like(&b->out[i]);
        LT_TRY(take(b, &b->dout[i]));
        fill(&b->dout[i], (uint32_t)i + 7);
        b->args.dout[i] = &b->dout[i];
    }
    return LT_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Bytes of all tensors of the call: a lower bound of what it moves.
static double bytes_of(const bench *b, lt_pass pass)
{
    double bytes = 0.0;
    for (int i = 0; i < LT_MAX_IN; i++) {
        const bool read = pass == LT_FORWARD || (b->args.def->backward_reads & LT_IN(i));
        bytes += b->args.in[i] && read ? (double)lt_tensor_bytes(b->args.in[i]) : 0.0;
        bytes += b->args.din[i] ? (double)lt_tensor_bytes(b->args.din[i]) : 0.0;
    }
    for (int i = 0; i < LT_MAX_OUT; i++) {
        const bool used = pass == LT_FORWARD || (b->args.def->backward_reads & LT_OUT(i));
        bytes += b->args.out[i] && used ? (double)lt_tensor_bytes(b->args.out[i]) : 0.0;
        bytes += b->args.dout[i] ? (double)lt_tensor_bytes(b->args.dout[i]) : 0.0;
    }
    return bytes;
}

// Multiplications and additions of the call; 0 where memory is what counts. A backward has two
// products for each of the forward's (attention: five for two), the loss's yields the forward too.
static double flops_of(const bench *b, lt_pass pass)
{
    const lt_op_def *def = b->args.def;
    const double forward = def->flops ? (double)def->flops(&b->args) : 0.0;
    if (pass == LT_FORWARD)
        return forward;
    if (def->flags & LT_OP_YIELDS_IN_BACKWARD)
        return 3.0 * forward;
    return (def->flags & LT_OP_MUST_SAVE ? 2.5 : 2.0) * forward;
}

static void print(const bench *b, const bench_case *c, lt_pass pass, double *ms, int n,
                  bench_rate rate)
{
    const bool by_flops = flops_of(b, pass) > 0.0;
    const bench_rate *peak = by_flops ? &b->flops_peak : &b->bytes_peak;
    qsort(ms, (size_t)n, sizeof *ms, compare);
    (void)printf("{\"case\": \"%s %s %s\", \"dtype\": \"%s\", \"shape\": \"%s", c->def->name,
                 c->name, pass == LT_FORWARD ? "forward" : "backward", lt_dtype_name(b->dtype),
                 lt_shape_print(&b->in[0]).s);
    for (int i = 1; i < c->def->n_in && b->args.in[i]; i++)
        (void)printf(" %s", lt_shape_print(&b->in[i]).s);
    (void)printf(
        "\", \"device\": \"%s\", \"commit\": \"%s\", \"ms\": %.3f, \"p10\": %.3f, \"p90\": %.3f, ",
        b->device->description, b->commit.s, ms[n / 2], ms[n / 10], ms[n - 1 - n / 10]);
    (void)printf("\"%s\": %.1f, \"share\": %.3f, \"cpu_share\": %.3f}\n",
                 by_flops ? "gflops" : "gbs", rate.wall * 1e-9, rate.wall / peak->wall,
                 rate.cpu / peak->cpu);
    (void)fflush(stdout);
}

static lt_status measure(bench *b, const bench_case *c, lt_pass pass)
{
    const lt_kernel kernel = lt_op_kernel(c->def, LT_CPU, pass);
    const double work = flops_of(b, pass) > 0.0 ? flops_of(b, pass) : bytes_of(b, pass);
    const int threads = lt_pool_threads(b->pool);
    double ms[MAX_RUNS];
    bench_rate best = {0.0, 0.0};
    b->run.scratch_bytes = c->def->scratch ? c->def->scratch(&b->args, pass) : 0;
    LT_TRY(lt_arena_take(b->arena, b->run.scratch_bytes + 1, &b->run.scratch));
    LT_TRY(kernel(&b->args)); // warm
    for (int i = 0; i < b->o->runs; i++) {
        const bench_watch begin = bench_watch_start();
        LT_TRY(kernel(&b->args));
        const bench_rate rate = bench_watch_rate(begin, work, threads);
        ms[i] = work / rate.wall * 1e3;
        best = bench_rate_max(best, rate);
    }
    print(b, c, pass, ms, (int)b->o->runs, best);
    return LT_OK;
}

static lt_status run_case(bench *b, const bench_case *c)
{
    lt_status st;
    if (b->o->match && !strstr(c->def->name, b->o->match) && !strstr(c->name, b->o->match))
        return LT_OK;
    LT_TRY(lt_arena_create(&b->arena, "a case"));
    LT_TRY_GOTO(st, open_case(b, c), done);
    LT_TRY_GOTO(st, measure(b, c, LT_FORWARD), done);
    if (lt_op_kernel(c->def, LT_CPU, LT_BACKWARD)) {
        LT_TRY_GOTO(st, open_gradients(b, c), done);
        st = measure(b, c, LT_BACKWARD);
    }
done:
    lt_arena_destroy(b->arena);
    return st;
}

/* ---- what rates are held against ---- */

// Copying 256 MiB by all threads: bytes read and written.
static lt_status measure_copy(bench *b)
{
    enum { BYTES = 256 << 20 };
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)2 * BYTES, "memory to copy"));
    b->bytes_peak = (bench_rate){0.0, 0.0};
    lt_status st = LT_OK;
    for (int i = 0; i <= PEAK_RUNS && st == LT_OK; i++) {
        const bench_watch begin = bench_watch_start();
        st = b->device->copy(b->device, NULL, (char *)memory + BYTES, memory, BYTES,
                             LT_COPY_ON_DEVICE);
        if (i > 0)
            b->bytes_peak = bench_rate_max(
                b->bytes_peak, bench_watch_rate(begin, 2.0 * BYTES, lt_pool_threads(b->pool)));
    }
    lt_mem_free(memory);
    return st;
}

static lt_status measure_peaks(bench *b)
{
    bench_rate library, linear;
    LT_TRY(bench_library_peak(b->dtype, lt_pool_threads(b->pool), PEAK_N, PEAK_RUNS, &library));
    LT_TRY(bench_linear_peak(b->device, b->dtype, PEAK_N, PEAK_RUNS, &linear));
    b->flops_peak = bench_rate_max(library, linear);
    LT_TRY(measure_copy(b));
    (void)printf("{\"case\": \"peaks\", \"dtype\": \"%s\", \"onednn_gflops\": %.1f, "
                 "\"linear_gflops\": %.1f, \"copy_gbs\": %.1f}\n",
                 lt_dtype_name(b->dtype), library.wall * 1e-9, linear.wall * 1e-9,
                 b->bytes_peak.wall * 1e-9);
    return LT_OK;
}

static lt_status run_all(bench *b)
{
    static const lt_dtype dtypes[] = {LT_F32, LT_BF16};
    LT_TRY(bench_use_products(b->o->products));
    LT_TRY(lt_pool_create((int)b->o->threads, &b->pool));
    LT_TRY(lt_cpu_open(b->pool, &b->device));
    for (int d = 0; d < 2; d++) {
        b->dtype = dtypes[d];
        if (b->o->dtype && strcmp(b->o->dtype, lt_dtype_name(b->dtype)) != 0)
            continue;
        LT_TRY(measure_peaks(b));
        for (int i = 0; i < N_CASES; i++)
            LT_TRY(run_case(b, &cases[i]));
    }
    return LT_OK;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return false;
        if (strcmp(argv[i], "--match") == 0)
            o->match = argv[i + 1];
        else if (strcmp(argv[i], "--dtype") == 0)
            o->dtype = argv[i + 1];
        else if (strcmp(argv[i], "--products") == 0)
            o->products = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            o->threads = strtoll(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--runs") == 0)
            o->runs = lt_max_i64(1, lt_min_i64(strtoll(argv[i + 1], NULL, 10), MAX_RUNS));
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    options o = {.runs = 9, .products = "own"};
    bench b = {.o = &o, .commit = bench_commit_of(LT_SOURCE_DIR)};
    if (!parse(argc, argv, &o)) {
        (void)fprintf(
            stderr,
            "usage: ops [--dtype f32|bf16] [--match PART_OF_A_NAME] [--threads N] [--runs N] "
            "[--products own|onednn]\n");
        return 2;
    }
    const lt_status st = run_all(&b);
    if (st != LT_OK)
        (void)fprintf(stderr, "ops: %s\n", lt_error_message());
    lt_device_close(b.device);
    lt_pool_destroy(b.pool);
    return st == LT_OK ? 0 : 1;
}
