// SPDX-License-Identifier: Apache-2.0
// The table of kernel times.
#include "bench/parts/op_times.h"

#include "base/log.h"
#include "bench/parts/process.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct row {
    const lt_op_def *def;
    lt_pass pass;
    lt_tensor in[2];    // the first two inputs' shapes
    bool weight, input; // backward: which of the first two gradients are asked for
    int64_t calls;
    double wall, cpu, flops;
} row;

op_times op_times_none(void)
{
    return (op_times){.rows = LT_VEC_OF(row)};
}

void op_times_deinit(op_times *t)
{
    lt_vec_deinit(&t->rows);
}

void op_times_clear(op_times *t)
{
    lt_vec_clear(&t->rows);
}

// A backward kernel is not given the inputs that it doesn't read; their gradient has their shape.
static const lt_tensor *shape_of(const lt_op_args *a, int i)
{
    return a->in[i] ? a->in[i] : a->din[i] ? a->din[i] : i == 0 ? a->dout[0] : NULL;
}

static bool same(const row *x, const row *y)
{
    return x->def == y->def && x->pass == y->pass && x->weight == y->weight &&
           x->input == y->input && lt_same_shape(&x->in[0], &y->in[0]) &&
           lt_same_shape(&x->in[1], &y->in[1]);
}

static double flops_of(const lt_op_args *a, const row *r)
{
    if (!a->def->flops || !a->in[0] || !a->in[1])
        return 0.0;
    const double forward = (double)a->def->flops(a);
    if (r->pass == LT_FORWARD)
        return forward;
    return forward * (r->weight + r->input + ((a->def->flags & LT_OP_YIELDS_IN_BACKWARD) != 0));
}

static row *row_of(op_times *t, const row *like)
{
    for (int64_t i = 0; i < t->rows.n; i++)
        if (same(&LT_AT(&t->rows, row, i), like))
            return &LT_AT(&t->rows, row, i);
    t->status = lt_vec_push(&t->rows, like);
    return t->status == LT_OK ? &LT_AT(&t->rows, row, t->rows.n - 1) : NULL;
}

void op_times_add(void *ctx, const lt_op_args *a, lt_pass pass, bool after)
{
    op_times *t = ctx;
    if (!after) {
        t->wall = lt_clock_now();
        t->cpu = bench_cpu_seconds();
        return;
    }
    const double wall = lt_clock_now() - t->wall, cpu = bench_cpu_seconds() - t->cpu;
    row now = {.def = a->def,
               .pass = pass,
               .input = pass == LT_BACKWARD && a->din[0],
               .weight = pass == LT_BACKWARD && a->din[1]};
    for (int i = 0; i < 2; i++)
        if (shape_of(a, i))
            now.in[i] = lt_tensor_like(shape_of(a, i));
    row *to = row_of(t, &now);
    if (!to)
        return;
    to->calls++;
    to->wall += wall;
    to->cpu += cpu;
    to->flops += flops_of(a, to);
}

static int dearest_first(const void *x, const void *y)
{
    const row *a = x, *b = y;
    return (a->cpu < b->cpu) - (a->cpu > b->cpu);
}

static void print_row(const row *r, int steps, double step_cpu_s, int threads)
{
    char shapes[200], pass[16];
    (void)snprintf(shapes, sizeof shapes, "%s %s", lt_shape_print(&r->in[0]).s,
                   r->in[1].rank ? lt_shape_print(&r->in[1]).s : "");
    (void)snprintf(pass, sizeof pass, "%s%s%s", r->pass == LT_FORWARD ? "forward" : "back",
                   r->input ? " dx" : "", r->weight ? " dw" : "");
    (void)fprintf(stderr, "%-20s %-10s %-36s %6.1f %9.2f %9.2f %5.1f%% %8.1f\n", r->def->name, pass,
                  shapes, (double)r->calls / steps, r->wall / steps * 1e3, r->cpu / steps * 1e3,
                  r->cpu / steps / step_cpu_s * 100,
                  r->cpu > 0.0 ? r->flops * threads / r->cpu / 1e9 : 0.0);
}

void op_times_print(op_times *t, int steps, double step_cpu_s, int threads)
{
    double wall = 0.0, cpu = 0.0;
    qsort(t->rows.data, (size_t)t->rows.n, sizeof(row), dearest_first);
    (void)fprintf(stderr, "%-20s %-10s %-36s %6s %9s %9s %6s %8s\n", "op", "pass", "inputs",
                  "calls", "ms", "cpu ms", "share", "GFLOP/s");
    for (int64_t i = 0; i < t->rows.n; i++) {
        const row *r = &LT_AT(&t->rows, row, i);
        print_row(r, steps, step_cpu_s, threads);
        wall += r->wall;
        cpu += r->cpu;
    }
    (void)fprintf(stderr, "%-75s %9.2f %9.2f %5.1f%%\n", "all kernels of blocks",
                  wall / steps * 1e3, cpu / steps * 1e3, cpu / steps / step_cpu_s * 100);
}
