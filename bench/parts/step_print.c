// SPDX-License-Identifier: Apache-2.0
// The JSON line of a measured case, and the tables of a recorded step.
#include "bench/parts/step_case.h"
#include "device/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double gib(int64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

static void print_planned(const bench_measured *m)
{
    static const char *const keys[LT_N_STATE_PARTS] = {"parameters", "remainders", "gradients",
                                                       "first_moments", "second_moments"};
    const lt_exec_memory mem = m->memory;
    printf(", \"planned\": {");
    for (int p = 0; p < LT_N_STATE_PARTS; p++)
        printf("\"%s\": %lld, ", keys[p], (long long)mem.state_part[p]);
    printf("\"step_pool\": %lld, \"step_pool_used\": %lld, \"batches\": %lld, \"sum\": %lld}",
           (long long)mem.step, (long long)mem.step_used, (long long)mem.batch,
           (long long)mem.state + mem.step + mem.batch);
    printf(", \"step_pool_at_peak\": {");
    for (int k = 0, n = 0; k < LT_N_BUFFER_KINDS; k++) {
        if (m->planned.kind[k] > 0)
            printf("%s\"%s\": %lld", n++ ? ", " : "", lt_buffer_kind_name((lt_buffer_kind)k),
                   (long long)m->planned.kind[k]);
    }
    printf("}");
}

static void print_memory(const bench *b, const bench_measured *m)
{
    const lt_exec_memory mem = m->memory;
    const int64_t planned = mem.state + mem.step + mem.batch;
    if (bench_on_gpu(b)) { // the device's memory: all that is taken there
        printf(", \"peak_gib\": %.2f, \"reserved_gib\": %.2f, \"device_used_gib\": %.2f",
               gib(mem.state + mem.step_used + mem.batch), gib(planned), gib(m->device_used));
    } else {
        printf(", \"peak_gib\": %.2f, \"reserved_gib\": null", gib(m->peak));
    }
    print_planned(m);
    printf(
        ", \"planned_gib\": %.3f, \"resident_anon_gib\": %.3f, \"resident_over_planned_mib\": %.1f",
        gib(planned), gib(m->peak_anon), (double)(m->peak_anon - planned) / (1 << 20));
}

// What the parts of a step can take at an H200's hot rates, in tokens a second, the tower frozen.
// `again`: with all layers recomputed.
static const struct {
    const char *size;
    int64_t seq, images;
    double once, again;
} floors[] = {{"4b", 16384, 10, 13000.0, 10300.0},
              {"8b", 16384, 10, 8600.0, 6900.0},
              {"2b", 16384, 10, 28100.0, 23000.0},
              {"4b", 4096, 2, 16700.0, 0.0}};

static void print_floor(const bench *b, double tok_s)
{
    const bench_options *o = b->o;
    double floor = 0.0;
    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
        if (strcmp(floors[i].size, b->size->name) == 0 && floors[i].seq == o->seq &&
            floors[i].images == o->images && o->grid == 64 && !o->layers && !o->vdepth)
            floor = strcmp(o->policy, "full") == 0 ? floors[i].again : floors[i].once;
    }
    if (bench_on_gpu(b) && floor > 0.0)
        printf(", \"floor_tok_s\": %.0f, \"floor_share\": %.4f", floor, tok_s / floor);
}

// The steps' rates, each over the mean of oneDNN's right before and right after it: their median.
static double mfu_beside(const bench_measured *m, double flops)
{
    double share[BENCH_MAX_ITERS];
    for (int i = 0; i < m->n; i++) {
        const double rate = (m->beside[i] + m->beside[i + 1]) / 2.0;
        share[i] = rate > 0.0 ? flops / m->seconds[i] / rate : 0.0;
    }
    qsort(share, (size_t)m->n, sizeof(double), by_value);
    return share[m->n / 2];
}

static void print_beside(const bench *b, const bench_measured *m)
{
    const bench_shape shape = {b->o->seq, b->o->images, b->o->grid};
    if (bench_on_gpu(b))
        return;
    printf(", \"onednn_beside_tflops\": [");
    for (int i = 0; i <= m->n; i++)
        printf("%s%.3f", i ? ", " : "", m->beside[i] / 1e12);
    printf("], \"mfu_beside\": %.4f", mfu_beside(m, bench_flops(b->model, shape)));
}

static void print_rates(const bench *b, const bench_measured *m, double median, double by_cpu)
{
    const bench_rate best = bench_rate_max(m->library, m->linear),
                     peak = bench_on_gpu(b) ? m->hot : best;
    const bench_shape shape = {b->o->seq, b->o->images, b->o->grid};
    const double flops = bench_flops(b->model, shape);
    printf(", \"model_tflops\": %.4f, \"matmul_tflops\": %.4f, \"mfu\": %.4f, \"mfu_best\": %.4f",
           flops / median / 1e12, peak.wall / 1e12, flops / median / peak.wall,
           flops / m->seconds[0] / peak.wall);
    if (bench_on_gpu(b)) {
        printf(", \"matmul_cool_tflops\": %.4f", best.wall / 1e12);
        return;
    }
    printf(", \"matmul_cpu_tflops\": %.4f, \"mfu_cpu\": %.4f", peak.cpu / 1e12,
           peak.cpu > 0.0 ? flops / by_cpu / peak.cpu : 0.0);
    printf(", \"onednn_tflops\": %.4f, \"linear_tflops\": %.4f", m->library.wall / 1e12,
           m->linear.wall / 1e12);
}

// A GPU's actions are only issued by the host.
static void print_parts(const bench *b, const bench_measured *m, double median)
{
    const double *a = m->by_action, optimizer = a[LT_ACT_NORM] + a[LT_ACT_UPDATE];
    const double other = a[LT_ACT_AGREE] + a[LT_ACT_COPY] + a[LT_ACT_ADD] + a[LT_ACT_GATHER] +
                         a[LT_ACT_REDUCE] + a[LT_ACT_OFFLOAD] + a[LT_ACT_FETCH] + a[LT_ACT_FREE];
    if (bench_on_gpu(b)) {
        printf(", \"host_ms\": %.2f, \"host_share\": %.4f, \"kernel_calls\": %lld", m->host_s * 1e3,
               m->host_s / median, (long long)m->launches);
        return;
    }
    printf(", \"forward_ms\": %.1f, \"backward_ms\": %.1f, \"optimizer_ms\": %.1f, "
           "\"optimizer_share\": %.4f, \"other_ms\": %.1f",
           a[LT_ACT_FORWARD] * 1e3, a[LT_ACT_BACKWARD] * 1e3, optimizer * 1e3, optimizer / median,
           other * 1e3);
}

static void print_times(const bench *b, bench_measured *m)
{
    double cpu[BENCH_MAX_ITERS];
    memcpy(cpu, m->cpu, sizeof cpu);
    qsort(m->seconds, (size_t)m->n, sizeof(double), by_value);
    qsort(cpu, (size_t)m->n, sizeof(double), by_value);
    const double median = m->seconds[m->n / 2], p10 = m->seconds[m->n / 10],
                 p90 = m->seconds[m->n * 9 / 10], tok_s = (double)b->o->seq / median;
    printf(", \"ms\": %.1f, \"p10\": %.1f, \"p90\": %.1f, \"spread\": %.4f, \"best\": %.1f, "
           "\"cpu_ms\": %.1f, \"steps\": %d, \"tok_s\": %.0f",
           median * 1e3, p10 * 1e3, p90 * 1e3, (p90 - p10) / median, m->seconds[0] * 1e3,
           cpu[m->n / 2] * 1e3, m->n, tok_s);
    print_floor(b, tok_s);
    print_rates(b, m, median, cpu[m->n / 2] / lt_pool_threads(b->pool));
    print_parts(b, m, median);
    printf(", \"init_s\": %.2f, \"first_step_s\": %.2f", m->init_s, m->first_s);
}

void bench_step_print(const bench *b, bench_measured *m)
{
    const bool f32 = b->dtype == LT_F32, recompute = strcmp(b->o->policy, "keep") != 0;
    printf("{\"case\": \"step\", \"mode\": \"%s\", \"size\": \"%s\", \"layers\": %lld, \"vdepth\": "
           "%lld, \"seq\": %lld, \"images\": %lld, "
           "\"grid\": %lld, \"recompute\": %s, \"policy\": \"%s%s\", \"chunk_loss\": true, "
           "\"compile\": false, \"attn\": \"default\"",
           f32 ? "fp32" : "bf16", b->size->name, (long long)b->model->config.text.layers,
           (long long)b->model->config.vision.depth, (long long)b->o->seq, (long long)b->o->images,
           (long long)b->o->grid, recompute ? "true" : "false", b->o->policy,
           b->o->keep_attention ? " and attention" : "");
    if (b->ranks) {
        printf(", \"ranks\": %d, \"layout\": \"%s\", \"prefetch\": [%lld, %lld], \"reshard\": %s",
               b->ranks->size, b->o->layout, (long long)b->o->forward_prefetch,
               (long long)b->o->backward_prefetch, b->o->keep_gathered ? "false" : "true");
    }
    print_beside(b, m); // before print_times sorts the steps
    print_times(b, m);
    print_memory(b, m);
    printf(", \"device\": \"%s\", \"description\": \"%s\", \"matmul\": \"%s\", \"threads\": %d, "
           "\"commit\": \"%s\", \"losses\": [",
           b->device->name, b->device->description,
           bench_on_gpu(b) ? b->device->name : lt_cpu_gemm_name(), lt_pool_threads(b->pool),
           b->commit.s);
    for (int i = 0; i < m->n_done; i++)
        printf("%s%.4f", i ? ", " : "", m->loss[i]);
    printf("]}\n");
    (void)fflush(stdout);
    if (b->o->ops && !b->trace) {
        double sum = 0.0;
        for (int i = 0; i < m->n; i++)
            sum += m->cpu[i] / m->n;
        op_times ops = b->ops;
        op_times_print(&ops, m->n, sum, lt_pool_threads(b->pool));
    }
}

/* ---- the recorded step ---- */

lt_status bench_step_print_trace(const bench *b)
{
    lt_buf text = {0};
    lt_status st = lt_trace_tables(b->trace, &text);
    if (st == LT_OK)
        (void)fprintf(stderr, "a recorded step (%s, %s, %lld tokens)\n%s", b->size->name,
                      b->o->policy, (long long)b->o->seq, text.data);
    lt_buf_deinit(&text);
    return st;
}
