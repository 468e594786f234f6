// SPDX-License-Identifier: Apache-2.0
// What the parts of the benchmark `step` share: its options, a case, and what was measured of it.
#ifndef LT_BENCH_STEP_CASE_H
#define LT_BENCH_STEP_CASE_H

#include "bench/parts/made_model.h"
#include "bench/parts/op_times.h"
#include "bench/parts/peak.h"
#include "bench/parts/process.h"
#include "exec/trace.h"
#include "plan/peak.h"

enum { BENCH_MAX_ITERS = 1000, BENCH_MAX_WARM = 64 };

typedef struct bench_options {
    const char *preset, *dtype, *device, *policy, *profile, *products;
    const char *layout; /* of several ranks: fsdp, hsdp, ddp */
    int64_t threads, iters, seq, images, grid, layers, vdepth;
    int64_t ranks, forward_prefetch, backward_prefetch;
    bool keep_gathered;  /* not given up after the forward */
    bool ops;            /* print the table of kernel times */
    bool keep_attention; /* where a policy recomputes all else */
    bool plan;           /* only plan: no device, no weights */
} bench_options;

/** false: *wrong is what is no option, or lacks its value. */
bool bench_step_parse(int argc, char **argv, bench_options *o, const char **wrong);
/** The help; gives the exit code. */
int bench_step_usage(const char *wrong);

/**
 * The host's time inside launches on a GPU. One that takes long has waited for room in the queue.
 */
typedef struct bench_launches {
    double begin_s, waited_s;
    int64_t n;
} bench_launches;

typedef struct bench {
    const bench_options *o;
    bench_commit commit; /* when the program started */
    const bench_size *size;
    lt_ranks *ranks; /* NULL: one */
    lt_pool *pool;
    lt_device *device;
    lt_model *model;
    lt_units *units;
    lt_exec *exec;
    bench_batch batch;
    lt_dtype dtype;
    op_times ops;
    lt_trace *trace; /* NULL: nothing is recorded */
    bench_launches launches;
} bench;

typedef struct bench_measured {
    bench_rate linear, library; /* of square products */
    bench_rate hot;             /* a GPU's, after a second of them */
    double seconds[BENCH_MAX_ITERS], cpu[BENCH_MAX_ITERS], loss[BENCH_MAX_WARM + BENCH_MAX_ITERS];
    double beside[BENCH_MAX_ITERS + 1]; /* FLOP/s of oneDNN's product before each step, and after */
    double by_action[LT_N_ACTIONS];     /* seconds of the measured steps */
    double init_s, first_s;             /* making the weights; the first step */
    double host_s;                      /* a measured step's work of the host, waits apart */
    int64_t launches;                   /* kernels of the op table in a step */
    int n_warm, n, n_done;              /* steps: before, measured, ended so far */
    int64_t peak, peak_anon, device_used;
    lt_exec_memory memory;
    lt_peak planned; /* what fills the step pool at its peak */
} bench_measured;

static inline bool bench_is_first(const bench *b)
{
    return !b->ranks || b->ranks->rank == 0;
}
static inline bool bench_on_gpu(const bench *b)
{
    return b->device->backend == LT_CUDA;
}
/** The JSON line of a case. */
void bench_step_print(const bench *b, bench_measured *m);
/** Kernels and actions of the recorded step, on stderr. */
LT_NODISCARD lt_status bench_step_print_trace(const bench *b);
#endif
