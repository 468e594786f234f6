// SPDX-License-Identifier: Apache-2.0
// Wording a plan.
#include "train/plan_text.h"

#include "train/advise.h"
#include "train/plan_picture.h"

#include <stdio.h>

static lt_status print_bytes(const char *indent, int width, const char *name, int64_t bytes,
                             lt_buf *out)
{
    return lt_buf_printf(out, "%s%-*s %14lld bytes  %s\n", indent, width, name, (long long)bytes,
                         lt_bytes_text(bytes).s);
}

static lt_status print_heading(const lt_plan_text *p, lt_buf *out)
{
    const lt_engine *e = p->engine;
    LT_TRY(
        lt_buf_printf(out, "%s: %s parameters, %s trained, compute %s\n",
                      e->model->config.model_type, lt_count_text(lt_model_total(e->model, false)).s,
                      lt_count_text(lt_model_total(e->model, true)).s, lt_dtype_name(e->compute)));
    if (!e->ranks || e->ranks->size == 1)
        return LT_OK;
    return lt_buf_printf(out, "the first of %lld ranks; parameters in %d pieces\n",
                         (long long)e->ranks->size, e->ranks->shard.size);
}

static lt_status print_state(const lt_forecast *f, lt_state_home home, lt_buf *out)
{
    for (int p = 0; p < LT_N_STATE_PARTS; p++) {
        const char *name = lt_state_part_name((lt_state_part)p);
        if (f->state_part[p] > 0 && !lt_state_on_host(home, (lt_state_part)p))
            LT_TRY(print_bytes("  ", 28, name, f->state_part[p], out));
    }
    for (int p = 0; p < LT_N_STATE_PARTS; p++) {
        const char *name = lt_state_part_name((lt_state_part)p);
        if (f->state_part[p] > 0 && lt_state_on_host(home, (lt_state_part)p))
            LT_TRY(print_bytes("  host: ", 22, name, f->state_part[p], out));
    }
    return LT_OK;
}

static lt_status print_step(const lt_plan_text *p, lt_buf *out)
{
    const lt_forecast *f = p->forecast;
    const lt_action *a = lt_action_at(f->program, f->peak.action);
    const bool block = a->kind == LT_ACT_FORWARD || a->kind == LT_ACT_BACKWARD;
    LT_TRY(print_bytes("  ", 28, "step pool", f->step, out));
    if (f->batch > 0)
        LT_TRY(print_bytes("  ", 28, "batches, two at a time", f->batch, out));
    if (f->validation == f->step)
        LT_TRY(lt_buf_text(out, "    (a validation needs it; what follows is of training)\n"));
    LT_TRY(lt_buf_printf(out, "    at its peak, %s %s:\n", lt_action_name(a->kind),
                         block ? p->engine->model->blocks[a->subject].name : ""));
    for (int k = 0; k < LT_N_BUFFER_KINDS; k++) {
        if (f->peak.kind[k] > 0)
            LT_TRY(print_bytes("    ", 26, lt_buffer_kind_name((lt_buffer_kind)k), f->peak.kind[k],
                               out));
    }
    LT_TRY(lt_buf_text(out, "    counts of that batch:"));
    for (int x = 0; x < LT_N_EXTENTS; x++)
        LT_TRY(lt_buf_printf(out, " %s %lld", lt_extent_name((lt_extent)x),
                             (long long)f->largest.n[x]));
    return lt_buf_text(out, "\n");
}

static int64_t device_bytes(const lt_forecast *f)
{
    return f->state + f->step + f->batch;
}

// What a step keeps there, and what of the state lies there.
static int64_t host_bytes(const lt_forecast *f)
{
    return f->host_pool + f->host_state;
}

static lt_status print_sums(const lt_forecast *f, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "device pool in all: %lld bytes, %s; batches on the host: about %s\n",
                         (long long)device_bytes(f), lt_bytes_text(device_bytes(f)).s,
                         lt_bytes_text(f->host).s));
    if (host_bytes(f) > 0)
        LT_TRY(lt_buf_printf(out, "on the host in all: %lld bytes, %s\n", (long long)host_bytes(f),
                             lt_bytes_text(host_bytes(f)).s));
    if (f->worst_case)
        return lt_buf_text(
            out, "(the worst case that cutoff_len, micro_batch_size and the pixel limits allow)\n");
    return lt_buf_printf(out, "(from the data: %lld steps looked at, %lld programs)\n",
                         (long long)f->n_steps, (long long)f->n_programs);
}

static lt_status print_time(const lt_plan_text *p, const lt_cost *c, lt_buf *out)
{
    const lt_cost_opts o = lt_trial_cost_opts(p->engine, &p->forecast->largest, p->rates);
    const double tokens = (double)p->forecast->largest.n[LT_EXT_TOKENS] * (double)o.n_micro *
                          (double)(p->engine->ranks ? p->engine->ranks->dp_size : 1);
    LT_TRY(lt_buf_printf(out, "a step of that batch on %s: about %.*f ms, %.0f tokens/s\n",
                         p->rates->name, c->step_s < 0.01 ? 2 : 0, c->step_s * 1e3,
                         tokens / c->step_s));
    for (int i = 0; i < LT_N_CAUSES; i++) {
        if (c->cause[i] > 0.0005 * c->step_s)
            LT_TRY(lt_buf_printf(out, "  %-44s %10.1f ms %5.1f %%\n", lt_cause_name((lt_cause)i),
                                 c->cause[i] * 1e3, c->cause[i] / c->step_s * 100.0));
    }
    if (o.ranks > 1) {
        LT_TRY(lt_buf_printf(out, "traffic of a rank: %s gathered, %s of sums\n",
                             lt_bytes_text((int64_t)c->gathered).s,
                             lt_bytes_text((int64_t)c->reduced).s));
    }
    if (host_bytes(p->forecast) > 0)
        LT_TRY(lt_buf_printf(out, "to the host %s, from it %s\n", lt_bytes_text((int64_t)c->down).s,
                             lt_bytes_text((int64_t)c->up).s));
    return LT_OK;
}

static lt_status print_verdict(const lt_plan_text *p, const lt_cost *c, lt_buf *out)
{
    const lt_forecast *f = p->forecast;
    const lt_trial now = {device_bytes(f), host_bytes(f), c->step_s};
    if (p->memory <= 0)
        return LT_OK;
    if (now.device <= p->memory)
        return lt_buf_printf(out, "it fits into %s\n", lt_bytes_text(p->memory).s);
    LT_TRY(lt_buf_printf(out, "it does NOT fit into %s; ", lt_bytes_text(p->memory).s));
    return lt_advise(p->engine, &f->largest, p->memory, p->rates, &now, out);
}

lt_status lt_plan_text_print(const lt_plan_text *p, lt_buf *out)
{
    const lt_cost_opts o = lt_trial_cost_opts(p->engine, &p->forecast->largest, p->rates);
    lt_cost cost;
    LT_TRY(print_heading(p, out));
    LT_TRY(print_state(p->forecast, p->engine->home, out));
    LT_TRY(print_step(p, out));
    LT_TRY(print_sums(p->forecast, out));
    LT_TRY(lt_program_cost(p->forecast->program, &o, NULL, &cost));
    LT_TRY(print_time(p, &cost, out));
    return print_verdict(p, &cost, out);
}

lt_status lt_plan_text_svg(const lt_plan_text *p, lt_buf *out)
{
    const lt_cost_opts o = lt_trial_cost_opts(p->engine, &p->forecast->largest, p->rates);
    const lt_program *program = p->forecast->program;
    int64_t near[LT_N_STATE_PARTS];
    for (int part = 0; part < LT_N_STATE_PARTS; part++) {
        const bool away = lt_state_on_host(p->engine->home, (lt_state_part)part);
        near[part] = away ? 0 : p->forecast->state_part[part];
    }
    char title[160];
    void *memory = NULL;
    lt_cost cost;
    (void)snprintf(title, sizeof title, "Memory of a step: %s on %s, %lld tokens",
                   p->engine->model->config.model_type, p->rates->name,
                   (long long)p->forecast->largest.n[LT_EXT_TOKENS]);
    LT_TRY(lt_mem_alloc(&memory, (size_t)program->actions.n * sizeof(double), "times of actions"));
    const lt_plan_picture picture = {.program = program,
                                     .state_part = near,
                                     .batch = p->forecast->batch,
                                     .limit = p->memory,
                                     .begin_s = memory,
                                     .title = title};
    lt_status st = lt_program_cost(program, &o, memory, &cost);
    if (st == LT_OK)
        st = lt_plan_picture_svg(&picture, out);
    lt_mem_free(memory);
    return st;
}
