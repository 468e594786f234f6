// SPDX-License-Identifier: Apache-2.0
// step: time of whole training steps of a Qwen3-VL with random weights, one JSON line per dtype,
// with the fields, the labels and the FLOP count of shared/bench/peer_hf_step.py. bench/README.md
// says how to read and repeat it.
#include "bench/parts/made_model.h"
#include "bench/parts/op_times.h"
#include "bench/parts/peak.h"
#include "bench/parts/process.h"
#include "bench/parts/step_plan.h"
#include "device/gemm.h"
#include "plan/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITERS = 1000, WARM_STEPS = 2, CPU_PEAK_N = 2048, GPU_PEAK_N = 8192, PEAK_RUNS = 7 };

typedef struct options {
    const char *preset, *dtype, *device, *policy, *products;
    int64_t threads, iters, seq, images, grid, layers, vdepth;
    bool ops;  /* print the table of kernel times */
    bool plan; /* only plan: no device, no weights */
} options;

/* ---- the command line ---- */

typedef struct option_row {
    const char *name;
    size_t offset;
    enum { TEXT, NUMBER, FLAG } kind;
    const char *help;
} option_row;

static const option_row option_rows[] = {
    {"--preset", offsetof(options, preset), TEXT,
     "size of the model: tiny, small (the default), 2b, 4b, 8b, 32b"},
    {"--dtype", offsetof(options, dtype), TEXT, "f32, bf16, or both: f32,bf16 (the default)"},
    {"--device", offsetof(options, device), TEXT, "cpu (the default) or cuda"},
    {"--policy", offsetof(options, policy), TEXT,
     "what is kept for the backward: keep (the default), lean, full; or by layers: full:12,lean"},
    {"--products", offsetof(options, products), TEXT,
     "matrix products on the CPU: faster (the default), own, onednn"},
    {"--threads", offsetof(options, threads), NUMBER, "threads; all by default"},
    {"--iters", offsetof(options, iters), NUMBER,
     "measured steps, 5 by default, after 2 to warm up"},
    {"--seq", offsetof(options, seq), NUMBER, "tokens, those of pictures included"},
    {"--images", offsetof(options, images), NUMBER, "pictures"},
    {"--grid", offsetof(options, grid), NUMBER,
     "patches a side of every picture: 16 is 256 pixels"},
    {"--layers", offsetof(options, layers), NUMBER, "keep so many decoder layers"},
    {"--vdepth", offsetof(options, vdepth), NUMBER, "keep so many vision blocks"},
    {"--ops", offsetof(options, ops), FLAG,
     "print the time of every op on stderr; with --plan, what every kind of block needs"},
    {"--plan", offsetof(options, plan), FLAG,
     "print the memory that the step will need, and stop: needs no device"},
};
enum { N_OPTIONS = (int)(sizeof option_rows / sizeof option_rows[0]) };

static int usage(const char *wrong)
{
    if (wrong)
        (void)fprintf(stderr, "step: %s is not an option, or lacks its value\n", wrong);
    (void)fprintf(stderr, "usage: step [OPTION VALUE]...\n");
    for (int i = 0; i < N_OPTIONS; i++)
        (void)fprintf(stderr, "  %-10s %s\n", option_rows[i].name, option_rows[i].help);
    return 2;
}

static bool set_option(options *o, const option_row *row, const char *value)
{
    char *at = (char *)o + row->offset, *end = NULL;
    if (row->kind == FLAG) {
        memcpy(at, &(bool){true}, sizeof(bool));
        return true;
    }
    if (row->kind == TEXT) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    const int64_t n = strtoll(value, &end, 10);
    memcpy(at, &n, sizeof n);
    return *value && !*end && n >= 0 && n <= 1 << 24;
}

// What is not given follows from the size: the peer's usual batch for published ones.
static void fill_defaults(options *o)
{
    static const struct {
        const char *preset;
        int64_t seq, images, grid;
    } usual[] = {{"tiny", 48, 1, 4}, {"small", 1024, 2, 16}, {"", 16384, 10, 64}};
    int k = 0;
    while (usual[k].preset[0] && strcmp(usual[k].preset, o->preset) != 0)
        k++;
    o->seq = o->seq < 0 ? usual[k].seq : o->seq;
    o->images = o->images < 0 ? usual[k].images : o->images;
    o->grid = o->grid < 0 ? usual[k].grid : o->grid;
    o->iters = lt_max_i64(1, lt_min_i64(o->iters, MAX_ITERS));
}

static bool parse(int argc, char **argv, options *o, const char **wrong)
{
    *o = (options){.preset = "small",
                   .dtype = "f32,bf16",
                   .device = "cpu",
                   .policy = "keep",
                   .products = "faster",
                   .iters = 5,
                   .seq = -1,
                   .images = -1,
                   .grid = -1};
    for (int i = 1; i < argc; i++) {
        int k = 0;
        while (k < N_OPTIONS && strcmp(option_rows[k].name, argv[i]) != 0)
            k++;
        *wrong = argv[i];
        const bool lacks = k == N_OPTIONS || (option_rows[k].kind != FLAG && i + 1 == argc);
        if (lacks || !set_option(o, &option_rows[k], argv[i + 1]))
            return false;
        i += option_rows[k].kind != FLAG;
    }
    fill_defaults(o);
    return true;
}

/* ---- one case ---- */

typedef struct bench {
    const options *o;
    bench_commit commit; /* when the program started */
    const bench_size *size;
    lt_pool *pool;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
    bench_batch batch;
    lt_dtype dtype;
    op_times ops;
    lt_tap tap;
} bench;

typedef struct measured {
    bench_rate linear, library; /* of square products */
    double seconds[MAX_ITERS], cpu[MAX_ITERS], loss[WARM_STEPS + MAX_ITERS];
    double by_action[LT_N_ACTIONS]; /* seconds of the measured steps */
    int n;
    int64_t peak, peak_anon;
} measured;

static bool on_gpu(const bench *b)
{
    return b->device->backend == LT_CUDA;
}

static lt_status measure_peak(bench *b, measured *m)
{
    const int64_t n = strcmp(b->o->preset, "tiny") == 0 ? 256 : on_gpu(b) ? GPU_PEAK_N : CPU_PEAK_N;
    bench_rate linear = {0}, library = {0};
    if (!on_gpu(b))
        LT_TRY(bench_library_peak(b->dtype, lt_pool_threads(b->pool), n, PEAK_RUNS, &library));
    LT_TRY(bench_linear_peak(b->device, b->dtype, n, PEAK_RUNS, &linear));
    m->library = bench_rate_max(m->library, library);
    m->linear = bench_rate_max(m->linear, linear);
    return LT_OK;
}

// A unit for each layer and for each table, as users write it in fsdp_plan.
static lt_status create_units(const lt_model *m, lt_units **out)
{
    static const char *const patterns[] = {"model.visual.blocks.{*}",
                                           "model.language_model.layers.{*}",
                                           "model.language_model.embed_tokens", "lm_head"};
    return lt_units_create(m, patterns, sizeof patterns / sizeof patterns[0], NULL, out);
}

static lt_status policies_of(const bench *b, lt_policy **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)b->model->n_blocks * sizeof(lt_policy), "policies"));
    *out = memory;
    return lt_policies_parse(b->o->policy, b->model, *out);
}

static lt_status open_exec(bench *b)
{
    lt_policy *policies = NULL;
    lt_status st = policies_of(b, &policies);
    const lt_exec_opts opts = {
        .device = b->device,
        .model = b->model,
        .units = b->units,
        .compute = b->dtype,
        .training = true,
        .policy = policies,
        .forward_prefetch = 1,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .lr_scale = 1.0},
        .update_early = true,
        .tap = &b->tap};
    if (st == LT_OK)
        st = lt_exec_create(&opts, &b->exec);
    lt_mem_free(policies);
    return st;
}

static lt_status run_step(bench *b, int64_t number, double *loss)
{
    lt_step_result r;
    LT_TRY(lt_exec_step(b->exec, &b->batch.view, 1, number, 1e-5, NULL, &r));
    *loss = r.loss;
    return LT_OK;
}

static lt_status run_steps(bench *b, measured *m)
{
    double before[LT_N_ACTIONS];
    for (int i = 0; i < WARM_STEPS; i++)
        LT_TRY(run_step(b, i + 1, &m->loss[i]));
    memcpy(before, lt_exec_seconds(b->exec), sizeof before);
    op_times_clear(&b->ops);
    m->n = (int)b->o->iters;
    for (int i = 0; i < m->n; i++) {
        const double begin = lt_clock_now(), cpu = bench_cpu_seconds();
        LT_TRY(run_step(b, WARM_STEPS + i + 1, &m->loss[WARM_STEPS + i]));
        m->seconds[i] = lt_clock_now() - begin;
        m->cpu[i] = bench_cpu_seconds() - cpu;
    }
    for (int k = 0; k < LT_N_ACTIONS; k++)
        m->by_action[k] = (lt_exec_seconds(b->exec)[k] - before[k]) / m->n;
    m->peak = bench_peak_bytes();
    m->peak_anon = bench_peak_anon_bytes();
    return b->ops.status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double gib(int64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

static void print_memory(const bench *b, const measured *m)
{
    static const char *const keys[LT_N_STATE_PARTS] = {"parameters", "remainders", "gradients",
                                                       "first_moments", "second_moments"};
    const lt_exec_memory mem = lt_exec_memory_of(b->exec);
    const int64_t planned = mem.state + mem.step;
    if (on_gpu(b)) { // the device's memory: all that is taken there
        printf(", \"peak_gib\": %.2f, \"reserved_gib\": %.2f", gib(mem.state + mem.step_used),
               gib(planned));
    } else {
        printf(", \"peak_gib\": %.2f, \"reserved_gib\": null", gib(m->peak));
    }
    printf(", \"planned\": {");
    for (int p = 0; p < LT_N_STATE_PARTS; p++)
        printf("\"%s\": %lld, ", keys[p], (long long)mem.state_part[p]);
    printf("\"step_pool\": %lld, \"step_pool_used\": %lld, \"sum\": %lld}", (long long)mem.step,
           (long long)mem.step_used, (long long)planned);
    printf(
        ", \"planned_gib\": %.3f, \"resident_anon_gib\": %.3f, \"resident_over_planned_mib\": %.1f",
        gib(planned), gib(m->peak_anon), (double)(m->peak_anon - planned) / (1 << 20));
}

static void print_times(const bench *b, measured *m)
{
    double cpu[MAX_ITERS];
    memcpy(cpu, m->cpu, sizeof cpu);
    qsort(m->seconds, (size_t)m->n, sizeof(double), by_value);
    qsort(cpu, (size_t)m->n, sizeof(double), by_value);
    const bench_rate peak = bench_rate_max(m->library, m->linear);
    const double median = m->seconds[m->n / 2], by_cpu = cpu[m->n / 2] / lt_pool_threads(b->pool);
    const bench_shape shape = {b->o->seq, b->o->images, b->o->grid};
    const double flops = bench_flops(b->model, shape);
    const double *a = m->by_action, optimizer = a[LT_ACT_NORM] + a[LT_ACT_UPDATE];
    printf("\"ms\": %.1f, \"p10\": %.1f, \"p90\": %.1f, \"best\": %.1f, \"cpu_ms\": %.1f, "
           "\"tok_s\": %.0f",
           median * 1e3, m->seconds[m->n / 10] * 1e3, m->seconds[m->n * 9 / 10] * 1e3,
           m->seconds[0] * 1e3, cpu[m->n / 2] * 1e3, (double)b->o->seq / median);
    printf(", \"model_tflops\": %.4f, \"matmul_tflops\": %.4f, \"mfu\": %.4f, \"mfu_best\": %.4f",
           flops / median / 1e12, peak.wall / 1e12, flops / median / peak.wall,
           flops / m->seconds[0] / peak.wall);
    printf(", \"matmul_cpu_tflops\": %.4f, \"mfu_cpu\": %.4f", peak.cpu / 1e12,
           peak.cpu > 0.0 ? flops / by_cpu / peak.cpu : 0.0);
    printf(", \"onednn_tflops\": %.4f, \"linear_tflops\": %.4f", m->library.wall / 1e12,
           m->linear.wall / 1e12);
    printf(", \"forward_ms\": %.1f, \"backward_ms\": %.1f, \"optimizer_ms\": %.1f, "
           "\"optimizer_share\": %.4f, \"other_ms\": %.1f",
           a[LT_ACT_FORWARD] * 1e3, a[LT_ACT_BACKWARD] * 1e3, optimizer * 1e3, optimizer / median,
           (a[LT_ACT_AGREE] + a[LT_ACT_COPY] + a[LT_ACT_ADD] + a[LT_ACT_GATHER] + a[LT_ACT_REDUCE] +
            a[LT_ACT_FREE]) *
               1e3);
}

static void print_case(const bench *b, measured *m)
{
    const bool f32 = b->dtype == LT_F32, recompute = strcmp(b->o->policy, "keep") != 0;
    printf("{\"case\": \"step\", \"mode\": \"%s\", \"size\": \"%s\", \"layers\": %lld, \"vdepth\": "
           "%lld, \"seq\": %lld, \"images\": %lld, "
           "\"grid\": %lld, \"recompute\": %s, \"policy\": \"%s\", \"chunk_loss\": true, "
           "\"compile\": false, \"attn\": \"default\", ",
           f32 ? "fp32" : "bf16", b->size->name, (long long)b->model->config.text.layers,
           (long long)b->model->config.vision.depth, (long long)b->o->seq, (long long)b->o->images,
           (long long)b->o->grid, recompute ? "true" : "false", b->o->policy);
    print_times(b, m);
    print_memory(b, m);
    printf(", \"device\": \"%s\", \"description\": \"%s\", \"matmul\": \"%s\", \"threads\": %d, "
           "\"commit\": \"%s\", \"losses\": [",
           b->device->name, b->device->description,
           on_gpu(b) ? b->device->name : lt_cpu_gemm_name(), lt_pool_threads(b->pool), b->commit.s);
    for (int i = 0; i < WARM_STEPS + m->n; i++)
        printf("%s%.4f", i ? ", " : "", m->loss[i]);
    printf("]}\n");
    (void)fflush(stdout);
    if (b->o->ops) {
        double sum = 0.0;
        for (int i = 0; i < m->n; i++)
            sum += m->cpu[i] / m->n;
        op_times ops = b->ops;
        op_times_print(&ops, m->n, sum, lt_pool_threads(b->pool));
    }
}

static lt_status open_case(bench *b)
{
    const bench_shape shape = {b->o->seq, b->o->images, b->o->grid};
    LT_TRY(bench_model_create(b->size, b->o->layers, b->o->vdepth, &b->model));
    LT_TRY(create_units(b->model, &b->units));
    LT_TRY(bench_batch_create(b->model, shape, &b->batch));
    LT_TRY(open_exec(b));
    return bench_weights(b->model, b->exec, b->pool);
}

static void close_case(bench *b)
{
    lt_exec_destroy(b->exec);
    bench_batch_destroy(&b->batch);
    lt_units_destroy(b->units);
    lt_model_destroy(b->model);
    op_times_deinit(&b->ops);
}

// The counts of the made-up batch.
static lt_extents extents_of(const options *o)
{
    const int64_t patches = o->images * o->grid * o->grid, merged = patches / 4;
    return (lt_extents){{[LT_EXT_TOKENS] = o->seq,
                         [LT_EXT_SAMPLES] = 1,
                         [LT_EXT_PATCHES] = patches,
                         [LT_EXT_MERGED] = merged,
                         [LT_EXT_FRAMES] = o->images,
                         [LT_EXT_TARGETS] = o->seq - merged - 2 * o->images}};
}

static lt_status plan_made(const bench *b, const lt_state_layout *state, const lt_policy *policies)
{
    const lt_extents real = extents_of(b->o);
    const lt_program_opts opts = {.model = b->model,
                                  .units = b->units,
                                  .state = state,
                                  .mode = LT_MODE_TRAIN,
                                  .compute = b->dtype,
                                  .capacity = lt_extents_bucket(&real),
                                  .policy = policies,
                                  .forward_prefetch = 1};
    lt_program *p = NULL;
    LT_TRY(lt_program_create(&opts, &p));
    const lt_status st = bench_print_plan(b->size->name, b->o->policy, state, p, b->o->ops);
    lt_program_destroy(p);
    return st;
}

static lt_status plan_case(bench b, lt_dtype dtype)
{
    lt_state_layout *state = NULL;
    lt_policy *policies = NULL;
    b.dtype = dtype;
    lt_status st;
    LT_TRY_GOTO(st, bench_model_create(b.size, b.o->layers, b.o->vdepth, &b.model), done);
    LT_TRY_GOTO(st, create_units(b.model, &b.units), done);
    LT_TRY_GOTO(st, policies_of(&b, &policies), done);
    LT_TRY_GOTO(st, lt_state_layout_create(b.model, b.units, dtype, LT_STATE_WITHOUT_GRADS, &state),
                done);
    st = plan_made(&b, state, policies);
done:
    lt_state_layout_destroy(state);
    lt_mem_free(policies);
    lt_units_destroy(b.units);
    lt_model_destroy(b.model);
    return st;
}

static lt_status run_case(bench b, lt_dtype dtype)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(measured), "measurements"));
    measured *m = memory;
    b.dtype = dtype;
    b.ops = op_times_none();
    b.tap = (lt_tap){.ctx = &b.ops, .around = b.o->ops ? op_times_add : NULL};
    lt_status st = measure_peak(&b, m);
    bench_reset_peak();
    if (st == LT_OK)
        st = open_case(&b);
    if (st == LT_OK)
        st = run_steps(&b, m);
    if (st == LT_OK)
        st = measure_peak(&b, m); // again, hot: the better of the two counts
    if (st == LT_OK)
        print_case(&b, m);
    close_case(&b);
    lt_mem_free(memory);
    return st;
}

static lt_status run_dtypes(bench *b)
{
    static const struct {
        const char *name;
        lt_dtype dtype;
    } known[] = {{"f32", LT_F32}, {"bf16", LT_BF16}};
    int done = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strstr(b->o->dtype, known[i].name))
            continue;
        LT_TRY(b->o->plan ? plan_case(*b, known[i].dtype) : run_case(*b, known[i].dtype));
        done++;
    }
    return done > 0 ? LT_OK
                    : LT_FAIL(LT_ERR_CONFIG, "--dtype is %s; it must be f32, bf16 or f32,bf16",
                              b->o->dtype);
}

static lt_status open_and_run(const options *o)
{
    bench b = {.o = o, .commit = bench_commit_of(LT_SOURCE_DIR), .size = bench_size_of(o->preset)};
    if (!b.size)
        return LT_FAIL(LT_ERR_CONFIG, "--preset is %s; it must be one of %s", o->preset,
                       bench_size_names());
    if (o->plan)
        return run_dtypes(&b);
    LT_TRY(bench_use_products(o->products));
    LT_TRY(lt_pool_create((int)o->threads, &b.pool));
    lt_status st =
        strcmp(o->device, "cuda") == 0 ? lt_cuda_open(0, b.pool, &b.device)
        : strcmp(o->device, "cpu") == 0
            ? lt_cpu_open(b.pool, &b.device)
            : LT_FAIL(LT_ERR_CONFIG, "--device is %s; it must be cpu or cuda", o->device);
    if (st == LT_OK)
        st = run_dtypes(&b);
    lt_device_close(b.device);
    lt_pool_destroy(b.pool);
    return st;
}

int main(int argc, char **argv)
{
    options o;
    const char *wrong = NULL;
    if (!parse(argc, argv, &o, &wrong))
        return usage(wrong && strcmp(wrong, "--help") != 0 ? wrong : NULL);
    if (open_and_run(&o) == LT_OK)
        return 0;
    (void)fprintf(stderr, "step: %s\n", lt_error_message());
    return 1;
}
