// SPDX-License-Identifier: Apache-2.0
// lathe plan: memory and program of a run, before it starts and without its weights.
#include "cli/with_config.h"
#include "comm/local.h"
#include "train/forecast.h"
#include "train/team.h"

#include <string.h>

extern const lt_command lt_command_plan;

typedef struct options {
    bool program, worst;
    int64_t steps, memory, ranks;
} options;

static const lt_arg args[] = {
    {"--program", 0, LT_ARG_FLAG, offsetof(options, program), NULL,
     "print the step program of the largest batch", 0, 0},
    {"--worst-case", 0, LT_ARG_FLAG, offsetof(options, worst), NULL,
     "from cutoff_len and the pixel limits, without reading data", 0, 0},
    {"--steps", 0, LT_ARG_INT, offsetof(options, steps), "N",
     "look at the first N steps (default: all, at most 100000)", 1, 100000},
    {"--device-memory", 0, LT_ARG_BYTES, offsetof(options, memory), "SIZE",
     "say whether the run fits into so much (64GiB)", 0, 0},
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N",
     "of the first of N ranks, as lathe train -n N has them", 1, LT_MAX_LOCAL_RANKS},
};

static lt_status print_state(const lt_forecast *f, lt_buf *out)
{
    for (int p = 0; p < LT_N_STATE_PARTS; p++) {
        if (f->state_part[p] > 0) {
            LT_TRY(lt_buf_printf(out, "  %-28s %14lld bytes  %s\n",
                                 lt_state_part_name((lt_state_part)p), (long long)f->state_part[p],
                                 lt_bytes_text(f->state_part[p]).s));
        }
    }
    return LT_OK;
}

static lt_status print_step(const lt_engine *e, const lt_forecast *f, lt_buf *out)
{
    const lt_action *a = lt_action_at(f->program, f->peak.action);
    const bool block = a->kind == LT_ACT_FORWARD || a->kind == LT_ACT_BACKWARD;
    LT_TRY(lt_buf_printf(out, "  %-28s %14lld bytes  %s\n", "step pool", (long long)f->step,
                         lt_bytes_text(f->step).s));
    if (f->batch > 0)
        LT_TRY(lt_buf_printf(out, "  %-28s %14lld bytes  %s\n", "batches, two at a time",
                             (long long)f->batch, lt_bytes_text(f->batch).s));
    if (f->validation == f->step)
        LT_TRY(lt_buf_text(out, "    (a validation needs it; what follows is of training)\n"));
    LT_TRY(lt_buf_printf(out, "    at its peak, %s %s:\n", lt_action_name(a->kind),
                         block ? e->model->blocks[a->subject].name : ""));
    for (int k = 0; k < LT_N_BUFFER_KINDS; k++) {
        if (f->peak.kind[k] > 0) {
            LT_TRY(lt_buf_printf(out, "    %-26s %14lld bytes  %s\n",
                                 lt_buffer_kind_name((lt_buffer_kind)k), (long long)f->peak.kind[k],
                                 lt_bytes_text(f->peak.kind[k]).s));
        }
    }
    LT_TRY(lt_buf_text(out, "    counts of that batch:"));
    for (int x = 0; x < LT_N_EXTENTS; x++)
        LT_TRY(lt_buf_printf(out, " %s %lld", lt_extent_name((lt_extent)x),
                             (long long)f->largest.n[x]));
    return lt_buf_text(out, "\n");
}

static lt_status print_verdict(const lt_forecast *f, int64_t memory, lt_buf *out)
{
    const int64_t total = f->state + f->step + f->batch;
    LT_TRY(lt_buf_printf(out, "device pool in all: %lld bytes, %s; batches on the host: about %s\n",
                         (long long)total, lt_bytes_text(total).s, lt_bytes_text(f->host).s));
    if (f->host_pool > 0)
        LT_TRY(lt_buf_printf(out, "pool on the host: %lld bytes, %s\n", (long long)f->host_pool,
                             lt_bytes_text(f->host_pool).s));
    if (f->worst_case) {
        LT_TRY(lt_buf_text(
            out,
            "(the worst case that cutoff_len, micro_batch_size and the pixel limits allow)\n"));
    } else {
        LT_TRY(lt_buf_printf(out, "(from the data: %lld steps looked at, %lld programs)\n",
                             (long long)f->n_steps, (long long)f->n_programs));
    }
    if (memory <= 0)
        return LT_OK;
    if (total <= memory)
        return lt_buf_printf(out, "it fits into %s\n", lt_bytes_text(memory).s);
    return lt_buf_printf(out,
                         "it does NOT fit into %s: recompute more blocks (features.recompute), or "
                         "shorten cutoff_len\n",
                         lt_bytes_text(memory).s);
}

static lt_status report(const lt_engine *e, const lt_forecast *f, const options *o)
{
    lt_buf out = {0};
    lt_status st =
        lt_buf_printf(&out, "%s: %s parameters, %s trained, compute %s\n",
                      e->model->config.model_type, lt_count_text(lt_model_total(e->model, false)).s,
                      lt_count_text(lt_model_total(e->model, true)).s, lt_dtype_name(e->compute));
    if (st == LT_OK && o->ranks > 1)
        st = lt_buf_printf(&out, "the first of %lld ranks; parameters in %d pieces\n",
                           (long long)o->ranks, e->ranks->shard.size);
    if (st == LT_OK)
        st = print_state(f, &out);
    if (st == LT_OK)
        st = print_step(e, f, &out);
    if (st == LT_OK)
        st = print_verdict(f, o->memory, &out);
    if (st == LT_OK && o->program)
        st = lt_program_print(f->program, &out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    return st;
}

// The data of the run; NULL, with a note, when it cannot be read here.
static lt_status open_source(const lt_config *cfg, const lt_engine *e, const options *o,
                             const lt_log *log, lt_forecast_opts *f)
{
    lt_source_opts val;
    lt_texts files;
    const char *file = NULL;
    if (o->worst)
        return LT_OK;
    lt_status st =
        lt_source_open(cfg, &cfg->data.dataset_param, NULL, e->model, e->pool, log, &f->source);
    if (st == LT_OK && cfg->training.val_interval > 0 &&
        lt_source_validation(cfg, &val, &file, &files))
        st = lt_source_open_as(cfg, &val, e->model, e->pool, log, &f->validation);
    if (st != LT_ERR_NOT_FOUND)
        return st;
    LT_NOTE(log, "plan", "the data set or tokenizer is not here, so this is the worst case: %s",
            lt_error_message());
    lt_error_clear();
    lt_source_close(f->source);
    f->source = NULL;
    return LT_OK;
}

static int64_t steps_of(const lt_config *cfg, const options *o, const lt_forecast_opts *f)
{
    int64_t steps = cfg->training.train_iters;
    const int64_t batch =
        cfg->training.micro_batch_size * cfg->training.gradient_accumulation_steps * o->ranks;
    if (f->source && cfg->training.train_epochs != LT_CFG_NONE)
        steps =
            cfg->training.train_epochs * (lt_dataset_rows(lt_source_dataset(f->source)) / batch);
    return lt_max_i64(0, lt_min_i64(steps - f->from.iteration, o->steps));
}

// A run that goes on sees the rest of its steps.
static lt_status look_ahead(const lt_config *cfg, const options *o, const lt_log *log, lt_engine *e,
                            lt_forecast_opts *f, lt_forecast *out)
{
    if (e->run && e->run->state)
        LT_TRY(lt_progress_read(e->run, &f->from));
    LT_TRY(open_source(cfg, e, o, log, f));
    f->n_steps = steps_of(cfg, o, f);
    f->memory = o->memory;
    return lt_forecast_run(e, f, out);
}

static lt_status plan(const lt_config *cfg, void *opts_of_command, const lt_log *log)
{
    const options *o = opts_of_command;
    lt_engine *e = NULL;
    lt_forecast_opts ahead = {0};
    lt_forecast f = {0};
    const lt_ranks first = lt_team_first(cfg);
    const lt_engine_opts opts = {.training = true, .ranks = o->ranks > 1 ? &first : NULL};
    lt_status st;
    LT_TRY_GOTO(st, lt_engine_open(cfg, &opts, log, &e), done);
    LT_TRY_GOTO(st, look_ahead(cfg, o, log, e, &ahead, &f), done);
    if (f.program)
        st = report(e, &f, o);
    else
        st = lt_cli_print("no step is left to be done\n");
done:
    lt_forecast_deinit(&f);
    lt_source_close(ahead.source);
    lt_source_close(ahead.validation);
    lt_engine_close(e);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {.steps = 100000, .ranks = 1};
    return lt_cli_with_ranks(self, argc, argv, &o, &o.ranks, LT_USE_PLAN, plan);
}

const lt_command lt_command_plan = {
    .name = "plan",
    .summary = "Memory and program of a run, before it starts and without its weights",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "Needs the model's config.json; with the data set at hand the figures are those of "
               "the run itself,\n"
               "to the byte. Every number of a pool is what `lathe train` allocates.\n",
    .run = run,
};
