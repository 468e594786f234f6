// SPDX-License-Identifier: Apache-2.0
// plan: how long it takes to compile and to check the step program of published sizes, and what it
// is.
#include "bench/parts/made_model.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 5 };

typedef struct timed {
    double create_s, check_s; // best of RUNS
} timed;

static double least(double a, double b)
{
    return a < b ? a : b;
}

static lt_status time_program(const lt_program_opts *opts, timed *t, lt_program **out)
{
    lt_program *p = NULL;
    *t = (timed){1e30, 1e30};
    for (int i = 0; i < RUNS; i++) {
        lt_program_destroy(p);
        p = NULL;
        double begin = lt_clock_now();
        LT_TRY(lt_program_create(opts, &p));
        t->create_s = least(t->create_s, lt_clock_now() - begin);
        begin = lt_clock_now();
        const lt_status st = lt_program_check(p);
        t->check_s = least(t->check_s, lt_clock_now() - begin);
        if (st != LT_OK) {
            lt_program_destroy(p);
            return st;
        }
    }
    *out = p;
    return LT_OK;
}

static void print_case(const bench_size *size, lt_policy policy, int32_t n_units,
                       const lt_program *p, timed t)
{
    printf("{\"case\": \"program\", \"size\": \"%s\", \"policy\": \"%s\", \"units\": %d, "
           "\"actions\": %lld, \"waits\": %lld, "
           "\"buffers\": %lld, \"step_gib\": %.2f, \"create_ms\": %.2f, \"check_ms\": %.2f}\n",
           size->name, lt_policy_name(policy), n_units, (long long)p->actions.n,
           (long long)p->waits.n, (long long)p->buffers.n,
           (double)p->step_bytes / (double)(1 << 30), t.create_s * 1e3, t.check_s * 1e3);
}

static lt_status time_policy(const bench_size *size, const lt_model *m, const lt_units *units,
                             const lt_state_layout *state, lt_policy policy)
{
    // A sequence of 16384 with ten pictures of 1024 x 1024 pixels.
    const lt_extents capacity = {{[LT_EXT_TOKENS] = 16384,
                                  [LT_EXT_SAMPLES] = 1,
                                  [LT_EXT_PATCHES] = 40960,
                                  [LT_EXT_MERGED] = 10240,
                                  [LT_EXT_FRAMES] = 10,
                                  [LT_EXT_TARGETS] = 6144}};
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)m->n_blocks * sizeof(lt_policy), "policies"));
    lt_policy *policies = memory;
    for (int32_t b = 0; b < m->n_blocks; b++)
        policies[b] = policy;
    const lt_program_opts opts = {.model = m,
                                  .units = units,
                                  .state = state,
                                  .mode = LT_MODE_TRAIN,
                                  .compute = LT_BF16,
                                  .capacity = capacity,
                                  .policy = policies,
                                  .forward_prefetch = 1,
                                  .reshard_after_forward = true};
    lt_program *p = NULL;
    timed t;
    const lt_status st = time_program(&opts, &t, &p);
    if (st == LT_OK)
        print_case(size, policy, units->n_units, p, t);
    lt_program_destroy(p);
    lt_mem_free(memory);
    return st;
}

static lt_status time_size(const bench_size *size)
{
    static const char *const patterns[] = {"model.visual.blocks.{*}",
                                           "model.language_model.layers.{*}"};
    lt_model *m = NULL;
    lt_units *units = NULL;
    lt_state_layout *state = NULL;
    lt_status st;
    LT_TRY_GOTO(st, bench_model_create(size, 0, 0, &m), done);
    LT_TRY_GOTO(st, lt_units_create(m, patterns, 2, NULL, &units), done);
    LT_TRY_GOTO(st,
                lt_state_layout_create(m, units, LT_BF16, LT_STATE_WHOLE, LT_HOME_DEVICE,
                                       (lt_shard){0}, &state),
                done);
    LT_TRY_GOTO(st, time_policy(size, m, units, state, LT_KEEP), done);
    st = time_policy(size, m, units, state, LT_FULL);
done:
    lt_state_layout_destroy(state);
    lt_units_destroy(units);
    lt_model_destroy(m);
    return st;
}

int main(void)
{
    static const char *const sizes[] = {"2b", "8b", "32b"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (time_size(bench_size_of(sizes[i])) != LT_OK) {
            (void)fprintf(stderr, "plan: %s\n", lt_error_message());
            return 1;
        }
    }
    return 0;
}
