// SPDX-License-Identifier: Apache-2.0
// step: time of whole training steps of a Qwen3-VL with random weights, one JSON line per dtype,
// with the fields, the labels and the FLOP count of shared/bench/peer_hf_step.py. bench/README.md
// says how to read and repeat it.
#include "base/file.h"
#include "bench/parts/step_case.h"
#include "bench/parts/step_plan.h"
#include "comm/local.h"
#include "plan/policy.h"

#include <stdio.h>
#include <string.h>

enum { GPU_WARM_STEPS = 4, GPU_WARM_STEPS_OF_RANKS = 8 };
static const double warm_s = 5.0;
enum { CPU_PEAK_N = 2048, GPU_PEAK_N = 8192, TINY_PEAK_N = 256, PEAK_RUNS = 7 };
static const double hot_s = 1.5; // of products, before a GPU is as hot as in training

static int64_t peak_side(const bench *b)
{
    return strcmp(b->o->preset, "tiny") == 0 ? TINY_PEAK_N
           : bench_on_gpu(b)                 ? GPU_PEAK_N
                                             : CPU_PEAK_N;
}

static lt_status measure_peak(bench *b, bench_measured *m)
{
    const int64_t n = peak_side(b);
    bench_rate linear = {0}, library = {0};
    if (!bench_on_gpu(b))
        LT_TRY(bench_library_peak(b->dtype, lt_pool_threads(b->pool), n, PEAK_RUNS, &library));
    LT_TRY(bench_linear_peak(b->device, b->dtype, n, PEAK_RUNS, &linear));
    m->library = bench_rate_max(m->library, library);
    m->linear = bench_rate_max(m->linear, linear);
    return LT_OK;
}

static const double longest_launch_s = 100e-6; // what takes longer has waited

static void watch_kernel(void *ctx, const lt_op_args *a, lt_pass pass, bool after)
{
    bench *b = ctx;
    bench_launches *l = &b->launches;
    const lt_watch trace = b->trace ? lt_trace_watch(b->trace) : (lt_watch){0};
    if (trace.kernel)
        trace.kernel(trace.ctx, a, pass, after);
    else if (b->o->ops)
        op_times_add(&b->ops, a, pass, after);
    const double now = lt_clock_now();
    if (!after) {
        l->begin_s = now;
        return;
    }
    l->n++;
    if (bench_on_gpu(b) && now - l->begin_s > longest_launch_s)
        l->waited_s += now - l->begin_s;
}

static void watch_action(void *ctx, const lt_program *p, int32_t number, lt_stream *s, bool after)
{
    const bench *b = ctx;
    const lt_watch trace = b->trace ? lt_trace_watch(b->trace) : (lt_watch){0};
    if (trace.action)
        trace.action(trace.ctx, p, number, s, after);
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
        .keep_attention = b->o->keep_attention,
        .forward_prefetch = lt_int(b->o->forward_prefetch),
        .backward_prefetch = lt_int(b->o->backward_prefetch),
        .reshard_after_forward = !b->o->keep_gathered,
        .ranks = b->ranks,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .lr_scale = 1.0},
        .update_early = true,
        .watch = {.ctx = b, .kernel = watch_kernel, .action = watch_action}};
    if (st == LT_OK)
        st = lt_exec_create(&opts, &b->exec);
    lt_mem_free(policies);
    return st;
}

/* ---- steps ---- */

static lt_status end_step(bench *b, bench_measured *m)
{
    lt_step_result r;
    LT_TRY(lt_exec_end(b->exec, &r));
    m->loss[m->n_done++] = r.loss;
    return LT_OK;
}

// A GPU works on a step while the host prepares the next one, as in training.
static lt_status begin_step(bench *b, bench_measured *m, int number)
{
    const double begin = lt_clock_now(), waited = lt_exec_waited_s(b->exec) + b->launches.waited_s;
    LT_TRY(lt_exec_begin(b->exec, &b->batch.view, 1, number, 1e-5, NULL));
    m->host_s +=
        lt_clock_now() - begin - (lt_exec_waited_s(b->exec) + b->launches.waited_s - waited);
    const int64_t ahead = b->device->queues ? LT_EXEC_AHEAD : 1;
    return lt_exec_in_flight(b->exec) == ahead ? end_step(b, m) : LT_OK;
}

static lt_status end_all(bench *b, bench_measured *m)
{
    while (lt_exec_in_flight(b->exec) > 0)
        LT_TRY(end_step(b, m));
    return LT_OK;
}

static lt_status warm_up(bench *b, bench_measured *m)
{
    const double begin = lt_clock_now();
    LT_TRY(begin_step(b, m, 1));
    LT_TRY(end_all(b, m));
    m->first_s = lt_clock_now() - begin;
    // A GPU's first second after a rest is faster than what follows. Ranks agree on a number.
    const double until = bench_on_gpu(b) && !b->ranks ? begin + warm_s : 0.0;
    while (m->n_done < m->n_warm || (lt_clock_now() < until && m->n_done < BENCH_MAX_WARM - 2))
        LT_TRY(begin_step(b, m, m->n_done + (int)lt_exec_in_flight(b->exec) + 1));
    m->n_warm = m->n_done;
    return LT_OK;
}

// oneDNN's rate at this moment: a shared machine changes its own from one second to the next.
static lt_status measure_beside(const bench *b, double *rate)
{
    enum { RUNS = 2 };
    bench_rate now = {0};
    if (!bench_on_gpu(b))
        LT_TRY(bench_library_peak(b->dtype, lt_pool_threads(b->pool), peak_side(b), RUNS, &now));
    *rate = now.wall;
    return LT_OK;
}

static lt_status run_steps(bench *b, bench_measured *m)
{
    double before[LT_N_ACTIONS];
    m->n_warm = !bench_on_gpu(b) ? 2 : b->ranks ? GPU_WARM_STEPS_OF_RANKS : GPU_WARM_STEPS;
    m->n = (int)b->o->iters;
    LT_TRY(warm_up(b, m));
    m->peak = bench_peak_bytes();
    m->peak_anon = bench_peak_anon_bytes(); // before the products beside the steps
    memcpy(before, lt_exec_seconds(b->exec), sizeof before);
    op_times_clear(&b->ops);
    m->host_s = 0.0;
    b->launches = (bench_launches){0};
    int number = m->n_warm + (int)lt_exec_in_flight(b->exec);
    for (int i = 0; i < m->n; i++) {
        LT_TRY(measure_beside(b, &m->beside[i]));
        const double begin = lt_clock_now(), cpu = bench_cpu_seconds();
        LT_TRY(begin_step(b, m, ++number));
        m->seconds[i] = lt_clock_now() - begin;
        m->cpu[i] = bench_cpu_seconds() - cpu;
    }
    LT_TRY(measure_beside(b, &m->beside[m->n]));
    m->host_s /= m->n;
    m->launches = b->launches.n / m->n;
    for (int k = 0; k < LT_N_ACTIONS; k++)
        m->by_action[k] = (lt_exec_seconds(b->exec)[k] - before[k]) / m->n;
    LT_TRY(end_all(b, m));
    return b->ops.status;
}

// What there is to say of memory, while the executor is there.
static lt_status look_at_memory(const bench *b, bench_measured *m)
{
    const lt_program *p = NULL;
    m->memory = lt_exec_memory_of(b->exec);
    if (b->device->memory_left)
        m->device_used = b->device->memory_bytes - b->device->memory_left(b->device);
    LT_TRY(lt_exec_program(b->exec, LT_MODE_TRAIN, &b->batch.view.extents, &p));
    m->planned = lt_program_peak(p);
    return LT_OK;
}

static lt_status write_trace(const bench *b)
{
    lt_buf text = {0};
    lt_status st = lt_trace_print(b->trace, 0, &text);
    if (st == LT_OK)
        st = lt_file_replace(b->o->profile, text.data, text.len);
    lt_buf_deinit(&text);
    return st;
}

// One more step, recorded: the measured ones are not slowed by it.
static lt_status record_step(bench *b)
{
    lt_step_result r;
    if (!b->trace)
        return LT_OK;
    lt_trace_start(b->trace);
    LT_TRY(lt_exec_step(b->exec, &b->batch.view, 1, BENCH_MAX_ITERS, 1e-5, NULL, &r));
    LT_TRY(lt_trace_stop(b->trace));
    if (!bench_is_first(b))
        return LT_OK;
    if (b->o->ops)
        LT_TRY(bench_step_print_trace(b));
    return b->o->profile ? write_trace(b) : LT_OK;
}

static lt_status open_case(bench *b, bench_measured *m)
{
    const bench_shape shape = {b->o->seq, b->o->images, b->o->grid};
    const double begin = lt_clock_now();
    if (b->o->profile || (b->o->ops && bench_on_gpu(b)))
        LT_TRY(lt_trace_create(b->device, &b->trace));
    LT_TRY(bench_model_create(b->size, b->o->layers, b->o->vdepth, &b->model));
    LT_TRY(create_units(b->model, &b->units));
    LT_TRY(bench_batch_create(b->model, shape, &b->batch));
    LT_TRY(open_exec(b));
    LT_TRY(bench_weights(b->model, b->exec, b->pool));
    m->init_s = lt_clock_now() - begin;
    return LT_OK;
}

static void close_case(bench *b)
{
    lt_exec_destroy(b->exec);
    lt_trace_destroy(b->trace);
    bench_batch_destroy(&b->batch);
    lt_units_destroy(b->units);
    lt_model_destroy(b->model);
    op_times_deinit(&b->ops);
}

static lt_status measure(bench *b, bench_measured *m)
{
    LT_TRY(measure_peak(b, m));
    bench_reset_peak();
    LT_TRY(open_case(b, m));
    LT_TRY(run_steps(b, m));
    LT_TRY(look_at_memory(b, m));
    LT_TRY(record_step(b));
    lt_exec_destroy(b->exec); // its memory is wanted
    b->exec = NULL;
    if (bench_on_gpu(b))
        return bench_linear_hot(b->device, b->dtype, peak_side(b), hot_s, &m->hot);
    return measure_peak(b, m); // again, hot: the better of the two counts
}

static lt_status run_case(bench b, lt_dtype dtype)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(bench_measured), "measurements"));
    bench_measured *m = memory;
    b.dtype = dtype;
    b.ops = op_times_none();
    const lt_status st = measure(&b, m);
    if (st == LT_OK && bench_is_first(&b))
        bench_step_print(&b, m);
    close_case(&b);
    lt_mem_free(memory);
    return st;
}

/* ---- only the plan ---- */

// The counts of the made-up batch.
static lt_extents extents_of(const bench_options *o)
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
                                  .keep_attention = b->o->keep_attention,
                                  .batch_apart = strcmp(b->o->device, "cuda") == 0,
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
    LT_TRY_GOTO(st,
                lt_state_layout_create(b.model, b.units, dtype, LT_STATE_WITHOUT_GRADS,
                                       LT_HOME_DEVICE, (lt_shard){0}, &state),
                done);
    st = plan_made(&b, state, policies);
done:
    lt_state_layout_destroy(state);
    lt_mem_free(policies);
    lt_units_destroy(b.units);
    lt_model_destroy(b.model);
    return st;
}

/* ---- the program ---- */

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

static void say(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "%s: %s\n", area, text);
}

// Ranks take the GPUs of the machine in turn.
static lt_status open_device(bench *b)
{
    const int rank = b->ranks ? b->ranks->rank : 0, n = lt_gpus().n;
    if (strcmp(b->o->device, "cuda") == 0)
        return lt_cuda_open(n > 0 ? rank % n : 0, b->pool, &b->device);
    return strcmp(b->o->device, "cpu") == 0
               ? lt_cpu_open(b->pool, &b->device)
               : LT_FAIL(LT_ERR_CONFIG, "--device is %s; it must be cpu or cuda", b->o->device);
}

static lt_status open_and_run(bench *b)
{
    LT_TRY(lt_pool_create((int)lt_max_i64(b->o->ranks > 1, b->o->threads / b->o->ranks), &b->pool));
    lt_status st = open_device(b);
    const lt_log log = {.fn = say};
    if (st == LT_OK) {
        if (bench_is_first(b))
            b->device->log = &log; // which kernels of the libraries serve
        st = run_dtypes(b);
    }
    lt_device_close(b->device);
    lt_pool_destroy(b->pool);
    return st;
}

static lt_status run_rank(void *ctx, lt_group *world)
{
    bench b = *(const bench *)ctx;
    const int64_t n = b.o->ranks, copies = strcmp(b.o->layout, "ddp") == 0    ? n
                                           : strcmp(b.o->layout, "hsdp") == 0 ? 2
                                                                              : 1;
    const lt_mesh_sizes sizes = {copies, n / copies, 1, 1, 1};
    lt_ranks ranks;
    LT_TRY(lt_ranks_open(world, &sizes, &ranks));
    b.ranks = &ranks;
    const lt_status st = open_and_run(&b);
    lt_ranks_close(&ranks);
    return st;
}

static lt_status run(const bench_options *o)
{
    bench b = {.o = o, .commit = bench_commit_of(LT_SOURCE_DIR), .size = bench_size_of(o->preset)};
    if (!b.size)
        return LT_FAIL(LT_ERR_CONFIG, "--preset is %s; it must be one of %s", o->preset,
                       bench_size_names());
    if (o->plan)
        return run_dtypes(&b);
    LT_TRY(bench_use_products(o->products));
    return o->ranks > 1 ? lt_local_run(lt_int(o->ranks), run_rank, &b) : open_and_run(&b);
}

int main(int argc, char **argv)
{
    bench_options o;
    const char *wrong = NULL;
    if (!bench_step_parse(argc, argv, &o, &wrong))
        return bench_step_usage(wrong && strcmp(wrong, "--help") != 0 ? wrong : NULL);
    if (run(&o) == LT_OK)
        return 0;
    (void)fprintf(stderr, "step: %s\n", lt_error_message());
    return 1;
}
