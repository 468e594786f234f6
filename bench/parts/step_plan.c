// SPDX-License-Identifier: Apache-2.0
// Printing a plan.
#include "bench/parts/step_plan.h"

#include "base/memory.h"
#include "graph/differentiate.h"
#include "plan/peak.h"

#include <stdio.h>

static double gib(int64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

static void print_peak(const lt_program *p)
{
    const lt_peak peak = lt_program_peak(p);
    const lt_action *a = lt_action_at(p, peak.action);
    const bool block = a->kind == LT_ACT_FORWARD || a->kind == LT_ACT_BACKWARD;
    if (p->batch_bytes > 0)
        printf(", \"batches\": %.2f", gib(LT_BATCHES_APART * p->batch_bytes));
    printf(", \"step_pool\": %.2f, \"peak_at\": \"%s%s%s\", \"alive\": %.2f", gib(p->step_bytes),
           lt_action_name(a->kind), block ? " " : "",
           block ? p->opts.model->blocks[a->subject].name : "", gib(peak.alive));
    for (int k = 0; k < LT_N_BUFFER_KINDS; k++)
        if (peak.kind[k] > 1 << 20)
            printf(", \"%s\": %.2f", lt_buffer_kind_name((lt_buffer_kind)k), gib(peak.kind[k]));
}

// Where a value comes from: its op, and which output.
static void print_value(const lt_compiled *c, lt_val v)
{
    const lt_value *value = lt_value_at(&c->graph, v);
    const char *op = value->kind == LT_VALUE_NODE && value->node != LT_NONE
                         ? lt_node_at(&c->graph, value->node)->def->name
                         : "gradient";
    (void)fprintf(stderr, "    %9.1f MiB  %s %s\n",
                  (double)lt_tensor_bytes(&value->tensor) / (1 << 20), op,
                  lt_shape_print(&value->tensor).s);
}

static void print_scratch(const lt_vec *list)
{
    for (int64_t k = 0; k < list->n; k++) {
        const lt_instr *x = &LT_AT(list, lt_instr, k);
        if (x->scratch_bytes > 16 << 20) {
            (void)fprintf(stderr, "    %9.1f MiB  scratch of %s%s\n",
                          (double)x->scratch_bytes / (1 << 20), x->def->name,
                          x->pass == LT_BACKWARD ? " backward" : "");
        }
    }
}

static void print_compiled(const lt_program *p, int32_t block)
{
    const lt_compiled *c = p->compiled[block];
    (void)fprintf(stderr, "%s: saved %.3f GiB, workspace %.3f forward, %.3f backward\n",
                  p->opts.model->blocks[block].name, gib(c->saved_bytes), gib(c->forward_bytes),
                  gib(c->backward_bytes));
    for (int64_t v = 0; v < c->slots.n; v++)
        if (lt_slot_at(c, (lt_val)v)->place == LT_PLACE_SAVED)
            print_value(c, (lt_val)v);
    print_scratch(&c->forward);
    print_scratch(&c->backward);
}

lt_status bench_print_plan(const char *size, const char *policy, const lt_state_layout *state,
                           const lt_program *p, bool details)
{
    printf("{\"case\": \"plan\", \"size\": \"%s\", \"policy\": \"%s\", \"gib\": {\"sum\": %.2f, "
           "\"state\": %.2f",
           size, policy, gib(state->bytes + p->step_bytes + LT_BATCHES_APART * p->batch_bytes),
           gib(state->bytes));
    for (int part = 0; part < LT_N_STATE_PARTS; part++)
        printf(", \"%s\": %.2f", lt_state_part_name((lt_state_part)part),
               gib(state->part_bytes[part]));
    print_peak(p);
    printf("}, \"actions\": %lld}\n", (long long)p->actions.n);
    for (int32_t b = 0; details && b < p->opts.model->n_blocks; b++) {
        bool first = p->compiled[b] != NULL;
        for (int32_t o = 0; first && o < b; o++)
            first = p->compiled[o] != p->compiled[b];
        if (first)
            print_compiled(p, b);
    }
    return LT_OK;
}
